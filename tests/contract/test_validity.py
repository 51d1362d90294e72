"""A document is found while it is valid: by every kind of search, in contexts, plans and lists."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from citewire.common.v1 import common_pb2
from citewire.retriever.v1 import corpus_pb2
from citewire.retriever.v1 import retriever_pb2 as pb
from google.protobuf.field_mask_pb2 import FieldMask
from google.protobuf.timestamp_pb2 import Timestamp

from citewire_kit.errors import CitewireError
from citewire_kit.tenant import Tenant
from corpus_rows import MODEL, REVISION, CorpusRows, NewDocument
from retriever_process import Caller, running_retriever
from waiting import wait_until

if TYPE_CHECKING:
    from databases import Database

SPACE = common_pb2.EmbeddingSpace(model=MODEL, revision=REVISION, dimensions=4)
QUERY = np.array([1, 0, 0, 0], np.float32)
DAY = timedelta(days=1)
BOUNDS = {
    "always": (None, None),
    "expired": (None, -DAY),
    "coming": (DAY, None),
    "now": (-DAY, DAY),
    "over": (-2 * DAY, -DAY),
}
"""Titles, and the bounds between which the documents are valid, relative to now."""


@pytest.fixture
def rows(database: Database) -> Iterator[CorpusRows]:
    with CorpusRows(database.owner_dsn, dimensions=4) as made:
        yield made


def put(rows: CorpusRows, org: str = "acme") -> dict[str, int]:
    """Puts documents with these bounds and the same text; returns their ids."""
    ids: dict[str, int] = {}
    for title, bounds in BOUNDS.items():
        document = NewDocument(org, np.stack([QUERY]), title=title, texts=[f"The kingfisher is {title} there."])
        ids[title], _ = rows.add(document)
        moments = [None if bound is None else datetime.now(UTC) + bound for bound in bounds]
        rows.run(
            "UPDATE corpus.documents SET valid_from = %s, valid_until = %s WHERE document_id = %s",
            (*moments, ids[title]),
        )
    return ids


async def titles_of(caller: Caller, scope: pb.Scope | None = None, **fields: Any) -> set[str]:  # noqa: ANN401 # any fields
    values: dict[str, Any] = {"vector": QUERY.tobytes(), "space": SPACE, "query": "kingfisher", **fields}
    request = pb.SearchRequest(scope=scope, keep_duplicates=True, **values)
    response = await caller.unary(caller.running.retriever.Search, request)
    return {result.chunk.title for result in response.results}


async def list_titles(caller: Caller, **fields: Any) -> set[str]:  # noqa: ANN401 # any fields
    request = corpus_pb2.ListDocumentsRequest(**fields)
    response = await caller.unary(caller.running.corpus.ListDocuments, request)
    return {document.title for document in response.documents}


def at(moment: datetime) -> Timestamp:
    stamp = Timestamp()
    stamp.FromDatetime(moment)
    return stamp


WAYS: dict[str, dict[str, Any]] = {
    "dense": {"mode": pb.SEARCH_MODE_DENSE},
    "by document": {"mode": pb.SEARCH_MODE_DENSE, "group_by": pb.GROUP_BY_DOCUMENT},
    "exact": {"mode": pb.SEARCH_MODE_DENSE, "exact": True},
    "recent": {"mode": pb.SEARCH_MODE_DENSE, "recent": 50, "min_score": 1.0},
    "lexical": {"mode": pb.SEARCH_MODE_LEXICAL},
    "hybrid": {"mode": pb.SEARCH_MODE_HYBRID},
    "hybrid by document": {"mode": pb.SEARCH_MODE_HYBRID, "group_by": pb.GROUP_BY_DOCUMENT},
}


@pytest.mark.parametrize("by_graph", [False, True])
async def test_every_search_finds_valid_documents(database: Database, rows: CorpusRows, by_graph: bool) -> None:
    ids = put(rows)
    put(rows, "other")
    # With scans limited to zero rows, every search uses the graph or the term index.
    none = {"exact_chunks": 0, "exact_chunks_per_candidate": 0, "lexical_scan_chunks": 0}
    async with running_retriever(database, **(none if by_graph else {})) as running:
        me = Caller(running, Tenant("acme", "user", "pro"))
        everything = pb.Scope(any_validity=True)
        selection = pb.DocumentSelection(document_ids=list(ids.values()))
        for way, fields in WAYS.items():
            assert await titles_of(me, **fields) == {"always", "now"}, way
            assert await titles_of(me, pb.Scope(types=["file"]), **fields) == {"always", "now"}, way
            assert await titles_of(me, pb.Scope(selection=selection), **fields) == {"always", "now"}, way
            assert await titles_of(me, everything, **fields) == set(BOUNDS), way
            past = pb.Scope(as_of=at(datetime.now(UTC) - 1.5 * DAY))
            assert await titles_of(me, past, **fields) == {"always", "expired", "over"}, way


async def test_contexts_plans_and_lists_show_valid_documents(me: Caller, rows: CorpusRows) -> None:
    put(rows)
    for scope, titles in (
        (pb.Scope(), {"always", "now"}),
        (pb.Scope(any_validity=True), set(BOUNDS)),
        (pb.Scope(as_of=at(datetime.now(UTC) + 2 * DAY)), {"always", "coming"}),
    ):
        plan = await me.unary(me.running.retriever.Plan, pb.PlanRequest(scope=scope))
        assert plan.counts.items == len(titles)
        request = pb.GetContextRequest(scope=scope, max_tokens=10_000)
        items = await me.stream(me.running.retriever.GetContext, request)
        assert {chunk.title for item in items for chunk in item.chunks} == titles
        bounds: dict[str, Any] = {"any_validity": scope.any_validity}
        if scope.HasField("as_of"):
            bounds["as_of"] = scope.as_of
        assert await list_titles(me, **bounds) == titles


async def test_a_document_is_valid_from_its_first_moment_and_before_its_last(me: Caller, rows: CorpusRows) -> None:
    """Also in the repeated hour at the end of summer time, with different UTC offsets."""
    document_id, _ = rows.add(NewDocument("acme", np.stack([QUERY]), title="t", texts=["kingfisher"]))
    start, end = (
        datetime.fromisoformat("2026-10-25T02:30:00+02:00"),
        datetime.fromisoformat("2026-10-25T02:30:00+01:00"),
    )
    rows.run("UPDATE corpus.documents SET valid_from = %s, valid_until = %s", (start, end))
    step = timedelta(microseconds=1)
    for moment, valid in ((start - step, False), (start, True), (end - step, True), (end, False)):
        assert bool(await titles_of(me, pb.Scope(as_of=at(moment)))) is valid, moment
        assert bool(await list_titles(me, as_of=at(moment))) is valid, moment
    assert (await me.get(document_id)).valid_until.ToJsonString() == "2026-10-25T01:30:00Z"


async def test_a_document_expires_between_searches(me: Caller, rows: CorpusRows) -> None:
    """No cache remembers what was valid a moment ago."""
    rows.add(NewDocument("acme", np.stack([QUERY]), title="t", texts=["kingfisher"]))
    rows.run("UPDATE corpus.documents SET valid_until = now() + interval '1 second'")
    assert await titles_of(me) == {"t"}

    async def is_gone() -> bool:
        return not (await titles_of(me) or await list_titles(me))

    await wait_until(is_gone)


async def test_bounds_are_stored_changed_and_removed(me: Caller) -> None:
    moment = datetime(2030, 1, 1, tzinfo=UTC)

    async def change(document_id: int, **bounds: Any) -> corpus_pb2.Document:  # noqa: ANN401 # moments or None
        document = corpus_pb2.Document(document_id=document_id, **bounds)
        request = corpus_pb2.UpdateDocumentRequest(document=document, update_mask=FieldMask(paths=list(bounds)))
        return (await me.unary(me.running.corpus.UpdateDocument, request)).document

    stored = await me.put(valid_from=at(moment))
    assert (stored.valid_from.ToDatetime(UTC), stored.HasField("valid_until")) == (moment, False)
    stored = await me.put(document_id=stored.document_id, valid_until=at(moment + DAY))
    assert (stored.valid_from.ToDatetime(UTC), stored.valid_until.ToDatetime(UTC)) == (moment, moment + DAY)
    for wrong in ({"valid_until": at(moment)}, {"valid_from": at(moment + DAY)}):
        with pytest.raises(CitewireError) as caught:
            await change(stored.document_id, **wrong)
        assert [violation.field for violation in caught.value.violations] == ["valid_until"]
    stored = await change(stored.document_id, valid_from=None)
    assert (stored.HasField("valid_from"), stored.valid_until.ToDatetime(UTC)) == (False, moment + DAY)
    with pytest.raises(CitewireError) as caught:
        await list_titles(me, as_of=at(moment), any_validity=True)
    assert caught.value.violations[0].field == "any_validity"
