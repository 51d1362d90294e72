"""Measures how long the event loop is blocked: the processor time of each callback and of each step of a task."""

from __future__ import annotations

import asyncio.events
import gc
import time
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any, cast

import pytest

REFERENCE_SECONDS = 0.1
"""Processor time of a million additions on the slowest machine for which limits are meant as they are."""


def slowness() -> float:
    """How much slower than the reference this machine computes; 1 if it isn't."""
    times: list[float] = []
    for _ in range(3):
        started, total = time.thread_time(), 0
        for number in range(1_000_000):
            total += number
        times.append(time.thread_time() - started)
    return max(1.0, min(times) / REFERENCE_SECONDS)


@contextmanager
def measured_holds(monkeypatch: pytest.MonkeyPatch) -> Generator[list[float]]:
    """Yields the milliseconds for which each callback blocked the loop, in order, without the caller's own task.

    Processor time of the loop's own thread, without the collector's pauses: others on the machine don't lengthen it.
    """
    holds: list[float] = []
    own = asyncio.current_task()
    handle = cast("Any", asyncio.events.Handle)
    run = handle._run

    def measured(self: asyncio.Handle) -> None:
        started = time.thread_time()
        run(self)
        spent = time.thread_time() - started
        if own is None or getattr(cast("Any", self)._callback, "__self__", None) is not own:
            holds.append(1000 * spent)

    gc.collect()
    gc.disable()
    try:
        with monkeypatch.context() as patched:
            patched.setattr(handle, "_run", measured)
            yield holds
    finally:
        gc.enable()
