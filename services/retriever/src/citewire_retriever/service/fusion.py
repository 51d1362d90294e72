"""Fusion of the two legs of hybrid search: a sum of their scores, weighted by how reliable each leg is.

Ranks don't show whether a leg is guessing: an embedding model that doesn't know the language still ranks results.
Scores and texts do: see `trust` and `distinction`.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, median
from typing import Final

import numpy as np
from numpy.typing import NDArray

from citewire_retriever.model import Candidate

FUSION_DEPTH: Final = 80
"""Fewest results of each leg that are fused; as many as are wanted if that is more."""

DENSE_WEIGHT: Final = 0.5
"""Weight of the dense leg; the lexical leg has the rest."""

_COSINE: Final = 0.5
"""Factor of a cosine relative to a share of the question at equal weights; 0.4 to 0.6 perform alike (ADR 12)."""

_NO_AGREEMENT: Final = 0.1
_FULL_AGREEMENT: Final = 0.3
"""Correlations of the legs' scores up to which the dense leg has no weight, and from which it has full weight."""

_FEW_WORDS: Final = 0.15
"""Share of the question in the best text below which words can't be used to judge the dense leg."""

_UNCOVERED: Final = 3.6
_COVERED: Final = 4.2
_UNREAD: Final = 9.0
"""Code points per token: at most the first if the vocabulary wasn't made for the language, at least the second if it
was, above the last if it doesn't know whole words. With an English vocabulary, English has 4.5–5, Spanish 3.2, Hindi
1.7, Thai 17 (ADR 19)."""

_FIRST: Final = 10
"""Results used for detecting a leg's languages, and for how far its first stands out from its tenth."""

_INDISTINCT: Final = 0.15
_DISTINCT: Final = 0.45
"""Shares by which the tenth lexical result is worse than the first, for words that discriminate badly and well."""

_MORE: Final = 2.0
"""Multiple of its weight that the dense leg gains where words don't discriminate."""


_GIVEN: Final = 5
"""Number of results that the prior trust counts as."""

_RANKS: Final = 5
"""Constant that flattens the first ranks in reciprocal rank fusion. 60 is usual; 5 was best for these legs."""

_ALIKE: Final = 1e-12
"""Sum of squares below which all scores of a leg count as equal."""


@dataclass(frozen=True, slots=True)
class Legs:
    """Both legs' scores for every result, scaled to 0–1: one number per result, in the same order."""

    candidates: tuple[Candidate, ...]
    """The results; in a search for documents the dense leg's chunk, if it found the document."""
    cosines: tuple[float, ...]
    """Semantic similarity."""
    shares: tuple[float, ...]
    """Share of the question's words, weighted by rarity, in the text."""
    in_dense: tuple[bool, ...]
    """Whether the dense leg found it."""
    in_words: tuple[bool, ...]
    """Whether the lexical leg found it."""
    coverage: float = 0.0
    """How well the embedding model's vocabulary suits the language of the texts, 0–1."""


def fuse(
    dense: Sequence[Candidate],
    lexical: Sequence[Candidate],
    *,
    by_document: bool,
    ideal: float,
    depth: int = FUSION_DEPTH,
    dense_weight: float | None = None,
) -> list[Candidate]:
    """Orders both legs' results by weight × trust × cosine / 2 + (1 − weight) × share of the words.

    Where words discriminate little and the model's vocabulary covers the texts, the cosine has up to three times the
    weight; both weights are then scaled so that their sum stays the same.

    Args:
        dense: By similarity, best first.
        lexical: By words, best first.
        by_document: Whether results are documents, represented by the dense leg's chunk if it found them.
        ideal: Lexical score of a text that has all of the question's words many times.
        depth: How many results were requested from each leg.
        dense_weight: Weight of the dense leg, 0–1; None for the default.

    Returns:
        Candidates with `fused_score`, 0–1, best first, and the other leg's score if it found the same. Ties are broken
        by the lexical, then by the dense score.
    """
    legs = compare(dense, lexical, by_document=by_document, ideal=ideal, depth=depth)
    weight = DENSE_WEIGHT if dense_weight is None else dense_weight
    more = 1 + _MORE * legs.coverage * (1 - distinction(legs))
    words = 1 - weight
    lowered = (weight * _COSINE + words) / (weight * _COSINE * more + words)
    meaning, words = weight * _COSINE * more * trust(legs) * lowered, words * lowered
    scores = [meaning * cosine + words * share for cosine, share in zip(legs.cosines, legs.shares, strict=True)]
    order = sorted(
        range(len(scores)),
        key=lambda position: (
            -scores[position],
            -legs.shares[position],
            -legs.cosines[position],
            legs.candidates[position].chunk_id,
        ),
    )
    fused = ((legs.candidates[position], scores[position]) for position in order)
    return [candidate.with_scores(candidate.lexical_score, score) for candidate, score in fused]


