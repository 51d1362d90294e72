"""The reading order of a PDF page: rows from top to bottom, and columns of text one after the other.

The order of a page's content depends on the program that wrote the file: tables may come column by column, columns row
by row, and boxes last. A reader only sees positions. Columns are found as by recursive cuts along white space (XY-cut,
Nagy and Seth 1984), from bands of rows that leave the same gutters free. Tables have gutters too, but their cells don't
fill the column as prose does.
"""

import re
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from statistics import median
from typing import Final

from citewire_retriever.ingest.parsers.pdf_direction import RIGHT_TO_LEFT
from citewire_retriever.ingest.parsers.pdf_segments import PageSegments, Segment
from citewire_retriever.ingest.parsers.pdfium import HYPHEN

Row = list[Segment]
"""Segments side by side, from left to right."""
Area = list[Row]
"""Consecutive rows, read from top to bottom."""

_DEEPEST: Final = 3
_SAME_ROW: Final = 0.5
"""Least overlap of a row's segments, as a share of the smaller height."""
_GUTTER: Final = 0.8
"""Least width of a gutter, in heights of the font."""
_FEW_ROWS: Final = 4
_FILLED: Final = 0.62
"""Least share of its column that prose's median row fills."""
_LIST_ROWS: Final = 8
"""Fewest rows in a column of an index."""
_SAME_LINE: Final = 0.15
"""Distance of two rows' middles, in heights of the font, up to which they are on one line."""
_OWN_LINES: Final = 0.5
"""Share of rows with no row of the next column on the same line."""
_FEW_NUMBERS: Final = 0.1
"""Share of numbers up to which a column counts as words."""
_WORDS: Final = 3
"""Fewest words in prose's median row."""
_LABEL: Final = re.compile(r"[•▪◦‣●■–—*·o§]|\(?(?:\d{1,3}|[a-zA-Z]|[ivxIVX]{1,5})[.)]|\d{1,2}(?:\.\d{1,2}){0,3}")
"""An item's label, set apart from it: a bullet or a number."""
_CURRENCY: Final = re.compile(r"[-—–(]?[$€£¥][-—–(]?")
_GLUED: Final = 0.15
_MOST_JOINED: Final = 300
_MOST_SPANS: Final = 100
"""Limits the cost of a page full of scattered characters: segments joined to one text, and spans of a band."""
_NEAR: Final = 0.5
"""Gaps in heights of the font: below `_GLUED`, two segments are one word; below `_NEAR`, one text."""
_TAIL: Final = re.compile(r"[)%]+|%\s?\)")
"""A number's suffix, set apart from it."""
_NUMBER: Final = re.compile(r"[-—–(]*[$€£¥]?\s?\(?[\d.,]+\s?[%)]*|[-—–]")


@dataclass(frozen=True, slots=True)
class _Span:
    """A part of the page's width."""

    left: float
    right: float


def read_areas(page: PageSegments) -> list[Area]:
    """Returns a page's text in reading order. Rotated text comes last, in the order of the content."""
    if page.is_upright:
        return [[[segment] for segment in [*page.segments, *page.turned]]]
    areas = list(_areas(_rows(page.segments), 0))
    return [*areas, [[segment] for segment in page.turned]] if page.turned else areas


def is_number(text: str) -> bool:
    """Whether a text is a number, with its sign, currency and unit, or a dash for none."""
    return bool(_NUMBER.fullmatch(text))


def _rows(segments: Sequence[Segment]) -> Area:
    """Segments as rows from top to bottom; those of a row overlap by half their height."""
    rows: list[Row] = []
    top = bottom = 0.0
    for segment in sorted(segments, key=lambda each: -(each.top + each.bottom)):
        height = min(segment.top - segment.bottom, top - bottom)
        overlap = min(segment.top, top) - max(segment.bottom, bottom)
        if rows and overlap > _SAME_ROW * max(height, 0.1) and not _covers(rows[-1], segment):
            rows[-1].append(segment)
        else:
            rows.append([segment])
            top, bottom = segment.top, segment.bottom
    return [_joined(row) for row in rows]


def _covers(row: Row, segment: Segment) -> bool:
    """Whether a segment overlaps the row's text horizontally: tightly set lines, or text over text."""
    width = segment.right - segment.left
    return any(min(each.right, segment.right) - max(each.left, segment.left) > 0.5 * width > 0 for each in row[-8:])


def _joined(row: Row) -> Row:
    """A row from left to right, with bullets and currencies joined to what follows them, and units to numbers."""
    row.sort(key=lambda each: each.left)
    result: Row = []
    for segment in row:
        if not result:
            result.append(segment)
            continue
        before = result[-1]
        gap = (segment.left - before.right) / max(before.size, 1.0)
        if _CURRENCY.fullmatch(before.text) and is_number(segment.text):
            result[-1] = replace(join(before, segment, " "), left=segment.left)  # only the number is in the column
        elif _is_label(before, segment, result) or _is_unit(before, segment) or _is_near(before, gap):
            result[-1] = join(before, segment, "" if gap < _GLUED else " ")
        else:
            result.append(segment)
    return result


