"""Requests that wait for their first turn, and those that are refused because others wait too long."""

from __future__ import annotations

import asyncio
from collections import deque
from contextlib import ExitStack

import pytest

from citewire_kit import arrivals as arrivals_module
from citewire_kit.arrivals import Arrival, Arrivals, begin_turn, has_begun
from citewire_kit.errors import ResourceExhausted


@pytest.fixture(autouse=True)
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(arrivals_module, "FEW", 1)


class Clock:
    """A clock that moves only when a test moves it."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def is_refused(arrivals: Arrivals, caller: str) -> bool:
    try:
        with arrivals.admit(caller):
            return False
    except ResourceExhausted:
        return True


def test_a_burst_is_admitted_unless_a_request_has_waited_too_long() -> None:
    clock = Clock()
    arrivals = Arrivals(0.5, clock)
    with arrivals.admit("a") as first:
        first.complete()
        for _ in range(1000):
            assert not is_refused(arrivals, "a")
        clock.now = 0.5
        assert not is_refused(arrivals, "a")
        clock.now = 0.51
        assert is_refused(arrivals, "a")
        assert not is_refused(arrivals, "b"), "waits count for their own caller only"
    assert not is_refused(arrivals, "a"), "no request waits any more"


def test_the_oldest_waiting_request_counts() -> None:
    clock = Clock()
    arrivals = Arrivals(0.5, clock)
    with arrivals.admit("a") as first:
        first.complete()
        clock.now = 0.4
        with arrivals.admit("a") as second:
            second.complete()
            first.begin()
            clock.now = 0.8
            assert not is_refused(arrivals, "a")
            clock.now = 0.91
            assert is_refused(arrivals, "a")


def test_a_slow_sender_and_a_slow_model_keep_nobody_out() -> None:
    clock = Clock()
    arrivals = Arrivals(0.5, clock)
    with arrivals.admit("a") as receiving:
        clock.now = 60.0
        assert not is_refused(arrivals, "a"), "its body hasn't arrived yet"
        receiving.complete()
        receiving.begin()
        receiving.complete()
        clock.now = 120.0
        assert not is_refused(arrivals, "a"), "it has its turn, however long it takes"


async def test_a_turn_belongs_to_the_request_in_whose_context_it_begins() -> None:
    clock = Clock()
    arrivals = Arrivals(0.5, clock)
    inside = asyncio.Event()
    done = asyncio.Event()

    async def serve(turn: bool) -> None:
        with arrivals.admit("a") as arrival:
            arrival.complete()
            assert not has_begun()
            if turn:
                await asyncio.create_task(take_turn())
            assert has_begun() is turn
            inside.set()
            await done.wait()

    async def take_turn() -> None:
        begin_turn()

    served = asyncio.create_task(serve(turn=True))
    await inside.wait()
    clock.now = 1.0
    assert not is_refused(arrivals, "a")
    inside.clear()
    waiting = asyncio.create_task(serve(turn=False))
    await inside.wait()
    clock.now = 2.0
    assert is_refused(arrivals, "a")
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert not is_refused(arrivals, "a"), "a request that left doesn't wait"
    done.set()
    await served
    assert not has_begun()
    begin_turn()  # outside of a request nothing happens


def test_a_few_requests_are_always_admitted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(arrivals_module, "FEW", 3)
    clock = Clock()
    arrivals = Arrivals(0.5, clock)
    with ExitStack() as stack:
        for _ in range(2):
            stack.enter_context(arrivals.admit("a")).complete()
        clock.now = 60.0
        assert not is_refused(arrivals, "a")
        stack.enter_context(arrivals.admit("a")).complete()
        assert is_refused(arrivals, "a")


def test_a_request_that_would_wait_too_long_is_refused_in_advance() -> None:
    clock = Clock()
    arrivals = Arrivals(0.5, clock)
    with ExitStack() as stack:
        waiting = deque(stack.enter_context(arrivals.admit("a")) for _ in range(60))
        for arrival in waiting:
            arrival.complete()
        for _ in range(16):
            assert not is_refused(arrivals, "a"), "the service rate isn't known yet"
            clock.now += 0.01
            waiting.popleft().begin()
        assert not is_refused(arrivals, "a"), "44 before it, at a hundred a second"
        clock.now += 0.1
        assert is_refused(arrivals, "a"), "at sixty a second"
        assert not is_refused(arrivals, "b")
        for _ in range(16):
            waiting.popleft().begin()
        assert not is_refused(arrivals, "a"), "28 before it"


def test_old_service_rates_are_forgotten() -> None:
    clock = Clock()
    arrivals = Arrivals(0.5, clock)
    with ExitStack() as stack:
        waiting = deque[Arrival]()

        def let_in(most: int) -> None:
            while len(waiting) < most:
                waiting.append(stack.enter_context(arrivals.admit("a")))
                waiting[-1].complete()

        for _ in range(400):
            let_in(45)
            clock.now += 0.01
            waiting.popleft().begin()
        for _ in range(40):  # much faster than in the four seconds before
            let_in(45)
            waiting.popleft().begin()
        let_in(60)


@pytest.mark.parametrize("served_a_second", [50, 100, 400])
def test_a_flood_is_admitted_as_fast_as_it_is_served(monkeypatch: pytest.MonkeyPatch, served_a_second: int) -> None:
    monkeypatch.setattr(arrivals_module, "FEW", 64)
    clock = Clock()
    arrivals = Arrivals(0.5, clock)
    line = deque[tuple[Arrival, float]]()
    waits, let_in = list[float](), [0] * 20
    with ExitStack() as stack:
        for tick in range(20_000):  # of half a millisecond each
            clock.now = tick / 2000
            if tick % (2000 // served_a_second) == 0 and line:
                arrival, since = line.popleft()
                arrival.begin()
                waits.append(clock.now - since)
            if tick % (2000 // served_a_second // 5) == 0:  # five times as many
                try:
                    arrival = stack.enter_context(arrivals.admit("a"))
                except ResourceExhausted:
                    continue
                arrival.complete()
                line.append((arrival, clock.now))
                let_in[tick // 1000] += 1
    assert max(waits) < max(0.8, 96 / served_a_second), "no admitted request waits too long"
    assert all(0.8 <= count / (served_a_second / 2) <= 1.2 for count in let_in[2:]), "not in bursts"
