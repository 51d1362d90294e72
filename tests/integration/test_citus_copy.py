"""`cluster copy`: copies a Postgres into a cluster during writes, switches to the cluster, and copies it back."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import numpy as np
import psycopg
import pytest
from psycopg import sql

from citewire_kit.queries import Query
from citewire_kit.tenant import Tenant
from citewire_retriever.citus.cluster import ClusterError
from citewire_retriever.citus.copying.plan import read_plan
from citewire_retriever.citus.copying.process import Copying
from citewire_retriever.citus.copying.side import CopyError, Side, Values
from citewire_retriever.citus.copying.switching import give_up, switch
from corpus_rows import CorpusRows, NewDocument, set_tenant
from database_pair import DatabasePair, PairWriter, contents, fill_rest, temporary_pair
from tests.integration.test_citus_cluster import DIMENSIONS, ORGS, fill, search
from waiting import BUSY_SECONDS

if TYPE_CHECKING:
    from citus_cluster import CitusCluster
    from databases import Database
    from embedded_postgres import EmbeddedPostgres
    from proof_scale import PrintTable, ProofScale

WRITING = Tenant(ORGS[2], "user", "free")


@pytest.fixture
def pair(
    postgres_server: EmbeddedPostgres, migrated_template: str, citus_cluster: CitusCluster, citus_template: str
) -> Iterator[DatabasePair]:
    """A Postgres with data and an empty cluster."""
    for databases in temporary_pair(postgres_server, migrated_template, citus_cluster, citus_template):
        fill(databases.plain.owner_dsn)
        with psycopg.connect(databases.plain.owner_dsn) as connection:
            row = connection.execute(
                "SELECT min(document_id) FROM corpus.documents WHERE org_id = %s", (ORGS[0],)
            ).fetchone()
        assert row is not None
        fill_rest(databases.plain.owner_dsn, ORGS[0], row[0])
        yield databases


@asynccontextmanager
async def open_copy(source: Database, target: Database) -> AsyncGenerator[Copying]:
    async with Copying.open(source.owner_dsn, target.owner_dsn, print) as current:
        yield current


Execute = Callable[..., Awaitable[object]]


class KilledError(Exception):
    """Simulates the end of a killed command."""


class Killer:
    """Ends a copy before one of its statements; its sessions end like those of a killed process."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._step = ""
        self._left = 0
        for name in ("run", "rows"):
            monkeypatch.setattr(Side, name, self._watch(getattr(Side, name)))

    def _watch(self, execute: Execute) -> Execute:
        async def watch(side: Side, query: Query, values: Values = None) -> object:
            text = query.as_string(None) if isinstance(query, sql.Composable) else query
            if self._step and self._step in (text.decode() if isinstance(text, bytes) else text):
                self._left -= 1
                if self._left == 0:
                    side.connection.pgconn.finish()
                    raise KilledError
            return await execute(side, query, values)

        return watch

    async def switch(self, source: Database, target: Database, step: str, place: int = 1) -> None:
        """Copies and switches, but ends before the first (or a later) statement that contains `step`."""
        await self._end(source, target, step, place, switch)

    async def give_up(self, source: Database, target: Database, step: str) -> None:
        """Gives a copy up, but ends before the first statement that contains `step`."""
        await self._end(source, target, step, 1, lambda copying: give_up(copying.source, copying.target, print))

    async def _end(
        self, source: Database, target: Database, step: str, place: int, act: Callable[[Copying], Awaitable[object]]
    ) -> None:
        self._step, self._left = step, place
        with pytest.raises((KilledError, CopyError)):
            async with open_copy(source, target) as current:
                await act(current)
        assert self._left <= 0, f"{step} was never executed"
        self._step = ""


