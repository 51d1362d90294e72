"""SIGKILL of workers at random moments of a backfill: in the end every chunk has one vector, and no job is left.

`make faults` runs it in full (30 kills), a normal run scales it down; `--seed` repeats a run's choices.
"""

import asyncio
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from callers import keyed_environment
from citewire_embedder.providers.base import TokenisedText, Vectors
from corpus_rows import CorpusRows, NewDocument
from fake_embedding import DIMENSIONS, FakeModel
from ingest_harness import WINDOW, IngestHarness, embedder_address
from proof_scale import ProofScale
from waiting import wait_until

if TYPE_CHECKING:
    from databases import Database

WORKERS = 2
_ENVIRONMENT = {
    "CITEWIRE_WORKER_LEASE_SECONDS": "1",
    "CITEWIRE_WORKER_POLL_SECONDS": "0.2",
    "CITEWIRE_WORKER_CONFINEMENT": "available",
    "CITEWIRE_WORKER_BATCH_CHUNKS": "2",
    "CITEWIRE_WORKER_METRICS_PORT": "0",
    "CITEWIRE_WORKER_BACKFILL_SECONDS": "0.5",
    "CITEWIRE_WORKER_BACKFILL_TOKENS_PER_SECOND": "0",
}


class SlowModel(FakeModel):
    """Takes a moment for each batch, so that kills also interrupt half-embedded documents."""

    async def embed(self, texts: Sequence[TokenisedText]) -> Vectors:
        await asyncio.sleep(0.05)
        return await super().embed(texts)


async def start_worker(database: "Database", embedder: str, log: Path) -> asyncio.subprocess.Process:
    environment = {
        **os.environ,
        **_ENVIRONMENT,
        **keyed_environment("worker"),
        "CITEWIRE_WORKER_DSN": database.dsn("citewire_worker"),
        "CITEWIRE_WORKER_EMBEDDER_TARGET": embedder,
    }
    with log.open("ab") as file:
        return await asyncio.create_subprocess_exec(
            sys.executable, "-m", "citewire_retriever", "worker", env=environment, stdout=file, stderr=file
        )


async def wait_for_a_slice(harness: IngestHarness, worker: asyncio.subprocess.Process) -> None:
    """Waits until a worker is processing a document."""

    async def working() -> bool:
        query = "SELECT 1 FROM corpus.ingest_jobs WHERE kind = 'backfill' AND state = 'running' AND worker LIKE %s"
        return bool(await harness.rows(query, f"%-{worker.pid}-%"))

    await wait_until(working, seconds=30)


async def test_no_vector_is_lost_or_doubled(database: "Database", proof: ProofScale, tmp_path: Path) -> None:
    choices = proof.random()
    kills = proof.pick(scaled_down=3, full=30)
    documents = kills * 12
    log = tmp_path / "worker.log"
    expected = 0
    with CorpusRows(database.owner_dsn, dimensions=DIMENSIONS, model="fake", revision="r1") as rows:
        for number in range(documents):
            count = choices.randint(1, 20)
            expected += count
            vectors = np.ones((count, DIMENSIONS), dtype=np.float32)
            texts = [f"Sentence {index} of {number}." for index in range(count)]
            org = "acme" if number % 3 else "other"
            rows.add(NewDocument(org, vectors, tokens=4, texts=texts), with_vectors=False)
        table = f"corpus.vectors_{rows.space_id}"
    async with IngestHarness.open(database) as harness, embedder_address(SlowModel(window=WINDOW)) as embedder:
        workers = [await start_worker(database, embedder, log) for _ in range(WORKERS)]
        interrupted = 0
        try:
            for _ in range(kills):
                place = choices.randrange(WORKERS)
                await wait_for_a_slice(harness, workers[place])
                await asyncio.sleep(choices.uniform(0, 0.3))
                assert workers[place].returncode is None, log.read_text()[-4000:]
                workers[place].kill()
                await workers[place].wait()
                held = "SELECT 1 FROM corpus.ingest_jobs WHERE state = 'running' AND worker LIKE %s"
                interrupted += len(await harness.rows(held, f"%-{workers[place].pid}-%"))
                workers[place] = await start_worker(database, embedder, log)

            async def ended() -> bool:
                row = await harness.row(f"SELECT count(*) AS n FROM {table}")  # noqa: S608 # our own name
                jobs = await harness.rows("SELECT 1 FROM corpus.ingest_jobs WHERE kind = 'backfill'")
                return row["n"] == expected and not jobs

            await wait_until(ended, seconds=120)
        finally:
            for worker in workers:
                if worker.returncode is None:
                    worker.kill()
                    await worker.wait()
        assert interrupted, "no kill interrupted a document: the test proves nothing"
        missing = await harness.rows(
            f"SELECT 1 FROM corpus.chunks c LEFT JOIN {table} v USING (org_id, chunk_id) WHERE v.chunk_id IS NULL"  # noqa: S608 # our own name
        )
        assert missing == []
        assert "given_up" not in log.read_text()
