"""The job store's guarantees on a real Postgres: one worker per job, turns, fences, one publication."""

import asyncio
import hashlib
import traceback
from collections.abc import AsyncIterator
from dataclasses import replace

import numpy as np
import psycopg
import pytest
from citewire.common.v1.place_pb2 import Place
from psycopg import sql

from citewire_kit.errors import Internal
from citewire_retriever.ingest.chunks import Chunk
from citewire_retriever.ingest.errors import IngestCode, IngestError
from citewire_retriever.ingest.model import Job, LeaseLostError, Publication, Published, VectorTable
from citewire_retriever.model import Space
from databases import HasDsn
from ingest_harness import ACME, OTHER, IngestHarness

SPACE = Space("fake", "r1", 4)


@pytest.fixture
async def harness(database: HasDsn) -> AsyncIterator[IngestHarness]:
    async with IngestHarness.open(database) as opened:
        yield opened


async def claim(harness: IngestHarness, *, lease: float = 60) -> Job:
    job = await harness.worker.claim("ingest", worker="test", lease_seconds=lease)
    assert job is not None
    return job


def make_chunks(count: int, *, start: int = 0) -> list[Chunk]:
    return [
        Chunk(
            index=index,
            text=f"Text {index}",
            token_count=2,
            content_hash=hashlib.sha256(f"Text {index}".encode()).digest(),
            section="A > B",
            place=Place(start_line=index + 1, end_line=index + 1),
            char_start=index * 10,
            char_end=index * 10 + 6,
            verbatim=True,
            header="Title",
        )
        for index in range(start, start + count)
    ]


async def stage(harness: IngestHarness, job: Job, count: int = 3, *, start: int = 0) -> VectorTable:
    table = await harness.worker.ensure_space(SPACE)
    vectors = np.eye(4, dtype=np.float32)[np.arange(count) % 4]
    await harness.worker.stage(job, table, make_chunks(count, start=start), vectors, start + count)
    return table


def publication(table: VectorTable, *, chunks: int = 3, title: str | None = None) -> Publication:
    return Publication(title, "text/plain", None, chunks, 2 * chunks, table, keep_seconds=3600)


async def publish(harness: IngestHarness, job: Job) -> Published:
    await harness.worker.begin(job)
    table = await stage(harness, job)
    return await harness.worker.publish(job, publication(table))


async def expire(harness: IngestHarness) -> None:
    await harness.owner.execute(
        "UPDATE corpus.ingest_jobs SET lease_until = now() - interval '1 s' WHERE state = 'running'"
    )
    assert await harness.worker.requeue_expired() == 1


async def test_a_job_is_claimed_once_however_many_workers_ask(harness: IngestHarness) -> None:
    for index in range(12):
        await harness.upload(f"{index}.txt", "text", tenant=ACME if index % 2 else OTHER)

    async def claim_all() -> list[Job]:
        mine: list[Job] = []
        while job := await harness.worker.claim("ingest", worker="w", lease_seconds=60):
            mine.append(job)
        return mine

    results = [job for jobs in await asyncio.gather(*(claim_all() for _ in range(6))) for job in jobs]
    assert len(results) == 12
    assert len({job.job_id for job in results}) == 12


async def test_organisations_take_turns(harness: IngestHarness) -> None:
    for index in range(5):
        await harness.upload(f"{index}.txt", "text", tenant=ACME)
    for index in range(2):
        await harness.upload(f"{index}.txt", "text", tenant=OTHER)
    order: list[str] = []
    for _ in range(7):
        job = await claim(harness)
        order.append(job.tenant.org_id)
        await harness.worker.fail(job, IngestError(IngestCode.EMPTY, "Empty."))
    # No organisation waits for another's whole queue: after each of acme's first two jobs, it is other's turn.
    assert order == ["acme", "other", "acme", "other", "acme", "acme", "acme"]


async def test_organisations_with_running_jobs_wait_for_those_without(harness: IngestHarness) -> None:
    for index in range(3):
        await harness.upload(f"{index}.txt", "text", tenant=ACME)
    assert [(await claim(harness)).tenant.org_id for _ in range(2)] == ["acme", "acme"]
    await harness.upload("late.txt", "text", tenant=OTHER)
    assert [(await claim(harness)).tenant.org_id for _ in range(2)] == ["other", "acme"]


async def test_a_job_carries_the_uploads_tenant_and_trace(harness: IngestHarness) -> None:
    document_id = await harness.upload("a.txt", "text", tenant=OTHER)
    await harness.owner.execute(
        """UPDATE corpus.ingest_jobs SET trace_context = '{"traceparent": "00-1-2-01", "x-request-id": "r1"}'"""
    )
    job = await claim(harness)
    assert (job.document_id, job.version, job.attempt, job.tenant) == (document_id, 1, 1, OTHER)
    assert job.trace_context == {"traceparent": "00-1-2-01", "x-request-id": "r1"}


