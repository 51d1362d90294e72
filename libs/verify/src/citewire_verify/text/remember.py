"""Caches properties of words across their occurrences."""

from collections.abc import Callable
from typing import Generic, TypeVar

Reading = TypeVar("Reading")

MOST = 65_536
"""Maximum number of cached words; beyond it, the cache is cleared."""
LONGEST = 48
"""Maximum length of a cached word, so that hostile texts can't fill the memory."""


class _Memory(dict[str, Reading], Generic[Reading]):
    def __init__(self, read: Callable[[str], Reading]) -> None:
        super().__init__()
        self._read = read

    def __missing__(self, word: str) -> Reading:
        reading = self._read(word)
        if len(word) <= LONGEST:
            if len(self) >= MOST:
                self.clear()
            self[word] = reading
        return reading


def remembered(read: Callable[[str], Reading]) -> Callable[[str], Reading]:
    """Caches a function of a word; a cached call costs a dictionary look-up."""
    return _Memory(read).__getitem__
