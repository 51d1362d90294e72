"""Migrations on a real server: each once, in order, by any number of processes at once."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import TYPE_CHECKING, LiteralString, cast

import psycopg
import pytest

from citewire_kit.migrate import MigrationError, migrate, read_migrations
from waiting import BUSY_SECONDS

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from databases import Database

TABLE = "CREATE TABLE corpus.things (id bigint PRIMARY KEY, name text NOT NULL);\n"
SLOW = "SELECT pg_sleep(0.3);\nINSERT INTO corpus.things SELECT n, 'thing ' || n FROM generate_series(1, 100) AS n;\n"
INDEX = (
    "-- migrate: no-transaction\n"
    "-- A failed concurrent build leaves an invalid index behind; it goes first.\n"
    "DROP INDEX CONCURRENTLY IF EXISTS corpus.things_name;\n"
    "CREATE INDEX CONCURRENTLY things_name ON corpus.things (name); -- ends; here\n"
)
HELD: LiteralString = "SELECT pg_advisory_xact_lock(4711)"
"""Waits until the end of another transaction that has executed it."""
POST = "-- migrate: post\nALTER TABLE corpus.things DROP COLUMN name;\n"


class Package:
    """A package with migrations for one test."""

    def __init__(self, folder: Path, name: str) -> None:
        self.root = folder
        self.name = name
        self.migrations = folder / name / "migrations"
        self.migrations.mkdir(parents=True)
        (folder / name / "__init__.py").touch()

    def write(self, **files: str) -> None:
        for name, text in files.items():
            (self.migrations / f"{name.removeprefix('m')}.sql").write_text(text)


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Package:
    monkeypatch.syspath_prepend(tmp_path)  # pyright: ignore[reportUnknownMemberType] # untyped in pytest
    return Package(tmp_path, f"migrated_{tmp_path.name.replace('-', '_')}")


async def rows(dsn: str, query: str) -> list[tuple[object, ...]]:
    async with await psycopg.AsyncConnection.connect(dsn) as connection:
        return await (await connection.execute(query.encode())).fetchall()


async def test_files_are_applied_once_in_order(empty_database: Database, package: Package) -> None:
    dsn = empty_database.owner_dsn
    package.write(m0001_things=TABLE, m0002_fill=SLOW, m0003_index=INDEX)
    applied = await migrate(dsn, schema="corpus", package=package.name)
    assert applied == ["0001_things.sql", "0002_fill.sql", "0003_index.sql"]
    assert await migrate(dsn, schema="corpus", package=package.name) == []
    package.write(m0004_more="INSERT INTO corpus.things VALUES (1000, 'more');")
    assert await migrate(dsn, schema="corpus", package=package.name) == ["0004_more.sql"]
    assert await rows(dsn, "SELECT count(*) FROM corpus.things") == [(101,)]
    assert await rows(dsn, "SELECT indisvalid FROM pg_index WHERE indexrelid = 'corpus.things_name'::regclass") == [
        (True,)
    ]


async def test_calls_that_lock_in_another_order_continue(empty_database: Database, package: Package) -> None:
    """A migration has locked one table and waits for another, which a call has read that now needs the first."""
    dsn = empty_database.owner_dsn
    package.write(m0001_things=TABLE + "CREATE TABLE corpus.parts (id bigint);")
    await migrate(dsn, schema="corpus", package=package.name)
    package.write(m0002_both="ALTER TABLE corpus.things ADD a int;\nALTER TABLE corpus.parts ADD a int;")
    async with await psycopg.AsyncConnection.connect(dsn) as call, asyncio.timeout(30):
        await call.execute("SELECT FROM corpus.parts")
        migrating = asyncio.create_task(migrate(dsn, schema="corpus", package=package.name))
        waiting = "SELECT count(*) FROM pg_locks WHERE NOT granted AND relation = 'corpus.parts'::regclass"
        while await rows(dsn, waiting) != [(1,)]:
            assert not migrating.done()
        begun = asyncio.get_running_loop().time()
        await call.execute("SELECT FROM corpus.things")
        assert asyncio.get_running_loop().time() - begun < 1, "the call waits no longer than the migration waits for it"
        await call.commit()
        assert await migrating == ["0002_both.sql"]


async def test_tables_that_stay_in_use_end_a_migration(empty_database: Database, package: Package) -> None:
    dsn = empty_database.owner_dsn
    package.write(m0001_things=TABLE)
    await migrate(dsn, schema="corpus", package=package.name)
    package.write(m0002_more="ALTER TABLE corpus.things ADD a int;")
    async with await psycopg.AsyncConnection.connect(dsn) as call:
        await call.execute("SELECT FROM corpus.things")
        with pytest.raises(MigrationError, match="lock timeout"):
            await migrate(dsn, schema="corpus", package=package.name, lock_seconds=0.1)


async def test_many_processes_at_once_apply_each_file_once(empty_database: Database, package: Package) -> None:
    """With a concurrent index build, which would deadlock with a waiting pg_advisory_lock."""
    package.write(m0001_things=TABLE, m0002_fill=SLOW, m0003_index=INDEX)
    program = (
        "import asyncio, sys; sys.path.insert(0, sys.argv[1]); from citewire_kit.migrate import migrate;"
        "print('RESULT', len(asyncio.run(migrate(sys.argv[2], schema='corpus', package=sys.argv[3]))))"
    )
    arguments = (program, str(package.root), empty_database.owner_dsn, package.name)
    processes = [
        await asyncio.create_subprocess_exec(
            sys.executable, "-c", *arguments, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
        )
        for _ in range(4)
    ]
    async with asyncio.timeout(60):
        outputs = [await process.communicate() for process in processes]
    assert [process.returncode for process in processes] == [0] * 4, outputs
    counts = sorted(int(out.decode().split("RESULT ")[1]) for out, _ in outputs)
    assert counts == [0, 0, 0, 3]
    assert await rows(empty_database.owner_dsn, "SELECT count(*) FROM corpus.things") == [(100,)]


async def test_a_changed_file_is_refused_and_named(empty_database: Database, package: Package) -> None:
    dsn = empty_database.owner_dsn
    package.write(m0001_things=TABLE)
    await migrate(dsn, schema="corpus", package=package.name)
    package.write(m0001_things=TABLE + "-- a better comment\n", m0002_fill=SLOW)
    with pytest.raises(MigrationError, match=r"0001_things\.sql was changed"):
        await migrate(dsn, schema="corpus", package=package.name)
    assert await rows(dsn, "SELECT count(*) FROM corpus.things") == [(0,)]


async def test_a_schema_older_than_the_baseline_is_refused_and_stays(
    empty_database: Database, package: Package
) -> None:
    dsn = empty_database.owner_dsn
    package.write(m0001_things=TABLE, m0002_fill=SLOW)
    await migrate(dsn, schema="corpus", package=package.name)
    for path in package.migrations.iterdir():
        path.unlink()
    package.write(m0001_baseline=TABLE)
    with pytest.raises(MigrationError, match=r"before the first release.*Nothing was changed.*docs/upgrading\.md"):
        await migrate(dsn, schema="corpus", package=package.name)
    assert await rows(dsn, "SELECT count(*) FROM corpus.things") == [(100,)]


async def test_a_file_that_fails_leaves_nothing_and_is_named(empty_database: Database, package: Package) -> None:
    dsn = empty_database.owner_dsn
    package.write(m0001_things=TABLE, m0002_broken="INSERT INTO corpus.things VALUES (1, 'a');\nSELECT nothing_here();")
    with pytest.raises(MigrationError, match=r"0002_broken\.sql of corpus failed.*nothing_here"):
        await migrate(dsn, schema="corpus", package=package.name)
    assert await rows(dsn, "SELECT count(*) FROM corpus.things") == [(0,)]
    package.write(m0002_broken=SLOW)
    assert await migrate(dsn, schema="corpus", package=package.name) == ["0002_broken.sql"]


async def test_phases_split_a_deployment(empty_database: Database, package: Package) -> None:
    dsn = empty_database.owner_dsn
    package.write(m0001_things=TABLE, m0002_drop_name=POST, m0003_fill="INSERT INTO corpus.things VALUES (1, 'a')")
    assert await migrate(dsn, schema="corpus", package=package.name, phase="pre") == [
        "0001_things.sql",
        "0003_fill.sql",
    ]
    assert await migrate(dsn, schema="corpus", package=package.name, phase="post") == ["0002_drop_name.sql"]
    assert await migrate(dsn, schema="corpus", package=package.name) == []


async def test_two_owners_do_not_wait_for_each_other(empty_database: Database, package: Package) -> None:
    dsn = empty_database.owner_dsn
    package.write(m0001_slow=HELD)
    other = Package(package.root, "migrated_other")
    other.write(m0001_table="CREATE TABLE chat.things (id bigint);")
    async with await psycopg.AsyncConnection.connect(dsn) as holder:
        await holder.execute(HELD)
        slow = asyncio.create_task(migrate(dsn, schema="corpus", package=package.name))
        async with asyncio.timeout(BUSY_SECONDS):
            assert await migrate(dsn, schema="chat", package=other.name) == ["0001_table.sql"]
        assert not slow.done()
    await slow


async def test_a_wait_for_another_process_has_an_end(empty_database: Database, package: Package) -> None:
    dsn = empty_database.owner_dsn
    package.write(m0001_slow=HELD)
    async with await psycopg.AsyncConnection.connect(dsn) as holder:
        await holder.execute(HELD)
        slow = asyncio.create_task(migrate(dsn, schema="corpus", package=package.name))
        query = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
        async with asyncio.timeout(BUSY_SECONDS):
            while await rows(dsn, query) == [(0,)]:  # noqa: ASYNC110 # another session's state can't wake anyone
                await asyncio.sleep(0.02)
        with pytest.raises(MigrationError, match="another process has been migrating corpus"):
            await migrate(dsn, schema="corpus", package=package.name, lock_seconds=0.3)
    await slow


async def test_a_missing_database_is_reported(empty_database: Database, package: Package) -> None:
    package.write(m0001_things=TABLE)
    dsn = empty_database.owner_dsn.replace(empty_database.name, "no_such_database")
    with pytest.raises(MigrationError, match="cannot connect to migrate corpus"):
        await migrate(dsn, schema="corpus", package=package.name)


async def test_a_migration_waits_for_a_database_that_comes_later(
    empty_database: Database, package: Package, monkeypatch: pytest.MonkeyPatch
) -> None:
    package.write(m0001_things=TABLE)
    connect = cast("Callable[..., Awaitable[object]]", psycopg.AsyncConnection.connect)
    attempts = 0

    async def third_time_lucky(dsn: str, **options: object) -> object:
        nonlocal attempts
        attempts += 1
        if attempts < 3:
            raise psycopg.OperationalError("connection refused")
        return await connect(dsn, **options)

    monkeypatch.setattr("citewire_kit.migrate.AsyncConnection.connect", third_time_lucky)
    monkeypatch.setattr("citewire_kit.migrate._CONNECT_AGAIN_SECONDS", 0)
    dsn = empty_database.owner_dsn
    assert await migrate(dsn, schema="corpus", package=package.name, wait_seconds=60) == ["0001_things.sql"]
    assert attempts == 3


def test_names_must_be_numbered_and_unique(package: Package) -> None:
    package.write(m0001_things=TABLE, m0001_again=TABLE)
    with pytest.raises(MigrationError, match=r"0001_things\.sql"):
        read_migrations(package.name)


def test_unknown_options_are_refused(package: Package) -> None:
    package.write(m0001_things="-- migrate: no-transactions\n" + TABLE)
    with pytest.raises(MigrationError, match="unknown option 'no-transactions'"):
        read_migrations(package.name)
