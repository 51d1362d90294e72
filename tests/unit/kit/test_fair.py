"""Fair shares: nothing unused, bounded unfairness, nobody starves."""

from __future__ import annotations

import asyncio
from collections import Counter
from contextlib import AsyncExitStack, ExitStack

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from citewire_kit.errors import ResourceExhausted
from citewire_kit.fair import FairQueue, FairShares

KEYS = ("a", "b", "c", "d")
costs = st.integers(1, 50)


def refusal(key: str) -> ResourceExhausted:
    return ResourceExhausted(f"no more for {key}", reason="OVERLOADED", retry_after=1.0)


def shares(capacity: int, **options: object) -> FairShares:
    return FairShares(capacity, refusal, **options)  # pyright: ignore[reportArgumentType] # the tests' own names


@given(st.lists(st.tuples(st.sampled_from(KEYS), costs), max_size=60))
def test_a_queue_serves_everything_once_and_a_key_in_its_order(pushes: list[tuple[str, int]]) -> None:
    queue: FairQueue[tuple[str, int]] = FairQueue()
    for number, (key, _) in enumerate(pushes):
        queue.push(key, (key, number))
    served: list[tuple[str, int]] = []
    while queue:  # work-conserving: while it isn't empty, it has a first item
        item = queue.first()
        served.append(item)
        queue.charge(pushes[item[1]][1])
    assert sorted(served, key=lambda item: item[1]) == [(key, number) for number, (key, _) in enumerate(pushes)]
    for key in KEYS:
        numbers = [number for served_key, number in served if served_key == key]
        assert numbers == sorted(numbers)


@given(st.lists(costs, min_size=8, max_size=40), st.lists(costs, min_size=8, max_size=40))
def test_two_busy_keys_are_at_most_two_charges_apart(left: list[int], right: list[int]) -> None:
    queue: FairQueue[tuple[str, int]] = FairQueue()
    for cost in left:
        queue.push("a", ("a", cost))
    for cost in right:
        queue.push("b", ("b", cost))
    done: Counter[str] = Counter()
    most = max(left + right)
    remaining = {"a": len(left), "b": len(right)}
    while all(remaining.values()):
        key, cost = queue.first()
        queue.charge(cost)
        done[key] += cost
        remaining[key] -= 1
        assert abs(done["a"] - done["b"]) <= 2 * most


@given(st.integers(1, 500), costs, st.integers(1, 20))
def test_a_latecomer_waits_for_one_item_of_a_flood(flood: int, cost: int, served_before: int) -> None:
    queue: FairQueue[str] = FairQueue()
    for _ in range(flood + served_before + 1):
        queue.push("flood", "flood")
    for _ in range(served_before):
        queue.charge(cost)
    queue.push("late", "late")
    order = [queue.first()]
    queue.charge(cost)
    order.append(queue.first())
    assert "late" in order


@given(st.integers(1, 300), costs)
def test_an_idle_key_saves_up_nothing(idle: int, cost: int) -> None:
    queue: FairQueue[str] = FairQueue()
    for key in ("busy", "back"):
        queue.push(key, key)
    queue.charge(cost)
    queue.charge(cost)
    for _ in range(idle):
        queue.push("busy", "busy")
        queue.charge(cost)
    for _ in range(4):
        queue.push("busy", "busy")
        queue.push("back", "back")
    served: list[str] = []
    while queue:
        served.append(queue.first())
        queue.charge(cost)
    assert Counter(served[:4]) == {"busy": 2, "back": 2}


def test_an_unfinished_item_goes_to_the_end_of_its_keys_line() -> None:
    queue: FairQueue[str] = FairQueue()
    for item in ("long", "short"):
        queue.push("a", item)
    queue.charge(1, again=True)
    assert queue.first() == "short"
    queue.remove("a", "short")
    assert queue.first() == "long"
    queue.remove("a", "long")
    queue.remove("a", "long")
    assert not queue


