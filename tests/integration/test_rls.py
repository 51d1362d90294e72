"""The database itself isolates tenants, whatever a query omits. Tested with the application's roles."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, LiteralString

import numpy as np
import psycopg
import pytest
from psycopg import sql

from corpus_rows import CorpusRows, NewDocument, set_tenant

if TYPE_CHECKING:
    from databases import Database

APPLICATION_ROLES = ("citewire_corpus", "citewire_worker")
CONTENT = (
    "collections",
    "documents",
    "versions",
    "originals",
    "texts",
    "chunks",
    "org_spaces",
    "next_spaces",
    "backfill_checks",
    "ingest_jobs",
    "lexical",
    "term_counts",
    "document_values",
)

# They have no content: the worker looks for work in them, across tenants.
ACROSS = {
    ("citewire_worker", "ingest_jobs"),
    ("citewire_worker", "backfill_checks"),
    ("citewire_worker", "ingest_shares"),
}

Row = tuple[Any, ...]


def ask(dsn: str, query: LiteralString | sql.Composed, *, org: str | None = None) -> list[Row]:
    """Returns the rows that a role sees, as a tenant or without one."""
    with psycopg.connect(dsn) as connection:
        if org is not None:
            set_tenant(connection, org)
        return connection.execute(query).fetchall()


@pytest.fixture
def vectors(database: Database) -> Iterator[str]:
    """Fills every table with a document of two tenants each; returns the name of the vectors' table."""
    with CorpusRows(database.owner_dsn, dimensions=3) as rows:
        for org in ("acme", "other"):
            document_id, _ = rows.add(
                NewDocument(org, np.eye(3, dtype=np.float32), collection="C", texts=("a", "b", "c"))
            )
            rows.run(
                "INSERT INTO corpus.originals (org_id, document_id, version, part, bytes) VALUES (%s, %s, 1, 0, 'x')",
                (org, document_id),
            )
            rows.run(
                "INSERT INTO corpus.texts (org_id, document_id, version, part, char_start, body)"
                " VALUES (%s, %s, 1, 0, 0, 'x')",
                (org, document_id),
            )
            rows.run(
                "INSERT INTO corpus.ingest_jobs (org_id, document_id, version, user_id) VALUES (%s, %s, 1, 'u')",
                (org, document_id),
            )
            rows.run(
                "INSERT INTO corpus.next_spaces (org_id, model, revision, dimensions) VALUES (%s, 'm', 'r', 3)", (org,)
            )
        rows.run(
            "INSERT INTO corpus.backfill_checks (org_id) VALUES ('acme'), ('other') ON CONFLICT (org_id) DO NOTHING"
        )  # as a trigger does where the database isn't spread over nodes
        yield f"vectors_{rows.space_id}"


@pytest.mark.one_postgres("it counts partitions; `test_citus_cluster.py` asks the shards")
def test_every_table_with_a_tenant_has_its_policy_forced(database: Database, vectors: str) -> None:
    tables = ask(
        database.owner_dsn,
        "SELECT c.oid::regclass::text, c.relrowsecurity, c.relforcerowsecurity,"
        " (SELECT count(*) FROM pg_policy p WHERE p.polrelid = c.oid AND p.polpermissive"
        "  AND pg_get_expr(p.polqual, p.polrelid) LIKE '%org_id = current_setting(%'"
        "  AND pg_get_expr(p.polwithcheck, p.polrelid) LIKE '%org_id = current_setting(%')"
        " FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace"
        " WHERE c.relkind IN ('r', 'p') AND n.nspname NOT IN ('pg_catalog', 'information_schema')"
        " AND EXISTS (SELECT FROM pg_attribute a WHERE a.attrelid = c.oid AND a.attname = 'org_id')",
    )
    names = {row[0] for row in tables}
    assert {f"corpus.{table}" for table in CONTENT} <= names
    assert len([name for name in names if name.startswith(f"corpus.{vectors}_p")]) == 64
    assert [row for row in tables if row[1:] != (True, True, 1)] == []


def test_tables_without_a_tenant_are_the_known_ones(database: Database, vectors: str) -> None:
    del vectors
    without = ask(
        database.owner_dsn,
        "SELECT c.relname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace"
        " WHERE c.relkind IN ('r', 'p') AND n.nspname = 'corpus'"
        " AND NOT EXISTS (SELECT FROM pg_attribute a WHERE a.attrelid = c.oid AND a.attname = 'org_id') ORDER BY 1",
    )
    assert without == [("schema_migrations",), ("spaces",)]


