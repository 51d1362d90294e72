"""The local reranker's time limit: best documents first, as many as there is time for, and cached ones at once."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from citewire_embedder.providers import late_interaction
from citewire_embedder.providers.base import Precision, Ranking, TokenisedText
from citewire_embedder.providers.late_interaction import LateInteraction
from citewire_embedder.providers.model_directory import ModelDirectory, read_directory
from citewire_embedder.providers.token_vectors import TokenVectors
from tiny_models import TinyModel, write_model

QUERY = "the cat sat"
DOCUMENTS = [" ".join(["cat", "mat", "dog", "far"][: 1 + number % 4]) for number in range(40)]
FIRST = [1 - abs(number - 30) / 100 for number in range(40)]
"""The best is document 30."""
BEST_FIRST = sorted(range(40), key=lambda index: -FIRST[index])


@pytest.fixture(scope="module")
def model_path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("model") / "tiny"
    write_model(path, TinyModel())
    return path


class Watched(LateInteraction):
    """Records the sizes of batches, and can stop before a chosen call."""

    calls = 0
    stop_at = 1 << 30
    on_call: Callable[[], None] = staticmethod(lambda: None)

    def token_vectors(self, texts: Sequence[TokenisedText]) -> list[TokenVectors]:
        """Computes token vectors, but waits from call `stop_at` on. The first call is the query's."""
        self.calls += 1
        if self.calls >= self.stop_at:
            self.on_call()
        return super().token_vectors(texts)


@asynccontextmanager
async def reranker(path: Path, *, cache_bytes: int = 0) -> AsyncGenerator[Watched]:
    model = Watched("tiny", read_directory(path), precision=Precision.FP32, threads=1, cache_bytes=cache_bytes)
    try:
        yield model
    finally:
        await model.close()


def split(ranking: Ranking) -> tuple[list[int], list[int]]:
    """The indices that the model scored, and the rest."""
    order = [ranked.index for ranked in ranking.ranked]
    return order[: ranking.scored], order[ranking.scored :]


async def test_without_a_budget_all_are_scored(model_path: Path) -> None:
    async with reranker(model_path) as model:
        ranking = await model.rerank(QUERY, DOCUMENTS)
        assert (ranking.scored, len(ranking.ranked)) == (40, 40)


async def test_documents_scored_in_time_come_first(model_path: Path) -> None:
    async with reranker(model_path) as model:
        whole = await model.rerank(QUERY, DOCUMENTS, None, FIRST)
        model.calls, model.stop_at = 0, 4
        stalled, goes_on = threading.Event(), threading.Event()

        def stall() -> None:
            stalled.set()
            assert goes_on.wait(10)

        model.on_call = stall
        ranking = await model.rerank(QUERY, DOCUMENTS, None, FIRST, seconds=1.5)
        assert stalled.is_set()
        goes_on.set()
        scored, others = split(ranking)
        assert 0 < len(scored) < 40
        assert sorted(scored) == sorted(BEST_FIRST[: len(scored)]), "the best of the first ranking"
        assert others == sorted(others), "in the order given"
        assert [ranked.score for ranked in ranking.ranked[ranking.scored :]] == [0.0] * len(others)
        assert ranking.input_tokens < whole.input_tokens
        best = await model.rerank(QUERY, DOCUMENTS, 3, FIRST, seconds=10)
        assert (len(best.ranked), best.scored) == (3, 40), "the next call isn't delayed"


