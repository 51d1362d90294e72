"""Bounds that decide the exit code: `--fail-under nDCG@10=0.6`, `--fail-over false_not_found=0.1`."""

import math
from collections.abc import Iterable
from dataclasses import dataclass

from citewire_eval.results import MEASURES, Row

LATENCIES = ("p50", "p95")


@dataclass(frozen=True, slots=True)
class Gate:
    """A bound on a measure."""

    label: str
    """The mode or profile that it applies to; "" for all."""
    measure: str
    """The measure, or `p50` and `p95` in milliseconds."""
    bound: float
    """The lowest or highest value allowed."""
    under: bool
    """Whether values below the bound fail; otherwise values above it do."""

    @classmethod
    def parse(cls, text: str, *, under: bool) -> "Gate":
        """Reads `MEASURE=VALUE` or `MODE:MEASURE=VALUE`.

        Raises:
            ValueError: The text has another form, or no measure has that name.
        """
        name, equals, value = text.partition("=")
        label, colon, measure = name.rpartition(":")
        measure = measure.strip()
        try:
            bound = float(value)
        except ValueError:
            bound = math.nan
        if not equals or not math.isfinite(bound) or (colon and not label.strip()):
            raise ValueError(f"{text!r} isn't MEASURE=VALUE or MODE:MEASURE=VALUE")
        if measure not in MEASURES and measure not in LATENCIES:
            raise ValueError(f"unknown measure {measure!r}; the measures are {', '.join((*MEASURES, *LATENCIES))}")
        return cls(label.strip(), measure, bound, under)

    def violations(self, rows: Iterable[Row]) -> list[str]:
        """The violations, one line each. A run without a value for the bound violates it: it would guard nothing."""
        lines: list[str] = []
        seen = False
        for row in rows:
            value = row.measures.get(self.measure, row.latency_ms.get(self.measure))
            if value is None or self.label not in ("", row.label):
                continue
            seen = True
            if value < self.bound if self.under else value > self.bound:
                word = "under" if self.under else "over"
                lines.append(f"{row.dataset} {row.label}: {self.measure} {value:.4f} is {word} {self.bound:g}")
        name = f"{self.label}:{self.measure}" if self.label else self.measure
        return lines if seen else [f"no measure called {name} was taken"]
