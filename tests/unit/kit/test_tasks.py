"""Tasks end even if a cancellation is lost."""

from __future__ import annotations

import asyncio

import pytest

from citewire_kit import tasks
from citewire_kit.tasks import end, end_others


async def stubborn(losing: int) -> None:
    """Ignores the given number of cancellations."""
    lost = 0
    while True:
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            lost += 1
            if lost > losing:
                raise


async def test_a_lost_cancellation_is_repeated() -> None:
    task = asyncio.create_task(stubborn(2))
    await asyncio.sleep(0)
    async with asyncio.timeout(5):
        await end(task, again_seconds=0.01)
    assert task.cancelled()


async def test_a_loop_whose_wait_is_over_when_it_is_cancelled() -> None:
    come = asyncio.Event()

    async def loop() -> None:
        while True:
            await asyncio.wait_for(come.wait(), 60)  # in Python 3.11, it loses a cancellation that comes now
            come.clear()

    task = asyncio.create_task(loop())
    await asyncio.sleep(0.01)
    come.set()
    async with asyncio.timeout(5):
        await end(task, again_seconds=0.01)
    assert task.cancelled()


async def test_a_tasks_own_error_is_not_raised() -> None:
    async def failing() -> None:
        try:
            await asyncio.sleep(60)
        finally:
            raise KeyError("it fails at its end")

    failed, done = asyncio.create_task(failing()), asyncio.create_task(asyncio.sleep(0))
    await done
    async with asyncio.timeout(5):
        await end(failed, done)
    assert isinstance(failed.exception(), KeyError)


async def test_the_waiter_can_be_cancelled_too() -> None:
    task = asyncio.create_task(stubborn(5))
    await asyncio.sleep(0)
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.1):
            await end(task, again_seconds=60)
    await end(task, again_seconds=0.01)


async def test_tasks_that_do_not_end_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[object] = []

    class Log:
        def warning(self, event: str, **fields: object) -> None:
            told.append((event, fields))

    monkeypatch.setattr(tasks, "log", Log())
    task = asyncio.create_task(stubborn(7), name="stubborn")
    await asyncio.sleep(0)
    async with asyncio.timeout(5):
        await end(task, again_seconds=0.01)
    assert told == [("tasks_not_ending", {"tasks": ["stubborn"]})]


async def test_all_other_tasks_end() -> None:
    others = [asyncio.create_task(stubborn(0)) for _ in range(3)]
    await asyncio.sleep(0)
    async with asyncio.timeout(5):
        await end_others()
    assert all(task.cancelled() for task in others)
