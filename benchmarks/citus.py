"""Search on a Citus cluster compared with one Postgres: the same data, in the same run, on the same cores.

A coordinator with two nodes, and one Postgres, have the same organisations: SciFact's abstracts with random vectors. A
retriever runs for each way, and a client calls `Search` over gRPC: one at a time (p50), and eight (rate and CPU time).

- *coordinator*: the product's way.
- *node*: a retriever that only searches gets a node's connection string. The product has one connection string for
  reading and writing, the coordinator's; this shows the value of reading from the nodes directly.

The ways are measured in pairs of alternating order; ratios are judged by the rule for limits (CONTRIBUTING.md).

Usage: python -m benchmarks.citus [--chunks N] [--pairs N] [--seconds S]
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import gzip
import itertools
import json
import statistics
import time
from collections import defaultdict
from collections.abc import AsyncGenerator, Generator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import psutil
from citewire.common.v1 import common_pb2
from citewire.retriever.v1 import retriever_pb2 as pb
from citewire.retriever.v1.retriever_pb2_grpc import RetrieverServiceStub

from benchmarks.ratios import median_ratio
from benchmarks.search_data import CHUNKS_PER_DOCUMENT, DIMENSIONS, SPACE, TENANTS, sample
from benchmarks.search_ways import SIGNER, retriever, tenant
from benchmarks.tables import describe_machine, format_table
from citewire_kit import client
from citewire_kit.channel import open_channel
from citewire_kit.migrate import migrate
from citewire_kit.tenant import use_tenant
from citus_cluster import start_citus_cluster
from corpus_rows import CorpusRows, NewDocument
from embedded_postgres import EmbeddedPostgres, start_embedded_postgres

SHARED = Path(__file__).resolve().parents[2] / "shared"
MODES = {"dense": pb.SEARCH_MODE_DENSE, "lexical": pb.SEARCH_MODE_LEXICAL, "hybrid": pb.SEARCH_MODE_HYBRID}
LIMITS = {"coordinator": 4.0, "node": 3.0}
"""Limit of the p50, relative to one Postgres."""
FIGURES = ("p50_ms", "per_second")
KINDS = ("retriever", "its server", "nodes")
CLIENTS = 8
QUERIES = 64
LEAST = 200
"""Minimum number of chunks of an organisation that is searched."""
WARM_UP_SECONDS = 0.3
Request = tuple[str, pb.SearchRequest]
"""An organisation and its query."""
_DATABASE = "bench"
_SERVER = {"shared_buffers": "256MB", "maintenance_work_mem": "256MB", "max_wal_size": "2GB"}
_SHARDS = {"citus.shard_count": "32"}
_CHARS = 700


@dataclass(frozen=True, slots=True)
class Place:
    """A database, reached through one of its servers."""

    server: EmbeddedPostgres

    def dsn(self, role: str) -> str:
        """Connection string of a role."""
        return self.server.dsn(role, _DATABASE)


@dataclass(frozen=True, slots=True)
class Way:
    """A retriever with the servers that work for it."""

    stub: RetrieverServiceStub
    processes: Mapping[str, Sequence[int]]
    """Process ids of servers, by their name in the table."""


@dataclass(frozen=True, slots=True)
class Turn:
    """The measurements of one turn of a way."""

    p50_ms: float
    per_second: float
    cpu_ms: Mapping[str, float]
    """CPU time for each search, by kind of process."""


def main() -> int:
    """Runs the benchmark and returns the exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--chunks", type=int, default=15_000, help="chunks of all organisations")
    parser.add_argument("--pairs", type=int, default=10, help="turns of each way; fewer than six give no interval")
    parser.add_argument(
        "--seconds", type=float, default=1.5, help="seconds of each turn, for p50 and again for the rate"
    )
    options = parser.parse_args()
    archives = sorted((SHARED / "citus").glob("citus-*-pg18*.tar.gz"))
    if not archives:
        parser.error(f"Citus for the embedded Postgres isn't in {SHARED / 'citus'}")
    print(describe_machine(), flush=True)
    sizes = sizes_of(options.chunks)
    with (
        start_embedded_postgres(in_memory=True, settings=_SERVER) as plain,
        start_citus_cluster(archives[-1], {**_SERVER, **_SHARDS}) as cluster,
    ):
        plain.create_database(_DATABASE)
        cluster.create_database(_DATABASE)
        for place in (Place(plain), Place(cluster.coordinator)):
            begun = time.perf_counter()
            asyncio.run(migrate_corpus(place))
            load(place, sizes)
            print(f"  {sum(sizes.values()):,} chunks loaded in {time.perf_counter() - begun:.0f} s", flush=True)
        first, second = cluster.workers
        places: dict[str, tuple[EmbeddedPostgres, list[int]]] = {
            "plain": (plain, []),
            "coordinator": (cluster.coordinator, [first.pid, second.pid]),
            "node": (first, [second.pid]),
        }
        orgs = [org for org, size in sizes.items() if size >= LEAST]
        asyncio.run(compare(places, orgs, options.pairs, options.seconds))
    return 0


