"""Fusion of the two legs of hybrid search: a weighted sum of their scores, by how far each leg can be believed.

Ranks alone can't tell a leg that knows from one that guesses: an embedding model that doesn't know the language still
has a first, a second and a third. Scores can, and the texts: see `trust` and `distinction`.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, median
from typing import Final

import numpy as np
from numpy.typing import NDArray

from citewire_retriever.model import Candidate

FUSION_DEPTH: Final = 80
"""Results of each leg that take part, at least; as many as are wanted, if that is more."""

DENSE_WEIGHT: Final = 0.5
"""Weight of the dense leg; the words have the rest."""

_COSINE: Final = 0.5
"""What a cosine counts beside a share of the question, at equal weights: 0.4 to 0.6 are alike (ADR 12)."""

_NO_AGREEMENT: Final = 0.1
_FULL_AGREEMENT: Final = 0.3
"""Correlations of the legs' scores up to which the dense leg has no weight, and from which it has all of it."""

_FEW_WORDS: Final = 0.15
"""Share of the question found in the best text, below which words can't be what the dense leg is judged by."""

_UNCOVERED: Final = 3.6
_COVERED: Final = 4.2
_UNREAD: Final = 9.0
"""Code points for a token: at most the first where a vocabulary wasn't made for the language, at least the second where
it was, above the last where whole words are unknown to it. With a vocabulary for English, English has 4.5–5, Spanish
3.2, Hindi 1.7, Thai 17 (ADR 19)."""

_FIRST: Final = 10
"""Results that both are read from: the languages of a leg's best, and how far its first stands out from its tenth."""

_INDISTINCT: Final = 0.15
_DISTINCT: Final = 0.45
"""Shares by which the tenth result by words is worse than the first: where words say nothing, and where they do."""

_MORE: Final = 2.0
"""How much more the dense leg counts where words say nothing: so many times its weight on top of it."""


_GIVEN: Final = 5
"""Results that the trust given beforehand counts as."""

_RANKS: Final = 5
"""How much less the first ranks differ where ranks alone are fused. 60 is usual; for these legs 5 measured best."""

_ALIKE: Final = 1e-12
"""Sum of squares below which all of a leg's scores are the same."""


@dataclass(frozen=True, slots=True)
class Legs:
    """What both legs say about what either found, on scales of 0–1: one number a result, in the same order."""

    candidates: tuple[Candidate, ...]
    """What was found; in a search for documents the dense leg's chunk, if that found the document."""
    cosines: tuple[float, ...]
    """Similarity of meaning."""
    shares: tuple[float, ...]
    """Share of the question's words, by rarity, that the text has."""
    in_dense: tuple[bool, ...]
    """Whether the dense leg found it."""
    in_words: tuple[bool, ...]
    """Whether the words did."""
    coverage: float = 0.0
    """How far the embedding model's vocabulary was made for the language of the texts, 0–1."""


def fuse(
    dense: Sequence[Candidate],
    lexical: Sequence[Candidate],
    *,
    by_document: bool,
    ideal: float,
    depth: int = FUSION_DEPTH,
    dense_weight: float | None = None,
) -> list[Candidate]:
    """Orders what either leg found by weight × trust × cosine / 2 + (1 − weight) × share of the words.

    Where the words tell texts little apart, and the model's vocabulary covers them, the cosine has up to three times
    the weight; both weights are lowered then, so that their sum is the same.

    Args:
        dense: By similarity, best first.
        lexical: By words, best first.
        by_document: Whether a result is a document: its chunk then is the dense leg's, if that found it.
        ideal: Lexical score of a text that has all of the question's words many times.
        depth: How many results each leg was asked for.
        dense_weight: Weight of the dense leg, 0–1; None for the default.

    Returns:
        Candidates with `fused_score`, 0–1, best first, and the other leg's score where it found the same. At a tie the
        better by words comes first, then the better by meaning.
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
        key=lambda place: (-scores[place], -legs.shares[place], -legs.cosines[place], legs.candidates[place].chunk_id),
    )
    fused = ((legs.candidates[place], scores[place]) for place in order)
    return [candidate.with_scores(candidate.lexical_score, score) for candidate, score in fused]


def fuse_by_rank(dense: Sequence[Candidate], lexical: Sequence[Candidate], *, by_document: bool) -> list[Candidate]:
    """Orders what either leg found by the sum of 1 / (5 + rank); at a tie, the better by words comes first.

    For callers that are promised this order: it is the worse one wherever a leg knows little (ADR 12).

    Args:
        dense: By similarity, best first.
        lexical: By words, best first.
        by_document: As in `fuse`.

    Returns:
        Candidates with `fused_score`, best first, and the other leg's score where it found the same.
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
    """Puts both legs on scales of 0–1, beside each other.

    What a leg didn't find, though it found as many as it was asked for, can have as much as its last result; if it
    found fewer, there is nothing more to find.
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

    As far as the model's vocabulary covers the texts. A model that knows a language can still have few tokens for it:
    then as far as the legs agree. Where they don't, one of them is wrong: the dense leg if the best text has a part of
    the question's words, so that the words have something to say; else the words. A few results show little: then
    trust is given.
    """
    wordless = max(0.0, 1 - max(legs.shares, default=0.0) / _FEW_WORDS)
    seen = max(sum(legs.in_dense), sum(legs.in_words))
    agreeing = _ramp(agreement(legs), _NO_AGREEMENT, _FULL_AGREEMENT)
    return max(wordless, legs.coverage, (_GIVEN + seen * agreeing) / (_GIVEN + seen))


def distinction(legs: Legs) -> float:
    """How far the words tell texts apart, 0–1: by what share the tenth best has less of the question than the best.

    Pages of one document share their words. Where the first ten have nearly the same part of the question, it is an
    accident which of them is first. Fewer than ten are told apart from all others.
    """
    shares = sorted((share for share, matches in zip(legs.shares, legs.in_words, strict=True) if matches), reverse=True)
    if len(shares) < _FIRST:
        return 1.0
    return _ramp(1 - shares[_FIRST - 1] / shares[0], _INDISTINCT, _DISTINCT)


def agreement(legs: Legs) -> float:
    """How far the scores of the legs rise together, 0–1.

    The correlation of both scores over what the dense leg found, and over what the words found, below 0 taken as 0; the
    mean of the two. Each leg's own results are looked at apart: over all of them, what only one leg found would pull
    the scores apart, however well the legs agree.
    """
    scores = np.array((legs.cosines, legs.shares))
    return fmean(max(0.0, _correlation(scores[:, those])) for those in np.array((legs.in_dense, legs.in_words), bool))


def _coverage(*legs: Sequence[Candidate]) -> float:
    """How far the model's vocabulary covers the best texts of the leg that it covers less.

    Half of a leg's may be in another language. Texts of numbers say nothing of it; 0 if all are such.
    """
    read = ([each.chars_per_token for each in leg[:_FIRST] if each.chars_per_token] for leg in legs)
    ratios = [median(leg) for leg in read if leg]
    return min((_ramp(ratio, _UNCOVERED, _COVERED) if ratio <= _UNREAD else 0.0 for ratio in ratios), default=0.0)


def _ramp(value: float, low: float, high: float) -> float:
    """0 up to `low`, 1 from `high` on, and evenly between."""
    return min(1.0, max(0.0, (value - low) / (high - low)))


def _correlation(scores: NDArray[np.float64]) -> float:
    """Pearson's of two rows; 0 where there is nothing to see: fewer than three, or all alike in one score."""
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