def _is_label(before: Segment, segment: Segment, row: Row) -> bool:
    """Whether a row begins with a bullet or an item's number, far from its text."""
    return len(row) == 1 and bool(_LABEL.fullmatch(before.text)) and not is_number(segment.text)


def _is_near(before: Segment, gap: float) -> bool:
    return gap < _NEAR and len(before.spans) < _MOST_JOINED


def _is_unit(before: Segment, segment: Segment) -> bool:
    return before.text[-1:].isdigit() and bool(_TAIL.fullmatch(segment.text))


def join(before: Segment, after: Segment, glue: str) -> Segment:
    """Two segments as one, whose text is read as a whole."""
    return Segment(
        text=f"{before.text.rstrip(HYPHEN)}{glue}{after.text}",
        left=min(before.left, after.left),
        right=max(before.right, after.right),
        top=max(before.top, after.top),
        bottom=min(before.bottom, after.bottom),
        size=max(before.size, after.size),
        bold=before.bold and after.bold,
        spans=(*before.spans, *after.spans),
    )


def _areas(rows: Area, depth: int) -> Iterator[Area]:
    if depth >= _DEEPEST:
        yield rows
        return
    plain: Area = []
    for band in _bands(rows):
        columns = _columns(band)
        if len(columns) < 2:
            plain += band
            continue
        if plain:
            yield plain
        plain = []
        for column in columns:
            yield from _areas(column, depth + 1)
    if plain:
        yield plain


def _bands(rows: Area) -> Iterator[Area]:
    """Consecutive rows that leave the same gutters free, or none."""
    band: Area = []
    free: list[_Span] = []
    taken: list[_Span] = []
    for row in rows:
        size = max(each.size for each in row)
        spans = _union([*taken, *(_Span(each.left, each.right) for each in row)])
        gutters = _between(spans, _GUTTER * size)
        own = _between(_union([_Span(each.left, each.right) for each in row]), _GUTTER * size)
        if band and ((free and not gutters) or (not free and own)):
            yield band
            band, spans, gutters = [], _union([_Span(each.left, each.right) for each in row]), own
        band.append(row)
        taken, free = spans, gutters
    if band:
        yield band


def _union(spans: Sequence[_Span]) -> list[_Span]:
    """Merges overlapping spans, from left to right; too many become one."""
    result: list[_Span] = []
    for span in sorted(spans, key=lambda each: each.left):
        if result and span.left <= result[-1].right:
            result[-1] = _Span(result[-1].left, max(result[-1].right, span.right))
        else:
            result.append(span)
    return result if len(result) <= _MOST_SPANS else [_Span(result[0].left, result[-1].right)]


def _between(spans: Sequence[_Span], width: float) -> list[_Span]:
    pairs = pairwise(spans)
    return [_Span(before.right, after.left) for before, after in pairs if after.left - before.right >= width]


def _columns(band: Area) -> list[Area]:
    """A band's columns, from left to right (or as the script runs); the band alone if it isn't prose in columns."""
    if len(band) < _FEW_ROWS:
        return [band]
    size = median(each.size for row in band for each in row)
    gutters = _between(_union([_Span(each.left, each.right) for row in band for each in row]), _GUTTER * size)
    edges = [(each.left + each.right) / 2 for each in gutters]
    bounds = pairwise([float("-inf"), *edges, float("inf")])
    columns = [_part(band, left, right) for left, right in bounds]
    if len(columns) < 2 or not (all(map(_is_prose, columns)) or _are_lists(columns)):
        return [band]
    letters = "".join(each.text for row in band for each in row)
    return columns[::-1] if 2 * len(RIGHT_TO_LEFT.findall(letters)) > len(letters) else columns


def _part(band: Area, left: float, right: float) -> Area:
    rows = ([each for each in row if left < (each.left + each.right) / 2 <= right] for row in band)
    return [row for row in rows if row]


def _are_lists(columns: Sequence[Area]) -> bool:
    """Whether columns are separate lists of words, as in an index, with lines that don't match the next column's.

    A table's rows share their lines across columns.
    """
    if any(len(column) < _LIST_ROWS or _has_numbers(column) for column in columns):
        return False
    apart = shared = 0
    for before, after in pairwise(columns):
        middles = sorted(_middle(row) for row in after)
        for row in before:
            place = bisect_left(middles, _middle(row))
            distance = min(abs(each - _middle(row)) for each in middles[max(0, place - 1) : place + 1])
            shared += distance <= _SAME_LINE * row[0].size
            apart += distance > _SAME_LINE * row[0].size
    return apart >= _OWN_LINES * (apart + shared)


def _has_numbers(column: Area) -> bool:
    return sum(is_number(row[-1].text) for row in column) > _FEW_NUMBERS * len(column)


def _middle(row: Row) -> float:
    return (row[0].top + row[0].bottom) / 2


def _is_prose(column: Area) -> bool:
    """Whether a column is running text: its rows fill it with words."""
    if len(column) < _FEW_ROWS:
        return False
    left = min(each.left for row in column for each in row)
    right = max(each.right for row in column for each in row)
    filled = median(sum(each.right - each.left for each in row) for row in column)
    words = median(sum(len(each.text.split()) for each in row) for row in column)
    return filled >= _FILLED * (right - left) and words >= _WORDS
