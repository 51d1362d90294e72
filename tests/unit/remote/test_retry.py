"""When a call is retried."""

from __future__ import annotations

import asyncio

import pytest

from citewire_kit.errors import CitewireError, DeadlineExceeded, FailedPrecondition, ResourceExhausted, Unavailable
from citewire_remote.retry import NEVER, Retries, RetryPolicy, retrying

DOWN = Unavailable("down", reason="PROVIDER_UNAVAILABLE")


def rate_limit_error(retry_after: float | None = None, **metadata: str) -> ResourceExhausted:
    return ResourceExhausted("slow", reason="PROVIDER_RATE_LIMITED", retry_after=retry_after, metadata=metadata)


async def delays(policy: RetryPolicy, error: CitewireError, *, jitter: float = 1.0) -> list[float | None]:
    retries = Retries(policy, jitter=lambda: jitter)
    return [retries.delay_after(error) for _ in range(5)]


async def test_waits_double_up_to_the_longest_and_end() -> None:
    policy = RetryPolicy(attempts=5, first_seconds=1, most_seconds=3)
    assert await delays(policy, DOWN) == [1, 2, 3, 3, None]
    assert await delays(policy, DOWN, jitter=0.0) == [0, 0, 0, 0, None]
    assert await delays(policy, DOWN, jitter=0.5) == [0.5, 1, 1.5, 1.5, None]
    assert await delays(RetryPolicy(attempts=1), DOWN) == [None] * 5


async def test_the_providers_retry_time_is_waited_in_full() -> None:
    policy = RetryPolicy(attempts=3, first_seconds=1, most_seconds=3, most_retry_after=10)
    assert await delays(policy, rate_limit_error(4.0), jitter=0.5) == [4.5, 5, None, None, None]
    assert (await delays(policy, rate_limit_error(10.5)))[0] is None
    # One second is our own advice to clients, unless it comes with a rate limit.
    advised = Unavailable("down", reason="PROVIDER_UNAVAILABLE", retry_after=1.0)
    assert (await delays(policy, advised, jitter=0.5))[0] == 0.5
    assert (await delays(policy, rate_limit_error(1.0), jitter=0.5))[0] == 1.5


@pytest.mark.parametrize(
    "error",
    [
        FailedPrecondition("key", reason="PROVIDER_AUTH"),
        FailedPrecondition("no", reason="PROVIDER_REJECTED"),
        DeadlineExceeded("late", reason="PROVIDER_TIMEOUT"),
        ResourceExhausted("spent", reason="BUDGET_EXCEEDED"),
        rate_limit_error(retry=NEVER),
    ],
)
async def test_lasting_failures_are_not_retried(error: CitewireError) -> None:
    assert (await delays(RetryPolicy(), error))[0] is None


async def test_no_attempt_begins_after_the_deadline() -> None:
    now = asyncio.get_running_loop().time()
    policy = RetryPolicy(first_seconds=1)
    assert Retries(policy, deadline=now + 2, jitter=lambda: 1.0).delay_after(DOWN) == 1
    assert Retries(policy, deadline=now + 0.9, jitter=lambda: 1.0).delay_after(DOWN) is None


async def test_retrying_gives_the_first_result_or_the_last_error() -> None:
    policy = RetryPolicy(attempts=3, first_seconds=0.001)
    outcomes: list[CitewireError | int] = [DOWN, rate_limit_error(0.001), 7]

    async def attempt() -> int:
        outcome = outcomes.pop(0)
        if isinstance(outcome, CitewireError):
            raise outcome
        return outcome

    assert await retrying(policy, attempt) == 7
    outcomes = [DOWN, DOWN, rate_limit_error()]
    with pytest.raises(ResourceExhausted):
        await retrying(policy, attempt)
    assert outcomes == []
