"""Speed and recall of search: the retriever compared with plain psycopg and pgbench, and its way with the exact scan.

- *Rate*: ten nearest chunks of one organisation, over gRPC like callers, and exactly the same transaction with plain
  psycopg (same role, pool and pipelining) and with pgbench. Server, database and load share the machine. The ways take
  turns; a ratio is taken within a round, and the median of the rounds is printed.
- *Recall and time by tenant size*: the retriever's own way compared with an exact scan of the same scope, one after
  another on one connection, whole transactions. `one tag of 7` is a filter that leaves a seventh of the chunks.

Usage: python -m benchmarks.search [--chunks N] [--rounds N] [--seconds S] [--queries N]
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from benchmarks.search_data import DIMENSIONS, Data, loaded, sample
from benchmarks.search_ways import (
    CLIENTS,
    Rate,
    capture_statements,
    dense,
    retriever,
    run_pgbench,
    run_way,
    tenant,
    write_scripts,
)
from benchmarks.tables import describe_machine, format_table
from citewire_kit.postgres import open_pool
from citewire_retriever.filters import Operator, comparison
from citewire_retriever.model import Scope, SearchQuery
from citewire_retriever.store.search import PostgresSearch
from citewire_retriever.store.snapshots import SearchSnapshot
from citewire_retriever.tuning import SearchTuning

BASELINE = "psycopg"
CLASSES = ((20_000, "> 20,000 chunks"), (5000, "5,000–20,000"), (1000, "1,000–5,000"), (0, "< 1,000"))
ONE_TAG = Scope(filter=comparison("filter", "tags", Operator.CONTAINS, "tag3"))


@dataclass(slots=True)
class Measurements:
    """The measurements of one class of tenants."""

    chunks: list[int] = field(default_factory=list[int])
    recall: list[float] = field(default_factory=list[float])
    index: int = 0
    own: list[float] = field(default_factory=list[float])
    exact: list[float] = field(default_factory=list[float])


def main() -> int:
    """Runs the benchmark and returns the exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--chunks", type=int, default=60_000, help="chunks of all tenants (200000 for the full run)")
    parser.add_argument("--rounds", type=int, default=5, help="rounds in which every way takes its turn")
    parser.add_argument("--seconds", type=float, default=3, help="seconds of each turn")
    parser.add_argument("--queries", type=int, default=40, help="queries for each measured tenant")
    options = parser.parse_args()
    print(describe_machine(), flush=True)
    begun = time.perf_counter()
    with loaded(options.chunks) as data:
        sizes = list(data.sizes.values())
        print(
            f"{sum(sizes):,} chunks × {DIMENSIONS} dimensions, {len(sizes)} tenants of {sizes[-1]:,}–{sizes[0]:,}"
            f" chunks; loaded in {time.perf_counter() - begun:.0f} s\n",
            flush=True,
        )
        print(measure_rates(data, options.rounds, options.seconds), end="\n\n", flush=True)
        print(asyncio.run(measure_recall(data, options.queries)), flush=True)
    return 0


def measure_rates(data: Data, rounds: int, seconds: float) -> str:
    """Measures the ways in turns and returns their table."""
    dsn = data.dsn("citewire_corpus")
    orgs = [org for org, size in data.sizes.items() if size >= 200]
    rates: dict[str, list[Rate]] = {"gRPC": [], BASELINE: [], "pgbench": []}
    with tempfile.TemporaryDirectory() as folder, retriever(data) as port:
        scripts = write_scripts(Path(folder), asyncio.run(capture_statements(dsn, orgs)), dsn)
        for _ in range(rounds):
            for way in ("gRPC", BASELINE):
                rates[way].append(run_way(way, orgs, seconds, dsn=dsn, port=port))
            rates["pgbench"].append(run_pgbench(data, scripts, seconds))
    names = {
        "gRPC": "Search over gRPC",
        BASELINE: "plain psycopg, same transaction",
        "pgbench": "pgbench, same transaction",
    }
    table = [
        [
            names[way],
            statistics.median(rate.per_second for rate in runs),
            statistics.median(
                rate.per_second / base.per_second for rate, base in zip(runs, rates[BASELINE], strict=True)
            ),
            statistics.median(rate.p50_ms for rate in runs),
            statistics.median(rate.p95_ms for rate in runs),
        ]
        for way, runs in rates.items()
    ]
    heading = f"Rate, {CLIENTS} clients at once (pgbench gives the mean instead of the median)"
    return f"{heading}\n\n" + format_table(["way", "searches/s", "of psycopg", "p50 ms", "p95 ms"], table)


async def measure_recall(data: Data, queries: int) -> str:
    """Searches in the retriever's own way and exactly, for tenants of each size, and returns the table."""
    pool = await open_pool(data.dsn("citewire_corpus"), max_size=1, name="bench")
    store = PostgresSearch(pool, SearchTuning())
    rows: list[list[object]] = []
    for label, scope in (("whole tenant", Scope()), ("one tag of 7", ONE_TAG)):
        for least, name in CLASSES:
            measurements = Measurements()
            most = min((size for size, _ in CLASSES if size > least), default=10**9)
            for org in _spread([org for org, size in data.sizes.items() if least <= size < most]):
                await _compare(store, measurements, org, data.sizes[org], scope, queries)
            if measurements.own:
                rows.append([label, name, *_summary(measurements)])
    await pool.close()
    headings = [
        "scope",
        "tenant",
        "recall@10",
        "by graph",
        "p50 ms",
        "p95 ms",
        "exact p50 ms",
        "exact p95 ms",
        "of exact p50",
    ]
    return "Recall@10 and time against the exact scan\n\n" + format_table(headings, rows)


async def _compare(
    store: PostgresSearch, measurements: Measurements, org: str, size: int, scope: Scope, queries: int
) -> None:
    vectors = sample(5000 + size, queries)
    own = [await _timed(store, org, dense(vector, scope=scope)) for vector in vectors]
    exact = [await _timed(store, org, dense(vector, scope=scope, exact=True)) for vector in vectors]
    for (result, taken), (all_found, taken_exact) in zip(own, exact, strict=True):
        measurements.own.append(taken)
        measurements.exact.append(taken_exact)
        measurements.index += not result.exact
        nearest = {match.chunk_id for match in all_found.ranked}
        measurements.recall.append(len(nearest & {match.chunk_id for match in result.ranked}) / max(1, len(nearest)))
    measurements.chunks.append(size)


async def _timed(store: PostgresSearch, org: str, query: SearchQuery) -> tuple[SearchSnapshot, float]:
    begun = time.perf_counter()
    results = await store.search(tenant(org), query)
    return results, (time.perf_counter() - begun) * 1000


def _summary(measurements: Measurements) -> list[object]:
    p50, p95 = (float(value) for value in np.percentile(measurements.own, [50, 95]))
    exact50, exact95 = (float(value) for value in np.percentile(measurements.exact, [50, 95]))
    return [
        f"{statistics.fmean(measurements.recall):.3f}",
        f"{measurements.index / len(measurements.own):.0%}",
        p50,
        p95,
        exact50,
        exact95,
        f"1/{exact50 / p50:.1f}",
    ]


def _spread(orgs: Sequence[str]) -> list[str]:
    """At most six tenants, from the largest to the smallest."""
    if len(orgs) <= 6:
        return list(orgs)
    return [orgs[round(place * (len(orgs) - 1) / 5)] for place in range(6)]


if __name__ == "__main__":
    raise SystemExit(main())
