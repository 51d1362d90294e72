"""Uploads, publishes, replaces and deletes on a Citus cluster; no statement asks more than one shard."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import psycopg
from citewire.common.v1.place_pb2 import Place
from psycopg import sql

from citewire_kit.postgres import open_pool
from citewire_kit.tenant import Tenant
from citewire_retriever.ingest.backfill.store import PostgresBackfillStore
from citewire_retriever.ingest.chunks import Chunk
from citewire_retriever.ingest.errors import IngestCode, IngestError
from citewire_retriever.ingest.model import Publication, Published
from citewire_retriever.model import Changes, Space
from citewire_retriever.store.collections import PostgresCollections
from citewire_retriever.store.storage import PostgresStorage
from ingest_harness import ACME, OTHER, IngestHarness
from one_shard import OneShard
from waiting import BUSY_SECONDS

if TYPE_CHECKING:
    from citus_cluster import CitusCluster
    from databases import Database

SPACE = Space("fake", "r1", 4)
OWNER = Tenant("acme", "ann", "pro", roles=("owner",))


async def publish(harness: IngestHarness) -> Published:
    """Claims the next job and publishes three chunks."""
    job = await harness.worker.claim("ingest", worker="test", lease_seconds=60)
    assert job is not None
    await harness.worker.begin(job)
    table = await harness.worker.ensure_space(SPACE)
    await harness.worker.save_text(job, "Text 0 Text 1 Text 2")
    chunks = [
        Chunk(
            index=index,
            text=f"Text {index}",
            token_count=2,
            content_hash=hashlib.sha256(f"Text {index}".encode()).digest(),
            section="A > B",
            place=Place(start_line=index + 1, end_line=index + 1),
            char_start=index * 7,
            char_end=index * 7 + 6,
            verbatim=True,
            header="Title",
        )
        for index in range(3)
    ]
    await harness.worker.stage(job, table, chunks, np.eye(4, dtype=np.float32)[:3], 3)
    return await harness.worker.publish(job, Publication(None, "text/plain", None, 3, 6, table, keep_seconds=3600))


async def test_a_document_is_published_replaced_and_deleted_on_one_shard(citus_database: Database) -> None:
    database = OneShard(citus_database)
    async with IngestHarness.open(database) as harness:
        other_id = await harness.upload("other.txt", "text", tenant=OTHER)
        assert await publish(harness) is Published.LIVE
        document_id = await harness.upload("a.txt", "text")
        assert await publish(harness) is Published.LIVE
        await harness.upload("a.txt", "new text", document_id=document_id)
        assert await publish(harness) is Published.LIVE
        assert [row["version"] for row in await harness.vectors(document_id)] == [2, 2, 2]
        sweep = await harness.row("SELECT version FROM corpus.ingest_jobs WHERE kind = 'sweep'")
        assert sweep["version"] == 1
        # On one Postgres, triggers do this: an organisation with a new space is checked for missing vectors.
        due = await harness.rows("SELECT org_id FROM corpus.backfill_checks ORDER BY org_id")
        assert [row["org_id"] for row in due] == ["acme", "other"]
        terms = await harness.row("SELECT chunks FROM corpus.term_counts WHERE org_id = 'acme' AND term = 0")
        assert terms["chunks"] == 3
        read = await harness.documents.get(ACME, document_id)
        assert read is not None
        assert (read.document.live_version, read.document.chunks) == (2, 3)
        assert not await harness.documents.delete(OTHER, document_id)
        assert await harness.documents.delete(ACME, document_id)
        for table in ("documents", "versions", "originals", "texts", "chunks", "lexical", "vectors_1", "ingest_jobs"):
            assert await harness.count(table, document_id) == 0, table
            assert await harness.count(table, other_id) > 0, table


async def test_an_upload_whose_job_was_lost_is_queued_again(citus_database: Database) -> None:
    """Its transaction commits on the node first: the coordinator may go away before it has the job."""
    async with IngestHarness.open(citus_database) as harness:
        document_id = await harness.upload("a.txt", "text", request_id="r1")
        await harness.upload("b.txt", "text")
        await harness.rows("DELETE FROM corpus.ingest_jobs WHERE org_id = 'acme' RETURNING 1")
        assert await harness.upload("a.txt", "text", request_id="r1") == document_id  # acknowledged only now
        [job] = await harness.rows("SELECT document_id, kind, state, user_id FROM corpus.ingest_jobs")
        assert job == {"document_id": document_id, "kind": "ingest", "state": "queued", "user_id": ACME.user_id}
        assert await publish(harness) is Published.LIVE
        assert await harness.upload("a.txt", "text", request_id="r1") == document_id
        assert await harness.worker.claim("ingest", worker="test", lease_seconds=60) is None
        # The other one was never acknowledged, but would wait for ever.
        async with await open_pool(citus_database.dsn("citewire_worker"), max_size=1, name="test") as pool:
            backfill = PostgresBackfillStore(pool)
            await backfill.take_due(60)  # as in each survey; the pool has then connected
            assert await backfill.queue_missing("acme", most=10) == 0, "its transaction might not be over"
            await harness.rows("UPDATE corpus.versions SET created_at = now() - interval '1 hour' RETURNING 1")
            assert await backfill.queue_missing("acme", most=10) == 1
            assert await backfill.queue_missing("acme", most=10) == 0
        assert await publish(harness) is Published.LIVE


async def test_a_publication_that_only_its_node_has_is_completed(citus_database: Database) -> None:
    """The coordinator may go away between the node's commit and its own, and then has the version's job as before."""
    async with IngestHarness.open(citus_database) as harness:
        document_id = await harness.upload("a.txt", "text")
        assert await publish(harness) is Published.LIVE
        await harness.upload("a.txt", "new text", document_id=document_id)
        assert await publish(harness) is Published.LIVE
        jobs = "SELECT version, kind, state FROM corpus.ingest_jobs ORDER BY version, kind"
        after = await harness.rows(jobs)
        assert {"version": 1, "kind": "sweep", "state": "queued"} in after
        await harness.rows("DELETE FROM corpus.ingest_jobs WHERE kind <> 'ingest' RETURNING 1")
        await harness.rows("UPDATE corpus.ingest_jobs SET state = 'queued' WHERE version = 2 RETURNING 1")
        job = await harness.worker.claim("ingest", worker="test", lease_seconds=60)
        assert job is not None
        await harness.worker.begin(job)
        table = await harness.worker.ensure_space(SPACE)
        publication = Publication(None, "text/plain", None, 3, 6, table, keep_seconds=3600)
        assert await harness.worker.publish(job, publication) is Published.LIVE
        assert await harness.rows(jobs) == after
        assert [row["version"] for row in await harness.vectors(document_id)] == [2, 2, 2]


async def test_a_job_whose_version_is_gone_is_forgotten(citus_database: Database) -> None:
    """A deletion, too, commits on the node first, and jobs have no foreign key."""
    async with IngestHarness.open(citus_database) as harness:
        await harness.upload("a.txt", "text")
        job = await harness.worker.claim("ingest", worker="test", lease_seconds=60)
        assert job is not None
        assert not await harness.worker.forget_orphan(job)
        await harness.rows("DELETE FROM corpus.documents WHERE org_id = 'acme' RETURNING 1")
        assert not await harness.worker.forget_orphan(replace(job, fence=job.fence - 1))
        assert await harness.worker.forget_orphan(job)
        assert await harness.rows("SELECT 1 FROM corpus.ingest_jobs") == []


async def test_watchers_are_notified_of_changes_by_the_stores(citus_database: Database) -> None:
    """Triggers do so on one Postgres; a shard can't notify."""
    async with IngestHarness.open(OneShard(citus_database)) as harness:
        pool = await open_pool(citus_database.dsn("citewire_corpus"), max_size=1, name="test")
        listener = await psycopg.AsyncConnection.connect(citus_database.owner_dsn, autocommit=True)
        async with pool, listener:
            await listener.execute("LISTEN citewire_corpus_progress")

            async def notifications() -> set[str]:
                first = [notice.payload async for notice in listener.notifies(timeout=BUSY_SECONDS, stop_after=1)]
                return {*first, *[notice.payload async for notice in listener.notifies(timeout=0)]}

            document_id = await harness.upload("a.txt", "text", tenant=OWNER)
            me = {f"acme {document_id}"}
            assert await notifications() == me
            assert await publish(harness) is Published.LIVE
            assert await notifications() == me
            await harness.documents.update(OWNER, document_id, Changes(tags=("red",), collection="Shared"))
            assert await notifications() == me
            await harness.upload("a.txt", "new text", document_id=document_id, tenant=OWNER)
            assert await notifications() == me
            job = await harness.worker.claim("ingest", worker="test", lease_seconds=60)
            assert job is not None
            await harness.worker.fail(job, IngestError(IngestCode.CORRUPT, "no"))
            assert await notifications() == me
            await harness.documents.retry(OWNER, document_id)
            assert await notifications() == me
            assert (await harness.documents.erase_owner(OWNER, "ann", "eve", "Eve"))[0] == 1
            assert await notifications() == me
            assert await PostgresCollections(pool).delete(OWNER, "Shared", force=True) == 1
            assert await notifications() == me
            assert not await harness.documents.delete(OWNER, document_id)
            other_id = await harness.upload("b.txt", "text", tenant=OWNER)
            assert await notifications() == {f"acme {other_id}"}
            assert await harness.documents.delete(OWNER, other_id)
            assert await notifications() == {f"acme {other_id}"}


