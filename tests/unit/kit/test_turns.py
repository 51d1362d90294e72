"""Computing in threads, in organisations' turns."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable

import pytest

from citewire_kit.tenant import Tenant, current_tenant, use_tenant
from citewire_kit.turns import in_long_turn, in_turn, in_waiting_turn
from waiting import wait_until


class Computing:
    """Work that lasts until it is released; records whose work began, in order."""

    def __init__(self) -> None:
        self.began: list[str] = []
        self.go_on = threading.Semaphore(0)

    def __call__(self) -> str:
        org_id = current_tenant().org_id
        self.began.append(org_id)
        assert self.go_on.acquire(timeout=10)
        return org_id


async def ask(org_id: str, work: Callable[[], str], *, long: bool = False) -> str:
    with use_tenant(Tenant(org_id, "u", "pro")):
        return await (in_long_turn if long else in_turn)(work)


async def test_a_flood_computes_one_piece_after_another_and_others_at_once() -> None:
    work = Computing()
    flood = [asyncio.create_task(ask("flood", work)) for _ in range(100)]
    await wait_until(lambda: len(work.began) == 1)
    quiet = asyncio.create_task(ask("quiet", work))
    await wait_until(lambda: work.began == ["flood", "quiet"])
    work.go_on.release(101)
    assert await quiet == "quiet"
    assert await asyncio.gather(*flood) == ["flood"] * 100
    assert work.began.count("flood") == 100


async def test_long_work_has_a_separate_queue() -> None:
    work = Computing()
    long = [asyncio.create_task(ask("acme", work, long=True)) for _ in range(3)]
    await wait_until(lambda: len(work.began) == 1)
    short = asyncio.create_task(ask("acme", work))
    await wait_until(lambda: len(work.began) == 2)
    work.go_on.release(4)
    await asyncio.gather(short, *long)


async def test_cancelled_work_leaves_the_queue_but_running_work_keeps_its_slot() -> None:
    work = Computing()
    first, second, third = [asyncio.create_task(ask("acme", work)) for _ in range(3)]
    await wait_until(lambda: len(work.began) == 1)
    first.cancel()
    second.cancel()
    await asyncio.wait({first, second})
    assert first.cancelled()
    assert second.cancelled()
    await asyncio.sleep(0.01)
    assert len(work.began) == 1, "a running thread can't be cancelled"
    work.go_on.release(2)
    assert await third == "acme"
    assert len(work.began) == 2


async def test_an_error_reaches_its_caller_and_the_next_has_its_turn() -> None:
    def fail() -> str:
        raise ValueError(current_tenant().org_id)

    work = Computing()
    work.go_on.release()
    results = await asyncio.gather(ask("acme", fail), ask("acme", work), return_exceptions=True)
    assert repr(results) == "[ValueError('acme'), 'acme']"
    with pytest.raises(ValueError, match="acme"):
        await ask("acme", fail)


async def test_waiting_work_has_separate_threads_one_for_each_queue() -> None:
    work = Computing()

    async def wait(line: int) -> str:
        with use_tenant(Tenant("acme", "u", "pro")):
            return await in_waiting_turn(str(line % 4), work)

    waiting = [asyncio.create_task(wait(number)) for number in range(12)]
    await wait_until(lambda: len(work.began) == 4)
    assert await ask("acme", lambda: "computed") == "computed"
    assert len(work.began) == 4
    work.go_on.release(12)
    await asyncio.gather(*waiting)
