"""CorpusService.WatchDocument over a real gRPC server and a real Postgres."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from typing import TYPE_CHECKING

import psycopg
import pytest
from citewire.retriever.v1 import corpus_pb2 as pb

from citewire_kit import client
from citewire_kit.tenant import Tenant, use_tenant
from retriever_process import Caller, running_retriever

if TYPE_CHECKING:
    from databases import Database

MINE = Tenant("acme", "ada", "pro")


@pytest.fixture
def retriever_settings() -> dict[str, int]:
    return {"watch_poll_seconds": 30}


@pytest.mark.one_postgres("it writes past the stores, which tell watchers there: `test_citus_ingest.py`")
async def test_a_watch_reports_each_state_and_ends(me: Caller, owner: psycopg.Connection) -> None:
    document = await me.put()
    request = pb.WatchDocumentRequest(document_id=document.document_id)
    # The next poll is 30 s away, so every message comes from a notification.
    with use_tenant(MINE):
        async with (
            asyncio.timeout(10),
            aclosing(client.stream(me.running.corpus.WatchDocument, request, timeout=30)) as responses,
        ):
            assert (await anext(responses)).document == document
            owner.execute("UPDATE corpus.versions SET status = 'processing', stage = 'embed', done = 3, total = 9,"
                          " attempt = 1")  # fmt: skip
            working = await anext(responses)
            assert (working.stage, working.done, working.total, working.attempt) == (pb.INGEST_STAGE_EMBED, 3, 9, 1)
            assert working.document.status == pb.DOCUMENT_STATUS_PROCESSING
            assert working.document.progress == pb.IngestProgress(stage=pb.INGEST_STAGE_EMBED, done=3, total=9)
            with owner.transaction():
                owner.execute("UPDATE corpus.versions SET status = 'ready', stage = NULL, chunks = 9")
                owner.execute("UPDATE corpus.documents SET live_version = 1")
            ready = await anext(responses)
            assert (ready.document.live_version, ready.document.chunks, ready.deleted) == (1, 9, False)
            assert not ready.document.HasField("progress")
            assert [response async for response in responses] == []
    assert len(await me.stream(me.running.corpus.WatchDocument, request)) == 1


async def test_a_watch_ends_when_the_document_is_deleted(me: Caller) -> None:
    document = await me.put()
    request = pb.WatchDocumentRequest(document_id=document.document_id)
    with use_tenant(MINE):
        async with (
            asyncio.timeout(10),
            aclosing(client.stream(me.running.corpus.WatchDocument, request, timeout=30)) as responses,
        ):
            await anext(responses)
            deleting = pb.DeleteDocumentRequest(document_id=document.document_id)
            await me.unary(me.running.corpus.DeleteDocument, deleting)
            rest = [response async for response in responses]
    assert [response.deleted for response in rest] == [True]


@pytest.mark.one_postgres("the trigger that it disables isn't there")
async def test_a_watch_polls_if_no_notification_comes(database: Database, owner: psycopg.Connection) -> None:
    owner.execute("ALTER TABLE corpus.versions DISABLE TRIGGER progress")
    async with running_retriever(database, watch_poll_seconds=0.05) as running:
        me = Caller(running, MINE)
        document = await me.put()
        request = pb.WatchDocumentRequest(document_id=document.document_id)
        with use_tenant(MINE):
            async with (
                asyncio.timeout(10),
                aclosing(client.stream(running.corpus.WatchDocument, request, timeout=30)) as responses,
            ):
                await anext(responses)
                owner.execute("UPDATE corpus.versions SET status = 'ready'")
                assert (await anext(responses)).document.status == pb.DOCUMENT_STATUS_READY


async def test_a_watcher_that_leaves_is_removed(me: Caller) -> None:
    document = await me.put()
    request = pb.WatchDocumentRequest(document_id=document.document_id)
    with use_tenant(MINE):
        async with aclosing(client.stream(me.running.corpus.WatchDocument, request, timeout=30)) as responses:
            await anext(responses)
            assert me.running.server.in_flight == 1
    await me.running.in_flight(0)
