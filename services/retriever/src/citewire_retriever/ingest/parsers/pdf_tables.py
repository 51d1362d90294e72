"""Tables among the rows of a PDF page: rows with aligned cells.

A PDF doesn't mark tables, and many have no rules. They are recognised by numbers below numbers: the columns are where
the cells of the rows with numbers overlap, and the rows without numbers above them are the header.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from statistics import median
from typing import Final

from citewire_retriever.ingest.parsers.pairs import LABEL_LIMIT
from citewire_retriever.ingest.parsers.pdf_order import Area, Row, is_number
from citewire_retriever.ingest.parsers.pdfium import HYPHEN

_MOST_BETWEEN: Final = 4
"""Most single-cell rows between two rows of several cells."""
_WIDEST: Final = 0.7
"""Share of the area's width above which a single cell is a line of text."""
_GAP: Final = 3.0
"""Most space between two rows of a table, in heights of the font."""
_NUMBERS: Final = 0.4
"""Least share of numbers among the cells after the first."""
_FEWEST_ROWS: Final = 3
"""Fewest rows of a table among other rows of several cells."""
_TEXT_ROWS: Final = 3
"""Fewest rows of a table of words."""
_ALIGNED: Final = 0.75
"""Share of a word table's cells that are left-aligned with others."""
_YEAR: Final = re.compile(r"(?:FY\s?)?(?:19|20)\d\d[*†]?")
_MOST_COLUMNS: Final = 64
_MOST_HEADS: Final = 6
"""Most rows above the first multi-cell row that may name columns."""


@dataclass(frozen=True, slots=True)
class Table:
    """A table."""

    rows: tuple[tuple[str, ...], ...]
    """Cells by column; empty where a row has none."""
    depth: int
    """Number of leading rows that name the columns."""

    @property
    def label(self) -> str:
        """The columns' names, each once, on one line."""
        names = dict.fromkeys(cell for row in self.rows[: self.depth] for cell in row if cell)
        return " | ".join(names)[:LABEL_LIMIT]


def split_tables(area: Area) -> Iterator[Table | Area]:
    """Splits an area into tables and the rows between them."""
    width = max((row[-1].right for row in area), default=0.0) - min((row[0].left for row in area), default=0.0)
    done = 0
    for start, end in _candidates(area, width):
        for first, last, table in _tables(area, start, end, done):
            if first > done:
                yield area[done:first]
            yield table
            done = last
    if done < len(area):
        yield area[done:]


def _tables(area: Area, start: int, end: int, done: int) -> Iterator[tuple[int, int, Table]]:
    """The table of these rows, or those of its parts between single cells, such as titles; with their first rows."""
    first = max(done, _with_heads(area, start, end, done))
    table = _table(area[first:end], area[start:end])
    if table is not None:
        yield first, end, table
        return
    for several, indices in groupby(range(start, end), lambda index: len(area[index]) > 1):
        rows = list(indices)
        if not several or not _FEWEST_ROWS <= len(rows) < end - start:
            continue
        last = rows[-1] + 1
        first = max(done, _with_heads(area, rows[0], last, done))
        table = _table(area[first:last], area[rows[0] : last])
        if table is not None:
            yield first, last, table
            done = last


def _candidates(area: Area, width: float) -> Iterator[tuple[int, int]]:
    """Spans of rows that begin and end with multi-cell rows, with few other rows between."""
    start = last = -1
    for index, row in enumerate(area):
        several = len(row) > 1
        wide = not several and row[0].right - row[0].left > _WIDEST * width
        far = index > 0 and _distance(area[index - 1], row) > _GAP * max(row[0].size, 1.0)
        if start >= 0 and (wide or far or index - last > _MOST_BETWEEN + 1 or _opens(area, index)):
            yield start, last + 1
            start = -1
        if several:
            start = index if start < 0 else start
            last = index
    if start >= 0:
        yield start, last + 1


def _opens(area: Area, index: int) -> bool:
    """Whether a line of text precedes another table: column names follow, and nothing is below its beginning."""
    row = area[index]
    if len(row) > 1 or index + 1 >= len(area) or row[0].text[-1] not in ":.":
        return False
    return area[index + 1][0].left > row[0].left + 5 * row[0].size


def _distance(above: Row, below: Row) -> float:
    return min(each.bottom for each in above) - max(each.top for each in below)


def _with_heads(area: Area, start: int, end: int, least: int) -> int:
    """The first of the rows above that name columns: they are over the columns, to the right of the rows' labels.

    A centred title isn't included, nor is anything above it.
    """
    rows = area[start:end]
    labels = [row[0].right for row in rows if not is_number(row[0].text)]
    edge = median(labels) if labels else float("inf")
    first = start
    while first > max(least, start - _MOST_HEADS) and area[first - 1][0].left > edge:
        if _is_title(area[first - 1], rows, edge):
            break
        if _distance(area[first - 1], area[first]) > area[first][0].size:
            break
        first -= 1
    return first


def _is_title(row: Row, rows: Area, edge: float) -> bool:
    """Whether a row above a table is its title: centred on the whole table rather than on its columns.

    Args:
        row: The row above.
        rows: The table's rows.
        edge: The right edge of the rows' labels.
    """
    columns = [cell for each in rows for cell in each if cell.left > edge]
    if len(row) > 1 or not columns:
        return False
    middle = (row[0].left + row[0].right) / 2
    left, right = min(cell.left for cell in columns), max(cell.right for cell in columns)
    whole = (min(each[0].left for each in rows) + max(each[-1].right for each in rows)) / 2
    near = 2 * row[0].size
    return middle < left or (row[0].bold and abs(middle - whole) < near < abs(middle - (left + right) / 2))


