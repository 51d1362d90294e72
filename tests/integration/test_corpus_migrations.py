"""The migrations of schema corpus: repeated, concurrent, and on a server with existing roles."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from typing import TYPE_CHECKING

import psycopg
import pytest
from psycopg import sql

from citewire_kit.migrate import MigrationError, migrate, read_migrations

if TYPE_CHECKING:
    from databases import Database


def applied_migrations(database: Database) -> list[str]:
    with psycopg.connect(database.owner_dsn) as connection:
        return [row[0] for row in connection.execute("SELECT file FROM corpus.schema_migrations ORDER BY 1")]


async def run(database: Database) -> list[str]:
    return await migrate(database.owner_dsn, schema="corpus", package="citewire_retriever")


async def test_they_are_applied_once(empty_database: Database) -> None:
    files = [migration.file for migration in read_migrations("citewire_retriever")]
    assert await run(empty_database) == files
    assert await run(empty_database) == []
    assert applied_migrations(empty_database) == files


async def test_several_tasks_at_once_apply_them_once(empty_database: Database) -> None:
    done = await asyncio.gather(*(run(empty_database) for _ in range(4)))
    files = [migration.file for migration in read_migrations("citewire_retriever")]
    assert sorted(file for part in done for file in part) == files
    assert applied_migrations(empty_database) == files


def test_several_processes_at_once_apply_them_once(empty_database: Database) -> None:
    environment = {**os.environ, "CITEWIRE_RETRIEVER_MIGRATE_DSN": empty_database.owner_dsn}
    command = [sys.executable, "-m", "citewire_retriever", "migrate"]
    running = [subprocess.Popen(command, env=environment, stderr=subprocess.DEVNULL) for _ in range(2)]
    assert [process.wait(60) for process in running] == [0, 0]
    assert applied_migrations(empty_database) == [migration.file for migration in read_migrations("citewire_retriever")]


def test_a_missing_setting_is_named() -> None:
    command = [sys.executable, "-m", "citewire_retriever", "migrate"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 2
    assert "CITEWIRE_RETRIEVER_MIGRATE_DSN: is required" in done.stderr


async def test_a_role_that_bypasses_security_is_refused(empty_database: Database) -> None:
    with psycopg.connect(empty_database.owner_dsn, autocommit=True) as connection:
        if connection.execute("SELECT FROM pg_roles WHERE rolname = 'citewire_worker'").fetchone() is None:
            connection.execute("CREATE ROLE citewire_worker LOGIN")
        connection.execute("ALTER ROLE citewire_worker BYPASSRLS")
        try:
            with pytest.raises(MigrationError, match="BYPASSRLS"):
                await run(empty_database)
        finally:
            connection.execute("ALTER ROLE citewire_worker NOBYPASSRLS")


async def test_any_number_of_workers_create_a_space_once(empty_database: Database) -> None:
    await run(empty_database)

    async def ensure() -> int:
        connection = await psycopg.AsyncConnection.connect(empty_database.dsn("citewire_worker"), autocommit=True)
        async with connection:
            row = await (await connection.execute("SELECT corpus.ensure_space('m', 'r', 384)")).fetchone()
        assert row is not None
        return int(row[0])

    ids = await asyncio.gather(*(ensure() for _ in range(4)))
    assert len(set(ids)) == 1
    with psycopg.connect(empty_database.owner_dsn) as connection:
        indexes = connection.execute(
            "SELECT am.amname, count(*) FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid"
            " JOIN pg_am am ON am.oid = c.relam JOIN pg_inherits h ON h.inhrelid = i.indrelid"
            " WHERE h.inhparent = %s::regclass GROUP BY 1 ORDER BY 1",
            (f"corpus.vectors_{ids[0]}",),
        ).fetchall()
    assert indexes == [
        ("btree", 128),
        ("hnsw", 64),
    ]  # primary key, (org, document, version) and graph on each partition


async def test_an_owner_that_is_bound_by_policies_applies_them(empty_database: Database) -> None:
    """In production the owner isn't a superuser; what runs as the owner sees exactly a tenant's rows."""
    with psycopg.connect(empty_database.owner_dsn, autocommit=True) as connection:
        connection.execute("CREATE EXTENSION vector")
        if connection.execute("SELECT FROM pg_roles WHERE rolname = 'plain_owner'").fetchone() is None:
            connection.execute("CREATE ROLE plain_owner LOGIN CREATEROLE NOSUPERUSER NOBYPASSRLS")
        connection.execute(
            sql.SQL("GRANT CREATE ON DATABASE {} TO plain_owner").format(sql.Identifier(name_of(connection)))
        )
    await migrate(empty_database.dsn("plain_owner"), schema="corpus", package="citewire_retriever")
    with psycopg.connect(empty_database.dsn("plain_owner"), autocommit=True) as connection:
        connection.execute("SELECT corpus.ensure_space('m', 'r', 3)")
        connection.execute("SELECT set_config('citewire.org_id', 'acme', false)")
        connection.execute("INSERT INTO corpus.org_spaces (org_id, live_space_id) VALUES ('acme', 1)")
        assert connection.execute("SELECT org_id FROM corpus.backfill_checks").fetchall() == [("acme",)]
        connection.execute("SELECT set_config('citewire.org_id', '', false)")
        assert connection.execute("SELECT count(*) FROM corpus.org_spaces").fetchone() == (0,)


def name_of(connection: psycopg.Connection) -> str:
    """Returns the database's name."""
    return connection.info.dbname
