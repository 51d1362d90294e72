"""More requests than can be served: those that wait too long keep out further ones of their caller, and no others."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import httpx
import pytest

from api_keys import bearer, key_for
from citewire_kit.arrivals import FEW
from gateway_fake_servers import running_fakes
from gateway_process import running_gateway

if TYPE_CHECKING:
    from databases import Database

SEARCH = {"query": "How much did revenue grow?"}


@pytest.mark.parametrize("call", ["embed", "search"])
async def test_a_request_behind_a_long_wait_is_refused_at_once_and_anothers_is_not(
    database: Database, call: str
) -> None:
    acme, other = [bearer((await key_for(database, org, "ann"))["key"]) for org in ("acme", "other")]
    async with (
        running_fakes() as fakes,
        running_gateway(database, fakes, auth="keys", max_calls=1, arrival_seconds=0.2) as gateway,
    ):
        log = fakes.embedder.log if call == "embed" else fakes.retriever.log
        gate, reached = log.gates[call], log.reached[call] = asyncio.Event(), asyncio.Event()

        def search() -> asyncio.Task[httpx.Response]:
            return asyncio.create_task(gateway.http.post("/v1/search", json=SEARCH, headers=acme))

        waiting = [search()]
        await reached.wait()
        waiting += [search() for _ in range(FEW)]
        await asyncio.sleep(0.4)  # longer than one may wait
        while True:
            asked = asyncio.create_task(gateway.http.get("/v1/collections", headers=acme))
            if (await asyncio.wait({asked}, timeout=0.2))[0]:
                break
            waiting.append(asked)  # a busy gateway hadn't taken in all the others: it waits with them
        refused = asked.result()
        assert (refused.status_code, refused.json()["reason"]) == (503, "OVERLOADED")
        assert refused.headers["Retry-After"] == "1"
        foreign = asyncio.create_task(gateway.http.post("/v1/search", json=SEARCH, headers=other))
        gate.set()
        assert {response.status_code for response in await asyncio.gather(*waiting, foreign)} == {200}
        assert (await gateway.http.post("/v1/search", json=SEARCH, headers=acme)).status_code == 200
