"""Counts wrong API keys by address."""

import time

from citewire_kit.errors import ResourceExhausted
from citewire_kit.limit_store import Count, MemoryStore
from citewire_kit.metrics import LIMITED

MAX_FAILED_KEYS = 30
"""Most wrong API keys of one address per minute."""
_FAILED_SECONDS = 60


class FailedKeys:
    """Counts wrong API keys by address, in this process: guessing must not cost the database anything.

    Callers that recently sent a valid key are never rejected, even if others call from the same address.
    """

    def __init__(self) -> None:
        self._store = MemoryStore()

    def check(self, address: str) -> None:
        """Refuses an address that has sent too many.

        Raises:
            ResourceExhausted: `RATE_LIMITED`.
        """
        if self._store.add_now(self._count(address, 0)) >= MAX_FAILED_KEYS:
            LIMITED.labels("failed-keys", "address", "none").inc()
            raise ResourceExhausted(
                "too many wrong API keys came from your address: wait a minute",
                reason="RATE_LIMITED",
                retry_after=_FAILED_SECONDS,
                metadata={
                    "limit": "failed-keys-address",
                    "quota": str(MAX_FAILED_KEYS),
                    "window_seconds": str(_FAILED_SECONDS),
                },
            )

    def note(self, address: str) -> None:
        """Counts a wrong key."""
        self._store.add_now(self._count(address, 1))

    def _count(self, address: str, amount: int) -> Count:
        return Count(f"{address}:{time.time() // _FAILED_SECONDS:.0f}", amount, _FAILED_SECONDS)