BEFORE = (
    ("INSERT INTO citewire_copy.state", 1),
    ("INSERT INTO citewire_copy.state", 2),
    ("CREATE TRIGGER", 4),
    ("INSERT INTO corpus.spaces", 1),
    ("INSERT INTO citewire_copy.copied", 1),
    ("INSERT INTO citewire_copy.copied", 40),
    ('DELETE FROM "citewire_copy"', 1),
    ("WITH noted", 20),
    ("LOCK TABLE", 1),
    ("setval", 1),
    ("RAISE read_only_sql_transaction", 1),
    ("default_transaction_read_only = on", 4),
    ("SET part = 'retired'", 1),
)
"""Steps of a copy up to the commit that switches: a part of the statement, and which one in order."""
AFTER = ("RESET default_transaction_read_only", "pg_terminate_backend", "DROP SCHEMA")
"""Steps after that commit."""


def test_every_table_has_rows_to_copy(pair: DatabasePair) -> None:
    with psycopg.connect(pair.plain.owner_dsn) as connection:
        tables = {
            row[0]
            for row in connection.execute(
                "SELECT c.relname FROM pg_class c WHERE c.relnamespace = 'corpus'::regnamespace"
                " AND c.relkind IN ('r', 'p') AND NOT c.relispartition"
            ).fetchall()
        }
    filled = {key.partition(" ")[0] for key in contents(pair.plain)}
    assert tables - filled == {"schema_migrations", "spaces"}


async def test_a_copy_is_complete_wherever_it_was_killed_and_so_is_the_way_back(
    pair: DatabasePair, monkeypatch: pytest.MonkeyPatch, proof: ProofScale, print_table: PrintTable
) -> None:
    """An organisation saves, changes and deletes documents all the time."""
    killer = Killer(monkeypatch)
    limit = 2.0 if proof.full else BUSY_SECONDS  # two seconds are promised on an idle machine
    before = await search(pair.plain.dsn("citewire_corpus"))
    rows: list[tuple[object, ...]] = []
    for source, target in ((pair.plain, pair.citus), (pair.citus, pair.plain)):
        writer = PairWriter(pair.dsn("citewire_corpus"), WRITING, proof.seed)
        steps = [step for step in BEFORE if target is pair.citus or step[0] != "INSERT INTO corpus.spaces"]
        if not proof.full:  # every second step; the way back has others, as it has no step for the space
            steps = steps[::2]
        with writer.running():
            for step, place in steps:
                await killer.switch(source, target, step, place)
            with writer.paused():
                async with open_copy(source, target) as current:
                    await current.run()
                assert contents(target) == contents(source)
            async with open_copy(source, target) as current:
                pause = await switch(current)
            assert pause is not None
            assert pause <= limit
            await writer.write_more(10)
        writer.check(target)
        assert writer.longest <= limit
        assert contents(target, without=WRITING.org_id) == contents(source, without=WRITING.org_id)
        assert await search(target.dsn("citewire_corpus")) == before
        _check_retired(source)
        written = len(writer.titles) + len(writer.deleted)
        direction = "plain to Citus" if target is pair.citus else "and back"
        rows.append((direction, len(steps), written, writer.refusals, f"{pause:.2f}", f"{writer.longest:.2f}"))
    print_table(
        "A copy under writes, killed and run again",
        ("direction", "killed", "documents saved", "refused, sent again", "nobody could write, s", "longest pause, s"),
        rows,
    )


async def test_the_next_command_completes_a_switch_that_was_killed_after_its_commit(
    pair: DatabasePair, monkeypatch: pytest.MonkeyPatch
) -> None:
    killer = Killer(monkeypatch)
    for step in AFTER:
        # The copy begins with creating its own schema, and drops an existing one.
        await killer.switch(pair.plain, pair.citus, step)
    async with open_copy(pair.plain, pair.citus) as current:
        assert await switch(current) is None
        assert await switch(current) is None
        with pytest.raises(CopyError, match="switched away from"):
            await current.run()
    with psycopg.connect(pair.dsn("citewire_corpus")) as connection:
        set_tenant(connection, ORGS[0], user_id="user")
        assert connection.execute("SELECT count(*) FROM corpus.documents").fetchone() == (3,)
        assert connection.info.host == str(pair.citus.server.socket_dir)
    assert contents(pair.citus) == contents(pair.plain)
    assert _leftovers(pair.citus) == ([], [])


