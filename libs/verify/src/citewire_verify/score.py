"""Scores how far passages support a sentence, and derives the verdict.

The score is a logistic regression over `FEATURES`; its constants and the two thresholds are in `weights.json`, fitted
by `python -m benchmarks.citations --write` and, the threshold of `supported`, by `python -m benchmarks.verdicts_wice
--write`. A name, number or negation that isn't as in the passage keeps a sentence
from being supported, whatever its score.
"""

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cache
from importlib import resources
from typing import Any

from citewire_verify.align import align
from citewire_verify.changes import Changes, find_changes
from citewire_verify.conflicts import find_covered, find_missing, find_replaced
from citewire_verify.forms import TokenKind
from citewire_verify.negation import find_negated, find_opposites
from citewire_verify.passages import PassageIndex
from citewire_verify.tokens import SentenceTokens

FEATURES = (
    "cover",  # share of the sentence in the quote, by weight
    "cover_two",  # with one more unit of the passage
    "cover_all",  # with the whole passage and its headings
    "pairs",  # share of neighbouring tokens that are near one another in the passage
    "names",  # share of the sentence's names that the passage doesn't have
    "numbers",  # share of its numbers that the passage doesn't have
    "replaced",  # 1 if the passage has another name or number in the same place
    "denied",  # 1 if something is negated on one side only
    "opposite",  # 1 if the passage has the opposite of a word
)


class Verdict(StrEnum):
    """How far passages support a sentence."""

    SUPPORTED = "supported"
    PARTIAL = "partial"
    UNSUPPORTED = "unsupported"
    UNVERIFIED = "unverified"
    """Unknown, because the verification failed."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """The evidence of one or more passages for a sentence. Keys of the dictionaries are content tokens."""

    start: int = 0
    """The quote's span in the passage's text."""
    end: int = 0
    features: tuple[float, ...] = (0.0,) * len(FEATURES)
    covered: dict[int, float] = field(default_factory=dict[int, float])
    """Tokens that the passage or its headings contain, with their certainty."""
    missing: dict[int, str] = field(default_factory=dict[int, str])
    """Names and numbers that they don't contain, as the sentence writes them."""
    replaced: dict[int, str] = field(default_factory=dict[int, str])
    """Names and numbers that the passage has others in place of."""
    negated: list[str] = field(default_factory=list[str])
    """Words negated on one side only, or with an opposite in the passage."""
    unsaid: list[str] = field(default_factory=list[str])
    """Words that replace the passage's, and added operators."""
    adjacent: list[bool] = field(default_factory=list[bool])
    """For each content token, whether it and the next one are near each other in the passage."""

    @property
    def mismatches(self) -> tuple[str, ...]:
        """Everything that differs from the passage, as the sentence writes it, each once."""
        return tuple(dict.fromkeys([*self.missing.values(), *self.replaced.values(), *self.negated, *self.unsaid]))


@dataclass(frozen=True, slots=True)
class Weights:
    """The fitted constants."""

    features: tuple[float, ...]
    """Weights of the log-odds that a passage supports a sentence, over `FEATURES`."""
    bias: float
    supported: float
    """Minimum score for a sentence without a mismatch to be supported."""
    unsupported: float
    """Score below which a sentence is unsupported."""

    def score(self, comparison: Comparison) -> tuple[float, Verdict]:
        """Returns the score, 0–1, and the verdict."""
        value = self.bias + sum(w * f for w, f in zip(self.features, comparison.features, strict=True))
        support = 1 / (1 + math.exp(-max(min(value, 30.0), -30.0)))
        if comparison.negated or comparison.replaced or support < self.unsupported:
            return support, Verdict.UNSUPPORTED
        partial = comparison.mismatches or support < self.supported
        return support, Verdict.PARTIAL if partial else Verdict.SUPPORTED


BEST_FIRST = (Verdict.SUPPORTED, Verdict.PARTIAL, Verdict.UNSUPPORTED)
"""Verdicts of a verification, in ascending order."""


@cache
def load_weights() -> Weights:
    """Reads the package's constants."""
    return parse_weights(json.loads(resources.files("citewire_verify").joinpath("weights.json").read_text("utf-8")))


def parse_weights(raw: dict[str, Any]) -> Weights:
    """Reads constants from the JSON's form."""
    support = raw["support"]
    return Weights(
        features=tuple(float(value) for value in support["weights"].values()),
        bias=float(support["bias"]),
        supported=float(raw["supported"]),
        unsupported=float(raw["unsupported"]),
    )


