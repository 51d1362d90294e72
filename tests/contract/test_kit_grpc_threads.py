"""All processes but the retriever's turn gRPC's event engine off, before gRPC is loaded and by a valid setting."""

from __future__ import annotations

import asyncio
import re
import sys
from asyncio.subprocess import PIPE
from pathlib import Path

import pytest

import echo_service
from citewire_kit import WITHOUT_EVENT_ENGINE

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="elsewhere the event engine isn't turned off")

FIRST_IMPORT = """
import os, runpy, sys

def look(event, arguments):
    if event == "import" and arguments[0] == "grpc":
        print(os.environ.get("GRPC_EXPERIMENTS"), flush=True)
        os._exit(0)

sys.addaudithook(look)
sys.argv = sys.argv[1:]
runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
"""
CALLS = 50
EXCHANGE = """
import asyncio, os, sys
sys.path.insert(0, sys.argv[1])
from citewire_kit import client
from citewire_kit.channel import open_channel
from citewire_kit.server import GrpcServer, run
from echo_service import SERVICE, EchoServicer, EchoStub, make_settings, register, text

def engine_wakings():
    tasks = [f"/proc/self/task/{task}" for task in os.listdir("/proc/self/task")]
    engine = [task for task in tasks if "event_engine" in open(f"{task}/comm").read()]
    lines = [line for task in engine for line in open(f"{task}/status") if line.startswith("voluntary_ctxt")]
    return sum(int(line.split()[1]) for line in lines)

async def main():
    server = GrpcServer(make_settings(), service="test")
    server.add(register, EchoServicer(), SERVICE)
    channel = open_channel(f"127.0.0.1:{await server.start()}")
    server.set_serving(True)
    method = EchoStub(channel).unary
    await client.unary(method, text("first"), timeout=20)
    before = engine_wakings()
    for number in range(int(sys.argv[2])):
        await client.unary(method, text(str(number)), timeout=20)
    print("wakings", engine_wakings() - before, flush=True)
    await channel.close()
    await server.drain_and_stop()

run(main())
"""


async def _run(program: str, *arguments: str) -> tuple[str, str]:
    process = await asyncio.create_subprocess_exec(sys.executable, "-c", program, *arguments, stdout=PIPE, stderr=PIPE)
    try:
        async with asyncio.timeout(60):
            out, err = await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    return out.decode().strip(), err.decode()


@pytest.mark.parametrize(
    ("command", "experiments"),
    [
        (("citewire_embedder",), WITHOUT_EVENT_ENGINE),
        (("citewire_generator",), WITHOUT_EVENT_ENGINE),
        (("citewire_retriever", "serve"), ""),
        (("citewire_retriever", "worker"), ""),
        (("citewire_gateway", "serve"), WITHOUT_EVENT_ENGINE),
    ],
    ids=["embedder", "generator", "retriever serve", "retriever worker", "gateway serve"],
)
async def test_the_setting_is_made_before_grpc_is_loaded(command: tuple[str, ...], experiments: str) -> None:
    assert (await _run(FIRST_IMPORT, *command))[0] == experiments


async def test_calls_wake_no_thread_of_the_event_engine() -> None:
    output, errors = await _run(EXCHANGE, str(Path(echo_service.__file__).parent), str(CALLS))
    wakings = re.search(r"^wakings (\d+)$", output, re.MULTILINE)
    assert wakings is not None, errors
    assert int(wakings[1]) < CALLS
    assert "Unknown experiment" not in errors
