"""Text that a PDF repeats above and below the pages' text: running heads and feet, page numbers."""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Final

from citewire_retriever.ingest.parsers.pdf_order import Area, Row

_MARGIN: Final = 0.12
"""Height of the top and bottom margins, as a share of the height of all pages' text."""
_MOST_ROWS: Final = 4
"""Most running rows at the top or bottom of a page."""
_LEAST_PAGES: Final = 3
_LEAST_SHARE: Final = 0.05
"""Fewest pages that repeat a row, as a number and as a share of all."""
_APART: Final = 0.7
"""Least gap between running rows and the text, in heights of their font."""
_SAME_PLACE: Final = 6.0
"""Most points by which their positions may differ."""
_MOST_SEGMENTS: Final = 2
"""Most segments and numbers of a running row; rows with more belong to tables."""
_DIGITS: Final = re.compile(r"\d+|\b[ivxlc]+\b")
_LETTERS: Final = 4
"""Fewest letters of a repeated text that is kept where it first occurs; shorter ones are page numbers."""

_LONGEST: Final = 5
"""Most digits of a page number."""

Key = tuple[str, int]
"""A row's text with numbers masked, or its page number minus the page's index; and its height on the page."""


def without_running(pages: Sequence[list[Area]]) -> list[list[Area]]:
    """Pages without the text that many of them repeat; its first occurrence is kept, so that it can be found.

    A page with no other text keeps it.
    """
    rows = [each for areas in pages for area in areas for each in area]
    if len(pages) < _LEAST_PAGES or not rows:
        return list(pages)
    highest, lowest = max(map(_top, rows)), min(map(_top, rows))
    margin = _MARGIN * (highest - lowest)
    edges = [list(_edge_rows(areas, highest - margin, lowest + margin)) for areas in pages]
    counts = Counter(
        key for page, each in enumerate(edges) for key in {key for row in each for key in _keys(row, page)}
    )
    least = max(_LEAST_PAGES, _LEAST_SHARE * len(pages))
    repeated = {key for key, count in counts.items() if count >= least}
    seen: set[str] = set()
    return [
        _without(areas, {id(row): _keys(row, page) for row in each}, repeated, seen)
        for page, (areas, each) in enumerate(zip(pages, edges, strict=True))
    ]


def _edge_rows(areas: list[Area], high: float, low: float) -> Iterator[Row]:
    """The first and last rows in the margins."""
    rows = sorted((row for area in areas for row in area), key=_top, reverse=True)
    yield from _set_apart(rows, sum(_top(row) >= high for row in rows[:_MOST_ROWS]))
    yield from _set_apart(rows[::-1], sum(_top(row) <= low for row in rows[-_MOST_ROWS:]))


def _set_apart(rows: list[Row], most: int) -> list[Row]:
    """At most `most` rows from the page's edge, if a gap or the page's end separates them from the text."""
    following = [*rows[1 : most + 1], None]
    apart = [
        number
        for number, (row, after) in enumerate(zip(rows[:most], following, strict=False), start=1)
        if after is None or _gap(row, after) > _APART * row[0].size
    ]
    return rows[: max(apart, default=0)]


def _gap(row: Row, other: Row) -> float:
    return max(row[0].bottom - other[0].top, other[0].bottom - row[0].top)


def _without(areas: list[Area], edges: dict[int, tuple[Key, ...]], repeated: set[Key], seen: set[str]) -> list[Area]:
    left_out: set[int] = set()
    for row, keys in edges.items():
        if not repeated.isdisjoint(keys):
            text = keys[0][0]
            if text in seen or sum(map(str.isalpha, text)) < _LETTERS:
                left_out.add(row)
            seen.add(text)
    rest = [[row for row in area if id(row) not in left_out] for area in areas]
    return [area for area in rest if area] or areas


def _keys(row: Row, page: int) -> tuple[Key, ...]:
    """The keys under which a row may repeat, at its height and the next one, so that small differences don't count.

    They are its text, and its page number minus the page's index, which stays the same even where the head names a
    short chapter. None for a table's row.
    """
    text = " ".join(segment.text for segment in row).lower()
    numbers = _DIGITS.findall(text)
    if len(row) > _MOST_SEGMENTS or len(numbers) > _MOST_SEGMENTS:
        return ()
    distances = (f"page {int(number) - page}" for number in numbers if number.isdecimal() and len(number) <= _LONGEST)
    height = int(_top(row) // _SAME_PLACE)
    return tuple((each, place) for each in (_DIGITS.sub("#", text), *distances) for place in (height, height + 1))


def _top(row: Row) -> float:
    return row[0].top
