"""What is read out of a load: errors, recovery, spread, percentiles; and lines that say whether a goal was met."""

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
    """A goal that is met by a value up to the limit; None is a value that never came."""
    shown = "never" if got is None else f"{got:.3g}{unit}" if isinstance(got, float) else f"{got}{unit}"
    return Goal(what, f"≤ {limit:g}{unit}", shown, got is not None and got <= limit)


def failed(asked: Collection[Asked]) -> list[Asked]:
    """The requests that have ended, and not as they should."""
    return [each for each in asked if each.end not in (None, "complete")]


def failed_unary(asked: Collection[Asked]) -> list[Asked]:
    """The failed ones whose answer isn't a stream."""
    return [each for each in failed(asked) if each.kind not in STREAMS]


def last_failure(asked: Collection[Asked], since: float) -> float:
    """Seconds from a moment to the end of the last failed one of these; 0 if none failed after it."""
    return max(
        (each.ended - since for each in failed(asked) if each.ended is not None and each.ended > since), default=0
    )


def last_begun(asked: Collection[Asked], since: float) -> float:
    """Seconds from a moment to the beginning of the last failed one of these; 0 if none failed that began later."""
    return max((each.began - since for each in failed(asked) if each.began > since), default=0)


def kinds(asked: Iterable[Asked]) -> str:
    """How many of each kind and end: `search unavailable 2, native cut 1`."""
    counts = Counter(f"{each.kind} {each.end}" for each in asked)
    return ", ".join(f"{name} {count}" for name, count in sorted(counts.items())) or "–"


def percentile(values: Sequence[float], percent: float) -> float:
    """The smallest value that so many percent of all don't exceed; NaN of nothing."""
    if not values:
        return math.nan
    ordered = sorted(values)
    return ordered[max(0, math.ceil(len(ordered) * percent / 100) - 1)]


def spread(counts: Mapping[str, float]) -> float:
    """How far the one that is farthest from the mean is from it, as a part of the mean; infinite if one got nothing."""
    values = list(counts.values())
    if not values or min(values) <= 0:
        return math.inf
    mean = sum(values) / len(values)
    return max(abs(value - mean) for value in values) / mean
