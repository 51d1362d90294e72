"""The rate limit of backfill."""

from collections.abc import Callable
from time import monotonic


class TokenRate:
    """A limit on tokens a second, averaged: who has spent too much waits until the time has paid for it.

    Nothing is saved up: after a pause, the rate is that of before.
    """

    def __init__(self, tokens_per_second: float, clock: Callable[[], float] = monotonic) -> None:
        """Takes the limit; 0 is none."""
        self._rate = tokens_per_second
        self._clock = clock
        self._paid_at = clock()

    def spend(self, tokens: int) -> None:
        """Notes what was embedded."""
        if self._rate > 0:
            self._paid_at = max(self._paid_at, self._clock()) + tokens / self._rate

    def wait_seconds(self) -> float:
        """Seconds until more may be embedded; 0 if it may be now."""
        return max(0.0, self._paid_at - self._clock())
