"""The same searches in three ways: over the retriever's gRPC, with plain psycopg, and with pgbench.

Each way runs in a separate process, in a closed loop of a number of clients, and prints the number and duration of its
searches. psycopg and pgbench send the retriever's statements, captured from it, in one pipeline:
begin, the tenant, the live spaces, the settings, the ranking, commit; with the same role, and psycopg through the
same pool.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Generator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import psycopg
from citewire.common.v1 import common_pb2
from citewire.retriever.v1 import retriever_pb2 as pb
from citewire.retriever.v1.retriever_pb2_grpc import RetrieverServiceStub

from benchmarks.search_data import SPACE, literal, sample
from callers import KEY, keyed_environment
from citewire_kit import client, server
from citewire_kit.callers.signer import Signer
from citewire_kit.channel import open_channel
from citewire_kit.postgres import open_pool, tenant_batch
from citewire_kit.tenant import Tenant, use_tenant
from citewire_kit.transaction_settings import plans
from citewire_retriever.model import Scope, SearchQuery
from citewire_retriever.store.filter_sql import VISIBLE
from citewire_retriever.store.vectors import half_vector
from corpus_rows import Vectors
from embedded_postgres import EmbeddedPostgres
from recorded_search import RecordedStatement, recorded_search

ROOT = Path(__file__).resolve().parent.parent
CLIENTS = 8
QUERIES = 64
WARM_UP_SECONDS = 1.0
"""Warm-up, not measured."""
_WORKER = "from benchmarks.search_ways import main; main()"


@dataclass(frozen=True, slots=True)
class Rate:
    """The results of one run of one way."""

    per_second: float
    p50_ms: float
    p95_ms: float


def tenant(org: str) -> Tenant:
    """The tenant that searches."""
    return Tenant(org, "user", "pro")


def dense(vector: Vectors, *, scope: Scope | None = None, exact: bool = False) -> SearchQuery:
    """A search for the ten nearest."""
    return SearchQuery(scope or Scope(), vector.astype("<f4").tobytes(), SPACE, top_k=10, exact=exact)


async def capture_statements(dsn: str, orgs: Sequence[str]) -> dict[str, list[RecordedStatement]]:
    """The statements of a search for each organisation, with a placeholder vector."""
    async with recorded_search(dsn) as search:
        return {org: await search.sent(tenant(org), dense(sample(0, 1)[0])) for org in orgs}


SIGNER = Signer("citewire-gateway", KEY, plain=True)
"""Also sends the caller unsigned: the base of a comparison may be older than signed callers."""


class Database(Protocol):
    """A server with a database for searches."""

    @property
    def server(self) -> EmbeddedPostgres:
        """The server."""
        ...

    def dsn(self, role: str) -> str:
        """Connection string of a role."""
        ...


@contextlib.contextmanager
def retriever(data: Database, settings: Mapping[str, str] | None = None) -> Generator[int]:
    """Runs the retriever as a separate process with additional settings during the block; yields its port."""
    environment = {
        **os.environ,
        "CITEWIRE_AUTH": "keys",
        **keyed_environment(),
        "CITEWIRE_LOG_LEVEL": "INFO",
        "CITEWIRE_RETRIEVER_DSN": data.dsn("citewire_corpus"),
        "CITEWIRE_RETRIEVER_PORT": "0",
        "CITEWIRE_RETRIEVER_METRICS_PORT": "0",
        "CITEWIRE_RETRIEVER_LEAVE_SECONDS": "0",
        **(settings or {}),
    }
    command = [sys.executable, "-m", "citewire_retriever", "serve"]
    process = subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True)
    try:
        assert process.stderr is not None
        for line in process.stderr:
            event = json.loads(line)
            if event["event"] == "listening":
                break
        else:
            raise RuntimeError("the retriever did not start")
        # Its log must still be read: a full pipe would block it.
        process.stderr.close()
        yield int(event["port"])
    finally:
        process.terminate()
        process.wait(30)


def run_way(way: str, orgs: Sequence[str], seconds: float, *, dsn: str, port: int, vectors: Path | None = None) -> Rate:
    """Runs one way in a separate process; `vectors` is a numpy file with vectors other than those of `search_data`."""
    path = str(vectors) if vectors else None
    order = json.dumps({"way": way, "orgs": list(orgs), "seconds": seconds, "dsn": dsn, "port": port, "vectors": path})
    done = subprocess.run(
        [sys.executable, "-c", _WORKER, order], capture_output=True, text=True, cwd=ROOT, check=False, timeout=120
    )
    if done.returncode != 0:
        raise RuntimeError(f"{way} failed:\n{done.stderr[-3000:]}")
    return Rate(**json.loads(done.stdout.splitlines()[-1]))


def main() -> None:
    """The process of one way: takes its task as JSON and prints its rate as JSON."""
    order: dict[str, Any] = json.loads(sys.argv[1])
    way = {"gRPC": _over_grpc, "psycopg": _by_psycopg}[order["way"]]
    vectors: Vectors = np.load(order["vectors"]) if order["vectors"] else sample(777, QUERIES)
    rate = server.run(way(order["orgs"], order["seconds"], order["dsn"], order["port"], vectors[:QUERIES]))
    print(json.dumps({"per_second": rate.per_second, "p50_ms": rate.p50_ms, "p95_ms": rate.p95_ms}))


async def _over_grpc(orgs: Sequence[str], seconds: float, _dsn: str, port: int, asked: Vectors) -> Rate:
    space = common_pb2.EmbeddingSpace(model=SPACE.model, revision=SPACE.revision, dimensions=SPACE.dimensions)
    vectors = [vector.astype("<f4").tobytes() for vector in asked]
    async with open_channel(f"127.0.0.1:{port}", signer=SIGNER) as channel:
        stub = RetrieverServiceStub(channel)

        async def search(number: int) -> int:
            request = pb.SearchRequest(vector=vectors[number % QUERIES], space=space, keep_duplicates=True)
            with use_tenant(tenant(orgs[number % len(orgs)])):
                return len((await client.unary(stub.Search, request, timeout=30)).results)

        return await _loop(search, seconds)


async def _by_psycopg(orgs: Sequence[str], seconds: float, dsn: str, _port: int, asked: Vectors) -> Rate:
    statements = {
        org: [(sent, sent.text().encode()) for sent in statements_sent]
        for org, statements_sent in (await capture_statements(dsn, orgs)).items()
    }
    vectors = [half_vector(vector) for vector in asked]
    pool = await open_pool(dsn, max_size=8, name="bench", resolved=VISIBLE)

    async def search(number: int) -> int:
        org = orgs[number % len(orgs)]
        async with tenant_batch(pool, tenant(org), plan_once=True) as batch:
            cursor = batch.connection.cursor()
            for sent, text in statements[org]:
                values = {**sent.values, "vector": vectors[number % QUERIES]} if sent.ranks else sent.values
                cursor = await batch.connection.execute(text, values)
            await batch.finish()
            return len(await cursor.fetchall())

    try:
        return await _loop(search, seconds)
    finally:
        await pool.close()


async def _loop(search: Callable[[int], Awaitable[int]], seconds: float) -> Rate:
    """A closed loop of `CLIENTS`, whose beginning isn't counted."""
    times: list[float] = []
    numbers = iter(range(10**9))
    start = time.perf_counter() + WARM_UP_SECONDS
    end = start + seconds

    async def run() -> None:
        while (begun := time.perf_counter()) < end:
            assert await search(next(numbers)) == 10
            if begun >= start:
                times.append(time.perf_counter() - begun)

    await asyncio.gather(*(run() for _ in range(CLIENTS)))
    if not times:
        raise RuntimeError(f"no search that began in {seconds:g} s was answered: the machine or the server stood still")
    p50, p95 = np.percentile(times, [50, 95]) * 1000
    return Rate(len(times) / seconds, float(p50), float(p95))