def fuse_by_rank(dense: Sequence[Candidate], lexical: Sequence[Candidate], *, by_document: bool) -> list[Candidate]:
    """Orders both legs' results by the sum of 1 / (5 + rank); ties are broken by the lexical score.

    For callers that are promised this order: it is worse wherever one leg is unreliable (ADR 12).

    Args:
        dense: By similarity, best first.
        lexical: By words, best first.
        by_document: As in `fuse`.

    Returns:
        Candidates with `fused_score`, best first, and the other leg's score if it found the same.
    """
    candidates: dict[int, Candidate] = {}
    scores: dict[int, float] = {}
    by_words: dict[int, int] = {}
    for leg in (dense, lexical):
        for rank, candidate in enumerate(leg, start=1):
            key = _key(candidate, by_document=by_document)
            before = candidates.setdefault(key, candidate)
            if before.lexical_score is None and candidate.lexical_score is not None:
                candidates[key] = before.with_scores(candidate.lexical_score)
            scores[key] = scores.get(key, 0.0) + 1 / (_RANKS + rank)
            if leg is lexical:
                by_words[key] = rank
    order = sorted(candidates, key=lambda key: (-scores[key], by_words.get(key, len(lexical) + 1)))
    fused = ((candidates[key], scores[key]) for key in order)
    return [candidate.with_scores(candidate.lexical_score, score) for candidate, score in fused]


def compare(
    dense: Sequence[Candidate],
    lexical: Sequence[Candidate],
    *,
    by_document: bool,
    ideal: float,
    depth: int = FUSION_DEPTH,
) -> Legs:
    """Scales both legs' scores to 0–1.

    If a leg returned as many results as requested, one that it didn't find may score as much as its last; if it
    returned fewer, there was nothing more to find.
    """
    results: dict[int, Candidate] = {}
    words: dict[int, float] = {}
    in_dense: set[int] = set()
    for candidate in dense:
        key = _key(candidate, by_document=by_document)
        results[key] = candidate
        in_dense.add(key)
    for candidate in lexical:
        key = _key(candidate, by_document=by_document)
        words[key] = candidate.lexical_score or 0.0
        results[key] = results[key].with_scores(candidate.lexical_score) if key in results else candidate
    lowest_cosine = min((_cosine(candidate) for candidate in dense), default=0.0) if len(dense) >= depth else 0.0
    lowest_words = min(words.values(), default=0.0) if len(lexical) >= depth else 0.0
    scale = max(ideal, *words.values()) if words else 1.0
    return Legs(
        candidates=tuple(results.values()),
        cosines=tuple(lowest_cosine if candidate.score is None else candidate.score for candidate in results.values()),
        shares=tuple(words.get(key, lowest_words) / scale for key in results),
        in_dense=tuple(key in in_dense for key in results),
        in_words=tuple(key in words for key in results),
        coverage=_coverage(dense, lexical),
    )


def trust(legs: Legs) -> float:
    """How much the dense leg is trusted, 0–1.

    It depends on how well the model's vocabulary covers the texts. A model that knows a language may still have few
    tokens for it; then it depends on how far the legs agree. If they don't, one of them is wrong: the dense leg if the
    best text has enough of the question's words for these to be meaningful, otherwise the lexical leg. With few results
    there is little evidence, so trust is assumed.
    """
    wordless = max(0.0, 1 - max(legs.shares, default=0.0) / _FEW_WORDS)
    seen = max(sum(legs.in_dense), sum(legs.in_words))
    agreeing = _ramp(agreement(legs), _NO_AGREEMENT, _FULL_AGREEMENT)
    return max(wordless, legs.coverage, (_GIVEN + seen * agreeing) / (_GIVEN + seen))


def distinction(legs: Legs) -> float:
    """How well the words discriminate, 0–1: how much less of the question the tenth best text has than the best.

    Pages of one document share their words. If the first ten contain nearly the same part of the question, their order
    is accidental. Fewer than ten are distinct from all other texts.
    """
    shares = sorted((share for share, matches in zip(legs.shares, legs.in_words, strict=True) if matches), reverse=True)
    if len(shares) < _FIRST:
        return 1.0
    return _ramp(1 - shares[_FIRST - 1] / shares[0], _INDISTINCT, _DISTINCT)


def agreement(legs: Legs) -> float:
    """How far the scores of the legs agree, 0–1.

    The mean of two correlations of the scores, one over each leg's results, negative ones counted as 0. The legs'
    results are kept apart because results found by only one leg would lower a joint correlation even if the legs agree.
    """
    scores = np.array((legs.cosines, legs.shares))
    return fmean(max(0.0, _correlation(scores[:, those])) for those in np.array((legs.in_dense, legs.in_words), bool))


def _coverage(*legs: Sequence[Candidate]) -> float:
    """How well the model's vocabulary covers the best texts of the leg that it covers less.

    Half of a leg's texts may be in another language. Texts of numbers are ignored; 0 if there are no others.
    """
    read = ([each.chars_per_token for each in leg[:_FIRST] if each.chars_per_token] for leg in legs)
    ratios = [median(leg) for leg in read if leg]
    return min((_ramp(ratio, _UNCOVERED, _COVERED) if ratio <= _UNREAD else 0.0 for ratio in ratios), default=0.0)


def _ramp(value: float, low: float, high: float) -> float:
    """0 up to `low`, 1 from `high` on, and linear between."""
    return min(1.0, max(0.0, (value - low) / (high - low)))


def _correlation(scores: NDArray[np.float64]) -> float:
    """Pearson correlation of two rows; 0 for fewer than three values, or if one row is constant."""
    if scores.shape[1] < 3:  # two points always lie on a line
        return 0.0
    apart = scores - scores.mean(axis=1, keepdims=True)
    (spread_x, together), (_, spread_y) = apart @ apart.T
    if spread_x < _ALIKE or spread_y < _ALIKE:
        return 0.0
    return float(together / (spread_x * spread_y) ** 0.5)


def _cosine(candidate: Candidate) -> float:
    return candidate.score or 0.0


def _key(candidate: Candidate, *, by_document: bool) -> int:
    return candidate.document_id if by_document else candidate.chunk_id
