"""httpx2 over aiohttp: requests, answers, and the library's own errors."""

from __future__ import annotations

import asyncio
import gzip
import logging
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import aiohttp
import httpx2
import pytest

from citewire_remote.transport import AiohttpTransport, raw_body
from raw_upstream import Exchange, RawUpstream


@asynccontextmanager
async def client(upstream: RawUpstream) -> AsyncGenerator[tuple[httpx2.AsyncClient, str]]:
    async with upstream.running() as base, aiohttp.ClientSession() as session:
        yield httpx2.AsyncClient(transport=AiohttpTransport(session), timeout=None, trust_env=False), base


async def test_a_request_and_its_answer() -> None:
    async def answer(exchange: Exchange) -> None:
        await exchange.head(201, "application/json", Content_Encoding="gzip", X_Kept="yes")
        await exchange.send(gzip.compress(b'{"a": 1}'))

    upstream = RawUpstream(answer)
    async with client(upstream) as (http, base):
        response = await http.post(
            f"{base}/a%2Fb?q=%20", json={"b": 2}, headers={"Authorization": "Bearer k", "X-Organisation": "ours"}
        )
    assert (response.status_code, response.json(), response.headers["x-kept"]) == (201, {"a": 1}, "yes")
    request = upstream.requests[0]
    assert (request.path, request.body) == ("/v1/a%2Fb?q=%20", {"b": 2})
    assert request.headers["authorization"] == "Bearer k"
    assert "x-organisation" not in request.headers


async def test_a_body_is_streamed_past_the_client() -> None:
    go_on = asyncio.Event()

    async def answer(exchange: Exchange) -> None:
        await exchange.head()
        await exchange.send(b"one")
        await go_on.wait()
        await exchange.send(b"two")

    async with client(RawUpstream(answer)) as (http, base):
        async with http.stream("GET", base) as response:
            body = raw_body(response)
            assert await body.content.readany() == b"one"
            go_on.set()
            assert await body.content.readany() == b"two"
        assert body.closed


async def test_redirects_are_returned_as_answers() -> None:
    async def elsewhere(exchange: Exchange) -> None:
        await exchange.head(302, Location="http://127.0.0.1:9/")

    upstream = RawUpstream(elsewhere)
    async with client(upstream) as (http, base):
        assert (await http.get(base)).status_code == 302
    assert len(upstream.requests) == 1


async def test_failures_are_the_librarys_errors() -> None:
    async def cut(exchange: Exchange) -> None:
        await exchange.head(Content_Length="10")
        await exchange.send(b"one")

    async with client(RawUpstream(cut)) as (http, base):
        with pytest.raises(httpx2.ReadError):
            await http.get(base)
        with pytest.raises(httpx2.ConnectError) as caught:
            await http.get("http://127.0.0.1:1/")
    assert isinstance(caught.value.__cause__, aiohttp.ClientError)


async def test_an_errors_body_ends_where_it_breaks() -> None:
    async def cut(exchange: Exchange) -> None:
        await exchange.head(500, Content_Length="10")
        await exchange.send(b"one")

    async with client(RawUpstream(cut)) as (http, base):
        response = await http.get(base)
    assert (response.status_code, response.content) == (500, b"one")


async def test_nothing_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)

    async def answer(exchange: Exchange) -> None:
        await exchange.head()

    async with client(RawUpstream(answer)) as (http, base):
        await http.get(f"{base}/secret-path")
    assert "secret-path" not in caplog.text