async def test_a_planted_difference_is_found(pair: DatabasePair) -> None:
    planted = (
        ("UPDATE corpus.documents SET title = 'planted' WHERE org_id = %s", "documents", "different content"),
        ("DELETE FROM corpus.lexical WHERE org_id = %s", "lexical", "the target 0 of them"),
        ("UPDATE corpus.ingest_jobs SET plan = 'pro' WHERE org_id = %s", "ingest_jobs", "different content"),
        (
            "INSERT INTO corpus.restrictions SELECT 'nobody' WHERE %s <> ''",
            "restrictions",
            "the source has 0 rows, the target 1",
        ),
    )
    async with open_copy(pair.plain, pair.citus) as current:
        rows = await current.run()
        assert rows == sum(map(len, contents(pair.plain).values()))
        for statement, table, how in planted:
            with psycopg.connect(pair.citus.owner_dsn) as connection:
                connection.execute(statement.encode(), (ORGS[0],))
            with pytest.raises(CopyError, match=rf"corpus\.{table}.*{how}"):
                await current.run()
    async with open_copy(pair.plain, pair.citus) as current:
        assert await current.run() == rows
    assert contents(pair.citus) == contents(pair.plain)


async def test_a_switch_that_waits_too_long_for_locks_is_undone(pair: DatabasePair) -> None:
    async with open_copy(pair.plain, pair.citus) as current:
        await current.run()
        with psycopg.connect(pair.plain.owner_dsn) as busy:
            busy.execute("UPDATE corpus.documents SET title = title WHERE org_id = %s", (ORGS[1],))
            with pytest.raises(CopyError, match="nothing was changed"):
                await switch(current, pause_seconds=0.3, tries=1)
            with psycopg.connect(pair.dsn("citewire_corpus")) as connection:
                set_tenant(connection, ORGS[0], user_id="user")
                connection.execute("UPDATE corpus.documents SET title = 'after' WHERE org_id = %s", (ORGS[0],))
                assert connection.info.host == str(pair.plain.server.socket_dir)
        assert await switch(current) is not None
    assert contents(pair.citus) == contents(pair.plain)


async def test_an_embedding_space_created_during_the_copy_is_copied(pair: DatabasePair) -> None:
    async with open_copy(pair.plain, pair.citus) as current:
        await current.run()
        vectors = np.eye(4, dtype=np.float32)
        with CorpusRows(pair.plain.owner_dsn, dimensions=4, model="later") as rows:
            rows.add(NewDocument("new", vectors, texts=["a", "b", "c", "d"]))
        await current.run()
        with CorpusRows(pair.plain.owner_dsn, dimensions=4, model="latest") as rows:
            rows.add(NewDocument("new", vectors, texts=["a", "b", "c", "d"]))
        assert await switch(current) is not None
    assert contents(pair.citus) == contents(pair.plain)
    assert len(contents(pair.citus)["vectors_3 new"]) == 4


async def test_an_abandoned_copy_leaves_nothing(pair: DatabasePair) -> None:
    before = _leftovers(pair.citus), contents(pair.citus), _hidden_id(pair.citus), _leftovers(pair.plain)
    assert before[:2] == (([], []), {})
    assert _hidden_id(pair.plain) != _hidden_id(pair.citus)
    async with open_copy(pair.plain, pair.citus) as current:
        await current.run()
        assert _hidden_id(pair.plain) == _hidden_id(pair.citus)
        _check_read_only(pair.citus)  # so that nobody writes to it while the other is away
        assert await give_up(current.source, current.target, print)
        assert (_leftovers(pair.citus), contents(pair.citus), _hidden_id(pair.citus), _leftovers(pair.plain)) == before
        assert not await give_up(current.source, current.target, print)
        await current.source.connection.close()
    with CorpusRows(pair.plain.owner_dsn, dimensions=DIMENSIONS) as rows:  # new writers aren't blocked
        rows.add(NewDocument(ORGS[0], np.eye(DIMENSIONS, dtype=np.float32)[:1], texts=["text"]))
    async with open_copy(pair.plain, pair.citus) as current:
        await current.run()
    assert contents(pair.citus) == contents(pair.plain)


