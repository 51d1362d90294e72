"""Measures how long the event loop is blocked: the CPU time of each callback and of each step of a task."""

from __future__ import annotations

import asyncio.events
import gc
import time
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any, cast

import pytest

from machine_speed import slowness


@contextmanager
def measured_holds(monkeypatch: pytest.MonkeyPatch) -> Generator[list[float]]:
    """Yields a list that is filled at the end with the milliseconds for which each callback blocked the loop.

    The caller's own task doesn't count. The times are CPU time of the loop's thread without garbage collection, divided
    by the machine's slowness: other processes don't lengthen them.
    """
    holds: list[float] = []
    slow = slowness()
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
        slow = max(slow, slowness())
        holds[:] = [hold / slow for hold in holds]
