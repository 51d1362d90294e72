"""Ingest in fair shares: by organisation, then interactive uploads first; a long file gives its slot back."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator

import pytest
from prometheus_client import REGISTRY

from citewire_retriever.ingest import turn
from citewire_retriever.ingest.errors import IngestCode, IngestError
from citewire_retriever.ingest.model import Job, LeaseLostError
from databases import HasDsn
from fake_embedding import FakeModel
from ingest_harness import (
    ACME,
    OTHER,
    WINDOW,
    IngestHarness,
    article,
    embedder_address,
    running_worker,
    worker_settings,
)
from waiting import wait_until

PREVIOUS_QUEUE_JOB = """
INSERT INTO corpus.ingest_jobs (org_id, document_id, version, user_id, plan, trace_context)
VALUES (%(org_id)s, %(document_id)s, %(version)s, 'ann', 'pro', '{}')
ON CONFLICT (org_id, document_id, version, kind) DO UPDATE
SET state = 'queued', attempts = 0, next_run_at = now(), worker = NULL, lease_until = NULL,
    fence = corpus.ingest_jobs.fence + 1, created_at = now(), updated_at = now()
"""


@pytest.fixture
async def harness(database: HasDsn) -> AsyncIterator[IngestHarness]:
    async with IngestHarness.open(database) as opened:
        yield opened


async def claim(harness: IngestHarness, *, most_bytes: int | None = None) -> Job | None:
    return await harness.worker.claim("ingest", worker="test", lease_seconds=60, most_bytes=most_bytes)


async def serve(harness: IngestHarness, seconds: dict[str, float]) -> str:
    """Claims a job, completes it, and charges its organisation's seconds per job; returns the organisation."""
    job = await claim(harness)
    assert job is not None
    org_id = job.tenant.org_id
    await harness.worker.fail(job, IngestError(IngestCode.EMPTY, "Empty."))
    await harness.worker.charge({org_id: seconds[org_id] - 0.1})
    return org_id


async def age(harness: IngestHarness, seconds: float) -> None:
    """Makes everything in the queue older."""
    await harness.owner.execute(
        "UPDATE corpus.ingest_jobs SET created_at = created_at - make_interval(secs => %s),"
        " next_run_at = next_run_at - make_interval(secs => %s)",
        (seconds, seconds),
    )


async def test_an_upload_overtakes_a_bulk_of_its_own_organisation(harness: IngestHarness) -> None:
    for number in range(60):
        await harness.upload(f"{number}.txt", "bulk")
    await age(harness, 30)
    single = await harness.upload("single.txt", "single")
    lanes = Counter(row["lane"] for row in await harness.rows("SELECT lane FROM corpus.ingest_jobs"))
    assert lanes == {"bulk": 55, "interactive": 6}
    order = [job.document_id for _ in range(10) if (job := await claim(harness)) is not None]
    assert order.index(single) == 5, (
        "it should come after the five before it in its lane; without lanes it would be 60th"
    )


async def test_shares_count_work_not_documents(harness: IngestHarness) -> None:
    for number in range(12):
        await harness.upload(f"{number}.txt", "text", tenant=ACME)
        await harness.upload(f"{number}.txt", "text", tenant=OTHER)
    costs = {"acme": 10.0, "other": 2.0}
    served = Counter([await serve(harness, costs) for _ in range(12)])
    assert served == {"acme": 2, "other": 10}, "five of its jobs cost as much as one of the other's"


async def test_a_late_organisation_gets_no_credit(harness: IngestHarness) -> None:
    for number in range(20):
        await harness.upload(f"{number}.txt", "text", tenant=ACME)
    costs = {"acme": 10.0, "other": 10.0}
    for _ in range(10):
        assert await serve(harness, costs) == "acme"
    for number in range(8):
        await harness.upload(f"{number}.txt", "text", tenant=OTHER)
    served = [await serve(harness, costs) for _ in range(8)]
    assert served[:2].count("other") >= 1
    assert Counter(served)["other"] in {4, 5}


async def test_the_reserved_slot_takes_small_files_of_idle_organisations(harness: IngestHarness) -> None:
    await harness.upload("first.txt", "text", tenant=ACME)
    assert await claim(harness, most_bytes=1000) is None, "while nothing is running, the other slots are open to all"
    assert await claim(harness) is not None
    await harness.upload("second.txt", "text", tenant=ACME)
    await harness.upload("large.txt", "x" * 5000, tenant=OTHER)
    assert await claim(harness, most_bytes=1000) is None
    await harness.upload("small.txt", "x" * 1000, tenant=OTHER)
    job = await claim(harness, most_bytes=1000)
    assert job is not None
    assert (await harness.version(job.document_id))["file_name"] == "small.txt"
    assert await claim(harness, most_bytes=1000) is None


async def test_the_previous_version_can_queue_and_claim_alongside_this_one(harness: IngestHarness) -> None:
    document_id = await harness.upload("a.txt", "text")
    values = {"org_id": "acme", "document_id": document_id, "version": 1}
    await harness.owner.execute("DELETE FROM corpus.ingest_jobs")
    await harness.upload("b.txt", "text", tenant=OTHER)
    assert await claim(harness) is not None
    await harness.owner.execute(PREVIOUS_QUEUE_JOB, values)
    job = await claim(harness, most_bytes=10)
    assert job is not None
    assert job.lane == "bulk"
    await harness.owner.execute(PREVIOUS_QUEUE_JOB, values)
    with pytest.raises(LeaseLostError):
        await harness.worker.pass_on(job)


