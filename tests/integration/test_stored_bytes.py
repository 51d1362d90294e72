"""Stored bytes are limited by plan and counted exactly: parallel uploads, versions, deletions, owners, upgrades."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator
from typing import TYPE_CHECKING, Any, TypeVar

import psycopg
import pytest
from citewire.retriever.v1 import corpus_pb2 as pb
from prometheus_client import REGISTRY

from citewire_kit.errors import CitewireError, Code
from citewire_kit.migrate import migrate, read_migrations
from citewire_kit.tenant import Tenant
from citewire_retriever.store import rows, storage
from retriever_process import Caller, Retriever, running_retriever

if TYPE_CHECKING:
    from databases import Database

T = TypeVar("T")

ADA = Tenant("acme", "ada", "free")
BOB = Tenant("acme", "bob", "free")
EVE = Tenant("other", "eve", "free")
PRO = Tenant("pro", "ada", "pro")
USER_LIMIT, ORG_LIMIT = 10_000, 15_000
PLANS = json.dumps({"free": {"stored-bytes": {"user": USER_LIMIT, "org": ORG_LIMIT}}})
ALL = "SELECT coalesce(sum(v.size_bytes), 0) FROM corpus.versions v WHERE v.org_id = 'acme'"


@pytest.fixture
async def running(database: Database) -> AsyncGenerator[Retriever]:
    async with running_retriever(database, plan_limits=PLANS) as running:
        yield running


@pytest.fixture
def owner(database: Database) -> Generator[psycopg.Connection]:
    with psycopg.connect(database.dsn("postgres"), autocommit=True) as connection:
        yield connection


def header(name: str, document_id: int | None = None) -> pb.UploadHeader:
    return pb.UploadHeader(file_name=name, document_id=document_id)


async def stored_bytes(caller: Caller) -> tuple[int, int]:
    response = await caller.unary(caller.running.corpus.GetStorage, pb.GetStorageRequest())
    return response.user_bytes, response.org_bytes


async def expect_refusal(caller: Caller, size: int, document_id: int | None = None) -> CitewireError:
    with pytest.raises(CitewireError) as caught:
        await caller.upload(header("more.txt", document_id), b"x" * size)
    assert (caught.value.code, caught.value.reason) == (Code.RESOURCE_EXHAUSTED, "STORAGE_FULL")
    return caught.value


async def until_one_waits(owner: psycopg.Connection) -> None:
    """Waits until a transaction waits for another's lock."""
    waiting = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()"
    async with asyncio.timeout(20):
        while owner.execute(waiting).fetchone() == (0,):  # noqa: ASYNC110 - the database announces no wait
            await asyncio.sleep(0.01)


async def until_answered(ask: Callable[[], Awaitable[T]]) -> T | None:
    """Retries while no connection is free, as clients do; returns None if there is no room.

    So many wait for their turn at once, each with a connection, that on a busy machine the last ones get none in time.
    """
    async with asyncio.timeout(120):
        while True:
            try:
                return await ask()
            except CitewireError as error:
                if error.reason == "STORAGE_FULL":
                    return None
                if "no database connection was free" not in error.message or error.retry_after is None:
                    raise
                await asyncio.sleep(error.retry_after)


def refusals(scope: str) -> float:
    labels = {"measure": "stored-bytes", "scope": scope, "plan": "free"}
    return REGISTRY.get_sample_value("citewire_limited_requests_total", labels) or 0.0


