"""Tables of reStructuredText and AsciiDoc by rows, of those that have a header and no cells across rows."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from citewire_retriever.ingest.parsers.pairs import one_line

_GRID_RULE: Final = re.compile(r" {0,20}\+(?:-+\+)+")
_GRID_HEADER: Final = re.compile(r" {0,20}\+(?:=+\+)+")
_SIMPLE_RULE: Final = re.compile(r" {0,20}=+(?: +=+)+")
_SPANS: Final = re.compile(r"[- ]*-[- ]*")
_ADOC_COLUMNS: Final = re.compile(r"""\bcols\s{0,4}=\s{0,4}(?:"([^"]{1,200})"|([^,\]\s]{1,40}))""")
_ADOC_HEADER: Final = re.compile(r"%header|\b(?:options|opts)=(?:\"[^\"]{0,80}\bheader\b|header\b)")
_ADOC_NO_HEADER: Final = re.compile(r"%noheader|\bnoheader\b")
_ADOC_REPEATED: Final = re.compile(r"\s*(\d{1,3})\*")
_ADOC_CELL: Final = re.compile(
    r"(?:\A|(?<=\s))(?:(?P<times>\d{1,3}(?:\.\d{1,3})?|\.\d{1,3})(?P<sign>[+*]))?(?:[<^>](?:\.[<^>])?|\.[<^>])?[adehlmsv]?\Z"
)
_ADOC_BAR: Final = re.compile(r"(?<!\\)\|")
_MOST_WIDTH: Final = 8
"""Columns that a cell covers on average, at most: a few characters of a file may otherwise make many cells."""


@dataclass(frozen=True, slots=True)
class TextRow:
    """A row of a table: its lines [first, end), and its cells."""

    first: int
    end: int
    cells: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class TextTable:
    """A table in a file: its lines [first, end), and its rows; the first is its header."""

    first: int
    end: int
    rows: tuple[TextRow, ...]


def read_rst_table(lines: Sequence[str], first: int) -> TextTable | None:
    """The table of reStructuredText that begins on a line; None if none does, or it isn't read by rows."""
    if _GRID_RULE.fullmatch(lines[first].rstrip()):
        is_inside = first > 0 and lines[first - 1].lstrip().startswith(("|", "+"))  # of one that wasn't read
        return None if is_inside else _read_grid(lines, first)
    if _SIMPLE_RULE.fullmatch(lines[first].rstrip()):
        return _read_simple(lines, first)
    return None


def read_adoc_table(lines: Sequence[str], first: int, end: int) -> TextTable | None:
    """The table of AsciiDoc between its marks, the lines `first` and `end` - 1; None if it isn't read by rows."""
    attributes = next((line for line in reversed(lines[max(0, first - 3) : first]) if line.startswith("[")), "")
    cells = _adoc_cells(lines, first + 1, end - 1)
    if not cells:
        return None
    width = _adoc_width(attributes) or sum(cell.width for cell in cells if cell.line == cells[0].line)
    rows = _adoc_rows(cells, width, end - 1)
    if len(rows) < 2 or _ADOC_NO_HEADER.search(attributes):
        return None
    stands_apart = rows[0].first == first + 1 and not lines[first + 2].strip()
    if not stands_apart and not _ADOC_HEADER.search(attributes):
        return None
    return TextTable(first, end, tuple(rows))


def _read_grid(lines: Sequence[str], first: int) -> TextTable | None:
    border = lines[first].rstrip()
    corners = [index for index, sign in enumerate(border) if sign == "+"]
    rows: list[TextRow] = []
    header = 0
    begin = index = first + 1
    while index < len(lines) and lines[index].strip():
        line = lines[index].rstrip()
        is_header = bool(_GRID_HEADER.fullmatch(line))
        if is_header or _GRID_RULE.fullmatch(line):
            if [at for at, sign in enumerate(line) if sign == "+"] != corners or begin == index:
                return None
            rows.append(TextRow(begin, index, _columns(lines[begin:index], corners)))
            header = len(rows) if is_header else header
            begin = index + 1
        elif len(line) != len(border) or any(line[at] != "|" for at in corners):
            return None
        index += 1
    return TextTable(first, index, tuple(rows)) if header == 1 < len(rows) and begin == index else None


