"""Whether a search's results are on topic."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import cast

import numpy as np
import pytest
from citewire.retriever.v1.calibration_pb2 import Calibration

from citewire_kit.tenant import Tenant
from citewire_retriever.model import Candidate, Scope, SearchMode, SearchQuery, Space, SpaceScale
from citewire_retriever.service.topics import (
    LEAST_RELATED,
    MOST_DEMANDED,
    WORDS,
    TopicJudge,
    Verdict,
    demand,
    expected_best,
)
from citewire_retriever.store.snapshots import SearchSnapshot
from citewire_retriever.store.topics import LibraryTopic, PostgresTopics

TENANT = Tenant("acme", "ada", "free")
SPACE = Space("some-model", "r1", 2)
SCALE = SpaceScale(unrelated=0.7, deviation=0.02, related=9.0)
"""The scale of a model whose vectors are all in one corner, which no absolute threshold of other models fits."""
CHUNKS = 1000
QUERY = SearchQuery(
    Scope(), vector=np.array([2, 0], "<f4").tobytes(), space=SPACE, text="Which hormone regulates calcium?"
)


@dataclass
class FakeTopics:
    """Gives scripted answers of the store, and records the questions."""

    topic: LibraryTopic = field(default_factory=lambda: LibraryTopic("vectors_1", SCALE, CHUNKS, None))
    share: float = 0.0
    asked: list[str] = field(default_factory=list[str])

    async def library(self, _tenant: Tenant, _space: Space, collection: str, *, hidden: bool) -> LibraryTopic:
        assert not hidden
        self.asked.append(f"library {collection}".strip())
        return self.topic

    async def chunks(self, _tenant: Tenant, _scope: Scope) -> int:
        self.asked.append("chunks")
        return 20

    async def word_share(self, _tenant: Tenant, _query: SearchQuery, _table: str, _chunks: int) -> float:
        self.asked.append("words")
        return self.share


def results(*scores: float | None, recent: bool = False) -> tuple[Candidate, ...]:
    return tuple(Candidate(number, number, b"", score, recent) for number, score in enumerate(scores))


async def judge(
    topics: FakeTopics,
    candidates: Sequence[Candidate],
    query: SearchQuery = QUERY,
    recent: Sequence[Candidate] = (),
    calibration: Calibration | None = None,
    lexical: Sequence[Candidate] = (),
    ideal: float = 0.0,
    scope_chunks: int | None = None,
) -> Verdict:
    snapshot = SearchSnapshot(
        (SPACE,),
        (),
        tuple(candidates),
        tuple(recent),
        exact=True,
        lexical=tuple(lexical),
        ideal=ideal,
        scope_chunks=scope_chunks,
        calibration=calibration,
    )
    return await TopicJudge(cast("PostgresTopics", topics)).judge(TENANT, query, snapshot, [*candidates, *recent])


def similarity(deviations: float, scale: SpaceScale = SCALE, chunks: int = CHUNKS) -> float:
    """A similarity that is this many deviations above the best of unrelated chunks."""
    return scale.unrelated + scale.deviation * (expected_best(chunks) + deviations)


async def test_a_space_is_judged_by_its_own_scale() -> None:
    topics = FakeTopics()
    assert (await judge(topics, results(similarity(MOST_DEMANDED - 0.1)))).off_topic
    assert not (await judge(topics, results(similarity(MOST_DEMANDED + 0.1)))).off_topic
    # The same similarity in a space where it is high.
    topics.topic = replace(topics.topic, scale=SpaceScale(0.0, 0.07, 9.0))
    assert not (await judge(topics, results(similarity(MOST_DEMANDED - 0.1)))).off_topic


async def test_more_is_demanded_of_the_best_of_many_chunks() -> None:
    topics, candidates = FakeTopics(), results(similarity(MOST_DEMANDED + 0.2))
    assert not (await judge(topics, candidates)).off_topic
    topics.topic = replace(topics.topic, chunks=1_000_000)
    assert (await judge(topics, candidates)).off_topic


async def test_terms_are_checked_only_if_vectors_leave_doubts() -> None:
    topics = FakeTopics(share=0.5)
    sure = await judge(topics, results(similarity(MOST_DEMANDED + 0.01)))
    assert topics.asked == ["library"]
    assert not sure.off_topic
    doubtful = await judge(topics, results(similarity(0.0)))
    assert topics.asked == ["library", "library", "words"]
    assert not doubtful.off_topic
    assert doubtful.margin == pytest.approx(0.5 * WORDS - MOST_DEMANDED)
    topics.share = 0.1
    assert (await judge(topics, results(similarity(0.0)))).off_topic
    topics.asked.clear()
    assert (await judge(topics, results(similarity(-WORDS)))).off_topic
    assert topics.asked == ["library"]  # even all of its terms wouldn't be enough


async def test_without_terms_the_threshold_is_lower() -> None:
    topics, query = FakeTopics(), replace(QUERY, text="")
    assert not (await judge(topics, results(similarity(0.1)), query)).off_topic
    assert (await judge(topics, results(similarity(-0.1)), query)).off_topic
    assert topics.asked == ["library", "library"]


async def test_a_hybrid_search_has_already_matched_its_terms() -> None:
    topics, query = FakeTopics(), replace(QUERY, mode=SearchMode.HYBRID)
    candidates = results(similarity(0.0))
    lexical = [candidate.with_scores(4.0) for candidate in candidates]
    assert not (await judge(topics, candidates, query, lexical=lexical, ideal=10.0)).off_topic
    assert (await judge(topics, candidates, query, lexical=lexical, ideal=40.0)).off_topic
    assert "words" not in topics.asked


async def test_a_question_near_the_whole_library_needs_less() -> None:
    topics, candidates = FakeTopics(), results(similarity(1.5))
    assert (await judge(topics, candidates)).off_topic
    topics.topic = replace(topics.topic, centroid=np.array([0.74, 0.1], np.float32))  # two deviations above the mean
    assert not (await judge(topics, candidates)).off_topic
    topics.topic = replace(topics.topic, centroid=np.array([0.68, 0.1], np.float32))
    assert (await judge(topics, candidates)).off_topic


async def test_a_selection_is_counted_and_not_compared_with_the_library() -> None:
    topics = FakeTopics()
    topics.topic = replace(topics.topic, centroid=np.array([0.1, 0.1], np.float32))
    query = replace(QUERY, scope=Scope(document_ids=(1, 2)))
    assert not (await judge(topics, results(similarity(MOST_DEMANDED + 0.1, chunks=20)), query)).off_topic
    assert (await judge(topics, results(similarity(MOST_DEMANDED - 0.1, chunks=20)), query)).off_topic
    assert topics.asked[:2] == ["library", "chunks"]
    await judge(topics, results(0.9), replace(QUERY, scope=Scope(collection="reports")))
    assert topics.asked[-1] == "library reports"


async def test_a_selection_already_counted_by_the_search_isnt_counted_again() -> None:
    topics, query = FakeTopics(), replace(QUERY, scope=Scope(document_ids=(1, 2)))
    candidates = results(similarity(MOST_DEMANDED + 0.1, chunks=300))
    assert not (await judge(topics, candidates, query, scope_chunks=300)).off_topic
    assert (await judge(topics, candidates, query, scope_chunks=1_000_000)).off_topic
    assert "chunks" not in topics.asked


@pytest.mark.parametrize("score", [0.0, 0.3, 0.9, None])
async def test_with_recent_documents_nothing_is_off_topic(score: float | None) -> None:
    topics = FakeTopics()
    candidates = results(similarity(-5.0))
    assert (await judge(topics, candidates)).off_topic
    assert await judge(topics, candidates, recent=results(score, recent=True)) == Verdict()


async def test_a_question_about_the_documents_as_a_whole_is_never_off_topic() -> None:
    topics = FakeTopics()
    for text in ("Summarize this document.", "Fasse den Text kurz zusammen", "¿De qué trata?", "总结一下这篇文章"):
        assert not (await judge(topics, results(similarity(-2.0)), replace(QUERY, text=text))).off_topic
    assert (await judge(topics, results(similarity(-2.0)), replace(QUERY, text="Summarize the treaty"))).off_topic


async def test_an_organisations_calibration_replaces_the_scale() -> None:
    topics, stored = FakeTopics(), Calibration(off_topic_threshold=0.5)
    assert not (await judge(topics, results(0.4, 0.51), calibration=stored)).off_topic
    assert (await judge(topics, results(0.5, 0.4), calibration=stored)).off_topic
    assert topics.asked == []
    # A calibration without this threshold changes nothing.
    assert (await judge(topics, results(0.51), calibration=Calibration(dense_weight=0.4))).off_topic


@pytest.mark.parametrize("scale", [None, SpaceScale(0.1, 0.1, LEAST_RELATED - 0.1)])
async def test_without_a_usable_scale_only_opposite_results_are_off_topic(scale: SpaceScale | None) -> None:
    topics = FakeTopics(LibraryTopic("vectors_1", scale, CHUNKS, None))
    assert await judge(topics, results(0.01)) == Verdict()
    assert (await judge(topics, results(0.0))).off_topic


async def test_an_empty_result_is_not_judged() -> None:
    topics = FakeTopics()
    assert await judge(topics, ()) == Verdict()
    assert topics.asked == []


def test_less_is_demanded_of_a_model_that_distinguishes_less() -> None:
    demands = [demand(SpaceScale(0.0, 0.1, related)) for related in (4.5, 6.0, 8.4, 12.0)]
    assert demands == sorted(demands)
    assert 0 < demands[0] < demands[1] < demands[2] == pytest.approx(MOST_DEMANDED)
    assert demands[3] == MOST_DEMANDED
