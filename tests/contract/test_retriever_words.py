"""Lexical and hybrid search over a real gRPC server and a real Postgres."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import psycopg
import pytest
from citewire.common.v1 import common_pb2
from citewire.retriever.v1 import retriever_pb2 as pb

from citewire_kit.errors import CitewireError, Code
from citewire_kit.tenant import Tenant
from citewire_retriever.lexical import count_question, weigh_chunk
from citewire_retriever.store.rows import KEYS
from corpus_rows import MODEL, REVISION, CorpusRows, NewDocument
from retriever_process import Caller

if TYPE_CHECKING:
    from databases import Database

MINE = Tenant("acme", "ada", "pro")
SPACE = common_pb2.EmbeddingSpace(model=MODEL, revision=REVISION, dimensions=4)
QUERY = np.array([1, 0, 0, 0], np.float32).tobytes()
TEXTS = (
    "Vaccines protect children from measles and mumps.",
    "The measles outbreak began in spring. Measles spread quickly among children.",
    "Gardens need water in spring.",
    "Water, water, and more water for the gardens of the city.",
    "麻疹ワクチンは子供を守る。",
)


@pytest.fixture
def corpus(database: Database) -> Iterator[CorpusRows]:
    with CorpusRows(database.owner_dsn, dimensions=4) as rows:
        yield rows


def put(corpus: CorpusRows, *texts: str, angles: Sequence[float] = (), **fields: Any) -> int:  # noqa: ANN401 # any field
    radians = np.radians(angles or [90] * len(texts))
    vectors = np.stack([np.cos(radians), np.sin(radians), 0 * radians, 0 * radians], axis=1).astype(np.float32)
    values: dict[str, Any] = {"org": "acme", "title": texts[0][:9], **fields}
    return corpus.add(NewDocument(vectors=vectors, texts=texts, **values))[0]


async def words(me: Caller, query: str, **fields: object) -> list[pb.SearchResult]:
    values: dict[str, Any] = {"mode": pb.SEARCH_MODE_LEXICAL, "query": query, **fields}
    return list((await me.unary(me.running.retriever.Search, pb.SearchRequest(**values))).results)


async def both(me: Caller, query: str, **fields: object) -> list[pb.SearchResult]:
    return await words(me, query, mode=pb.SEARCH_MODE_HYBRID, vector=QUERY, space=SPACE, **fields)


def expected(texts: Sequence[str], query: str) -> list[tuple[str, float]]:
    """BM25 by the book, over these texts as the corpus."""
    weighed = [weigh_chunk(text) for text in texts]
    scores: list[float] = []
    for weights in weighed:
        score = 0.0
        for term, times in count_question(query).items():
            holding = sum(term in other for other in weighed)
            rarity = math.log(1 + (len(texts) - holding + 0.5) / (holding + 0.5))
            score += times * rarity * weights.get(term, 0.0)
        scores.append(score)
    ranked = sorted(zip(texts, scores, strict=True), key=lambda pair: -pair[1])
    return [(text, score) for text, score in ranked if score > 0]


@pytest.mark.parametrize(
    "query",
    ["measles in children", "gardens with water", "spring", "Spring GARDEN", "子供のワクチン", "city city water"],
)
async def test_scores_are_bm25(me: Caller, corpus: CorpusRows, query: str) -> None:
    for text in TEXTS:
        put(corpus, text)
    put(corpus, "measles water spring children", org="other")
    matches = await words(me, query)
    target = expected(TEXTS, query)
    assert [result.chunk.text for result in matches] == [text for text, _ in target]
    assert [result.rank_score for result in matches] == pytest.approx([score for _, score in target], rel=1e-4)
    assert all(result.lexical_score == result.rank_score and not result.HasField("score") for result in matches)
    best = max(result.rank_score for result in matches)
    assert [result.first_score for result in matches] == pytest.approx([0.25 * r.rank_score / best for r in matches])


async def test_a_vector_adds_cosine_scores_to_lexical_results(me: Caller, corpus: CorpusRows) -> None:
    put(corpus, "measles here", angles=[60])
    put(corpus, "measles, measles", angles=[10])
    unembedded = NewDocument("acme", np.eye(1, 4, dtype=np.float32), texts=["measles there and elsewhere"])
    corpus.add(unembedded, with_vectors=False)
    alone = await words(me, "measles")
    compared = await words(me, "measles", vector=QUERY, space=SPACE)
    assert [(r.chunk.text, r.rank_score) for r in compared] == [(r.chunk.text, r.rank_score) for r in alone]
    scores = {r.chunk.text: r.score if r.HasField("score") else None for r in compared}
    assert scores.pop("measles there and elsewhere") is None
    assert scores == pytest.approx({"measles here": 0.5, "measles, measles": math.cos(math.radians(10))}, abs=1e-3)
    above = await words(me, "measles", vector=QUERY, space=SPACE, min_score=0.6, top_k=1)
    assert [r.chunk.text for r in above] == ["measles, measles"]
    foreign = common_pb2.EmbeddingSpace(model="other", revision="1", dimensions=4)
    with pytest.raises(CitewireError) as refused:
        await words(me, "measles", vector=QUERY, space=foreign)
    assert refused.value.reason == "SPACE_MISMATCH"


async def test_term_rarity_is_that_of_the_searched_collection(me: Caller, corpus: CorpusRows) -> None:
    first = ["measles here", "measles there", "garden"]
    for text in first:
        put(corpus, text, collection="One")
    for text in ("garden a", "garden b", "garden c"):
        put(corpus, text, collection="Two")
    matches = await words(me, "measles garden", scope=pb.Scope(collection="One"))
    assert [result.rank_score for result in matches] == pytest.approx(
        [score for _, score in expected(first, "measles garden")], rel=1e-4
    )
    assert matches[0].chunk.text == "garden"
    assert (await words(me, "measles garden"))[0].chunk.text != "garden"


async def test_scopes_limit_a_lexical_search(me: Caller, corpus: CorpusRows) -> None:
    mine = put(corpus, "measles one", owner="ada")
    put(corpus, "measles two", owner="bob", type="article")
    put(corpus, "measles three", live=False)
    foreign = put(corpus, "measles four", org="other")
    selection = pb.DocumentSelection
    for scope, texts in (
        (None, {"measles one", "measles two"}),
        (pb.Scope(level=pb.SCOPE_LEVEL_USER), {"measles one"}),
        (pb.Scope(types=["article"]), {"measles two"}),
        (pb.Scope(selection=selection(document_ids=[mine])), {"measles one"}),
        (pb.Scope(selection=selection()), set[str]()),
    ):
        assert {result.chunk.text for result in await words(me, "measles", scope=scope)} == texts
    for call in (words, both):
        with pytest.raises(CitewireError) as refused:
            await call(me, "measles", scope=pb.Scope(selection=selection(document_ids=[mine, foreign])))
        assert (refused.value.code, refused.value.metadata["document_ids"]) == (Code.NOT_FOUND, str(foreign))


async def test_a_document_counts_once_if_results_are_grouped_by_document(me: Caller, corpus: CorpusRows) -> None:
    put(corpus, "measles and mumps and others", "measles", title="a")
    put(corpus, "measles in gardens", title="b")
    put(corpus, "nothing of it", title="c")
    matches = await words(me, "measles", group_by=pb.GROUP_BY_DOCUMENT)
    assert [(result.chunk.title, result.chunk.text) for result in matches] == [
        ("a", "measles"),
        ("b", "measles in gardens"),
    ]
    assert len(await words(me, "measles", top_k=1)) == 1


async def test_nothing_is_found_if_no_term_is_known(me: Caller, corpus: CorpusRows) -> None:
    assert await words(me, "measles") == []  # an organisation without documents
    put(corpus, "gardens")
    for query in ("measles", "?!", "…"):
        assert await words(me, query) == []


async def test_hybrid_weighs_words_and_meaning(me: Caller, corpus: CorpusRows) -> None:
    put(corpus, "measles measles", title="by words", angles=[80])
    put(corpus, "gardens", title="by meaning", angles=[20])
    put(corpus, "measles and gardens and water in the city", title="by both", angles=[10])
    put(corpus, "gardens and water", title="by neither", angles=[88])
    matches = await both(me, "measles")
    assert [result.chunk.title for result in matches] == ["by both", "by words", "by meaning", "by neither"]
    scores = [result.rank_score for result in matches]
    assert scores == sorted(scores, reverse=True)
    assert 0 < scores[-1] < scores[0] < 1
    assert [round(result.score, 2) for result in matches] == [0.98, 0.17, 0.94, 0.03]
    assert [result.HasField("lexical_score") for result in matches] == [True, True, False, False]
    # The minimum is on similarity, also for results found only by words.
    assert [result.chunk.title for result in await both(me, "measles", min_score=0.5)] == ["by both", "by meaning"]
    assert [result.chunk.title for result in await both(me, "measles", top_k=1)] == ["by both"]
    matches = await both(me, "measles", group_by=pb.GROUP_BY_DOCUMENT, recent=4)
    assert len(matches) == 4


@pytest.mark.parametrize(("tokens", "first"), [("length(text) / 5", "page 20"), ("length(text) / 2", "page 9")])
async def test_if_pages_share_their_words_a_model_that_knows_the_language_decides(
    me: Caller, corpus: CorpusRows, tokens: str, first: str
) -> None:
    # All pages contain the question's words, the first ten with the least other text; page 20 has the answer.
    for page in range(25):
        text = "Net revenue of the year. " + "Further figures follow below. " * (1 + 20 * (page // 10))
        put(corpus, text, title=f"page {page}", angles=[40 if page == 20 else 85 - page])
    corpus.run(f"UPDATE corpus.chunks SET token_count = {tokens}")  # noqa: S608 # the test's own text
    results = await both(me, "net revenue of the year", keep_duplicates=True)
    assert results[0].chunk.title == first


def test_characters_per_token_are_read_unless_a_text_is_mostly_numbers(database: Database) -> None:
    texts = {
        "Net sales grew by 12 % in all of the regions.": 4.5,
        "Net sales\t5,363\t4,869\t5,058": 0.0,
        "U.S.\t$ —\t$ 4,455\t*\nQTD\tDown\t\t\t\tDeclines primarily driven by:": 0.0,
        "売上高は増えた。": 0.8,
    }
    names = "(chunk_id, document_id, content_hash, text, token_count)"
    read = f"SELECT {KEYS.columns} FROM (VALUES (1, 2, ''::bytea, %s::text, 10)) c {names}"  # noqa: S608 # our columns
    with psycopg.connect(database.owner_dsn) as connection:
        rows = [connection.execute(read, (text,)).fetchone() for text in texts]
    assert [KEYS.read(row, 0.5).chars_per_token for row in rows if row] == pytest.approx(list(texts.values()))


async def test_hybrid_sums_reciprocal_ranks_on_request(me: Caller, corpus: CorpusRows) -> None:
    put(corpus, "measles measles", title="by words", angles=[80])
    put(corpus, "gardens", title="by meaning", angles=[5])
    put(corpus, "measles and gardens and water in the city", title="by both", angles=[10])
    matches = await both(me, "measles", fuse_by_rank=True)
    assert [result.chunk.title for result in matches] == ["by words", "by both", "by meaning"]
    assert [result.rank_score for result in matches] == pytest.approx([1 / 6 + 1 / 8, 1 / 7 + 1 / 7, 1 / 6])


async def test_near_duplicates_are_left_out_and_named(me: Caller, corpus: CorpusRows) -> None:
    long = "The measles outbreak of the spring began in the harbour and went on for eleven weeks in all. " * 3
    first = put(corpus, long, angles=[1])
    copies = [put(corpus, text, angles=[2]) for text in (long, long + "!", long.upper())]
    other = put(corpus, long.replace("eleven", "12"), angles=[3])
    last = put(corpus, "Gardens and measles", angles=[40])
    dense: dict[str, Any] = {"mode": pb.SEARCH_MODE_DENSE, "vector": QUERY, "space": SPACE}
    for mode in ({}, {"mode": pb.SEARCH_MODE_HYBRID, "vector": QUERY, "space": SPACE}, dense):
        matches = await words(me, "measles", top_k=3, **mode)
        assert {result.chunk.document_id for result in matches} == {first, other, last}
        named = {result.chunk.document_id: len(result.duplicate_chunk_ids) for result in matches}
        assert named[first] == len(copies)
        assert len(await words(me, "measles", keep_duplicates=True, **mode)) == 6
        # Grouped by document, each document is a result, even if its text is a duplicate.
        assert len(await words(me, "measles", group_by=pb.GROUP_BY_DOCUMENT, **mode)) == 6


@pytest.mark.parametrize("copies", [20, 130])
async def test_many_near_duplicates_hide_no_result(me: Caller, corpus: CorpusRows, copies: int) -> None:
    """Copies beyond the spare candidates that are read, and beyond the first candidates of each leg."""
    long = "The measles outbreak of the spring began in the harbour and went on for eleven weeks in all. " * 3
    first = put(corpus, *(f"{long}{'!' * (number % 3)}" for number in range(copies)), angles=[1] * copies)
    others = [put(corpus, f"Gardens {number} and measles", angles=[40]) for number in range(4)]
    matches = await both(me, "measles", top_k=5)
    assert {result.chunk.document_id for result in matches} == {first, *others}
    assert {result.chunk.document_id: bool(result.duplicate_chunk_ids) for result in matches} == {
        first: True, **dict.fromkeys(others, False)
    }  # fmt: skip


async def test_diverse_results_come_first_on_request(me: Caller, corpus: CorpusRows) -> None:
    for angle in (1, 2, 3):
        put(corpus, f"measles {angle}", title=str(angle), angles=[angle])
    put(corpus, "gardens and measles", title="apart", angles=[-75])
    for mode in (pb.SEARCH_MODE_DENSE, pb.SEARCH_MODE_HYBRID):
        alike = await words(me, "measles", mode=mode, vector=QUERY, space=SPACE, top_k=2)
        assert "apart" not in [result.chunk.title for result in alike]
        apart = await words(me, "measles", mode=mode, vector=QUERY, space=SPACE, top_k=2, diversity=0.7)
        assert [result.chunk.title for result in apart][1] == "apart"


async def test_missing_and_too_long_fields_are_named(me: Caller) -> None:
    cases: tuple[tuple[dict[str, Any], set[str]], ...] = (
        ({"query": ""}, {"query"}),
        ({"query": "é" * 16_385}, {"query"}),
        ({"query": "x", "recent": 1}, {"recent"}),
        ({"query": "x", "diversity": 0.1}, {"diversity"}),
        ({"query": "x", "diversity": 1.1}, {"diversity"}),
        ({"query": "x", "diversity": -0.1}, {"diversity"}),
        ({"query": "x", "diversity": float("nan")}, {"diversity"}),
        ({"query": " ", "mode": pb.SEARCH_MODE_HYBRID}, {"query", "vector", "space"}),
    )
    for fields, wrong in cases:
        with pytest.raises(CitewireError) as refused:
            await words(me, **fields)
        assert {violation.field for violation in refused.value.violations} == wrong