def write_scripts(folder: Path, statements: dict[str, list[RecordedStatement]], dsn: str) -> list[Path]:
    """Writes a pgbench script for each query: the same transaction, in the same round trips."""
    orgs = list(statements)
    scripts: list[Path] = []
    with psycopg.connect(dsn, cursor_factory=psycopg.ClientCursor) as connection:
        for number, vector in enumerate(sample(777, QUERIES)):
            org = orgs[number % len(orgs)]
            cursor = psycopg.ClientCursor(connection)
            pipeline: list[str] = []
            for sent in statements[org]:
                values = {**sent.values, "vector": literal(vector)} if sent.ranks else sent.values
                text = re.sub(r"--[^\n]*", "", cursor.mogrify(sent.text().encode(), values))
                pipeline.append(" ".join(text.split()) + ";")
            settings = {"citewire.org_id": org, "citewire.user_id": "user", "plan_cache_mode": plans(once=True)}
            calls = ", ".join(f"set_config('{name}', '{value}', true)" for name, value in settings.items())
            begin = ["BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY;", f"SELECT {calls};"]
            lines = ["\\startpipeline", *begin, *pipeline, "COMMIT;", "\\endpipeline"]
            path = folder / f"query{number}.sql"
            path.write_text("\n".join(lines) + "\n", encoding="utf-8")
            scripts.append(path)
    return scripts


def run_pgbench(data: Database, scripts: Sequence[Path], seconds: float) -> Rate:
    """Runs pgbench on the scripts, in random order."""
    dsn = data.dsn("citewire_corpus")
    files = [part for path in scripts for part in ("-f", str(path))]
    command = [str(data.server.program("pgbench")), "-n", "-M", "prepared", "-c", str(CLIENTS), "-j", "2"]
    command += ["-T", str(max(1, round(seconds))), *files, dsn]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    match = re.search(r"tps = ([\d.]+)", done.stdout)
    if done.returncode != 0 or match is None:
        raise RuntimeError(f"pgbench failed:\n{done.stderr[-3000:]}")
    latency = re.search(r"latency average = ([\d.]+)", done.stdout)
    average = float(latency.group(1)) if latency else float("nan")
    return Rate(float(match.group(1)), average, float("nan"))
