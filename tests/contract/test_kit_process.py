"""A process's life: start, SIGTERM, drain, end."""

from __future__ import annotations

import asyncio
import json
import signal
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncGenerator
from contextlib import aclosing, asynccontextmanager
from pathlib import Path

import pytest
from google.protobuf.wrappers_pb2 import StringValue

import echo_service
from citewire_kit import client
from citewire_kit.channel import open_channel
from citewire_kit.errors import Unavailable
from echo_service import EchoStub, text

PROGRAM = """
import asyncio, gc, sys
sys.path.insert(0, sys.argv[1])
from citewire_kit import telemetry
from citewire_kit.server import GrpcServer, run, run_until_signal
from echo_service import SERVICE, EchoServicer, make_settings, register, text

settings = make_settings(port=int(sys.argv[2]), drain_seconds=float(sys.argv[3]))
telemetry.setup("test", settings)

async def stream(request):
    if sys.argv[4] == "count":
        yield text(str(gc.get_freeze_count()))
    try:
        for number in range(int(request.value)):
            yield text(str(number))
            await asyncio.sleep(0.05)
    finally:
        if sys.argv[4] == "tidy":
            await asyncio.sleep(0.3)
            print("tidied", flush=True)

async def start(stack):
    stack.callback(print, "closed last", flush=True)
    stack.callback(print, "closed first", flush=True)
    if sys.argv[4] == "slow":
        print("starting", flush=True)
        await asyncio.sleep(60)
    server = GrpcServer(settings, service="test")
    server.add(register, EchoServicer(server_stream=stream), SERVICE)
    print("port", await server.start(), flush=True)
    return server

async def main():
    print(type(asyncio.get_running_loop()).__module__, flush=True)
    await run_until_signal(start, settings)
    print("ended", flush=True)

run(main())
"""


@asynccontextmanager
async def program(*, port: int = 0, drain_seconds: float = 10, mode: str = "normal") -> AsyncGenerator[Process]:
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-c",
        PROGRAM,
        str(Path(echo_service.__file__).parent),
        str(port),
        str(drain_seconds),
        mode,
        stdout=PIPE,
        stderr=PIPE,
    )
    try:
        assert await line(process) == "uvloop"
        yield process
    finally:
        if process.returncode is None:
            process.kill()
        await process.communicate()


async def line(process: Process) -> str:
    assert process.stdout is not None
    async with asyncio.timeout(20):
        return (await process.stdout.readline()).decode().strip()


async def rest(process: Process) -> list[str]:
    async with asyncio.timeout(20):
        out, _ = await process.communicate()
    return out.decode().split("\n")[:-1]


async def port_of(process: Process) -> int:
    return int((await line(process)).removeprefix("port "))


async def _read(answers: AsyncGenerator[StringValue]) -> None:
    async for _ in answers:
        pass


async def _logged(process: Process, event: str) -> None:
    """Waits for a line of the process's log."""
    assert process.stderr is not None
    async with asyncio.timeout(20):
        while f'"event": "{event}"' not in (await process.stderr.readline()).decode():
            pass


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_a_signal_lets_the_running_stream_finish_and_closes_in_reverse(number: signal.Signals) -> None:
    async with program() as process:
        channel = open_channel(f"127.0.0.1:{await port_of(process)}")
        answers = client.stream(EchoStub(channel).server_stream, text("10"), timeout=20)
        async with aclosing(answers):
            assert (await anext(answers)).value == "0"
            process.send_signal(number)
            assert [answer.value async for answer in answers] == [str(n) for n in range(1, 10)]
        await channel.close()
        assert await rest(process) == ["closed first", "closed last", "ended"]
        assert process.returncode == 0


async def test_objects_built_at_start_are_excluded_from_garbage_collection() -> None:
    async with program(mode="count") as process:
        channel = open_channel(f"127.0.0.1:{await port_of(process)}")
        answers = client.stream(EchoStub(channel).server_stream, text("0"), timeout=20)
        async with aclosing(answers):
            assert int((await anext(answers)).value) > 10_000
        await channel.close()
        process.terminate()
        assert await rest(process) == ["closed first", "closed last", "ended"]


async def test_a_second_signal_cuts_the_drain_short() -> None:
    async with program(drain_seconds=60) as process:
        channel = open_channel(f"127.0.0.1:{await port_of(process)}")
        answers = client.stream(EchoStub(channel).server_stream, text("100000"), timeout=60)
        await anext(answers)
        process.terminate()
        await _logged(process, "draining")
        process.terminate()
        with pytest.raises(Unavailable):
            await _read(answers)
        await channel.close()
        assert await rest(process) == ["closed first", "closed last", "ended"]


async def test_a_call_that_the_drain_cuts_off_ends_before_what_it_uses_is_closed() -> None:
    async with program(drain_seconds=0.1, mode="tidy") as process:
        channel = open_channel(f"127.0.0.1:{await port_of(process)}")
        answers = client.stream(EchoStub(channel).server_stream, text("100000"), timeout=60)
        await anext(answers)
        process.terminate()
        with pytest.raises(Unavailable):
            await _read(answers)
        await channel.close()
        async with asyncio.timeout(20):
            out, err = await process.communicate()
        assert out.decode().split("\n")[:-1] == ["tidied", "closed first", "closed last", "ended"]
        assert [json.loads(entry)["event"] for entry in err.decode().splitlines()] == [
            "listening",
            "draining",
            "stopped",
            "rpc_cancelled",
        ]


async def test_a_signal_during_the_start_ends_it() -> None:
    async with program(mode="slow") as process:
        assert await line(process) == "starting"
        process.terminate()
        assert await rest(process) == ["closed first", "closed last", "ended"]
        assert process.returncode == 0


async def test_a_taken_port_is_one_plain_line_and_exit_code_1() -> None:
    async with program() as first, program(port=await port_of(first)) as second:
        async with asyncio.timeout(20):
            out, err = await second.communicate()
        assert second.returncode == 1
        assert out.decode().split() == ["closed", "first", "closed", "last"]
        assert b"cannot listen on" in err
        assert b"Traceback" not in err


LOSING = """
import asyncio
from citewire_kit.server import run

async def loop():
    for _ in range(2):  # the first cancellation is lost
        try:
            await asyncio.sleep(600)
        except asyncio.CancelledError:
            print("cancelled", flush=True)

async def main():
    task = asyncio.create_task(loop())
    await asyncio.sleep(0)
    print("ended", flush=True)

run(main())
"""


async def test_a_task_that_loses_its_cancellation_does_not_keep_the_process() -> None:
    process = await asyncio.create_subprocess_exec(sys.executable, "-c", LOSING, stdout=PIPE)
    try:
        async with asyncio.timeout(20):
            out, _ = await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
    assert (process.returncode, out.decode().split()) == (0, ["ended", "cancelled", "cancelled"])
