"""The orchestration over scripted parts: what runs beside what, and what is left when something fails."""

from __future__ import annotations

import asyncio
from contextlib import aclosing

import pytest

from citewire_gateway.chat.events import Citations, ConversationCreated, Done, Event, Step, Tokens, Usage
from citewire_gateway.clients.generation import Completed, Delta, Notice, Packed, Started, TokenUsage
from citewire_gateway.profiles.builtin import SIMPLE
from citewire_kit.errors import Internal, NotFound, Unavailable
from gateway_process import until
from scripted_pipeline import World


@pytest.fixture
async def world() -> World:
    return World()


async def test_everything_is_kept_before_done_is_said(world: World) -> None:
    seen: list[Event] = []
    async with aclosing(world.run()) as events:
        async for event in events:
            if isinstance(event, Done):
                assert world.log[-1] == "close done"
            seen.append(event)
    assert [type(event) for event in seen] == [ConversationCreated, Citations, Tokens, Usage, Done]
    closing = world.records.closings[0]
    assert (closing.answer, closing.ordinal, closing.usage, closing.embedding_tokens) == ("one", 2, TokenUsage(1, 2), 9)
    assert not closing.discard


async def test_planning_embedding_and_opening_run_beside_each_other(world: World) -> None:
    # The vector is ready only once the plan has been asked for: one after the other, this would stand still.
    world.embedder.go_on = world.retriever.on_plan = asyncio.Event()
    async with asyncio.timeout(5):
        await world.events()
    assert set(world.log[:3]) == {"plan", "embed", "open"}


async def test_the_question_is_written_down_while_the_model_starts(world: World) -> None:
    world.records.begin_waits = asyncio.Event()
    running = asyncio.create_task(world.events())
    await until(lambda: "generate" in world.log)
    assert "begin" not in world.log
    world.records.begin_waits.set()
    assert isinstance((await running)[-1], Done)


async def test_without_conversations_nothing_is_begun(world: World) -> None:
    events = await world.events(SIMPLE)
    assert [type(event) for event in events] == [Citations, Tokens, Usage, Done]
    assert "begin" not in world.log
    assert world.records.closings[0].ordinal is None


async def test_what_can_not_be_opened_is_not_asked(world: World) -> None:
    world.records.open_error = Unavailable("away", reason="DATABASE_UNAVAILABLE")
    world.embedder.go_on = asyncio.Event()
    with pytest.raises(Unavailable):
        await world.events()
    assert "generate" not in world.log
    assert world.records.closings == []


async def test_a_failed_search_closes_the_exchange_and_leaves_no_question(world: World) -> None:
    world.retriever.error = NotFound("no such documents: 1", reason="DOCUMENT_NOT_FOUND")
    with pytest.raises(NotFound):
        await world.events()
    closing = world.records.closings[0]
    assert (closing.state, closing.reason, closing.discard) == ("failed", "DOCUMENT_NOT_FOUND", True)
    assert "begin" not in world.log


async def test_what_was_shown_stays_when_the_rest_fails(world: World) -> None:
    world.generator.events[2:] = [Started("fake", "fake-1", ())]  # out of order: a defect of the generator
    world.control.committed = True
    with pytest.raises(Internal):
        await world.events()
    closing = world.records.closings[0]
    assert (closing.state, closing.answer, closing.discard) == ("failed", "one", False)
    assert closing.usage.estimated
    assert "finish_reason" not in closing.details  # it didn't stop, it was cut off
    assert world.log[-2:] == ["generator closed", "close failed"]


async def test_a_defect_is_an_error_that_gives_nothing_away(world: World) -> None:
    world.retriever.error = RuntimeError("a secret")
    with pytest.raises(Internal) as raised:
        await world.events()
    assert "secret" not in raised.value.message
    assert world.records.closings[0].reason == "INTERNAL"


async def test_an_answer_that_is_not_kept_is_not_done(world: World) -> None:
    world.records.close_error = Unavailable("away", reason="DATABASE_UNAVAILABLE")
    seen: list[Event] = []
    with pytest.raises(Unavailable):
        await world.gather(seen)
    assert [type(event) for event in seen][-1] is Usage
    assert world.log.count("close done") == 1
    assert "close failed" not in world.log


@pytest.mark.parametrize("committed", [True, False])
async def test_leaving_closes_the_generator_and_then_the_exchange(world: World, committed: bool) -> None:
    world.control.committed = committed
    async with aclosing(world.run()) as events:
        async for event in events:
            if isinstance(event, Tokens):
                break
    assert world.log[-2:] == ["generator closed", "close cancelled"]
    closing = world.records.closings[0]
    assert (closing.state, closing.reason, closing.discard) == ("cancelled", "client", not committed)


async def test_writing_goes_on_when_its_waiter_is_cancelled_again(world: World) -> None:
    world.records.close_waits = asyncio.Event()

    async def leave() -> None:
        async with aclosing(world.run()) as events:
            async for event in events:
                if isinstance(event, Tokens):
                    break

    leaving = asyncio.create_task(leave())
    await until(lambda: "generator closed" in world.log)
    leaving.cancel()
    with pytest.raises(asyncio.CancelledError):
        await leaving
    assert world.records.closings == []
    world.records.close_waits.set()
    await world.aftermath.settled()
    assert world.records.closings[0].state == "cancelled"


async def test_a_chat_that_was_cut_names_who_had_taken_over(world: World) -> None:
    world.generator.events = [
        Started("first", "first-1", (Packed(1, 0),)),
        Notice("failover", "second/second-1 answers instead.", "second", "second-1"),
        Delta(("one",)),
    ]
    async with aclosing(world.run()) as events:
        async for event in events:
            if isinstance(event, Tokens):
                break
    closing = world.records.closings[0]
    assert (closing.state, closing.provider, closing.model) == ("cancelled", "second", "second-1")


async def test_who_took_over_is_recorded_as_the_one_who_answered(world: World) -> None:
    world.generator.events = [
        Started("first", "first-1", (Packed(1, 0),)),
        Notice("failover", "first/first-1 can't be reached; second/second-1 answers instead."),
        Delta(("one",)),
        Completed(TokenUsage(1, 2), "stop", provider="second", model="second-1"),
    ]
    events = await world.events()
    assert [event.name for event in events if isinstance(event, Step)] == ["failover"]
    closing = world.records.closings[0]
    assert (closing.provider, closing.model, closing.details["model"]) == ("second", "second-1", "second-1")
    assert isinstance(events[-1], Done)
    assert events[-1].outcome.provider == "second"