async def test_queries_by_nodes_stay_on_one_shard(citus_cluster: CitusCluster, citus_database: Database) -> None:
    """Triggers and policies run on a node; any of these calls would fail if one asked other nodes' shards."""
    for worker in citus_cluster.workers:
        worker.execute(
            sql.SQL("ALTER DATABASE {} SET citus.multi_task_query_log_level = 'error'").format(
                sql.Identifier(citus_database.name)
            )
        )
    async with IngestHarness.open(citus_database) as harness:
        for org in ("acme", "other", "third", "fourth"):  # on several shards
            tenant = Tenant(org, "ann", "pro")
            await PostgresCollections(harness.corpus).create(tenant, "c", enrich=False)
            upload = partial(harness.upload, "a.txt", collection="c", tags=("red", "blue"), tenant=tenant)
            document_id = await upload(data="text")
            assert await publish(harness) is Published.LIVE
            await upload(data="new text", document_id=document_id)
            assert await publish(harness) is Published.LIVE
            used = await PostgresStorage(harness.corpus, None).used(tenant)
            assert (used.org_bytes, used.user_bytes) == (12, 12)
            await PostgresCollections(harness.corpus).set_grants(tenant, "c", [("user:ann", "manage")])
            assert await harness.documents.delete(tenant, document_id)
            assert (await PostgresStorage(harness.corpus, None).used(tenant)).org_bytes == 0


