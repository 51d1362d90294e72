"""How well the units of passages fit a question: features, and the decision whether any of them answers.

Everything is lexical but the passages' similarity, which comes with the request. The weights of the features are in
`weights.json`; `weights.py` says where they come from.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from citewire_generator.extraction.opposites import is_opposed
from citewire_generator.extraction.questions import AnswerKind, Question, holds_kind, is_negated
from citewire_generator.extraction.weights import Linear, Weights
from citewire_verify.text.sentences import Unit, UnitKind, split_units
from citewire_verify.text.terms import Term, terms

UNIT_FEATURES = (
    "coverage",  # share of the question's words in the unit, by weight
    "coverage_near",  # with the previous unit and the headings
    "coverage_source",  # in the whole passage
    "pairs",  # share of the question's neighbouring words that are near one another in the unit
    "kind",  # 1 if the unit contains the kind of thing asked for, ½ if unknown
    "names",  # share of the question's names and numbers in the unit, the previous one, and the headings
    "novelty",  # how much of the unit isn't in the question
    "length",  # logarithm of the number of words
    "similarity",  # the passage's cosine similarity to the question
    "first",  # 1 for a passage's first unit, ½ for its second, …
)
ANSWER_FEATURES = (
    "similarity",  # of the most similar passage
    "similarity_best",  # of the best unit's passage
    "coverage",  # of the best unit, as are the next three
    "coverage_near",  # only if no similarity is known; otherwise it would count against an answer
    "pairs",
    "kind",
    "negation",  # 1 if the question is negated and the unit isn't
    "names_missing",  # share of the question's names and numbers in no passage
    "numbers_missing",  # 1 if a number of the question is neither in the unit nor in its headings
    "opposed",  # 1 if the best unit's passage has the opposite of a word of the question, and not the word
    "extreme_missing",  # 1 if the question is about the only, the first, the largest …, and that passage isn't
)
_NEAR = 4
"""Maximum distance of neighbouring words."""


@dataclass(frozen=True, slots=True)
class Source:
    """A passage prepared for scoring."""

    text: str
    headings: str = ""
    """Title, file name and section, to which its units implicitly refer."""
    similarity: float | None = None
    code: bool = False


@dataclass(frozen=True, slots=True)
class Candidate:
    """A unit with its features, in the order of `UNIT_FEATURES`."""

    source: int
    """Index of its passage."""
    unit: Unit
    order: int
    """Its position among the passage's units."""
    keys: frozenset[str]
    features: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Scored:
    """All candidates of some passages, and data about the passages as a whole."""

    question: Question
    sources: tuple[Source, ...]
    candidates: tuple[Candidate, ...]
    idf: dict[str, float]
    """Weights of the question's words."""
    heads: tuple[frozenset[str], ...]
    """Words of each passage's headings."""
    wholes: tuple[frozenset[str], ...]
    """Words of each passage and its headings."""

    @property
    def keys(self) -> frozenset[str]:
        """All words of the passages and their headings."""
        return frozenset[str]().union(*self.wholes)


@dataclass(frozen=True, slots=True)
class _ReadUnit:
    unit: Unit
    terms: list[Term]
    keys: frozenset[str]


def score_units(question: Question, sources: Sequence[Source]) -> Scored:
    """Finds the units of passages and computes their features."""
    read = [_read(source) for source in sources]
    heads = [frozenset(term.key for term in terms(source.headings)) for source in sources]
    wholes = [head.union(*(read_unit.keys for read_unit in units)) for units, head in zip(read, heads, strict=True)]
    idf = _idf(question, read, heads)
    candidates: list[Candidate] = []
    for index, (source, units, head) in enumerate(zip(sources, read, heads, strict=True)):
        coverage_source = _coverage(wholes[index], idf)
        for order, read_unit in enumerate(units):
            if read_unit.unit.kind is UnitKind.HEADING:
                continue
            near = read_unit.keys | head | (units[order - 1].keys if order else frozenset[str]())
            features = (
                _coverage(read_unit.keys, idf),
                _coverage(near, idf),
                coverage_source,
                _pairs(question, read_unit.terms),
                _kind(question, source.text[read_unit.unit.start : read_unit.unit.end], read_unit.terms),
                _share(question.names | question.numbers, near),
                min(1.0, sum(1 for t in read_unit.terms if not t.stop and t.key not in question.every) / 6),
                math.log1p(len(read_unit.terms)),
                source.similarity or 0.0,
                1.0 / (1 + order),
            )
            candidates.append(Candidate(index, read_unit.unit, order, read_unit.keys, features))
    return Scored(question, tuple(sources), tuple(candidates), idf, tuple(heads), tuple(wholes))


