"""The samples of one scrape, with sums, quantiles, and changes since an earlier one."""

import math
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from prometheus_client.parser import text_string_to_metric_families

Labels = tuple[tuple[str, str], ...]
Where = Mapping[str, str | frozenset[str]]
"""Required labels: a value, or one of several."""


@dataclass(frozen=True, slots=True)
class Samples:
    """All samples of a process, by series and labels."""

    time: float
    """When they were read, in seconds since 1970."""
    values: Mapping[str, Mapping[Labels, float]] = field(repr=False)
    """By name, then by labels."""
    cumulative: frozenset[str] = field(repr=False)
    """Names of series that only rise (counters and the parts of histograms)."""

    def sum(self, name: str, where: Where | None = None) -> float:
        """The sum of a series' samples; 0 if there are none."""
        return sum(value for _, value in self._select(name, where))

    def by(self, name: str, label: str, where: Where | None = None) -> dict[str, float]:
        """The sums for each value of a label."""
        sums: defaultdict[str, float] = defaultdict(float)
        for labels, value in self._select(name, where):
            sums[labels.get(label, "")] += value
        return dict(sums)

    def has(self, name: str) -> bool:
        """Whether the process has the series at all."""
        return name in self.values

    def quantile(self, level: float, histogram: str, where: Where | None = None) -> float | None:
        """A quantile of a histogram, between the bounds of its bucket as Prometheus does it; None without samples."""
        buckets = self.by(f"{histogram}_bucket", "le", where)
        return quantile(level, {float(bound): count for bound, count in buckets.items() if bound})

    def mean(self, histogram: str, where: Where | None = None) -> float | None:
        """The mean of a histogram's observations; None without any."""
        count = self.sum(f"{histogram}_count", where)
        return self.sum(f"{histogram}_sum", where) / count if count else None

    def label(self, name: str, label: str) -> str:
        """A label's value of the first sample of a series; "" if there is none."""
        return next((labels.get(label, "") for labels, _ in self._select(name, None)), "")

    def since(self, earlier: "Samples") -> "Samples":
        """The counts since `earlier`; other samples are unchanged. All counts after a restart."""
        if self.sum("process_start_time_seconds") != earlier.sum("process_start_time_seconds"):
            return self
        values = {
            name: {labels: value - earlier.values.get(name, {}).get(labels, 0.0) for labels, value in series.items()}
            if name in self.cumulative
            else series
            for name, series in self.values.items()
        }
        return Samples(self.time, values, self.cumulative)

    def _select(self, name: str, where: Where | None) -> Iterator[tuple[dict[str, str], float]]:
        for key, value in self.values.get(name, {}).items():
            labels = dict(key)
            if all(_fits(labels.get(label, ""), expected) for label, expected in (where or {}).items()):
                yield labels, value


def read_samples(text: str, time: float) -> Samples:
    """Parses a metrics endpoint's response; raises ValueError if it is something else."""
    values: defaultdict[str, dict[Labels, float]] = defaultdict(dict)
    cumulative: set[str] = set()
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            values[sample.name][tuple(sorted(sample.labels.items()))] = sample.value
            if family.type in {"counter", "histogram", "summary"}:
                cumulative.add(sample.name)
    return Samples(time, values, frozenset(cumulative))


def quantile(level: float, buckets: Mapping[float, float]) -> float | None:
    """A quantile of cumulative counts by upper bound; None if they are all zero."""
    bounds = sorted(buckets)
    total = buckets[bounds[-1]] if bounds else 0.0
    if total <= 0:
        return None
    rank, below, lower = level * total, 0.0, 0.0
    for bound in bounds:
        count = buckets[bound]
        if count >= rank and count > below:
            if math.isinf(bound):
                return lower  # only known to exceed the last bound
            return lower + (bound - lower) * (rank - below) / (count - below)
        below, lower = count, bound
    return lower


def _fits(value: str, expected: str | frozenset[str]) -> bool:
    return value == expected if isinstance(expected, str) else value in expected
