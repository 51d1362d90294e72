"""When a call to a provider is retried. This is the only layer that retries; the SDKs' own retries are off."""

import asyncio
import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final, TypeVar

from citewire_kit.errors import CitewireError
from citewire_kit.telemetry import get_logger

T = TypeVar("T")

log = get_logger(__name__)

NEVER: Final = "never"
"""Value of an error's metadata `retry` if the provider said that a retry is pointless (a used-up quota)."""

OUR_ADVICE: Final = 1.0
"""`retry_after` of an error, in seconds, if the provider gave none."""

RETRYABLE: Final = frozenset({"PROVIDER_UNAVAILABLE", "PROVIDER_RATE_LIMITED", "PROVIDER_STREAM_BROKEN"})
"""Reasons for which a retry may succeed. A timeout isn't one of them, because no time is left."""


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """How often and how fast calls are retried."""

    attempts: int = 3
    """Maximum number of calls to one provider, including the first."""
    first_seconds: float = 0.5
    """Longest wait before the second call; it doubles with each further one."""
    most_seconds: float = 8.0
    """Longest wait, unless the provider asks for more."""
    most_retry_after: float = 15.0
    """Longest `retry-after` that is honoured; if a provider asks for more, no further call is made."""


class Retries:
    """The attempts of one call to one provider.

    Args:
        policy: How often and how fast.
        deadline: Loop time at which the time for all attempts ends; None without.
        jitter: Returns numbers from 0 to 1.
    """

    def __init__(
        self, policy: RetryPolicy, *, deadline: float | None = None, jitter: Callable[[], float] = random.random
    ) -> None:
        self._policy = policy
        self._deadline = deadline
        self._jitter = jitter
        self._failures = 0

    def delay_after(self, error: CitewireError) -> float | None:
        """Returns the seconds to wait before the next attempt; None if there is none.

        Full jitter, from zero to the backoff, keeps callers that failed together from retrying together. It is added to
        the delay that the provider asked for.
        """
        policy = self._policy
        self._failures += 1
        if self._failures >= policy.attempts or not is_retryable(error):
            return None
        delay = self._jitter() * min(policy.most_seconds, policy.first_seconds * 2.0 ** (self._failures - 1))
        asked = _asked(error)
        if asked > policy.most_retry_after:
            return None
        delay += asked
        if self._deadline is not None and asyncio.get_running_loop().time() + delay >= self._deadline:
            return None
        return delay


def is_retryable(error: CitewireError) -> bool:
    """Whether a retry may succeed. An open breaker rejects calls for longer than a call waits."""
    return error.reason in RETRYABLE and error.metadata.get("retry") != NEVER and "breaker" not in error.metadata


def _asked(error: CitewireError) -> float:
    """Returns the delay that the provider asked for; our own default advice to clients doesn't count."""
    seconds = error.retry_after or 0.0
    return seconds if seconds > OUR_ADVICE or error.reason == "PROVIDER_RATE_LIMITED" else 0.0


async def retrying(policy: RetryPolicy, attempt: Callable[[], Awaitable[T]], *, deadline: float | None = None) -> T:
    """Makes a call that isn't streamed, with retries. The caller records each attempt.

    Args:
        policy: How often and how fast.
        attempt: Makes one call.
        deadline: Loop time after which no further attempt begins.

    Raises:
        CitewireError: The last attempt's.
    """
    retries = Retries(policy, deadline=deadline)
    while True:
        try:
            return await attempt()
        except CitewireError as error:
            delay = retries.delay_after(error)
            if delay is None:
                raise
            log.info("provider_retried", reason=error.reason, seconds=round(delay, 3))
        await asyncio.sleep(delay)
