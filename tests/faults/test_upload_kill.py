"""SIGKILL of the worker and of Postgres while files are uploaded over HTTP; the supervisor restarts them.

Every acknowledged document becomes ready with the chunks and vectors of an undisturbed run of the same stack; an
upload that is sent again with its Idempotency-Key is stored once. `make faults` uploads 200 files, a normal run a few.
`test_ingest_kill.py` tests the same with the worker alone, which is faster and allows for many more kills.
"""

import asyncio
import random
import time
from collections import Counter
from collections.abc import AsyncGenerator, Iterable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

import httpx
import numpy as np
import pytest

from ingest_files import make_pdf, prose_page
from ingest_harness import IngestHarness, article
from paced_model_stack import PacedModelStack
from proof_scale import PrintTable, ProofScale

VICTIMS = ("worker", "postgres")
_CHUNK = "chunk_index text token_count content_hash section place char_start char_end"


@dataclass(frozen=True, slots=True)
class File:
    """A file to upload after a number of kills."""

    name: str
    data: bytes
    after_kills: int


@dataclass(slots=True)
class Chaos:
    """Kills processes, and counts the kills."""

    paced: PacedModelStack
    http: httpx.AsyncClient
    random: random.Random
    kills: Counter[str] = field(default_factory=Counter[str])
    _killed: asyncio.Condition = field(default_factory=asyncio.Condition)

    async def wait_for_kills(self, kills: int) -> None:
        """Waits until there were `kills` kills."""
        async with self._killed:
            await self._killed.wait_for(lambda: self.kills.total() >= kills)

    async def run(self, stop: asyncio.Event) -> None:
        """Kills at random moments, mostly while a document is being processed, until `stop` is set."""
        stack = self.paced.stack
        while not stop.is_set():
            victim = self.random.choice(VICTIMS)
            await self._until_busy()
            with suppress(TimeoutError):
                async with asyncio.timeout(self.random.uniform(0, 0.5)):
                    await stop.wait()
            old = stack.kill(victim)
            self.kills[victim] += 1
            async with self._killed:
                self._killed.notify_all()
            await asyncio.to_thread(stack.wait_restarted, victim, old)

    async def _until_busy(self) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(3):
                while not await self._is_busy():  # noqa: ASYNC110 # there is no notification
                    await asyncio.sleep(0.02)

    async def _is_busy(self) -> bool:
        result = await self.http.get("/v1/documents", params={"status": "processing"})
        return result.status_code == 200 and bool(result.json()["documents"])


@asynccontextmanager
async def running_chaos(chaos: Chaos) -> AsyncGenerator[None]:
    stop = asyncio.Event()
    async with asyncio.TaskGroup() as group:
        group.create_task(chaos.run(stop))
        try:
            yield
        finally:
            stop.set()


