"""The costs of the engine's calls: ledger rows of answers, failures and cancelled calls."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from citewire.generator.v1 import generator_pb2 as pb

from citewire_generator.service import SUGGESTION_MARGIN_SECONDS
from citewire_kit import deadline
from citewire_kit.errors import (
    CitewireError,
)
from engine_harness import (
    BROKEN,
    DOWN,
    KEY,
    LATE,
    LIMITED,
    PASSAGES,
    SPENT,
    EngineHarness,
    answer,
)
from generator_calls import make_passage
from scripted_chat import ScriptedTurns


async def test_a_spent_budget_is_the_end() -> None:
    first, two = ScriptedTurns("one", answer("one")), ScriptedTurns("two", answer("two"))
    harness = EngineHarness(first, two)
    harness.ledger.refuse = SPENT
    assert (await harness.fails()).reason == "BUDGET_EXCEEDED"
    assert (len(first.tasks), len(two.tasks), harness.rows) == (0, 0, [])


async def test_leaving_settles_the_received_tokens() -> None:
    first = ScriptedTurns("one", ["one two three four ", asyncio.Event()])
    harness = EngineHarness(first)
    question_task = asyncio.create_task(harness.ask())
    await first.waiting.wait()
    question_task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await question_task
    (call,) = harness.ledger.rows
    assert (call.outcome, first.open) == ("cancelled", 0)
    assert call.usage is not None
    assert call.usage.estimated
    assert call.usage.output_tokens == 5
    assert call.usage.input_tokens == call.new.input_tokens > 100


async def test_the_ledger_has_the_reported_usage_and_the_price() -> None:
    harness = EngineHarness(ScriptedTurns("one", answer("one")))
    await harness.ask()
    (call,) = harness.ledger.rows
    assert call.usage is not None
    assert (call.new.purpose, call.new.model, call.new.own, call.new.price) == ("generation", "one-model", False, None)
    assert call.new.max_output_tokens == 2048
    assert (call.usage.input_tokens, call.usage.cached_input_tokens, call.usage.output_tokens) == (11, 2, 7)
    assert (call.usage.estimated, call.usage.finish) == (False, "stop")


@pytest.mark.parametrize(
    ("error", "billed"), [(DOWN, False), (KEY, False), (LIMITED, False), (LATE, True), (BROKEN, True)]
)
async def test_a_prompt_that_was_not_accepted_costs_nothing(error: CitewireError, billed: bool) -> None:
    harness = EngineHarness(ScriptedTurns("one", [error]))
    await harness.fails()
    for row in harness.ledger.rows:
        assert row.usage is not None
        assert (row.usage.input_tokens, row.usage.estimated) == ((row.new.input_tokens, True) if billed else (0, False))


async def test_an_error_after_the_first_token_costs_the_received_tokens() -> None:
    harness = EngineHarness(ScriptedTurns("one", ["one two three ", DOWN]))
    await harness.fails()
    (row,) = harness.ledger.rows
    assert row.usage is not None
    assert (row.usage.input_tokens, row.usage.output_tokens, row.usage.estimated) == (row.new.input_tokens, 4, True)


async def test_suggestions_are_retried_taken_over_and_accounted() -> None:
    first, two = ScriptedTurns("one", [DOWN]), ScriptedTurns("two", [("Why?", "How?")])
    harness = EngineHarness(first, two)
    suggestions = await harness.generator.suggest(pb.SuggestQuestionsRequest(passages=PASSAGES[:2], count=3))
    assert suggestions.questions == ("Why?", "How?")
    assert len(first.tasks) == 3
    assert harness.rows[-2:] == [("one", "PROVIDER_UNAVAILABLE"), ("two", "done")]
    assert {row.new.purpose for row in harness.ledger.rows} == {"suggestions"}
    assert not suggestions.fallback


@pytest.mark.parametrize("turn", [[DOWN], [KEY], [LIMITED], ["no question"], ["Only one?"]])
async def test_if_no_model_suggests_questions_they_come_from_the_passages(turn: list[Any]) -> None:
    passages = [
        make_passage(1, 1, "Express shipping costs 9.90 EUR and takes one day.", section="Express shipping"),
        make_passage(2, 1, "Refunds take 14 days after the parcel has arrived.", section="Refunds"),
    ]
    harness = EngineHarness(ScriptedTurns("one", turn))
    request = pb.SuggestQuestionsRequest(passages=passages, count=3, question="What is the capital of Peru?")
    suggestions = await harness.generator.suggest(request)
    assert suggestions.fallback
    assert 2 <= len(suggestions.questions) <= 3
    assert "What is said about Refunds?" in suggestions.questions


async def test_suggestions_from_passages_come_before_the_callers_deadline() -> None:
    never = asyncio.Event()
    harness = EngineHarness(ScriptedTurns("one", [never]))
    passages = [make_passage(1, 1, "Refunds take 14 days.", section="Refunds")]
    with deadline.budget(SUGGESTION_MARGIN_SECONDS + 0.05):
        suggestions = await harness.generator.suggest(pb.SuggestQuestionsRequest(passages=passages, count=1))
    assert (suggestions.questions, suggestions.fallback) == (("What is said about Refunds?",), True)
