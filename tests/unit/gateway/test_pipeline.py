"""The pipeline with scripted parts: which steps run concurrently, and what is stored when one fails."""

from __future__ import annotations

import asyncio
from contextlib import aclosing

import pytest
from citewire.generator.v1 import generator_pb2

from citewire_dialects.events import Citations, ConversationCreated, Done, Event, Step, Tokens, Usage
from citewire_gateway.profiles.builtin import SIMPLE
from citewire_kit.errors import Internal, NotFound, Unavailable
from gateway_fakes import completed, delta, started
from pipeline_harness import PipelineHarness, usage
from waiting import wait_until


def notice(text: str, provider: str = "", model: str = "") -> generator_pb2.GenerateResponse:
    return generator_pb2.GenerateResponse(
        notice=generator_pb2.Notice(name="failover", text=text, provider=provider, model=model)
    )


@pytest.fixture
async def harness() -> PipelineHarness:
    return PipelineHarness()


async def test_everything_is_stored_before_done_is_sent(harness: PipelineHarness) -> None:
    seen: list[Event] = []
    async with aclosing(harness.run()) as events:
        async for event in events:
            if isinstance(event, Done):
                assert harness.calls[-1] == "close done"
            seen.append(event)
    assert [type(event) for event in seen] == [ConversationCreated, Citations, Tokens, Usage, Done]
    closing = harness.records.closings[0]
    assert (closing.answer, closing.ordinal, closing.usage, closing.embedding_tokens) == ("one", 2, usage(1, 2), 9)
    assert not closing.discard


async def test_planning_embedding_and_opening_run_concurrently(harness: PipelineHarness) -> None:
    await harness.events()  # the first question asks whether there are documents
    harness.calls.clear()
    # The vector is ready only once the plan has been requested: run in sequence, this would never end.
    harness.log.gates["embed"] = harness.log.reached["plan"] = asyncio.Event()
    async with asyncio.timeout(5):
        await harness.events()
    assert set(harness.calls[:3]) == {"plan", "embed", "open"}


async def test_the_question_is_stored_while_the_model_starts(harness: PipelineHarness) -> None:
    begun = harness.log.gates["begin"] = asyncio.Event()
    running = asyncio.create_task(harness.events())
    await wait_until(lambda: "generate" in harness.calls)
    assert "begin" not in harness.calls
    begun.set()
    assert isinstance((await running)[-1], Done)


async def test_without_conversations_nothing_is_begun(harness: PipelineHarness) -> None:
    events = await harness.events(SIMPLE)
    assert [type(event) for event in events] == [Citations, Tokens, Usage, Done]
    assert "begin" not in harness.calls
    assert harness.records.closings[0].ordinal is None


async def test_without_an_exchange_the_model_is_not_asked(harness: PipelineHarness) -> None:
    harness.log.errors["open"] = Unavailable("away", reason="DATABASE_UNAVAILABLE")
    harness.log.gates["embed"] = asyncio.Event()
    with pytest.raises(Unavailable):
        await harness.events()
    assert "generate" not in harness.calls
    assert harness.records.closings == []


async def test_a_failed_search_closes_the_exchange_and_leaves_no_question(harness: PipelineHarness) -> None:
    harness.log.errors["search"] = NotFound("no such documents: 1", reason="DOCUMENT_NOT_FOUND")
    with pytest.raises(NotFound):
        await harness.events()
    closing = harness.records.closings[0]
    assert (closing.state, closing.reason, closing.discard) == ("failed", "DOCUMENT_NOT_FOUND", True)
    assert "begin" not in harness.calls


async def test_shown_text_is_stored_when_the_rest_fails(harness: PipelineHarness) -> None:
    harness.messages[2:] = [started()]  # out of order: a defect of the generator
    harness.control.committed = True
    with pytest.raises(Internal):
        await harness.events()
    closing = harness.records.closings[0]
    assert (closing.state, closing.answer, closing.discard) == ("failed", "one", False)
    assert closing.usage.estimated
    assert "finish_reason" not in closing.details  # it didn't stop, it was cut off
    assert harness.calls[-2:] == ["generator closed", "close failed"]


