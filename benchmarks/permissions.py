"""Search by callers who see 0.1, 1, 10 and 50 % of a library: recall, and time compared with two other ways.

Each share of the documents of the largest organisation in the scale benchmark's library gets its own readers, chosen
at random; no caller sees the rest. The retriever's own way is compared with

- the search of an owner, who sees everything, with the same statements: the cost of permissions;
- an exact scan of the documents that the caller sees: the value of the graph, and the right results.

Every question is asked once in each way as a warm-up; then in each repetition once in each way, in random order.
A ratio is the median of the repetitions' ratios of the 95th percentiles, with its 95 % interval.

Usage: python -m benchmarks.permissions [--keep DIR] [--chunks N] [--queries N] [--repetitions N] [--drawn]; the data
sets are expected beside the repository, unless --drawn draws the vectors.
"""

from __future__ import annotations

import argparse
import random
import statistics
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import psycopg

from benchmarks.ratios import median_ratio
from benchmarks.scale_data import ScaleData, loaded
from benchmarks.search_ways import dense
from benchmarks.tables import describe_machine, format_table
from citewire_kit.postgres import Pool, open_pool, tenant_transaction
from citewire_kit.server import run, settle
from citewire_kit.tenant import Tenant
from citewire_retriever.store.filter_sql import VISIBLE
from citewire_retriever.store.search import PostgresSearch
from citewire_retriever.tuning import SearchTuning
from corpus_rows import COUNT_ACCESSES, Vectors

ORG = "org1"
SHARES = {"0.1 %": 0.1, "1 %": 1.0, "10 %": 10.0, "50 %": 50.0}
OWNER = Tenant(ORG, "owner", "pro", ("owner",))


_OF_OWNERS, _OF_EXACT = 3.0, 1.2
"""Limits of the ratios."""


@dataclass(slots=True)
class Measurements:
    """The measurements of one caller's searches."""

    recall: list[float] = field(default_factory=list[float])
    graph: list[bool] = field(default_factory=list[bool])
    own: list[list[float]] = field(default_factory=list[list[float]])
    """Milliseconds of each repetition's searches."""
    owners: list[list[float]] = field(default_factory=list[list[float]])
    exact: list[list[float]] = field(default_factory=list[list[float]])

    def row(self, share: str, chunks: int) -> list[object]:
        """Recall, the share of graph searches, times of all repetitions together, and ratios of 95th percentiles."""
        own, owners, exact = (np.percentile(times, [50, 95]) for times in (self.own, self.owners, self.exact))
        return [
            share,
            f"{chunks:,}",
            f"{statistics.fmean(self.recall):.3f}",
            f"{statistics.fmean(self.graph):.0%}",
            *(f"{p50:.2f} / {p95:.2f}" for p50, p95 in (own, owners, exact)),
            *_judged(self.own, self.owners, _OF_OWNERS),
            *_judged(self.own, self.exact, _OF_EXACT),
        ]


def _judged(own: Sequence[Sequence[float]], others: Sequence[Sequence[float]], limit: float) -> tuple[str, str]:
    """The ratio of each repetition's 95th percentiles, and the verdict on the limit."""
    pairs = zip(own, others, strict=True)
    ratio = median_ratio([float(np.percentile(first, 95) / np.percentile(second, 95)) for first, second in pairs])
    return f"{ratio.median:.2f} ({ratio.low:.2f}–{ratio.high:.2f})", str(ratio.verdict(limit))