async def test_an_owners_limit_and_the_organisations(running: Retriever) -> None:
    ada, bob, eve = (Caller(running, tenant) for tenant in (ADA, BOB, EVE))
    before = refusals("user"), refusals("org")
    first = await ada.upload(header("a.txt"), b"a" * 9_000)
    error = await expect_refusal(ada, 1_001)
    assert error.metadata == {"limit": "stored-bytes-user", "quota": "10000", "used": "9000", "size_bytes": "1001"}
    assert error.retry_after is None
    assert "9,000 bytes are stored" in error.message
    await ada.upload(header("b.txt"), b"b" * 1_000)  # to the last byte
    assert await stored_bytes(ada) == (10_000, 10_000)
    # Typed text and new versions count as well; a new version of another's document counts towards its owner.
    with pytest.raises(CitewireError, match="the document's owner"):
        await bob.upload(header("a.txt", first.document_id), b"a")
    with pytest.raises(CitewireError, match="may store"):
        await ada.put(content="words")
    await bob.upload(header("c.txt"), b"c" * 4_000)
    assert (await expect_refusal(bob, 1_001)).metadata["limit"] == "stored-bytes-org"
    assert (refusals("user") - before[0], refusals("org") - before[1]) == (3, 1)
    # Others have their own limit, and refused uploads left nothing behind.
    await eve.upload(header("a.txt"), b"e" * USER_LIMIT)
    assert await stored_bytes(bob) == (4_000, 14_000)
    await ada.unary(running.corpus.DeleteDocument, pb.DeleteDocumentRequest(document_id=first.document_id))
    assert await stored_bytes(ada) == (1_000, 5_000)
    await ada.upload(header("d.txt"), b"d" * 9_000)


