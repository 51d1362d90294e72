"""Storing a run's events, and resuming it from them."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence

import pytest

from citewire_dialects.events import Citations, ConversationCreated, Done, Event, Tokens, Usage
from citewire_dialects.native import NativeDialect, ResumedDialect
from citewire_dialects.profile import EventType
from citewire_dialects.run_codec import EVENT_CODEC
from citewire_http.supervision import StreamControl
from citewire_kit.errors import Aborted, Unavailable
from gateway_fakes import completed, delta, started
from pipeline_harness import FakeRunStore, PipelineHarness
from waiting import BUSY_SECONDS

SHOWN = frozenset({EventType.CONVERSATION, EventType.TOKEN, EventType.USAGE})
EVENTS: Sequence[Event] = (
    ConversationCreated("c"),
    Citations(()),  # not shown here, so it has no number
    Tokens(("one ", "two ")),
    Tokens(("three",)),
    Usage(1, 2, 3),
)


def stored_events(store: FakeRunStore) -> list[Event]:
    """Returns the events in the stored batches, and checks that these have no gap."""
    numbers = [number for batch in store.batches for number in range(batch.first, batch.last + 1)]
    assert numbers == list(range(1, len(numbers) + 1))
    return [event for batch in store.batches for event in EVENT_CODEC.load(batch.entries)]


@pytest.mark.parametrize("after", range(8))
def test_a_resumed_stream_is_the_rest_of_the_first_one(after: int) -> None:
    native = NativeDialect(SHOWN)
    frames = b"".join(native.encode(event) for event in EVENTS).decode().split("\n\n")[:-1]
    assert len(frames) == 5
    resumed = ResumedDialect(SHOWN, after)
    rest = b"".join(resumed.encode(event) for event in EVENTS).decode()
    assert rest == "".join(f"{frame}\n\n" for frame in frames[after:])


def test_a_reader_ahead_of_the_stored_events_is_told_that_the_run_is_lost() -> None:
    lost = Aborted("the answer was lost", reason="RUN_LOST")
    resumed = ResumedDialect(SHOWN, after=9)
    assert b"".join(resumed.encode(event) for event in EVENTS) == b""
    assert b"id: 10\n" in resumed.failed(lost)
    other = ResumedDialect(SHOWN, after=6)
    assert b"".join(other.encode(event) for event in EVENTS) == b""
    assert other.failed(Unavailable("the model went away", reason="PROVIDER_UNAVAILABLE")).startswith(
        b"event: done\nid: 7"
    )


async def test_a_runs_events_are_stored_while_it_runs() -> None:
    harness, go_on = PipelineHarness(), asyncio.Event()
    harness.messages = [started((1, 0)), *(delta(f"w{number} ") for number in range(100)), completed()]
    seen: list[Event] = []
    came = time.monotonic()
    async for event in harness.run(grace_seconds=15.0):
        seen.append(event)
        if len(seen) == 20:
            await asyncio.wait((asyncio.create_task(go_on.wait()),), timeout=0.4)
            assert len(texts_of(stored_events(harness.run_store))) >= 15
    assert time.monotonic() - came >= 0.4
    closing = harness.records.closings[0]
    harness.run_store.batches += closing.events
    whole = stored_events(harness.run_store)
    assert isinstance(whole[-1], Done)
    assert "".join(texts_of(whole)) == "".join(f"w{number} " for number in range(100))


def texts_of(events: Sequence[Event]) -> list[str]:
    """The pieces of text in the events."""
    return [text for event in events if isinstance(event, Tokens) for text in event.texts]


async def test_shown_events_are_at_most_32_ahead_of_stored_ones() -> None:
    harness = PipelineHarness()
    words = [f"w{number} " for number in range(200)]
    pieces = [delta(word) for word in words[:100]]
    pieces.append(delta(*words[100:]))  # a slow reader gets many at once
    harness.messages = [started((1, 0)), *pieces, completed()]
    harness.run_store.seconds = 0.02
    seen: list[Event] = []
    async for event in harness.run(grace_seconds=15.0):
        seen.append(event)
        assert sum(map(EVENT_CODEC.count, seen)) - sum(map(EVENT_CODEC.count, stored_events(harness.run_store))) <= 32
    assert texts_of(seen) == words


@pytest.mark.parametrize("failures", [0, 3])
async def test_an_unresponsive_database_delays_an_answer_by_at_most_a_second(failures: int) -> None:
    harness = PipelineHarness()
    harness.messages = [started((1, 0)), *(delta(f"w{number} ") for number in range(200)), completed()]
    harness.run_store.seconds, harness.run_store.failures = (0.01, failures) if failures else (60.0, 0)
    came = time.monotonic()
    async for event in harness.run(grace_seconds=15.0):
        if isinstance(event, Usage):
            break
    assert time.monotonic() - came < BUSY_SECONDS


async def test_events_that_couldnt_be_stored_follow_without_a_gap() -> None:
    harness = PipelineHarness()
    harness.messages = [started((1, 0)), *(delta(f"w{number} ") for number in range(50)), completed()]
    harness.run_store.failures = 1
    async for _ in harness.run(grace_seconds=15.0):
        await asyncio.sleep(0.01)
    harness.run_store.batches += harness.records.closings[0].events
    assert len(texts_of(stored_events(harness.run_store))) == 50


async def test_a_run_declared_lost_elsewhere_is_stopped() -> None:
    harness = PipelineHarness()
    harness.run_store.lost = True
    harness.control.stopped = stopped = asyncio.get_running_loop().create_future()
    events = harness.run(grace_seconds=15.0)
    await anext(events)
    async with asyncio.timeout(5):
        assert await stopped == "lost"
    await events.aclose()
    assert harness.control.error is not None
    assert harness.control.error.reason == "RUN_LOST"


async def test_a_run_without_grace_stores_nothing() -> None:
    harness = PipelineHarness()
    assert isinstance((await harness.events())[-1], Done)
    assert harness.run_store.batches == []
    assert harness.records.closings[0].events == []


def test_the_grace_period_starts_with_the_last_reader_once_text_was_shown() -> None:
    control = StreamControl(grace_seconds=15, committed=True)
    assert control.patience(100.0) == 15
    assert control.patience(110.0) == 5
    control.see(109.0)
    assert control.patience(110.0) == 14
    assert StreamControl(grace_seconds=15).patience(100.0) == 0
    assert StreamControl().patience(100.0) == 0
    assert StreamControl(grace_seconds=float("inf")).patience(100.0) == float("inf")
