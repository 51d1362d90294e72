"""Admission by permit: how many tokens may wait or be computed at once.

A request that doesn't fit is refused at once, with a delay for the retry; a stream waits instead, which slows its
sender down. Organisations share the permits: each has its part of them at once, whatever the others hold.
"""

from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import asynccontextmanager, contextmanager

from citewire_embedder.metrics import QUEUED_TOKENS, REFUSED
from citewire_embedder.providers.base import Purpose
from citewire_kit.errors import ResourceExhausted
from citewire_kit.fair import FairShares

_RETRY_BOUNDS = (0.1, 10.0)


class Admission:
    """Permits of one purpose, counted in tokens.

    A request larger than the whole capacity is admitted when nothing else is, or it would never be.
    """

    def __init__(self, purpose: Purpose, capacity: int, tokens_per_second: Callable[[], float]) -> None:
        """Starts with all permits free.

        Args:
            purpose: The purpose, for metrics.
            capacity: Tokens that may be admitted at once.
            tokens_per_second: Returns the model's recent speed.
        """
        self._shares = FairShares(capacity, self._refusal, beyond=True)
        self._rate = tokens_per_second
        self._gauge = QUEUED_TOKENS.labels(purpose.value)
        self._refused = REFUSED.labels(purpose.value)

    @property
    def used(self) -> int:
        """Tokens admitted now."""
        return self._shares.total

    def check(self, org_id: str) -> None:
        """Rejects if not even one token would fit: a cheap check before a request's texts are tokenised.

        Raises:
            ResourceExhausted: The organisation is at its limit (reason `OVERLOADED`).
        """
        self._shares.check(org_id)

    @contextmanager
    def admit(self, org_id: str, tokens: int) -> Generator[None]:
        """Holds permits inside the block.

        Raises:
            ResourceExhausted: They aren't free now (reason `OVERLOADED`).
        """
        with self._shares.hold_now(org_id, tokens), self._gauge_of(tokens):
            yield

    @asynccontextmanager
    async def admit_in_turn(self, org_id: str, tokens: int) -> AsyncGenerator[None]:
        """Holds permits inside the block; waits for them, giving precedence to the organisation that holds fewest."""
        async with self._shares.hold(org_id, tokens):
            with self._gauge_of(tokens):
                yield

    @contextmanager
    def _gauge_of(self, tokens: int) -> Generator[None]:
        self._gauge.inc(tokens)
        try:
            yield
        finally:
            self._gauge.dec(tokens)

    def _refusal(self, _org_id: str) -> ResourceExhausted:
        self._refused.inc()
        low, high = _RETRY_BOUNDS
        # By then half of the admitted work is done, and there is room again.
        retry_after = min(max(self.used / 2 / max(self._rate(), 1.0), low), high)
        return ResourceExhausted(
            "the embedder is at its limit of work; try again later", reason="OVERLOADED", retry_after=retry_after
        )
