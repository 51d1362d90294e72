"""`Search` in several trees, for `benchmarks.compare`: each has a loaded database, and a retriever that searches it."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncGenerator, Collection
from pathlib import Path
from typing import Any

from benchmarks.compare_trees import Costs, Tree
from benchmarks.ingest_cost import cpu_seconds_of_children
from benchmarks.relay_systems import plain_environment
from benchmarks.search_ways import WARM_UP_SECONDS, run_way
from benchmarks.slow_down import burning, paused

SEARCH_CHUNKS = 12_000
SEARCH_SECONDS = 2.0
PAUSE_CYCLE_SECONDS = 0.2
"""With pauses twice as frequent, a planted tenth became a sixth."""

# Runs in any tree, with that tree's own benchmarks: keeps a loaded database, and restarts the retriever for each line.
_SEARCH_BACKEND = """
import json, sys
from benchmarks.search_data import loaded
from benchmarks.search_ways import retriever
with loaded(int(sys.argv[1])) as data:
    orgs = [org for org, size in data.sizes.items() if size >= 200]
    print("=", json.dumps({"orgs": orgs, "dsn": data.dsn("citewire_corpus")}), flush=True)
    while sys.stdin.readline():
        with retriever(data) as port:
            print("=", json.dumps({"port": port}), flush=True)
            sys.stdin.readline()
        print("=", json.dumps({"ended": port}), flush=True)
"""


class SearchBackend:
    """A tree's loaded database; measures a retriever on it."""

    def __init__(self, process: asyncio.subprocess.Process, pause: float) -> None:
        """Takes the process that runs `_SEARCH_BACKEND`, and how much longer than its time to make searches take."""
        self._process = process
        self._pause = pause
        self._database: dict[str, Any] = {}

    async def loaded(self) -> None:
        """Waits until the chunks are in the database."""
        self._database = await self._read()

    async def measure(self) -> Costs:
        """Starts the retriever, searches for a few seconds, and stops it."""
        assert self._process.stdin is not None
        self._process.stdin.write(b"start\n")
        port = (await self._read())["port"]
        orgs, dsn = self._database["orgs"], self._database["dsn"]
        spent = cpu_seconds_of_children(self._process.pid)
        with paused(self._process.pid, self._pause, cycle=PAUSE_CYCLE_SECONDS):
            rate = await asyncio.to_thread(run_way, "gRPC", orgs, SEARCH_SECONDS, dsn=dsn, port=port)
        spent = cpu_seconds_of_children(self._process.pid) - spent
        self._process.stdin.write(b"stop\n")
        await self._read()  # it has ended; otherwise its shutdown would be measured with the next tree
        searches = rate.per_second * (SEARCH_SECONDS + WARM_UP_SECONDS)
        return {"search time": 1000 / rate.per_second, "search cpu": 1000 * spent / searches}

    async def _read(self) -> dict[str, Any]:
        """The next line meant for this process; migrations write their log to the same stream."""
        assert self._process.stdout is not None
        async for line in self._process.stdout:
            if line.startswith(b"= "):
                return json.loads(line[2:])
        raise RuntimeError("the retriever, or its database, has ended")


@contextlib.asynccontextmanager
async def search_backend(tree: Tree, logs: Path, only: Collection[str]) -> AsyncGenerator[SearchBackend]:
    """Loads a tree's database and keeps it while the block runs."""
    with burning(tree.slow_down_of("search cpu", only)) as burnt, (logs / "search.log").open("ab") as errors:
        process = await asyncio.create_subprocess_exec(
            *(tree.python, "-c", _SEARCH_BACKEND, str(SEARCH_CHUNKS)),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=errors,
            env=plain_environment() | burnt,
            cwd=tree.root,
        )
        try:
            backend = SearchBackend(process, tree.slow_down_of("search time", only))
            await backend.loaded()
            yield backend
        finally:
            assert process.stdin is not None
            process.stdin.close()
            await process.wait()
