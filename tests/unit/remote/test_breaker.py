"""The circuit breaker."""

from __future__ import annotations

import gc

import pytest
from prometheus_client import REGISTRY

from citewire_kit.errors import CitewireError, FailedPrecondition, Unavailable
from citewire_remote.breaker import Breaker, BreakerPolicy, Breakers, BreakerState

POLICY = BreakerPolicy(failures=3, open_seconds=10, most_seconds=30, probe_seconds=5)
DOWN = Unavailable("down", reason="PROVIDER_UNAVAILABLE")


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def breaker(clock: Clock) -> Breaker:
    return Breaker("p", POLICY, clock=clock)


def fail(breaker: Breaker, error: BaseException = DOWN) -> None:
    with pytest.raises(type(error)), breaker.enter():
        raise error


def succeed(breaker: Breaker) -> None:
    with breaker.enter() as permit:
        permit.succeeded()


def refusal_of(breaker: Breaker) -> CitewireError:
    with pytest.raises(Unavailable) as caught:
        breaker.enter()
    return caught.value


def test_failures_in_a_row_open_it(breaker: Breaker) -> None:
    for _ in range(2):
        fail(breaker)
    succeed(breaker)
    for _ in range(3):
        assert breaker.state is BreakerState.CLOSED
        fail(breaker)
    assert breaker.state is BreakerState.OPEN
    error = refusal_of(breaker)
    assert (error.reason, error.retry_after, error.metadata["breaker"]) == ("PROVIDER_UNAVAILABLE", 10, "open")


def test_ends_unrelated_to_the_provider_change_nothing(breaker: Breaker) -> None:
    fail(breaker)
    fail(breaker)
    for _ in range(5):
        fail(breaker, FailedPrecondition("key", reason="PROVIDER_AUTH"))
        fail(breaker, GeneratorExit())
        with breaker.enter():
            pass  # left without a terminal event, and without an error
    assert breaker.state is BreakerState.CLOSED
    fail(breaker)
    assert breaker.state is BreakerState.OPEN


def test_half_open_lets_one_call_through_whose_end_decides(breaker: Breaker, clock: Clock) -> None:
    for _ in range(3):
        fail(breaker)
    clock.now += 10
    assert breaker.state is BreakerState.HALF_OPEN
    with breaker.enter() as probe:
        assert refusal_of(breaker).retry_after == 5
        clock.now += 5
        with breaker.enter():  # the first probe takes long, so another is allowed
            pass
        assert breaker.state is BreakerState.HALF_OPEN
        probe.succeeded()
    assert breaker.state is BreakerState.CLOSED
    fail(breaker)
    assert breaker.state is BreakerState.CLOSED


def test_a_failed_probe_opens_it_for_longer_up_to_a_limit(breaker: Breaker, clock: Clock) -> None:
    for _ in range(3):
        fail(breaker)
    for seconds in (20, 30, 30):
        clock.now = breaker_due(breaker, clock)
        fail(breaker)
        assert refusal_of(breaker).retry_after == seconds
    clock.now = breaker_due(breaker, clock)
    succeed(breaker)
    for _ in range(3):
        fail(breaker)
    assert refusal_of(breaker).retry_after == 10


def test_after_a_probe_whose_client_left_another_is_allowed(breaker: Breaker, clock: Clock) -> None:
    for _ in range(3):
        fail(breaker)
    clock.now += 10
    fail(breaker, GeneratorExit())
    assert breaker.state is BreakerState.HALF_OPEN
    succeed(breaker)
    assert breaker.state is BreakerState.CLOSED


def test_calls_that_began_before_it_opened_decide_nothing(breaker: Breaker) -> None:
    early = breaker.enter()
    for _ in range(3):
        fail(breaker)
    with early as permit:
        permit.succeeded()
    assert breaker.state is BreakerState.OPEN


def test_each_client_has_its_own_breaker_and_metrics_count_them() -> None:
    class Client:
        pass

    breakers = Breakers(POLICY)
    client, other = Client(), Client()
    assert breakers.of(client, "metered") is breakers.of(client, "metered")
    assert breakers.of(client, "metered") is not breakers.of(other, "metered")
    for _ in range(3):
        # An error's traceback refers to the breaker, so each call needs a new error.
        fail(breakers.of(client, "metered"), Unavailable("down", reason="PROVIDER_UNAVAILABLE"))

    def count(state: str) -> float | None:
        return REGISTRY.get_sample_value("citewire_provider_breakers", {"provider": "metered", "state": state})

    assert [count(state) for state in ("closed", "half_open", "open")] == [1, 0, 1]
    del client
    gc.collect()
    assert [count(state) for state in ("closed", "half_open", "open")] == [1, 0, 0]


def breaker_due(breaker: Breaker, clock: Clock) -> float:
    return clock.now + (refusal_of(breaker).retry_after or 0)
