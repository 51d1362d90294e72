"""The weight of the dense leg in hybrid search: each of a grid is measured, through the search itself."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from citewire_cli.evaluation.datasets import Dataset
from citewire_cli.evaluation.filling import Filled
from citewire_cli.evaluation.gateway import Gateway, Progress
from citewire_cli.evaluation.measures import PerQuery, judge, mean
from citewire_cli.evaluation.searching import SearchMode, search_all
from citewire_cli.evaluation.statistics import paired_p
from citewire_cli.jsonio import JsonObject

MEASURE = "nDCG@10"
EQUAL = 0.5
WEIGHTS = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)
_DEPTH = 10
_SURE = 0.05


@dataclass(frozen=True, slots=True)
class Weighed:
    """nDCG@10 of each question of a data set by the weight that its hybrid search had."""

    dataset: str
    curve: Mapping[float, PerQuery]


@dataclass(slots=True)
class Weight:
    """A weight, None if it couldn't be derived, and how it came about."""

    value: float | None
    report: JsonObject
    notes: list[str] = field(default_factory=list[str])


async def weigh(gateway: Gateway, dataset: Dataset, filled: Filled, progress: Progress) -> Weighed:
    """Searches with each weight.

    Raises:
        CliError: The gateway is gone or doesn't let us in.
    """
    curve: dict[float, PerQuery] = {}
    for weight in WEIGHTS:
        mode = SearchMode("hybrid", dense_weight=weight)
        run = await search_all(gateway, dataset, filled, mode, _DEPTH, by_chunk=False, progress=progress)
        curve[weight] = judge(dataset, run, by_chunk=False)[MEASURE]
    return Weighed(dataset.name, curve)


def derive_weight(weighed: Sequence[Weighed]) -> Weight:
    """The weight that is best on average over the sets, or one nearer to equal weights that isn't measurably worse."""
    if not weighed:
        return Weight(None, {"sets": []}, ["no set has judged documents: no dense_weight"])
    curves = [one.curve for one in weighed]
    means = {weight: mean(mean(curve[weight].values()) for curve in curves) for weight in WEIGHTS}
    best = _best(means)
    chosen = _nearest_to_equal(best, curves)
    sets: list[JsonObject] = []
    for one in weighed:
        values = {weight: round(mean(per_query.values()), 4) for weight, per_query in one.curve.items()}
        own = _best(values)
        sets.append(
            {
                "set": one.dataset,
                "equal": values[EQUAL],
                "chosen": values[chosen],
                "best": values[own],
                "best_weight": own,
                "by_weight": {f"{weight:g}": value for weight, value in values.items()},
            }
        )
    criterion = (
        f"best mean {MEASURE} of hybrid search over the sets; "
        f"of what isn't measurably worse (p ≥ {_SURE}) the nearest to {EQUAL}"
    )
    return Weight(chosen, {"criterion": criterion, "sets": sets})


def _best(values: Mapping[float, float]) -> float:
    return max(WEIGHTS, key=lambda weight: (values[weight], -abs(weight - EQUAL)))


def _nearest_to_equal(best: float, curves: Sequence[Mapping[float, PerQuery]]) -> float:
    """From equal weights towards the best one: the first that isn't measurably worse than it."""
    between = [weight for weight in WEIGHTS if min(best, EQUAL) <= weight <= max(best, EQUAL)]
    for weight in sorted(between, key=lambda one: abs(one - EQUAL)):
        # Every set counts the same, however many questions it has: differences are scaled by the set's size.
        gaps = [(curve[best][q] - curve[weight][q]) / len(curve[best]) for curve in curves for q in curve[best]]
        if sum(gaps) <= 0 or paired_p(gaps) >= _SURE:
            return weight
    return best