async def test_a_library_is_sampled_on_one_shard(citus_database: Database) -> None:
    """Done as the worker's role, to which row-level security applies."""
    database = OneShard(citus_database)
    async with IngestHarness.open(database) as harness:
        pool = await open_pool(database.dsn("citewire_worker"), max_size=1, name="test")
        async with pool:
            store = PostgresBackfillStore(pool)
            for org in ("acme", "other"):
                await harness.upload("a.txt", "text", tenant=Tenant(org, "ann", "pro"))
                assert await publish(harness) is Published.LIVE
                await store.sample_centroids(org, await harness.worker.ensure_space(SPACE))
        sampled = (
            "SELECT org_id, collection_id, chunks, l2_norm(centroid) > 0.5 AS long FROM corpus.centroids ORDER BY 1"
        )
        assert [tuple(row.values()) for row in await harness.rows(sampled)] == [
            ("acme", 0, 3, True),
            ("other", 0, 3, True),
        ]


def test_ids_come_from_the_coordinator(citus_database: Database) -> None:
    """A worker's would be too large for JSON's numbers."""
    with psycopg.connect(citus_database.owner_dsn) as connection:
        drawn = [
            row[0]
            for org in range(8)
            for row in connection.execute(
                "INSERT INTO corpus.documents (org_id, owner, type, title, title_given)"
                " VALUES (%s, 'u', 'file', 't', true) RETURNING document_id",
                (f"org{org}",),
            ).fetchall()
        ]
    assert len(set(drawn)) == 8
    assert max(drawn) < 2**53