async def test_a_defect_is_an_error_without_details(harness: PipelineHarness) -> None:
    harness.log.errors["search"] = RuntimeError("a secret")
    with pytest.raises(Internal) as raised:
        await harness.events()
    assert "secret" not in raised.value.message
    assert harness.records.closings[0].reason == "INTERNAL"


async def test_an_answer_that_cannot_be_stored_is_not_done(harness: PipelineHarness) -> None:
    harness.log.errors["close done"] = Unavailable("away", reason="DATABASE_UNAVAILABLE")
    seen: list[Event] = []
    with pytest.raises(Unavailable):
        await harness.gather(seen)
    assert [type(event) for event in seen][-1] is Usage
    assert harness.calls.count("close done") == 1
    assert "close failed" not in harness.calls


@pytest.mark.parametrize("committed", [True, False])
async def test_leaving_closes_the_generator_and_then_the_exchange(harness: PipelineHarness, committed: bool) -> None:
    harness.control.committed = committed
    async with aclosing(harness.run()) as events:
        async for event in events:
            if isinstance(event, Tokens):
                break
    assert harness.calls[-2:] == ["generator closed", "close cancelled"]
    closing = harness.records.closings[0]
    assert (closing.state, closing.reason, closing.discard) == ("cancelled", "client", not committed)


async def test_closing_goes_on_when_its_waiter_is_cancelled_again(harness: PipelineHarness) -> None:
    closed = harness.log.gates["close"] = asyncio.Event()

    async def leave() -> None:
        async with aclosing(harness.run()) as events:
            async for event in events:
                if isinstance(event, Tokens):
                    break

    abandoned = asyncio.create_task(leave())
    await wait_until(lambda: "generator closed" in harness.calls)
    abandoned.cancel()
    with pytest.raises(asyncio.CancelledError):
        await abandoned
    assert harness.records.closings == []
    closed.set()
    await harness.background.settled()
    assert harness.records.closings[0].state == "cancelled"


async def test_an_error_does_not_wait_for_a_database_that_is_away(harness: PipelineHarness) -> None:
    harness.log.errors["search"] = Unavailable("away", reason="DATABASE_UNAVAILABLE")
    closed = harness.log.gates["close"] = asyncio.Event()
    with pytest.raises(Unavailable):
        await harness.events()
    assert harness.records.closings == []
    closed.set()
    await harness.background.settled()
    assert harness.records.closings[0].reason == "DATABASE_UNAVAILABLE"


async def test_an_interrupted_chat_names_the_provider_that_had_taken_over(harness: PipelineHarness) -> None:
    harness.messages = [
        started((1, 0), provider="first", model="first-1"),
        notice("second/second-1 answers instead.", provider="second", model="second-1"),
        delta("one"),
    ]
    async with aclosing(harness.run()) as events:
        async for event in events:
            if isinstance(event, Tokens):
                break
    closing = harness.records.closings[0]
    assert (closing.state, closing.provider, closing.model) == ("cancelled", "second", "second-1")


async def test_the_provider_that_took_over_is_recorded(harness: PipelineHarness) -> None:
    harness.messages = [
        started((1, 0), provider="first", model="first-1"),
        notice("first/first-1 can't be reached; second/second-1 answers instead."),
        delta("one"),
        completed(usage=usage(1, 2), provider="second", model="second-1"),
    ]
    events = await harness.events()
    assert [event.name for event in events if isinstance(event, Step)] == ["failover"]
    closing = harness.records.closings[0]
    assert (closing.provider, closing.model, closing.details["model"]) == ("second", "second-1", "second-1")
    assert isinstance(events[-1], Done)
    assert events[-1].outcome.provider == "second"
