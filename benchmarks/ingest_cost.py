"""The cost of ingest, from an upload until its document can be searched, in the whole stack of a tree.

The documents are the sample library's text, Markdown, HTML and PDF files, each time with different bytes. It measures
wall-clock time and the CPU time of the processes involved: the worker with the processes that read files, the embedder,
and Postgres.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import shutil
import signal
import tempfile
import time
from collections.abc import AsyncGenerator, Mapping, Sequence
from pathlib import Path

import httpx
import psutil

from benchmarks.relay_systems import plain_environment
from benchmarks.slow_down import burning, paused
from citewire_kit.tasks import end
from local_stack import PORTS

ROOT = Path(__file__).resolve().parent.parent
LIBRARY = ROOT / "examples" / "library"
SUFFIXES = (".txt", ".md", ".html", ".pdf")
DOCUMENTS = 16
UPLOADS_AT_ONCE = 4
POLL_SECONDS = 0.05
PATIENCE_SECONDS = 120.0
_WORKING = ("citewire_embedder", "citewire_retriever worker", "postgres")
_numbers = itertools.count(time.time_ns())


class IngestBackend:
    """A tree's running stack."""

    def __init__(self, url: str, pid: int, pause: float) -> None:
        """Takes the gateway's address, the process that runs the stack, and by how much to prolong everything."""
        self._http = httpx.AsyncClient(base_url=url, trust_env=False, timeout=PATIENCE_SECONDS)
        self._pid = pid
        self._pause = pause
        self._files = [(path.name, path.read_bytes()) for path in sorted(LIBRARY.iterdir()) if path.suffix in SUFFIXES]

    async def measure(self, documents: int = DOCUMENTS) -> dict[str, float]:
        """Uploads documents, and waits until all can be searched."""
        with paused(self._pid, self._pause):
            spent, began = cpu_seconds_of_children(self._pid, _WORKING), time.perf_counter()
            ids: list[str] = []
            for first in range(0, documents, UPLOADS_AT_ONCE):
                numbers = range(first, min(first + UPLOADS_AT_ONCE, documents))
                ids += await asyncio.gather(
                    *(self._upload(*self._files[number % len(self._files)]) for number in numbers)
                )
            for document_id in ids:
                await self._until_ready(document_id)
            seconds = time.perf_counter() - began
            spent = cpu_seconds_of_children(self._pid, _WORKING) - spent
        return {"ingest": 1000 * seconds / documents, "ingest cpu": 1000 * spent / documents}

    async def close(self) -> None:
        """Closes the connections."""
        await self._http.aclose()

    async def _upload(self, name: str, data: bytes) -> str:
        comment = b"\n%% %d\n" if name.endswith(".pdf") else b"\n\nNumber %d.\n"
        files = {"file": (name, data + comment % next(_numbers))}
        response = await self._http.post("/v1/documents", files=files)
        response.raise_for_status()
        return str(response.json()["id"])

    async def _until_ready(self, document_id: str) -> None:
        async with asyncio.timeout(PATIENCE_SECONDS):
            while True:
                document = (await self._http.get(f"/v1/documents/{document_id}")).raise_for_status().json()
                if document["status"] == "failed":
                    raise RuntimeError(f"a document wasn't ingested: {document}")
                if document["status"] == "ready":
                    return
                await asyncio.sleep(POLL_SECONDS)


def cpu_seconds_of_children(pid: int, names: Sequence[str] = ("",)) -> float:
    """CPU time of a process's children with these names, including their descendants and finished processes."""
    return sum(
        sum(running.cpu_times()[:4])  # its own, and that of finished children
        for process in psutil.Process(pid).children()
        if any(name in " ".join(process.cmdline()[:5]) for name in names)
        for running in (process, *process.children(recursive=True))
    )


class TreeStack:
    """The stack of a tree while it starts, and afterwards."""

    def __init__(self, process: asyncio.subprocess.Process, data_dir: Path) -> None:
        """Takes the running `citewire up --json`, and its data folder."""
        self._process = process
        self._data_dir = data_dir
        self._output: list[str] = []

    @property
    def pid(self) -> int:
        """Id of the process that starts all others."""
        return self._process.pid

    async def ready(self) -> str:
        """Waits until it is ready; returns the gateway's address."""
        assert self._process.stdout is not None
        async for line in self._process.stdout:
            self._output.append(line.decode(errors="replace"))
            if '"event": "ready"' in self._output[-1]:
                return str(json.loads((self._data_dir / "run.json").read_bytes())["url"])
        raise RuntimeError(f"the stack did not start:\n{''.join(self._output)[-3000:]}")

    async def read_on(self) -> None:
        """Reads its output, which would block it otherwise."""
        assert self._process.stdout is not None
        async for _ in self._process.stdout:
            pass


@contextlib.asynccontextmanager
async def starting_stack(
    python: Path, root: Path, environment: Mapping[str, str] | None = None
) -> AsyncGenerator[TreeStack]:
    """Starts a tree's whole stack on a new data folder, and stops it after the block."""
    folder = Path(tempfile.mkdtemp(prefix="cw-stack-"))
    await asyncio.to_thread(folder.chmod, 0o755)  # as root, Postgres runs as another user
    data_dir = folder / "data"
    process = await asyncio.create_subprocess_exec(
        *(python, "-m", "citewire_cli", "up", "--json", "--no-sample", "--grace", "1"),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
        env={
            **plain_environment(),
            **dict.fromkeys(PORTS, "0"),
            "CITEWIRE_DATA_DIR": str(data_dir),
            **(environment or {}),
        },
        cwd=root,
        limit=2**20,
    )
    try:
        yield TreeStack(process, data_dir)
    finally:
        if process.returncode is None:
            process.send_signal(signal.SIGTERM)
        await process.communicate()
        shutil.rmtree(folder, ignore_errors=True)


@contextlib.asynccontextmanager
async def ingest_backend(python: Path, root: Path, *, burn: float, pause: float) -> AsyncGenerator[IngestBackend]:
    """Runs a tree's stack during the block; its Python processes use `burn` times their CPU time."""
    with burning(burn) as environment:
        async with starting_stack(python, root, environment) as stack:
            backend = IngestBackend(await stack.ready(), stack.pid, pause)
            reading = asyncio.create_task(stack.read_on())
            try:
                await backend.measure(len(SUFFIXES))  # warm-up for each kind
                yield backend
            finally:
                await end(reading)
                await backend.close()
