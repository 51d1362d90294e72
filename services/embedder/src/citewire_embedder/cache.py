"""The cache of query vectors, because people and retries repeat questions."""

from collections import OrderedDict
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from citewire_embedder.metrics import CACHE_HITS, CACHE_MISSES

_LONGEST_KEY = 4096


@dataclass(frozen=True, slots=True)
class CachedVector:
    """A text's vector (float32, one dimension) and its tokens before any cut."""

    vector: NDArray[np.float32]
    tokens: int


class VectorCache:
    """A cache that evicts the least recently used entry first.

    Entries belong to one organisation, so that response times don't reveal to another which texts were embedded before.
    Very long texts aren't cached, so that entries × 4096 characters limit the memory.
    """

    def __init__(self, entries: int) -> None:
        """Creates an empty cache of at most `entries`; 0 disables it."""
        self._limit = entries
        self._entries: OrderedDict[tuple[str, str], CachedVector] = OrderedDict()

    def __len__(self) -> int:
        return len(self._entries)

    def get(self, org_id: str, text: str) -> CachedVector | None:
        """Returns the entry of a text, or None, and counts a hit or a miss."""
        key = (org_id, text)
        entry = self._entries.get(key)
        if entry is None:
            CACHE_MISSES.inc()
            return None
        self._entries.move_to_end(key)
        CACHE_HITS.inc()
        return entry

    def put(self, org_id: str, text: str, entry: CachedVector) -> None:
        """Adds an entry."""
        if self._limit == 0 or len(text) > _LONGEST_KEY:
            return
        self._entries[org_id, text] = entry
        self._entries.move_to_end((org_id, text))
        if len(self._entries) > self._limit:
            self._entries.popitem(last=False)
