"""What long proofs are given: how far they go, and where their tables go."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass

PrintTable = Callable[[str, Sequence[str], Sequence[Sequence[object]]], None]
"""Prints a table at the end of the run: its title, headings and rows."""


@dataclass(frozen=True, slots=True)
class ProofScale:
    """How far a long proof goes, and from which seed, so that a failure can be run again."""

    full: bool
    seed: int

    def pick(self, *, scaled_down: int, full: int) -> int:
        """The number of rounds, documents or streams: `full` in `make faults`, less in `make test`."""
        return full if self.full else scaled_down

    def random(self) -> random.Random:
        """A generator of its own, so that the order of tests changes nothing."""
        return random.Random(self.seed)
