"""Uploads of every format while workers die or stop, Postgres stops, the embedder is away, or the disk is full.

Each acknowledged upload ends as it would undisturbed: `ready` with its text, chunks and vectors, or `failed` with its
reason; none is lost, stuck or doubled. `--seed` determines the faults. The disk is really full: Postgres, the
logs and `up`'s own files are on a tmpfs that is filled to the last byte (except spool folders: unit tests fill those).
`make faults` uploads 1,000 files, a normal run one of each of twenty formats.
"""

from __future__ import annotations

import asyncio
import random
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator, Iterable, Mapping
from contextlib import asynccontextmanager, suppress
from functools import partial
from itertools import count, islice
from pathlib import Path
from subprocess import Popen

import httpx
import psutil
import psycopg
import pytest

from citewire_retriever.ingest.errors import IngestError
from citewire_retriever.ingest.parsers import parse
from every_format import format_count, make_file
from ingest_harness import IngestHarness
from proof_scale import PrintTable, ProofScale
from small_disk import SmallDiskStack, can_have_disks, small_disk_stack
from waiting import wait_until

COLLECTION = "faults"
UPLOADS_AT_ONCE = 6
LEASE_SECONDS = 2
END_SECONDS = 300
ENDS_BETWEEN = 2
"""How many documents end between two faults of the same group."""
PATIENCE_SECONDS = 5.0
ENVIRONMENT = {
    "CITEWIRE_WORKER_LEASE_SECONDS": str(LEASE_SECONDS),
    "CITEWIRE_WORKER_POLL_SECONDS": "0.5",
    "CITEWIRE_WORKER_RETRY_SECONDS_MAX": "2",
    "CITEWIRE_WORKER_CONFINEMENT": "available",
    "CITEWIRE_WORKER_OCR_PROGRAM": "off",
}
REFUSALS = {
    (503, "DATABASE_UNAVAILABLE"),
    (503, "SERVICE_UNAVAILABLE"),
    (409, "IDEMPOTENCY_IN_PROGRESS"),
}
"""Temporary errors that an upload may get instead of an acknowledgement."""