@pytest.mark.timeout(3000)
async def test_no_acknowledged_upload_is_lost_or_doubled(
    paced: PacedModelStack,
    proof: ProofScale,
    print_table: PrintTable,
) -> None:
    count, kills = proof.pick(scaled_down=8, full=200), proof.pick(scaled_down=4, full=40)
    choices, run = proof.random(), f"{time.time_ns()}"
    files = [File(*make_file(choices, number), number * kills // count) for number in range(count)]
    refusals: Counter[str] = Counter()
    async with httpx.AsyncClient(base_url=paced.stack.base_url, trust_env=False, timeout=10) as http:
        chaos = Chaos(paced, http, choices)
        began = time.perf_counter()
        async with running_chaos(chaos):
            disturbed = await upload_all(http, files, f"disturbed-{run}", refusals, chaos)
            await chaos.wait_for_kills(kills)
        await asyncio.to_thread(paced.stack.wait_ready)
        await until_ready(http, disturbed.values())
        seconds = time.perf_counter() - began
        quiet = await upload_all(http, files, f"quiet-{run}", Counter(), None)
        await until_ready(http, quiet.values())
    async with IngestHarness.open(paced.stack) as harness:
        await check_not_doubled(harness, f"disturbed-{run}", disturbed)
        chunks = sum([await check_same(harness, disturbed[file.name], quiet[file.name]) for file in files])
        interrupted = await count_interrupted(harness, disturbed)
    print_table(
        f"Uploads over HTTP under SIGKILL, seed {proof.seed}",
        ["uploads", *(f"{name} kills" for name in VICTIMS), "sent again", "interrupted", "ready", "chunks", "seconds"],
        [
            [
                count,
                *(chaos.kills[name] for name in VICTIMS),
                ", ".join(f"{number} × {reason}" for reason, number in refusals.items()) or 0,
                interrupted,
                len(disturbed),
                chunks,
                round(seconds),
            ]
        ],
    )


def make_file(choices: random.Random, number: int) -> tuple[str, bytes]:
    """Makes a file that keeps the worker busy for a while; no two are alike."""
    name, size = f"matter{number}", choices.randint(10, 40)
    kind = choices.choice(["md", "txt", "csv", "pdf"])
    if kind == "csv":
        rows = "".join(f"{name} part {row},{row * number},about {row} of {name}\n" for row in range(size))
        return f"{name}.csv", f"Name,Amount,Note\n{rows}".encode()
    if kind == "pdf":
        lines = [[f"Line {line} of the text about {name} goes on." for line in range(8)]]
        return f"{name}.pdf", make_pdf([prose_page(f"Page {page} of {name}", lines) for page in range(size // 4)])
    return f"{name}.{kind}", article(size, name=name).encode()


async def upload_all(
    http: httpx.AsyncClient, files: Sequence[File], collection: str, refusals: Counter[str], chaos: Chaos | None
) -> dict[str, int]:
    """Uploads everything, three at once; returns the documents' ids by file name."""
    waiting = list(reversed(files))
    done: dict[str, int] = {}

    async def client() -> None:
        while waiting:
            file = waiting.pop()
            if chaos is not None:
                await chaos.wait_for_kills(file.after_kills)
            done[file.name] = await upload(http, file, collection, refusals)

    async with asyncio.TaskGroup() as group:
        for _ in range(3):
            group.create_task(client())
    return done


async def upload(http: httpx.AsyncClient, file: File, collection: str, refusals: Counter[str]) -> int:
    """Uploads a file until it is acknowledged, always with the same Idempotency-Key."""
    deadline = time.monotonic() + 180
    while True:
        response = await http.post(
            "/v1/documents",
            files={"file": (file.name, file.data)},
            data={"collection": collection},
            headers={"Idempotency-Key": f"{collection}/{file.name}"},
        )
        if response.status_code == 202:
            return int(response.json()["id"])
        reason = response.json()["reason"]
        assert (response.status_code, reason) in {
            (503, "DATABASE_UNAVAILABLE"),
            (503, "SERVICE_UNAVAILABLE"),
            (409, "IDEMPOTENCY_IN_PROGRESS"),
        }, response.text
        assert int(response.headers["retry-after"]) >= 1
        assert time.monotonic() < deadline, response.text
        refusals[reason] += 1
        await asyncio.sleep(0.2)  # less than the server's Retry-After, so that more uploads meet a kill


async def until_ready(http: httpx.AsyncClient, ids: Iterable[int]) -> None:
    async with asyncio.timeout(300):
        for document_id in ids:
            while (result := (await http.get(f"/v1/documents/{document_id}")).json())["status"] != "ready":
                assert result["status"] != "failed", result
                await asyncio.sleep(0.1)  # there is no notification


async def check_not_doubled(harness: IngestHarness, collection: str, done: dict[str, int]) -> None:
    """Checks that the collection has each file once, as the acknowledged document."""
    rows = await harness.rows(
        "SELECT file_name, document_id FROM corpus.documents JOIN corpus.collections USING (org_id, collection_id)"
        " WHERE name = %s",
        collection,
    )
    assert sorted((row["file_name"], row["document_id"]) for row in rows) == sorted(done.items())


async def check_same(harness: IngestHarness, disturbed: int, quiet: int) -> int:
    """Checks that both documents have the same text, chunks and vectors; returns the number of chunks."""
    assert (await harness.document(disturbed))["live_version"] == 1
    assert await harness.text(disturbed) == await harness.text(quiet)
    ours, theirs = await harness.chunks(disturbed), await harness.chunks(quiet)
    assert [[row[name] for name in _CHUNK.split()] for row in ours] == [
        [row[name] for name in _CHUNK.split()] for row in theirs
    ]
    ours, theirs = await harness.vectors(disturbed), await harness.vectors(quiet)
    assert [row["chunk_index"] for row in ours] == [row["chunk_index"] for row in theirs] == list(range(len(ours)))
    for chunk, other in zip(ours, theirs, strict=True):
        # Half-precision floats; the order of their sums depends on the batch.
        np.testing.assert_allclose(_floats(chunk["embedding"]), _floats(other["embedding"]), atol=1e-3)
    return len(ours)


def _floats(text: str) -> "np.ndarray[Any, np.dtype[np.float64]]":
    return np.array(text.strip("[]").split(","), dtype=float)


async def count_interrupted(harness: IngestHarness, done: dict[str, int]) -> int:
    """Counts the attempts that a kill interrupted; checks that each document's job is done."""
    jobs = await harness.rows(
        "SELECT state, attempts FROM corpus.ingest_jobs WHERE document_id = ANY(%s)", list(done.values())
    )
    assert [job["state"] for job in jobs] == ["done"] * len(done)
    interrupted = sum(job["attempts"] - 1 for job in jobs)
    assert interrupted, "no kill interrupted a document: the test proves nothing"
    return interrupted
