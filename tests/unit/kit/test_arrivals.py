"""Requests that wait for their first turn, and those that are refused because others wait too long."""

from __future__ import annotations

import asyncio
from contextlib import ExitStack

import pytest

from citewire_kit import arrivals as arrivals_module
from citewire_kit.arrivals import Arrivals, begin_turn, has_begun
from citewire_kit.errors import ResourceExhausted


@pytest.fixture(autouse=True)
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(arrivals_module, "FEW", 1)


class Clock:
    """Seconds that pass when they are told to."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def refused(arrivals: Arrivals, caller: str) -> bool:
    try:
        with arrivals.admit(caller):
            return False
    except ResourceExhausted:
        return True


def test_a_burst_is_let_in_and_what_comes_behind_a_long_wait_is_not() -> None:
    clock = Clock()
    arrivals = Arrivals(0.5, clock)
    with arrivals.admit("a") as first:
        first.complete()
        for _ in range(1000):
            assert not refused(arrivals, "a")
        clock.now = 0.5
        assert not refused(arrivals, "a")
        clock.now = 0.51
        assert refused(arrivals, "a")
        assert not refused(arrivals, "b"), "another caller's wait is its own"
    assert not refused(arrivals, "a"), "nobody waits any more"


def test_the_oldest_that_waits_counts() -> None:
    clock = Clock()
    arrivals = Arrivals(0.5, clock)
    with arrivals.admit("a") as first:
        first.complete()
        clock.now = 0.4
        with arrivals.admit("a") as second:
            second.complete()
            first.begin()
            clock.now = 0.8
            assert not refused(arrivals, "a")
            clock.now = 0.91
            assert refused(arrivals, "a")


def test_a_slow_sender_and_a_slow_model_keep_nobody_out() -> None:
    clock = Clock()
    arrivals = Arrivals(0.5, clock)
    with arrivals.admit("a") as receiving:
        clock.now = 60.0
        assert not refused(arrivals, "a"), "its body isn't here yet"
        receiving.complete()
        receiving.begin()
        receiving.complete()
        clock.now = 120.0
        assert not refused(arrivals, "a"), "it has its turn, however long that takes"


async def test_a_turn_is_that_of_the_request_in_whose_context_it_is_taken() -> None:
    clock = Clock()
    arrivals = Arrivals(0.5, clock)
    inside = asyncio.Event()
    done = asyncio.Event()

    async def serve(turn: bool) -> None:
        with arrivals.admit("a") as arrival:
            arrival.complete()
            assert not has_begun()
            if turn:
                await asyncio.create_task(taking_turn())
            assert has_begun() is turn
            inside.set()
            await done.wait()

    async def taking_turn() -> None:
        begin_turn()

    served = asyncio.create_task(serve(turn=True))
    await inside.wait()
    clock.now = 1.0
    assert not refused(arrivals, "a")
    inside.clear()
    waiting = asyncio.create_task(serve(turn=False))
    await inside.wait()
    clock.now = 2.0
    assert refused(arrivals, "a")
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert not refused(arrivals, "a"), "who leaves doesn't wait"
    done.set()
    await served
    assert not has_begun()
    begin_turn()  # of no request: nothing happens


def test_few_are_let_in_however_long_they_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(arrivals_module, "FEW", 3)
    clock = Clock()
    arrivals = Arrivals(0.5, clock)
    with ExitStack() as stack:
        for _ in range(2):
            stack.enter_context(arrivals.admit("a")).complete()
        clock.now = 60.0
        assert not refused(arrivals, "a")
        stack.enter_context(arrivals.admit("a")).complete()
        assert refused(arrivals, "a")
