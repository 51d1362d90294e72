"""Calls of services in fair shares."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from citewire_kit import client, fair_calls
from citewire_kit.errors import ResourceExhausted
from citewire_kit.fair_calls import FairCalls
from citewire_kit.tenant import Tenant, use_tenant
from waiting import wait_until


@pytest.fixture
def running(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The organisations of the calls that run; each takes a hundredth of a second."""
    calls: list[str] = []

    async def unary(method: str, _request: object, *, timeout: float) -> str:
        calls.append(method)
        await asyncio.sleep(0.01)
        calls.remove(method)
        return method

    monkeypatch.setattr(client, "unary", unary)
    return calls


async def ask(calls: FairCalls, org_id: str, *, timeout: float = 10) -> str:
    method: Any = org_id
    message: Any = None
    with use_tenant(Tenant(org_id, "u", "pro")):
        return await calls.unary(method, message, timeout=timeout)


async def test_a_flood_leaves_another_organisation_its_part(running: list[str]) -> None:
    waits: list[float] = []
    calls = FairCalls(4, waits.append)
    assert await ask(calls, "quiet") == "quiet"
    assert waits == []
    flood = [asyncio.create_task(ask(calls, "flood")) for _ in range(40)]
    await asyncio.sleep(0)
    assert running == ["flood", "flood"], "two places are kept free for who was there just now"
    quiet = asyncio.create_task(ask(calls, "quiet"))
    for _ in range(3):
        await asyncio.sleep(0)
    assert "quiet" in running
    await asyncio.gather(quiet, *flood)
    assert len(waits) >= 38


async def test_one_alone_makes_all_calls(running: list[str]) -> None:
    calls = FairCalls(4, lambda _: None)
    tasks = [asyncio.create_task(ask(calls, "alone")) for _ in range(8)]
    await asyncio.sleep(0.005)
    assert len(running) == 4
    await asyncio.gather(*tasks)


async def test_while_several_are_there_a_flood_leaves_cores_free(running: list[str]) -> None:
    calls = FairCalls(6, lambda _: None, shared=2)
    alone = [asyncio.create_task(ask(calls, "flood")) for _ in range(12)]
    await asyncio.sleep(0.005)
    assert running == ["flood"] * 6, "all places are there for one alone"
    await asyncio.gather(*alone)
    await ask(calls, "quiet")
    flood = [asyncio.create_task(ask(calls, "flood")) for _ in range(12)]
    await asyncio.sleep(0.005)
    assert running == ["flood"], "of two cores, one is kept for who was there just now"
    third = asyncio.create_task(ask(calls, "third"))
    quiet = asyncio.create_task(ask(calls, "quiet"))
    await asyncio.sleep(0.001)
    assert sorted(running) == ["flood", "quiet", "third"], "and everyone has one, however few there are"
    await asyncio.gather(quiet, third, *flood)


async def test_what_waits_for_a_provider_frees_its_place(running: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fair_calls, "_AT_WORK_SECONDS", 0.02)
    calls = FairCalls(1, lambda _: None)
    waiting = asyncio.Event()

    async def stream() -> None:
        with use_tenant(Tenant("flood", "u", "pro")):
            async with calls.begun(10):
                running.append("stream")
                await waiting.wait()

    streams = [asyncio.create_task(stream()) for _ in range(3)]
    await asyncio.sleep(0)
    assert running == ["stream"], "what computes here has its turn like any other call"
    assert await ask(calls, "quiet") == "quiet"
    await wait_until(lambda: running == ["stream"] * 3)
    waiting.set()
    await asyncio.gather(*streams)
    running.clear()
    others = [asyncio.create_task(ask(calls, "flood")) for _ in range(3)]
    await asyncio.sleep(0.005)
    assert running == ["flood"], "each place was given back once"
    await asyncio.gather(*others)


async def test_who_gets_no_turn_in_time_is_told(running: list[str]) -> None:
    calls = FairCalls(1, lambda _: None, most_waiting=2)
    tasks = [asyncio.create_task(ask(calls, "flood")) for _ in range(3)]
    await asyncio.sleep(0)
    with pytest.raises(ResourceExhausted, match="too many requests"):
        await ask(calls, "flood")
    with pytest.raises(ResourceExhausted):
        await ask(calls, "other", timeout=0.001)
    await asyncio.gather(*tasks)
    assert running == []
