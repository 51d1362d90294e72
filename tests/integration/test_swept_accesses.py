"""Accesses without documents are deleted, but none that a document has or is just getting."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from typing import TYPE_CHECKING

import numpy as np
import psycopg
import pytest

from citewire_kit.postgres import open_pool
from citewire_kit.tenant import Tenant
from citewire_kit.transaction_settings import find_nodes, set_all
from citewire_retriever.model import Changes
from citewire_retriever.store.documents import PostgresDocuments
from citewire_retriever.store.filter_sql import VISIBLE
from citewire_retriever.store.storage import PostgresStorage
from corpus_rows import CorpusRows, NewDocument
from search_library import DIMENSIONS, clustered
from waiting import BUSY_SECONDS, wait_until

if TYPE_CHECKING:
    from databases import Database

ADMIN = Tenant("acme", "dora", "pro", ("admin",))
INTERN = "SELECT corpus.intern_access('acme', NULL, '{group:hr}') FROM corpus.documents WHERE org_id = 'acme'"
SWEEP = "SELECT corpus.sweep_accesses()"


@pytest.fixture
def rows(database: Database) -> Iterator[CorpusRows]:
    with CorpusRows(database.owner_dsn, dimensions=DIMENSIONS) as rows:
        yield rows


@pytest.fixture
async def documents(database: Database) -> AsyncIterator[PostgresDocuments]:
    pool = await open_pool(database.dsn("citewire_corpus"), max_size=1, name="test", resolved=VISIBLE)
    yield PostgresDocuments(pool, PostgresStorage(pool, None), store_seconds=10)
    await pool.close()


def add(rows: CorpusRows, org: str = "acme") -> int:
    vectors = clustered(np.random.default_rng(1), 1)
    return rows.add(NewDocument(org, vectors, title="T", owner="dora"))[0]


async def open_transaction(database: Database) -> psycopg.AsyncConnection:
    """Opens a connection in a transaction of the organisation."""
    connection = await psycopg.AsyncConnection.connect(database.dsn("citewire_corpus"))
    await find_nodes(connection)
    values = {"citewire.org_id": "acme", "citewire.role": "admin"}
    (statement,) = set_all(connection, tuple(values), None)
    await connection.execute(statement, values)
    return connection


async def test_unused_accesses_are_deleted_in_the_next_round(rows: CorpusRows, documents: PostgresDocuments) -> None:
    first, second, foreign = add(rows), add(rows), add(rows, "globex")
    await documents.update(ADMIN, first, Changes(readers=("group:hr",)))
    await documents.update(ADMIN, second, Changes(readers=("group:hr", "user:bob")))
    access_id = rows.scalar("SELECT corpus.intern_access('globex', NULL, '{group:hr}')")
    rows.run("UPDATE corpus.documents SET access_id = %s WHERE document_id = %s", (access_id, foreign))
    rows.run("SELECT corpus.intern_access('globex', NULL, '{group:unused}')")
    for number in range(50):
        await documents.update(ADMIN, second, Changes(readers=(f"group:{number}", "user:bob")))
    await documents.delete(ADMIN, first)
    assert rows.scalar("SELECT count(*) FROM corpus.accesses WHERE org_id = 'acme'") == 52
    await documents.erased(ADMIN, (), 0)
    assert rows.all("SELECT readers FROM corpus.accesses WHERE org_id = 'acme'") == [(["group:49", "user:bob"],)]
    of_documents = "SELECT access_id FROM corpus.documents WHERE org_id = 'acme'"
    assert rows.all("SELECT access_id FROM corpus.accesses WHERE org_id = 'acme'") == rows.all(of_documents)
    in_counts = "SELECT access_id FROM corpus.access_counts WHERE org_id = 'acme' AND access_id <> 0"
    assert rows.all(in_counts) == rows.all(of_documents)
    assert rows.scalar("SELECT count(*) FROM corpus.access_readers WHERE org_id = 'acme'") == 2
    assert rows.scalar("SELECT count(*) FROM corpus.accesses WHERE org_id = 'globex'") == 2, (
        "another organisation's accesses stay"
    )


async def test_an_access_that_a_document_is_just_getting_stays(rows: CorpusRows, database: Database) -> None:
    number = add(rows)
    rows.run(INTERN)
    giving = await open_transaction(database)
    sweeping = await open_transaction(database)
    try:
        cursor = await giving.execute(INTERN)
        access = await cursor.fetchone()
        assert await (await sweeping.execute(SWEEP)).fetchone() == (0,)
        await sweeping.commit()
        await giving.execute(
            "UPDATE corpus.documents SET access_id = %s WHERE document_id = %s", (*(access or ()), number)
        )
        await giving.commit()
    finally:
        await giving.close()
        await sweeping.close()
    assert rows.scalar("SELECT count(*) FROM corpus.documents JOIN corpus.accesses USING (org_id, access_id)") == 1


@pytest.mark.one_postgres("it looks for who waits for a lock among one server's connections")
async def test_an_access_deleted_meanwhile_is_created_again(rows: CorpusRows, database: Database) -> None:
    number = add(rows)
    rows.run(INTERN)
    giving, sweeping = await open_transaction(database), await open_transaction(database)
    try:
        assert await (await sweeping.execute(SWEEP)).fetchone() == (1,)
        waiting = asyncio.create_task(giving.execute(INTERN))
        blocked = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND pid = %s"
        pid = giving.info.backend_pid
        await wait_until(lambda: rows.scalar(blocked, (pid,)) == 1, seconds=BUSY_SECONDS)
        await sweeping.commit()
        access = await (await waiting).fetchone()
        await giving.execute(
            "UPDATE corpus.documents SET access_id = %s WHERE document_id = %s", (*(access or ()), number)
        )
        await giving.commit()
    finally:
        await giving.close()
        await sweeping.close()
    assert rows.scalar("SELECT count(*) FROM corpus.documents JOIN corpus.accesses USING (org_id, access_id)") == 1
