"""A job's turn: how long it may keep its slot while others wait, and its cost to its organisation."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

_T = TypeVar("_T")

_SECONDS_PER_TOKEN: Final = 1 / 3000
"""Approximate CPU seconds for embedding a token, on two cores in fp32 (docs/benchmarks.md)."""

_TURNS_PER_READING: Final = 2.0


class Turn:
    """One turn of one job. Its cost is counted in CPU seconds, without time spent waiting for others."""

    def __init__(self, seconds: float, is_waited_for: Callable[[], Awaitable[bool]]) -> None:
        """Begins.

        Args:
            seconds: How long it may take while others wait.
            is_waited_for: Whether others wait.
        """
        self.spent = 0.0
        """Seconds of work so far."""
        self._least = seconds
        self._is_waited_for = is_waited_for
        self._began = time.monotonic()

    def read(self, seconds: float) -> None:
        """Counts the CPU time for reading the file, and extends the turn so that it isn't repeated for little gain."""
        self.spent += seconds
        self._least = max(self._least, _TURNS_PER_READING * seconds)

    def embedded(self, tokens: int) -> None:
        """Counts tokens that were embedded."""
        self.spent += tokens * _SECONDS_PER_TOKEN

    async def compute(self, work: Callable[[], _T]) -> _T:
        """Computes outside the event loop, and counts the time."""

        def run_timed() -> tuple[_T, float]:
            began = time.thread_time()
            result = work()
            return result, time.thread_time() - began

        result, seconds = await asyncio.to_thread(run_timed)
        self.spent += seconds
        return result

    async def is_over(self) -> bool:
        """Whether the slot should be passed on."""
        return time.monotonic() - self._began >= self._least and await self._is_waited_for()
