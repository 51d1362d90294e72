"""Calls of `citewire eval` are retried where that may help, whether they expect JSON or text."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncGenerator, Awaitable, Callable

import pytest

from citewire_cli.api import Api
from citewire_cli.errors import CliError
from citewire_cli.settings import load_client_settings
from citewire_eval.client import LONGEST_PAUSE, TRIES, RetryingClient
from fake_gateway import FakeGateway, Reply, reply_json, reply_problem

PATH = "/thing"

Ask = Callable[[RetryingClient], Awaitable[object]]


async def _json(calls: RetryingClient) -> object:
    return (await calls.call("GET", PATH))["text"]


async def _text(calls: RetryingClient) -> object:
    return await calls.text(PATH)


BOTH_WAYS = pytest.mark.parametrize("ask", [_json, _text])


@pytest.fixture
async def api(gateway: FakeGateway) -> AsyncGenerator[Api]:
    async with Api(load_client_settings({"CITEWIRE_URL": gateway.url})) as opened:
        yield opened


def refuse(gateway: FakeGateway, *refusals: Reply, ask: Ask) -> None:
    """Answers with `refusals` first, and then successfully."""
    good = reply_json({"text": "well"}) if ask is _json else Reply(content_type="text/plain", chunks=(b"well",))
    replies = itertools.chain(refusals, itertools.repeat(good))
    gateway.on("GET", PATH, lambda _request: next(replies))


def busy(status: int = 503, **headers: str) -> Reply:
    refusal = reply_problem(status, "Busy")
    refusal.headers.update({name.replace("_", "-"): value for name, value in headers.items()})
    return refusal


class Pauses:
    """Stands in for sleeping."""

    def __init__(self) -> None:
        self.seconds: list[float] = []

    async def __call__(self, seconds: float) -> None:
        self.seconds.append(seconds)
        await asyncio.sleep(0)


@BOTH_WAYS
@pytest.mark.parametrize("status", [429, 502, 503, 504])
async def test_temporary_failures_are_retried(gateway: FakeGateway, api: Api, ask: Ask, status: int) -> None:
    refuse(gateway, busy(status), busy(status), ask=ask)
    pauses = Pauses()
    assert await ask(RetryingClient(api, concurrency=1, sleep=pauses)) == "well"
    first, second = pauses.seconds
    assert 0.5 <= first <= 0.75
    assert 1.0 <= second <= 1.25


@BOTH_WAYS
async def test_retry_after_is_followed(gateway: FakeGateway, api: Api, ask: Ask) -> None:
    refuse(gateway, busy(retry_after="7"), busy(retry_after="3600"), ask=ask)
    pauses = Pauses()
    await ask(RetryingClient(api, concurrency=1, sleep=pauses))
    first, second = pauses.seconds
    assert 7 <= first <= 7.25
    assert LONGEST_PAUSE <= second <= LONGEST_PAUSE + 0.25


@BOTH_WAYS
async def test_the_last_failure_is_reported(gateway: FakeGateway, api: Api, ask: Ask) -> None:
    refuse(gateway, *[busy()] * TRIES, ask=ask)
    with pytest.raises(CliError) as caught:
        await ask(RetryingClient(api, concurrency=1, sleep=Pauses()))
    assert caught.value.status == 503
    assert len(gateway.requests) == TRIES


@BOTH_WAYS
@pytest.mark.parametrize("status", [400, 404, 500])
async def test_lasting_failures_are_not_retried(gateway: FakeGateway, api: Api, ask: Ask, status: int) -> None:
    refuse(gateway, busy(status), ask=ask)
    with pytest.raises(CliError):
        await ask(RetryingClient(api, concurrency=1, sleep=Pauses()))
    assert len(gateway.requests) == 1


@BOTH_WAYS
async def test_an_overload_lowers_the_concurrency(gateway: FakeGateway, api: Api, ask: Ask) -> None:
    refuse(gateway, busy(), busy(), ask=ask)
    calls = RetryingClient(api, concurrency=4, sleep=Pauses())
    in_flight, most = 0, list[int]()

    async def work(number: int) -> None:
        nonlocal in_flight
        in_flight += 1
        most.append(in_flight)
        try:
            # Only the first call meets the overload; the others wait until it has.
            if number == 0:
                await ask(calls)
                met.set()
            await met.wait()
            await asyncio.sleep(0)
        finally:
            in_flight -= 1

    met = asyncio.Event()
    await calls.for_each(range(20), work)
    assert max(most[:4]) == 4
    assert set(most[8:]) == {1}
