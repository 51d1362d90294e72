"""Uploads of who stores more than is ingested: beside others, they are answered one after another, at a pace."""

import asyncio
import time
from collections.abc import Callable
from typing import Final
from weakref import WeakValueDictionary

_PACE_SECONDS: Final = 0.25
_PRESENT_SECONDS: Final = 10.0
"""How long an organisation counts as present after it stored something."""


class Backlogs:
    """Organisations that stored something lately, and the turns of those whose documents wait for ingest.

    What is stored faster than it is ingested is ready no earlier. It only takes the cores from others, so they are
    what decides: an organisation that is alone stores as fast as it can.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        """Takes a clock: seconds, growing."""
        self._clock = clock
        self._seen: dict[str, float] = {}  # the latest last
        self._turns: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    def note_present(self, org_id: str) -> None:
        """Notes that an organisation stores something now."""
        now = self._clock()
        self._seen.pop(org_id, None)
        self._seen[org_id] = now
        while self._seen[first := next(iter(self._seen))] < now - _PRESENT_SECONDS:
            del self._seen[first]

    async def wait(self, org_id: str) -> None:
        """Waits for an organisation's turn to have an upload answered; not at all once it is alone."""
        turn = self._turns.setdefault(org_id, asyncio.Lock())
        async with turn:
            if self._has_others(org_id):
                await asyncio.sleep(_PACE_SECONDS)

    def _has_others(self, org_id: str) -> bool:
        since = self._clock() - _PRESENT_SECONDS
        return any(at >= since for seen, at in self._seen.items() if seen != org_id)