async def test_a_retried_job_waits_for_its_delay(harness: IngestHarness) -> None:
    await harness.upload("a.txt", "text")
    await harness.worker.retry(await claim(harness), delay_seconds=3600)
    assert await harness.worker.claim("ingest", worker="w", lease_seconds=60) is None
    assert (await harness.worker.queue_state()).depth == 0


async def test_the_queue_is_measured(harness: IngestHarness) -> None:
    assert (await harness.worker.queue_state()).depth == 0
    await harness.upload("a.txt", "text")
    await harness.upload("b.txt", "text", tenant=OTHER)
    await harness.owner.execute("UPDATE corpus.ingest_jobs SET next_run_at = now() - interval '90 s'")
    state = await harness.worker.queue_state()
    assert state.depth == 2
    assert 89 < state.oldest_seconds < 120


async def test_an_ending_worker_gives_its_jobs_back(harness: IngestHarness) -> None:
    await harness.upload("a.txt", "text")
    await harness.upload("b.txt", "text")
    mine = await claim(harness)
    other = await harness.worker.claim("ingest", worker="other", lease_seconds=60)
    assert other is not None
    assert await harness.worker.release_all("test") == 1
    assert not await harness.worker.renew(mine, lease_seconds=60)
    assert await harness.worker.renew(other, lease_seconds=60)
    assert (await claim(harness)).attempt == 1


async def test_rows_that_the_database_refuses_are_not_logged(
    harness: IngestHarness, caplog: pytest.LogCaptureFixture
) -> None:
    await harness.upload("a.txt", "text")
    job = await claim(harness)
    await harness.worker.begin(job)
    table = await harness.worker.ensure_space(SPACE)
    wrong = [replace(chunk, text="secret words", char_start=-1) for chunk in make_chunks(1)]
    with pytest.raises(Internal) as caught:
        await harness.worker.stage(job, table, wrong, np.ones((1, 4), np.float32), 1)
    assert "secret" not in "".join(traceback.format_exception(caught.value))
    assert "secret" not in caplog.text


async def test_a_worker_whose_lease_has_passed_writes_nothing(harness: IngestHarness) -> None:
    document_id = await harness.upload("a.txt", "text")
    stale = await claim(harness)
    await harness.worker.begin(stale)
    table = await stage(harness, stale)
    await expire(harness)
    fresh = await claim(harness)
    assert fresh.fence > stale.fence
    for write in (
        harness.worker.begin(stale),
        harness.worker.progress(stale, "embed", 1, 2),
        harness.worker.save_text(stale, "text"),
        harness.worker.stage(stale, table, make_chunks(1, start=3), np.ones((1, 4), np.float32), 4),
        harness.worker.publish(stale, publication(table)),
        harness.worker.fail(stale, IngestError(IngestCode.EMPTY, "Empty.")),
        harness.worker.retry(stale, delay_seconds=0),
        harness.worker.clear(stale),
    ):
        with pytest.raises(LeaseLostError):
            await write
    assert not await harness.worker.renew(stale, lease_seconds=60)
    assert await harness.worker.renew(fresh, lease_seconds=60)
    assert len(await harness.chunks(document_id)) == 3
    assert (await harness.document(document_id))["live_version"] is None
    assert await harness.worker.publish(fresh, publication(table)) is Published.LIVE


async def test_a_worker_that_comes_back_after_its_lease_but_before_another_writes_nothing(
    harness: IngestHarness,
) -> None:
    document_id = await harness.upload("a.txt", "text")
    stale = await claim(harness)
    await harness.worker.begin(stale)
    table = await stage(harness, stale)
    await expire(harness)
    with pytest.raises(LeaseLostError):
        await harness.worker.publish(stale, publication(table))
    assert (await harness.document(document_id))["live_version"] is None


async def test_publishing_changes_all_or_nothing(harness: IngestHarness) -> None:
    document_id = await harness.upload("a.txt", "text")
    job = await claim(harness)
    await harness.worker.begin(job)
    table = await stage(harness, job)
    await harness.owner.execute("ALTER TABLE corpus.documents ADD CONSTRAINT stop CHECK (live_version IS NULL)")
    with pytest.raises(Internal):
        await harness.worker.publish(job, publication(table))
    version = await harness.version(document_id)
    assert (version["status"], version["finished_at"]) == ("processing", None)
    assert await harness.rows("SELECT FROM corpus.org_spaces") == []
    await harness.owner.execute("ALTER TABLE corpus.documents DROP CONSTRAINT stop")
    assert await harness.worker.publish(job, publication(table, title="Found")) is Published.LIVE
    document = await harness.document(document_id)
    assert (document["live_version"], document["title"], document["live_chunks"]) == (1, "Found", 3)


