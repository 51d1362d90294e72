"""SIGKILL of the worker and of Postgres at random moments of many uploads.

Every acknowledged document becomes ready with the same chunks as in an undisturbed run; none is doubled. `make faults`
runs it in full (200 uploads), a normal run scales it down; `--seed` repeats a run's choices.
"""

import asyncio
import os
import random
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg import sql

from callers import keyed_environment
from citewire_embedder.providers.base import TokenisedText, Vectors
from citewire_kit.errors import CitewireError
from citewire_retriever.ingest.parsers import parse
from citewire_retriever.ingest.wire import place_values
from embedded_postgres import EmbeddedPostgres, start_embedded_postgres
from fake_embedding import FakeModel
from ingest_files import make_pdf, prose_page
from ingest_harness import (
    ACME,
    OTHER,
    WINDOW,
    IngestHarness,
    article,
    embedder_address,
    expected_chunks,
    worker_settings,
)
from proof_scale import PrintTable, ProofScale

DATABASE = "faults"
_ENVIRONMENT = {
    "CITEWIRE_WORKER_LEASE_SECONDS": "2",
    "CITEWIRE_WORKER_POLL_SECONDS": "0.2",
    "CITEWIRE_WORKER_RETRY_SECONDS": "0.1",
    "CITEWIRE_WORKER_RETRY_SECONDS_MAX": "0.5",
    "CITEWIRE_WORKER_BATCH_CHUNKS": "4",
    "CITEWIRE_WORKER_STREAM_BATCHES": "2",
    "CITEWIRE_WORKER_CHUNK_TOKENS": "24",
    "CITEWIRE_WORKER_OVERLAP_TOKENS": "8",
    "CITEWIRE_WORKER_METRICS_PORT": "0",
    "CITEWIRE_WORKER_MAX_CLAIMS": "10000",
    "CITEWIRE_WORKER_CONFINEMENT": "available",
}


class SlowModel(FakeModel):
    """Takes a moment for each batch, so that kills also interrupt half-embedded documents."""

    async def embed(self, texts: Sequence[TokenisedText]) -> Vectors:
        await asyncio.sleep(0.1)
        return await super().embed(texts)


@dataclass(frozen=True, slots=True)
class Database:
    """The database of this test."""

    server: EmbeddedPostgres

    def dsn(self, role: str) -> str:
        return self.server.dsn(role, DATABASE)


@dataclass(slots=True)
class Chaos:
    """Kills the worker and Postgres, and counts the kills."""

    database: Database
    embedder: str
    log: Path
    random: random.Random
    kills: dict[str, int] = field(default_factory=lambda: {"worker": 0, "postgres": 0})
    worker: asyncio.subprocess.Process | None = None
    killed: asyncio.Condition = field(default_factory=asyncio.Condition)

    async def wait_for_kills(self, kills: int) -> None:
        """Waits until there were `kills` kills."""
        async with self.killed:
            await self.killed.wait_for(lambda: sum(self.kills.values()) >= kills)

    async def start_worker(self) -> None:
        environment = {
            **os.environ,
            **_ENVIRONMENT,
            **keyed_environment("worker"),
            "CITEWIRE_WORKER_DSN": self.database.dsn("citewire_worker"),
            "CITEWIRE_WORKER_EMBEDDER_TARGET": self.embedder,
        }
        with self.log.open("ab") as log:
            self.worker = await asyncio.create_subprocess_exec(
                sys.executable, "-m", "citewire_retriever", "worker", env=environment, stdout=log, stderr=log
            )

    async def kill_worker(self) -> None:
        assert self.worker is not None
        assert self.worker.returncode is None, "the worker exited by itself"
        self.worker.kill()
        await self.worker.wait()

    async def wait_for_work(self, stop: asyncio.Event) -> None:
        """Waits until the worker is processing a document; one that is idle for 10 s is killed as well."""
        deadline = time.monotonic() + 10
        with suppress(psycopg.OperationalError):
            # No asyncio.timeout: psycopg leaves the connection open if it is cancelled while connecting.
            while not stop.is_set() and time.monotonic() < deadline and not await self.is_working():  # noqa: ASYNC110 - of another process
                await asyncio.sleep(0.05)

    async def is_working(self) -> bool:
        async with await psycopg.AsyncConnection.connect(self.database.dsn("postgres")) as connection:
            # A killed worker's jobs are also `running` until their leases expire: the process id tells them apart.
            mine = f"%-{self.worker.pid if self.worker else 0}-%"
            query = "SELECT FROM corpus.ingest_jobs WHERE state = 'running' AND worker LIKE %s LIMIT 1"
            cursor = await connection.execute(query, (mine,))
            return cursor.rowcount == 1

    async def run(self, stop: asyncio.Event) -> None:
        """Kills and restarts until `stop` is set: mostly while a document is being processed, else at any moment."""
        while not stop.is_set():
            if self.random.random() < 0.8:
                await self.wait_for_work(stop)
                moment = self.random.uniform(0, 0.3)
            else:
                moment = self.random.uniform(0, 3)
            with suppress(TimeoutError):
                async with asyncio.timeout(moment):
                    await stop.wait()
            if self.random.random() < 0.6:
                await self.kill_worker()
                await self.start_worker()
                self.kills["worker"] += 1
            else:
                await asyncio.to_thread(self.database.server.kill)
                await asyncio.sleep(self.random.uniform(0, 0.5))
                await asyncio.to_thread(self.database.server.start)
                self.kills["postgres"] += 1
            async with self.killed:
                self.killed.notify_all()