@pytest.mark.one_postgres("it reads the catalogue of one server, where a copy of a reference table is a table too")
def test_org_id_leads_every_key(database: Database, vectors: str) -> None:
    del vectors
    keys = ask(
        database.owner_dsn,
        "SELECT k.conrelid::regclass::text, k.conname, a.attname"
        " FROM pg_constraint k JOIN pg_attribute a ON a.attrelid = k.conrelid AND a.attnum = k.conkey[1]"
        " JOIN pg_namespace n ON n.oid = k.connamespace"
        " WHERE n.nspname = 'corpus' AND k.contype IN ('p', 'u', 'f')"
        " AND k.conrelid NOT IN ('corpus.spaces'::regclass, 'corpus.schema_migrations'::regclass)"
        " AND k.confrelid <> 'corpus.spaces'::regclass",
    )
    assert len(keys) > 20
    assert [key for key in keys if key[2] != "org_id"] == []


def test_the_roles_do_not_bypass_it(database: Database, vectors: str) -> None:
    del vectors
    roles = ask(
        database.owner_dsn,
        "SELECT r.rolname, r.rolsuper, r.rolbypassrls,"
        " EXISTS (SELECT FROM pg_class c WHERE c.relowner = r.oid),"
        " EXISTS (SELECT FROM pg_auth_members m WHERE m.member = r.oid)"
        " FROM pg_roles r WHERE r.rolname LIKE 'citewire%' ORDER BY 1",
    )
    assert {row[0] for row in roles} >= set(APPLICATION_ROLES)
    assert [row for row in roles if any(row[1:])] == []


@pytest.mark.parametrize("role", APPLICATION_ROLES)
def test_no_table_shows_foreign_rows(database: Database, vectors: str, role: str) -> None:
    for table in (*CONTENT, vectors):
        count = sql.SQL(
            "SELECT count(*) FILTER (WHERE org_id = 'acme'), count(*) FILTER (WHERE org_id <> 'acme') FROM {}"
        )
        query = count.format(sql.Identifier("corpus", table))
        mine, foreign = ask(database.dsn(role), query, org="acme")[0]
        assert mine > 0, table
        assert foreign == (1 if (role, table) in ACROSS else 0), table


def test_without_a_tenant_nothing_is_seen(database: Database, vectors: str) -> None:
    for role, table in itertools.product(APPLICATION_ROLES, (*CONTENT, vectors)):
        if (role, table) not in ACROSS:
            query = sql.SQL("SELECT count(*) FROM {}").format(sql.Identifier("corpus", table))
            for org in (None, "", "nobody"):
                assert ask(database.dsn(role), query, org=org) == [(0,)], (role, table, org)


def test_each_organisation_has_its_own_scales_and_centroids(database: Database, vectors: str) -> None:
    space = int(vectors.removeprefix("vectors_"))
    with psycopg.connect(database.dsn("citewire_worker")) as connection:
        set_tenant(connection, "acme")
        connection.execute("INSERT INTO corpus.space_scales VALUES ('acme', %s, 1, 0, 0.1, 8)", (space,))
        connection.execute("INSERT INTO corpus.centroids VALUES ('acme', %s, 0, 9, '[1,0,0]')", (space,))
    for table in ("space_scales", "centroids"):
        count = sql.SQL("SELECT count(*) FROM {}").format(sql.Identifier("corpus", table))
        for role in APPLICATION_ROLES:
            assert ask(database.dsn(role), count, org="acme") == [(1,)]
            for org in (None, "", "other"):
                assert ask(database.dsn(role), count, org=org) == [(0,)]
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            ask(
                database.dsn("citewire_corpus"),
                sql.SQL("DELETE FROM {} RETURNING 1").format(sql.Identifier("corpus", table)),
            )