async def test_a_job_at_the_end_of_its_turn_is_requeued_and_keeps_its_fence(harness: IngestHarness) -> None:
    first = await harness.upload("first.txt", "text")
    second = await harness.upload("second.txt", "text")
    job = await claim(harness)
    assert job is not None
    assert job.document_id == first
    assert await harness.worker.is_waited_for(job)
    await harness.worker.pass_on(job)
    with pytest.raises(LeaseLostError):
        await harness.worker.pass_on(job)
    again = [await claim(harness) for _ in range(2)]
    assert [job and (job.document_id, job.lane) for job in again] == [(second, "interactive"), (first, "bulk")]
    assert again[1] is not None
    assert (again[1].attempt, again[1].fence) == (1, job.fence + 1)
    assert not await harness.worker.is_waited_for(again[1])


def slow(model: FakeModel, seconds: float) -> None:
    """Makes each batch take this long."""
    embed = model.embed

    async def later(texts: object) -> object:
        await asyncio.sleep(seconds)
        return await embed(texts)  # pyright: ignore[reportArgumentType] # passed on as it came

    model.embed = later  # pyright: ignore[reportAttributeAccessIssue] # as a subclass would


async def test_a_long_document_gives_its_slot_back_and_continues_from_its_stored_part(
    harness: IngestHarness, database: HasDsn, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(turn, "_TURNS_PER_READING", 0.0)  # on a busy machine, the process that reads starts slowly
    model = FakeModel(window=WINDOW)
    slow(model, 0.05)
    async with embedder_address(model) as embedder:
        ways = {"small_bytes": 0, "turn_seconds": 0.1, "poll_seconds": 0.05, "stream_batches": 64}
        settings = worker_settings(database, embedder, concurrency=1, backfill_seconds=0, **ways)
        long = await harness.upload("long.md", article(150), tenant=ACME)
        async with running_worker(settings):
            await wait_until(lambda: model.texts_computed > 8, 20)
            short = await harness.upload("short.md", article(1), tenant=OTHER)
            await harness.until(short, "ready")
            assert (await harness.version(long))["status"] == "processing"
            version = await harness.until(long, "ready", seconds=60)
    chunks = await harness.chunks(long)
    assert version["chunks"] == len(chunks) == len(await harness.vectors(long))
    assert [chunk["chunk_index"] for chunk in chunks] == list(range(len(chunks)))
    others = len(await harness.chunks(short))
    assert model.texts_computed == len(chunks) + others, "nothing was embedded twice"
    assert REGISTRY.get_sample_value("citewire_ingest_jobs_total", {"kind": "ingest", "outcome": "passed_on"})


async def test_another_worker_continues_a_long_document(harness: IngestHarness, database: HasDsn) -> None:
    model = FakeModel(window=WINDOW)
    slow(model, 0.02)
    async with embedder_address(model) as embedder:
        settings = worker_settings(database, embedder, concurrency=1, turn_seconds=0.1, poll_seconds=0.05)
        long = await harness.upload("long.md", article(40), tenant=ACME)
        async with running_worker(settings), running_worker(settings):
            for number in range(6):
                await harness.upload(f"{number}.md", article(2), tenant=OTHER)
            await harness.until(long, "ready", seconds=60)
    assert len(await harness.chunks(long)) == len(await harness.vectors(long))


async def test_a_small_file_does_not_wait_for_slots_that_long_ones_hold(
    harness: IngestHarness, database: HasDsn
) -> None:
    model = FakeModel(window=WINDOW)
    async with embedder_address(model) as embedder:
        settings = worker_settings(database, embedder, concurrency=2, poll_seconds=0.05)
        model.gate.clear()  # no batch ends, so neither long document can give its slot back
        long = [await harness.upload(f"long{number}.md", article(20), tenant=ACME) for number in range(2)]
        async with running_worker(settings):
            for document_id in long:
                await harness.until(document_id, "processing")
            small = await harness.upload("small.md", article(1), tenant=OTHER)
            await harness.until(small, "processing")
            model.gate.set()
            for document_id in (small, *long):
                await harness.until(document_id, "ready", seconds=60)


async def test_each_organisation_has_its_share_of_the_slots(harness: IngestHarness, database: HasDsn) -> None:
    model = FakeModel(window=WINDOW)
    lost = REGISTRY.get_sample_value("citewire_ingest_jobs_total", {"kind": "ingest", "outcome": "lost"}) or 0

    async def of_acme() -> int:
        return len(await harness.rows("SELECT FROM corpus.ingest_jobs WHERE state = 'running' AND org_id = 'acme'"))

    async def is_working_for_acme() -> bool:
        return await of_acme() > 0

    async with embedder_address(model) as embedder:
        settings = worker_settings(database, embedder, concurrency=2, poll_seconds=0.05, lease_seconds=3)
        model.gate.clear()
        first = await harness.upload("first.md", article(1), tenant=OTHER)
        async with running_worker(settings):
            await harness.until(first, "processing")
            for number in range(6):
                await harness.upload(f"{number}.md", article(1), tenant=ACME)
            await wait_until(is_working_for_acme)
            await asyncio.sleep(
                0.5
            )  # ten times as long as a free slot waits; a shorter pause could miss a failure, but not cause one
            assert await of_acme() == 1
            assert await harness.documents.delete(OTHER, first)
            labels = {"kind": "ingest", "outcome": "lost"}
            await wait_until(lambda: (REGISTRY.get_sample_value("citewire_ingest_jobs_total", labels) or 0) > lost)
            second = await harness.upload("second.md", article(1), tenant=OTHER)
            await harness.until(second, "processing")
            model.gate.set()
            await harness.until(second, "ready", seconds=60)