class Faults:
    """Causes faults at random moments."""

    def __init__(self, stack: SmallDiskStack, chance: random.Random, log: Path) -> None:
        self._stack = stack
        self._chance = chance
        self._log = log
        self._happened = asyncio.Condition()
        self._worker = self._start_worker()
        self._killed: set[int] = set()
        self.counts: Counter[str] = Counter()

    async def wait_for_faults(self, count: int) -> None:
        """Waits until there were `count` faults."""
        async with self._happened:
            await self._happened.wait_for(lambda: self.counts.total() >= count)

    @asynccontextmanager
    async def running_faults(self) -> AsyncGenerator[None]:
        """Causes faults: to workers, and in parallel to what workers depend on."""
        stop = asyncio.Event()
        workers = {"worker killed": self._kill_worker, "worker stopped": self._stop_worker}
        others = {
            "Postgres restarted": self._restart_postgres,
            "Postgres' connections killed": self._kill_connections,
            "embedder killed": lambda: self._end("embedder", signal.SIGKILL),
            "embedder stopped": self._stop_embedder,
            "disk full": self._fill_disk,
        }
        async with asyncio.TaskGroup() as group:
            group.create_task(self._repeat(workers, stop))
            group.create_task(self._repeat(others, stop))
            try:
                yield
            finally:
                stop.set()

    def close(self) -> None:
        """Ends the second worker."""
        self._worker.kill()
        self._worker.wait()

    async def _repeat(self, kinds: Mapping[str, Callable[[], Awaitable[None]]], stop: asyncio.Event) -> None:
        waiting: list[str] = []
        while not stop.is_set():
            if not waiting:  # each kind once, then all of them again
                waiting = self._chance.sample(list(kinds), len(kinds))
            with suppress(TimeoutError):
                async with asyncio.timeout(self._chance.uniform(0.5, 3)):
                    await stop.wait()
            await asyncio.to_thread(self._wait_for_ends, stop)
            kind = waiting.pop()
            await kinds[kind]()
            self.counts[kind] += 1
            async with self._happened:
                self._happened.notify_all()

    def _wait_for_ends(self, stop: asyncio.Event) -> None:
        """Waits until some documents have ended since the previous fault, as a busy machine does little between two.

        Gives up after a while: the documents may be waiting for the next fault.
        """
        deadline = time.monotonic() + PATIENCE_SECONDS
        query = "SELECT count(*) FROM corpus.versions WHERE finished_at IS NOT NULL"
        least: int | None = None
        while time.monotonic() < deadline and not stop.is_set():
            with suppress(psycopg.OperationalError), psycopg.connect(self._stack.dsn()) as connection:
                ((ended,),) = connection.execute(query).fetchall()
                if least is None:
                    least = ended + ENDS_BETWEEN
                elif ended >= least:
                    return
            time.sleep(0.2)  # there is no notification

    def _start_worker(self) -> Popen[bytes]:
        """Starts a second worker, so that one takes over from the other; its spool folder isn't on the small disk."""
        environment = {
            **self._stack.environment,
            **ENVIRONMENT,
            "CITEWIRE_WORKER_METRICS_PORT": "0",
            "CITEWIRE_CALLER_KEY": str(self._stack.data_dir / "callers" / "worker.pem"),
        }
        with self._log.open("ab") as log:
            return Popen(
                [sys.executable, "-m", "citewire_retriever", "worker"], env=environment, stdout=log, stderr=log
            )

    async def _kill_worker(self) -> None:
        if self._chance.random() < 0.5 and self._runs("worker"):
            self._killed.add(self._stack.kill("worker"))  # no need to wait for its successor: the other worker goes on
            return
        assert self._worker.poll() is None, f"the worker exited by itself:\n{self._log.read_text()[-3000:]}"
        self._worker.kill()
        await asyncio.to_thread(self._worker.wait)
        self._worker = self._start_worker()

    async def _restart_postgres(self) -> None:
        """Stops it gracefully or at once; the supervisor waits longer before each restart."""
        await self._end("postgres", self._chance.choice([signal.SIGKILL, signal.SIGINT]))

    async def _kill_connections(self) -> None:
        """Kills one of the server's processes; the server then ends all others and recovers by itself."""
        server = await self._process("postgres")
        self._chance.choice(server.children()).kill()

    async def _stop_worker(self) -> None:
        own = psutil.Process(self._worker.pid)
        await self._hold(own if self._chance.random() < 0.5 else await self._process("worker"))

    async def _stop_embedder(self) -> None:
        await self._hold(await self._process("embedder"))

    async def _hold(self, process: psutil.Process) -> None:
        """Freezes a process for shorter or longer than a lease, then lets it continue."""
        process.suspend()
        try:
            await asyncio.sleep(self._chance.uniform(0.2, 2 * LEASE_SECONDS))
        finally:
            process.resume()

    async def _end(self, name: str, number: signal.Signals) -> None:
        process = await self._process(name)
        self._killed.add(process.pid)
        process.send_signal(number)
        await asyncio.to_thread(self._stack.wait_restarted, name, process.pid)

    async def _process(self, name: str) -> psutil.Process:
        """Returns a process of the stack once it runs."""
        await wait_until(lambda: self._runs(name), END_SECONDS)
        return psutil.Process(self._stack.pid(name))

    def _runs(self, name: str) -> bool:
        """Whether a process runs, as far as the stack could log."""
        pid = self._stack.pids().get(name)
        return pid is not None and pid not in self._killed and psutil.pid_exists(pid)

    async def _fill_disk(self) -> None:
        await asyncio.to_thread(self._stack.fill_disk)
        try:
            await asyncio.sleep(self._chance.uniform(0.2, 3))
        finally:
            self._stack.free_disk()


