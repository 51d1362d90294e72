"""The rate limit of backfill."""

from collections.abc import Callable
from time import monotonic


class TokenRate:
    """An average limit on tokens per second: after spending too much, a caller waits until the time has compensated.

    Unused tokens aren't saved: after a pause, the rate is the same as before.
    """

    def __init__(self, tokens_per_second: float, clock: Callable[[], float] = monotonic) -> None:
        """Sets the limit; 0 means none."""
        self._rate = tokens_per_second
        self._clock = clock
        self._paid_at = clock()

    def spend(self, tokens: int) -> None:
        """Counts embedded tokens."""
        if self._rate > 0:
            self._paid_at = max(self._paid_at, self._clock()) + tokens / self._rate

    def wait_seconds(self) -> float:
        """Seconds until more may be embedded; 0 for now."""
        return max(0.0, self._paid_at - self._clock())
