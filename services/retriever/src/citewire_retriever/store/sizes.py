"""What is remembered of organisations' sizes, so that a search needn't count before it starts."""

import time
from collections import OrderedDict
from collections.abc import Callable
from typing import Final

from citewire_retriever.tuning import Sizes

_MAX_ENTRIES: Final = 10_000


class SizeCache:
    """Sizes by organisation and table, forgotten after some seconds; the least recently used go first."""

    def __init__(self, seconds: float, clock: Callable[[], float] = time.monotonic) -> None:
        """Remembers for `seconds`."""
        self._seconds = seconds
        self._clock = clock
        self._entries: OrderedDict[tuple[str, str], tuple[float, Sizes]] = OrderedDict()

    def get(self, org_id: str, table: str) -> Sizes | None:
        """Returns what is remembered, or None."""
        entry = self._entries.get((org_id, table))
        if entry is None or self._clock() - entry[0] >= self._seconds:
            return None
        self._entries.move_to_end((org_id, table))
        return entry[1]

    def put(self, org_id: str, table: str, sizes: Sizes) -> None:
        """Remembers."""
        self._entries[org_id, table] = (self._clock(), sizes)
        self._entries.move_to_end((org_id, table))
        if len(self._entries) > _MAX_ENTRIES:
            self._entries.popitem(last=False)
