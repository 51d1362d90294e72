"""RetrieverService over a real gRPC server and a real Postgres: every RPC, its errors and their reasons."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, cast

import grpc
import numpy as np
import pytest
from citewire.common.v1 import common_pb2
from citewire.common.v1.place_pb2 import Place
from citewire.retriever.v1 import corpus_pb2, filter_pb2
from citewire.retriever.v1 import retriever_pb2 as pb
from citewire.retriever.v1.retriever_pb2_grpc import RetrieverServiceStub
from google.protobuf.struct_pb2 import Value
from grpc_health.v1 import health_pb2

from callers import SIGNER
from citewire_kit import client
from citewire_kit.errors import CitewireError, Code
from citewire_kit.migrate import migrate
from citewire_kit.tenant import Tenant, use_tenant
from citewire_kit.tls import RenewedChannel
from corpus_rows import MODEL, REVISION, CorpusRows, NewDocument, Vectors
from embedded_postgres import EmbeddedPostgres, start_embedded_postgres
from retriever_process import Caller, running_retriever

if TYPE_CHECKING:
    from databases import Database

MINE = Tenant("acme", "ada", "pro")
THEIRS = Tenant("other", "eve", "pro")
SPACE = common_pb2.EmbeddingSpace(model=MODEL, revision=REVISION, dimensions=4)
QUERY = np.array([1, 0, 0, 0], np.float32).tobytes()


def near(*degrees: float) -> Vectors:
    """Vectors at these angles from the query."""
    radians = np.radians(degrees)
    return np.stack([np.cos(radians), np.sin(radians), 0 * radians, 0 * radians], axis=1).astype(np.float32)


@pytest.fixture
def corpus(database: Database) -> Iterator[CorpusRows]:
    with CorpusRows(database.owner_dsn, dimensions=4) as rows:
        yield rows


async def search(caller: Caller, scope: pb.Scope | None = None, **fields: object) -> pb.SearchResponse:
    values: dict[str, Any] = {"vector": QUERY, "space": SPACE, "scope": scope, **fields}
    return await caller.unary(caller.running.retriever.Search, pb.SearchRequest(**values))


def selection(*document_ids: int) -> pb.Scope:
    return pb.Scope(selection=pb.DocumentSelection(document_ids=document_ids))


def titles(response: pb.SearchResponse) -> list[str]:
    return [result.chunk.title for result in response.results]


async def test_a_result_has_all_that_a_citation_needs(me: Caller, corpus: CorpusRows) -> None:
    saved = datetime(2024, 5, 1, 12, 30, 0, 123456, UTC)
    document_id, chunk_ids = corpus.add(
        NewDocument(
            "acme",
            near(60, 0),
            title="T",
            url="https://x.test",
            file_name="f.pdf",
            created_at=saved,
            metadata={"stargazers_count": 1500, "owner_login": "o"},
            tags=["b", "a"],
        )
    )
    response = await search(me)
    assert (response.exact, response.space) == (True, SPACE)
    assert [result.chunk.chunk_id for result in response.results] == chunk_ids[::-1]
    assert [round(result.score, 3) for result in response.results] == [1.0, 0.5]
    assert all(result.score == result.rank_score for result in response.results)
    assert not response.results[0].HasField("lexical_score")
    chunk = response.results[0].chunk
    assert (chunk.document_id, chunk.version, chunk.chunk_index) == (document_id, 1, 1)
    assert chunk.text == f"Chunk 1 of version 1 of document {document_id} of acme."
    assert (chunk.token_count, len(chunk.content_hash), chunk.section) == (10, 64, "A > B")
    assert chunk.place == Place(page=2)
    assert (chunk.char_start, chunk.char_end, chunk.verbatim) == (0, len(chunk.text), True)
    assert (chunk.title, chunk.file_name, chunk.url, chunk.type) == ("T", "f.pdf", "https://x.test", "file")
    assert chunk.created_at.ToDatetime(UTC) == saved
    assert chunk.live
    assert (chunk.heading, chunk.label) == ("T\nA > B", "f.pdf § A > B")
    assert dict(chunk.metadata) == {"stargazers_count": 1500, "owner_login": "o"}
    assert list(chunk.tags) == ["b", "a"]


async def test_scores_are_clamped_cosine_similarity_and_bounded(me: Caller, corpus: CorpusRows) -> None:
    corpus.add(NewDocument("acme", near(0, 60, 89, 180)))
    assert [round(result.score, 2) for result in (await search(me)).results] == [1.0, 0.5, 0.02, 0.0]
    assert len((await search(me, min_score=0.4)).results) == 2
    assert len((await search(me, min_score=0.0)).results) == 4
    assert len((await search(me, top_k=1)).results) == 1
    assert all(result.first_score == result.rank_score for result in (await search(me)).results)


async def test_results_unlike_the_question_are_off_topic(me: Caller, corpus: CorpusRows) -> None:
    corpus.add(NewDocument("acme", near(100, 120)))
    assert (await search(me)).off_topic
    corpus.add(NewDocument("acme", near(80)))
    assert not (await search(me)).off_topic


async def test_scopes(me: Caller, corpus: CorpusRows) -> None:
    a, _ = corpus.add(NewDocument("acme", near(1), title="a", owner="ada", collection="One", tags=["x"]))
    b, _ = corpus.add(NewDocument("acme", near(2), title="b", owner="bob", collection="Two", type="article"))
    c, _ = corpus.add(NewDocument("acme", near(3), title="c", owner="ada", type="capture", metadata={"year": 2024}))
    corpus.add(NewDocument("other", near(0), title="theirs", owner="ada", collection="One"))
    recent = filter_pb2.Comparison(field="metadata.year", op=filter_pb2.OPERATOR_EQ, value=Value(number_value=2024))
    for scope, expected in (
        (None, "abc"),
        (pb.Scope(level=pb.SCOPE_LEVEL_ORG), "abc"),
        (pb.Scope(level=pb.SCOPE_LEVEL_USER), "ac"),
        (pb.Scope(collection="One"), "a"),
        (pb.Scope(types=["article", "capture"]), "bc"),
        (pb.Scope(filter=filter_pb2.Filter(comparison=recent)), "c"),
        (selection(b, a, b), "ab"),
        (selection(), ""),
        (pb.Scope(level=pb.SCOPE_LEVEL_USER, selection=pb.DocumentSelection(document_ids=[a, c]), types=["file"]), "a"),
    ):
        assert titles(await search(me, scope)) == list(expected), scope


async def test_unknown_and_foreign_documents_are_reported_alike(me: Caller, corpus: CorpusRows) -> None:
    mine, _ = corpus.add(NewDocument("acme", near(1), owner="ada"))
    bobs, _ = corpus.add(NewDocument("acme", near(1), owner="bob"))
    theirs, _ = corpus.add(NewDocument("other", near(0)))
    unknown = 2**53 - 1
    for document_id in (theirs, unknown):
        scope = selection(mine, document_id)
        for call in (search(me, scope), me.unary(me.running.retriever.Plan, pb.PlanRequest(scope=scope))):
            with pytest.raises(CitewireError) as refused:
                await call
            error = refused.value
            assert (error.code, error.reason) == (Code.NOT_FOUND, "DOCUMENT_NOT_FOUND")
            assert (error.message, error.metadata) == (
                f"no such document: {document_id}",
                {"document_ids": str(document_id)},
            )
    own = selection(mine, bobs)
    own.level = pb.SCOPE_LEVEL_USER
    with pytest.raises(CitewireError) as foreign:
        await search(me, own)
    assert foreign.value.metadata == {"document_ids": str(bobs)}
    with pytest.raises(CitewireError) as many:
        await search(me, selection(*range(10**12, 10**12 + 50)))
    assert many.value.metadata["document_ids"].startswith("1000000000000,1000000000001,")
    named = many.value.metadata["document_ids"].count(",") + 1
    assert named + int(many.value.metadata["left_out"]) == 50


async def test_an_unknown_collection_is_named(me: Caller, corpus: CorpusRows) -> None:
    mine, _ = corpus.add(NewDocument("acme", near(1), collection="One"))
    corpus.add(NewDocument("other", near(0), collection="Theirs"))
    assert (
        await me.unary(me.running.retriever.Plan, pb.PlanRequest(scope=pb.Scope(collection="One")))
    ).counts.items == 1
    for name in ("Theirs", "None such"):
        scope = pb.Scope(collection=name, selection=pb.DocumentSelection(document_ids=[mine]))
        for call in (
            search(me, scope),
            search(me, scope, mode=pb.SEARCH_MODE_LEXICAL, query="x", vector=b"", space=None),
            me.unary(me.running.retriever.Plan, pb.PlanRequest(scope=scope)),
        ):
            with pytest.raises(CitewireError) as refused:
                await call
            error = refused.value
            assert (error.code, error.reason) == (Code.NOT_FOUND, "COLLECTION_NOT_FOUND")
            assert (error.message, error.metadata) == (f"there is no collection {name!r}", {"collection": name})


async def test_pending_documents_contribute_nothing_and_are_no_error(me: Caller, corpus: CorpusRows) -> None:
    waiting, _ = corpus.add(NewDocument("acme", near(0), live=False))
    assert titles(await search(me, selection(waiting))) == []
    assert titles(await search(me, recent=5)) == []


async def test_only_the_live_version_is_searched_and_old_chunks_can_be_read(me: Caller, corpus: CorpusRows) -> None:
    document_id, old = corpus.add(NewDocument("acme", near(0)))
    new = corpus.add_version("acme", document_id, 2, near(10))
    assert [result.chunk.chunk_id for result in (await search(me)).results] == old
    request = pb.GetChunksRequest(chunk_ids=[*old])
    assert (await me.unary(me.running.retriever.GetChunks, request)).chunks[0].live
    corpus.publish("acme", document_id, 2, chunks=1, tokens=10)
    assert [result.chunk.chunk_id for result in (await search(me)).results] == new

    request = pb.GetChunksRequest(chunk_ids=[*new, *old, *new])
    chunks = (await me.unary(me.running.retriever.GetChunks, request)).chunks
    assert [(chunk.chunk_id, chunk.version, chunk.live) for chunk in chunks] == [
        (new[0], 2, True),
        (old[0], 1, False),
    ]


async def test_chunks_that_do_not_exist_or_are_foreign_are_named(me: Caller, corpus: CorpusRows) -> None:
    _, mine = corpus.add(NewDocument("acme", near(0)))
    _, theirs = corpus.add(NewDocument("other", near(0)))
    _, staged = corpus.add(NewDocument("acme", near(0), live=False))
    for missing in (theirs[0], staged[0], 2**53 - 1):
        with pytest.raises(CitewireError) as refused:
            await me.unary(me.running.retriever.GetChunks, pb.GetChunksRequest(chunk_ids=[*mine, missing]))
        assert (refused.value.code, refused.value.reason) == (Code.NOT_FOUND, "CHUNK_NOT_FOUND")
        assert refused.value.metadata == {"chunk_ids": str(missing)}
    for wrong, field in (([], "chunk_ids"), ([1] * 201, "chunk_ids"), ([0], "chunk_ids[0]")):
        with pytest.raises(CitewireError) as invalid:
            await me.unary(me.running.retriever.GetChunks, pb.GetChunksRequest(chunk_ids=wrong))
        assert [violation.field for violation in invalid.value.violations] == [field]


async def test_find_documents_returns_those_that_the_caller_sees(me: Caller, corpus: CorpusRows) -> None:
    mine, _ = corpus.add(NewDocument("acme", near(0)))
    staged, _ = corpus.add(NewDocument("acme", near(0), live=False))
    theirs, _ = corpus.add(NewDocument("other", near(0)))
    request = pb.FindDocumentsRequest(document_ids=[2**53 - 1, theirs, staged, mine, staged])
    response = await me.unary(me.running.retriever.FindDocuments, request)
    assert list(response.document_ids) == [staged, mine]
    for wrong, field in (([], "document_ids"), ([1] * 1001, "document_ids"), ([0], "document_ids[0]")):
        with pytest.raises(CitewireError) as invalid:
            await me.unary(me.running.retriever.FindDocuments, pb.FindDocumentsRequest(document_ids=wrong))
        assert [violation.field for violation in invalid.value.violations] == [field]


async def test_by_document_counts_documents_and_takes_the_best_chunk(me: Caller, corpus: CorpusRows) -> None:
    corpus.add(NewDocument("acme", near(5, 1, 3), title="a"))
    corpus.add(NewDocument("acme", near(2, 80), title="b"))
    corpus.add(NewDocument("acme", near(50), title="c"))
    response = await search(me, group_by=pb.GROUP_BY_DOCUMENT, top_k=2)
    assert titles(response) == ["a", "b"]
    assert [result.chunk.chunk_index for result in response.results] == [1, 0]
    assert titles(await search(me, top_k=4)) == ["a", "b", "a", "a"]


async def test_recent_documents_follow_without_threshold_or_duplicates(me: Caller, corpus: CorpusRows) -> None:
    start = datetime(2024, 1, 1, tzinfo=UTC)
    for day, (title, angle) in enumerate([("near", 0), ("far", 90), ("back", 180), ("side", 85)]):
        corpus.add(
            NewDocument(
                "acme", near(angle, angle + 1), title=title, created_at=start + timedelta(days=day), type="file"
            )
        )
    corpus.add(NewDocument("acme", near(70), title="article", type="article"))
    response = await search(me, pb.Scope(types=["file"]), min_score=0.5, group_by=pb.GROUP_BY_DOCUMENT, recent=3)
    assert titles(response) == ["near", "side", "back", "far"]
    assert [result.recent for result in response.results] == [False, True, True, True]
    assert [result.chunk.chunk_index for result in response.results] == [0, 0, 0, 0]
    assert [round(result.score, 2) for result in response.results] == [1.0, 0.09, 0.0, 0.0]
    everything = await search(me, pb.Scope(types=["file"]), group_by=pb.GROUP_BY_DOCUMENT, recent=3)
    assert titles(everything) == ["near", "side", "far", "back"]  # not refilled: the recent ones are there already
    assert [result.recency_rank for result in everything.results] == [0, 1, 3, 2]


async def test_the_space_must_be_live(me: Caller, corpus: CorpusRows) -> None:
    empty = await search(me)
    assert (list(empty.results), empty.space) == ([], SPACE)  # nothing was ingested yet
    document_id, chunk_ids = corpus.add(NewDocument("acme", near(0)))
    other = common_pb2.EmbeddingSpace(model="other-model", revision="r9", dimensions=4)
    with pytest.raises(CitewireError) as refused:
        await search(me, space=other)
    assert (refused.value.code, refused.value.reason) == (Code.FAILED_PRECONDITION, "SPACE_MISMATCH")
    assert refused.value.metadata == {"model": MODEL, "revision": REVISION, "dimensions": "4"}

    space_id = corpus.add_space("other-model", "r9", 4)
    corpus.add_vectors("acme", document_id, 1, chunk_ids, near(90), space_id=space_id)
    with pytest.raises(CitewireError) as registered:
        await search(me, space=other)
    assert registered.value.reason == "SPACE_MISMATCH"

    corpus.point("acme", live=space_id, previous=corpus.space_id)
    for space, score in ((other, 0.0), (SPACE, 1.0)):
        assert [round(result.score, 2) for result in (await search(me, space=space)).results] == [score]
    corpus.point("acme", live=space_id)
    with pytest.raises(CitewireError) as retired:
        await search(me)
    assert retired.value.metadata["model"] == "other-model"


async def test_several_tenants_use_different_spaces(me: Caller, corpus: CorpusRows) -> None:
    them = Caller(me.running, THEIRS)
    corpus.add(NewDocument("acme", near(0), title="mine"))
    space_id = corpus.add_space("small", "r1", 2)
    theirs, chunk_ids = corpus.add(NewDocument("other", near(0), title="theirs"), with_vectors=False)
    corpus.point("other", live=space_id)
    corpus.add_vectors("other", theirs, 1, chunk_ids, np.array([[1, 0]], np.float32), space_id=space_id)
    small = common_pb2.EmbeddingSpace(model="small", revision="r1", dimensions=2)
    vector = np.array([1, 0], np.float32).tobytes()
    assert titles(await search(me)) == ["mine"]
    assert titles(await search(them, space=small, vector=vector)) == ["theirs"]
    wrong: tuple[tuple[Caller, dict[str, Any]], ...] = ((me, {"space": small, "vector": vector}), (them, {}))
    for caller, fields in wrong:
        with pytest.raises(CitewireError) as refused:
            await search(caller, **fields)
        assert refused.value.reason == "SPACE_MISMATCH"


async def test_vectors_are_checked(me: Caller, corpus: CorpusRows) -> None:
    corpus.add(NewDocument("acme", near(0)))
    for vector in (
        QUERY[:-1],
        QUERY + QUERY,
        np.array([1, np.nan, 0, 0], np.float32).tobytes(),
        np.array([1, np.inf, 0, 0], np.float32).tobytes(),
        np.zeros(4, np.float32).tobytes(),
    ):
        with pytest.raises(CitewireError) as refused:
            await search(me, vector=vector)
        assert (refused.value.code, refused.value.reason) == (Code.INVALID_ARGUMENT, "INVALID_VECTOR")
    for size in (1e-30, 3e38):  # beyond half precision: only the direction counts
        vector = (np.array([1, 0.5, 0, 0]) * size).astype(np.float32).tobytes()
        assert round((await search(me, vector=vector)).results[0].score, 2) == 0.89


async def test_fields_out_of_range_are_named(me: Caller) -> None:
    wrong: list[tuple[dict[str, Any], str]] = [
        ({"top_k": 0}, "top_k"),
        ({"top_k": 10**9}, "top_k"),
        ({"min_score": 1.1}, "min_score"),
        ({"min_score": float("nan")}, "min_score"),
        ({"recent": 51}, "recent"),
        ({"group_by": 9}, "group_by"),
        ({"mode": 9}, "mode"),
        ({"vector": b""}, "vector"),
        ({"space": None}, "space"),
        ({"space": common_pb2.EmbeddingSpace(model="m", revision="r", dimensions=4097)}, "space.dimensions"),
        ({"scope": pb.Scope(level=cast("Any", 9))}, "scope.level"),
        ({"scope": pb.Scope(types=["file", "book"])}, "scope.types[1]"),
        ({"scope": pb.Scope(collection="x" * 129)}, "scope.collection"),
        ({"scope": selection(*range(10_001))}, "scope.selection.document_ids"),
    ]
    for fields, field in wrong:
        with pytest.raises(CitewireError) as refused:
            await search(me, **fields)
        assert (refused.value.code, refused.value.reason) == (Code.INVALID_ARGUMENT, "INVALID_FIELD"), fields
        assert [violation.field for violation in refused.value.violations] == [field]
    with pytest.raises(CitewireError) as bad_filter:
        await search(me, pb.Scope(filter=filter_pb2.Filter()))
    assert bad_filter.value.reason == "INVALID_FILTER"


async def test_a_plan_counts_and_names_the_space(me: Caller, corpus: CorpusRows) -> None:
    plan = await me.unary(me.running.retriever.Plan, pb.PlanRequest())
    assert (plan.path, plan.counts, plan.HasField("space")) == (pb.CONTEXT_PATH_SEMANTIC, pb.ScopeCounts(), False)
    first, _ = corpus.add(NewDocument("acme", near(0, 1)))
    corpus.add(NewDocument("acme", near(0)), with_vectors=False)
    corpus.add(NewDocument("acme", near(0), live=False))
    corpus.add(NewDocument("other", near(0)))
    plan = await me.unary(me.running.retriever.Plan, pb.PlanRequest())
    assert plan.counts == pb.ScopeCounts(items=2, kept=2, without_embedding=1, not_ready=1, chunks=3)
    assert (plan.space, plan.reason) == (SPACE, "The items are searched.")
    attached = pb.PlanRequest(scope=selection(first), strategy=pb.STRATEGY_LIBRARY)
    plan = await me.unary(me.running.retriever.Plan, attached)
    assert (plan.path, plan.counts.items) == (pb.CONTEXT_PATH_FOCUSED, 1)
    with pytest.raises(CitewireError) as refused:
        await me.unary(me.running.retriever.Plan, pb.PlanRequest(strategy=cast("Any", 9), max_tokens=0))
    assert {violation.field for violation in refused.value.violations} == {"strategy", "max_tokens"}


async def test_a_plan_narrows_the_scope_by_what_the_question_says(me: Caller, corpus: CorpusRows) -> None:
    corpus.add(NewDocument("acme", near(0), title="rust", tags=["rust"]))
    other, _ = corpus.add(NewDocument("acme", near(0), title="other"))

    async def plan(scope: pb.Scope | None = None, *, derive_filter: bool = True) -> pb.PlanResponse:
        request = pb.PlanRequest(scope=scope, query="What is new in #rust?", derive_filter=derive_filter)
        return await me.unary(me.running.retriever.Plan, request)

    narrowed = await plan()
    assert (narrowed.counts.items, list(narrowed.query_filter.phrases)) == (1, ["tags rust"])
    scope = pb.Scope(filter=narrowed.query_filter.filter)
    assert titles(await search(me, scope)) == ["rust"]
    for whole in (await plan(derive_filter=False), await plan(selection(other))):
        assert not whole.HasField("query_filter")
    with pytest.raises(CitewireError) as refused:
        await me.unary(me.running.retriever.Plan, pb.PlanRequest(derive_filter=True))
    assert [violation.field for violation in refused.value.violations] == ["query"]


async def test_a_library_is_read_while_it_fits_the_budget(me: Caller, corpus: CorpusRows) -> None:
    start = datetime(2024, 1, 1, tzinfo=UTC)
    for day, tokens in enumerate([5000, 1000, 20, 10]):
        corpus.add(NewDocument("acme", near(0), tokens=tokens, created_at=start + timedelta(days=day)))
    for max_tokens, path, fitting in (
        (None, pb.CONTEXT_PATH_LONG_CONTEXT, 4),
        (6030, pb.CONTEXT_PATH_LONG_CONTEXT, 4),
        (6029, pb.CONTEXT_PATH_LONG_CONTEXT_TRIM, 3),
        (30, pb.CONTEXT_PATH_LONG_CONTEXT_TRIM, 2),
        (29, pb.CONTEXT_PATH_LONG_CONTEXT_TRIM, 1),
        (9, pb.CONTEXT_PATH_LONG_CONTEXT_TRIM, 0),
    ):
        request = pb.PlanRequest(strategy=pb.STRATEGY_LIBRARY, max_tokens=max_tokens)
        plan = await me.unary(me.running.retriever.Plan, request)
        assert (plan.path, plan.counts.kept, plan.counts.trimmed) == (path, fitting, 4 - fitting), max_tokens


@dataclass(frozen=True, slots=True)
class OwnDatabase:
    """A database on a server that belongs to the test."""

    server: EmbeddedPostgres

    def dsn(self, role: str) -> str:
        return self.server.dsn(role, "own")


async def test_health_and_calls_follow_the_database() -> None:
    with start_embedded_postgres(durable=True) as server:
        server.create_database("own")
        await migrate(server.dsn("postgres", "own"), schema="corpus", package="citewire_retriever")
        async with running_retriever(OwnDatabase(server), watch_poll_seconds=0.1) as running:
            me = Caller(running, MINE)
            document = await me.put()
            address = f"127.0.0.1:{running.server.port}"
            plain = RenewedChannel(None, SIGNER, lambda _: grpc.aio.insecure_channel(address))
            watch = asyncio.create_task(
                me.stream(
                    running.corpus.WatchDocument, corpus_pb2.WatchDocumentRequest(document_id=document.document_id)
                )
            )
            await asyncio.to_thread(server.kill)
            await running.wait_for(health_pb2.HealthCheckResponse.NOT_SERVING)
            with pytest.raises(CitewireError) as ended:
                await watch
            assert (ended.value.code, ended.value.reason) == (Code.UNAVAILABLE, "DATABASE_UNAVAILABLE")
            with pytest.raises(CitewireError) as away, use_tenant(MINE):
                await client.unary(RetrieverServiceStub(plain).Plan, pb.PlanRequest(), timeout=10)
            assert (away.value.reason, away.value.retry_after) == ("DATABASE_UNAVAILABLE", 1)
            assert away.value.message == "the database can't be reached"
            await plain.close()

            await asyncio.to_thread(server.start)
            await running.wait_for(health_pb2.HealthCheckResponse.SERVING)
            assert (await me.get(document.document_id)).title == "Title"
            assert (await me.put("After the restart")).version == 1


async def test_a_missing_schema_is_not_serving(empty_database: Database) -> None:
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(2), running_retriever(empty_database):
            pass


@pytest.mark.parametrize("mode", ["DENSE", "HYBRID"])
async def test_results_per_document_are_limited(me: Caller, corpus: CorpusRows, mode: str) -> None:
    # The nearest document has more chunks than the first query reads: others are found beyond them.
    corpus.add(NewDocument("acme", near(*range(120)), title="long"))
    corpus.add(NewDocument("acme", near(150, 151), title="next"))
    corpus.add(NewDocument("acme", near(160, 161), title="last"))
    fields: dict[str, Any] = {"mode": pb.SearchMode.Value(f"SEARCH_MODE_{mode}"), "keep_duplicates": True}
    if mode == "HYBRID":
        fields["query"] = "Chunk of version 1"
    for limit in (1, 2):
        response = await search(me, top_k=6, max_per_document=limit, **fields)
        assert Counter(titles(response)) == {"long": limit, "next": limit, "last": limit}
    assert len((await search(me, top_k=6, **fields)).results) == 6
    if mode == "DENSE":
        assert titles(await search(me, top_k=6, max_per_document=3, **fields)) == ["long"] * 3 + ["next"] * 2 + ["last"]


@pytest.mark.parametrize("limit", [0, 201])
async def test_a_limit_per_document_out_of_range_is_named(me: Caller, limit: int) -> None:
    with pytest.raises(CitewireError) as caught:
        await search(me, max_per_document=limit)
    assert [violation.field for violation in caught.value.violations] == ["max_per_document"]


async def test_a_plan_reads_labels_and_days_of_the_library(me: Caller, corpus: CorpusRows) -> None:
    for number in range(3):
        kind = {"entity_type": "Restaurant", "category": "Food"} if number else {"entity_type": "book"}
        corpus.add(NewDocument("acme", near(0), title=f"n{number}", metadata=kind))
    corpus.add(NewDocument("other", near(0), metadata={"entity_type": "hotel"}))

    async def plan(query: str, **more: Any) -> pb.PlanResponse:  # noqa: ANN401 # fields of the request
        return await me.unary(me.running.retriever.Plan, pb.PlanRequest(query=query, derive_filter=True, **more))

    narrowed = await plan("Welche Restaurants habe ich heute gespeichert?", time_zone="Pacific/Auckland")
    assert narrowed.query_filter.phrases[0] == "entity type Restaurant"
    assert (narrowed.counts.items, narrowed.listing) == (2, pb.ItemListing(max_items=50))
    chunks = (await search(me, pb.Scope(filter=narrowed.query_filter.filter))).results
    assert {(result.chunk.entity_type, result.chunk.category) for result in chunks} == {("Restaurant", "Food")}
    assert not (await plan("Which hotels did I save?")).HasField("query_filter")  # another organisation's label
    with pytest.raises(CitewireError) as refused:
        await plan("saved today", time_zone="../etc/passwd")
    assert [violation.field for violation in refused.value.violations] == ["time_zone"]
