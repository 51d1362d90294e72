"""Token vectors of texts, and the cache that keeps those of texts that are ranked again and again."""

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import blake2b

import numpy as np
from numpy.typing import NDArray

from citewire_embedder.metrics import RERANK_CACHE_BYTES

TokenVectors = NDArray[np.float32]
"""One text's token vectors as rows: float32, shape (tokens, width), each row of length 1."""

_STEPS = 127
_ENTRY_BYTES = 400
"""Approximate overhead of an entry in bytes, for the key and the objects."""


@dataclass(frozen=True, slots=True)
class PackedVectors:
    """Token vectors in a quarter of their size: int8, with one scale for each token.

    The cosine of two tokens changes by less than 0.01, the order of documents hardly: docs/benchmarks.md.
    """

    steps: NDArray[np.int8]
    """Shape (tokens, width)."""
    scales: NDArray[np.float32]
    """Shape (tokens, 1)."""
    heading: int
    """Number of tokens at the beginning that belong to the heading."""

    @classmethod
    def pack(cls, vectors: TokenVectors, heading: int) -> "PackedVectors":
        """Rounds each token's numbers to 255 steps between its largest magnitude and its negative."""
        scales = np.maximum(np.abs(vectors).max(axis=1, keepdims=True, initial=0.0), 1e-12) / _STEPS
        return cls(np.rint(vectors / scales).astype(np.int8), scales.astype(np.float32), heading)

    @property
    def size(self) -> int:
        """Size of a cache entry in bytes."""
        return self.steps.nbytes + self.scales.nbytes + _ENTRY_BYTES


def cosines_of(query: TokenVectors, documents: Sequence[PackedVectors]) -> list[NDArray[np.float32]]:
    """Compares all documents in one multiplication, because many small ones take BLAS's threads ten times as long.

    Returns:
        For each document, the cosines of each token of the query (rows) to each of the document.
    """
    if not documents:
        return []
    steps = np.concatenate([document.steps for document in documents]).astype(np.float32)
    scales = np.concatenate([document.scales for document in documents])
    ends = np.cumsum([len(document.steps) for document in documents])
    return np.split((query @ steps.T) * scales.T, ends[:-1], axis=1)


class TokenVectorCache:
    """Caches token vectors by the content of their text; the least recently used are evicted first.

    Entries belong to one organisation, so that response times don't reveal its texts to another.
    """

    def __init__(self, limit: int) -> None:
        """Creates an empty cache.

        Args:
            limit: Maximum size in bytes; 0 disables it.
        """
        self.limit = limit
        """Maximum size in bytes."""
        self._bytes = 0
        self._entries: OrderedDict[bytes, PackedVectors] = OrderedDict()

    def __len__(self) -> int:
        return len(self._entries)

    @property
    def size(self) -> int:
        """Size of the entries in bytes."""
        return self._bytes

    @staticmethod
    def key(org_id: str, heading: str, text: str) -> bytes:
        """Returns the key of a text below its heading."""
        parts = blake2b(digest_size=16)
        for part in (org_id, heading, text):
            encoded = part.encode("utf-8", "surrogatepass")
            parts.update(len(encoded).to_bytes(8) + encoded)
        return parts.digest()

    def get(self, key: bytes) -> PackedVectors | None:
        """Returns an entry, or None."""
        entry = self._entries.get(key)
        if entry is not None:
            self._entries.move_to_end(key)
        return entry

    def put(self, key: bytes, entry: PackedVectors) -> None:
        """Adds an entry, unless it is larger than the whole cache."""
        if entry.size > self.limit:
            return
        replaced = self._entries.pop(key, None)
        self._bytes += entry.size - (replaced.size if replaced else 0)
        self._entries[key] = entry
        while self._bytes > self.limit:
            self._bytes -= self._entries.popitem(last=False)[1].size
        RERANK_CACHE_BYTES.set(self._bytes)
