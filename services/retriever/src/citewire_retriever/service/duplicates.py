"""Results whose text is nearly that of a better one.

Nearly means: the same but for case and white space; or, for running text, so alike that 95 % of all its runs of five
characters are shared, with the same numbers in the same order. Rows of tables, and short texts, must be the same: a
single word makes another row of one.
"""

import re
from collections.abc import Iterable
from functools import cached_property
from itertools import chain
from typing import Final

from citewire_retriever.model import Candidate, Chunk, Hit

MAX_NAMED: Final = 20
"""Ids of left-out chunks that a result names at most."""

_RUN: Final = 5
_ALIKE: Final = 0.95
_SHORT: Final = 200
"""Characters below which a text must be the same."""
_NUMBER: Final = re.compile(r"\d+")


def collapse(hits: Iterable[Hit[Chunk]], most: int, rest: Iterable[Candidate] = ()) -> list[Hit[Chunk]]:
    """Leaves out hits whose text is nearly that of one before, which then names them.

    Args:
        hits: Best first.
        most: How many are kept at most; what comes after the last of them is still named if its text is that of one to
            the letter.
        rest: What comes after all of the hits.

    Returns:
        The kept ones, in their order.
    """
    kept: list[Hit[Chunk]] = []
    texts: list[_Text] = []
    named: list[list[int]] = []
    left = iter(hits)
    while len(kept) < most and (hit := next(left, None)) is not None:
        text = _Text(hit.chunk)
        better = next((place for place, each in enumerate(texts) if each.alike(text)), None)
        if better is not None:
            named[better].append(hit.chunk.chunk_id)
            continue
        kept.append(hit)
        texts.append(text)
        named.append([])
    places = {hit.chunk.content_hash: place for place, hit in enumerate(kept)}
    for hit in chain(left, rest):
        place = places.get(hit.chunk.content_hash)
        if place is not None:
            named[place].append(hit.chunk.chunk_id)
    return [
        hit._replace(duplicate_ids=tuple(ids[:MAX_NAMED])) if ids else hit for hit, ids in zip(kept, named, strict=True)
    ]


class _Text:
    """A chunk's text for comparison; what few comparisons need is made when it is first needed."""

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
        """Whether so many of the other's runs aren't in this text that the share can't be reached; most pairs end here.

        With all of this text's runs shared and m others besides, the share is runs / (runs + m).
        """
        most = len(self.runs) * (1 / _ALIKE - 1) + 1  # one more than exactly, for the rounding
        lacking: set[str] = set()
        text = other._folded
        for start in range(len(text) - _RUN + 1):
            run = text[start : start + _RUN]
            if run not in self.runs:
                lacking.add(run)
                if len(lacking) > most:
                    return True
        return False

    @property
    def _is_row(self) -> bool:
        return "row" in self._chunk.place
