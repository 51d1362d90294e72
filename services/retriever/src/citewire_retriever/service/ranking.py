"""Turns what the legs of a search found into results: fused, above the least similarity, without near-duplicates.

The legs of a hybrid search return keys of chunks, of which only the best are read whole: `Order` ranks the keys,
`choose` selects the results among the chunks read.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Final

from citewire.retriever.v1.calibration_pb2 import Calibration

from citewire_retriever.calibrations import effective
from citewire_retriever.model import Candidate, SearchQuery
from citewire_retriever.service.duplicates import collapse
from citewire_retriever.service.fusion import FUSION_DEPTH, fuse, fuse_by_rank
from citewire_retriever.store.snapshots import SearchSnapshot

DEEPEST: Final = 800
"""Most results of each leg that are examined to replace near-duplicates."""

_DIVERSE_FROM: Final = 50
"""Fewest candidates for diverse results; four times as many as are wanted if that is more."""
_DIVERSE_SHARE: Final = 4

_SPARE: Final = 5
"""Additional chunks that are read, as near-duplicates are rare."""


def first_depth(query: SearchQuery) -> int:
    """Number of results first requested from each leg, ignoring near-duplicates, which are rare."""
    return max(result_limit(query), FUSION_DEPTH if query.mode == "hybrid" else 1)


class Order:
    """The ranking of one search's candidates."""

    def __init__(self, query: SearchQuery, depth: int) -> None:
        """Takes the search, and the most results requested from each leg."""
        self._query = query
        self._depth = depth
        self.candidates: list[Candidate] = []
        """Candidates with at least the least similarity, best first."""

    def __call__(self, snapshot: SearchSnapshot) -> Sequence[int]:
        """Ranks the candidates, and returns which chunks to read whole."""
        calibration = None if self._query.space is None else effective(self._query.space, snapshot.calibration)
        lowest = None if self._query.space is None else _lowest(self._query, calibration)
        relevant = (candidate for candidate in self._fuse(snapshot, calibration) if _reaches(candidate, lowest))
        self.candidates = _limit_per_document(relevant, self._query.max_per_document)
        return [candidate.chunk_id for candidate in self.candidates[: to_read(result_limit(self._query))]]

    def _fuse(self, snapshot: SearchSnapshot, calibration: Calibration | None) -> Sequence[Candidate]:
        query = self._query
        if query.mode == "lexical":
            return snapshot.lexical
        if query.mode == "dense":
            return snapshot.ranked
        if query.fuse_by_rank:
            return fuse_by_rank(snapshot.ranked, snapshot.lexical, by_document=query.by_document)
        return fuse(
            snapshot.ranked,
            snapshot.lexical,
            by_document=query.by_document,
            ideal=snapshot.ideal,
            depth=self._depth,
            dense_weight=_weight(query, calibration),
        )


def choose(read: Sequence[Candidate], rest: Sequence[Candidate], query: SearchQuery) -> list[Candidate]:
    """Chooses the results: at most `result_limit`, without near-duplicates unless these are to be kept.

    Args:
        read: The first candidates, in order.
        rest: The candidates after them; exact duplicates are named by their original.
        query: The search.
    """
    # A document is a result even if another one contains the same text.
    if query.keep_duplicates or query.by_document:
        return list(read[: result_limit(query)])
    return collapse(read, result_limit(query), rest)


def has_more(snapshot: SearchSnapshot, candidates: int, selected: int, query: SearchQuery, depth: int) -> bool:
    """Whether left-out candidates displaced results that a deeper search would find."""
    # Lexical scores say nothing about similarity: results below the limit may be followed by others above it.
    limited = query.max_per_document is not None or (query.mode == "lexical" and query.min_score is not None)
    left_out = selected < (result_limit(query) if limited else min(result_limit(query), candidates))
    return left_out and max(len(snapshot.ranked), len(snapshot.lexical)) >= depth


def result_limit(query: SearchQuery) -> int:
    """Returns how many results are wanted or, for diverse results, how many candidates."""
    return max(_DIVERSE_FROM, _DIVERSE_SHARE * query.top_k) if query.diversity else query.top_k


def to_read(missing: int) -> int:
    """Returns how many chunks to read whole if `missing` results are missing."""
    return missing + _SPARE


def _weight(query: SearchQuery, calibration: Calibration | None) -> float | None:
    """The query's weight of the dense leg, else the space's."""
    if query.dense_weight is not None:
        return query.dense_weight
    return calibration.dense_weight if calibration is not None and calibration.HasField("dense_weight") else None


def _lowest(query: SearchQuery, calibration: Calibration | None) -> float | None:
    """The least similarity of a result: the query's, or the space's if requested and known."""
    if query.min_score_calibrated and calibration is not None and calibration.HasField("relevance_threshold"):
        return calibration.relevance_threshold
    return query.min_score


def _limit_per_document(candidates: Iterable[Candidate], limit: int | None) -> list[Candidate]:
    """Returns the candidates in order, only the first `limit` of each document."""
    if limit is None:
        return list(candidates)
    taken = Counter[int]()
    limited: list[Candidate] = []
    for candidate in candidates:
        if taken[candidate.document_id] < limit:
            taken[candidate.document_id] += 1
            limited.append(candidate)
    return limited


def _reaches(candidate: Candidate, min_score: float | None) -> bool:
    return min_score is None or (candidate.score is not None and candidate.score >= min_score)