def _columns(lines: Sequence[str], corners: list[int]) -> tuple[str, ...]:
    spans = [(left + 1, right) for left, right in pairwise(corners)]
    return tuple(one_line(" ".join(line[left:right] for line in lines)) for left, right in spans)


def _read_simple(lines: Sequence[str], first: int) -> TextTable | None:
    border = lines[first].rstrip()
    starts = [match.start() for match in re.finditer(r"=+", border)]
    gaps = [at for at in range(starts[0], starts[-1]) if border[at] == " "]
    rules = [first]
    rows: list[TextRow] = []
    index = first + 1
    while index < len(lines) and len(rules) < 3:
        line = lines[index].rstrip()
        if line == border:
            rules.append(index)
        elif _SPANS.fullmatch(line) or any(line[at : at + 1].strip() for at in gaps) or line[: starts[0]].strip():
            return None
        elif line[starts[0] : starts[1]].strip():
            rows.append(TextRow(index, index + 1, _simple_cells(line, starts)))
        elif line and rows:
            more = zip(rows[-1].cells, _simple_cells(line, starts), strict=True)
            rows[-1] = TextRow(rows[-1].first, index + 1, tuple(one_line(" ".join(each)) for each in more))
        elif line:
            return None
        if len(rules) == 2 and line == border and len(rows) != 1:
            return None
        index += 1
    return TextTable(first, index, tuple(rows)) if len(rules) == 3 and len(rows) > 1 else None


def _simple_cells(line: str, starts: list[int]) -> tuple[str, ...]:
    ends = [*starts[1:], len(line)]
    return tuple(one_line(line[start:end]) for start, end in zip(starts, ends, strict=True))


@dataclass(slots=True)
class _AdocCell:
    line: int
    text: str
    width: int


def _adoc_width(attributes: str) -> int:
    match = _ADOC_COLUMNS.search(attributes)
    if match is None:
        return 0
    columns = re.split(r"[,;]", match.group(1) or match.group(2))
    return sum(int(many.group(1)) if (many := _ADOC_REPEATED.match(each)) else 1 for each in columns)


def _adoc_cells(lines: Sequence[str], first: int, end: int) -> list[_AdocCell]:
    """The cells on these lines; none if one spans rows or is repeated, or something precedes the first."""
    cells: list[_AdocCell] = []
    for number in range(first, end):
        if lines[number].startswith("//"):
            continue
        before, *pieces = _ADOC_BAR.split(lines[number])
        for piece in [*pieces, None]:
            spec = _ADOC_CELL.search(before) if piece is not None else None
            text = before[: spec.start()] if spec else before
            if cells:
                cells[-1].text += f" {text}"
            elif text.strip():
                return []
            if piece is None:
                break
            times, sign = (spec.group("times"), spec.group("sign")) if spec else (None, None)
            if sign == "*" or (times and "." in times):
                return []
            cells.append(_AdocCell(number, "", int(times or 1)))
            before = piece
    return cells if sum(cell.width for cell in cells) <= _MOST_WIDTH * len(cells) else []


def _adoc_rows(cells: list[_AdocCell], width: int, end: int) -> list[TextRow]:
    """Cells by rows of this width; none if they don't fill them, or rows share a line."""
    rows: list[tuple[int, list[str]]] = []
    filled = width
    for cell in cells:
        if filled >= width:
            if filled > width or (rows and rows[-1][0] == cell.line):
                return []
            rows.append((cell.line, []))
            filled = 0
        rows[-1][1].extend([one_line(cell.text.replace("\\|", "|")), *[""] * (cell.width - 1)])
        filled += cell.width
    if filled != width:
        return []
    ends = [*(line for line, _ in rows[1:]), end]
    return [TextRow(line, last, tuple(texts)) for (line, texts), last in zip(rows, ends, strict=True)]