def main() -> int:
    """Runs the benchmark and returns the exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--keep", type=Path, help="folder that keeps the loaded database")
    parser.add_argument("--chunks", type=int, default=200_000)
    parser.add_argument("--queries", type=int, default=100)
    parser.add_argument("--repetitions", type=int, default=12)
    parser.add_argument("--drawn", action="store_true", help="draw the vectors instead of embedding the data sets")
    options = parser.parse_args()
    print(describe_machine(), flush=True)
    with loaded(options.chunks, options.keep, drawn=options.drawn) as data:
        hide(data)
        settle()
        print(f"{data.sizes[ORG]:,} chunks of one organisation, {sum(data.sizes.values()):,} of all\n", flush=True)
        vectors = data.source.question_vectors
        asked = vectors[:: max(1, len(vectors) // options.queries)][: options.queries]
        print(run(measure(data, asked, options.repetitions)))
    return 0


def hide(data: ScaleData) -> None:
    """Gives each share of the documents its own readers: a tenth of a percent to one group, and so on."""
    drawing = np.random.default_rng(5)
    with psycopg.connect(data.dsn("postgres")) as connection:
        connection.execute("SET session_replication_role = replica")
        connection.execute("UPDATE corpus.documents SET access_id = NULL WHERE org_id = %s", (ORG,))
        ids = [row[0] for row in connection.execute(
            "SELECT document_id FROM corpus.documents WHERE org_id = %s ORDER BY 1", (ORG,))]  # fmt: skip
        drawn = drawing.random(len(ids)) * 100
        # Shares are nested: all callers see the documents of the smallest share.
        for least, most in zip([0.0, *SHARES.values()], [*SHARES.values(), 100.0], strict=True):
            readers = [f"group:{share}" for share in SHARES.values() if share >= most] or ["group:nobody"]
            picked = [number for number, place in zip(ids, drawn.tolist(), strict=True) if least <= place < most]
            connection.execute(
                "UPDATE corpus.documents SET access_id = corpus.intern_access(org_id, collection_id, %s)"
                " WHERE org_id = %s AND document_id = ANY(%s)",
                (readers, ORG, picked),
            )
        connection.execute("DELETE FROM corpus.access_counts")
        connection.execute(COUNT_ACCESSES)
    with psycopg.connect(data.dsn("postgres"), autocommit=True) as connection:
        connection.execute("VACUUM ANALYZE corpus.documents")


async def measure(data: ScaleData, asked: Vectors, repetitions: int) -> str:
    """Searches as each caller, and returns the table."""
    pool = await open_pool(data.dsn("citewire_corpus"), max_size=1, name="bench", resolved=VISIBLE)
    rows: list[list[object]] = []
    for name, share in SHARES.items():
        caller = Tenant(ORG, "asker", "pro", ("reader",), groups=(str(share),))
        rows.append((await _compare(pool, caller, asked, repetitions)).row(name, await _visible(pool, caller)))
    await pool.close()
    headings = ["visible", "chunks", "recall@10", "by graph", "p50 / p95 ms", "of an owner", "exact"]
    headings += ["p95 of an owner's", f"≤ {_OF_OWNERS:g}", "p95 of exact", f"≤ {_OF_EXACT:g}"]
    return "Whole transactions on one connection\n\n" + format_table(headings, rows)


async def _compare(pool: Pool, caller: Tenant, asked: Vectors, repetitions: int) -> Measurements:
    search = PostgresSearch(pool, SearchTuning())
    measurements = Measurements()
    for vector in asked:
        result = await search.search(caller, dense(vector))
        measurements.graph.append(not result.exact)
        results = {entry.chunk_id for entry in result.ranked}
        best = {entry.chunk_id for entry in (await search.search(caller, dense(vector, exact=True))).ranked}
        await search.search(OWNER, dense(vector))
        measurements.recall.append(len(best & results) / max(1, len(best)))
    ways = [(caller, False, measurements.own), (OWNER, False, measurements.owners), (caller, True, measurements.exact)]
    choices = random.Random(7)
    for _ in range(repetitions):
        for _, _, times in ways:
            times.append([])
        for vector in asked:
            for tenant, exact, times in choices.sample(ways, len(ways)):
                begun = time.perf_counter()
                await search.search(tenant, dense(vector, exact=exact))
                times[-1].append((time.perf_counter() - begun) * 1000)
    return measurements


async def _visible(pool: Pool, caller: Tenant) -> int:
    async with tenant_transaction(pool, caller) as connection:
        row = await (await connection.execute("SELECT sum(chunks) FROM corpus.access_counts")).fetchone()
    assert row is not None
    return int(row[0])


if __name__ == "__main__":
    raise SystemExit(main())
