"""The recall that is sampled is the recall that a full measurement finds, by every kind of search."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import psycopg
import pytest
from prometheus_client import REGISTRY

from citewire_kit.errors import DeadlineExceeded
from citewire_kit.postgres import Pool, open_pool
from citewire_kit.tenant import Tenant
from citewire_retriever.filters import comparison
from citewire_retriever.model import Scope, SearchQuery
from citewire_retriever.store.recall import PostgresRecall
from citewire_retriever.store.sampling import RecallSampler, Sample, Sampling
from citewire_retriever.store.search import PostgresSearch
from citewire_retriever.tuning import IndexSearch, SearchTuning
from corpus_rows import CorpusRows
from search_library import DIMENSIONS, clustered, fill, query

if TYPE_CHECKING:
    from conftest import Database

TENANT = Tenant("acme", "user", "pro")
# So little effort that the graph misses some.
CARELESS = SearchTuning(ef_search=10, ef_search_max=10, exact_chunks=0, exact_chunks_per_candidate=0)
THIRD = Scope(filter=comparison("filter", "tags", "contains", "third"))


@pytest.fixture
def rows(database: Database) -> Iterator[CorpusRows]:
    with CorpusRows(database.owner_dsn, dimensions=DIMENSIONS) as made:
        yield made


@pytest.fixture
async def pool(database: Database) -> AsyncIterator[Pool]:
    pool = await open_pool(database.dsn("citewire_corpus"), name="test")
    yield pool
    await pool.close()


def observed(scope: str) -> tuple[float, float]:
    values = [REGISTRY.get_sample_value(f"citewire_search_sampled_recall_{part}", {"scope": scope}) for part in
              ("sum", "count")]  # fmt: skip
    return values[0] or 0.0, values[1] or 0.0


@pytest.mark.parametrize("by_document", [False, True])
@pytest.mark.parametrize(("scope", "label"), [(Scope(), "whole"), (THIRD, "narrowed")])
async def test_sampled_recall_is_that_of_a_full_measurement(
    rows: CorpusRows,
    pool: Pool,
    scope: Scope,
    label: str,
    by_document: bool,
) -> None:
    random = np.random.default_rng(3)
    with rows.bulk(coarse=True):
        fill(rows, "acme", clustered(random, 4000), each=4)
    recall = PostgresRecall(pool, CARELESS, seconds=10)
    sampler = RecallSampler(recall.measure, Sampling(rate=1, waiting=200), chance=lambda: 0.0)
    store = PostgresSearch(pool, CARELESS, sampler)
    total, count = observed(label)
    full: list[float] = []
    async with sampler.running():
        for vector in clustered(random, 60):
            wanted = query(vector, scope=scope, by_document=by_document)
            own, exact = await store.search(TENANT, wanted), await store.search(TENANT, replace(wanted, exact=True))
            assert (own.exact, exact.exact) == (False, True)
            found = {hit.chunk.chunk_id for hit in own.ranked}
            full.append(len(found & {hit.chunk.chunk_id for hit in exact.ranked}) / 10)
        await sampler.drained()
    total, count = observed(label)[0] - total, observed(label)[1] - count
    assert count == len(full)
    assert by_document or np.mean(full) < 0.995  # there is something to measure
    assert total / count == pytest.approx(float(np.mean(full)), abs=0.01)


async def test_only_the_first_ten_count_and_equal_distances_are_as_good(rows: CorpusRows, pool: Pool) -> None:
    vector = clustered(np.random.default_rng(4), 1)[0]
    fill(rows, "acme", np.tile(vector, (300, 1)), each=100)
    recall = PostgresRecall(pool, CARELESS, seconds=10)
    for top_k in (3, 10, 50):
        sample = Sample(TENANT, query(vector, top_k=top_k), f"vectors_{rows.space_id}", IndexSearch(64))
        assert await recall.measure(sample) == 1.0


async def test_what_the_graph_cannot_answer_is_no_sample(rows: CorpusRows, pool: Pool) -> None:
    vector = clustered(np.random.default_rng(5), 1)[0]
    fill(rows, "acme", clustered(np.random.default_rng(5), 5), each=5)
    recall = PostgresRecall(pool, CARELESS, seconds=10)
    sample = Sample(TENANT, query(vector), f"vectors_{rows.space_id}", IndexSearch(64))
    assert await recall.measure(sample) is None
    assert await recall.measure(replace(sample, tenant=Tenant("other", "user", "pro"))) is None


async def test_a_sample_ends_at_its_time_limit(database: Database, rows: CorpusRows) -> None:
    fill(rows, "acme", clustered(np.random.default_rng(6), 50), each=5)
    pool = await open_pool(database.dsn("citewire_corpus"), min_size=0, max_size=1, name="test")
    recall = PostgresRecall(pool, CARELESS, seconds=0.2)
    sample = Sample(
        TENANT,
        SearchQuery(Scope(), np.ones(DIMENSIONS, "<f4").tobytes(), top_k=10),
        f"vectors_{rows.space_id}",
        IndexSearch(64),
    )
    with psycopg.connect(database.owner_dsn) as other:
        other.execute("LOCK TABLE corpus.documents IN ACCESS EXCLUSIVE MODE")
        with pytest.raises(DeadlineExceeded):
            await recall.measure(sample)
    assert await recall.measure(sample) is not None
    await pool.close()
