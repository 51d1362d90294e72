"""Long context over a real gRPC server and a real Postgres: what is read, in which order, and what is left out."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import numpy as np
import pytest
from citewire.common.v1 import common_pb2
from citewire.retriever.v1 import retriever_pb2 as pb

from citewire_kit.errors import CitewireError, Code
from citewire_kit.tenant import Plan, Tenant
from corpus_rows import MODEL, REVISION, CorpusRows, NewDocument, Vectors
from retriever_process import Caller, running_retriever

if TYPE_CHECKING:
    from databases import Database

MINE = Tenant("acme", "ada", "pro")
START = datetime(2024, 1, 1, tzinfo=UTC)
PATHS = {
    "long": pb.CONTEXT_PATH_LONG_CONTEXT,
    "trim": pb.CONTEXT_PATH_LONG_CONTEXT_TRIM,
    "fallback": pb.CONTEXT_PATH_LONG_CONTEXT_FALLBACK,
    "semantic": pb.CONTEXT_PATH_SEMANTIC,
}


def chunks(count: int) -> Vectors:
    return np.eye(4, dtype=np.float32)[np.arange(count) % 4]


@pytest.fixture
def corpus(database: Database) -> Iterator[CorpusRows]:
    with CorpusRows(database.owner_dsn, dimensions=4) as rows:
        yield rows


async def read(
    caller: Caller, max_tokens: int, scope: pb.Scope | None = None
) -> tuple[list[list[pb.Chunk]], pb.ScopeCounts]:
    """Returns the items, each as its chunks, and the counts, which only the last response may contain."""
    request = pb.GetContextRequest(scope=scope, max_tokens=max_tokens)
    responses = await caller.stream(caller.running.retriever.GetContext, request)
    assert [response.HasField("counts") for response in responses] == [False] * (len(responses) - 1) + [True]
    assert all(response.chunks for response in responses[:-1])
    return [list(response.chunks) for response in responses[:-1]], responses[-1].counts


def titles(items: Sequence[Sequence[pb.Chunk]]) -> list[str]:
    return [item[0].title for item in items]


async def test_items_are_read_whole_and_most_recent_first(me: Caller, corpus: CorpusRows) -> None:
    for day, name in enumerate("abc"):
        created_at = START + timedelta(days=day)
        corpus.add(NewDocument("acme", chunks(3), title=name, url=f"https://x.test/{name}", created_at=created_at))
    corpus.add(NewDocument("acme", chunks(1), title="pending", live=False))
    corpus.add(NewDocument("other", chunks(1), title="theirs"))
    items, counts = await read(me, 1000)
    assert titles(items) == ["c", "b", "a"]
    assert [[chunk.chunk_index for chunk in item] for item in items] == [[0, 1, 2]] * 3
    assert items[0][0].url == "https://x.test/c"
    assert counts == pb.ScopeCounts(items=3, kept=3, not_ready=1, chunks=9)


@pytest.mark.parametrize(
    ("max_tokens", "expected"),
    [(60, ["d", "c", "b", "a"]), (59, ["d", "c", "b"]), (10, ["d"]), (9, []), (39, ["d", "c"])],
)
async def test_reading_ends_at_the_first_item_over_the_budget(
    me: Caller, corpus: CorpusRows, max_tokens: int, expected: list[str]
) -> None:
    # From the most recent: 10, 20, 10 and 20 tokens; a small item after one that is too big isn't tried.
    for day, (name, tokens) in enumerate((("a", 20), ("b", 10), ("c", 20), ("d", 10))):
        created_at = START + timedelta(days=day)
        corpus.add(NewDocument("acme", chunks(1), title=name, tokens=tokens, created_at=created_at))
    items, counts = await read(me, max_tokens)
    assert titles(items) == expected
    assert (counts.items, counts.kept, counts.trimmed) == (4, len(expected), 4 - len(expected))


async def test_a_single_item_over_the_budget_is_read_in_part(me: Caller, corpus: CorpusRows) -> None:
    corpus.add(NewDocument("acme", chunks(1), title="old", tokens=1, created_at=START))
    corpus.add(NewDocument("acme", chunks(9), title="big", tokens=10))
    items, counts = await read(me, 45)
    assert [chunk.chunk_index for chunk in items[0]] == [0, 1, 2, 3]
    assert (len(items), counts.kept, counts.trimmed) == (1, 1, 1)
    library = pb.PlanRequest(strategy=pb.STRATEGY_LIBRARY, max_tokens=45)
    plan = await me.unary(me.running.retriever.Plan, library)
    assert (plan.path, plan.counts) == (pb.CONTEXT_PATH_LONG_CONTEXT_TRIM, counts)
    assert plan.reason.endswith("the most recent one alone is over the budget: only its beginning fits.")


async def test_a_large_item_takes_several_messages(me: Caller, corpus: CorpusRows) -> None:
    corpus.add(NewDocument("acme", chunks(1100), tokens=1, metadata={"notes": "n" * 60_000}))
    items, counts = await read(me, 5000)
    assert [len(item) for item in items] == [500, 500, 100]
    assert [chunk.chunk_index for item in items for chunk in item] == list(range(1100))
    assert (counts.items, counts.kept) == (1, 1)
    # Metadata is included while there is room: 4 MiB of it per message.
    assert [sum(chunk.HasField("metadata") for chunk in item) for item in items] == [69, 69, 69]


async def test_exactly_the_attached_items_are_read(me: Caller, corpus: CorpusRows) -> None:
    ids = [
        corpus.add(NewDocument("acme", chunks(1), title=str(day), created_at=START + timedelta(days=day)))[0]
        for day in range(5)
    ]
    scope = pb.Scope(selection=pb.DocumentSelection(document_ids=[ids[0], ids[3]]))
    items, counts = await read(me, 1000, scope)
    assert (titles(items), counts.items) == (["3", "0"], 2)
    # The budget applies here too, and the plan says so.
    plan = await me.unary(
        me.running.retriever.Plan, pb.PlanRequest(scope=scope, strategy=pb.STRATEGY_LIBRARY, max_tokens=10)
    )
    items, counts = await read(me, 10, scope)
    assert (plan.path, plan.counts, titles(items)) == (pb.CONTEXT_PATH_FOCUSED, counts, ["3"])
    assert plan.reason.startswith("The attached items are read, without a search, the most recent ones")


async def test_the_users_own_library_holds_only_their_documents(me: Caller, corpus: CorpusRows) -> None:
    mine, _ = corpus.add(NewDocument("acme", chunks(1), title="mine", owner="ada"))
    others, _ = corpus.add(NewDocument("acme", chunks(1), title="bob's", owner="bob"))
    foreign, _ = corpus.add(NewDocument("other", chunks(1), title="eve's", owner="ada"))
    own = pb.Scope(level=pb.SCOPE_LEVEL_USER)
    items, counts = await read(me, 1000, own)
    assert (titles(items), counts.items) == (["mine"], 1)
    plan = await me.unary(me.running.retriever.Plan, pb.PlanRequest(scope=own))
    assert plan.counts.items == 1
    expected = pb.Scope(
        level=pb.SCOPE_LEVEL_USER, selection=pb.DocumentSelection(document_ids=[mine, others, foreign, 999])
    )
    with pytest.raises(CitewireError) as refused:
        await read(me, 1000, expected)
    assert (refused.value.code, refused.value.reason) == (Code.NOT_FOUND, "DOCUMENT_NOT_FOUND")
    assert refused.value.metadata["document_ids"] == ",".join(map(str, sorted([others, foreign, 999])))


async def test_an_empty_library_and_a_missing_budget(me: Caller) -> None:
    assert await read(me, 1) == ([], pb.ScopeCounts())
    with pytest.raises(CitewireError) as refused:
        await read(me, 0)
    assert [violation.field for violation in refused.value.violations] == ["max_tokens"]


@pytest.mark.parametrize(
    ("items", "missing", "paths"),
    [
        (12, 0, {"free": "long", "basic": "long", "pro": "long"}),
        (12, 3, {"free": "long", "basic": "long", "pro": "long"}),
        (200, 0, {"free": "trim", "basic": "trim", "pro": "long"}),
        (200, 42, {"free": "trim", "basic": "trim", "pro": "long"}),
        (201, 0, {"free": "trim", "basic": "trim", "pro": "semantic"}),
        (201, 40, {"free": "trim", "basic": "trim", "pro": "semantic"}),
        (201, 41, {"free": "trim", "basic": "trim", "pro": "fallback"}),
        (5000, 1000, {"free": "trim", "basic": "trim", "pro": "semantic"}),
        (5000, 1001, {"free": "trim", "basic": "trim", "pro": "fallback"}),
        (5000, 1050, {"free": "trim", "basic": "trim", "pro": "fallback"}),
    ],
)
async def test_the_librarys_path_by_its_size(
    database: Database, corpus: CorpusRows, items: int, missing: int, paths: dict[Plan, str]
) -> None:
    sizes = _library(corpus, items, missing)
    async with running_retriever(database) as running:
        for plan_name, path in paths.items():
            caller = Caller(running, Tenant("acme", "ada", plan_name))
            plan = await caller.unary(running.retriever.Plan, pb.PlanRequest(strategy=pb.STRATEGY_LIBRARY))
            budget = {"free": 28_500, "basic": 28_500, "pro": 148_500}[plan_name]
            fitting = sum(total <= budget for total in np.cumsum(sizes[::-1]))
            read_count = items if path == "semantic" else fitting
            assert (plan.path, plan.counts.items, plan.counts.kept) == (PATHS[path], items, read_count)
            assert (plan.counts.trimmed, plan.counts.without_embedding) == (items - read_count, missing)
            if path != "semantic":
                items_read, counts = await read(caller, budget)
                assert (len(items_read), counts) == (read_count, plan.counts)
                assert sum(chunk.token_count for item in items_read for chunk in item) <= budget
                assert titles(items_read) == [str(number) for number in range(items - 1, items - 1 - read_count, -1)]


def _library(corpus: CorpusRows, items: int, missing: int) -> list[int]:
    """Adds items of 150–400 tokens, a day apart; the oldest lack vectors. Returns their tokens, oldest first."""
    sizes = [int(size) for size in np.random.default_rng(items).integers(150, 401, items)]
    corpus.point("acme")
    corpus.run("SET session_replication_role = replica")  # thousands of rows: skip the triggers that notify watchers
    corpus.run(
        "INSERT INTO corpus.documents (org_id, document_id, owner, type, title, title_given, created_at, live_version,"
        " live_chunks, live_tokens) SELECT 'acme', n, 'ada', 'capture', (n - 1)::text, true,"
        " timestamptz '2024-01-01' + make_interval(days => n::integer), 1, 1, size"
        " FROM unnest(%s::integer[]) WITH ORDINALITY AS item (size, n)",
        (sizes,),
    )
    corpus.run(
        "INSERT INTO corpus.versions (org_id, document_id, version, status, size_bytes, sha256, chunks, tokens)"
        " SELECT 'acme', document_id, 1, 'ready', 1, sha256('text'), 1, live_tokens"
        " FROM corpus.documents WHERE org_id = 'acme'"
    )
    corpus.run(
        "INSERT INTO corpus.chunks (org_id, chunk_id, document_id, version, chunk_index, text, token_count,"
        " content_hash, char_start, char_end) SELECT 'acme', document_id, document_id, 1, 0, 'text', live_tokens,"
        " sha256('text'), 0, 4 FROM corpus.documents WHERE org_id = 'acme'"
    )
    corpus.run(
        f"INSERT INTO corpus.vectors_{corpus.space_id} (org_id, chunk_id, document_id, version, embedding)"  # noqa: S608 # the id is a number
        " SELECT 'acme', document_id, document_id, 1, '[1,0,0,0]' FROM corpus.documents"
        " WHERE org_id = 'acme' AND document_id > %s",
        (missing,),
    )
    corpus.run("SET session_replication_role = origin")
    return sizes


async def test_the_semantic_path_is_forty_similar_and_ten_recent_not_refilled(me: Caller, corpus: CorpusRows) -> None:
    # 60 items: the older they are, the more similar. Item 55 is both similar and among the ten most recent.
    for number in range(60):
        angle = np.radians(10 if number == 55 else 20 + number)
        vectors = np.array([[0, 0, 0, 1], [np.cos(angle), np.sin(angle), 0, 0]], np.float32)
        created_at = START + timedelta(days=number)
        kind = "article" if number % 2 else "capture"
        corpus.add(NewDocument("acme", vectors, title=str(number), created_at=created_at, type=kind))
    query = np.array([1, 0, 0, 0], np.float32).tobytes()
    space = common_pb2.EmbeddingSpace(model=MODEL, revision=REVISION, dimensions=4)

    async def find_titles(scope: pb.Scope | None, min_score: float) -> tuple[list[str], list[str]]:
        request = pb.SearchRequest(
            scope=scope,
            vector=query,
            space=space,
            top_k=40,
            recent=10,
            min_score=min_score,
            group_by=pb.GROUP_BY_DOCUMENT,
        )
        results = (await me.unary(me.running.retriever.Search, request)).results
        assert all(result.chunk.chunk_index == (0 if result.recent else 1) for result in results)
        return [result.chunk.title for result in results if not result.recent], [
            result.chunk.title for result in results if result.recent
        ]

    similar, recent = await find_titles(None, 0.15)
    assert similar == ["55", *(str(number) for number in range(39))]
    assert recent == ["59", "58", "57", "56", "54", "53", "52", "51", "50"]
    # A minimum score doesn't exclude recent items; the request's conditions apply to both.
    similar, recent = await find_titles(pb.Scope(types=["capture"]), 0.8)
    assert similar == [str(number) for number in range(0, 17, 2)]
    assert recent == [str(number) for number in range(58, 39, -2)]
