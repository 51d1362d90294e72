"""The retriever as a process: errors at the start, and how it stops."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from typing import Any

import grpc
import pytest
from citewire.retriever.v1 import corpus_pb2 as pb
from citewire.retriever.v1.corpus_pb2_grpc import CorpusServiceStub

from callers import caller_metadata, keyed_environment
from citewire_kit.tenant import Tenant
from databases import Database

COMMAND = [sys.executable, "-m", "citewire_retriever"]


def environment(**values: str) -> dict[str, str]:
    settings = {"PORT": "0", "METRICS_PORT": "0", "LEAVE_SECONDS": "0", "HEALTH_SECONDS": "0.1", **values}
    return {**os.environ, **{f"CITEWIRE_RETRIEVER_{name}": value for name, value in settings.items()}}


async def test_it_serves_until_it_is_told_to_stop(database: Database) -> None:
    env = {**environment(DSN=database.dsn("citewire_corpus")), "CITEWIRE_AUTH": "keys", **keyed_environment()}
    process = await asyncio.create_subprocess_exec(*COMMAND, env=env, stderr=asyncio.subprocess.PIPE)
    assert process.stderr is not None
    events: list[dict[str, Any]] = []

    async def read_until(stream: asyncio.StreamReader, name: str) -> dict[str, Any]:
        async for line in stream:
            events.append(json.loads(line))
            if events[-1]["event"] == name:
                return events[-1]
        raise AssertionError(f"{name} was not logged: {events}")

    try:
        port = (await read_until(process.stderr, "listening"))["port"]
        await read_until(process.stderr, "serving")
        async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
            stub = CorpusServiceStub(channel)
            me = caller_metadata(Tenant("acme", "ada", "pro"), "/citewire.retriever.v1.CorpusService/ListDocuments")
            listed = await stub.ListDocuments(pb.ListDocumentsRequest(), metadata=me, timeout=10)
            assert list(listed.documents) == []
            with pytest.raises(grpc.aio.AioRpcError) as refused:
                await stub.ListDocuments(pb.ListDocumentsRequest(), timeout=10)
            assert refused.value.code() == grpc.StatusCode.UNAUTHENTICATED
        process.send_signal(signal.SIGTERM)
        await read_until(process.stderr, "draining")
        await read_until(process.stderr, "stopped")
        assert await process.wait() == 0
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


@pytest.mark.parametrize(
    ("settings", "code", "text"),
    [
        ({}, 2, "CITEWIRE_RETRIEVER_DSN: is required"),
        ({"DSN": "postgresql://", "POOL_MAX_SIZE": "many"}, 2, "CITEWIRE_RETRIEVER_POOL_MAX_SIZE"),
        ({"DSN": "no such thing ="}, 1, "connection string"),
    ],
)
def test_wrong_settings_are_named(settings: dict[str, str], code: int, text: str) -> None:
    env = environment(**settings)
    done = subprocess.run(COMMAND, env=env, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == code
    assert text in done.stderr
    assert "Traceback" not in done.stderr