@pytest.fixture
def stack(proof: ProofScale) -> Generator[SmallDiskStack]:
    """A separate stack, as the shared one's disk mustn't be filled."""
    if not can_have_disks():
        pytest.skip("this machine mounts no disk for us: user namespaces are off")
    mebibytes = proof.pick(scaled_down=500, full=2000)
    # A short path: a socket's path, seen from outside the disk's namespace, may have 107 bytes.
    with (
        tempfile.TemporaryDirectory(prefix="cw-") as folder,
        small_disk_stack(Path(folder) / "data", mebibytes=mebibytes, environ=ENVIRONMENT) as stack,
    ):
        yield stack


@pytest.mark.timeout(3600)
async def test_every_acknowledged_upload_ends_as_it_should(
    stack: SmallDiskStack, proof: ProofScale, print_table: PrintTable, tmp_path: Path
) -> None:
    chance = proof.random()
    numbers = range(1000) if proof.full else sorted(chance.sample(range(format_count()), 20))
    files = [make_file(chance, number) for number in numbers]
    least = proof.pick(scaled_down=6, full=150)
    refusals: Counter[str] = Counter()
    faults = Faults(stack, chance, tmp_path / "worker.log")
    began = time.monotonic()
    try:
        async with httpx.AsyncClient(base_url=stack.base_url, trust_env=False, timeout=30) as http:
            async with faults.running_faults():
                patience = proof.pick(scaled_down=10, full=END_SECONDS)
                ids = await upload_all(http, files, faults, least, refusals, patience)
                await faults.wait_for_faults(least)
                more = map(partial(make_file, chance), count(max(numbers) + 1))
                async with asyncio.timeout(END_SECONDS):
                    while not await asyncio.to_thread(has_interrupted, stack, ids.values()):
                        files.extend(islice(more, UPLOADS_AT_ONCE))
                        ids |= await upload_all(http, files[-UPLOADS_AT_ONCE:], faults, least, refusals, patience)
                        await faults.wait_for_faults(faults.counts.total() + 1)
            undisturbed = time.monotonic()
            await until_ended(http, ids.values())
    finally:
        faults.close()
    async with IngestHarness.open(stack) as harness:
        ends, seconds, again = await check(harness, files, ids)
    whole = time.monotonic() - began
    print_table(
        f"Uploads of {format_count()} formats while things go wrong, seed {proof.seed}, {whole:.0f} s",
        ["what", "how often"],
        [
            ("acknowledged", len(ids)),
            *((f"ended {how}", number) for how, number in sorted(ends.items(), reverse=True)),
            *(("refused, and sent again: " + reason, number) for reason, number in sorted(refusals.items())),
            *faults.counts.items(),
            ("documents that were worked on more than once", again),
            ("seconds to the end, median", round(sorted(seconds)[len(seconds) // 2], 1)),
            ("seconds to the end, longest", round(max(seconds), 1)),
            ("seconds from the last fault to the last end", round(whole - (undisturbed - began), 1)),
        ],
    )


async def upload_all(
    http: httpx.AsyncClient,
    files: list[tuple[str, bytes]],
    faults: Faults,
    least: int,
    refusals: Counter[str],
    patience: float,
) -> dict[str, int]:
    """Uploads all files, spread over `least` faults.

    Returns the ids by file name of those that were acknowledged within `patience` seconds: while the database is away,
    an Idempotency-Key can't be released, and stays locked for two minutes.
    """
    waiting = list(enumerate(files))[::-1]
    ids: dict[str, int] = {}

    async def client() -> None:
        while waiting:
            number, (name, data) = waiting.pop()
            await faults.wait_for_faults(number * least // len(files))
            with suppress(TimeoutError):
                async with asyncio.timeout(patience):
                    ids[name] = await upload(http, name, data, refusals)

    async with asyncio.TaskGroup() as group:
        for _ in range(UPLOADS_AT_ONCE):
            group.create_task(client())
    return ids


def has_interrupted(stack: SmallDiskStack, ids: Iterable[int]) -> bool:
    """Whether a fault has interrupted a document: a fast machine finishes twenty between two faults."""
    query = "SELECT count(*) FROM corpus.ingest_jobs WHERE attempts > 1 AND document_id = ANY(%s)"
    with suppress(psycopg.OperationalError), psycopg.connect(stack.dsn()) as connection:
        ((met,),) = connection.execute(query, [list(ids)]).fetchall()
        return met > 0
    return False


async def upload(http: httpx.AsyncClient, name: str, data: bytes, refusals: Counter[str]) -> int:
    """Uploads a file until it is acknowledged, always with the same Idempotency-Key."""
    while True:
        response = await http.post(
            "/v1/documents",
            files={"file": (name, data)},
            data={"collection": COLLECTION},
            headers={"Idempotency-Key": f"{COLLECTION}/{name}"},
        )
        if response.status_code == 202:
            return int(response.json()["id"])
        problem = response.json()
        assert (response.status_code, problem["reason"]) in REFUSALS, (name, problem)
        refusals[problem["reason"]] += 1
        await asyncio.sleep(0.2)  # less than the server's Retry-After, so that more uploads meet a fault


async def until_ended(http: httpx.AsyncClient, ids: Iterable[int]) -> None:
    """Waits until all documents have ended; none may delay the others for long."""
    for document_id in ids:
        async with asyncio.timeout(END_SECONDS):
            while True:
                response = await http.get(f"/v1/documents/{document_id}")
                if response.status_code == 200 and response.json()["status"] in {"ready", "failed"}:
                    break
                assert response.status_code in {200, 503}, response.text
                await asyncio.sleep(0.1)  # there is no notification


async def check(
    harness: IngestHarness, files: list[tuple[str, bytes]], ids: dict[str, int]
) -> tuple[Counter[str], list[float], int]:
    """Compares each document with its file.

    Returns:
        How they ended; how many seconds each took from its acknowledgement; how many had more than one attempt.
    """
    stored = await harness.rows(
        "SELECT file_name, document_id FROM corpus.documents JOIN corpus.collections USING (org_id, collection_id)"
        " WHERE name = %s",
        COLLECTION,
    )
    documents = {row["file_name"]: row["document_id"] for row in stored}
    assert len(documents) == len(stored), "a file is stored twice"
    assert {name: documents.get(name) for name in ids} == ids
    assert len(ids) > len(files) // 2, "hardly any upload was acknowledged"
    ends: Counter[str] = Counter()
    seconds: list[float] = []
    again = 0
    for name, data in [file for file in files if file[0] in ids]:
        version = await harness.version(ids[name])
        try:
            text, code = parse(data, name).text, None
        except IngestError as error:
            text, code = None, error.code.value
        assert (version["status"], version["error_code"]) == ("failed" if code else "ready", code), (name, version)
        if text is not None:
            await check_ready(harness, ids[name], text)
        else:
            assert version["error_message"]
            assert (await harness.document(ids[name]))["live_version"] is None
        ends[f"failed, {code}" if code else "ready"] += 1
        seconds.append((version["finished_at"] - version["created_at"]).total_seconds())
        again += (await harness.job(ids[name]))["attempts"] > 1
    assert again, "no fault interrupted a document: the test proves nothing"
    return ends, seconds, again


async def check_ready(harness: IngestHarness, document_id: int, text: str) -> None:
    """Checks that a document has its text, and each of its chunks once, with one vector."""
    assert (await harness.document(document_id))["live_version"] == 1
    assert await harness.text(document_id) == text
    chunks = [row["chunk_index"] for row in await harness.chunks(document_id)]
    assert chunks == list(range(len(chunks)))
    assert chunks, "no chunk"
    assert [row["chunk_index"] for row in await harness.vectors(document_id)] == chunks
