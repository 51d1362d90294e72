"""How fast this machine computes at the moment.

Shared machines differ by a factor of three, and one machine's speed doubles and halves within a second. Limits of time
are meant for the reference machine: what is measured is divided by `speed_ratio` or `slowness`.
"""

from __future__ import annotations

import re
import time

REFERENCE_SECONDS = 0.0045
"""Processor time of `_work` on the slowest machine for which limits are meant as they are."""

_TEXT = "The limit is 500 euros [ref:1] per day unless seven landlords may never pay. " * 300
_PARTS = re.compile(r"\[ref:\d+\]|\w+|\S")


def _work() -> str:
    """Scans, allocates and looks up as readers of texts do; adding numbers says little of that."""
    places: dict[str, list[tuple[int, int]]] = {}
    parts: list[dict[str, object]] = []
    for match in _PARTS.finditer(_TEXT):
        places.setdefault(match.group().lower(), []).append(match.span())
        parts.append({"text": match[0], "start": match.start()})
    return "".join(str(part["text"]) for part in parts)


def speed_ratio() -> float:
    """Processor time that a piece of work takes now, as a multiple of what it takes on the reference machine."""
    started = time.thread_time()
    _work()
    return (time.thread_time() - started) / REFERENCE_SECONDS


def slowness() -> float:
    """How much slower than the reference machine this one is now; 1 if it isn't."""
    return max(1.0, *(speed_ratio() for _ in range(3)))
