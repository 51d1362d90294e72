"""Chat providers that fail, and ones that are faster than the client, over a real gRPC server."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from contextlib import aclosing

import pytest
from citewire.generator.v1 import generator_pb2 as pb

from citewire_kit.errors import CitewireError, Code
from generator_server import QUICK, in_flight, kinds, relay, request, text_of
from raw_upstream import DONE, Exchange, RawUpstream, delta_event, usage_event
from waiting import wait_until


async def refuse(exchange: Exchange, status: int, **headers: str) -> None:
    await exchange.head(status, "application/json", **headers)
    await exchange.send(json.dumps({"error": {"message": "secret words", "type": "x"}}).encode())


async def fault_401(exchange: Exchange) -> None:
    await refuse(exchange, 401)


async def fault_429(exchange: Exchange) -> None:
    await refuse(exchange, 429, Retry_After="7")


async def fault_500(exchange: Exchange) -> None:
    await refuse(exchange, 500)


async def fault_529(exchange: Exchange) -> None:
    await refuse(exchange, 529)


async def stall_at_once(exchange: Exchange) -> None:
    await exchange.gone()


async def token_then(exchange: Exchange) -> None:
    await exchange.head()
    await exchange.delta("Once ")


async def stall_mid_stream(exchange: Exchange) -> None:
    await token_then(exchange)
    await exchange.gone()


async def malformed(exchange: Exchange) -> None:
    await token_then(exchange)
    await exchange.send(b"data: {secret words\n\n")


async def reset(exchange: Exchange) -> None:
    await token_then(exchange)
    await asyncio.sleep(0.05)
    exchange.reset()


async def cut(exchange: Exchange) -> None:
    await token_then(exchange)


async def error_event(exchange: Exchange) -> None:
    await token_then(exchange)
    await exchange.send(b'data: {"error": {"type": "overloaded_error", "message": "secret words"}}\n\n')


@pytest.mark.parametrize(
    ("behave", "code", "reason", "text"),
    [
        (fault_401, Code.FAILED_PRECONDITION, "PROVIDER_AUTH", ""),
        (fault_429, Code.RESOURCE_EXHAUSTED, "PROVIDER_RATE_LIMITED", ""),
        (fault_500, Code.UNAVAILABLE, "PROVIDER_UNAVAILABLE", ""),
        (fault_529, Code.UNAVAILABLE, "PROVIDER_UNAVAILABLE", ""),
        (stall_at_once, Code.DEADLINE_EXCEEDED, "PROVIDER_TIMEOUT", ""),
        (stall_mid_stream, Code.DEADLINE_EXCEEDED, "PROVIDER_TIMEOUT", "Once "),
        (malformed, Code.UNAVAILABLE, "PROVIDER_STREAM_BROKEN", "Once "),
        (reset, Code.UNAVAILABLE, "PROVIDER_STREAM_BROKEN", "Once "),
        (cut, Code.UNAVAILABLE, "PROVIDER_STREAM_BROKEN", "Once "),
        (error_event, Code.UNAVAILABLE, "PROVIDER_UNAVAILABLE", "Once "),
    ],
)
async def test_faults_of_the_provider(
    behave: Callable[[Exchange], Awaitable[None]], code: Code, reason: str, text: str
) -> None:
    upstream = RawUpstream(behave)
    events: list[pb.GenerateResponse] = []

    async def read() -> None:
        async with aclosing(running.generate(request())) as stream:
            async for event in stream:
                events.append(event)  # noqa: PERF401 - the events before the error are needed

    async with upstream.running() as base, relay(base, **QUICK) as running:
        with pytest.raises(CitewireError) as caught:
            await read()
        # The server goes on serving.
        upstream.behave = good
        assert text_of(await running.events(request())) == "Fine."
    assert (caught.value.code, caught.value.reason) == (code, reason)
    assert "secret" not in str(caught.value)
    assert kinds(events) == (["started", "delta"] if text else ["started"])
    assert text_of(events) == text
    assert len(upstream.requests) == 2
    if behave is fault_429:
        assert caught.value.retry_after == 7


async def test_an_unreachable_provider() -> None:
    async with RawUpstream(good).running() as base:
        pass
    async with relay(base, **QUICK) as running:
        with pytest.raises(CitewireError) as caught:
            await running.events(request())
    assert (caught.value.code, caught.value.reason) == (Code.UNAVAILABLE, "PROVIDER_UNAVAILABLE")


async def good(exchange: Exchange) -> None:
    await exchange.head()
    await exchange.send(delta_event("Fine.") + delta_event(None, "stop") + usage_event(3, 1) + DONE)


async def test_back_pressure_gathers_deltas_into_messages() -> None:
    count = 20_000

    async def flood(exchange: Exchange) -> None:
        await exchange.head()
        await exchange.send(delta_event("word ") * count + delta_event(None, "stop") + DONE)

    async with RawUpstream(flood).running() as base, relay(base) as running:
        events = await running.events(request())
    deltas = [event for event in events if event.HasField("delta")]
    assert text_of(events) == "word " * count
    assert len(deltas) < count / 20


async def test_a_slow_client_holds_the_upstream_back() -> None:
    sent = 0
    events = 100_000

    async def flood(exchange: Exchange) -> None:
        nonlocal sent
        await exchange.head()
        for _ in range(events // 100):
            await exchange.send(delta_event("x" * 400) * 100)
            sent += 100
        await exchange.send(delta_event(None, "stop") + DONE)

    async with RawUpstream(flood).running() as base, relay(base) as running:
        stream = running.generate(request(policy=pb.AnswerPolicy(grounding=pb.GROUNDING_SAY_SO)))
        await anext(stream)
        await anext(stream)
        before = -1
        while before != sent:  # until nothing more is sent
            before = sent
            await asyncio.sleep(0.3)
        assert sent < events / 2
        await stream.aclose()
        await wait_until(lambda: in_flight() == 0)
