"""The schema `corpus` on a Citus cluster: organisations are isolated on every shard, and a search asks one shard.

`make test-citus` also runs tests for a single Postgres there.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, LiteralString

import numpy as np
import psycopg
import pytest
from psycopg import sql

from citewire_kit.migrate import migrate
from citewire_kit.postgres import guard_of, open_pool, tenant_transaction
from citewire_kit.tenant import Tenant
from citewire_retriever.filters import Comparison, Operator
from citewire_retriever.model import Scope, SearchMode, SearchQuery, Space
from citewire_retriever.store.filter_sql import VISIBLE
from citewire_retriever.store.search import PostgresSearch
from citewire_retriever.tuning import SearchTuning
from citus_cluster import temporary_database
from corpus_rows import MODEL, REVISION, CorpusRows, NewDocument, set_tenant
from one_shard import ONE_SHARD

if TYPE_CHECKING:
    from citus_cluster import CitusCluster
    from databases import Database

DIMENSIONS = 16
ORGS = tuple(f"org{number}" for number in range(6))
RESTRICTED = ORGS[-1]
SPACE = Space(MODEL, REVISION, DIMENSIONS)
SHARDS = (
    r"SELECT n.nspname || '.' || c.relname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace"
    r" WHERE n.nspname = 'corpus' AND c.relkind = 'r' AND relation_is_a_known_shard(c.oid)"
    r" AND c.relname !~ '^spaces_\d+$' ORDER BY 1"
)


def fill(dsn: str) -> None:
    random = np.random.default_rng(7)
    with CorpusRows(dsn, dimensions=DIMENSIONS) as rows:
        for org in ORGS:
            for number in range(3):
                vectors = random.normal(size=(20, DIMENSIONS)).astype(np.float32)
                vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
                texts = [f"{org} says that item {number} costs {part} euros in town {part % 4}" for part in range(20)]
                rows.add(NewDocument(org, vectors, title=f"{org} {number}", collection=f"c{number % 2}", texts=texts))
        rows.run(
            "INSERT INTO corpus.collection_grants (org_id, collection_id, subject, access)"
            " SELECT org_id, collection_id, 'user:ann', 'read' FROM corpus.collections"
            " WHERE org_id = %s AND name = 'c1'",
            (RESTRICTED,),
        )


@pytest.fixture(scope="module")
def filled_database(citus_cluster: CitusCluster, citus_template: str) -> Iterator[Database]:
    """A database shared by all tests of this file, which only read it."""
    for database in temporary_database(citus_cluster, citus_template):
        fill(database.owner_dsn)
        yield database


def test_organisations_are_on_several_shards_and_both_workers(
    citus_cluster: CitusCluster, filled_database: Database
) -> None:
    with psycopg.connect(filled_database.owner_dsn) as connection:
        placed = connection.execute(
            "SELECT count(DISTINCT s.shardid), count(DISTINCT s.nodename) FROM unnest(%s::text[]) AS org"
            " JOIN citus_shards s ON s.shardid = get_shard_id_for_distribution_column('corpus.documents', org)",
            (list(ORGS),),
        ).fetchone()
        kinds = dict(
            connection.execute(
                "SELECT c.relname, coalesce(t.citus_table_type, 'on the coordinator') FROM pg_class c"
                " LEFT JOIN citus_tables t ON t.table_name = c.oid"
                " WHERE c.relnamespace = 'corpus'::regnamespace AND c.relkind = 'r'"
                " AND NOT relation_is_a_known_shard(c.oid)"
            ).fetchall()
        )
    assert placed is not None
    assert placed[0] >= 2
    assert placed[1] == len(citus_cluster.workers)
    stays = {name for name, kind in kinds.items() if kind == "on the coordinator"}
    assert stays == {"schema_migrations", "ingest_jobs", "ingest_shares", "backfill_checks"}
    assert {name for name, kind in kinds.items() if kind == "reference"} == {"spaces"}
    assert {name for name, kind in kinds.items() if kind == "distributed"} >= {
        "documents",
        "chunks",
        "lexical",
        "vectors_1",
    }


def test_policies_hold_on_every_bare_shard(citus_cluster: CitusCluster, filled_database: Database) -> None:
    """Queries each worker's own tables, without Citus's routing."""
    asked = 0
    for worker in citus_cluster.workers:
        owner = f"{worker.dsn(database=filled_database.name)}&options=-c%20citus.override_table_visibility%3Doff"
        with psycopg.connect(owner) as connection:
            shards = [row[0] for row in connection.execute(SHARDS.encode()).fetchall()]
            loose = connection.execute(
                "SELECT c.relname FROM pg_class c WHERE 'corpus.' || c.relname = ANY (%s) AND c.relkind = 'r' AND NOT ("
                " c.relrowsecurity AND c.relforcerowsecurity AND (SELECT count(*) > 0 AND bool_and(p.polpermissive) AND"
                " bool_and(coalesce(pg_get_expr(p.polqual, p.polrelid), pg_get_expr(p.polwithcheck, p.polrelid))"
                "          LIKE '%%org_id = current_setting(%%' OR p.polname LIKE 'owner_%%')"
                " FROM pg_policy p WHERE p.polrelid = c.oid))",
                (shards,),
            ).fetchall()
            assert loose == []
        for role in ("citewire_corpus", "citewire_worker"):
            for org in (None, ORGS[0]):
                asked += count_shards(f"{worker.dsn(role, filled_database.name)}", shards, org)
    assert asked > 100


def count_shards(dsn: str, shards: list[str], org: str | None) -> int:
    """Checks that the role sees no foreign rows in any shard that it may read; returns the number of these shards."""
    asked = 0
    for shard in shards:
        with psycopg.connect(dsn) as connection:
            if org is not None:
                connection.execute("SELECT set_config('citewire.org_id', %s, true)", (org,))
            try:
                foreign = connection.execute(
                    sql.SQL("SELECT count(*) FROM {} WHERE org_id IS DISTINCT FROM %s").format(
                        sql.Identifier(*shard.split("."))
                    ),
                    (org,),
                ).fetchone()
            except psycopg.errors.InsufficientPrivilege:
                continue
            assert foreign == (0,), (shard, org)
            asked += 1
    return asked


def test_a_role_reaches_its_organisation_through_the_coordinator_and_no_other(filled_database: Database) -> None:
    for role in ("citewire_corpus", "citewire_worker"):
        for org, expected in ((None, 0), ("", 0), ("nobody", 0), (ORGS[0], 3), (ORGS[1], 3)):
            with psycopg.connect(filled_database.dsn(role)) as connection:
                if org is not None:
                    set_tenant(connection, org)
                totals = connection.execute("SELECT count(*), count(DISTINCT org_id) FROM corpus.documents").fetchone()
                assert totals == (expected, min(expected, 1)), (role, org)
            # The settings end with their transaction, on the nodes as well.
            with psycopg.connect(filled_database.dsn(role), autocommit=True) as connection:
                with connection.transaction():
                    set_tenant(connection, ORGS[0])
                    connection.execute("SELECT count(*) FROM corpus.documents")
                after = connection.execute("SELECT count(*) FROM corpus.documents").fetchone()
                assert after == (0,)


HYBRID, LEXICAL = SearchMode.HYBRID, SearchMode.LEXICAL
QUERIES: dict[str, dict[str, Any]] = {
    "dense": {},
    "dense, exact": {"exact": True},
    "dense, by document": {"by_document": True, "top_k": 3},
    "dense, recent": {"recent": 2},
    "dense, of a title": {"scope": Scope(filter=Comparison("title", (), Operator.EQ, ("org0 1",)))},
    "lexical": {"mode": LEXICAL},
    "lexical, by document": {"mode": LEXICAL, "by_document": True},
    "lexical, of a collection": {"mode": LEXICAL, "scope": Scope(collection="c1")},
    "hybrid": {"mode": HYBRID},
    "hybrid, by document": {"mode": HYBRID, "by_document": True},
    "hybrid, of a collection": {"mode": HYBRID, "scope": Scope(collection="c1")},
}
WAYS = {
    "by size": SearchTuning(),
    "by the indexes": SearchTuning(exact_chunks=0, exact_chunks_per_candidate=0, lexical_scan_chunks=0),
}
CALLERS = (Tenant(ORGS[0], "user", "free"), Tenant(RESTRICTED, "ann", "free"), Tenant(RESTRICTED, "bob", "free"))
"""The last one sees only a part of the library."""
Results = dict[str, list[tuple[int, float | None, float | None]]]


async def search(dsn: str) -> Results:
    """Returns each search's results with scores; the same fill gives two databases the same chunk ids."""
    vector = (np.ones(DIMENSIONS) / np.sqrt(DIMENSIONS)).astype(np.float32)
    text = "which item costs 7 euros in town 3?"
    results: Results = {}
    pool = await open_pool(dsn, max_size=1, name="test", resolved=VISIBLE)
    try:
        for way, tuning in WAYS.items():
            store = PostgresSearch(pool, tuning)
            for (name, given), tenant in itertools.product(QUERIES.items(), CALLERS):
                values: dict[str, Any] = {"scope": Scope(), "vector": vector.tobytes(), "space": SPACE, "text": text}
                asked = SearchQuery(**values | given)
                snapshot = await store.search(tenant, asked)
                results[f"{name}, {way}, {tenant.org_id} {tenant.user_id}"] = [
                    (
                        candidate.chunk_id,
                        candidate.score and round(candidate.score, 4),
                        candidate.lexical_score and round(candidate.lexical_score, 4),
                    )
                    for candidate in (*snapshot.ranked, *snapshot.lexical, *snapshot.recent)
                ]
                read = await store.chunks(tenant, [candidate.chunk_id for candidate in snapshot.ranked])
                assert len(read) == len(snapshot.ranked)
    finally:
        await pool.close()
    return results


