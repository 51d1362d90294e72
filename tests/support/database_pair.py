"""A plain Postgres and a Citus cluster with one connection string, and an organisation that writes to either."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import random
import threading
import time
import uuid
from collections.abc import Generator, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import psycopg
from psycopg import sql

from citewire_kit.errors import Unavailable
from citewire_kit.postgres import Pool, open_pool, tenant_transaction
from citewire_kit.tenant import Tenant
from databases import Database

if TYPE_CHECKING:
    from citus_cluster import CitusCluster
    from embedded_postgres import EmbeddedPostgres

Contents = dict[str, list[str]]
"""Rows as text, sorted, by table and organisation."""
_TABLES = (
    "SELECT c.relname FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid AND a.attname = 'org_id'"
    " WHERE c.relnamespace = 'corpus'::regnamespace AND c.relkind IN ('r', 'p') AND NOT c.relispartition"
)


@dataclass(frozen=True, slots=True)
class DatabasePair:
    """Two databases with the same name on two servers, both migrated and empty."""

    plain: Database
    citus: Database

    def dsn(self, role: str) -> str:
        """The services' connection string: it leads to the writable server."""
        hosts = f"{self.plain.server.socket_dir},{self.citus.server.socket_dir}"
        return f"postgresql://{role}@/{self.plain.name}?host={hosts}&target_session_attrs=read-write"


def temporary_pair(
    server: EmbeddedPostgres, template: str, cluster: CitusCluster, citus_template: str
) -> Iterator[DatabasePair]:
    """Creates both, and drops them afterwards."""
    name = f"test_{uuid.uuid4().hex}"
    server.create_database(name, template=template)
    try:
        cluster.copy_database(citus_template, name)
        try:
            yield DatabasePair(Database(name, server), Database(name, cluster.coordinator))
        finally:
            cluster.drop_database(name)
    finally:
        server.drop_database(name)


def contents(database: Database, *, without: str = "") -> Contents:
    """All rows of organisations, as Python reads them; without those of one organisation if it is named."""
    results: Contents = {}
    with psycopg.connect(database.owner_dsn) as connection:
        connection.execute("SET TimeZone = 'UTC'")
        for (name,) in connection.execute(_TABLES).fetchall():
            query = sql.SQL("SELECT t.org_id, to_jsonb(t)::text FROM {} AS t").format(sql.Identifier("corpus", name))
            for org, text in connection.execute(query).fetchall():
                if org != without or not without:
                    results.setdefault(f"{name} {org}", []).append(text)
    return {key: sorted(rows) for key, rows in sorted(results.items())}


def fill_rest(dsn: str, org: str, document_id: int) -> None:
    """Inserts a row into each table that published documents leave empty."""
    digest = hashlib.sha256(b"x").digest()
    of = {"org": org, "document": document_id, "digest": digest}
    statements: tuple[str, ...] = (
        "SELECT corpus.intern_access(%(org)s, NULL, ARRAY['user:ann', 'group:100 %% \"odd\" \\ group'])",
        "INSERT INTO corpus.originals"
        " VALUES (%(org)s, %(document)s, 1, 0, '\\x00ff5c'), (%(org)s, %(document)s, 1, 1, 'b')",
        "INSERT INTO corpus.texts VALUES (%(org)s, %(document)s, 1, 0, 0, E'a\\tb\\nÄ \\\\N')",
        "INSERT INTO corpus.erased_documents (org_id, document_id) VALUES (%(org)s, 7)",
        "INSERT INTO corpus.next_spaces VALUES (%(org)s, 'next', 'r2', 8)",
        "INSERT INTO corpus.further_spaces (org_id, space_id) SELECT %(org)s, min(space_id) FROM corpus.spaces",
        "INSERT INTO corpus.space_calibrations (org_id, space_id, relevance_threshold)"
        " SELECT %(org)s, min(space_id), 0.1 FROM corpus.spaces",
        "INSERT INTO corpus.space_scales (org_id, space_id, texts_version, unrelated, deviation, related)"
        " SELECT %(org)s, min(space_id), 1, 0.1, 1/3.0, 2e-7 FROM corpus.spaces",
        "INSERT INTO corpus.centroids SELECT %(org)s, min(space_id), 0, 5, '[0.25,1,-3]' FROM corpus.spaces",
        "INSERT INTO corpus.ingest_jobs (org_id, document_id, version, user_id)"
        " VALUES (%(org)s, %(document)s, 1, 'it''s')",
        "INSERT INTO corpus.ingest_shares VALUES ('', 1.5), (%(org)s, 0.1)",
        "UPDATE corpus.documents SET valid_until = '9999-12-31', tags = ARRAY['a', '{\"}'] WHERE org_id = %(org)s"
        " AND document_id = %(document)s",
    )
    with psycopg.connect(dsn) as connection:
        for statement in statements:
            connection.execute(statement.encode(), of)