def compare(sentence: SentenceTokens, passage: PassageIndex) -> Comparison:
    """Compares a sentence with a passage: quote, coverage and mismatches."""
    a = align(sentence, passage)
    if not a.content or not passage.units:
        return Comparison(adjacent=a.adjacent)
    covered = find_covered(a)
    missing = find_missing(a, covered)
    replaced: dict[int, str] = {}
    negated: list[str] = []
    opposites: list[str] = []
    changes = Changes()
    start = end = 0
    if a.quote:
        start, end = passage.units[a.quote[0]].start, passage.units[a.quote[-1]].end
        verbatim = a.is_verbatim()
        if not verbatim:
            replaced, torn = find_replaced(a)
            missing |= torn
            opposites = find_opposites(a)
            changes = find_changes(a)
        negated = find_negated(a, verbatim=verbatim)
    everywhere = sum(sentence.weights[index] * sure for index, sure in covered.items()) / sentence.total
    headings = sum(sentence.weights[index] for index in covered if not a.positions[index]) / sentence.total
    cover = a.coverage(a.quote)
    return Comparison(
        start=start,
        end=end,
        features=(
            min(cover, 1.0),
            min(cover + a.best_further_unit() + headings if a.quote else headings, 1.0),
            min(everywhere, 1.0),
            sum(a.adjacent) / len(a.adjacent) if a.adjacent else everywhere,
            _missing_share(sentence, missing, TokenKind.NAME),
            _missing_share(sentence, missing, TokenKind.NUMBER),
            float(bool(replaced)),
            float(bool(negated)),
            float(bool(opposites)),
        ),
        covered=covered,
        missing=missing,
        replaced=replaced,
        negated=negated + opposites + changes.contradicted,
        unsaid=changes.unsaid,
        adjacent=a.adjacent,
    )


def unite(sentence: SentenceTokens, comparisons: Sequence[Comparison]) -> Comparison:
    """Combines the results of several passages: what one lacks, another may have."""
    covered: dict[int, float] = {}
    for comparison in comparisons:
        for index, sure in comparison.covered.items():
            covered[index] = max(covered.get(index, 0.0), sure)
    missing = {
        index: written
        for index, written in comparisons[0].missing.items()
        if all(index in comparison.missing for comparison in comparisons)
    }
    # A passage with another name contradicts the sentence, unless a passage has the sentence's own name in that place.
    replaced = {
        index: written
        for comparison in comparisons
        for index, written in comparison.replaced.items()
        if not any(index in other.covered and index not in other.replaced for other in comparisons)
    }
    best = max(comparisons, key=lambda comparison: comparison.features[0])
    share = min(sum(sentence.weights[index] * sure for index, sure in covered.items()) / sentence.total, 1.0)
    adjacent = [any(pair) for pair in zip(*(comparison.adjacent for comparison in comparisons), strict=True)]
    cover, cover_two, cover_all, *_ = map(max, zip(*(comparison.features for comparison in comparisons), strict=True))
    *_, negated, opposite = best.features
    return Comparison(
        features=(
            max(cover, share),
            max(cover_two, share),
            max(cover_all, share),
            sum(adjacent) / len(adjacent) if adjacent else share,
            _missing_share(sentence, missing, TokenKind.NAME),
            _missing_share(sentence, missing, TokenKind.NUMBER),
            float(bool(replaced)),
            negated,
            opposite,
        ),
        covered=covered,
        missing=missing,
        replaced=replaced,
        negated=best.negated,
        unsaid=best.unsaid,
        adjacent=adjacent,
    )


def judge_together(sentence: SentenceTokens, comparisons: Sequence[Comparison], weights: Weights) -> Verdict:
    """Returns the verdict on a sentence, given all passages that it cites."""
    verdicts = [weights.score(comparison)[1] for comparison in comparisons]
    if len(verdicts) == 1 or Verdict.SUPPORTED in verdicts:
        return Verdict.SUPPORTED if Verdict.SUPPORTED in verdicts else verdicts[0]
    together = weights.score(unite(sentence, comparisons))[1]
    return min(together, *verdicts, key=BEST_FIRST.index)


def _missing_share(sentence: SentenceTokens, missing: dict[int, str], kind: TokenKind) -> float:
    """Share of a sentence's names, or numbers, that are missing."""
    of_kind = {index for index, at in enumerate(sentence.content) if sentence.tokens[at].kind is kind}
    return len(missing.keys() & of_kind) / len(of_kind) if of_kind else 0.0