async def test_a_call_that_ends_early_has_read_the_best_not_the_longest(
    model_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(late_interaction, "_THREAD_TOKENS", 1)
    monkeypatch.setattr(late_interaction, "_FEWEST_TOKENS", 1)
    async with reranker(model_path) as model:
        await model.rerank(QUERY, DOCUMENTS)
        for batches in (1, 2, 3, 5):
            ranking = await stopped_call(model, batches)
            assert sorted(split(ranking)[0]) == sorted(BEST_FIRST[:batches])


async def test_a_cached_document_does_not_overtake_a_better_unread_one(model_path: Path) -> None:
    async with reranker(model_path, cache_bytes=1 << 20) as model:
        await model.rerank(QUERY, [text for index, text in enumerate(DOCUMENTS) if index != BEST_FIRST[2]])
        others = [f"{text} far far" if index == BEST_FIRST[2] else text for index, text in enumerate(DOCUMENTS)]
        ranking = await stopped_call(model, 0, others)
        assert sorted(split(ranking)[0]) == sorted(BEST_FIRST[:2])
        assert (await model.rerank(QUERY, others, None, FIRST, seconds=10)).scored == 40


async def stopped_call(model: Watched, batches: int, documents: Sequence[str] = DOCUMENTS) -> Ranking:
    """A call that runs out of time after this many batches."""
    goes_on = threading.Event()
    model.calls, model.stop_at = 0, batches + 2
    model.on_call = lambda: None if goes_on.wait(10) else pytest.fail("nobody went on")
    ranking = await model.rerank(QUERY, documents, None, FIRST, seconds=1)
    model.stop_at = 1 << 30
    goes_on.set()
    return ranking


async def test_a_batch_that_would_not_finish_in_time_is_not_started(model_path: Path) -> None:
    async with reranker(model_path) as model:
        await model.rerank(QUERY, DOCUMENTS)  # loads it
        model.calls = 0
        model.note_pace(tokens=1, seconds=1000)
        ranking = await model.rerank(QUERY, DOCUMENTS, None, FIRST, seconds=60)
        assert (ranking.scored, model.calls) == (1, 2), "a batch is always tried, as the machine may be faster by now"
        for _ in range(40):
            await model.rerank(QUERY, DOCUMENTS, None, FIRST, seconds=60)
        assert (await model.rerank(QUERY, DOCUMENTS, None, FIRST, seconds=60)).scored == 40


async def test_a_busy_machine_answers_in_time_by_ending_sooner(model_path: Path) -> None:
    async with reranker(model_path) as model:
        assert model.working_time(1) == pytest.approx(0.97)
        model.note_late(0.05)
        assert 0.87 <= model.working_time(1) < 0.95
        model.note_late(10)
        assert model.working_time(1) == pytest.approx(0.87), "at most a tenth"
        for _ in range(50):
            model.note_late(0)
        assert model.working_time(1) == pytest.approx(0.97, abs=1e-3)


async def test_a_model_that_is_still_being_loaded_leaves_the_first_order(
    model_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    goes_on, build = threading.Event(), ModelDirectory.build_graph

    def slow(directory: ModelDirectory, *arguments: object) -> bytes:
        assert goes_on.wait(10)
        return build(directory, *arguments)  # type: ignore[arg-type] # passed on as they come

    monkeypatch.setattr(ModelDirectory, "build_graph", slow)
    async with reranker(model_path) as model:
        ranking = await model.rerank(QUERY, DOCUMENTS, 5, FIRST, seconds=0.05)
        assert split(ranking) == ([], [0, 1, 2, 3, 4])
        assert ranking.input_tokens == 0
        goes_on.set()
        assert (await model.rerank(QUERY, DOCUMENTS, 5, seconds=10)).scored == 40


async def test_texts_are_read_once_for_each_organisation(model_path: Path) -> None:
    headings = ["far"] * 20 + [""] * 20
    async with reranker(model_path, cache_bytes=1 << 20) as model:
        first = await model.rerank(QUERY, DOCUMENTS, None, FIRST, headings, org_id="acme")
        model.calls = 0
        again = await model.rerank(QUERY, DOCUMENTS[::-1], None, FIRST[::-1], headings[::-1], org_id="acme")
        assert model.calls == 1, "the query's"
        assert again.scored == 40
        assert {ranked.index: ranked.score for ranked in first.ranked} == {
            39 - ranked.index: pytest.approx(ranked.score) for ranked in again.ranked
        }
        assert again.input_tokens == 5
        other = await model.rerank(QUERY, DOCUMENTS, None, FIRST, headings, org_id="evil")
        assert other.input_tokens == first.input_tokens
        below = await model.rerank(QUERY, DOCUMENTS, None, FIRST, ["mat"] * 40, org_id="acme")
        assert below.input_tokens > first.input_tokens / 2, "another heading makes a different text"


async def test_the_cache_changes_no_order(model_path: Path) -> None:
    async with reranker(model_path) as plain, reranker(model_path, cache_bytes=1 << 20) as caching:
        exact = await plain.rerank(QUERY, DOCUMENTS)
        for _ in range(2):
            rounded = {entry.index: entry.score for entry in (await caching.rerank(QUERY, DOCUMENTS)).ranked}
            assert all(rounded[ranked.index] == pytest.approx(ranked.score, abs=0.01) for ranked in exact.ranked)


async def test_simultaneous_calls_share_the_thread_and_keep_their_time_limits(model_path: Path) -> None:
    async with reranker(model_path) as model:
        await model.rerank(QUERY, DOCUMENTS)
        many = DOCUMENTS * 25
        rankings = await asyncio.gather(*(model.rerank(QUERY, many, 10, seconds=0.5) for _ in range(4)))
        assert all(ranking.scored <= 1000 and len(ranking.ranked) == 10 for ranking in rankings)
        limited = model.rerank(QUERY, many, 10, seconds=5)
        unlimited = model.rerank(QUERY, DOCUMENTS)
        assert [ranking.scored > 0 for ranking in await asyncio.gather(limited, unlimited)] == [True, True]
