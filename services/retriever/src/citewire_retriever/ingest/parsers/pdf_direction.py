"""Right-to-left text of a PDF line, in the order in which it is read.

A PDF has glyphs at positions, in any order; pdfium turns most of Arabic and Hebrew into the order of reading, but turns
round what is in it already, as in PDFs of macOS, which move left from each glyph to the next. The positions tell: what
is read next must be further left. Within such text, numbers and Latin words run to the right (the Unicode bidirectional
algorithm, applied backwards).
"""

import re
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from citewire_retriever.ingest.parsers.pdfium import PageText

RIGHT_TO_LEFT: Final = re.compile("[\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufeff]")
_MOVED: Final = 0.02
"""Least distance of two letters' left edges, in heights of the font; parts of a ligature have none."""
_BACK: Final = 0.3
"""Distance to the left from which the next characters aren't part of the same run."""
_MOST_BETWEEN: Final = 8
"""Most characters between two words or numbers of a text."""
BRACKETS: Final = str.maketrans("()[]{}", ")(][}{")
_OPENING: Final = "([{"
_LETTERS: Final = frozenset({"R", "AL"})
_NUMBERS: Final = frozenset({"EN", "AN"})
_WITHIN_NUMBERS: Final = frozenset({"ES", "ET", "CS"})


def reading_order(page: PageText, first: int, last: int, size: float) -> Sequence[int]:
    """The characters from `first` to before `last` in the order of reading: theirs, unless that runs the wrong way."""
    indices = range(first, last)
    if not RIGHT_TO_LEFT.search(page.characters, first, last):
        return indices
    kinds = [unicodedata.bidirectional(page.characters[index]) for index in indices]
    lefts = [_left(page, index) for index in indices]
    places = list(range(len(kinds)))
    if _run_to_the_right(kinds, lefts, _MOVED * size):
        runs = _runs_to_the_right(kinds, lefts, _BACK * size)
        places = [place for start, end in runs for place in _turned(kinds, start, end)]
    return [first + place for place in _in_word_order(places, kinds, lefts)]


def with_paired_brackets(text: str) -> str:
    """Right-to-left text whose brackets are turned if they then are in pairs, and otherwise aren't.

    Files have either the shape of a bracket or its meaning, so the library can't know whether to turn it.
    """
    if not RIGHT_TO_LEFT.search(text) or _are_paired(text):
        return text
    turned = text.translate(BRACKETS)
    return turned if _are_paired(turned) else text


def _are_paired(text: str) -> bool:
    opened: list[str] = []
    for char in text:
        if char in _OPENING:
            opened.append(char)
        elif (opening := char.translate(BRACKETS)) != char and (not opened or opened.pop() != opening):
            return False
    return not opened


def _run_to_the_right(kinds: Sequence[str], lefts: Sequence[float | None], least: float) -> bool:
    """Whether most letters of right-to-left scripts are further right than the ones before them."""
    moves = [
        after - before
        for (kind, before), (next_kind, after) in pairwise(zip(kinds, lefts, strict=True))
        if before is not None and after is not None and kind in _LETTERS and next_kind in _LETTERS
    ]
    return sum(move > least for move in moves) > sum(move < -least for move in moves)


def _left(page: PageText, index: int) -> float | None:
    if page.characters[index].isspace():
        return None
    ends = page.ends(index)
    return ends[0] if ends is not None else None


def _runs_to_the_right(kinds: Sequence[str], lefts: Sequence[float | None], back: float) -> Iterator[tuple[int, int]]:
    """Start and end of each run of characters to the right of the one before, and of the white space between runs."""
    start = 0
    before: float | None = None
    for place, left in enumerate(lefts):
        if left is None:
            continue
        if before is not None and left < before - back:
            yield from _without_space(kinds, start, place)
            start = place
        before = left
    yield from _without_space(kinds, start, len(lefts))


def _without_space(kinds: Sequence[str], start: int, end: int) -> Iterator[tuple[int, int]]:
    last = end
    while last > start and kinds[last - 1] in {"WS", "B", "S"}:
        last -= 1
    yield start, last
    yield last, end