async def test_a_switch_after_giving_up_was_killed_copies_everything_again(
    pair: DatabasePair, monkeypatch: pytest.MonkeyPatch
) -> None:
    killer = Killer(monkeypatch)
    async with open_copy(pair.plain, pair.citus) as current:
        await current.run()
    copied = contents(pair.citus)
    await killer.give_up(pair.plain, pair.citus, "DELETE FROM corpus.spaces")
    assert contents(pair.citus) == {}
    async with open_copy(pair.plain, pair.citus) as current:
        assert await switch(current) is not None
    assert contents(pair.citus) == contents(pair.plain) == copied != {}


async def test_a_copy_stops_if_its_sources_columns_change(pair: DatabasePair) -> None:
    async with open_copy(pair.plain, pair.citus) as current:
        await current.copy()
        with psycopg.connect(pair.plain.owner_dsn) as connection:
            connection.execute("ALTER TABLE corpus.documents ADD COLUMN colour text")
        with pytest.raises(CopyError, match="changed while they were copied: documents"):
            await switch(current)


async def test_rows_are_copied_again_by_a_new_command_if_columns_changed(pair: DatabasePair) -> None:
    async with open_copy(pair.plain, pair.citus) as current:
        await current.run()
    for database in (pair.plain, pair.citus):
        with psycopg.connect(database.owner_dsn) as connection:
            # Each server has its own values for existing rows, and no trigger notes that.
            kind = sql.SQL("uuid DEFAULT gen_random_uuid()")
            add = sql.SQL("ALTER TABLE corpus.documents ADD COLUMN colour {}")
            connection.execute("SET citus.enable_ddl_propagation = on" if database is pair.citus else "SELECT 1")
            connection.execute(add.format(kind))
    assert contents(pair.citus) != contents(pair.plain)
    async with open_copy(pair.plain, pair.citus) as current:
        assert await switch(current) is not None
    assert contents(pair.citus) == contents(pair.plain)


def start_command(source: Database, target: Database | None, *arguments: str) -> subprocess.Popen[str]:
    environment = {**os.environ, "CITEWIRE_RETRIEVER_MIGRATE_DSN": source.owner_dsn}
    if target is not None:
        environment["CITEWIRE_RETRIEVER_COPY_DSN"] = target.owner_dsn
    command = (sys.executable, "-m", "citewire_retriever", "cluster", "copy", *arguments)
    return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def run_command(source: Database, target: Database | None, *arguments: str) -> tuple[int, str]:
    process = start_command(source, target, *arguments)
    output, errors = process.communicate(timeout=120)
    return process.returncode, output + errors


def test_the_command_plans_copies_switches_and_abandons(pair: DatabasePair) -> None:
    unset = run_command(pair.plain, None)
    assert unset[0] == 1
    assert "CITEWIRE_RETRIEVER_COPY_DSN isn't set" in unset[1]
    code, text = run_command(pair.plain, pair.citus, "--dry-run")
    assert (code, "nothing stands in the way" in text) == (0, True), text
    assert re.search(r"^documents +6 +0 +18 ", text, re.MULTILINE), text
    assert "6 organisations" in text
    assert _leftovers(pair.plain) == _leftovers(pair.citus) == ([], [])
    process = start_command(pair.plain, pair.citus)
    assert process.stderr is not None
    process.stderr.readline()  # wait for it to begin
    process.send_signal(signal.SIGKILL)
    process.communicate()
    code, text = run_command(pair.plain, pair.citus)
    assert (code, "rows are identical" in text) == (0, True), text
    code, text = run_command(pair.plain, pair.citus, "--switch")
    assert (code, "nobody could write for" in text) == (0, True), text
    assert contents(pair.citus) == contents(pair.plain)
    code, text = run_command(pair.plain, pair.citus, "--give-up")
    assert (code, "the way back is a copy in the other direction" in text) == (1, True), text
    code, text = run_command(pair.citus, pair.plain)
    assert code == 0, text
    code, text = run_command(pair.citus, pair.plain, "--give-up")
    assert (code, "given up" in text) == (0, True), text
    _check_read_only(pair.plain)