@dataclass(frozen=True, slots=True)
class Upload:
    """A file to upload after a number of kills."""

    number: int
    name: str
    data: bytes
    after_kills: int


def make_file(choices: random.Random, number: int) -> tuple[str, bytes]:
    """Makes a file of a random format and size; no two are alike."""
    name = f"subject{number}"
    kind = choices.choice(["md", "md", "txt", "csv", "py", "html", "pdf"])
    size = choices.randint(1, 30)
    if kind == "csv":
        rows = "".join(f"{name} item {row},{row * number},note {row} of {name}\n" for row in range(2 * size))
        return f"{name}.csv", f"Name,Amount,Note\n{rows}".encode()
    if kind == "py":
        functions = "".join(f"def {name}_{part}(value):\n    return value + {part}\n\n\n" for part in range(size))
        return f"{name}.py", functions.encode()
    if kind == "html":
        body = "".join(f"<h2>Part {part}</h2><p>Words of {name} in part {part}.</p>" for part in range(size))
        return f"{name}.html", f"<!doctype html><html><body>{body}</body></html>".encode()
    if kind == "pdf":
        page = [[f"Line {line} of the text about {name} goes on." for line in range(8)]]
        return f"{name}.pdf", make_pdf([prose_page(f"Page {part} of {name}", page) for part in range(size // 4 + 1)])
    return f"{name}.{kind}", article(size, name=name).encode()


async def upload(harness: IngestHarness, tries: asyncio.Queue[Upload], done: dict[int, int], chaos: Chaos) -> None:
    """Uploads the queue's files; retries one until it is acknowledged. `done`: file's number -> document's id."""
    while not tries.empty():
        file = tries.get_nowait()
        await chaos.wait_for_kills(file.after_kills)
        try:
            done[file.number] = await harness.upload(
                file.name, file.data, tenant=OTHER if file.number % 3 == 0 else ACME
            )
        except CitewireError:
            tries.put_nowait(file)
            await asyncio.sleep(0.1)


async def statuses(database: Database, document_ids: set[int]) -> dict[int, str]:
    """Returns the status of each of these documents' versions."""
    async with await psycopg.AsyncConnection.connect(database.dsn("postgres"), autocommit=True) as connection:
        cursor = await connection.execute(
            "SELECT document_id, status FROM corpus.versions WHERE document_id = ANY(%s)", (list(document_ids),)
        )
        return dict(await cursor.fetchall())


@pytest.mark.timeout(3000)
async def test_no_acknowledged_document_is_lost_or_doubled(
    proof: ProofScale, tmp_path: Path, print_table: PrintTable
) -> None:
    choices = proof.random()
    count = proof.pick(scaled_down=12, full=200)
    least_kills = proof.pick(scaled_down=6, full=120)
    files = [make_file(choices, number) for number in range(count)]
    started = time.perf_counter()
    with start_embedded_postgres(durable=True) as server:
        database = Database(server)
        prepare(database)
        async with embedder_address(SlowModel(window=WINDOW)) as embedder:
            chaos = Chaos(database, embedder, tmp_path / "worker.log", choices)
            await chaos.start_worker()
            try:
                done = await upload_during_kills(chaos, files, least_kills)
                await wait_until_ready(chaos, done)
            finally:
                if chaos.worker is not None and chaos.worker.returncode is None:
                    await chaos.kill_worker()
            chunks, interrupted = await check(database, files, done, tmp_path)
    print_table(
        f"Ingest under SIGKILL, seed {proof.seed}",
        ["uploads", "worker kills", "postgres kills", "attempts broken off", "ready", "chunks", "seconds"],
        [
            [
                count,
                chaos.kills["worker"],
                chaos.kills["postgres"],
                interrupted,
                len(done),
                chunks,
                round(time.perf_counter() - started),
            ]
        ],
    )


def prepare(database: Database) -> None:
    """Makes the database and its schema."""
    database.server.create_database(DATABASE)
    environment = {**os.environ, "CITEWIRE_RETRIEVER_MIGRATE_DSN": database.dsn("postgres")}
    subprocess.run([sys.executable, "-m", "citewire_retriever", "migrate"], env=environment, check=True, timeout=120)


async def upload_during_kills(chaos: Chaos, files: Sequence[tuple[str, bytes]], least_kills: int) -> dict[int, int]:
    """Uploads everything while the worker and the database are killed repeatedly."""
    tries: asyncio.Queue[Upload] = asyncio.Queue()
    ahead = len(files) // 4  # how many wait for the worker at any time, so that kills find it working
    for number, (name, data) in enumerate(files):
        tries.put_nowait(Upload(number, name, data, max(0, number - ahead) * least_kills // (len(files) - ahead)))
    done: dict[int, int] = {}
    stop = asyncio.Event()
    async with IngestHarness.open(chaos.database) as harness, asyncio.TaskGroup() as group:
        group.create_task(chaos.run(stop))
        await asyncio.wait([group.create_task(upload(harness, tries, done, chaos)) for _ in range(3)])
        stop.set()
    assert len(done) == len(files)
    return done


async def wait_until_ready(chaos: Chaos, done: dict[int, int]) -> None:
    """Waits until every acknowledged document is ready, without further kills."""
    expected = set(done.values())
    assert len(expected) == len(done), "two uploads got one document"
    deadline = time.monotonic() + 300
    while True:
        result = await statuses(chaos.database, expected)
        waiting = {number: result.get(number, "lost") for number in expected if result.get(number) != "ready"}
        if not waiting:
            return
        assert not {"failed", "lost"} & set(waiting.values()), waiting
        assert time.monotonic() < deadline, (waiting, chaos.log.read_text()[-4000:])
        assert chaos.worker is not None
        assert chaos.worker.returncode is None, chaos.log.read_text()[-4000:]
        await asyncio.sleep(0.2)


async def check(
    database: Database, files: Sequence[tuple[str, bytes]], done: dict[int, int], folder: Path
) -> tuple[int, int]:
    """Compares every document with an undisturbed run; returns the chunks and how many attempts were interrupted."""
    settings = worker_settings(database, "unused")
    total = 0
    async with IngestHarness.open(database) as harness:
        for number, document_id in done.items():
            name, data = files[number]
            document = parse(data, name)
            expected = await expected_chunks(document, document.title or name, settings)
            stored = await harness.chunks(document_id)
            assert [describe(row) for row in stored] == [
                (chunk.index, chunk.text, chunk.section, place_values(chunk.place), chunk.char_start)
                for chunk in expected
            ], name
            assert await harness.text(document_id) == document.text
            vectors = await harness.vectors(document_id)
            assert [row["chunk_index"] for row in vectors] == [chunk.index for chunk in expected], name
            assert (await harness.document(document_id))["live_version"] == 1
            total += len(expected)
        jobs = await harness.rows(
            "SELECT state, attempts FROM corpus.ingest_jobs WHERE document_id = ANY(%s)", list(done.values())
        )
        assert [row["state"] for row in jobs] == ["done"] * len(done)
        interrupted = sum(row["attempts"] - 1 for row in jobs)
        assert interrupted, "no kill interrupted a document: the test proves nothing"
        # A kill may have rolled back the first attempt to create the space, so its id isn't always 1.
        (space,) = await harness.rows("SELECT table_name FROM corpus.spaces")
        query = sql.SQL(
            "SELECT FROM {} v LEFT JOIN corpus.chunks c USING (org_id, chunk_id) WHERE c.chunk_id IS NULL"
        ).format(sql.Identifier("corpus", space["table_name"]))
        orphans = await (await harness.owner.execute(query)).fetchall()
        assert orphans == []
    return total, interrupted


def describe(row: dict[str, Any]) -> tuple[object, ...]:
    names = ("chunk_index", "text", "section", "place", "char_start")
    return tuple(row[name] for name in names)
