"""Dense search against numpy's exact results: several tenants and scopes, scan and index, and Postgres's plans."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pytest
from prometheus_client import REGISTRY

from citewire_kit.errors import Unavailable
from citewire_kit.postgres import Pool, open_pool, tenant_transaction
from citewire_kit.tenant import Tenant
from citewire_retriever.filters import Operator, comparison
from citewire_retriever.model import Scope, SearchQuery
from citewire_retriever.store.filter_sql import VISIBLE
from citewire_retriever.store.search import PostgresSearch
from citewire_retriever.tuning import SearchTuning
from corpus_rows import CorpusRows
from recorded_search import RecordedSearch, recorded_search
from search_library import DIMENSIONS, clustered, fill, partition_mate, query

if TYPE_CHECKING:
    from databases import Database

ALWAYS_INDEX = SearchTuning(exact_chunks=0, exact_chunks_per_candidate=0)
DEFAULT = SearchTuning()


@pytest.fixture
def rows(database: Database) -> Iterator[CorpusRows]:
    with CorpusRows(database.owner_dsn, dimensions=DIMENSIONS) as made:
        yield made


@pytest.fixture
async def pool(database: Database) -> AsyncIterator[Pool]:
    pool = await open_pool(database.dsn("citewire_corpus"), name="test")
    yield pool
    await pool.close()


async def search(pool: Pool, org: str, query: SearchQuery, tuning: SearchTuning = DEFAULT) -> tuple[list[int], bool]:
    results = await PostgresSearch(pool, tuning).search(Tenant(org, "user", "pro"), query)
    scores = [candidate.score or 0 for candidate in results.ranked]
    assert scores == sorted(scores, reverse=True)
    return [candidate.chunk_id for candidate in results.ranked], results.exact


def search_count(way: str) -> float:
    value = REGISTRY.get_sample_value("citewire_searches_total", {"way": way})
    assert value is not None
    return value


async def test_exact_search_equals_numpys(rows: CorpusRows, pool: Pool) -> None:
    random = np.random.default_rng(7)
    libraries = {org: fill(rows, org, clustered(random, 300), each=7) for org in ("acme", "other", "third")}
    for vector in clustered(random, 20):
        for org, library in libraries.items():
            ids, exact = await search(pool, org, query(vector, top_k=15))
            # Half precision may swap neighbours at nearly the same distance.
            assert exact
            assert len(ids) == 15
            assert len(set(ids) & set(library.nearest(vector, 15))) >= 14
            assert ids[0] == library.nearest(vector, 1)[0]


async def test_index_search_reaches_the_recall_and_stays_inside_the_tenant(rows: CorpusRows, pool: Pool) -> None:
    random = np.random.default_rng(8)
    mate = partition_mate("acme", rows.dsn)
    with rows.bulk():
        library = fill(rows, "acme", clustered(random, 3000), each=10)
        fill(rows, mate, clustered(random, 3000), each=100)
    third = Scope(filter=comparison("filter", "tags", Operator.CONTAINS, "third"))
    tagged = np.isin(
        library.document_ids, list(dict.fromkeys(library.document_ids.tolist()))[::3]
    )  # in the order in which they were saved
    for scope, keep in ((Scope(), None), (third, tagged)):
        matches = 0
        vectors = clustered(random, 40)
        for vector in vectors:
            ids, exact = await search(pool, "acme", query(vector, scope=scope), ALWAYS_INDEX)
            assert not exact
            assert len(ids) == 10
            matches += len(set(ids) & set(library.nearest(vector, 10, keep)))
        assert matches / (10 * len(vectors)) >= 0.97, scope


async def test_foreign_rows_never_reduce_results(rows: CorpusRows, pool: Pool) -> None:
    """50 own chunks share a graph with 20,000 nearer ones of another tenant and 500 nearer ones not yet published."""
    random = np.random.default_rng(9)
    target = clustered(random, 1)[0]
    mate = partition_mate("acme", rows.dsn)
    crowd = target + 0.15 * random.normal(size=(20_000, DIMENSIONS)).astype(np.float32)
    far = -target + 0.5 * random.normal(size=(50, DIMENSIONS)).astype(np.float32)
    with rows.bulk(coarse=True):
        fill(rows, mate, crowd, each=5000)
        own = fill(rows, "acme", far / np.linalg.norm(far, axis=1, keepdims=True), each=5)
        fill(rows, "acme", crowd[:500], each=500, live=False)
    expected = set(own.nearest(target, 10))
    # By default so few rows are scanned at once; the graph, if used anyway, gives up among the foreign rows.
    fallbacks = search_count("fallback")
    for tuning in (DEFAULT, replace(ALWAYS_INDEX, max_scan_tuples=5000)):
        ids, exact = await search(pool, "acme", query(target), tuning)
        assert (len(ids), exact) == (10, True)
        assert len(set(ids) & expected) >= 9  # half precision may swap two
        ids, exact = await search(pool, "acme", query(target, by_document=True), tuning)
        assert (len(ids), exact) == (10, True)
    assert search_count("fallback") == fallbacks + 2
    ids, exact = await search(pool, mate, query(target))
    assert (len(ids), exact) == (10, False)


@pytest.mark.parametrize("by_document", [False, True])
async def test_if_nothing_is_near_the_graphs_results_are_checked(
    rows: CorpusRows, pool: Pool, by_document: bool
) -> None:
    """2,300 chunks on one topic and questions on another: all have about the same distance."""
    random = np.random.default_rng(21)
    subject, other = clustered(random, 2)
    other -= (other @ subject) * subject
    with rows.bulk():
        crowd = subject + 0.05 * random.normal(size=(2300, DIMENSIONS)).astype(np.float32)
        library = fill(rows, "acme", crowd / np.linalg.norm(crowd, axis=1, keepdims=True), each=5)
    fallbacks, graphs = search_count("fallback"), search_count("graph")
    # Here a scan costs no more than a longer walk.
    _, exact = await search(pool, "acme", query(other, by_document=by_document))
    assert (exact, search_count("fallback"), search_count("graph")) == (True, fallbacks + 1, graphs)
    # If it would cost more, the walk is longer.
    hasty = replace(ALWAYS_INDEX, ef_search_first=1, ef_search=200)
    ids, exact = await search(pool, "acme", query(other), hasty)
    assert (exact, search_count("fallback"), search_count("graph")) == (False, fallbacks + 1, graphs + 1)
    assert len(set(ids) & set(library.nearest(other, 10))) >= 9


async def test_by_document_through_the_index(rows: CorpusRows, pool: Pool) -> None:
    random = np.random.default_rng(10)
    with rows.bulk():
        library = fill(rows, "acme", clustered(random, 2000), each=4)
    matches = 0
    for vector in clustered(random, 20):
        results = await PostgresSearch(pool, ALWAYS_INDEX).search(
            Tenant("acme", "user", "pro"), query(vector, by_document=True, top_k=10)
        )
        ids = [candidate.document_id for candidate in results.ranked]
        assert len(set(ids)) == 10
        order = np.argsort(-(library.vectors @ vector))
        expected = list(dict.fromkeys(int(library.document_ids[index]) for index in order))[:10]
        matches += len(set(ids) & set(expected))
    assert matches / 200 >= 0.97


async def test_statistics_only_affect_the_way_of_search(rows: CorpusRows, pool: Pool) -> None:
    random = np.random.default_rng(11)
    first = fill(rows, "acme", clustered(random, 20), each=5)
    store = PostgresSearch(
        pool, replace(DEFAULT, exact_chunks=50, exact_chunks_per_candidate=0, statistics_seconds=600)
    )
    tenant = Tenant("acme", "user", "pro")
    vector = clustered(random, 1)[0]
    assert len((await store.search(tenant, query(vector, top_k=200))).ranked) == 20
    second = fill(rows, "acme", clustered(random, 100), each=5)
    results = await store.search(tenant, query(vector, top_k=200))  # by its cached statistics, there are 20 chunks
    assert {candidate.chunk_id for candidate in results.ranked} == {
        *first.chunk_ids.tolist(),
        *second.chunk_ids.tolist(),
    }


async def plan(search: RecordedSearch, org: str, query: SearchQuery) -> str:
    """Returns Postgres's plan, for the application's role, of the statement that a search sends."""
    tenant = Tenant(org, "user", "pro")
    statements = await search.sent(tenant, query)
    async with tenant_transaction(search.pool, tenant) as connection:
        for sent in statements:
            if sent.tunes:
                await connection.execute(sent.text(connection).encode(), sent.values)
        [ranking] = [sent for sent in statements if sent.ranks]
        explain = b"EXPLAIN (ANALYZE, COSTS OFF) " + ranking.text(connection).encode()
        rows = await (await connection.execute(explain, ranking.values)).fetchall()
    return "\n".join(row[0] for row in rows)


@pytest.mark.one_postgres("it reads a plan of one server; `test_citus_cluster.py` asks for the number of shards")
async def test_plans_as_the_application_role(rows: CorpusRows, database: Database) -> None:
    random = np.random.default_rng(12)
    with rows.bulk():
        fill(rows, "large", clustered(random, 4000), each=20)
        fill(rows, "small", clustered(random, 200), each=20)
    vector = clustered(random, 1)[0]
    third = Scope(filter=comparison("filter", "tags", Operator.CONTAINS, "third"))
    # Few candidates, so that the graph is chosen even at this size.
    async with recorded_search(database.dsn("citewire_corpus"), replace(DEFAULT, ef_search=24)) as search:
        graph = await plan(search, "large", query(vector))
        scans = [
            await plan(search, "small", query(vector)),
            await plan(search, "large", query(vector, exact=True)),
            await plan(search, "large", query(vector, scope=replace(third, document_ids=(1, 2, 3)))),
        ]
    assert "embedding_idx" in graph
    assert "Order By: (embedding <=> " in graph
    for text in (graph, *scans):
        tables = {word for word in text.split() if word.startswith(f"vectors_{rows.space_id}_p")}
        assert len({name.split("_")[2] for name in tables}) == 1, text  # only one partition
    for text in scans:
        assert "embedding_idx" not in text
        assert "Sort Key" in text


@pytest.mark.one_postgres("nothing is planned once there: a plan for all values names no shard")
async def test_a_walk_is_planned_once_and_size_dependent_statements_each_time(
    rows: CorpusRows, database: Database
) -> None:
    random = np.random.default_rng(13)
    with rows.bulk():
        fill(rows, "acme", clustered(random, 3000), each=20)
        fill(rows, "other", clustered(random, 3000), each=20)
    third = Scope(filter=comparison("filter", "tags", Operator.CONTAINS, "third"))
    pool = await open_pool(database.dsn("citewire_corpus"), max_size=1, name="test")
    store = PostgresSearch(pool, ALWAYS_INDEX)
    for vector in clustered(random, 12):
        for org in ("acme", "other"):
            for result in (query(vector), query(vector, exact=True), query(vector, scope=third)):
                await store.search(Tenant(org, "user", "pro"), result)
    async with pool.connection() as connection:
        cursor = await connection.execute(
            "SELECT CASE WHEN statement LIKE '%%ANY(d.tags)%%' THEN 'filtered'"
            " WHEN statement LIKE '%%walked%%' THEN 'walk' ELSE 'scan' END,"
            " sum(generic_plans) > 0, sum(custom_plans) > 0 FROM pg_prepared_statements"
            " WHERE statement LIKE '%%nearest AS MATERIALIZED%%' GROUP BY 1 ORDER BY 1"
        )
        planned = await cursor.fetchall()
    await pool.close()
    assert planned == [("filtered", False, True), ("scan", False, True), ("walk", True, False)]


@pytest.mark.one_postgres("nothing is planned once there: a plan for all values names no shard")
@pytest.mark.parametrize("hidden", [False, True])
async def test_a_small_organisations_scan_is_planned_once_and_reads_its_own_rows(
    rows: CorpusRows, database: Database, hidden: bool
) -> None:
    """Whatever shares its partition: a plan for an organisation of average size would read the whole partition."""
    random = np.random.default_rng(14)
    mate = partition_mate("acme", database.dsn("postgres"))
    with rows.bulk():
        fill(rows, "acme", clustered(random, 3000), each=20)
        fill(rows, mate, clustered(random, 40), each=20)
    if hidden:  # documents may be hidden as soon as one has readers
        rows.run("SELECT corpus.intern_access(%s, NULL, '{group:hr}')", (mate,))
    read = "SELECT sum(seq_tup_read) FROM pg_stat_user_tables WHERE relname LIKE 'vectors!_1!_p%%' ESCAPE '!'"
    [(before,)] = rows.all(read)
    pool = await open_pool(database.dsn("citewire_corpus"), max_size=1, name="test", resolved=VISIBLE)
    store = PostgresSearch(pool, DEFAULT)
    for vector in clustered(random, 12):
        snapshot = await store.search(Tenant(mate, "user", "pro"), query(vector))
        assert snapshot.exact
        assert len(snapshot.ranked) == 10
    async with pool.connection() as connection:
        cursor = await connection.execute(
            "SELECT generic_plans, custom_plans, pg_stat_force_next_flush() FROM pg_prepared_statements"
            " WHERE statement LIKE '%%nearest AS MATERIALIZED%%'"
        )
        planned = [row[:2] for row in await cursor.fetchall()]
        await connection.execute("SELECT 1")  # this flushes the statistics
    await pool.close()
    assert planned == [(12, 0)]
    [(after,)] = rows.all(read)
    assert after - before <= 3040  # read once, for the count


async def test_busy_connections_dont_look_like_a_database_that_is_away(database: Database) -> None:
    dsn = database.dsn("citewire_corpus")
    pool = await open_pool(dsn, max_size=1, name="test", checkout_seconds=0.2)
    health = await open_pool(dsn, max_size=1, name="test-health")
    async with pool.connection():
        await PostgresSearch(pool, DEFAULT, health=health).ping()
        with pytest.raises(Unavailable):
            await PostgresSearch(pool, DEFAULT).ping()
    await pool.close()
    await health.close()
