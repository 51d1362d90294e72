"""Hybrid search of one large organisation compared with the obvious way: full text by `ts_rank_cd`, any word.

The latter fuses the best 100 by words and by vector; ours uses the best 80. Both take one round trip, and ours reads
the results' texts in a second one. SciFact's abstracts are among the organisation's chunks, so both can be judged and
timed at the same size.
"""

from __future__ import annotations

import math
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack
from dataclasses import replace

import numpy as np
import psycopg

from benchmarks.scale_data import JUDGED, ScaleData
from benchmarks.search_data import SPACE, literal
from benchmarks.search_ways import tenant
from benchmarks.tables import format_table
from citewire_kit.postgres import open_pool
from citewire_retriever.model import Scope, SearchMode, SearchQuery
from citewire_retriever.service.retrieval import RetrievalService
from citewire_retriever.store.search import PostgresSearch
from citewire_retriever.tuning import SearchTuning
from corpus_rows import Vectors

Ranking = Callable[[str, Vectors], Awaitable[Sequence[int]]]
"""Ids of the best ten chunks for a question and its vector."""

_TURNS = 3
_NAIVE = """
WITH asked AS (SELECT replace(plainto_tsquery('english', %(text)s)::text, '&', '|')::tsquery AS q),
by_words AS (
    SELECT chunk_id, row_number() OVER (ORDER BY rank DESC, chunk_id) AS place
    FROM (SELECT chunk_id, ts_rank_cd(words, q, 1) AS rank FROM bench_words, asked
          WHERE org_id = %(org_id)s AND words @@ q ORDER BY rank DESC, chunk_id LIMIT 100) best
),
by_vector AS (
    SELECT chunk_id, row_number() OVER (ORDER BY distance, chunk_id) AS place
    FROM (SELECT chunk_id, embedding <=> %(vector)s::halfvec AS distance FROM {vectors}
          WHERE org_id = %(org_id)s ORDER BY distance LIMIT 100) best
)
SELECT chunk_id FROM (SELECT * FROM by_words UNION ALL SELECT * FROM by_vector) both_legs
GROUP BY chunk_id ORDER BY sum(1.0 / (60 + place)) DESC, chunk_id LIMIT 10
"""


async def measure_hybrid(data: ScaleData, queries: int) -> str:
    """Asks the judged questions in every way, and returns the table.

    Each way first asks all of them once, so that their data is in memory. Then the ways take turns, so that slow
    moments of the machine affect them equally.
    """
    table: list[list[object]] = []
    for org in JUDGED:
        async with AsyncExitStack() as stack:
            ways = await _ways(stack, data, org)
            gains = {way: (await _ask(data, org, ranking, queries))[0] for way, ranking in ways.items()}
            times: dict[str, list[float]] = {way: [] for way in ways}
            for _ in range(_TURNS):
                for way, ranking in ways.items():
                    times[way] += (await _ask(data, org, ranking, queries))[1]
        p95 = {way: float(np.percentile(took, 95)) for way, took in times.items()}
        for way, took in times.items():
            share = f"1/{p95['naive'] / p95[way]:.1f}"
            size = f"{data.sizes[org]:,}"
            table.append([size, way, f"{np.mean(gains[way]):.4f}", float(np.median(took)), p95[way], share])
    headings = ["chunks", "way", "nDCG@10", "p50 ms", "p95 ms", "of naive's p95"]
    return "Hybrid, whole transactions on one connection\n\n" + format_table(headings, table)


async def _ways(stack: AsyncExitStack, data: ScaleData, org: str) -> dict[str, Ranking]:
    pool = await open_pool(data.dsn("citewire_corpus"), max_size=1, name="bench")
    stack.push_async_callback(pool.close)
    owner = await psycopg.AsyncConnection.connect(data.dsn("postgres"), autocommit=True)
    stack.push_async_callback(owner.close)
    row = await (await owner.execute("SELECT table_name FROM corpus.spaces")).fetchone()
    assert row is not None
    naive = _NAIVE.format(vectors=f"corpus.{row[0]}").encode()
    await owner.execute(
        "SELECT set_config('hnsw.iterative_scan', 'relaxed_order', false), set_config('hnsw.ef_search', '100', false),"
        " set_config('jit', 'off', false), set_config('plan_cache_mode', 'force_custom_plan', false)"
    )

    async def by_rank(text: str, vector: Vectors) -> Sequence[int]:
        values = {"text": text, "org_id": org, "vector": literal(vector)}
        return [element[0] for element in await (await owner.execute(naive, values)).fetchall()]

    def through(tuning: SearchTuning, query: SearchQuery) -> Ranking:
        service = RetrievalService(PostgresSearch(pool, tuning))

        async def rank(text: str, vector: Vectors) -> Sequence[int]:
            asked = replace(query, text=text, vector=vector.astype("<f4").tobytes() if query.space else b"")
            return [result.chunk.chunk_id for result in (await service.search(tenant(org), asked)).results]

        return rank

    hybrid = SearchQuery(Scope(), mode=SearchMode.HYBRID, space=SPACE)
    lexical = SearchQuery(Scope(), mode=SearchMode.LEXICAL)
    scanning = SearchTuning(lexical_scan_chunks=10**9)
    return {
        "naive": by_rank,
        "hybrid": through(SearchTuning(), hybrid),
        "hybrid, near-duplicates kept": through(SearchTuning(), replace(hybrid, keep_duplicates=True)),
        "hybrid, the same, words always scanned": through(scanning, replace(hybrid, keep_duplicates=True)),
        "dense": through(SearchTuning(), SearchQuery(Scope(), space=SPACE)),
        "lexical": through(SearchTuning(), lexical),
        "lexical, always scanned": through(scanning, lexical),
    }


async def _ask(data: ScaleData, org: str, ranking: Ranking, queries: int) -> tuple[list[float], list[float]]:
    """Asks the judged questions, and returns each one's nDCG@10 and milliseconds."""
    judged = data.source.judged
    first = int(org.removeprefix("org")) * 1_000_000
    gains: list[float] = []
    times: list[float] = []
    some = list(zip(judged.questions, judged.question_vectors, judged.grades, strict=True))[:queries]
    for text, vector, grades in some:
        begun = time.perf_counter()
        result = await ranking(text, vector)
        times.append((time.perf_counter() - begun) * 1000)
        gains.append(_dcg([grades.get(chunk_id - first, 0) for chunk_id in result]) / _dcg(_ideal(grades)))
    return gains, times


def _ideal(grades: dict[int, int]) -> list[int]:
    return sorted(grades.values(), reverse=True)[:10]


def _dcg(gains: Sequence[int]) -> float:
    return sum(gain / math.log2(place + 2) for place, gain in enumerate(gains))