def test_each_organisation_has_its_own_calibrations(database: Database, vectors: str) -> None:
    space = int(vectors.removeprefix("vectors_"))
    put = "INSERT INTO corpus.space_calibrations (org_id, space_id) VALUES ('acme', %s)"
    count = "SELECT count(*) FROM corpus.space_calibrations"
    with psycopg.connect(database.dsn("citewire_corpus")) as connection:
        set_tenant(connection, "acme")
        connection.execute(put, (space,))
    assert ask(database.dsn("citewire_corpus"), count, org="acme") == [(1,)]
    for org in (None, "", "other"):
        assert ask(database.dsn("citewire_corpus"), count, org=org) == [(0,)]
    with psycopg.connect(database.dsn("citewire_corpus")) as connection:
        set_tenant(connection, "other")
        assert connection.execute("UPDATE corpus.space_calibrations SET dense_weight = 1").rowcount == 0
        assert connection.execute("DELETE FROM corpus.space_calibrations").rowcount == 0
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            connection.execute(put, (space,))
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        ask(database.dsn("citewire_worker"), count, org="acme")


FORBIDDEN: list[tuple[str, LiteralString]] = [
    ("citewire_corpus", "INSERT INTO corpus.collections (org_id, name) VALUES ('other', 'x')"),
    ("citewire_corpus", "UPDATE corpus.documents SET org_id = 'other'"),
    ("citewire_corpus", "UPDATE corpus.ingest_jobs SET org_id = 'other'"),
    ("citewire_corpus", "INSERT INTO corpus.chunks SELECT * FROM corpus.chunks"),
    ("citewire_corpus", "INSERT INTO corpus.org_spaces (org_id, live_space_id) VALUES ('acme', 1)"),
    ("citewire_corpus", "SELECT corpus.ensure_space('m', 'r', 3)"),
    ("citewire_corpus", "TRUNCATE corpus.documents CASCADE"),
    ("citewire_corpus", "ALTER TABLE corpus.documents DISABLE ROW LEVEL SECURITY"),
    ("citewire_corpus", "SET ROLE citewire_worker"),
    ("citewire_worker", "UPDATE corpus.ingest_jobs SET org_id = 'acme'"),
    ("citewire_worker", "UPDATE corpus.ingest_jobs SET user_id = 'someone'"),
    ("citewire_worker", "INSERT INTO corpus.ingest_jobs (org_id, document_id, version, user_id)"
                        " SELECT org_id, document_id, 1, 'u' FROM corpus.ingest_jobs WHERE org_id = 'other'"),
    ("citewire_worker", "UPDATE corpus.backfill_checks SET org_id = 'acme'"),
    ("citewire_worker", "INSERT INTO corpus.next_spaces (org_id, model, revision, dimensions)"
                        " VALUES ('acme', 'm', 'r', 3)"),
    ("citewire_worker", "UPDATE corpus.org_spaces SET live_space_id = 1"),
    ("citewire_worker", "DELETE FROM corpus.documents"),
    ("citewire_worker", "SELECT corpus.make_vector_table('x', 3)"),
    ("citewire_worker", "CREATE TABLE corpus.mine (x int)"),
]  # fmt: skip


@pytest.mark.one_postgres("Citus refuses a change of org_id before privileges are looked at, for everybody")
def test_roles_lack_these_rights(database: Database, vectors: str) -> None:
    del vectors
    for role, statement in FORBIDDEN:
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            ask(database.dsn(role), statement, org="acme")


@pytest.mark.one_postgres("shards take the partitions' place; `test_citus_cluster.py` asks them")
def test_partitions_cannot_be_read_directly(database: Database, vectors: str) -> None:
    for role in APPLICATION_ROLES:
        query = sql.SQL("SELECT count(*) FROM {}").format(sql.Identifier("corpus", f"{vectors}_p0"))
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            ask(database.dsn(role), query, org="acme")


def test_changes_and_deletions_reach_own_rows_only(database: Database, vectors: str) -> None:
    del vectors
    with psycopg.connect(database.dsn("citewire_corpus")) as connection:
        set_tenant(connection, "acme")
        assert connection.execute("UPDATE corpus.documents SET title = 'changed'").rowcount == 1
        assert connection.execute("DELETE FROM corpus.documents").rowcount == 1
    left = ask(database.owner_dsn, "SELECT org_id, title FROM corpus.documents")
    assert left == [("other", "Title")]


def test_the_worker_claims_across_tenants(database: Database, vectors: str) -> None:
    del vectors
    with psycopg.connect(database.dsn("citewire_worker")) as connection:
        claimed = connection.execute(
            "UPDATE corpus.ingest_jobs SET state = 'running', lease_until = now(), fence = fence + 1"
            " WHERE job_id IN (SELECT job_id FROM corpus.ingest_jobs FOR UPDATE SKIP LOCKED) RETURNING org_id"
        )
        assert sorted(claimed.fetchall()) == [("acme",), ("other",)]
