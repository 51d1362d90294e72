"""Near-duplicates of better results.

Texts are near-duplicates if they differ only in case and white space; or, for running text, if 95 % of all runs of five
characters are shared, with the same numbers in the same order. Table rows and short texts must be the same, as a single
word makes a different row.
"""

import re
from collections.abc import Iterable
from functools import cached_property
from itertools import chain
from typing import Final

from citewire.retriever.v1.retriever_pb2 import Chunk

from citewire_retriever.model import Candidate

MAX_NAMED: Final = 20
"""Most ids of left-out chunks that a result names."""

_RUN: Final = 5
_ALIKE: Final = 0.95
_SHORT: Final = 200
"""Texts with fewer characters must be the same."""
_NUMBER: Final = re.compile(r"\d+")


def collapse(candidates: Iterable[Candidate], most: int, rest: Iterable[Candidate] = ()) -> list[Candidate]:
    """Leaves out near-duplicates of better candidates, which then name them.

    Args:
        candidates: Best first, read whole.
        most: Maximum number to keep; later candidates are still named if their text exactly equals a kept one's.
        rest: The candidates after these.

    Returns:
        The kept ones, in their order.
    """
    firsts: list[Candidate] = []
    texts: list[_Text] = []
    named: list[list[int]] = []
    left = iter(candidates)
    while len(firsts) < most and (candidate := next(left, None)) is not None:
        text = _Text(candidate.whole)
        better = next((position for position, each in enumerate(texts) if each.alike(text)), None)
        if better is not None:
            named[better].append(candidate.chunk_id)
            continue
        firsts.append(candidate)
        texts.append(text)
        named.append([])
    positions = {candidate.content_hash: position for position, candidate in enumerate(firsts)}
    for candidate in chain(left, rest):
        position = positions.get(candidate.content_hash)
        if position is not None:
            named[position].append(candidate.chunk_id)
    return [
        candidate._replace(duplicate_ids=tuple(ids[:MAX_NAMED])) if ids else candidate
        for candidate, ids in zip(firsts, named, strict=True)
    ]


class _Text:
    """A chunk's text for comparison; rarely needed parts are computed on first use."""

    def __init__(self, chunk: Chunk) -> None:
        self._chunk = chunk
        self._folded = " ".join(chunk.text.casefold().split())

    @cached_property
    def numbers(self) -> list[str]:
        return _NUMBER.findall(self._folded)

    @cached_property
    def runs(self) -> frozenset[str]:
        text = self._folded
        return frozenset(text[start : start + _RUN] for start in range(max(1, len(text) - _RUN + 1)))

    def alike(self, other: "_Text") -> bool:
        if self._folded == other._folded:
            return True
        shorter, longer = sorted((len(self._folded), len(other._folded)))
        if shorter < _SHORT or shorter < _ALIKE * (longer - _RUN) or self._is_row or other._is_row:
            return False
        if self.numbers != other.numbers:
            return False
        if self._lacks_too_much(other):
            return False
        shared = len(self.runs & other.runs)
        return shared >= _ALIKE * (len(self.runs) + len(other.runs) - shared)

    def _lacks_too_much(self, other: "_Text") -> bool:
        """Whether too many of the other's runs are missing here to reach the share, which rules out most pairs.

        With all of this text's runs shared and m others, the share is runs / (runs + m).
        """
        most = len(self.runs) * (1 / _ALIKE - 1) + 1  # one more than the exact value, for rounding
        missing: set[str] = set()
        text = other._folded
        for start in range(len(text) - _RUN + 1):
            run = text[start : start + _RUN]
            if run not in self.runs:
                missing.add(run)
                if len(missing) > most:
                    return True
        return False

    @property
    def _is_row(self) -> bool:
        return self._chunk.place.HasField("row")