async def test_obstacles_are_named(pair: DatabasePair, plain_database: Database) -> None:
    fill(plain_database.owner_dsn)
    async with open_copy(pair.plain, plain_database) as current:
        assert [text for text in (await read_plan(current)).obstacles if "that no copy put there" in text]
        with pytest.raises(CopyError, match="that no copy put there"):
            await current.run()
        with pytest.raises(CopyError, match="another command"):
            async with open_copy(pair.plain, pair.citus):
                pass
    async with open_copy(pair.plain, pair.citus) as current:
        await current.run()
    for source, target, why in (
        (pair.plain, pair.plain, "the same database"),
        (pair.citus, plain_database, "itself the target"),
        (plain_database, pair.citus, "rows of another copy"),
        (plain_database, pair.plain, "itself the source"),
    ):
        with pytest.raises(CopyError, match=why):
            async with open_copy(source, target) as current:
                await current.run()
    with psycopg.connect(pair.citus.owner_dsn) as connection:
        connection.execute("DELETE FROM corpus.schema_migrations WHERE file LIKE '0026%'")
    async with open_copy(pair.plain, pair.citus) as current:
        with pytest.raises(CopyError, match="migrations of the two differ"):
            await switch(current)
    with pytest.raises(ClusterError, match="isn't a superuser"):
        async with Side.open(pair.plain.dsn("citewire_corpus"), "the source", "X"):
            pass


def _check_retired(database: Database) -> None:
    """Checks that nobody can write there, not even a session that turns off read-only mode."""
    _check_read_only(database)
    with psycopg.connect(
        database.dsn("citewire_corpus") + "&options=-c%20default_transaction_read_only%3Doff"
    ) as connection:
        _expect_refusal(connection)


def _check_read_only(database: Database) -> None:
    with psycopg.connect(database.dsn("citewire_corpus")) as connection:
        _expect_refusal(connection)


def _expect_refusal(connection: psycopg.Connection[Any]) -> None:
    set_tenant(connection, WRITING.org_id, user_id="user")
    with pytest.raises(psycopg.errors.ReadOnlySqlTransaction):
        connection.execute(
            "INSERT INTO corpus.documents (org_id, owner, type, title, title_given)"
            " VALUES (%s, 'user', 'file', 't', true)",
            (WRITING.org_id,),
        )


def _leftovers(database: Database) -> tuple[list[Any], list[Any]]:
    """Returns what a copy creates besides rows: triggers, its schema's contents, and settings of roles."""
    with psycopg.connect(database.owner_dsn) as connection:
        made = connection.execute(
            "SELECT tgname FROM pg_trigger WHERE tgname ~ 'note_for_copy'"
            " UNION ALL SELECT nspname FROM pg_namespace WHERE nspname = 'citewire_copy'"
            " UNION ALL SELECT relname FROM pg_class WHERE relname ~ '^vectors_' AND relkind IN ('r', 'p')"
            " AND relname !~ '_p\\d+$' AND NOT EXISTS (SELECT FROM corpus.spaces s WHERE s.table_name = relname)"
        ).fetchall()
        settings = connection.execute(
            "SELECT setrole::regrole, setconfig FROM pg_db_role_setting s JOIN pg_database d ON d.oid = s.setdatabase"
            " WHERE d.datname = current_database() AND setrole <> 0"
        ).fetchall()
    return made, settings


def _hidden_id(database: Database) -> str:
    with psycopg.connect(database.owner_dsn) as connection:
        row = connection.execute("SELECT prosrc FROM pg_proc WHERE proname = 'hidden_id'").fetchone()
    assert row is not None
    return str(row[0])