def test_a_queue_forgets_keys_without_debts() -> None:
    queue: FairQueue[str] = FairQueue()
    queue.push("always", "always")
    for number in range(2000):
        queue.push(f"org{number}", "once")
        queue.charge(1, again=queue.first() == "always")
        queue.charge(1, again=queue.first() == "always")
    assert len(queue._times) < 200  # pyright: ignore[reportPrivateUsage] # its size is what is tested


def test_a_single_key_may_hold_everything_and_then_others_are_refused() -> None:
    permits = shares(4)
    with ExitStack() as stack:
        for _ in range(4):
            stack.enter_context(permits.hold_now("a"))
        with pytest.raises(ResourceExhausted):
            permits.check("a")
        with pytest.raises(ResourceExhausted), permits.hold_now("b"):
            pass
    assert permits.total == 0


def test_a_key_with_less_gets_what_another_holds_beyond_its_share() -> None:
    permits, interrupted = shares(4), list[int]()
    with ExitStack() as stack:
        for number in range(4):
            held = stack.enter_context(permits.hold_now("a"))
            stack.enter_context(held.revocable(lambda number=number: interrupted.append(number)))
        for _ in range(2):
            stack.enter_context(permits.hold_now("b"))
        assert interrupted == [3, 2]  # the newest, so that the least work is lost
        assert (permits.used("a"), permits.used("b"), permits.total) == (2, 2, 4)
        with pytest.raises(ResourceExhausted), permits.hold_now("b"):
            pass  # both have the same, so nothing is revoked
    assert permits.total == 0


def test_beyond_the_capacity_each_key_still_has_its_share() -> None:
    permits = shares(8, beyond=True)
    with permits.hold_now("a", 8), permits.hold_now("b", 4):
        with pytest.raises(ResourceExhausted), permits.hold_now("b", 1):
            pass
        with permits.hold_now("c", 2):
            assert permits.total == 14


def test_the_capacity_is_exceeded_only_if_nothing_can_be_revoked() -> None:
    permits, interrupted = shares(4, beyond=True), list[str]()
    with ExitStack() as stack:
        for _ in range(3):
            stack.enter_context(permits.hold_now("a"))
        held = stack.enter_context(permits.hold_now("a"))
        stack.enter_context(held.revocable(lambda: interrupted.append("a")))
        stack.enter_context(permits.hold_now("b"))
        assert (interrupted, permits.total) == (["a"], 4)
        stack.enter_context(permits.hold_now("b"))
        assert (permits.used("a"), permits.used("b"), permits.total) == (3, 2, 5)
        with pytest.raises(ResourceExhausted), permits.hold_now("b"):
            pass
    assert permits.total == 0


def test_a_key_is_limited_to_its_share_if_another_was_active_recently() -> None:
    now = [0.0]
    permits = shares(4, linger_seconds=1.0, clock=lambda: now[0])
    with permits.hold_now("b"):
        pass
    with ExitStack() as stack:
        for _ in range(2):
            stack.enter_context(permits.hold_now("a"))
        with pytest.raises(ResourceExhausted), permits.hold_now("a"):
            pass
        now[0] = 1.5
        for _ in range(2):
            stack.enter_context(permits.hold_now("a"))


async def test_a_newcomer_gets_its_share_at_once_while_another_holds_everything() -> None:
    permits = shares(4, linger_seconds=1.0, shared=2)
    held = list[str]()
    done = asyncio.Event()

    async def work(key: str) -> None:
        async with permits.hold(key):
            held.append(key)
            await done.wait()

    tasks = [asyncio.create_task(work("flood")) for _ in range(10)]
    await asyncio.sleep(0)
    assert held == ["flood"] * 4
    tasks += [asyncio.create_task(work(key)) for key in ("b", "c", "d", "e", "e")]
    await asyncio.sleep(0)
    assert held[4:] == ["b", "c", "d"], "the flood counts with its share, which is one"
    done.set()
    await asyncio.gather(*tasks)
    assert permits.total == 0


