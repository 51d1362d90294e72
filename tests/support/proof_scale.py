"""Parameters of long proofs: their size, and the destination of their tables."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass

PrintTable = Callable[[str, Sequence[str], Sequence[Sequence[object]]], None]
"""Prints a table at the end of the run: its title, headings and rows."""


@dataclass(frozen=True, slots=True)
class ProofScale:
    """The size and the seed of a long proof, so that a failure can be reproduced."""

    full: bool
    seed: int

    def pick(self, *, scaled_down: int, full: int) -> int:
        """The number of rounds, documents or streams: `full` in `make faults`, less in `make test`."""
        return full if self.full else scaled_down

    def random(self) -> random.Random:
        """A separate random generator, so that the order of tests has no effect."""
        return random.Random(self.seed)
