"""Search by callers who see 0.1, 1, 10 and 50 % of a library: recall, and time beside two other ways.

Each share of the documents of the largest organisation of the scale benchmark's library gets readers of its own, drawn
at random; the rest belongs to nobody who asks. The retriever's own way is compared with

- the search of an owner, who sees everything, by the same statements: what permissions cost;
- an exact scan of what the caller sees: what the graph is worth, and what is right.

Every question is asked once before in each way; then the ways take turns.

Usage: python -m benchmarks.permissions [--keep DIR] [--chunks N] [--queries N] [--drawn]; the data sets are expected
beside the repository, unless --drawn draws the vectors.
"""

from __future__ import annotations

import argparse
import statistics
import time
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import psycopg

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
_TURNS = 3


@dataclass(slots=True)
class Seen:
    """What was seen of the searches of one caller."""

    recall: list[float] = field(default_factory=list[float])
    graph: int = 0
    own: list[float] = field(default_factory=list[float])
    owners: list[float] = field(default_factory=list[float])
    exact: list[float] = field(default_factory=list[float])

    def row(self, share: str, chunks: int) -> list[object]:
        """Recall, the share of the graph, and times; ratios are of the 95th percentiles."""
        own, owners, exact = (np.percentile(times, [50, 95]) for times in (self.own, self.owners, self.exact))
        return [
            share,
            f"{chunks:,}",
            f"{statistics.fmean(self.recall):.3f}",
            f"{self.graph / len(self.own):.0%}",
            *(float(value) for value in own),
            f"{own[1] / owners[1]:.2f}",
            f"{own[1] / exact[1]:.2f}",
        ]


def main() -> int:
    """Runs the benchmark and returns the exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--keep", type=Path, help="folder that keeps the loaded database")
    parser.add_argument("--chunks", type=int, default=200_000)
    parser.add_argument("--queries", type=int, default=60)
    parser.add_argument("--drawn", action="store_true", help="draw the vectors instead of embedding the data sets")
    options = parser.parse_args()
    print(describe_machine(), flush=True)
    with loaded(options.chunks, options.keep, drawn=options.drawn) as data:
        hide(data)
        settle()
        print(f"{data.sizes[ORG]:,} chunks of one organisation, {sum(data.sizes.values()):,} of all\n", flush=True)
        vectors = data.source.question_vectors
        print(run(measure(data, vectors[:: max(1, len(vectors) // options.queries)][: options.queries])))
    return 0


def hide(data: ScaleData) -> None:
    """Gives each share of the documents readers of its own: a tenth of a percent to one group, and so on."""
    random = np.random.default_rng(5)
    with psycopg.connect(data.dsn("postgres")) as connection:
        connection.execute("SET session_replication_role = replica")
        connection.execute("UPDATE corpus.documents SET access_id = NULL WHERE org_id = %s", (ORG,))
        ids = [row[0] for row in connection.execute(
            "SELECT document_id FROM corpus.documents WHERE org_id = %s ORDER BY 1", (ORG,))]  # fmt: skip
        drawn = random.random(len(ids)) * 100
        # Shares hold each other: what the smallest sees, all see.
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


async def measure(data: ScaleData, asked: Vectors) -> str:
    """Asks as each caller, and returns the table."""
    pool = await open_pool(data.dsn("citewire_corpus"), max_size=1, name="bench", resolved=VISIBLE)
    rows: list[list[object]] = []
    for name, share in SHARES.items():
        caller = Tenant(ORG, "asker", "pro", ("reader",), groups=(str(share),))
        rows.append((await _compare(pool, caller, asked)).row(name, await _visible(pool, caller)))
    await pool.close()
    headings = ["visible", "chunks", "recall@10", "by graph", "p50 ms", "p95 ms", "of an owner's p95", "of exact p95"]
    return "Whole transactions on one connection\n\n" + format_table(headings, rows)


async def _compare(pool: Pool, caller: Tenant, asked: Vectors) -> Seen:
    search = PostgresSearch(pool, SearchTuning())
    seen = Seen()
    for vector in asked:
        results = {entry.chunk_id for entry in (await search.search(caller, dense(vector))).ranked}
        best = {entry.chunk_id for entry in (await search.search(caller, dense(vector, exact=True))).ranked}
        await search.search(OWNER, dense(vector))
        seen.recall.append(len(best & results) / max(1, len(best)))
    for _ in range(_TURNS):
        for tenant, exact, times in (
            (caller, False, seen.own),
            (OWNER, False, seen.owners),
            (caller, True, seen.exact),
        ):
            for vector in asked:
                begun = time.perf_counter()
                result = await search.search(tenant, dense(vector, exact=exact))
                times.append((time.perf_counter() - begun) * 1000)
                seen.graph += times is seen.own and not result.exact
    return seen


async def _visible(pool: Pool, caller: Tenant) -> int:
    async with tenant_transaction(pool, caller) as connection:
        row = await (await connection.execute("SELECT sum(chunks) FROM corpus.access_counts")).fetchone()
    assert row is not None
    return int(row[0])


if __name__ == "__main__":
    raise SystemExit(main())
