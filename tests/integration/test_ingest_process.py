"""The worker as a process: its settings, signals and metrics."""

import asyncio
import os
import signal
import sys
import urllib.request
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager

import pytest

from callers import keyed_environment
from databases import HasDsn
from fake_embedding import FakeModel
from ingest_harness import WINDOW, IngestHarness, article, embedder_address
from waiting import wait_until

Process = asyncio.subprocess.Process


@asynccontextmanager
async def worker_process(environment: Mapping[str, str]) -> AsyncGenerator[Process]:
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        *("-m", "citewire_retriever", "worker"),
        env={**os.environ, **environment},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
        await process.communicate()


def environment(database: HasDsn, embedder: str, port: int) -> dict[str, str]:
    return {
        **keyed_environment("worker"),
        "CITEWIRE_WORKER_DSN": database.dsn("citewire_worker"),
        "CITEWIRE_WORKER_EMBEDDER_TARGET": embedder,
        "CITEWIRE_WORKER_METRICS_PORT": str(port),
        "CITEWIRE_WORKER_POLL_SECONDS": "0.2",
        "CITEWIRE_WORKER_CONFINEMENT": "available",
        "CITEWIRE_WORKER_BATCH_CHUNKS": "4",
    }


@pytest.fixture
def free_port() -> int:
    import socket

    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


async def test_wrong_settings_are_named(database: HasDsn) -> None:
    async with worker_process({"CITEWIRE_WORKER_LEASE_SECONDS": "0"}) as process:
        _, errors = await process.communicate()
    assert process.returncode == 2
    assert b"CITEWIRE_WORKER_DSN: is required" in errors
    assert b"CITEWIRE_WORKER_LEASE_SECONDS" in errors


async def test_sigterm_gives_the_work_back_and_exits_cleanly(database: HasDsn, free_port: int) -> None:
    model = FakeModel(window=WINDOW)
    async with IngestHarness.open(database) as harness, embedder_address(model) as embedder:
        document_id = await harness.upload("about.md", article(8))
        model.gate.clear()
        async with worker_process(environment(database, embedder, free_port)) as process:
            async with asyncio.timeout(30):
                await model.computing.wait()
            metrics = await asyncio.to_thread(read, f"http://127.0.0.1:{free_port}/metrics")
            process.send_signal(signal.SIGTERM)
            async with asyncio.timeout(10):
                assert await process.wait() == 0
        job = await harness.job(document_id)
        assert (job["state"], job["attempts"], job["lease_until"]) == ("queued", 0, None)
        assert 'citewire_ingest_jobs_running{kind="ingest"} 1.0' in metrics
        assert 'citewire_ingest_failures_total{code="PASSWORD_REQUIRED"} 0.0' in metrics
        model.gate.set()
        async with worker_process(environment(database, embedder, free_port)):

            async def is_ready() -> bool:
                return (await harness.version(document_id))["status"] == "ready"

            await wait_until(is_ready)


def read(url: str) -> str:
    with urllib.request.urlopen(url, timeout=10) as response:  # noqa: S310 - our own process
        return str(response.read(), "utf-8")