async def test_released_permits_go_to_the_key_with_the_least() -> None:
    permits, served = shares(2), list[str]()
    release = asyncio.Event()

    async def work(key: str) -> None:
        async with permits.hold(key):
            served.append(key)
            await release.wait()

    flood = [asyncio.create_task(work("a")) for _ in range(10)]
    await asyncio.sleep(0)
    late = [asyncio.create_task(work("b")) for _ in range(2)]
    await asyncio.sleep(0)
    release.set()
    await asyncio.gather(*flood, *late)
    assert served[2] == "b"
    assert Counter(served[2:6]) == {"a": 2, "b": 2}


async def test_requests_beyond_the_queue_limit_are_refused() -> None:
    permits = shares(1, most_waiting=2)
    async with AsyncExitStack() as stack:
        await stack.enter_async_context(permits.hold("a"))

        async def wait() -> None:
            async with permits.hold("a"):
                pass

        tasks = [asyncio.create_task(wait()) for _ in range(2)]
        await asyncio.sleep(0)
        with pytest.raises(ResourceExhausted):
            await wait()
    await asyncio.gather(*tasks)


async def test_an_urgent_request_goes_before_the_others_of_its_key() -> None:
    permits, served = shares(1, most_waiting=2), list[str]()

    async def work(name: str, key: str, *, first: bool = False) -> None:
        async with permits.hold(key, first=first):
            served.append(name)

    async with permits.hold("c"):
        tasks = [asyncio.create_task(work(name, "a")) for name in ("one", "two")]
        await asyncio.sleep(0)
        tasks.append(asyncio.create_task(work("begun", "a", first=True)))
        tasks.append(asyncio.create_task(work("other", "b")))
        await asyncio.sleep(0)
    await asyncio.gather(*tasks)
    assert [name for name in served if name != "other"] == ["begun", "one", "two"]


async def test_a_large_request_is_not_overtaken_by_small_ones() -> None:
    permits, order = shares(10), list[str]()

    async def work(name: str, key: str, amount: int) -> None:
        async with permits.hold(key, amount):
            order.append(name)
            await asyncio.sleep(0)

    async with permits.hold("a", 6):
        tasks = [asyncio.create_task(work("large", "b", 10))]
        await asyncio.sleep(0)
        tasks += [asyncio.create_task(work("small", "c", 1)) for _ in range(3)]
        await asyncio.sleep(0)
    await asyncio.gather(*tasks)
    assert order[0] == "large"


@settings(max_examples=60, deadline=None)
@given(
    st.integers(1, 6),
    st.lists(st.tuples(st.sampled_from(KEYS), st.integers(1, 3), st.booleans()), min_size=1, max_size=40),
    st.sampled_from([0.0, 0.001]),
)
def test_no_caller_starves_and_nothing_is_lost(
    capacity: int, callers: list[tuple[str, int, bool]], linger: float
) -> None:
    async def go() -> None:
        permits, most = shares(capacity, linger_seconds=linger), 0
        ended = 0

        async def work(key: str, turns: int) -> None:
            nonlocal most, ended
            async with permits.hold(key):
                most = max(most, permits.total)
                for _ in range(turns):
                    await asyncio.sleep(0)
            ended += 1

        tasks = [asyncio.create_task(work(key, turns)) for key, turns, _ in callers]
        await asyncio.sleep(0)
        departures = [task for task, (_, _, leaves) in zip(tasks, callers, strict=True) if leaves]
        for task in departures:
            task.cancel()
        async with asyncio.timeout(5):
            await asyncio.gather(*tasks, return_exceptions=True)
        assert ended >= len(tasks) - len(departures)
        assert permits.total == 0
        assert most < 2 * capacity
        if not linger:
            assert most <= capacity
            assert most == min(capacity, len(tasks))  # work-conserving

    asyncio.run(go())
