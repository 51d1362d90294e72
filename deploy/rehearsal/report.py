"""Evaluates a load: errors, recovery, spread, percentiles; and goals with their results."""

import math
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from deploy.rehearsal.load import STREAMS, Asked


@dataclass(frozen=True, slots=True)
class Goal:
    """A goal of a scenario, and whether it was met."""

    what: str
    target: str
    result: str
    met: bool

    def row(self) -> list[object]:
        """A line of the table."""
        return [self.what, self.target, self.result, "yes" if self.met else "NO"]


GOAL_HEADINGS = ("what", "target", "result", "met")


def at_most(what: str, limit: float, got: float | None, unit: str = "") -> Goal:
    """A goal that is met by a value up to the limit; None is a missing value."""
    shown = "never" if got is None else f"{got:.3g}{unit}" if isinstance(got, float) else f"{got}{unit}"
    return Goal(what, f"≤ {limit:g}{unit}", shown, got is not None and got <= limit)


def failed(asked: Collection[Asked]) -> list[Asked]:
    """The requests that have failed."""
    return [each for each in asked if each.end not in (None, "complete")]


def failed_unary(asked: Collection[Asked]) -> list[Asked]:
    """The failed requests without a streamed response."""
    return [each for each in failed(asked) if each.kind not in STREAMS]


def last_failure(asked: Collection[Asked], since: float) -> float:
    """Seconds from a given time to the end of the last failed request; 0 if none failed after it."""
    return max(
        (each.ended - since for each in failed(asked) if each.ended is not None and each.ended > since), default=0
    )


def last_begun(asked: Collection[Asked], since: float) -> float:
    """Seconds from a given time to the start of the last failed request; 0 if none that began later failed."""
    return max((each.began - since for each in failed(asked) if each.began > since), default=0)


def kinds(asked: Iterable[Asked]) -> str:
    """Counts by kind and result: `search unavailable 2, native cut 1`."""
    counts = Counter(f"{each.kind} {each.end}" for each in asked)
    return ", ".join(f"{name} {count}" for name, count in sorted(counts.items())) or "–"


def percentile(values: Sequence[float], percent: float) -> float:
    """The smallest value that this percentage of the values doesn't exceed; NaN if there are none."""
    if not values:
        return math.nan
    ordered = sorted(values)
    return ordered[max(0, math.ceil(len(ordered) * percent / 100) - 1)]


def spread(counts: Mapping[str, float]) -> float:
    """The largest deviation from the mean, relative to the mean; infinite if one got nothing."""
    values = list(counts.values())
    if not values or min(values) <= 0:
        return math.inf
    mean = sum(values) / len(values)
    return max(abs(value - mean) for value in values) / mean