async def migrate_corpus(place: Place) -> None:
    """Creates the schema, distributed over the nodes if the database has the extension."""
    dsn = place.dsn("postgres")
    await migrate(dsn, schema="corpus", package="citewire_retriever", on_nodes="citus/distribute.sql")


def sizes_of(chunks: int) -> dict[str, int]:
    """Number of chunks of each organisation, largest first, proportional to 1/rank^1.1."""
    shares = np.array([1 / rank**1.1 for rank in range(1, TENANTS + 1)])
    return {f"org{rank}": max(1, int(size)) for rank, size in enumerate(shares / shares.sum() * chunks, start=1)}


def load(place: Place, sizes: Mapping[str, int]) -> None:
    """Stores each organisation's documents, always the same ones."""
    texts = abstracts()
    with CorpusRows(place.dsn("postgres"), dimensions=DIMENSIONS) as rows:
        for number, (org, size) in enumerate(sizes.items()):
            vectors = sample(number, size)
            for start in range(0, size, CHUNKS_PER_DOCUMENT):
                part = vectors[start : start + CHUNKS_PER_DOCUMENT]
                own = [texts[(number * 997 + start + index) % len(texts)] for index in range(len(part))]
                rows.add(NewDocument(org, part, title=f"Document {start}", texts=own))
        rows.run("VACUUM ANALYZE")  # as autovacuum does within a minute


def abstracts() -> list[str]:
    """Texts of SciFact, truncated to the length of chunks."""
    file = SHARED / "data" / "retrieval-scifact" / "corpus.jsonl.gz"
    rows = map(json.loads, gzip.decompress(file.read_bytes()).decode().splitlines())
    return [f"{row['title']} {row['text']}"[:_CHARS] for row in rows]


def questions() -> list[str]:
    """Questions of SciFact."""
    file = SHARED / "data" / "retrieval-scifact" / "queries.jsonl"
    return [str(json.loads(line)["text"]) for line in file.read_text(encoding="utf-8").splitlines()]


async def compare(
    places: Mapping[str, tuple[EmbeddedPostgres, list[int]]],
    orgs: Sequence[str],
    pairs: int,
    seconds: float,
) -> None:
    """Measures the ways in turns and prints their tables."""
    results: defaultdict[tuple[str, str], list[Turn]] = defaultdict(list)
    async with contextlib.AsyncExitStack() as stack:
        ways = {
            name: await stack.enter_async_context(open_way(server, nodes)) for name, (server, nodes) in places.items()
        }
        requests = requests_of(orgs)
        for name, mode in itertools.product(ways, MODES):
            await measure(ways[name], requests[mode], seconds)  # the first searches aren't counted
        for pair, mode in itertools.product(range(pairs), MODES):
            for name in list(ways)[:: 1 if pair % 2 == 0 else -1]:
                results[mode, name].append(await measure(ways[name], requests[mode], seconds))
            print(f"  pair {pair + 1}, {mode}", flush=True)
    print(times_table(results), end="\n\n")
    print(cpu_table(results), flush=True)


@contextlib.asynccontextmanager
async def open_way(server: EmbeddedPostgres, nodes: Sequence[int]) -> AsyncGenerator[Way]:
    """Starts a retriever and connects to it; `nodes` are the other servers that work for it."""
    with retriever_process(server) as (pid, port):
        async with open_channel(f"127.0.0.1:{port}", signer=SIGNER) as channel:
            yield Way(RetrieverServiceStub(channel), {"retriever": [pid], "its server": [server.pid], "nodes": nodes})


