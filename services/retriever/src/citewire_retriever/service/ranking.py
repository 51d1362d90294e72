"""From what the legs of a search found to its results: fused, above the lowest similarity, without near-duplicates."""

from dataclasses import dataclass
from typing import Final

from citewire_retriever.model import Calibration, Hit, SearchQuery
from citewire_retriever.service.duplicates import collapse
from citewire_retriever.service.fusion import FUSION_DEPTH, fuse, fuse_by_rank
from citewire_retriever.store.base import Found

DEEPEST: Final = 800
"""Results of each leg that are looked at, at most, to fill up for near-duplicates."""

_DIVERSE_FROM: Final = 50
"""Results that are chosen from, at least, if they shall differ; four times as many as are wanted, if that is more."""
_DIVERSE_SHARE: Final = 4


@dataclass(frozen=True, slots=True)
class Ranked:
    """Results, best first.

    Attributes:
        hits: As many as are wanted, or from which to choose if they shall differ; fewer if there are no more.
        more: Whether near-duplicates took the place of results that a deeper search would find.
    """

    hits: list[Hit]
    more: bool


def first_depth(query: SearchQuery) -> int:
    """How many results each leg is asked for at first: no more than without near-duplicates, which are rare."""
    return max(_wanted(query), FUSION_DEPTH if query.mode == "hybrid" else 1)


def rank(found: Found, query: SearchQuery, depth: int, calibration: Calibration | None) -> Ranked:
    """Ranks what was found.

    Args:
        found: What the legs found, `depth` results each at most.
        query: The search.
        depth: See there.
        calibration: What is known of the scores in the query's space.
    """
    if query.mode == "lexical":
        best = list(found.by_words)
    elif query.mode == "hybrid" and query.fuse_by_rank:
        best = fuse_by_rank(found.ranked, found.by_words, by_document=query.by_document)
    elif query.mode == "hybrid":
        best = fuse(
            found.ranked,
            found.by_words,
            by_document=query.by_document,
            ideal=found.ideal,
            depth=depth,
            dense_weight=_weight(query, calibration),
        )
    else:
        best = list(found.ranked)
    lowest = None if query.mode == "lexical" else _lowest(query, calibration)
    reaching = [hit for hit in best if _reaches(hit, lowest)]
    wanted = _wanted(query)
    # A document is one even if another one says the same somewhere.
    if query.keep_duplicates or query.by_document:
        return Ranked(reaching[:wanted], more=False)
    kept = collapse(reaching, wanted)
    left_out = len(reaching) > len(kept) and len(kept) < wanted
    return Ranked(kept, more=left_out and max(len(found.ranked), len(found.by_words)) >= depth)


def score(hit: Hit) -> float:
    """What orders results of one search."""
    return next((each for each in (hit.fused_score, hit.similarity, hit.lexical_score) if each is not None), 0.0)


def _wanted(query: SearchQuery) -> int:
    return max(_DIVERSE_FROM, _DIVERSE_SHARE * query.top_k) if query.diversity else query.top_k


def _weight(query: SearchQuery, calibration: Calibration | None) -> float | None:
    """The query's weight of the dense leg, or else the space's."""
    if query.dense_weight is not None:
        return query.dense_weight
    return None if calibration is None else calibration.dense_weight


def _lowest(query: SearchQuery, calibration: Calibration | None) -> float | None:
    """The lowest similarity of a result: the query's, or the space's where the query asks for that and it is known."""
    if query.min_score_calibrated and calibration is not None and calibration.relevance_threshold is not None:
        return calibration.relevance_threshold
    return query.min_score


def _reaches(hit: Hit, min_score: float | None) -> bool:
    return min_score is None or (hit.similarity is not None and hit.similarity >= min_score)
