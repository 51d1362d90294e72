"""Fair shares of calls to services."""

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
"""Seconds: longer than any test, so that nothing expires meanwhile."""


class Service:
    """Accepts calls, which end when the test says so."""

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
        """Lets these calls end, and those that begin meanwhile."""
        self._may_end.set()
        await asyncio.gather(*tasks)
        self._may_end.clear()


@pytest.fixture
async def service(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Service]:
    """The service that is called; organisations that called it stay active."""
    service = Service()
    monkeypatch.setattr(client, "unary", service.unary)
    monkeypatch.setattr(fair_calls, "_PRESENT_SECONDS", LONG)
    yield service
    assert service.running == []


async def settle() -> None:
    """Lets everything run that doesn't wait for the test or for time: many more turns of the loop than needed."""
    for _ in range(100):
        await asyncio.sleep(0)


async def ask(calls: FairCalls, org_id: str, *, timeout: float = LONG) -> str:
    method: Any = org_id
    message: Any = None
    with use_tenant(Tenant(org_id, "u", "pro")):
        return await calls.unary(method, message, timeout=timeout)


def begin(calls: FairCalls, org_id: str, number: int = 1) -> list[asyncio.Task[str]]:
    return [asyncio.create_task(ask(calls, org_id)) for _ in range(number)]


async def test_a_flood_leaves_another_organisation_its_share(service: Service) -> None:
    waits: list[float] = []
    calls = FairCalls(4, waits.append)
    await service.end_calls(*begin(calls, "quiet"))
    assert waits == []
    flood = begin(calls, "flood", 40)
    await settle()
    assert service.running == ["flood", "flood"], "two slots are kept free for the recent caller"
    quiet = begin(calls, "quiet")
    await settle()
    assert service.running == ["flood", "flood", "quiet"], "it gets one at once"
    await service.end_calls(*quiet, *flood)
    assert len(waits) >= 38


async def test_a_single_organisation_may_use_all_slots(service: Service) -> None:
    calls = FairCalls(4, lambda _: None)
    tasks = begin(calls, "alone", 8)
    await settle()
    assert len(service.running) == 4
    await service.end_calls(*tasks)


async def test_while_several_organisations_are_active_a_flood_leaves_cores_free(service: Service) -> None:
    calls = FairCalls(6, lambda _: None, shared=2)
    alone = begin(calls, "flood", 12)
    await settle()
    assert service.running == ["flood"] * 6, "a single organisation gets all slots"
    await service.end_calls(*alone)
    await service.end_calls(*begin(calls, "quiet"))
    flood = begin(calls, "flood", 12)
    await settle()
    assert service.running == ["flood"], "of two cores, one is kept for the recent caller"
    third, quiet = begin(calls, "third"), begin(calls, "quiet")
    await settle()
    assert sorted(service.running) == ["flood", "quiet", "third"], "each organisation gets one, however few there are"
    await service.end_calls(*quiet, *third, *flood)


@pytest.mark.parametrize(("at_work", "at_once"), [(LONG, 1), (0.001, 3)])
async def test_a_call_that_waits_for_a_provider_frees_its_slot(
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
    assert streaming == at_once, "local work waits its turn like any other call"
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
    assert service.running == ["flood"], "each slot was released once"
    await service.end_calls(*others)


async def test_a_call_without_a_turn_in_time_is_refused(service: Service) -> None:
    calls = FairCalls(1, lambda _: None, most_waiting=2)
    tasks = begin(calls, "flood", 3)
    await settle()
    with pytest.raises(ResourceExhausted, match="too many requests"):
        await ask(calls, "flood")
    with pytest.raises(ResourceExhausted):
        await ask(calls, "other", timeout=0.001)
    await service.end_calls(*tasks)