async def test_parallel_uploads_never_exceed_the_limit(
    running: Retriever, owner: psycopg.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The attack: many parallel uploads that would fit alone, with deletions and versions, while entries are summed."""
    monkeypatch.setattr(storage, "_MAX_ENTRIES", 3)
    callers = [Caller(running, Tenant("acme", f"user{number}", "free")) for number in range(4)]

    async def attack(caller: Caller, number: int) -> None:
        document = await until_answered(lambda: caller.upload(header(f"{number}.txt"), b"x" * 1_800))
        if document is None:
            return
        if number % 3 == 0:
            request = pb.DeleteDocumentRequest(document_id=document.document_id)
            await until_answered(lambda: caller.unary(running.corpus.DeleteDocument, request))
        else:
            again = header("again.txt", document.document_id)
            await until_answered(lambda: caller.upload(again, b"y" * 700))

    async def fill(caller: Caller) -> None:
        while await until_answered(lambda: caller.upload(header("last.txt"), b"z" * 1_800)) is not None:
            pass

    await asyncio.gather(*(attack(caller, number) for number in range(6) for caller in callers))
    await asyncio.gather(*(fill(caller) for caller in callers))  # uses what deletions freed after the last refusal
    total = owner.execute(ALL).fetchone()
    assert total is not None
    assert ORG_LIMIT - 1_800 < int(total[0]) <= ORG_LIMIT
    assert (await stored_bytes(callers[0]))[1] == int(total[0])
    entries = owner.execute("SELECT count(*), min(bytes) FROM corpus.stored_bytes WHERE org_id = 'acme'").fetchone()
    assert entries is not None
    assert int(entries[0]) < 24


async def test_an_upload_is_checked_after_the_one_before_it(
    running: Retriever, database: Database, owner: psycopg.Connection
) -> None:
    """Another upload has had its turn but hasn't committed yet: this one waits, and then sees its bytes."""
    with psycopg.connect(database.dsn("postgres")) as other:
        other.execute(rows.queries("storage")["take_turn"], {"org_id": "acme"})
        other.execute("INSERT INTO corpus.stored_bytes (org_id, user_id, bytes) VALUES ('acme', 'zoe', 14000)")
        upload = asyncio.create_task(expect_refusal(Caller(running, ADA), 1_001))
        await until_one_waits(owner)
        other.commit()
    assert (await upload).metadata["used"] == "14000"


async def test_a_title_that_copies_a_version_needs_room(running: Retriever, owner: psycopg.Connection) -> None:
    ada = Caller(running, ADA)
    document = await ada.upload(header("a.txt"), b"a" * 6_000)
    owner.execute("UPDATE corpus.versions SET status = 'ready'")
    request = pb.UpdateDocumentRequest(document=pb.Document(document_id=document.document_id, title="New"))
    request.update_mask.paths.append("title")
    with pytest.raises(CitewireError) as caught:
        await ada.unary(running.corpus.UpdateDocument, request)
    assert (caught.value.reason, caught.value.metadata["used"]) == ("STORAGE_FULL", "6000")
    assert (await ada.get(document.document_id)).title == "a.txt"
    assert await stored_bytes(ada) == (6_000, 6_000)


@pytest.mark.one_postgres("it looks for who waits for a lock among one server's connections")
async def test_bytes_removed_by_both_the_sweeper_and_a_deletion_count_once(
    running: Retriever, database: Database, owner: psycopg.Connection
) -> None:
    ada = Caller(running, ADA)
    document = await ada.upload(header("a.txt"), b"a" * 2_000)
    await ada.upload(header("a.txt", document.document_id), b"a" * 3_000)
    await ada.upload(header("b.txt"), b"b" * 500)
    with psycopg.connect(database.dsn("citewire_worker")) as sweeper:
        sweeper.execute("SELECT set_config('citewire.org_id', 'acme', true)")
        sweeper.execute("DELETE FROM corpus.versions WHERE document_id = %s AND version = 1", (document.document_id,))
        request = pb.DeleteDocumentRequest(document_id=document.document_id)
        deletion = asyncio.create_task(ada.unary(running.corpus.DeleteDocument, request))
        await until_one_waits(owner)
        sweeper.commit()
    await deletion
    assert await stored_bytes(ada) == (500, 500)


async def test_bytes_move_to_a_new_owner(running: Retriever, owner: psycopg.Connection) -> None:
    ada, bob = Caller(running, ADA), Caller(running, BOB)
    await ada.upload(header("a.txt"), b"a" * 700)
    owner.execute("UPDATE corpus.documents SET owner = 'bob'")
    assert (await stored_bytes(ada), await stored_bytes(bob)) == ((0, 700), (700, 700))


async def test_limits_are_reported_and_depend_on_the_plan(running: Retriever, database: Database) -> None:
    async def limits(running: Retriever, tenant: Tenant) -> dict[str, Any]:
        response = await Caller(running, tenant).unary(running.corpus.GetStorage, pb.GetStorageRequest())
        return {field.name: value for field, value in response.ListFields()}

    assert await limits(running, ADA) == {"user_limit_bytes": USER_LIMIT, "org_limit_bytes": ORG_LIMIT}
    assert await limits(running, PRO) == {"user_limit_bytes": 2**40, "org_limit_bytes": 2**43}
    async with running_retriever(database, auth="off", plan_limits=PLANS) as free:
        await Caller(free, ADA).upload(header("a.txt"), b"a" * 2 * ORG_LIMIT)
        assert await limits(free, ADA) == {"user_bytes": 2 * ORG_LIMIT, "org_bytes": 2 * ORG_LIMIT}


async def test_bytes_stored_before_the_upgrade_count(empty_database: Database) -> None:
    """The migration of an earlier version's rows, of two organisations and with superseded versions."""
    dsn = empty_database.dsn("postgres")
    await migrate(dsn, schema="corpus", package="citewire_retriever")
    with psycopg.connect(dsn, autocommit=True) as connection:
        file = next(m.file for m in read_migrations("citewire_retriever") if m.file.endswith("_stored_bytes.sql"))
        connection.execute("DROP TABLE corpus.stored_bytes")
        connection.execute("DROP FUNCTION corpus.count_version_bytes, corpus.count_document_bytes CASCADE")
        connection.execute("DELETE FROM corpus.schema_migrations WHERE file = %s", (file,))
        for org, user, sizes in (("acme", "ada", (100, 20)), ("acme", "bob", (3,)), ("other", "ada", (4,))):
            row = connection.execute(
                "INSERT INTO corpus.documents (org_id, owner, type, title, title_given, latest_version)"
                " VALUES (%s, %s, 'file', 'T', true, %s) RETURNING document_id",
                (org, user, len(sizes)),
            ).fetchone()
            assert row is not None
            for version, size in enumerate(sizes, 1):
                connection.execute(
                    "INSERT INTO corpus.versions (org_id, document_id, version, size_bytes, sha256)"
                    " VALUES (%s, %s, %s, %s, %s)",
                    (org, row[0], version, size, b"x" * 32),
                )
        assert await migrate(dsn, schema="corpus", package="citewire_retriever") == [file]
        entries = connection.execute("SELECT org_id, user_id, bytes FROM corpus.stored_bytes ORDER BY 1, 2")
        assert entries.fetchall() == [("acme", "ada", 120), ("acme", "bob", 3), ("other", "ada", 4)]
