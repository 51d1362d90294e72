"""Calls of services in fair shares."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from citewire_kit import client, fair_calls
from citewire_kit.errors import ResourceExhausted
from citewire_kit.fair_calls import FairCalls
from citewire_kit.tenant import Tenant, use_tenant
from waiting import wait_until

LONG = 3600.0
"""Seconds that no test lasts: what depends on time stays as it is meanwhile."""


class Service:
    """Takes calls, which end when the test lets them."""

    def __init__(self) -> None:
        self.running: list[str] = []
        """The organisations of the calls that run."""
        self._may_end = asyncio.Event()

    async def unary(self, method: str, _request: object, *, timeout: float) -> str:
        """Stands for `client.unary`; the method is the organisation."""
        self.running.append(method)
        try:
            await self._may_end.wait()
        finally:
            self.running.remove(method)
        return method

    async def end_calls(self, *tasks: asyncio.Task[str]) -> None:
        """Lets those calls end, and any that begin until they have."""
        self._may_end.set()
        await asyncio.gather(*tasks)
        self._may_end.clear()


@pytest.fixture
async def service(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Service]:
    """The service that is called; who was there stays present."""
    service = Service()
    monkeypatch.setattr(client, "unary", service.unary)
    monkeypatch.setattr(fair_calls, "_PRESENT_SECONDS", LONG)
    yield service
    assert service.running == []


async def settle() -> None:
    """Lets everything happen that waits for neither the test nor time: far more turns of the loop than that takes."""
    for _ in range(100):
        await asyncio.sleep(0)


async def ask(calls: FairCalls, org_id: str, *, timeout: float = LONG) -> str:
    method: Any = org_id
    message: Any = None
    with use_tenant(Tenant(org_id, "u", "pro")):
        return await calls.unary(method, message, timeout=timeout)


def begin(calls: FairCalls, org_id: str, number: int = 1) -> list[asyncio.Task[str]]:
    return [asyncio.create_task(ask(calls, org_id)) for _ in range(number)]


async def test_a_flood_leaves_another_organisation_its_part(service: Service) -> None:
    waits: list[float] = []
    calls = FairCalls(4, waits.append)
    await service.end_calls(*begin(calls, "quiet"))
    assert waits == []
    flood = begin(calls, "flood", 40)
    await settle()
    assert service.running == ["flood", "flood"], "two places are kept free for who was there just now"
    quiet = begin(calls, "quiet")
    await settle()
    assert service.running == ["flood", "flood", "quiet"], "and it has one at once"
    await service.end_calls(*quiet, *flood)
    assert len(waits) >= 38


async def test_one_alone_makes_all_calls(service: Service) -> None:
    calls = FairCalls(4, lambda _: None)
    tasks = begin(calls, "alone", 8)
    await settle()
    assert len(service.running) == 4
    await service.end_calls(*tasks)


async def test_while_several_are_there_a_flood_leaves_cores_free(service: Service) -> None:
    calls = FairCalls(6, lambda _: None, shared=2)
    alone = begin(calls, "flood", 12)
    await settle()
    assert service.running == ["flood"] * 6, "all places are there for one alone"
    await service.end_calls(*alone)
    await service.end_calls(*begin(calls, "quiet"))
    flood = begin(calls, "flood", 12)
    await settle()
    assert service.running == ["flood"], "of two cores, one is kept for who was there just now"
    third, quiet = begin(calls, "third"), begin(calls, "quiet")
    await settle()
    assert sorted(service.running) == ["flood", "quiet", "third"], "and everyone has one, however few there are"
    await service.end_calls(*quiet, *third, *flood)


@pytest.mark.parametrize(("at_work", "at_once"), [(LONG, 1), (0.001, 3)])
async def test_what_waits_for_a_provider_frees_its_place(
    service: Service, monkeypatch: pytest.MonkeyPatch, at_work: float, at_once: int
) -> None:
    monkeypatch.setattr(fair_calls, "_AT_WORK_SECONDS", at_work)
    calls = FairCalls(1, lambda _: None)
    streaming = 0
    may_end = asyncio.Event()

    async def stream() -> None:
        nonlocal streaming
        with use_tenant(Tenant("flood", "u", "pro")):
            async with calls.begun(LONG):
                streaming += 1
                await may_end.wait()

    streams = [asyncio.create_task(stream()) for _ in range(3)]
    await wait_until(lambda: streaming == at_once)
    await settle()
    assert streaming == at_once, "what computes here has its turn like any other call"
    quiet = begin(calls, "quiet")
    if at_once == 3:
        await wait_until(lambda: service.running == ["quiet"])
    else:
        await settle()
        assert service.running == []
    may_end.set()
    await service.end_calls(*quiet)
    await asyncio.gather(*streams)
    others = begin(calls, "flood", 3)
    await settle()
    assert service.running == ["flood"], "each place was given back once"
    await service.end_calls(*others)


async def test_who_gets_no_turn_in_time_is_told(service: Service) -> None:
    calls = FairCalls(1, lambda _: None, most_waiting=2)
    tasks = begin(calls, "flood", 3)
    await settle()
    with pytest.raises(ResourceExhausted, match="too many requests"):
        await ask(calls, "flood")
    with pytest.raises(ResourceExhausted):
        await ask(calls, "other", timeout=0.001)
    await service.end_calls(*tasks)
