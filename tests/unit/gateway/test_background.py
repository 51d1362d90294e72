"""The sweeper goes on whatever its rounds raise, and counts failures."""

from __future__ import annotations

import asyncio

import pytest
from prometheus_client import REGISTRY

from citewire_http.background import run_sweeper
from citewire_kit.errors import Unavailable
from waiting import wait_until


@pytest.mark.parametrize("error", [Unavailable("no database", reason="DATABASE_UNAVAILABLE"), ValueError("a defect")])
async def test_a_round_that_fails_is_counted_and_stops_no_other(error: Exception) -> None:
    def failures() -> float:
        return REGISTRY.get_sample_value("citewire_sweeper_failures_total", {"round": "first"}) or 0.0

    prepared, first, second = list[int](), list[int](), list[int]()

    async def prepare() -> None:
        prepared.append(1)
        if len(prepared) == 1:
            raise error

    async def fail() -> None:
        first.append(1)
        raise error

    async def sweep() -> None:
        second.append(1)

    before = failures()
    rounds = {"first": fail, "second": sweep}
    sweeper = asyncio.create_task(run_sweeper(rounds, seconds=0.01, prepare=prepare))
    try:
        await wait_until(lambda: len(second) >= 2, 10)
    finally:
        sweeper.cancel()
        await asyncio.wait((sweeper,))
    assert sweeper.cancelled()
    assert len(prepared) == 2
    assert failures() - before >= 2
