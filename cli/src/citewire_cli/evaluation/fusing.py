"""The weight of the dense leg in hybrid search, derived from what both legs found."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from citewire_cli.evaluation.datasets import Dataset
from citewire_cli.evaluation.measures import PerQuery, judge, mean
from citewire_cli.evaluation.searching import Found, SearchMode, SearchRun
from citewire_cli.evaluation.statistics import paired_p
from citewire_cli.jsonio import JsonObject

MEASURE = "nDCG@10"
EQUAL = 0.5
_GRID = tuple(round(step * 0.05, 2) for step in range(21))
_K = 5
"""Of reciprocal rank fusion, as the server has it."""
_SURE = 0.05


@dataclass(frozen=True, slots=True)
class Legs:
    """What the dense and the lexical leg found for the questions of one data set."""

    dataset: Dataset
    dense: SearchRun
    lexical: SearchRun
    by_chunk: bool = False


@dataclass(slots=True)
class Weight:
    """A weight, None if it couldn't be derived, and how it came about."""

    value: float | None
    report: JsonObject
    notes: list[str] = field(default_factory=list[str])


def derive_weight(legs: Sequence[Legs]) -> Weight:
    """Fuses both legs with each weight of a grid, and chooses.

    Raises:
        ImportError: The extra `eval` isn't installed.
    """
    if not legs:
        return Weight(None, {"sets": []}, ["both legs weren't measured: no dense_weight"])
    curves = [(one, {weight: _ndcg(one, weight) for weight in _GRID}) for one in legs]
    means = {weight: mean(mean(curve[weight].values()) for _, curve in curves) for weight in _GRID}
    best = max(_GRID, key=lambda weight: (means[weight], -abs(weight - EQUAL)))
    chosen = _nearest_to_equal(best, [curve for _, curve in curves])
    sets: list[JsonObject] = []
    for one, curve in curves:
        values = {weight: round(mean(values.values()), 4) for weight, values in curve.items()}
        own = max(_GRID, key=lambda weight: (values[weight], -abs(weight - EQUAL)))
        sets.append(
            {
                "set": one.dataset.name,
                "lexical": values[0.0],
                "dense": values[1.0],
                "equal": values[EQUAL],
                "chosen": values[chosen],
                "best": values[own],
                "best_weight": own,
                "by_weight": {f"{weight:g}": value for weight, value in values.items()},
            }
        )
    criterion = (
        f"best mean {MEASURE} of fused rankings; nearest to {EQUAL} of what isn't measurably worse (p ≥ {_SURE})"
    )
    return Weight(chosen, {"criterion": criterion, "sets": sets})


def fuse(dense: Sequence[str], lexical: Sequence[str], weight: float) -> list[str]:
    """Both rankings in one, best first, as the server fuses them."""
    scores: dict[str, float] = {}
    for leg, share in ((dense, weight), (lexical, 1 - weight)):
        for rank, key in enumerate(leg, start=1):
            scores[key] = scores.get(key, 0.0) + share / (_K + rank)
    by_words = {key: rank for rank, key in enumerate(lexical)}
    return sorted(
        (key for key, score in scores.items() if score), key=lambda key: (-scores[key], by_words.get(key, len(lexical)))
    )


def _ndcg(legs: Legs, weight: float) -> PerQuery:
    fused = SearchRun(SearchMode("hybrid"))
    for question in legs.dense.found.keys() | legs.lexical.found.keys():
        dense, lexical = (_ranking(run, question) for run in (legs.dense, legs.lexical))
        fused.found[question] = Found(tuple(fuse(dense, lexical, weight)[:100]), None, None, 0.0, None)
    return judge(legs.dataset, fused, legs.by_chunk)[MEASURE]


def _ranking(run: SearchRun, question: str) -> tuple[str, ...]:
    found = run.found.get(question)
    return () if found is None else found.ranking


def _nearest_to_equal(best: float, curves: Sequence[Mapping[float, PerQuery]]) -> float:
    """From equal weights towards the best one: the first that isn't measurably worse than it."""
    for weight in sorted(_GRID, key=lambda one: abs(one - EQUAL)):
        between = min(best, EQUAL) <= weight <= max(best, EQUAL)
        if not between:
            continue
        # Every set counts the same, however many questions it has: differences are scaled by the set's size.
        gaps = [(curve[best][q] - curve[weight][q]) / len(curve[best]) for curve in curves for q in curve[best]]
        if sum(gaps) <= 0 or paired_p(gaps) >= _SURE:
            return weight
    return best