def _turned(kinds: Sequence[str], start: int, end: int) -> list[int]:
    """The places of a run in the order of reading: from right to left, or only its parts in right-to-left scripts."""
    letters = sum(kind in _LETTERS for kind in kinds[start:end])
    if letters >= kinds[start:end].count("L"):
        return _from_right_to_left(kinds, start, end) if letters else list(range(start, end))
    result: list[int] = []
    place = start
    while place < end:
        last = place
        if kinds[place] in _LETTERS:
            stop = next((each for each in range(place, end) if kinds[each] == "L"), end)
            last = max(each for each in range(place, stop) if kinds[each] in _LETTERS)
            result += _from_right_to_left(kinds, place, last + 1)
        else:
            result.append(place)
        place = last + 1
    return result


def _from_right_to_left(kinds: Sequence[str], start: int, end: int) -> list[int]:
    """These places from right to left, except for numbers and words of other scripts."""
    result: list[int] = []
    place = end
    while place > start:
        left = _stretch_from(kinds, start, place - 1)
        result += range(left, place)
        place = left
    return result


def _stretch_from(kinds: Sequence[str], start: int, last: int) -> int:
    """The first place of the text up to `last` that runs to the right; `last` itself if there is none."""
    first = last
    if kinds[last] in _WITHIN_NUMBERS and last > start:  # the full stop or the percent sign that ends it
        first -= 1
    if kinds[first] != "L" and kinds[first] not in _NUMBERS:
        return last
    place = first
    has_words = kinds[first] == "L"
    while place > max(start, first - _MOST_BETWEEN) and kinds[place - 1] not in _LETTERS:
        place -= 1
        if kinds[place] == "L":
            has_words, first = True, place
        elif _continues_to_the_left(kinds[place:first], has_words=has_words):
            first = place
    return first


def _continues_to_the_left(kinds: Sequence[str], *, has_words: bool) -> bool:
    """Whether these characters belong to the number or the words to their right."""
    if kinds[0] in _NUMBERS:
        return has_words or (len(kinds) <= 2 and _WITHIN_NUMBERS.issuperset(kinds[1:]))
    return len(kinds) == 1 and kinds[0] == "ET"  # a currency


@dataclass(frozen=True, slots=True)
class _Word:
    """Characters between white space."""

    start: int
    """The first one's place in the order of reading."""
    end: int
    """The place after the last one."""
    is_rtl: bool | None
    """Whether it is of a right-to-left script; None if it has no letters, or of both."""
    left: float
    """Its left edge."""


def _in_word_order(places: list[int], kinds: Sequence[str], lefts: Sequence[float | None]) -> list[int]:
    """Turns series of words that run against the direction of their script, as in a line of the other direction."""
    words = list(_words(places, kinds, lefts))
    result: list[int] = []
    done = 0
    for series in _series(words):
        backwards = all((after.left > before.left) is series[0].is_rtl for before, after in pairwise(series))
        if len(series) < 2 or not backwards:
            continue
        result += places[done : series[0].start]
        for word, before in zip(series[::-1], [*series[-2::-1], None], strict=True):
            result += _with_end_last(places[word.start : word.end], kinds)
            if before is not None:
                result += places[before.end : word.start]
        done = series[-1].end
    return [*result, *places[done:]]


def _with_end_last(places: list[int], kinds: Sequence[str]) -> list[int]:
    """A word with the full stop or comma that ends it last, which a line of the other direction puts before it."""
    is_before = len(places) > 1 and kinds[places[0]] in _WITHIN_NUMBERS and kinds[places[1]] == "L"
    return [*places[1:], places[0]] if is_before else places


def _words(places: list[int], kinds: Sequence[str], lefts: Sequence[float | None]) -> Iterator[_Word]:
    start = 0
    for end in range(len(places) + 1):
        if end < len(places) and lefts[places[end]] is not None:
            continue
        if end > start:
            within = {kinds[place] for place in places[start:end]}
            is_rtl = bool(_LETTERS & within) if ("L" in within) != bool(_LETTERS & within) else None
            left = min(left for place in places[start:end] if (left := lefts[place]) is not None)
            yield _Word(start, end, is_rtl, left)
        start = end + 1


def _series(words: Sequence[_Word]) -> Iterator[list[_Word]]:
    """Consecutive words of the same direction, with the numbers between them."""
    series: list[_Word] = []
    numbers: list[_Word] = []
    for word in words:
        if word.is_rtl is None:
            numbers.append(word)
        elif series and word.is_rtl == series[0].is_rtl:
            series += [*numbers, word]
            numbers = []
        else:
            yield series
            series, numbers = [word], []
    yield series
