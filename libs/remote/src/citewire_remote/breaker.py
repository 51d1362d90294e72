"""A circuit breaker for each provider and key, so that a provider that keeps failing isn't called for a while.

A closed breaker counts consecutive failures. An open one refuses calls at once. After its open time it is half open:
it lets a test call through, and closes when a call has reached its terminal event.
"""

import time
import weakref
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import StrEnum
from types import TracebackType
from typing import Final

import prometheus_client
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from citewire_kit.errors import CitewireError, Unavailable
from citewire_kit.telemetry import get_logger

log = get_logger(__name__)

FAILURES: Final = frozenset(
    {"PROVIDER_UNAVAILABLE", "PROVIDER_RATE_LIMITED", "PROVIDER_STREAM_BROKEN", "PROVIDER_TIMEOUT"}
)
"""Reasons that count as failures of the provider. A rejected key or request is the caller's fault."""


class BreakerState(StrEnum):
    """A breaker's decision on a call."""

    CLOSED = "closed"
    HALF_OPEN = "half_open"
    OPEN = "open"


@dataclass(frozen=True, slots=True)
class BreakerPolicy:
    """When a breaker opens, and for how long."""

    failures: int = 5
    """Consecutive failures after which it opens."""
    open_seconds: float = 10.0
    """How long it stays open the first time; twice as long each time that the test call fails too."""
    most_seconds: float = 120.0
    """Maximum time that it stays open."""
    probe_seconds: float = 5.0
    """Time after which another call may go through while the first test call still runs: an answer can take minutes."""


class Breaker:
    """The breaker of one provider and key.

    Args:
        provider: The provider's name, for errors, log and metrics.
        policy: When it opens.
        clock: Seconds that only grow.
    """

    def __init__(
        self, provider: str, policy: BreakerPolicy | None = None, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.provider = provider
        self._policy = policy or BreakerPolicy()
        self._clock = clock
        self._failures = 0
        self._open = False
        self._until = 0.0
        self._seconds = self._policy.open_seconds
        self._probes = 0
        self._probed_at = 0.0
        _live.add(self)

    @property
    def state(self) -> BreakerState:
        """Its decision on a new call."""
        if not self._open:
            return BreakerState.CLOSED
        return BreakerState.OPEN if self._clock() < self._until else BreakerState.HALF_OPEN

    def enter(self) -> "Permit":
        """Lets a call through. The permit is a context manager around the call.

        Raises:
            Unavailable: The breaker is open, or half open with a test call under way.
        """
        now = self._clock()
        if not self._open:
            return Permit(self, probe=False)
        wait = self._until - now
        if wait <= 0 and self._probes:
            wait = self._probed_at + self._policy.probe_seconds - now
        if wait > 0:
            raise Unavailable(
                "the model provider has failed several times in a row and isn't called for a moment",
                reason="PROVIDER_UNAVAILABLE",
                metadata={"provider": self.provider, "breaker": "open"},
                retry_after=round(wait, 3),
            )
        self._probes += 1
        self._probed_at = now
        return Permit(self, probe=True)

    def left(self, *, probe: bool, succeeded: bool | None) -> None:
        """Records how a call ended; None says nothing about the provider."""
        if probe:
            self._probes -= 1
        if succeeded is None or (self._open and not probe):
            return
        if succeeded:
            self._failures = 0
            if self._open:
                self._open = False
                self._seconds = self._policy.open_seconds
                log.info("provider_breaker_closed", provider=self.provider)
                TRANSITIONS.labels(self.provider, BreakerState.CLOSED).inc()
            return
        self._failures += 1
        if probe:
            self._seconds = min(self._seconds * 2, self._policy.most_seconds)
            self._open_now()
        elif self._failures >= self._policy.failures:
            self._open_now()

    def _open_now(self) -> None:
        self._open = True
        self._until = self._clock() + self._seconds
        log.warning("provider_breaker_open", provider=self.provider, failures=self._failures, seconds=self._seconds)
        TRANSITIONS.labels(self.provider, BreakerState.OPEN).inc()


class Permit:
    """One call that a breaker let through: a context manager around it.

    A failure of the provider inside the block counts. If the block ends without `succeeded`, nothing is counted, as
    the client may have left.
    """

    def __init__(self, breaker: Breaker, *, probe: bool) -> None:
        self._breaker = breaker
        self._probe = probe
        self._succeeded: bool | None = None

    def succeeded(self) -> None:
        """Records that the call reached its terminal event."""
        self._succeeded = True

    def __enter__(self) -> "Permit":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        failed = isinstance(error, CitewireError) and error.reason in FAILURES
        self._breaker.left(probe=self._probe, succeeded=False if failed and not self._succeeded else self._succeeded)


class Breakers:
    """The breakers of a process, one for each client of a provider, as a client has one address and one key."""

    def __init__(self, policy: BreakerPolicy | None = None) -> None:
        self._policy = policy or BreakerPolicy()
        self._breakers: weakref.WeakKeyDictionary[object, Breaker] = weakref.WeakKeyDictionary()

    def of(self, client: object, provider: str) -> Breaker:
        """Returns the breaker of a client; it lives as long as the client."""
        breaker = self._breakers.get(client)
        if breaker is None:
            breaker = self._breakers[client] = Breaker(provider, self._policy)
        return breaker


TRANSITIONS = prometheus_client.Counter(
    "citewire_provider_breaker_transitions_total",
    "Circuit breakers of providers that opened or closed.",
    ["provider", "state"],
)
_live: weakref.WeakSet[Breaker] = weakref.WeakSet()


class _States(Collector):
    """Counts at each scrape, because an open breaker becomes half open by the passage of time."""

    def describe(self) -> Iterable[GaugeMetricFamily]:
        return [self._family()]

    def collect(self) -> Iterable[GaugeMetricFamily]:
        family = self._family()
        breakers = list(_live)
        counts = Counter((breaker.provider, breaker.state) for breaker in breakers)
        for provider in sorted({breaker.provider for breaker in breakers}):
            for state in BreakerState:
                family.add_metric([provider, state], counts[provider, state])
        return [family]

    @staticmethod
    def _family() -> GaugeMetricFamily:
        return GaugeMetricFamily(
            "citewire_provider_breakers",
            "Circuit breakers, one for each provider and key, by what they do with a call now.",
            labels=["provider", "state"],
        )


prometheus_client.REGISTRY.register(_States())
