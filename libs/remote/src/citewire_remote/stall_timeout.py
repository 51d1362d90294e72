"""Stall timeouts: the longest pause between two pieces of a provider's stream."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

from citewire_kit.errors import DeadlineExceeded
from citewire_remote.failures import timed_out

AFTER_END = 5.0
"""Seconds to wait for usage and `[DONE]` after the answer's end."""


@dataclass(frozen=True, slots=True)
class TimeLimits:
    """Stall timeouts of a call, in seconds. Time in which our client is slower than the provider doesn't count."""

    connect: float = 10.0
    first_token: float = 30.0
    between_tokens: float = 20.0
    whole: float = 300.0


class StallWatch:
    """Ends a wait for the provider that takes too long.

    Only time spent waiting counts, until useful data arrives: a comment isn't useful. There is one timer per stream,
    which checks the clock when it fires, because a timer for each read costs as much as parsing it.

    Args:
        limits: The limits.
        provider: The provider's name, for errors.
    """

    def __init__(self, limits: TimeLimits, provider: str) -> None:
        self._limits = limits
        self._provider = provider
        self._loop = asyncio.get_running_loop()
        self._end = self._loop.time() + limits.whole
        self._left = limits.first_token
        self._stall = "sent no first token"
        self._seconds = limits.first_token
        self._started: float | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._fires = 0.0
        self._give_up: Callable[[], object] | None = None
        self.expired = False
        """Whether the wait was ended."""

    def guard(self, give_up: Callable[[], object]) -> None:
        """Sets what ends a wait, such as closing the response. It is called at most once."""
        self._give_up = give_up

    def waiting(self) -> None:
        """Starts a wait."""
        now = self._loop.time()
        self._started = now
        due = min(now + self._left, self._end)
        if self._timer is None or due < self._fires:
            self._arm(due)

    def got(self) -> None:
        """Ends the wait, with or without useful data."""
        if self._started is not None:
            self._left -= self._loop.time() - self._started
            self._started = None

    def progressed(self, *, finished: bool) -> None:
        """Records that useful data arrived: the next stall timeout begins."""
        if finished:
            self._left = AFTER_END
        else:
            self._left = self._seconds = self._limits.between_tokens
            self._stall = "sent no further token"

    def error(self) -> DeadlineExceeded:
        """Returns the error for the timeout that expired."""
        if self._loop.time() >= self._end:
            return timed_out("didn't finish", self._provider, self._limits.whole)
        return timed_out(self._stall, self._provider, self._seconds)

    def close(self) -> None:
        """Stops the timer."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _arm(self, due: float) -> None:
        self.close()
        self._fires = due
        self._timer = self._loop.call_at(due, self._look)

    def _look(self) -> None:
        self._timer = None
        if self._started is None:
            return  # our client is slow: the next wait starts a timer
        due = min(self._started + self._left, self._end)
        if self._loop.time() < due:
            self._arm(due)
        elif self._give_up is not None:
            self.expired = True
            self._give_up()