@contextlib.contextmanager
def retriever_process(server: EmbeddedPostgres) -> Generator[tuple[int, int]]:
    """Runs a retriever; yields its process id and port."""
    before = {child.pid for child in psutil.Process().children()}
    with retriever(Place(server)) as port:
        (pid,) = (
            child.pid
            for child in psutil.Process().children()
            if child.pid not in before and "citewire_retriever" in " ".join(child.cmdline())
        )
        yield pid, port


async def measure(way: Way, requests: Sequence[Request], seconds: float) -> Turn:
    """Searches one at a time, then eight."""
    alone, _ = await run(way.stub, requests, 1, seconds)
    before = {name: cpu_seconds(pids) for name, pids in way.processes.items()}
    together, begun = await run(way.stub, requests, CLIENTS, seconds)
    cpu = {name: 1000 * (cpu_seconds(pids) - before[name]) / begun for name, pids in way.processes.items() if pids}
    return Turn(1000 * statistics.median(alone), len(together) / seconds, cpu)


async def run(
    stub: RetrieverServiceStub, requests: Sequence[Request], clients: int, seconds: float
) -> tuple[list[float], int]:
    """Searches in a closed loop; returns the durations of the searches after the warm-up, and their number."""
    times: list[float] = []
    numbers = itertools.count()
    start = time.perf_counter() + WARM_UP_SECONDS
    end = start + seconds

    async def loop() -> None:
        while (begun := time.perf_counter()) < end:
            org, request = requests[next(numbers) % len(requests)]
            with use_tenant(tenant(org)):
                response = await client.unary(stub.Search, request, timeout=30)
            assert response.results
            if begun >= start:
                times.append(time.perf_counter() - begun)

    await asyncio.gather(*(loop() for _ in range(clients)))
    return times, next(numbers)


def requests_of(orgs: Sequence[str]) -> dict[str, list[Request]]:
    """The queries of each mode, for each of `orgs` in turn."""
    space = common_pb2.EmbeddingSpace(model=SPACE.model, revision=SPACE.revision, dimensions=SPACE.dimensions)
    asked = [
        (org, question, vector.astype("<f4").tobytes())
        for org, question, vector in zip(
            itertools.cycle(orgs), questions()[:QUERIES], sample(777, QUERIES), strict=False
        )
    ]
    return {
        name: [
            (org, pb.SearchRequest(mode=mode, query=question, vector=vector, space=space, keep_duplicates=True))
            for org, question, vector in asked
        ]
        for name, mode in MODES.items()
    }


def cpu_seconds(pids: Sequence[int]) -> float:
    """CPU time of processes and all their descendants."""
    return sum(
        sum(process.cpu_times()[:4])  # its own, and that of finished children
        for pid in pids
        for process in (psutil.Process(pid), *psutil.Process(pid).children(recursive=True))
    )


def times_table(results: Mapping[tuple[str, str], Sequence[Turn]]) -> str:
    """The p50 and the rate of each mode and way, compared with one Postgres."""
    rows: list[list[object]] = []
    for (mode, name), turns in results.items():
        plain = results[mode, "plain"]
        row: list[object] = [
            mode,
            name,
            *(statistics.median(getattr(turn, what) for turn in turns) for what in FIGURES),
        ]
        for what in FIGURES:
            ratio = median_ratio([getattr(a, what) / getattr(b, what) for a, b in zip(turns, plain, strict=True)])
            row.append(f"{ratio.median:.2f} ({ratio.low:.2f}–{ratio.high:.2f})")
            if what == "p50_ms":
                limit = LIMITS.get(name)
                row.append("–" if limit is None else f"≤ {limit:g}: {ratio.verdict(limit).value}")
        rows.append(row)
    headings = ["search", "way", "p50 ms", "searches/s", "p50, of plain", "limit", "rate, of plain"]
    return (
        f"p50 of one at a time, rate of {CLIENTS} at once; medians, with 95 % intervals of ratios\n\n"
        + format_table(headings, rows)
    )


def cpu_table(results: Mapping[tuple[str, str], Sequence[Turn]]) -> str:
    """CPU time for each search, by kind of process."""
    rows: list[list[object]] = [
        [
            mode,
            name,
            *(
                statistics.median(turn.cpu_ms[kind] for turn in turns) if kind in turns[0].cpu_ms else "–"
                for kind in KINDS
            ),
        ]
        for (mode, name), turns in results.items()
    ]
    return f"CPU ms for each search, {CLIENTS} at once\n\n" + format_table(["search", "way", *KINDS], rows)


if __name__ == "__main__":
    raise SystemExit(main())
