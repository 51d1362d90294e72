"""Whether a search's results are related to its question.

The best of many unrelated chunks lies far above the mean of unrelated ones, and farther the more chunks there are: the
largest of N draws from a normal distribution is about √(2 ln N) deviations above the mean. Only the excess over that
counts as evidence. It is combined with the lexical evidence, and with the question's similarity to the whole library.
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
"""Deviations for a text that has all of the question's words many times; 6 to 10 perform alike (ADR 20)."""
MOST_DEMANDED: Final = 2.0
"""Deviations, including lexical evidence, required above the best of unrelated chunks. From 2.1 on, more than two per
cent of a set's answerable questions are lost (ADR 20)."""
LEAST_RELATED: Final = 4.0
"""If a model's related texts aren't this many deviations above unrelated ones, nothing is judged."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """The verdict on a search."""

    off_topic: bool = False
    margin: float | None = None
    """Deviations by which the results are more related than off-topic ones; None if not computed."""


class TopicJudge:
    """Judges searches, mostly by what they have read; further queries are made only in doubt."""

    def __init__(self, store: PostgresTopics) -> None:
        """Takes the store for further queries."""
        self._store = store

    async def judge(
        self, tenant: Tenant, query: SearchQuery, snapshot: SearchSnapshot, results: Sequence[Candidate]
    ) -> Verdict:
        """Judges a search by its results, given best first.

        Results added for their recency are never off topic, nor are results for questions that only say what to do with
        the documents.

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
        demanded = demand(scale) if query.text else 0.0  # without a text half of the evidence is missing
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
    """Returns about how many deviations above the mean the best of `count` unrelated chunks is."""
    return math.sqrt(2 * math.log(max(chunks, 2)))


def demand(scale: SpaceScale) -> float:
    """Returns the deviations required above `expected_best`: fewer if the model separates related texts less."""
    return min(MOST_DEMANDED, scale.related / 3 - 0.8)


def _is_of_library(scope: Scope) -> bool:
    """Whether the scope is a whole library or collection, whose topic is given by its centroid."""
    return scope.document_ids is None and scope.filter is None


def _all_below(results: Sequence[Candidate], threshold: float) -> bool:
    return all(result.score is not None and result.score <= threshold for result in results)
