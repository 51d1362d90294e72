"""The sampled recall equals the recall of a full measurement, for every kind of search."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import psycopg
import pytest
from citewire.common.v1 import common_pb2
from citewire.retriever.v1 import retriever_pb2 as pb
from prometheus_client import REGISTRY

from citewire_kit.errors import DeadlineExceeded
from citewire_kit.postgres import Pool, open_pool
from citewire_kit.tenant import Tenant
from citewire_retriever import tuning
from citewire_retriever.filters import Operator, comparison
from citewire_retriever.model import Scope, SearchQuery
from citewire_retriever.store import statements
from citewire_retriever.store.recall import PostgresRecall
from citewire_retriever.store.sampling import RecallSampler, Sample, Sampling
from citewire_retriever.store.search import PostgresSearch
from citewire_retriever.tuning import IndexSearch, SearchTuning
from corpus_rows import CorpusRows
from retriever_process import Caller, running_retriever
from search_library import DIMENSIONS, SPACE, clustered, fill, query

if TYPE_CHECKING:
    from databases import Database

TENANT = Tenant("acme", "user", "pro")
# With so little effort, the graph misses some results.
CARELESS = SearchTuning(
    ef_search_first=10, ef_search=10, ef_search_max=10, exact_chunks=0, exact_chunks_per_candidate=0
)
THIRD = Scope(filter=comparison("filter", "tags", Operator.CONTAINS, "third"))


@pytest.fixture
def rows(database: Database) -> Iterator[CorpusRows]:
    with CorpusRows(database.owner_dsn, dimensions=DIMENSIONS) as made:
        yield made


@pytest.fixture
async def pool(database: Database) -> AsyncIterator[Pool]:
    pool = await open_pool(database.dsn("citewire_corpus"), name="test")
    yield pool
    await pool.close()


def observed_recall(scope: str) -> tuple[float, float]:
    values = [REGISTRY.get_sample_value(f"citewire_search_sampled_recall_{part}", {"scope": scope}) for part in
              ("sum", "count")]  # fmt: skip
    return values[0] or 0.0, values[1] or 0.0


@pytest.mark.parametrize("by_document", [False, True])
@pytest.mark.parametrize(("scope", "label"), [(Scope(), "whole"), (THIRD, "narrowed")])
async def test_sampled_recall_equals_a_full_measurement(
    rows: CorpusRows,
    pool: Pool,
    scope: Scope,
    label: str,
    by_document: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # The first walk returns only what was requested, and is never followed by a second one.
    monkeypatch.setattr(tuning, "_SPARE", 0)
    monkeypatch.setattr(statements, "WATCHED", 0)
    random = np.random.default_rng(3)
    with rows.bulk(coarse=True):
        fill(rows, "acme", clustered(random, 4000), each=4)
    recall = PostgresRecall(pool, CARELESS, seconds=10)
    sampler = RecallSampler(recall.measure, Sampling(rate=1, waiting=200), chance=lambda: 0.0)
    store = PostgresSearch(pool, CARELESS, sampler)
    total, count = observed_recall(label)
    full: list[float] = []
    async with sampler.running():
        for vector in clustered(random, 60):
            expected = query(vector, scope=scope, by_document=by_document)
            own, exact = await store.search(TENANT, expected), await store.search(TENANT, replace(expected, exact=True))
            assert (own.exact, exact.exact) == (False, True)
            results = {candidate.chunk_id for candidate in own.ranked}
            full.append(len(results & {candidate.chunk_id for candidate in exact.ranked}) / 10)
        await sampler.drained()
    total, count = observed_recall(label)[0] - total, observed_recall(label)[1] - count
    assert count == len(full)
    assert by_document or np.mean(full) < 0.995  # otherwise there would be nothing to measure
    assert total / count == pytest.approx(float(np.mean(full)), abs=0.01)


async def test_expired_documents_do_not_lower_the_recall(rows: CorpusRows, pool: Pool) -> None:
    """With half or nearly all of the library expired, the walk of the graph continues, or a scan takes over."""
    random = np.random.default_rng(7)
    tuning = replace(SearchTuning(), exact_chunks=0, exact_chunks_per_candidate=0)
    with rows.bulk():
        fill(rows, "acme", clustered(random, 4000), each=4)
    store = PostgresSearch(pool, tuning)
    recall: dict[int, float] = {}
    for share in (0, 50, 99):
        rows.run("UPDATE corpus.documents SET valid_until = now() WHERE document_id %% 100 < %s", (share,))
        shares: list[float] = []
        for vector in clustered(random, 40):
            asked = query(vector)
            own, exact = await store.search(TENANT, asked), await store.search(TENANT, replace(asked, exact=True))
            nearest = {candidate.chunk_id for candidate in exact.ranked}
            assert len(nearest) == 10
            shares.append(len(nearest & {candidate.chunk_id for candidate in own.ranked}) / 10)
        recall[share] = float(np.mean(shares))
    assert recall[0] > 0.95
    assert recall[50] >= recall[0] - 0.01
    assert recall[99] >= recall[0] - 0.01


async def test_only_the_first_ten_count_and_equal_distances_are_as_good(rows: CorpusRows, pool: Pool) -> None:
    vector = clustered(np.random.default_rng(4), 1)[0]
    fill(rows, "acme", np.tile(vector, (300, 1)), each=100)
    recall = PostgresRecall(pool, CARELESS, seconds=10)
    for top_k in (3, 10, 50):
        sample = Sample(TENANT, query(vector, top_k=top_k), f"vectors_{rows.space_id}", IndexSearch(64, 64))
        assert await recall.measure(sample) == 1.0


async def test_searches_without_the_graph_are_not_sampled(rows: CorpusRows, pool: Pool) -> None:
    vector = clustered(np.random.default_rng(5), 1)[0]
    fill(rows, "acme", clustered(np.random.default_rng(5), 5), each=5)
    recall = PostgresRecall(pool, CARELESS, seconds=10)
    sample = Sample(TENANT, query(vector), f"vectors_{rows.space_id}", IndexSearch(64, 64))
    assert await recall.measure(sample) is None
    assert await recall.measure(replace(sample, tenant=Tenant("other", "user", "pro"))) is None


async def test_a_sample_ends_at_its_time_limit(database: Database, rows: CorpusRows) -> None:
    fill(rows, "acme", clustered(np.random.default_rng(6), 200), each=5)
    pool = await open_pool(database.dsn("citewire_corpus"), min_size=0, max_size=1, name="test")
    recall = PostgresRecall(pool, CARELESS, seconds=0.2)
    sample = Sample(
        TENANT,
        SearchQuery(Scope(), np.ones(DIMENSIONS, "<f4").tobytes(), top_k=10),
        f"vectors_{rows.space_id}",
        IndexSearch(64, 64),
    )
    with psycopg.connect(database.owner_dsn) as other:
        other.execute("LOCK TABLE corpus.documents IN ACCESS EXCLUSIVE MODE")
        with pytest.raises(DeadlineExceeded):
            await recall.measure(sample)
        # If the process ends, a waiting sample ends at once.
        patient = PostgresRecall(pool, CARELESS, seconds=60)
        sampler = RecallSampler(patient.measure, Sampling(rate=1), chance=lambda: 0.0)
        async with asyncio.timeout(10):
            async with sampler.running():
                sampler.offer(sample)
                while not await _waits_for_a_lock(database):  # noqa: ASYNC110 - nothing announces it
                    await asyncio.sleep(0.01)
    assert await recall.measure(sample) is not None  # the pool's only connection is usable
    await pool.close()


async def _waits_for_a_lock(database: Database) -> bool:
    async with await psycopg.AsyncConnection.connect(database.owner_dsn) as connection:
        cursor = await connection.execute(
            "SELECT FROM pg_stat_activity WHERE datname = current_database() AND usename = 'citewire_corpus'"
            " AND wait_event_type = 'Lock'"
        )
        return await cursor.fetchone() is not None


@pytest.mark.parametrize(("rate", "sampled"), [(1.0, 20), (0.0, 0)])
async def test_a_running_retriever_samples_after_its_answers(
    database: Database, rows: CorpusRows, rate: float, sampled: int
) -> None:
    random = np.random.default_rng(11)
    with rows.bulk(coarse=True):
        fill(rows, "acme", clustered(random, 500), each=4)
    settings = {"exact_chunks": 0, "exact_chunks_per_candidate": 0, "recall_sample_waiting": 100}
    space = common_pb2.EmbeddingSpace(model=SPACE.model, revision=SPACE.revision, dimensions=DIMENSIONS)
    before = observed_recall("whole")[1]
    async with running_retriever(database, recall_sample_rate=rate, **settings) as running:
        me = Caller(running, TENANT)
        for vector in clustered(random, 20):
            asked = pb.SearchRequest(vector=vector.astype("<f4").tobytes(), space=space, keep_duplicates=True)
            assert not (await me.unary(running.retriever.Search, asked)).exact
        async with asyncio.timeout(20):
            while observed_recall("whole")[1] < before + sampled:  # noqa: ASYNC110 - nothing announces a sample
                await asyncio.sleep(0.01)
    assert observed_recall("whole")[1] == before + sampled
