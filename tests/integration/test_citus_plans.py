"""Every named statement of search, reading, upload, claim and publish asks at most one node of a cluster.

Each statement that is sent is explained, as the role that sends it. A new statement in these files fails the test
until something here sends it, or it is listed below with the reason.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pytest
from citewire.common.v1.place_pb2 import Place
from citewire.retriever.v1.calibration_pb2 import Calibration

from citewire_kit.postgres import Pool, open_pool
from citewire_kit.tenant import Tenant
from citewire_retriever.filters import Comparison, Operator
from citewire_retriever.ingest.chunks import Chunk
from citewire_retriever.ingest.errors import IngestCode, IngestError
from citewire_retriever.ingest.model import Job, Publication, Published, VectorTable
from citewire_retriever.model import (
    Changes,
    DocumentQuery,
    ItemVersion,
    NewContent,
    Scope,
    SearchMode,
    SearchQuery,
    Space,
    Strategy,
)
from citewire_retriever.service.retrieval import RetrievalService
from citewire_retriever.store.collections import PostgresCollections
from citewire_retriever.store.filter_sql import VISIBLE
from citewire_retriever.store.recall import PostgresRecall
from citewire_retriever.store.sampling import Sample
from citewire_retriever.store.search import PostgresSearch
from citewire_retriever.store.spaces import PostgresSpaces
from citewire_retriever.store.storage import PostgresStorage
from citewire_retriever.tuning import IndexSearch, SearchTuning
from explained_statements import ON_COORDINATOR, ExplainedStatements, explain_statements
from ingest_harness import BytesSource, IngestHarness
from one_shard import OneShard

if TYPE_CHECKING:
    from databases import Database

STORE = "citewire_retriever.store"
FILES = {
    "search": (STORE, "sql/search.sql"),
    "lexical": (STORE, "sql/lexical.sql"),
    "recall": (STORE, "sql/recall.sql"),
    "topics": (STORE, "sql/topics.sql"),
    "content": (STORE, "sql/content.sql"),
    "documents": (STORE, "sql/documents.sql"),
    "collections": (STORE, "sql/collections.sql"),
    "storage": (STORE, "sql/storage.sql"),
    "spaces": (STORE, "sql/spaces.sql"),
    "jobs": (STORE, "sql/jobs.sql"),
    "ingest": ("citewire_retriever.ingest", "queries.sql"),
}
NOT_THERE = {
    "documents.enrichment_jobs": "a variant for one Postgres; enrichment_states is its twin",
    "ingest.supersede": "a variant for one Postgres; supersede_on_nodes is its twin",
}
SPACE, NEXT, UNKNOWN = (Space("fake", revision, 4) for revision in ("r1", "r2", "r3"))
OWNER = Tenant("acme", "ann", "pro", roles=("owner",))
SOME = Tenant("acme", "bob", "pro", roles=("reader",))
TUNINGS = (
    SearchTuning(),
    SearchTuning(exact_chunks=0, exact_chunks_per_candidate=0, lexical_scan_chunks=0),
)


def content(name: str, **changes: object) -> NewContent:
    return replace(NewContent(None, "file", name, "", "", "", (), None, ""), **changes)  # type: ignore[arg-type] # pyright: ignore[reportArgumentType] # fields of content


async def add(harness: IngestHarness, given: NewContent, text: str = "text") -> int:
    stored = await harness.uploads.add(OWNER, given, BytesSource(text.encode()))
    assert stored is not None
    return stored.document.document_id


async def claim(harness: IngestHarness, kind: str = "ingest") -> Job:
    job = await harness.worker.claim(kind, worker="test", lease_seconds=60)  # type: ignore[arg-type] # pyright: ignore[reportArgumentType] # kinds of jobs
    assert job is not None
    return job


def chunks(word: str) -> list[Chunk]:
    return [
        Chunk(
            index=index,
            text=f"{word} {index}",
            token_count=2,
            content_hash=hashlib.sha256(f"{word} {index}".encode()).digest(),
            section="A > B",
            place=Place(start_line=index + 1, end_line=index + 1),
            char_start=index * 10,
            char_end=index * 10 + 9,
            verbatim=True,
            header="Title",
        )
        for index in range(3)
    ]


async def stage(harness: IngestHarness, job: Job, *, copies: bool = False) -> VectorTable:
    worker = harness.worker
    version = await worker.begin(job)
    assert [part async for part in worker.read_original(job, version.size_bytes)]
    await worker.progress(job, "parse", 1, 2)
    table = await worker.ensure_space(SPACE)
    await worker.save_text(job, "Words 0   Words 1   ")
    await worker.save_text(job, "Words 2   ", first=20, part=1)
    await worker.clear(job)
    assert await worker.staged(job, table) == []
    given = chunks("Words")
    vectors: list[np.ndarray | int] = list(np.eye(4, dtype=np.float32)[:3])
    if copies:
        live = await harness.rows("SELECT chunk_id FROM corpus.vectors_1 WHERE document_id = %s", job.document_id)
        assert await worker.live_inputs(job, [b"0" * 16]) == {}
        vectors[0] = live[0]["chunk_id"]
    await worker.stage(job, table, given, vectors, 3)  # type: ignore[arg-type] # pyright: ignore[reportArgumentType] # vectors of numpy
    return table


async def publish(harness: IngestHarness, job: Job, *, copies: bool = False, further: bool = False) -> Published:
    table = await stage(harness, job, copies=copies)
    return await harness.worker.publish(job, Publication("Found", "text/plain", None, 3, 6, table, 0, further))


async def upload_and_publish(harness: IngestHarness) -> int:
    """Uploads, claims and publishes, with all possible steps in between; returns a live document."""
    worker = harness.worker
    first = content("a.txt", request_id="one", collection="Plans", readers=("user:bob",), tags=("red",))
    document_id = await add(harness, first)
    assert await add(harness, first) == document_id
    other_id = await add(harness, content("b.txt"))
    job = await claim(harness)
    assert await worker.renew(job, lease_seconds=60)
    assert await worker.is_waited_for(job)
    await worker.pass_on(job)
    job = await claim(harness)
    await worker.retry(job, delay_seconds=0)
    assert await worker.put_back(await claim(harness), delay_seconds=0)
    job = await claim(harness)
    assert not await worker.forget_orphan(replace(job, version=9, fence=0))  # another worker has it by now
    await worker.charge({job.tenant.org_id: 1.0})
    await publish(harness, job)
    job = await claim(harness)
    await worker.begin(job)
    await worker.fail(job, IngestError(IngestCode.CORRUPT, "no"))
    assert await harness.documents.retry(OWNER, job.document_id) is not None
    await publish(harness, await claim(harness))
    await add(harness, content("a.txt", document_id=document_id), "new text")
    assert await publish(harness, await claim(harness), copies=True, further=True) is Published.LIVE
    job = await claim(harness, "embed")
    assert await worker.live(job) is not None
    table = await worker.ensure_space(NEXT)
    missing = await worker.unembedded(job, table, 10)
    await worker.add_vectors(job, table, [chunk.chunk_id for chunk in missing], np.eye(4, dtype=np.float32)[:3])
    await worker.end_embedding(job, [table])
    await worker.sweep(await claim(harness, "sweep"))
    # Two versions; the newer one goes live first.
    await add(harness, content("b.txt", document_id=other_id), "2")
    early = await claim(harness)
    await add(harness, content("b.txt", document_id=other_id), "3")
    assert await publish(harness, await claim(harness)) is Published.LIVE
    assert await publish(harness, early) is Published.OVERTAKEN
    await worker.requeue_expired()
    await worker.release_all("test")
    assert (await worker.queue_state()).depth == 0
    return document_id


async def change(harness: IngestHarness, document_id: int, pool: Pool) -> None:
    """Changes, lists, shares and deletes."""
    documents, collections = harness.documents, PostgresCollections(pool)
    await collections.create(OWNER, "Later", enrich=False)
    await collections.update(OWNER, "Later", None, True)
    await collections.set_grants(OWNER, "Later", [("user:bob", "read")])
    assert await collections.grants(OWNER, "Later")
    assert await collections.page(OWNER, "", None, 10)
    changed = await documents.update(OWNER, document_id, Changes(title="New", file_name="c.txt", collection="Later"))
    assert changed is not None
    assert changed.document.version == 3
    assert await documents.find(OWNER, DocumentQuery(), None, 10)
    await publish(harness, await claim(harness))
    await harness.rows(
        "UPDATE corpus.ingest_jobs SET state = 'failed' WHERE kind = 'enrich' AND document_id = %s RETURNING 1",
        document_id,
    )
    await documents.retry(OWNER, document_id)
    await collections.create(OWNER, "Empty", enrich=False)
    await collections.delete(OWNER, "Empty", force=False)
    gone = await add(harness, content("gone.txt", collection="Gone"))
    await collections.delete(OWNER, "Gone", force=True)
    erased = await documents.erased(OWNER, [], 0)
    assert [document.document_id for document in erased] == [gone]
    await documents.erased(OWNER, [gone], 0)
    await harness.rows(
        "INSERT INTO corpus.stored_bytes (org_id, user_id, bytes) SELECT 'acme', 'ann', 0 FROM generate_series(1, 501)"
        " RETURNING 1"
    )
    await add(harness, content("d.txt"))
    assert await documents.delete(OWNER, document_id)


async def read(harness: IngestHarness, document_id: int, pool: Pool) -> None:
    """Reads originals, texts, chunks, plans and long context."""
    uploads = harness.uploads
    original = await uploads.find_original(OWNER, document_id, None)
    assert original is not None
    assert [part async for part in uploads.read(OWNER, original)]
    text = await uploads.find_text(OWNER, document_id, None)
    assert text is not None
    assert [part async for part in uploads.read_text(OWNER, text)]
    assert await uploads.find_chunks(OWNER, text, 0, 20)
    await uploads.read_span(OWNER, text, 0, 5)
    store = PostgresSearch(pool, SearchTuning())
    await store.ping()
    retrieval = RetrievalService(store)
    await retrieval.plan(OWNER, Scope(document_ids=(document_id,)), Strategy.LIBRARY, None, "red plans")
    assert [part async for part in retrieval.context(OWNER, Scope(), 1000)]
    assert await store.read_items(OWNER, [ItemVersion(document_id, 2)])
    assert await store.existing_documents(OWNER, [document_id]) == {document_id}
    assert await store.values(OWNER, Scope(), ["re", "Pl"])
    assert (await PostgresStorage(pool, None).used(OWNER)).user_bytes > 0


async def look_for(pool: Pool) -> None:
    """Searches in each mode, as everybody, with and without filters, by scan and by index."""
    asked = SearchQuery(Scope(), np.eye(4, dtype="<f4")[0].tobytes(), SPACE, "words 1 plans", top_k=2)
    red = Comparison("tags", (), Operator.CONTAINS, ("red",))
    for tuning in TUNINGS:
        store = PostgresSearch(pool, tuning)
        for tenant in (OWNER, SOME):
            for mode in SearchMode:
                for scope in (Scope(), Scope(collection="Plans"), Scope(filter=red)):
                    for by_document in (False, True):
                        query = replace(asked, mode=mode, scope=scope, by_document=by_document)
                        await store.search(tenant, query)
        query = replace(asked, recent=2)
        snapshot = await store.search(OWNER, query)
        ids = [candidate.chunk_id for candidate in snapshot.ranked]
        assert await store.chunks(OWNER, ids)
        assert await store.vectors(OWNER, SPACE, ids)
        await store.search(OWNER, replace(asked, mode=SearchMode.LEXICAL, vector=b"", space=None))
        await store.topics.library(OWNER, SPACE, "Plans", hidden=False)
    recall = PostgresRecall(pool, SearchTuning(), seconds=10)
    for by_document in (False, True):
        sample = Sample(OWNER, replace(asked, by_document=by_document), "vectors_1", IndexSearch(40, 40, scans=False))
        await recall.measure(sample)


async def switch(harness: IngestHarness, pool: Pool) -> None:
    """Switches to another space and calibrates it."""
    spaces = PostgresSpaces(pool)
    await spaces.prepare(OWNER, NEXT)
    await spaces.prepare(OWNER, UNKNOWN)
    await spaces.prepare(OWNER, SPACE)
    await spaces.prepare(OWNER, NEXT)
    await spaces.calibrate(OWNER, NEXT, Calibration(relevance_threshold=0.5))
    await spaces.calibrate(OWNER, NEXT, None)
    assert (await spaces.switch(OWNER, NEXT, force=True))[1]
    assert len(await spaces.spaces(OWNER)) == 2
    await harness.documents.erase_old(OWNER, 1, expired=False)
    await harness.documents.erase_old(OWNER, 1, expired=True)


async def erase(harness: IngestHarness) -> None:
    documents = harness.documents
    assert (await documents.erase_owner(OWNER, "ann", "eve", "Eve"))[1]
    assert (await documents.erase_owner(OWNER, "eve", "", "nobody"))[1]
    assert (await documents.erase_owner(OWNER, "", "", ""))[1]
    left = [
        row["relname"]
        for row in await harness.rows(
            "SELECT c.relname FROM pg_class c WHERE c.relnamespace = 'corpus'::regnamespace AND c.relkind = 'r'"
            " AND EXISTS (SELECT FROM pg_attribute a WHERE a.attrelid = c.oid AND a.attname = 'org_id')"
        )
        if await harness.rows(f"SELECT 1 FROM corpus.{row['relname']} WHERE org_id = 'acme' LIMIT 1")  # noqa: S608 # our own names
    ]
    assert left == []


async def test_every_named_statement_asks_one_node_at_most(citus_database: Database) -> None:
    database = OneShard(citus_database)
    with explain_statements(FILES) as statements:
        async with IngestHarness.open(database) as harness:
            pool = await open_pool(database.dsn("citewire_corpus"), max_size=2, name="read", resolved=VISIBLE)
            async with pool:
                document_id = await upload_and_publish(harness)
                await read(harness, document_id, pool)
                await look_for(pool)
                await change(harness, document_id, pool)
                await switch(harness, pool)
            await erase(harness)
    check(statements)


def check(statements: ExplainedStatements) -> None:
    """Checks that each was sent, except those that can't be, and to at most one node."""
    assert set(statements.names) - set(statements.tasks) == set(NOT_THERE)
    spread = {name: tasks for name, tasks in statements.tasks.items() if not tasks <= {ON_COORDINATOR, 1}}
    assert spread == {}
    # Only the queue is on the coordinator; the tables for search aren't.
    assert statements.tasks["ingest.claim"] == {ON_COORDINATOR}
    for name in ("search.walk", "search.nearest_chunks", "search.get_chunks", "search.item_chunks", "lexical.weights"):
        assert statements.tasks[name] == {1}, name
    for name in ("ingest.version_ready", "ingest.document_live", "ingest.insert_chunks", "ingest.insert_vector"):
        assert statements.tasks[name] == {1}, name


async def test_missing_statements_and_statements_for_several_nodes_are_noticed(citus_database: Database) -> None:
    """Tests the check that the test above relies on."""
    everywhere = "SELECT count(*) AS everywhere FROM corpus.documents"
    with explain_statements({"content": FILES["content"]}) as statements:
        statements.names["everywhere"] = re.compile(re.escape(everywhere))
        async with IngestHarness.open(OneShard(citus_database)) as harness:
            assert await harness.uploads.find_original(OWNER, 1, None) is None
            assert dict(statements.tasks) == {"content.find_original": {1}}
            await harness.rows(everywhere)
    assert statements.tasks["everywhere"] == {4}  # as many as there are shards
    with pytest.raises(AssertionError, match=r"content\."):
        check(statements)
