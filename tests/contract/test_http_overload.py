"""Overload: requests that wait too long keep out further requests of the same caller, and of no other."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import httpx
import pytest

from api_keys import bearer, key_for
from citewire_gateway import app
from citewire_kit.arrivals import FEW, Arrival, Arrivals
from gateway_fake_servers import running_fakes
from gateway_process import running_gateway
from waiting import wait_until

if TYPE_CHECKING:
    from databases import Database

SEARCH = {"query": "How much did revenue grow?"}
LONG = 300.0
"""Seconds: longer than any call here takes."""


class Clock:
    """A clock that moves only when a test moves it."""

    def __init__(self) -> None:
        self.now = 0.0
        self.received = 0
        """The number of requests received so far."""

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """The clock by which the gateway measures how long requests wait."""
    clock = Clock()

    class RecordedArrivals(Arrivals):
        def __init__(self, seconds: float) -> None:
            super().__init__(seconds, clock)

        def add(self, caller: str, arrival: Arrival) -> None:
            super().add(caller, arrival)
            clock.received += 1

    monkeypatch.setattr(app, "Arrivals", RecordedArrivals)
    return clock


@pytest.mark.parametrize("call", ["embed", "search"])
async def test_a_request_behind_a_long_wait_is_refused_at_once_and_anothers_is_not(
    database: Database, clock: Clock, call: str
) -> None:
    acme, other = [bearer((await key_for(database, org, "ann"))["key"]) for org in ("acme", "other")]
    patience = dict.fromkeys(("embed_seconds", "search_seconds", "request_seconds"), LONG)
    async with (
        running_fakes() as fakes,
        running_gateway(database, fakes, auth="keys", max_calls=1, arrival_seconds=0.2, **patience) as gateway,
    ):
        log = fakes.embedder.log if call == "embed" else fakes.retriever.log
        gate, reached = log.gates[call], log.reached[call] = asyncio.Event(), asyncio.Event()

        def search(headers: dict[str, str]) -> asyncio.Task[httpx.Response]:
            return asyncio.create_task(gateway.http.post("/v1/search", json=SEARCH, headers=headers, timeout=LONG))

        waiting = [search(acme)]
        await reached.wait()
        waiting += [search(acme) for _ in range(FEW)]
        await wait_until(lambda: clock.received == 1 + FEW, 60)
        clock.now += 0.3  # longer than a request may wait
        refused = await gateway.http.get("/v1/collections", headers=acme)
        assert not any(task.done() for task in waiting), "the refusal must not wait for the requests ahead"
        assert (refused.status_code, refused.json()["reason"]) == (503, "OVERLOADED")
        assert refused.headers["Retry-After"] == "1"
        foreign = search(other)
        gate.set()
        assert {response.status_code for response in await asyncio.gather(*waiting, foreign)} == {200}
        assert (await search(acme)).status_code == 200