async def test_every_search_asks_one_shard_and_finds_what_one_postgres_finds(
    filled_database: Database, plain_database: Database
) -> None:
    fill(plain_database.owner_dsn)
    expected = await search(plain_database.dsn("citewire_corpus"))
    assert expected["hybrid, by size, org5 ann"] != expected["hybrid, by size, org5 bob"]
    assert sum(map(len, expected.values())) > 400
    assert await search(filled_database.dsn("citewire_corpus") + ONE_SHARD) == expected


@pytest.mark.parametrize("role", ["citewire_chat", "citewire_ledger"])
async def test_schemas_that_share_the_coordinator_work_as_on_one_postgres(
    filled_database: Database, role: LiteralString
) -> None:
    """Their tables stay there, so their roles may not look up nodes and don't wait for any."""
    pool = await open_pool(filled_database.dsn(role), max_size=1, name="test")
    try:
        async with tenant_transaction(pool, Tenant(ORGS[0], "ann", "pro")) as connection:
            row = await (await connection.execute("SELECT current_setting('citewire.org_id'), current_user")).fetchone()
        assert row == (ORGS[0], role)
        assert guard_of(pool) is None
    finally:
        await pool.close()


async def test_a_pool_that_comes_back_to_one_postgres_asks_for_no_nodes(
    filled_database: Database, plain_database: Database
) -> None:
    """As after the way back from a cluster, without a restart."""
    pool = await open_pool(filled_database.dsn("citewire_corpus"), max_size=1, name="test")
    try:
        async with tenant_transaction(pool, Tenant(ORGS[0], "ann", "pro")):
            assert guard_of(pool) is not None
        pool.conninfo = plain_database.dsn("citewire_corpus")
        await pool.drain()
        async with tenant_transaction(pool, Tenant("never seen before", "ann", "pro")) as connection:
            row = await (await connection.execute("SELECT current_setting('citewire.org_id')")).fetchone()
        assert row == ("never seen before",)
        assert guard_of(pool) is None
    finally:
        await pool.close()


async def test_migrating_again_waits_for_nobody(filled_database: Database) -> None:
    """Otherwise everybody's uploads and claims would wait behind it."""
    with psycopg.connect(filled_database.owner_dsn) as holder:
        holder.execute("LOCK TABLE corpus.ingest_jobs IN ROW SHARE MODE")  # as a worker's, in each transaction
        done = await migrate(
            filled_database.owner_dsn,
            schema="corpus",
            package="citewire_retriever",
            lock_seconds=0,
            on_nodes="citus/distribute.sql",
        )
        assert done == []


def test_a_query_of_several_shards_fails(filled_database: Database) -> None:
    """Tests the setting that the test above relies on."""
    with psycopg.connect(filled_database.dsn("citewire_corpus") + ONE_SHARD) as connection:
        set_tenant(connection, ORGS[0])
        totals = connection.execute("SELECT count(*) FROM corpus.documents WHERE org_id = %s", (ORGS[0],)).fetchone()
        assert totals == (3,)
        with pytest.raises(psycopg.Error, match="multi-task query"):
            connection.execute("SELECT count(*) FROM corpus.documents")