async def test_an_older_version_that_ends_later_does_not_go_live(harness: IngestHarness) -> None:
    document_id = await harness.upload("a.txt", "text")
    old = await claim(harness)
    await harness.worker.begin(old)
    table = await stage(harness, old)
    await harness.upload("a.txt", "newer text", document_id=document_id)
    assert await publish(harness, await claim(harness)) is Published.LIVE
    assert await harness.worker.publish(old, publication(table)) is Published.OVERTAKEN
    assert (await harness.document(document_id))["live_version"] == 2
    assert {row["version"] for row in await harness.vectors(document_id)} == {2}
    version = await harness.version(document_id, 1)
    assert (version["status"], version["superseded_at"] is not None) == ("ready", True)


async def test_a_space_that_changed_meanwhile_is_not_published_into(harness: IngestHarness) -> None:
    document_id = await harness.upload("a.txt", "text")
    job = await claim(harness)
    await harness.worker.begin(job)
    table = await stage(harness, job)
    other = await harness.worker.ensure_space(Space("other", "r1", 4))
    await harness.owner.execute(
        "INSERT INTO corpus.org_spaces (org_id, live_space_id) VALUES ('acme', %s)", (other.space_id,)
    )
    assert await harness.worker.publish(job, publication(table)) is Published.OTHER_SPACE
    assert (await harness.document(document_id))["live_version"] is None
    assert (await harness.version(document_id))["status"] == "processing"


async def test_a_failed_version_keeps_its_bytes_and_nothing_else(harness: IngestHarness) -> None:
    document_id = await harness.upload("a.txt", "text")
    job = await claim(harness)
    await harness.worker.begin(job)
    await harness.worker.save_text(job, "text")
    await stage(harness, job)
    await harness.worker.fail(job, IngestError(IngestCode.NO_TEXT, "No text."))
    version = await harness.version(document_id)
    assert (version["status"], version["error_code"], version["error_message"]) == ("failed", "NO_TEXT", "No text.")
    assert await harness.chunks(document_id) == []
    assert await harness.vectors(document_id) == []
    assert await harness.text(document_id) == ""
    assert len(await harness.rows("SELECT FROM corpus.originals")) == 1


async def test_a_sweep_never_takes_a_live_version(harness: IngestHarness) -> None:
    document_id = await harness.upload("a.txt", "text")
    await publish(harness, await claim(harness))
    await harness.owner.execute(
        "INSERT INTO corpus.ingest_jobs (org_id, document_id, version, kind, user_id)"
        " VALUES ('acme', %s, 1, 'sweep', 'ann')",
        (document_id,),
    )
    job = await harness.worker.claim("sweep", worker="w", lease_seconds=60)
    assert job is not None
    await harness.worker.sweep(job)
    assert len(await harness.chunks(document_id)) == len(await harness.vectors(document_id)) == 3
    assert (await harness.row("SELECT state FROM corpus.ingest_jobs WHERE kind = 'sweep'"))["state"] == "done"


async def test_deleting_a_document_and_staging_it_do_not_deadlock(harness: IngestHarness, database: HasDsn) -> None:
    jobs: list[Job] = []
    for index in range(8):
        await harness.upload(f"{index}.txt", "text")
        job = await claim(harness)
        await harness.worker.begin(job)
        jobs.append(job)
    await harness.worker.ensure_space(SPACE)

    async def write(job: Job) -> None:
        try:
            for start in range(0, 30, 3):
                await stage(harness, job, start=start)
        except LeaseLostError:
            return

    async with IngestHarness.open(database) as deleter:

        async def delete() -> None:
            for job in jobs:
                await deleter.owner.execute("DELETE FROM corpus.documents WHERE document_id = %s", (job.document_id,))

        await asyncio.gather(delete(), *(write(job) for job in jobs))
    assert await harness.rows("SELECT FROM corpus.chunks") == []
    assert await harness.rows("SELECT FROM corpus.vectors_1") == []


async def test_the_worker_sees_no_content_without_its_tenant(harness: IngestHarness, database: HasDsn) -> None:
    await harness.upload("a.txt", "text")
    async with await psycopg.AsyncConnection.connect(database.dsn("citewire_worker"), autocommit=True) as connection:
        for table in ("documents", "versions", "originals", "texts", "chunks"):
            query = sql.SQL("SELECT count(*) FROM {}").format(sql.Identifier("corpus", table))
            rows = await (await connection.execute(query)).fetchone()
            assert rows == (0,), table
        jobs = await (await connection.execute("SELECT count(*) FROM corpus.ingest_jobs")).fetchone()
        assert jobs == (1,)
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            await connection.execute("UPDATE corpus.ingest_jobs SET org_id = 'other'")
