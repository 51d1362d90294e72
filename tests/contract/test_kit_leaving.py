"""Peers that leave: a drain, the end of the grace period, a killed process, a closed channel."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncGenerator
from pathlib import Path

import pytest
from google.protobuf.wrappers_pb2 import StringValue

import echo_service
from citewire_kit import client
from citewire_kit.channel import open_channel
from citewire_kit.errors import Unavailable
from echo_service import EchoServicer, EchoStub, make_settings, running_echo_service, text
from endless_calls import EndlessHandler, read_all, stream_metric
from waiting import BUSY_SECONDS


async def test_drain_lets_a_running_stream_finish_and_accepts_no_new_call() -> None:
    release = asyncio.Event()

    async def stream(_request: StringValue) -> AsyncGenerator[StringValue]:
        yield text("first")
        await release.wait()
        yield text("last")

    # Clients leave in the second after NOT_SERVING. A call that reaches grpc.aio while it stops may get no answer.
    async with running_echo_service(EchoServicer(server_stream=stream), make_settings(leave_seconds=1.0)) as running:
        answers = client.stream(running.stub.server_stream, text("go"), timeout=30)
        assert (await anext(answers)).value == "first"
        draining = asyncio.create_task(running.server.drain_and_stop())
        await _until_refused(running.stub)
        assert not draining.done()
        release.set()
        assert [answer.value async for answer in answers] == ["last"]
        async with asyncio.timeout(5):
            await draining


async def test_drain_does_not_wait_for_health_watches() -> None:
    async with running_echo_service(EchoServicer(), make_settings(drain_seconds=60)) as running:
        await client.unary(running.stub.unary, text("x"), timeout=5)  # the channel is connected and watches health
        async with asyncio.timeout(BUSY_SECONDS):
            await running.server.drain_and_stop()


async def test_a_stream_that_outlives_the_grace_period_is_cut_with_an_error() -> None:
    handler = EndlessHandler()
    before = stream_metric("cancelled_total", cause="drain")
    async with running_echo_service(
        EchoServicer(server_stream=handler.stream), make_settings(drain_seconds=0.3)
    ) as running:
        answers = client.stream(running.stub.server_stream, text("go"), timeout=30)
        await anext(answers)
        draining = asyncio.create_task(running.server.drain_and_stop())
        with pytest.raises(Unavailable):
            await read_all(answers)
        async with asyncio.timeout(BUSY_SECONDS):
            await handler.ended.wait()
            await draining
    assert stream_metric("cancelled_total", cause="drain") == before + 1


async def test_a_peer_that_is_killed_is_unavailable_before_and_within_a_stream() -> None:
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-c",
        _KILLED,
        str(Path(echo_service.__file__).parent),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
    )
    assert process.stdout is not None
    port = int((await process.stdout.readline()).decode().removeprefix("port "))
    channel = open_channel(f"127.0.0.1:{port}")
    stub = EchoStub(channel)
    answers = client.stream(stub.server_stream, text("go"), timeout=30)
    await anext(answers)
    process.kill()
    await process.wait()
    with pytest.raises(Unavailable) as raised:
        await read_all(answers)
    assert raised.value.reason == "SERVICE_UNAVAILABLE"
    assert raised.value.retry_after is not None
    with pytest.raises(Unavailable):
        await client.unary(stub.unary, text("x"), timeout=5)
    await channel.close()


_KILLED = """
import asyncio, sys
sys.path.insert(0, sys.argv[1])
from citewire_kit.telemetry import configure_logging
configure_logging("test", level="ERROR", log_format="json")
from echo_service import EchoServicer, running_echo_service, text

async def stream(_request):
    while True:
        yield text("tick")
        await asyncio.sleep(0.01)

async def main():
    async with running_echo_service(EchoServicer(server_stream=stream)) as running:
        print("port", running.port, flush=True)
        await asyncio.sleep(60)

asyncio.run(main())
"""


async def test_a_call_on_a_closed_channel_is_unavailable_and_not_a_cancellation() -> None:
    handler = EndlessHandler()
    async with running_echo_service(EchoServicer(unary=handler.hold)) as running:
        channel = open_channel(f"127.0.0.1:{running.port}")
        calling = asyncio.create_task(client.unary(EchoStub(channel).unary, text("x"), timeout=30))
        await handler.started.wait()
        await channel.close()
        with pytest.raises(Unavailable):
            await calling


async def _until_refused(stub: EchoStub) -> None:
    """Waits until calls are refused, and checks that none fails in another way."""
    async with asyncio.timeout(10):
        while True:
            try:
                await client.unary(stub.unary, text("x"), timeout=5)
            except Unavailable:
                return
            await asyncio.sleep(0.01)
