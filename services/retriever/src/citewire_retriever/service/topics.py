"""Whether a search's results are related to its question.

The best of many unrelated chunks is far from the mean of unrelated ones, and the farther, the more there are: of N
draws from a normal distribution the largest lies about √(2 ln N) deviations above the mean. What lies above that is the
best result's own. It is added to what the words say, and to how near the question is to the library as a whole.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from citewire_kit.tenant import Tenant
from citewire_retriever.calibrations import built_in_scale
from citewire_retriever.model import Candidate, Scope, SearchMode, SearchQuery, SpaceScale
from citewire_retriever.service.general_questions import is_general
from citewire_retriever.store.snapshots import SearchSnapshot
from citewire_retriever.store.topics import PostgresTopics

WORDS: Final = 8.0
"""Deviations that a text counts which has all of the question's words many times; 6 to 10 are alike (ADR 20)."""
MOST_DEMANDED: Final = 2.0
"""Deviations, words included, asked for beyond the best of unrelated chunks. From 2.1 on more than two per cent of the
answerable questions of a set are lost (ADR 20)."""
LEAST_RELATED: Final = 4.0
"""A model of which related texts aren't so many deviations above unrelated ones can't tell: nothing is judged then."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a search is judged to be."""

    off_topic: bool = False
    margin: float | None = None
    """Deviations by which the results have more to do with the question than off-topic ones; None: not derived."""


class TopicJudge:
    """Judges searches. Most need no more than what they have read: only where that leaves doubts more is asked."""

    def __init__(self, store: PostgresTopics) -> None:
        """Takes the store that it asks."""
        self._store = store

    async def judge(
        self, tenant: Tenant, query: SearchQuery, snapshot: SearchSnapshot, results: Sequence[Candidate]
    ) -> Verdict:
        """Judges a search by its results, which are best first.

        Nothing is off topic that is there for its recency, and no question that only says what is to be done with the
        documents.

        Raises:
            CitewireError: The database can't be reached.
        """
        if (
            query.space is None
            or query.mode == SearchMode.LEXICAL
            or not results
            or not snapshot.ranked
            or snapshot.recent
        ):
            return Verdict()
        if snapshot.calibration is not None and snapshot.calibration.HasField("off_topic_threshold"):
            return Verdict(_all_below(results, snapshot.calibration.off_topic_threshold))
        collection = query.scope.collection
        library = await self._store.library(tenant, query.space, collection, hidden=snapshot.hidden)
        scale = library.scale or built_in_scale(query.space)
        if scale is None or scale.related < LEAST_RELATED:
            return Verdict(_all_below(results, 0.0))
        best = max(candidate.score or 0.0 for candidate in snapshot.ranked)
        nearness = (best - scale.unrelated) / scale.deviation
        if library.centroid is not None and _is_of_library(query.scope):
            vector = np.frombuffer(query.vector, dtype="<f4").astype(np.float64)
            mean = float(vector @ library.centroid) / math.sqrt(float(vector @ vector))
            nearness += (mean - scale.unrelated) / scale.deviation
        chunks = library.chunks if _is_of_library(query.scope) else snapshot.scope_chunks
        if chunks is None:
            chunks = await self._store.chunks(tenant, query.scope)
        nearness -= expected_best(chunks)
        demanded = demand(scale) if query.text else 0.0  # without words half of the evidence is missing
        if nearness >= demanded:
            return Verdict(margin=nearness - demanded)
        if is_general(query.text):
            return Verdict()
        if query.mode == SearchMode.HYBRID:
            share = max((candidate.lexical_score or 0.0 for candidate in snapshot.lexical), default=0.0)
            nearness += WORDS * share / max(snapshot.ideal, share, 1e-9)
        elif query.text and nearness + WORDS >= demanded:
            nearness += WORDS * await self._store.word_share(tenant, query, library.table, chunks)
        return Verdict(nearness < demanded, nearness - demanded)


def expected_best(chunks: int) -> float:
    """Returns how many deviations above the mean the best of so many unrelated chunks is, about."""
    return math.sqrt(2 * math.log(max(chunks, 2)))


def demand(scale: SpaceScale) -> float:
    """Returns what is asked for beyond `expected_best`: the less, the less a model tells related from unrelated."""
    return min(MOST_DEMANDED, scale.related / 3 - 0.8)


def _is_of_library(scope: Scope) -> bool:
    """Whether the scope is a whole library or collection: then it is about what its centroid says."""
    return scope.document_ids is None and scope.filter is None


def _all_below(results: Sequence[Candidate], threshold: float) -> bool:
    return all(result.score is not None and result.score <= threshold for result in results)
