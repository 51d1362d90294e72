"""Paces uploads of organisations that store more than is ingested, while others are active."""

import asyncio
import time
from collections.abc import Callable
from typing import Final
from weakref import WeakValueDictionary

_PACE_SECONDS: Final = 0.25
_PRESENT_SECONDS: Final = 10.0
"""Seconds that an organisation counts as active after storing something."""


class Backlogs:
    """Recently active organisations, and the turns of those with documents waiting for ingest.

    Storing faster than ingesting makes nothing ready earlier and only takes cores from others. So an organisation is
    paced only while others are active.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        """Takes a monotonic clock in seconds."""
        self._clock = clock
        self._seen: dict[str, float] = {}  # the latest last
        self._turns: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    def note_present(self, org_id: str) -> None:
        """Records that an organisation is storing something."""
        now = self._clock()
        self._seen.pop(org_id, None)
        self._seen[org_id] = now
        while self._seen[first := next(iter(self._seen))] < now - _PRESENT_SECONDS:
            del self._seen[first]

    async def wait(self, org_id: str) -> None:
        """Waits for an organisation's turn to have an upload answered; returns at once when it is alone."""
        turn = self._turns.setdefault(org_id, asyncio.Lock())
        async with turn:
            if self._has_others(org_id):
                await asyncio.sleep(_PACE_SECONDS)

    def _has_others(self, org_id: str) -> bool:
        since = self._clock() - _PRESENT_SECONDS
        return any(at >= since for seen, at in self._seen.items() if seen != org_id)