@dataclass
class PairWriter:
    """Saves, changes and deletes documents of an organisation through the kit's pool, like a service.

    Temporarily rejected writes are repeated until they are acknowledged.
    """

    dsn: str
    tenant: Tenant
    seed: int
    titles: dict[int, str] = field(default_factory=dict[int, str])
    """Acknowledged documents that must exist."""
    deleted: set[int] = field(default_factory=set[int])
    unclear: dict[int, set[str | None]] = field(default_factory=dict[int, set[str | None]])
    """Unacknowledged changes by document, which may have been made."""
    acknowledged: int = 0
    refusals: int = 0
    longest: float = 0.0
    """Maximum seconds between two acknowledged writes."""
    failure: BaseException | None = None
    _ended: threading.Event = field(default_factory=threading.Event)
    _may_write: threading.Event = field(default_factory=threading.Event)
    _idle: threading.Event = field(default_factory=threading.Event)

    @contextlib.contextmanager
    def running(self) -> Generator[None]:
        self._may_write.set()
        thread = threading.Thread(target=lambda: asyncio.run(self._guarded()))
        thread.start()
        try:
            yield
        finally:
            self._ended.set()
            self._may_write.set()
            thread.join()
        if self.failure is not None:
            raise self.failure

    @contextlib.contextmanager
    def paused(self) -> Generator[None]:
        """Pauses all writes during the block."""
        self._idle.clear()
        self._may_write.clear()
        assert self._idle.wait(30)
        yield
        self._may_write.set()

    async def write_more(self, count: int) -> None:
        """Waits until this many more writes were acknowledged."""
        until = self.acknowledged + count
        async with asyncio.timeout(30):
            while self.acknowledged < until and self.failure is None:  # noqa: ASYNC110 # another thread counts
                await asyncio.sleep(0.02)

    async def _guarded(self) -> None:
        try:
            await self._write()
        except BaseException as exc:  # noqa: BLE001 # raised again where it is waited for
            self.failure = exc
            self._idle.set()

    async def _write(self) -> None:
        choose = random.Random(self.seed)
        pool = await open_pool(self.dsn, max_size=2, name="writer")
        last = time.monotonic()
        try:
            while not self._ended.is_set():
                if not self._may_write.is_set():
                    self._idle.set()
                    await asyncio.to_thread(self._may_write.wait)
                    last = time.monotonic()
                    continue
                try:
                    await self._act(pool, choose)
                except Unavailable:
                    self.refusals += 1
                else:
                    self.acknowledged += 1
                    self.longest = max(self.longest, time.monotonic() - last)
                    last = time.monotonic()
                await asyncio.sleep(0.01)
        finally:
            await pool.close()

    async def _act(self, pool: Pool, choose: random.Random) -> None:
        action = choose.choice(("save", "save", "change", "delete")) if len(self.titles) > 3 else "save"
        if action == "save":
            title = f"title {choose.random()}"
            row = await self._execute(
                pool,
                "INSERT INTO corpus.documents (org_id, owner, type, title, title_given)"
                " VALUES (%(org)s, 'user', 'file', %(title)s, true) RETURNING document_id",
                {"title": title},
            )
            assert row is not None
            assert row[0] not in self.titles
            assert row[0] not in self.deleted
            self.titles[row[0]] = title
            return
        document_id = choose.choice(sorted(self.titles))
        title = None if action == "delete" else f"changed {choose.random()}"
        statement = (
            "DELETE FROM corpus.documents WHERE org_id = %(org)s AND document_id = %(document)s RETURNING 1"
            if title is None
            else "UPDATE corpus.documents SET title = %(title)s WHERE org_id = %(org)s AND document_id = %(document)s"
            " RETURNING 1"
        )
        self.unclear.setdefault(document_id, set()).add(title)
        row = await self._execute(pool, statement, {"title": title, "document": document_id})
        made_before = None in self.unclear[document_id] - {title}
        assert row is not None or made_before or title is None
        if title is None or row is None:
            del self.titles[document_id]
            self.deleted.add(document_id)
        else:
            self.titles[document_id] = title
        del self.unclear[document_id]

    async def _execute(self, pool: Pool, statement: str, values: dict[str, Any]) -> tuple[Any, ...] | None:
        async with tenant_transaction(pool, self.tenant) as connection:
            cursor = await connection.execute(statement.encode(), {**values, "org": self.tenant.org_id})
            return await cursor.fetchone()

    def check(self, database: Database) -> None:
        """Asserts that the database has all acknowledged data, and nothing that was deleted."""
        with psycopg.connect(database.owner_dsn) as connection:
            rows = dict(
                connection.execute(
                    "SELECT document_id, title FROM corpus.documents WHERE org_id = %s", (self.tenant.org_id,)
                ).fetchall()
            )
        assert self.deleted
        for document_id, title in self.titles.items():
            allowed = {title, *self.unclear.get(document_id, set())}
            assert rows.get(document_id) in allowed, document_id
        assert self.deleted.isdisjoint(rows)
