"""Search over 200,000 chunks of 100 tenants of skewed size: recall, speed, and the metrics of production.

- *Building*: seconds and sizes of the indexes.
- *Recall and time* by tenant size and by filter, the retriever's own way compared with an exact scan of the same scope:
  whole transactions on one connection, only the ranking statement, and whole calls over gRPC. Each way separately, as
  a scan of 30 MB evicts the graph from the processor's caches. By size also compared with the plain way: a table of
  `vector` rows with a btree by tenant, the documents of all tenants mixed, and one statement that returns ids.
- *Sampled recall*: a running retriever measures a share of these searches itself; its metric is compared with a full
  measurement.
- *Hybrid* compared with a full-text ranking by `ts_rank_cd`, with the quality of both;
  SciFact is among the largest tenant's chunks.
- *Rate* over gRPC compared with plain psycopg and the same transaction.

Usage: python -m benchmarks.scale [--keep DIR] [--chunks N] [--queries N] [--rounds N] [--only PART ...]; the data sets
are expected beside the repository, and DIR keeps the loaded database for the next run.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import psycopg
from psycopg import sql

from benchmarks.scale_data import ScaleData, filters, loaded
from benchmarks.scale_hybrid import measure_hybrid
from benchmarks.scale_rpc import measure_calls, measure_sampling
from benchmarks.search import CLASSES
from benchmarks.search_data import literal
from benchmarks.search_ways import CLIENTS, Rate, dense, retriever, run_way, tenant
from benchmarks.tables import describe_machine, format_table
from citewire_kit.postgres import Pool, open_pool
from citewire_kit.server import run, settle
from citewire_retriever.model import Scope
from citewire_retriever.store.search import PostgresSearch
from citewire_retriever.store.vectors import half_vector
from citewire_retriever.tuning import SearchTuning
from corpus_rows import Vectors
from recorded_search import RecordedStatement, recorded_search


@dataclass(slots=True)
class Measurements:
    """The measurements of one class of searches."""

    recall: list[float] = field(default_factory=list[float])
    graph: int = 0
    own: list[float] = field(default_factory=list[float])
    exact: list[float] = field(default_factory=list[float])
    plain: list[float] = field(default_factory=list[float])

    def row(self) -> list[object]:
        """Recall, share of graph searches, and times."""
        own, exact = np.percentile(self.own, [50, 95]), np.percentile(self.exact, [50, 95])
        times = [float(value) for value in (*own, *exact)]
        return [
            f"{statistics.fmean(self.recall):.3f}",
            f"{self.graph / len(self.own):.0%}",
            *times,
            f"1/{times[2] / times[0]:.1f}",
        ]

    def plain_cells(self) -> list[object]:
        """Times of the plain way, and the own way's times relative to them."""
        p50, p95 = (float(value) for value in np.percentile(self.plain, [50, 95]))
        return [p50, p95, f"1/{p50 / float(np.median(self.own)):.1f}"]


HEADINGS = ["recall@10", "by graph", "p50 ms", "p95 ms", "exact p50 ms", "exact p95 ms", "of exact p50"]
PLAIN_HEADINGS = ["plain p50 ms", "plain p95 ms", "of plain p50"]
_PLAIN = "SELECT chunk_id FROM bench_plain WHERE org_id = %s ORDER BY embedding <=> %s::vector LIMIT 10"
_TURNS = 3
PARTS = ("building", "classes", "filters", "statements", "calls", "sampling", "hybrid", "rates")


