"""The current speed of this machine.

Shared machines differ by a factor of three, and a machine's speed may double or halve within a second. Time limits
are meant for the reference machine: measured times are divided by `speed_ratio` or `slowness`.
"""

from __future__ import annotations

import re
import time

REFERENCE_SECONDS = 0.0045
"""CPU time of `_work` on the reference machine, the slowest one to which limits apply unchanged."""

_TEXT = "The limit is 500 euros [ref:1] per day unless seven landlords may never pay. " * 300
_PARTS = re.compile(r"\[ref:\d+\]|\w+|\S")


def _work() -> str:
    """Scans, allocates and looks up, as code that reads texts does; adding numbers would be less representative."""
    places: dict[str, list[tuple[int, int]]] = {}
    parts: list[dict[str, object]] = []
    for match in _PARTS.finditer(_TEXT):
        places.setdefault(match.group().lower(), []).append(match.span())
        parts.append({"text": match[0], "start": match.start()})
    return "".join(str(part["text"]) for part in parts)


def speed_ratio() -> float:
    """Returns the CPU time of a piece of work now, as a multiple of its time on the reference machine."""
    started = time.thread_time()
    _work()
    return (time.thread_time() - started) / REFERENCE_SECONDS


def slowness() -> float:
    """Returns how many times slower than the reference machine this one is now, at least 1."""
    return max(1.0, *(speed_ratio() for _ in range(3)))
