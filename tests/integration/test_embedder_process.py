"""`python -m citewire_embedder` as a process: it starts, answers, and ends."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import numpy as np
from citewire.embedder.v1 import embedder_pb2 as pb
from citewire.embedder.v1.embedder_pb2_grpc import EmbedderServiceStub

from citewire_kit import client
from citewire_kit.channel import open_channel

START_SECONDS = 120


@asynccontextmanager
async def process(**settings: str) -> AsyncGenerator[asyncio.subprocess.Process]:
    defaults = {"PORT": "0", "METRICS_PORT": "0", "LEAVE_SECONDS": "0"}
    environment = {f"CITEWIRE_EMBEDDER_{name}": value for name, value in {**defaults, **settings}.items()}
    child = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "citewire_embedder"),
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.PIPE,
        env={**os.environ, "CITEWIRE_AUTH": "off", **environment},
    )
    try:
        yield child
    finally:
        if child.returncode is None:
            child.kill()
            await child.wait()


async def port_when_ready(child: asyncio.subprocess.Process) -> int:
    """Follows the log until the model is ready."""
    assert child.stderr is not None
    port = 0
    seen: list[str] = []
    async with asyncio.timeout(START_SECONDS):
        async for line in child.stderr:
            seen.append(line.decode())
            entry = json.loads(line)
            port = int(entry.get("port", port))
            if entry["event"] == "model_ready":
                return port
    raise AssertionError("".join(seen))


async def end(child: asyncio.subprocess.Process) -> tuple[int, str]:
    """Terminates the process; returns its exit code and the rest of its log."""
    async with asyncio.timeout(START_SECONDS):
        _, log = await child.communicate()
    assert child.returncode is not None
    return child.returncode, log.decode()


async def test_it_serves_the_built_in_model_and_ends_on_sigterm() -> None:
    async with process() as child:
        channel = open_channel(f"127.0.0.1:{await port_when_ready(child)}")
        async with channel:
            request = pb.EmbedRequest(inputs=["what is a vector?"], purpose=pb.PURPOSE_QUERY)
            response = await client.unary(EmbedderServiceStub(channel).Embed, request, timeout=30)
        vector = np.frombuffer(response.vectors, "<f4")
        assert (response.space.model, vector.shape) == ("all-MiniLM-L6-v2", (384,))
        assert abs(np.linalg.norm(vector) - 1) < 1e-5
        child.terminate()
        code, log = await end(child)
    assert code == 0
    assert [json.loads(line)["event"] for line in log.splitlines()] == ["draining", "stopped"]


async def test_a_missing_model_ends_it_with_one_clear_line() -> None:
    async with process(MODEL="no-such-model") as child:
        code, log = await end(child)
    assert code == 1
    entry = json.loads(log.splitlines()[-1])
    assert entry["event"] == "cannot_start"
    assert "model 'no-such-model' is neither all-MiniLM-L6-v2" in entry["error"]
    assert "Traceback" not in log


async def test_an_invalid_setting_ends_it_with_its_name() -> None:
    async with process(PRECISION="fp8") as child:
        code, log = await end(child)
    assert code == 2
    assert "CITEWIRE_EMBEDDER_PRECISION" in log
