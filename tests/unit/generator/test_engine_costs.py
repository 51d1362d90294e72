"""What the engine's calls cost: what the ledger has of answers, failures and those who left."""

from __future__ import annotations

import asyncio

import pytest

from citewire_generator.model import (
    SuggestRequest,
)
from citewire_kit.errors import (
    CitewireError,
)
from engine_world import (
    BROKEN,
    DOWN,
    KEY,
    LATE,
    LIMITED,
    PASSAGES,
    SPENT,
    World,
    answer,
)
from scripted_chat import TakingTurns


async def test_a_spent_budget_is_the_end() -> None:
    one, two = TakingTurns("one", answer("one")), TakingTurns("two", answer("two"))
    world = World(one, two)
    world.ledger.refuse = SPENT
    assert (await world.fails()).reason == "BUDGET_EXCEEDED"
    assert (len(one.tasks), len(two.tasks), world.rows) == (0, 0, [])


async def test_leaving_settles_what_was_received() -> None:
    one = TakingTurns("one", ["one two three four ", asyncio.Event()])
    world = World(one)
    asking = asyncio.create_task(world.ask())
    await one.waiting.wait()
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking
    (call,) = world.ledger.rows
    assert (call.outcome, one.open) == ("cancelled", 0)
    assert call.usage is not None
    assert call.usage.estimated
    assert call.usage.output_tokens == 5
    assert call.usage.input_tokens == call.new.input_tokens > 100


async def test_the_ledger_has_what_the_provider_reported_and_the_price() -> None:
    world = World(TakingTurns("one", answer("one")))
    await world.ask()
    (call,) = world.ledger.rows
    assert call.usage is not None
    assert (call.new.purpose, call.new.model, call.new.own, call.new.price) == ("generation", "one-model", False, None)
    assert call.new.max_output_tokens == 2048
    assert (call.usage.input_tokens, call.usage.cached_input_tokens, call.usage.output_tokens) == (11, 2, 7)
    assert (call.usage.estimated, call.usage.finish) == (False, "stop")


@pytest.mark.parametrize(
    ("error", "billed"), [(DOWN, False), (KEY, False), (LIMITED, False), (LATE, True), (BROKEN, True)]
)
async def test_a_prompt_that_was_not_taken_costs_nothing(error: CitewireError, billed: bool) -> None:
    world = World(TakingTurns("one", [error]))
    await world.fails()
    for row in world.ledger.rows:
        assert row.usage is not None
        assert (row.usage.input_tokens, row.usage.estimated) == ((row.new.input_tokens, True) if billed else (0, False))


async def test_an_error_after_the_first_token_costs_what_was_received() -> None:
    world = World(TakingTurns("one", ["one two three ", DOWN]))
    await world.fails()
    (row,) = world.ledger.rows
    assert row.usage is not None
    assert (row.usage.input_tokens, row.usage.output_tokens, row.usage.estimated) == (row.new.input_tokens, 4, True)


async def test_suggestions_are_retried_taken_over_and_accounted() -> None:
    one, two = TakingTurns("one", [DOWN]), TakingTurns("two", [("Why?", "How?")])
    world = World(one, two)
    suggestions = await world.generator.suggest(SuggestRequest(PASSAGES[:2]))
    assert suggestions.questions == ("Why?", "How?")
    assert len(one.tasks) == 3
    assert world.rows[-2:] == [("one", "PROVIDER_UNAVAILABLE"), ("two", "done")]
    assert {row.new.purpose for row in world.ledger.rows} == {"suggestions"}