def main() -> int:
    """Runs the benchmark and returns the exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--keep", type=Path, help="folder that keeps the loaded database")
    parser.add_argument("--chunks", type=int, default=200_000)
    parser.add_argument("--queries", type=int, default=30, help="questions for each measured tenant")
    parser.add_argument("--judged", type=int, default=150, help="judged questions in each way of hybrid search")
    parser.add_argument("--rounds", type=int, default=15, help="rounds in which gRPC and psycopg take their turns")
    parser.add_argument("--only", nargs="+", choices=PARTS, default=PARTS, help="parts to run; all by default")
    options = parser.parse_args()
    print(describe_machine(), flush=True)
    with loaded(options.chunks, options.keep) as data:
        sizes = list(data.sizes.values())
        print(f"{sum(sizes):,} chunks, {len(sizes)} tenants of {sizes[-1]:,}–{sizes[0]:,}\n", flush=True)
        asked = options.queries
        settle()  # like a service, so that the benchmark's own objects aren't scanned repeatedly
        parts: dict[str, Callable[[], str]] = {
            "building": lambda: describe_building(data),
            "classes": lambda: run(measure_classes(data, asked)),
            "filters": lambda: run(measure_filters(data, asked)),
            "statements": lambda: run(measure_statements(data, asked)),
            "calls": lambda: measure_calls(data, questions(data, asked)),
            "sampling": lambda: measure_sampling(data, questions(data, 4 * asked)),
            "hybrid": lambda: run(measure_hybrid(data, options.judged)),
            "rates": lambda: measure_rates(data, options.rounds),
        }
        for part in options.only:
            print(parts[part](), end="\n\n", flush=True)
    return 0


def describe_building(data: ScaleData) -> str:
    """Returns the table of sizes and index build times."""
    with psycopg.connect(data.dsn("postgres")) as connection:
        rows = connection.execute(
            "SELECT what, pg_size_pretty(sum(pg_relation_size(oid)))"
            " FROM (SELECT c.oid, CASE"
            "   WHEN c.relname LIKE 'vectors_%' AND c.relname LIKE '%embedding%' THEN '4 graph (HNSW)'"
            "   WHEN c.relkind = 'i' AND c.relname LIKE 'vectors_%' THEN '5 btrees of the vectors'"
            "   WHEN c.relname LIKE 'vectors_%' THEN '3 vectors (halfvec)'"
            "   WHEN c.relname = 'lexical' THEN '6 terms of chunks'"
            "   WHEN c.relname = 'lexical_by_term' THEN '7 index by term (GIN)'"
            "   WHEN c.relname LIKE 'term_counts%' THEN '8 term counts, with key'"
            "   WHEN c.relname = 'chunks' THEN '2 chunks, with text' END AS what"
            "  FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace"
            "  WHERE n.nspname = 'corpus' AND c.relkind IN ('r', 'i')) sized"
            " WHERE what IS NOT NULL GROUP BY what ORDER BY what"
        ).fetchall()
    table: list[tuple[object, object]] = [(name[2:], size) for name, size in rows]
    table += [
        (name.rpartition(",")[0].removesuffix(" build") + ", to build", f"{seconds:.0f} s")
        for name, seconds in data.loading.items()
    ]
    return format_table(["what", "size or time"], table)


async def measure_classes(data: ScaleData, queries: int) -> str:
    """Whole organisations, by size."""
    rows: list[list[object]] = []
    _make_plain(data)
    async with _Store(data) as store:
        for least, name in CLASSES:
            most = min((size for size, _ in CLASSES if size > least), default=10**9)
            measurements = Measurements()
            for org in spread([org for org, size in data.sizes.items() if least <= size < most], 4):
                await store.compare(measurements, org, Scope(), questions(data, queries), plain=True)
            rows.append([name, *measurements.row(), *measurements.plain_cells()])
        # Larger tenants ask more.
        measurements = Measurements()
        for org, asked in _by_size(data, 4 * queries).items():
            await store.compare(measurements, org, Scope(), asked, plain=True)
        rows.append(["all > 5,000, each asking by its size", *measurements.row(), *measurements.plain_cells()])
    return "Whole tenants, whole transactions\n\n" + format_table(["tenant", *HEADINGS, *PLAIN_HEADINGS], rows)


async def measure_filters(data: ScaleData, queries: int) -> str:
    """Filters of each kind and share, in large and medium-sized tenants."""
    rows: list[list[object]] = []
    groups = {"> 5,000 chunks": ("org1", "org3", "org6"), "1,000–5,000": ("org9", "org25")}
    async with _Store(data) as store:
        for kind, scopes in filters().items():
            for share, scope in scopes.items():
                for group, orgs in groups.items():
                    measurements = Measurements()
                    for org in orgs:
                        await store.compare(measurements, org, scope, questions(data, max(6, queries // 2)))
                    rows.append([kind, share, group, *measurements.row()])
    heading = "Filters, whole transactions; the share is that of documents or, of collections, of subjects"
    return f"{heading}\n\n" + format_table(["filter", "share", "tenant", *HEADINGS], rows)


async def measure_statements(data: ScaleData, queries: int) -> str:
    """Only the ranking statement: without the transaction around it, but including the reading of its rows."""
    _make_plain(data)
    rows: list[list[object]] = []
    async with await psycopg.AsyncConnection.connect(data.dsn("postgres"), autocommit=True) as owner:
        await _prepare_plain(owner)
        for org in ("org1", "org3", "org6"):
            alone = await _alone(data, org, questions(data, queries), owner)
            rows.append([f"{data.sizes[org]:,}", *_compared(alone)])
        every: dict[str, list[float]] = {"own": [], "exact": [], "plain": []}
        for org, asked in _by_size(data, 4 * queries).items():
            for way, times in (await _alone(data, org, asked, owner)).items():
                every[way] += times
    rows.append(["all > 5,000, each asking by its size", *_compared(every)])
    return "The ranking statement alone, from a client\n\n" + format_table(
        ["chunks of the tenant", "p50 ms", "exact p50 ms", "of exact p50", "plain p50 ms", "of plain p50"], rows
    )


def _compared(times: Mapping[str, Sequence[float]]) -> list[object]:
    own, exact, plain = (float(statistics.median(times[way])) for way in ("own", "exact", "plain"))
    return [own, exact, f"1/{exact / own:.1f}", plain, f"1/{plain / own:.1f}"]


async def _alone(
    data: ScaleData, org: str, asked: Vectors, owner: psycopg.AsyncConnection[tuple[Any, ...]]
) -> dict[str, list[float]]:
    """Milliseconds of the ranking by way, with the settings of a search; each question was asked once as a warm-up."""
    times: dict[str, list[float]] = {"own": [], "exact": [], "plain": []}
    async with recorded_search(data.dsn("citewire_corpus")) as search:
        sent = {exact: await search.sent(tenant(org), dense(asked[0], exact=exact)) for exact in (False, True)}
        for turn in range(_TURNS + 1):
            for way, exact in (("own", False), ("exact", True)):
                took = await _ranking(search.pool, org, sent[exact], asked)
                times[way] += took if turn else []
            times["plain"] += await _plain(owner, org, asked)
    return times


async def _ranking(pool: Pool, org: str, sent: Sequence[RecordedStatement], asked: Vectors) -> list[float]:
    ranking, tuning = next(entry for entry in sent if entry.ranks), next(element for element in sent if element.tunes)
    times: list[float] = []
    async with pool.connection() as connection, connection.transaction():
        await connection.execute("SELECT set_config('citewire.org_id', %(org)s, true)", {"org": org})
        for vector in asked:
            await connection.execute(tuning.text().encode(), tuning.values)
            values = {**ranking.values, "vector": half_vector(vector)}
            begun = time.perf_counter()
            await (await connection.execute(ranking.text().encode(), values, prepare=True)).fetchall()
            times.append((time.perf_counter() - begun) * 1000)
    return times


def measure_rates(data: ScaleData, rounds: int) -> str:
    """Measures gRPC and psycopg in turns and returns their table."""
    orgs = [org for org, size in data.sizes.items() if size >= 200]
    rates: dict[str, list[Rate]] = {"gRPC": [], "psycopg": []}
    dsn = data.dsn("citewire_corpus")
    with tempfile.TemporaryDirectory() as folder, retriever(data) as port:
        vectors = Path(folder) / "vectors.npy"
        np.save(vectors, data.source.question_vectors)
        for _ in range(rounds):
            for way, runs in rates.items():
                runs.append(run_way(way, orgs, 3, dsn=dsn, port=port, vectors=vectors))
    names = {"gRPC": "Search over gRPC", "psycopg": "plain psycopg, same transaction"}
    table: list[list[object]] = []
    for way, runs in rates.items():
        share = statistics.median(
            rate.per_second / base.per_second for rate, base in zip(runs, rates["psycopg"], strict=True)
        )
        middle = [
            statistics.median(getattr(rate, name) for rate in runs) for name in ("per_second", "p50_ms", "p95_ms")
        ]
        table.append([names[way], middle[0], f"{share:.0%}", *middle[1:]])
    heading = f"Rate, {CLIENTS} clients at once, all tenants in turn"
    return f"{heading}\n\n" + format_table(["way", "searches/s", "of psycopg", "p50 ms", "p95 ms"], table)


def _by_size(data: ScaleData, queries: int) -> dict[str, Vectors]:
    """Questions of each tenant above 5,000 chunks, more for larger ones."""
    large = {org: size for org, size in data.sizes.items() if size > 5000}
    total = sum(large.values())
    return {org: questions(data, max(2, round(queries * size / total))) for org, size in large.items()}


def questions(data: ScaleData, count: int) -> Vectors:
    """Vectors of real questions: half of them about a tenant's own content, half about other tenants' content.

    The largest tenant has both.
    """
    half = count // 2
    general, judged = data.source.question_vectors, data.source.judged.question_vectors
    return np.concatenate([general[:: len(general) // (count - half)][: count - half], judged[:half]])


def spread(orgs: Sequence[str], most: int) -> list[str]:
    """At most this many tenants, from the largest to the smallest."""
    if len(orgs) <= most:
        return list(orgs)
    return [orgs[round(place * (len(orgs) - 1) / (most - 1))] for place in range(most)]


class _Store:
    """The retriever's store on one connection."""

    def __init__(self, data: ScaleData) -> None:
        self._data = data
        vectors = data.source.question_vectors
        self._others = vectors[7 :: len(vectors) // 30][:30]

    async def __aenter__(self) -> _Store:
        self._pool = await open_pool(self._data.dsn("citewire_corpus"), max_size=1, name="bench")
        self._search = PostgresSearch(self._pool, SearchTuning())
        self._owner = await psycopg.AsyncConnection.connect(self._data.dsn("postgres"), autocommit=True)
        await _prepare_plain(self._owner)
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._owner.close()
        await self._pool.close()

    async def compare(
        self, measurements: Measurements, org: str, scope: Scope, asked: Vectors, *, plain: bool = False
    ) -> None:
        """Searches in the retriever's own way, exactly, and in the plain way.

        Each question is first asked once in every way, so that its data is in memory. Then the ways take turns,
        each with all questions, so that slow moments of the machine affect them equally.
        """
        results = [await self._ids(org, scope, vector, exact=False) for vector in (*self._others, *asked)]
        results = results[len(self._others) :]
        nearest = [await self._ids(org, scope, vector, exact=True) for vector in asked]
        measurements.recall += [len(best & own) / max(1, len(best)) for own, best in zip(results, nearest, strict=True)]
        for _ in range(_TURNS):
            for exact, times in ((False, measurements.own), (True, measurements.exact)):
                for vector in asked:
                    begun = time.perf_counter()
                    result = await self._search.search(tenant(org), dense(vector, scope=scope, exact=exact))
                    times.append((time.perf_counter() - begun) * 1000)
                    measurements.graph += not result.exact
            if plain:
                measurements.plain += await _plain(self._owner, org, asked)

    async def _ids(self, org: str, scope: Scope, vector: Vectors, *, exact: bool) -> set[int]:
        results = await self._search.search(tenant(org), dense(vector, scope=scope, exact=exact))
        return {candidate.chunk_id for candidate in results.ranked}


async def _prepare_plain(connection: psycopg.AsyncConnection[tuple[Any, ...]]) -> None:
    await connection.execute("SET plan_cache_mode = force_custom_plan")
    await connection.execute("SET jit = off")


async def _plain(connection: psycopg.AsyncConnection[tuple[Any, ...]], org: str, asked: Vectors) -> list[float]:
    """Milliseconds in the plain way; each question was asked once as a warm-up."""
    times: list[float] = []
    for vector in (*asked, *asked):
        begun = time.perf_counter()
        await (await connection.execute(_PLAIN, (org, literal(vector)))).fetchall()
        times.append((time.perf_counter() - begun) * 1000)
    return times[len(asked) :]


def _make_plain(data: ScaleData) -> None:
    """Stores the vectors again in the most obvious way, with the documents of all tenants mixed."""
    with psycopg.connect(data.dsn("postgres"), autocommit=True) as connection:
        if connection.execute("SELECT to_regclass('bench_plain') IS NOT NULL").fetchone() == (True,):
            return
        row = connection.execute("SELECT table_name FROM corpus.spaces").fetchone()
        assert row is not None
        connection.execute(
            sql.SQL(
                "CREATE TABLE bench_plain AS SELECT org_id, chunk_id, embedding::vector AS embedding"
                " FROM {} ORDER BY hashint8(document_id), chunk_id"
            ).format(sql.Identifier("corpus", row[0]))
        )
        connection.execute("CREATE INDEX ON bench_plain (org_id)")
        connection.execute("VACUUM ANALYZE bench_plain")


if __name__ == "__main__":
    raise SystemExit(main())
