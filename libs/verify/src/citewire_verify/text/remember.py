"""Caches properties of words across their occurrences."""

from collections.abc import Callable
from typing import Generic, TypeVar

Reading = TypeVar("Reading")

MOST = 65_536
"""Words that are remembered; with more, all are forgotten."""
LONGEST = 48
"""Characters of a word that is remembered: of longer ones, a text in bad faith could fill the memory."""


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
    """Makes a function of a word remember its results; a call that is known costs a look into a dictionary."""
    return _Memory(read).__getitem__
