"""The local reranker: token vectors compared with a plain numpy encoder's, MaxSim, batches, limits."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from tokenizers import Tokenizer

from citewire_embedder.providers.base import Precision
from citewire_embedder.providers.closeness import blend, closeness, max_sim
from citewire_embedder.providers.late_interaction import LateInteraction, batches
from citewire_embedder.providers.local import padded_length
from citewire_embedder.providers.model_directory import ModelDirectory, read_directory
from citewire_kit.errors import CitewireError, StartupError
from tiny_models import TinyModel, Weights, hidden_states, write_model

QUERY = "the cat sat"
DOCUMENTS = [
    "a dog ran far",
    "the cat sat on a mat",
    "mat",
    "the dogs sat on the cat",
    "far far far far far far far far",
]


@pytest.fixture(scope="module")
def weights_at(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Weights]:
    path = tmp_path_factory.mktemp("model") / "tiny"
    return path, write_model(path, TinyModel())


@asynccontextmanager
async def reranker(path: Path, *, most_tokens: int = 65_536) -> AsyncGenerator[LateInteraction]:
    model = LateInteraction("tiny", read_directory(path), precision=Precision.FP32, threads=1, most_tokens=most_tokens)
    try:
        yield model
    finally:
        await model.close()


def reference(path: Path, weights: Weights, query: str, document: str) -> float:
    """MaxSim in plain numpy."""
    tokenizer = Tokenizer.from_file(str(path / "tokenizer.json"))
    tokenizer.no_truncation()
    tokenizer.no_padding()
    sides: list[np.ndarray[tuple[int, ...], np.dtype[np.float32]]] = []
    for text in (query, document):
        encoding = tokenizer.encode(text, add_special_tokens=False)
        encoding.truncate(10)
        hidden = hidden_states(TinyModel(), weights, tokenizer.post_process(encoding).ids)[1:-1]
        sides.append(hidden / np.linalg.norm(hidden, axis=1, keepdims=True))
    return float(np.mean([max(float(side @ other) for other in sides[1]) for side in sides[0]]))


async def test_scores_are_max_sim_of_the_encoders_token_vectors(weights_at: tuple[Path, Weights]) -> None:
    path, weights = weights_at
    expected = [reference(path, weights, QUERY, document) for document in DOCUMENTS]
    async with reranker(path) as model:
        ranking = await model.rerank(QUERY, DOCUMENTS)
        assert [element.index for element in ranking.ranked] == sorted(
            range(len(DOCUMENTS)), key=lambda i: -expected[i]
        )
        for entry in ranking.ranked:
            assert entry.score == pytest.approx(expected[entry.index], abs=1e-4)
        best = await model.rerank(QUERY, DOCUMENTS, 2)
        assert best.ranked == ranking.ranked[:2]
        assert (model.info.space.model, model.info.provider) == ("tiny-late-interaction", "local")
        assert model.info.space.revision == read_directory(path).revision()


async def test_the_first_ranking_counts_too(weights_at: tuple[Path, Weights]) -> None:
    async with reranker(weights_at[0]) as model:
        alone = [document.index for document in (await model.rerank(QUERY, DOCUMENTS)).ranked]
        nothing = await model.rerank(QUERY, DOCUMENTS, None, [0.4] * len(DOCUMENTS))
        assert [element.index for element in nothing.ranked] == alone
        last = alone[-1]
        sure = [1.0 if index == last else 0.0 for index in range(len(DOCUMENTS))]
        assert [entry.index for entry in (await model.rerank(QUERY, DOCUMENTS, 1, sure)).ranked] == [last]


def test_a_blend_adds_the_scores_if_the_rankings_agree() -> None:
    own = [0.9, 0.8, 0.6, 0.5, 0.4, 0.3, 0.1]
    first = [0.30, 0.32, 0.28, 0.22, 0.20, 0.18, 0.15]
    assert blend(first, own) == pytest.approx([score + other for score, other in zip(first, own, strict=True)])
    assert blend(first[::-1], own) == first[::-1], "the rankings disagree"
    assert blend([0.2] * 7, own) == pytest.approx([0.2 + other for other in own]), "the first ranking is constant"
    assert blend(first[:2], own[:2]) == pytest.approx([0.30 + own[0], 0.32 + own[1]]), "too few documents to tell"


def vectors(rng: np.random.Generator, tokens: int) -> NDArray[np.float32]:
    result = rng.standard_normal((tokens, 8)).astype(np.float32)
    return result / np.linalg.norm(result, axis=1, keepdims=True)


@pytest.mark.parametrize("heading", [0, 5])
@pytest.mark.parametrize("tokens", [6, 12, 13, 24, 25, 37, 48, 49, 71, 100])
def test_closeness_uses_passages_of_both_lengths(tokens: int, heading: int) -> None:
    rng = np.random.default_rng(tokens)
    query, document = vectors(rng, 4), vectors(rng, tokens)
    above, body = document[:heading], document[heading:]

    def best(length: int) -> float:
        starts = range(0, max(1, len(body) - length // 2), length // 2)
        return max(max_sim(query, np.concatenate([above, body[at : at + length]])) for at in starts)

    expected = 0.2 * max_sim(query, document) + 0.4 * best(48) + 0.4 * best(24)
    assert closeness(query, document, heading) == pytest.approx(expected, abs=1e-6)


def test_words_found_together_score_higher_than_words_far_apart() -> None:
    words, filler = np.eye(4, dtype=np.float32)[:2], np.eye(4, dtype=np.float32)[3:]
    together = np.concatenate([words, filler.repeat(60, axis=0)])
    apart = np.concatenate([words[:1], filler.repeat(60, axis=0), words[1:]])
    assert max_sim(words, together) == max_sim(words, apart) == pytest.approx(1)
    assert closeness(words, together) == pytest.approx(1)
    assert closeness(words, apart) == pytest.approx(0.2 + 0.8 / 2)
    assert closeness(words, apart, heading=1) == pytest.approx(1), "a heading belongs to each passage"
    assert closeness(words, words, heading=2) == pytest.approx(1), "only a heading"


async def test_a_heading_is_read_before_its_document(weights_at: tuple[Path, Weights]) -> None:
    async with reranker(weights_at[0]) as model:
        joined = await model.rerank(QUERY, ["the cat\na mat", "dog"])
        apart = await model.rerank(QUERY, ["a mat", "dog"], headings=["the cat", ""])
        assert [(entry.index, entry.score) for entry in apart.ranked] == [
            (element.index, pytest.approx(element.score, abs=1e-6)) for element in joined.ranked
        ]
        assert apart.input_tokens == joined.input_tokens
        crowded = await model.rerank(QUERY, ["a mat"], headings=["far " * 50])
        assert -1.001 <= crowded.ranked[0].score <= 1.001, "no room is left for the document"


async def test_tokens_are_those_that_the_model_reads(weights_at: tuple[Path, Weights]) -> None:
    async with reranker(weights_at[0]) as model:
        # Two special tokens per text, and a window of 12.
        assert (await model.rerank("the cat", ["a mat", "far " * 50])).input_tokens == 4 + 4 + 12


async def test_a_text_without_a_known_word_has_a_score(weights_at: tuple[Path, Weights]) -> None:
    async with reranker(weights_at[0]) as model:
        ranking = await model.rerank("?", [" ", "日本", "the cat"])
        assert sorted(element.index for element in ranking.ranked) == [0, 1, 2]
        assert all(-1.001 <= entry.score <= 1.001 for entry in ranking.ranked)


async def test_many_documents_keep_their_own_scores(weights_at: tuple[Path, Weights]) -> None:
    documents = [" ".join(["cat", "mat", "dog", "far"][: 1 + number % 4]) for number in range(200)]
    async with reranker(weights_at[0]) as model:
        together = {entry.index: entry.score for entry in (await model.rerank(QUERY, documents)).ranked}
        for index in (0, 1, 2, 3, 199):
            (alone,) = (await model.rerank(QUERY, [documents[index]])).ranked
            assert together[index] == pytest.approx(alone.score, abs=1e-4)


async def test_too_much_work_is_refused_unless_it_is_alone(weights_at: tuple[Path, Weights]) -> None:
    async with reranker(weights_at[0], most_tokens=10) as model:
        answers = await asyncio.gather(*(model.rerank(QUERY, DOCUMENTS) for _ in range(3)), return_exceptions=True)
        refused = [answer for answer in answers if isinstance(answer, CitewireError)]
        assert [(entry.reason, entry.retry_after) for entry in refused] == [("OVERLOADED", 1.0)] * 2
        assert (await model.rerank(QUERY, DOCUMENTS)).ranked, "the admitted work is released"


async def test_a_closed_model_is_an_error(weights_at: tuple[Path, Weights]) -> None:
    async with reranker(weights_at[0]) as model:
        await model.close()
        with pytest.raises(CitewireError) as raised:
            await model.rerank(QUERY, DOCUMENTS)
        assert raised.value.reason == "SHUTTING_DOWN"


async def test_a_model_that_cannot_be_loaded_is_the_callers_error(
    weights_at: tuple[Path, Weights], monkeypatch: pytest.MonkeyPatch
) -> None:
    def damaged(_self: ModelDirectory) -> Weights:
        raise StartupError("the weights are damaged")

    monkeypatch.setattr(ModelDirectory, "load_weights", damaged)
    async with reranker(weights_at[0]) as model:
        with pytest.raises(CitewireError) as raised:
            await model.rerank(QUERY, DOCUMENTS)
        assert raised.value.reason == "SERVICE_UNAVAILABLE"


def test_a_finished_graph_has_no_token_vectors(weights_at: tuple[Path, Weights]) -> None:
    directory = replace(read_directory(weights_at[0]), encoder=None)
    with pytest.raises(StartupError, match="safetensors"):
        LateInteraction("tiny", directory, precision=Precision.FP32, threads=1)


def test_max_sim_by_hand() -> None:
    query = np.array([[1, 0], [0, 1]], np.float32)
    document = np.array([[0.6, 0.8], [1, 0], [-1, 0]], np.float32)
    assert max_sim(query, document) == pytest.approx((1 + 0.8) / 2)


def test_batches_contain_each_text_once_within_their_limits() -> None:
    lengths = [5, 250, 1, 100, 99, 98, 256, 256, 256, 256, *[3] * 40]
    result = batches(lengths, 768)
    assert sorted(index for batch in result for index in batch) == list(range(len(lengths)))
    for batch in result:
        assert len(batch) * padded_length(max(lengths[index] for index in batch)) <= 768
    assert batches([], 768) == []
    assert batches([900, 1], 768) == [[0], [1]], "a text alone may be longer"


async def test_weights_that_are_too_large_for_a_graph_refuse_the_call(
    weights_at: tuple[Path, Weights], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("citewire_embedder.providers.model_directory._PROTOBUF_LIMIT", 1)
    async with reranker(weights_at[0]) as model:
        with pytest.raises(CitewireError, match="can't be loaded") as raised:
            await model.rerank(QUERY, DOCUMENTS)
        assert raised.value.reason == "SERVICE_UNAVAILABLE"
