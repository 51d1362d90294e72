"""Prometheus' text format, read as far as the rehearsal needs it."""

import re
from collections.abc import Mapping
from dataclasses import dataclass

_SAMPLE = re.compile(r"(?P<name>[a-zA-Z_:][\w:]*)(?:\{(?P<labels>.*)\})? (?P<value>\S+)(?: \d+)?")
_LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')


@dataclass(frozen=True, slots=True)
class Samples:
    """What one process showed at one moment."""

    lines: tuple[tuple[str, Mapping[str, str], float], ...]

    @staticmethod
    def parse(text: str) -> "Samples":
        """Reads a page of metrics."""
        found: list[tuple[str, Mapping[str, str], float]] = []
        for line in text.splitlines():
            if matched := _SAMPLE.fullmatch(line):
                labels = dict(_LABEL.findall(matched["labels"] or ""))
                found.append((matched["name"], labels, float(matched["value"])))
        return Samples(tuple(found))

    def total(self, series: str, **labels: str) -> float:
        """Sum of the samples of a series whose labels begin with these values."""
        return sum(
            value
            for name, found, value in self.lines
            if name == series and all(found.get(key, "").startswith(start) for key, start in labels.items())
        )
