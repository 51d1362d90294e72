"""Admission by permit: how many tokens may wait or be computed at once.

A request that doesn't fit is refused at once, with a delay for the retry; a stream waits instead, which slows its
sender down.
"""

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import asynccontextmanager, contextmanager

from citewire_embedder.metrics import QUEUED_TOKENS, REFUSED
from citewire_embedder.providers.base import Purpose
from citewire_kit.errors import ResourceExhausted

_RETRY_BOUNDS = (0.1, 10.0)


class Admission:
    """Permits of one purpose, counted in tokens.

    A request larger than the whole capacity is admitted when nothing else is, or it would never be.
    """

    def __init__(self, purpose: Purpose, capacity: int, tokens_per_second: Callable[[], float]) -> None:
        """Starts with all permits free.

        Args:
            purpose: For the metrics.
            capacity: Tokens that may be admitted at once.
            tokens_per_second: How fast the model has been lately.
        """
        self._capacity = capacity
        self._rate = tokens_per_second
        self._used = 0
        self._waiters: deque[tuple[int, asyncio.Future[None]]] = deque()
        self._gauge = QUEUED_TOKENS.labels(purpose.value)
        self._refused = REFUSED.labels(purpose.value)

    @property
    def used(self) -> int:
        """Tokens admitted now."""
        return self._used

    def check(self) -> None:
        """Refuses if not even one token would fit; a cheap check before the texts of a request are tokenised.

        Raises:
            ResourceExhausted: All permits are taken (reason `OVERLOADED`).
        """
        if self._waiters or not self._fits(1):
            raise self._refusal()

    @contextmanager
    def admit(self, tokens: int) -> Generator[None]:
        """Holds permits inside the block.

        Raises:
            ResourceExhausted: They aren't free now (reason `OVERLOADED`).
        """
        if self._waiters or not self._fits(tokens):
            raise self._refusal()
        self._take(tokens)
        try:
            yield
        finally:
            self._give_back(tokens)

    @asynccontextmanager
    async def admit_in_turn(self, tokens: int) -> AsyncGenerator[None]:
        """Holds permits inside the block; waits for them in the order of asking."""
        if self._waiters or not self._fits(tokens):
            await self._wait(tokens)
        else:
            self._take(tokens)
        try:
            yield
        finally:
            self._give_back(tokens)

    async def _wait(self, tokens: int) -> None:
        waiter = (tokens, asyncio.get_running_loop().create_future())
        self._waiters.append(waiter)
        try:
            await waiter[1]
        except asyncio.CancelledError:
            # The permits may have been handed over in the same turn of the event loop in which the caller left.
            if waiter[1].done() and not waiter[1].cancelled():
                self._give_back(tokens)
            else:
                self._waiters.remove(waiter)
                self._hand_over()
            raise

    def _fits(self, tokens: int) -> bool:
        return self._used == 0 or self._used + tokens <= self._capacity

    def _take(self, tokens: int) -> None:
        self._used += tokens
        self._gauge.inc(tokens)

    def _give_back(self, tokens: int) -> None:
        self._used -= tokens
        self._gauge.dec(tokens)
        self._hand_over()

    def _hand_over(self) -> None:
        while self._waiters and self._fits(self._waiters[0][0]):
            tokens, future = self._waiters.popleft()
            if not future.done():
                self._take(tokens)
                future.set_result(None)

    def _refusal(self) -> ResourceExhausted:
        self._refused.inc()
        low, high = _RETRY_BOUNDS
        # By then half of the admitted work is done, and there is room again.
        retry_after = min(max(self._used / 2 / max(self._rate(), 1.0), low), high)
        return ResourceExhausted(
            "the embedder is at its limit of work; try again later", reason="OVERLOADED", retry_after=retry_after
        )
