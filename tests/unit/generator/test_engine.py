"""Retries and fallbacks, and their traces in the ledger and the stream."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace

import pytest
from citewire.generator.v1 import generator_pb2 as pb

from citewire_generator.answer import SLICE
from citewire_generator.engine import CallLimits
from citewire_generator.model import Message, Role, Usage
from citewire_generator.providers.base import ChatProvider, Feature
from citewire_generator.providers.extractive import Extractive
from citewire_generator.registry import Registry
from citewire_generator.service import Generator
from citewire_kit.errors import (
    CitewireError,
    NotFound,
    ResourceExhausted,
    Unimplemented,
)
from citewire_remote.breaker import BreakerPolicy
from citewire_remote.failures import stream_broken, unreachable
from engine_harness import (
    BROKEN,
    DOWN,
    FAST,
    KEY,
    LATE,
    LIMITED,
    LONG,
    PASSAGES,
    REJECTED,
    EngineHarness,
    answer,
    sample,
    sealed,
)
from generator_calls import make_passage, make_request
from scripted_chat import ScriptedTurns, Step


@pytest.mark.parametrize("error", [DOWN, BROKEN])
async def test_the_same_provider_is_retried(error: CitewireError) -> None:
    first, two = ScriptedTurns("one", [error], [error], answer("one")), ScriptedTurns("two", answer("two"))
    harness = EngineHarness(first, two)
    before = sample("citewire_generator_retries_total", provider="one", reason=error.reason)
    await harness.ask()
    assert harness.text == "one says so."
    assert (len(first.tasks), len(two.tasks)) == (3, 0)
    assert harness.notices == []
    assert (harness.completed.attempts, harness.completed.provider, harness.completed.model) == (3, "one", "one-model")
    assert harness.rows == [("one", error.reason), ("one", error.reason), ("one", "done")]
    assert sample("citewire_generator_retries_total", provider="one", reason=error.reason) - before == 2


@pytest.mark.parametrize(("error", "calls"), [(DOWN, 3), (BROKEN, 3), (KEY, 1), (REJECTED, 1), (LIMITED, 1), (LATE, 1)])
async def test_the_next_provider_takes_over(error: CitewireError, calls: int) -> None:
    first, two = ScriptedTurns("one", [error]), ScriptedTurns("two", answer("two"))
    harness = EngineHarness(first, two)
    labels = {"provider": "one", "next_provider": "two", "reason": error.reason}
    before = sample("citewire_generator_failovers_total", **labels)
    await harness.ask()
    assert harness.text == "two says so."
    assert (len(first.tasks), len(two.tasks)) == (calls, 1)
    assert [type(event).__name__ for event in harness.events] == [
        "Started", "Notice", "TextDelta", "TextDelta", "Completed"
    ]  # fmt: skip
    assert harness.notices == ["failover"]
    assert (harness.completed.provider, harness.completed.attempts) == ("two", calls + 1)
    assert harness.completed.usage == Usage(11, 2, 7).to_proto()
    assert sample("citewire_generator_failovers_total", **labels) - before == 1
    assert first.tasks[0].messages == two.tasks[0].messages
    assert two.tasks[0].model == "two-model"


async def test_an_empty_answer_is_a_failure_that_is_paid_for() -> None:
    first, two = ScriptedTurns("one", []), ScriptedTurns("two", answer("two"))
    harness = EngineHarness(first, two)
    await harness.ask()
    assert harness.text == "two says so."
    assert harness.notices == ["failover"]
    assert harness.rows == [*[("one", "PROVIDER_STREAM_BROKEN")] * 3, ("two", "done")]
    assert [row.usage.output_tokens for row in harness.ledger.rows if row.usage] == [7, 7, 7, 7]
    alone = EngineHarness(ScriptedTurns("one", []))
    assert (await alone.fails()).reason == "PROVIDER_STREAM_BROKEN"


async def test_after_a_tool_result_an_answer_may_be_empty() -> None:
    class CallsTools(ScriptedTurns):
        takes = frozenset({Feature.TOOLS})

    harness = EngineHarness(CallsTools("one", []))
    call = pb.Message(role=pb.ROLE_ASSISTANT, tool_calls=[pb.ToolCall(id="1", name="find", arguments="{}")])
    result = pb.Message(role=pb.ROLE_TOOL, tool_call_id="1", content="Nothing.")
    await harness.ask(continuation=[call, result])
    assert (harness.text, harness.rows) == ("", [("one", "done")])


async def test_all_providers_fail() -> None:
    first, two, three = (
        ScriptedTurns("one", [DOWN]),
        ScriptedTurns("two", [KEY]),
        ScriptedTurns("three", [LIMITED]),
    )
    harness = EngineHarness(first, two, three)
    error = await harness.fails()
    assert (error.reason, error.retry_after) == ("PROVIDER_RATE_LIMITED", 60)
    assert [len(provider.tasks) for provider in (first, two, three)] == [3, 1, 1]
    assert harness.notices == ["failover", "failover"]
    assert len(harness.rows) == 5


@pytest.mark.parametrize("error", [DOWN, BROKEN, LATE, LIMITED])
async def test_after_the_first_token_no_provider_takes_over(error: CitewireError) -> None:
    first, two = ScriptedTurns("one", ["one ", error], answer("one")), ScriptedTurns("two", answer("two"))
    harness = EngineHarness(first, two)
    assert (await harness.fails()).reason == error.reason
    assert harness.text == "one "
    assert (len(first.tasks), len(two.tasks)) == (1, 0)


async def test_no_provider_takes_over_while_the_first_words_are_held_back() -> None:
    first, two = (
        ScriptedTurns("one", ["The documents ", DOWN], answer("one")),
        ScriptedTurns("two", answer("two")),
    )
    harness = EngineHarness(first, two)
    assert (await harness.fails()).reason == "PROVIDER_UNAVAILABLE"
    assert (len(first.tasks), len(two.tasks)) == (1, 0)


async def test_a_stalled_provider_is_abandoned_within_its_time_limit() -> None:
    first, two = ScriptedTurns("one", [asyncio.Event()]), ScriptedTurns("two", answer("two"))
    harness = EngineHarness(first, two)
    began = asyncio.get_running_loop().time()
    await harness.ask()
    assert 0.3 <= asyncio.get_running_loop().time() - began < 1.3
    assert (harness.text, len(first.tasks), first.open) == ("two says so.", 1, 0)
    assert harness.rows == [("one", "PROVIDER_TIMEOUT"), ("two", "done")]


async def test_retries_share_the_time_limit_of_the_first_token() -> None:
    """The second attempt stalls: it gets the time that the first one and the pause have left."""
    slow = ResourceExhausted("slow", reason="PROVIDER_RATE_LIMITED", retry_after=0.2)
    seconds: list[float] = []
    for _ in range(3):
        first = ScriptedTurns("one", [slow], [asyncio.Event()])
        harness = EngineHarness(first)
        began = asyncio.get_running_loop().time()
        assert (await harness.fails()).reason == "PROVIDER_TIMEOUT"
        seconds.append(asyncio.get_running_loop().time() - began)
        assert len(first.tasks) == 2
    # A full time limit would end after 0.5 s. The shortest time counts: the machine may be busy.
    assert 0.3 <= min(seconds) < 0.45


async def test_a_provider_with_an_open_breaker_is_skipped() -> None:
    first, two = ScriptedTurns("one", [LATE]), ScriptedTurns("two", answer("two"))
    harness = EngineHarness(first, two, breaker=BreakerPolicy(failures=2, open_seconds=60))
    for _ in range(3):
        await harness.ask()
        assert harness.text == "two says so."
    assert (len(first.tasks), len(two.tasks)) == (2, 3)
    assert harness.completed.attempts == 1
    assert harness.notices == ["failover"]
    assert len(harness.rows) == 5


async def test_an_open_breaker_without_fallbacks_says_when_to_retry() -> None:
    harness = EngineHarness(ScriptedTurns("one", [LATE]), breaker=BreakerPolicy(failures=1, open_seconds=60))
    await harness.fails()
    error = await harness.fails()
    assert (error.reason, len(harness.rows)) == ("PROVIDER_UNAVAILABLE", 1)
    assert error.retry_after is not None
    assert 59 < error.retry_after <= 60


async def test_the_extractive_provider_can_take_over_and_costs_nothing() -> None:
    harness = EngineHarness(ScriptedTurns("one", [DOWN]), Extractive())
    await harness.ask(passages=(make_passage(1, 1, "It is said that refunds take 14 days."),))
    assert harness.completed.provider == "extractive"
    assert {provider for provider, _ in harness.rows} == {"one"}


# -- The prompt ------------------------------------------------------------------------------------------------------


async def test_the_smallest_window_of_the_chain_bounds_the_context_before_started() -> None:
    first, two = ScriptedTurns("one", [KEY]), ScriptedTurns("two", answer("two"), window=3000)
    harness = EngineHarness(first, two)
    await harness.ask(passages=PASSAGES, max_completion_tokens=2000)
    started = harness.events[0]
    assert isinstance(started, pb.Started)
    assert 0 < len(started.citations) < 8
    assert f"P{len(started.citations)}" in two.tasks[0].messages[-1].content
    assert f"P{len(started.citations) + 1}" not in two.tasks[0].messages[-1].content
    assert first.tasks[0].messages == two.tasks[0].messages


async def test_a_fallback_that_cannot_hold_the_question_is_left_out() -> None:
    first, two = ScriptedTurns("one", [KEY]), ScriptedTurns("two", answer("two"), window=1024)
    harness = EngineHarness(first, two)
    assert (await harness.fails()).reason == "PROVIDER_AUTH"
    assert two.tasks == []
    assert len(first.tasks[0].citations) == 2


async def test_an_overflow_trims_the_context_says_so_and_cites_what_is_left() -> None:
    history = tuple(Message(Role.USER, f"earlier {n} " + "word " * 50) for n in range(4))
    first = ScriptedTurns("one", [LONG], answer("one"), guessed=True)
    harness = EngineHarness(first)
    await harness.ask(passages=PASSAGES, history=history)
    started = harness.events[0]
    assert isinstance(started, pb.Started)
    assert len(first.tasks[0].citations) == 8
    assert [cited.passage_index for cited in started.citations] == [cited.index for cited in first.tasks[1].citations]
    assert 3 <= len(started.citations) <= 4
    assert len(first.tasks[1].messages) < len(first.tasks[0].messages)
    (notice,) = [event for event in harness.events if isinstance(event, pb.Notice)]
    assert notice.name == "context_trimmed"
    assert f"{len(started.citations)} of 8 passages and 2 of 4 earlier messages" in notice.text
    assert harness.completed.attempts == 2


async def test_a_failure_names_provider_and_model_in_error_and_step() -> None:
    first, second = unreachable("one"), stream_broken("it has no end")
    harness = EngineHarness(ScriptedTurns("one", [first]), ScriptedTurns("two", [second]))
    error = await harness.fails()
    assert error.message == "the model provider two's stream broke: it has no end (model two-model)"
    assert (error.metadata["provider"], error.metadata["model"]) == ("two", "two-model")
    (notice,) = [event for event in harness.events if isinstance(event, pb.Notice)]
    assert "one/one-model" in notice.text


async def test_a_temperature_without_effect_is_reported() -> None:
    harness = EngineHarness(ScriptedTurns("one", answer("one")))
    await harness.ask(passages=PASSAGES, temperature=0.5)
    (notice,) = [event for event in harness.events if isinstance(event, pb.Notice)]
    assert (notice.name, notice.text) == (
        "temperature_unused", "The temperature has no effect on one, which doesn't support it."
    )  # fmt: skip
    silent = EngineHarness(ScriptedTurns("one", answer("one")))
    await silent.ask(passages=PASSAGES)
    assert [event for event in silent.events if isinstance(event, pb.Notice)] == []


async def test_a_second_overflow_is_an_error_and_nothing_was_shown() -> None:
    first = ScriptedTurns("one", [LONG], guessed=True)
    harness = EngineHarness(first)
    assert (await harness.fails(passages=PASSAGES)).reason == "CONTEXT_TOO_LONG"
    assert (len(first.tasks), harness.events) == (2, [])


async def test_after_a_failover_started_names_the_answering_provider() -> None:
    first, two = ScriptedTurns("one", [KEY], guessed=True), ScriptedTurns("two", answer("two"))
    harness = EngineHarness(first, two)
    await harness.ask()
    assert isinstance(harness.events[0], pb.Started)
    assert (harness.events[0].provider, harness.notices) == ("two", ["failover"])


@pytest.mark.parametrize(("window", "at_once"), [(100_000, True), (4096, False)])
async def test_citations_come_at_once_unless_the_prompt_may_be_too_long(window: int, at_once: bool) -> None:
    go = asyncio.Event()
    first = ScriptedTurns("one", [go, *answer("one")], window=window)
    harness = EngineHarness(first, limits=CallLimits(first_token_seconds=10))
    question_task = asyncio.create_task(harness.ask(passages=PASSAGES))
    await first.waiting.wait()
    assert bool(harness.events) is at_once
    go.set()
    await question_task
    assert isinstance(harness.events[0], pb.Started)


# -- Chains of requests ----------------------------------------------------------------------------------------------


async def test_a_requests_chain_replaces_the_servers() -> None:
    first, two, three = (
        ScriptedTurns("one", [KEY]),
        ScriptedTurns("two", [KEY]),
        ScriptedTurns("three", answer("three")),
    )
    harness = EngineHarness(first, two, three)
    await harness.ask(fallbacks=("three/three-model",))
    assert (harness.text, len(two.tasks)) == ("three says so.", 0)
    with pytest.raises(NotFound):
        await harness.ask(fallbacks=("four",))


async def test_a_tenants_own_provider_has_only_its_own_fallbacks() -> None:
    first, mine, other = (
        ScriptedTurns("one", answer("one")),
        ScriptedTurns("mine", [KEY]),
        ScriptedTurns("other", answer("o")),
    )
    harness = EngineHarness(first, ScriptedTurns("two", answer("two")))
    harness.tenant_providers.providers = {"mine-model": mine, "other-model": other}
    assert (await harness.fails(provider=sealed("mine-model"))).reason == "PROVIDER_AUTH"
    assert first.tasks == []
    await harness.ask(provider=sealed("mine-model"), fallbacks=(sealed("other-model"), "one-model"))
    assert harness.text == "o says so."
    assert harness.tenant_providers.leased == 0
    assert [row.new.own for row in harness.ledger.rows] == [True, True, True]
    await harness.ask(provider=sealed("mine-model"), fallbacks=("one-model",))
    assert (harness.text, [row.new.own for row in harness.ledger.rows][3:]) == ("one says so.", [True, False])


async def test_without_own_providers_a_sealed_one_is_refused() -> None:
    generator = Generator(Registry([ScriptedTurns("one", answer("one"))]))
    with pytest.raises(Unimplemented):
        [event async for event in generator.generate(*make_request("x?", provider=sealed("m")))]


def test_an_unknown_fallback_is_refused_at_start() -> None:
    providers: Sequence[ChatProvider] = [ScriptedTurns("one", answer("one"))]
    with pytest.raises(NotFound, match="one/one-model"):
        Registry(providers, ["two"])


@pytest.mark.parametrize("pieces", [["x" * 1_000], ["x" * 7] * 200, ["x" * 60, ("y" * 50, "z" * 50)]])
async def test_an_answer_is_cut_at_its_character_limit_and_the_call_ended(pieces: list[Step]) -> None:
    provider = ScriptedTurns("one", [*pieces, asyncio.Event()])
    harness = EngineHarness(provider, limits=replace(FAST, max_chars=100))
    await harness.ask()
    assert len(harness.text) == 100
    assert harness.completed.finish_reason == pb.FINISH_REASON_LENGTH
    assert provider.open == 0
    (row,) = harness.ledger.rows
    assert row.usage is not None
    assert row.usage.estimated


async def test_other_tasks_run_while_a_long_delta_is_filtered() -> None:
    harness = EngineHarness(ScriptedTurns("one", ["[1 " * 20_000]))
    turns = 0

    async def take_turns() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    others = asyncio.create_task(take_turns())
    await harness.ask()
    others.cancel()
    await asyncio.wait((others,))
    assert turns >= 60_000 // SLICE
