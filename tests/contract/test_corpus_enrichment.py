"""Enrichment in CorpusService: a collection's switch, a document's enrichment state, and retries."""

from __future__ import annotations

from typing import Any

import psycopg
import pytest
from citewire.retriever.v1 import corpus_pb2 as pb

from citewire_kit.errors import FailedPrecondition, InvalidArgument, NotFound
from retriever_process import Caller


async def update(caller: Caller, **fields: Any) -> pb.Collection:  # noqa: ANN401 # of the request
    request = pb.UpdateCollectionRequest(**fields)
    return (await caller.unary(caller.running.corpus.UpdateCollection, request)).collection


async def test_a_collection_is_switched_on_and_off(me: Caller, them: Caller) -> None:
    corpus = me.running.corpus
    made = await me.unary(corpus.CreateCollection, pb.CreateCollectionRequest(name="saved", enrich=True))
    assert made.collection.enrich
    renamed = await update(me, name="saved", new_name="kept")
    assert (renamed.name, renamed.enrich) == ("kept", True)
    off = await update(me, name="kept", enrich=False)
    assert (off.name, off.enrich) == ("kept", False)
    both = await update(me, name="kept", new_name="saved", enrich=True)
    assert (both.name, both.enrich) == ("saved", True)
    with pytest.raises(NotFound):
        await update(them, name="saved", enrich=False)
    listed = await me.unary(corpus.ListCollections, pb.ListCollectionsRequest())
    assert [(collection.name, collection.enrich) for collection in listed.collections] == [("saved", True)]
    # A collection that an upload creates isn't enriched.
    document = await me.put("A", collection="new")
    assert not document.HasField("enrichment")
    listed = await me.unary(corpus.ListCollections, pb.ListCollectionsRequest(q="new"))
    assert not listed.collections[0].enrich


async def test_an_update_must_change_something(me: Caller) -> None:
    with pytest.raises(InvalidArgument) as caught:
        await update(me, name="saved")
    assert [violation.field for violation in caught.value.violations] == ["new_name"]


@pytest.mark.parametrize(
    ("job", "error", "expected"),
    [
        ("queued", None, pb.ENRICHMENT_STATE_PENDING),
        ("queued", "BUDGET", pb.ENRICHMENT_STATE_PENDING),
        ("done", None, pb.ENRICHMENT_STATE_DONE),
        ("failed", "PROVIDER", pb.ENRICHMENT_STATE_FAILED),
    ],
)
async def test_a_document_reports_its_enrichment_state(
    me: Caller, owner: psycopg.Connection, job: str, error: str | None, expected: pb.EnrichmentState
) -> None:
    document_id = (await me.put("A", tags=["x"])).document_id
    owner.execute("UPDATE corpus.versions SET status = 'ready'")
    owner.execute(
        'UPDATE corpus.documents SET live_version = 1, enriched = \'{"tags": ["x"], "category": "gone"}\','
        " enriched_by = 'model', enrichment_code = %s, enrichment_message = %s",
        (error, error and "Why."),
    )
    owner.execute(
        "INSERT INTO corpus.ingest_jobs (org_id, document_id, version, kind, user_id, state)"
        " SELECT org_id, document_id, version, 'enrich', user_id, %s FROM corpus.ingest_jobs",
        (job,),
    )
    corpus = me.running.corpus
    document = (await me.unary(corpus.GetDocument, pb.GetDocumentRequest(document_id=document_id))).document
    assert document.enrichment == pb.Enrichment(
        state=expected,
        fields=["tags"],
        source=pb.ENRICHMENT_SOURCE_MODEL,
        error=pb.EnrichmentError(code=error, message="Why.") if error else None,
    )
    request = pb.RetryDocumentRequest(document_id=document_id)
    if job != "failed":
        with pytest.raises(FailedPrecondition):
            await me.unary(corpus.RetryDocument, request)
        return
    retried = (await me.unary(corpus.RetryDocument, request)).document
    assert retried.status == pb.DOCUMENT_STATUS_READY
    assert retried.enrichment.state == pb.ENRICHMENT_STATE_PENDING
    assert not retried.enrichment.HasField("error")