def rank(scored: Scored, unit: Linear) -> list[tuple[float, Candidate]]:
    """Orders the candidates by score, best first; of equal ones, the earlier."""
    ranked = [(unit.score(candidate.features), candidate) for candidate in scored.candidates]
    return sorted(ranked, key=lambda pair: (-pair[0], pair[1].source, pair[1].order))


def answer_features(scored: Scored, best: Candidate) -> tuple[float, ...]:
    """Features for deciding whether the passages answer the question, in the order of `ANSWER_FEATURES`."""
    question, every = scored.question, scored.keys
    source, whole = scored.sources[best.source], scored.wholes[best.source]
    near = best.keys | scored.heads[best.source]
    specific = question.names | question.numbers
    negated = question.negated and not is_negated(source.text[best.unit.start : best.unit.end])
    return (
        max((other.similarity or 0.0 for other in scored.sources), default=0.0),
        source.similarity or 0.0,
        best.features[0],
        best.features[1],
        best.features[3],
        best.features[4],
        1.0 if negated else 0.0,
        len(specific - every) / len(specific) if specific else 0.0,
        0.0 if question.numbers <= near else 1.0,
        1.0 if is_opposed(question.every, whole) else 0.0,
        0.0 if question.extremes <= whole else 1.0,
    )


def answerable(scored: Scored, best: Candidate, weights: Weights) -> float:
    """The score for an answer, 0–1, on the scale of `AnswerPolicy.answerable_threshold`; ½ is the threshold."""
    return 1 / (1 + math.exp(-max(-30.0, min(30.0, answer_score(scored, best, weights)))))


def answer_score(scored: Scored, best: Candidate, weights: Weights) -> float:
    """The score as log-odds, with 0 as the threshold: below it, the passages don't answer the question."""
    features = answer_features(scored, best)
    if any(source.similarity is not None for source in scored.sources):
        return weights.answer.score(features) - weights.answer_threshold
    return weights.answer_lexical.score(features) - weights.answer_lexical_threshold


def _read(source: Source) -> list[_ReadUnit]:
    read: list[_ReadUnit] = []
    for unit in split_units(source.text, code=source.code):
        unit_terms = terms(source.text[unit.start : unit.end])
        read.append(_ReadUnit(unit, unit_terms, frozenset(term.key for term in unit_terms)))
    return read


def _idf(question: Question, read: list[list[_ReadUnit]], heads: list[frozenset[str]]) -> dict[str, float]:
    """Weights the question's words, with a sum of 1: the rarer in these units, the more, and most if in none."""
    units = sum(len(units) for units in read)
    weights: dict[str, float] = {}
    for key in question.keys:
        holding = sum(
            1 for units, head in zip(read, heads, strict=True) for unit in units if key in unit.keys or key in head
        )
        weights[key] = question.weights[key] * math.log(1 + (units + 1) / (holding + 1))
    total = sum(weights.values()) or 1.0
    return {key: weight / total for key, weight in weights.items()}


def _coverage(keys: frozenset[str], idf: dict[str, float]) -> float:
    return sum(weight for key, weight in idf.items() if key in keys)


def _pairs(question: Question, unit_terms: list[Term]) -> float:
    if not question.pairs:
        return 0.0
    places: dict[str, list[int]] = {}
    for index, term in enumerate(unit_terms):
        places.setdefault(term.key, []).append(index)
    near = 0
    for a, b in question.pairs:
        near += any(abs(i - j) <= _NEAR for i in places.get(a, ()) for j in places.get(b, ()))
    return near / len(question.pairs)


def _kind(question: Question, text: str, unit_terms: list[Term]) -> float:
    if question.kind is AnswerKind.ANY:
        return 0.5
    return 1.0 if holds_kind(question.kind, question, text, unit_terms) else 0.0


def _share(names: frozenset[str], keys: frozenset[str]) -> float:
    return sum(1 for key in names if key in keys) / len(names) if names else 0.5