def _table(rows: Area, core: Area) -> Table | None:
    """Rows as a table; None if they don't form one."""
    body = [
        row for row in core if any(_counts(cell.text) for cell in row[1:]) or (len(row) > 1 and _counts(row[0].text))
    ]
    cells = [cell for row in core for cell in row[1:]]
    numbers = sum(is_number(cell.text) or bool(_YEAR.fullmatch(cell.text)) for cell in cells)
    least = 1 if len(core) > 1 and max(map(len, core)) > 2 else 2
    if len(body) >= least and numbers >= _NUMBERS * len(cells):
        columns = _columns(body)
    elif sum(len(row) > 1 for row in core) >= _TEXT_ROWS and _is_aligned(core):
        columns, body = _starts(core), []
    else:
        return None
    if not 2 <= len(columns) <= _MOST_COLUMNS:
        return None
    depth = _header_depth(rows, columns[0][1]) if body else 0
    return Table(tuple(_continued(_merged([_placed(row, columns) for row in rows], depth), depth)), depth)


def _counts(text: str) -> bool:
    """Whether a cell holds a number that isn't a year."""
    return is_number(text) and not _YEAR.fullmatch(text)


Columns = list[tuple[float, float]]
"""Left and right edge of each."""


def _columns(body: Area) -> Columns:
    """The columns of rows with numbers; the first holds everything to the left of them."""
    cells = [cell for row in body for cell in (row if is_number(row[0].text) else row[1:])]
    usual = median(cell.right - cell.left for cell in cells)
    spans = sorted((cell.left, cell.right) for cell in cells if cell.right - cell.left <= 3 * usual)
    columns: Columns = []
    for left, right in spans:
        if columns and left < columns[-1][1]:
            columns[-1] = (columns[-1][0], max(columns[-1][1], right))
        else:
            columns.append((left, right))
    labels = [row[0] for row in body if not is_number(row[0].text)]
    if labels:
        right = min(max(each.right for each in labels), columns[0][0])
        columns.insert(0, (min(each.left for each in labels), right))
    return columns


def _is_aligned(rows: Area) -> bool:
    """Whether the rows' cells are left-aligned with others, and no row is a line of text with a gap."""
    starts = Counter(round(cell.left / 3) for row in rows if len(row) > 1 for cell in row[1:])
    near = {start + shift for start, count in starts.items() for shift in (-1, 0, 1) if count > 1}
    return sum(count for start, count in starts.items() if start in near) >= _ALIGNED * starts.total()


def _starts(rows: Area) -> Columns:
    """The columns of a table of words, by the cells' left edges."""
    lefts = sorted(cell.left for row in rows if len(row) > 1 for cell in row)
    groups: list[list[float]] = []
    for left in lefts:
        if groups and left - groups[-1][-1] < 9:
            groups[-1].append(left)
        else:
            groups.append([left])
    starts = [group[0] for group in groups if len(group) > 1]
    return list(zip(starts, [*starts[1:], float("inf")], strict=True))


def _header_depth(rows: Area, label_end: float) -> int:
    """Number of rows that name columns: up to the first with a number other than a year, or with only a label."""
    depth = 0
    for row in rows:
        if any(_counts(cell.text) for cell in row) or (len(row) == 1 and row[0].left < label_end and depth):
            break
        depth += 1
    return depth if depth < len(rows) else 0


def _placed(row: Row, columns: Columns) -> tuple[str, ...]:
    """A row's cells by column: each in the column that it overlaps most, else in the nearest."""
    texts = [""] * len(columns)
    for cell in row:
        is_label = cell is row[0] and not is_number(cell.text) and (cell.left + cell.right) / 2 <= columns[0][1]
        overlaps = [min(cell.right, right) - max(cell.left, left) for left, right in columns]
        place = 0 if is_label else max(range(len(columns)), key=overlaps.__getitem__)
        texts[place] = f"{texts[place]} {cell.text}" if texts[place] else cell.text
    return tuple(texts)


def _merged(rows: Sequence[tuple[str, ...]], depth: int) -> Iterator[tuple[str, ...]]:
    """Rows, with those that only start the next row's label merged into it."""
    begun = ""
    for index, row in enumerate(rows):
        text = _joined(begun, row[0])
        following = rows[index + 1] if index + 1 < len(rows) else ("",)
        alone = index >= depth and row[0] and not any(row[1:])
        if alone and following[0][:1].islower() and any(following[1:]) and len(text) < LABEL_LIMIT:
            begun = text
            continue
        begun = ""
        yield (text, *row[1:])


def _continued(rows: Iterable[tuple[str, ...]], depth: int) -> list[tuple[str, ...]]:
    """Rows, each joined with the next if a word continues there. A hyphen that nothing follows is kept."""
    result: list[tuple[str, ...]] = []
    for row in rows:
        pairs = list(zip(result[-1], row, strict=True)) if len(result) > depth else []
        if not row[0] and any(before.endswith(HYPHEN) and after for before, after in pairs):
            result[-1] = tuple(_joined(before, after) for before, after in pairs)
        else:
            result.append(row)
    return [tuple(cell.replace(HYPHEN, "-") for cell in row) for row in result]


def _joined(before: str, after: str) -> str:
    if before.endswith(HYPHEN):
        return f"{before[:-1]}{'' if after[:1].islower() else '-'}{after}"
    return f"{before} {after}".strip()
