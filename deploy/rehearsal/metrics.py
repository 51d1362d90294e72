"""Reads the parts of Prometheus' text format that the rehearsal needs."""

import re
from collections.abc import Mapping
from dataclasses import dataclass

_SAMPLE = re.compile(r"(?P<name>[a-zA-Z_:][\w:]*)(?:\{(?P<labels>.*)\})? (?P<value>\S+)(?: \d+)?")
_LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')


@dataclass(frozen=True, slots=True)
class Samples:
    """The metrics of one process at one moment."""

    lines: tuple[tuple[str, Mapping[str, str], float], ...]

    @staticmethod
    def parse(text: str) -> "Samples":
        """Reads a page of metrics."""
        samples: list[tuple[str, Mapping[str, str], float]] = []
        for line in text.splitlines():
            if matched := _SAMPLE.fullmatch(line):
                labels = dict(_LABEL.findall(matched["labels"] or ""))
                samples.append((matched["name"], labels, float(matched["value"])))
        return Samples(tuple(samples))

    def total(self, series: str, **labels: str) -> float:
        """Sum of the samples of a series whose labels begin with these values."""
        return sum(
            value
            for name, own_labels, value in self.lines
            if name == series and all(own_labels.get(key, "").startswith(start) for key, start in labels.items())
        )
