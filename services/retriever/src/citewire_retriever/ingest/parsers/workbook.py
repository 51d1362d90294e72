"""Rows of a workbook's sheets as text, common to all spreadsheet formats."""

from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from itertools import chain, islice
from typing import Final, Literal, Protocol

from citewire.common.v1.place_pb2 import Place

from citewire_retriever.ingest.cells import column_name
from citewire_retriever.ingest.document import Block, BlockKind, TextBuilder
from citewire_retriever.ingest.parsers.drawings import TextBox
from citewire_retriever.ingest.parsers.pairs import LABEL_LIMIT, NUMBER, YEAR, one_line

MOST_COLUMNS: Final = 16_384
_MOST_SHEET_NAME: Final = 255
_LOOKED_AT: Final = 50


@dataclass(frozen=True, slots=True)
class Merge:
    """Cells that are merged; the first one holds the value. All ends are inclusive."""

    first_row: int
    last_row: int
    first_column: int
    last_column: int


@dataclass(frozen=True, slots=True)
class Typed:
    """A cell's stored value, apart from its displayed text."""

    kind: Literal["number", "percent", "currency", "date", "boolean", "formula", "text"]
    """`formula`: one without a stored value; `text`: none of the others, whatever its text looks like."""
    raw: str = ""
    """A number in decimal, a date in ISO 8601, or `1` and `0`."""
    currency: str = ""
    """As displayed in the cell, or its code."""


@dataclass(frozen=True, slots=True)
class Row:
    """A row of a sheet."""

    number: int
    cells: dict[int, str]
    """Displayed texts of non-empty cells by column, from 1 and in order."""
    wide: dict[int, int]
    """The last column of each cell that is merged with cells to its right."""
    typed: dict[int, Typed] = field(default_factory=dict[int, Typed])
    """Stored values by column; texts are left out."""
    reached: frozenset[int] = frozenset()
    """Columns whose cell repeats a value because it is merged with those above."""


@dataclass(frozen=True, slots=True)
class Sheet:
    """A sheet; its rows are read on demand."""

    name: str
    hidden: bool
    rows: Iterator[Row]
    """Rows that aren't empty, in order; one with only formulas without values has no cells."""
    is_cut: bool = False
    """Whether not everything in the file was read."""
    boxes: Iterable[TextBox] = ()
    """Texts in drawings, read on demand after the rows."""


class RowSink(Protocol):
    """Receives the rows of a sheet's tables."""

    header_seen: bool
    """Whether `begin` was called."""

    def begin(self, row: Row, *, alone: bool) -> None:
        """Takes a row as the header of the following ones; `alone` if there are none."""
        ...

    def add(self, row: Row) -> None:
        """Takes any other row."""
        ...


def add_sheet(builder: TextBuilder, sheet: Sheet) -> None:
    """Adds a sheet: its name as a heading, and a block for each row that isn't empty and for each text box."""
    name = one_line(sheet.name)[:_MOST_SHEET_NAME]
    rows = (row for row in sheet.rows if row.cells)
    boxes = iter(sheet.boxes)
    first = next(rows, None)
    if first is None:
        box = next(boxes, None)
        if box is None:
            return
        boxes = chain([box], boxes)
    label = (f"{name} (hidden)" if sheet.hidden else name)[:LABEL_LIMIT] or "Sheet"
    start, end = builder.write(label)
    builder.add(Block(BlockKind.HEADING, start, end, level=1, label=label, place=Place(sheet=name)))
    if first is not None:
        writer = _Writer(builder, name)
        cut_tables(chain([first], rows), writer)
        writer.finish()
    for box in boxes:
        place = Place(sheet=name)
        if 0 < box.column <= MOST_COLUMNS and box.row:
            place.row, place.cell_range = box.row, f"{column_name(box.column)}{box.row}"
        builder.add(Block(BlockKind.PARAGRAPH, *builder.write(box.text), place=place))


def cut_tables(rows: Iterator[Row], sink: RowSink) -> None:
    """Passes each row to the sink, as a table's header or as an ordinary row. All rows must have cells.

    The header is found as in CSV: the first row about as wide as the others, unless it contains numbers. Below an
    empty row, a row of words is the header of a new table if it precedes one with numbers, equals the last header, or
    has columns that nothing above it has but the row below it has too. A header may have two rows: names of groups,
    merged across their columns, and below them the columns' own names.
    """
    sample = list(islice(rows, _LOOKED_AT))
    widths = sorted(len(row.cells) for row in sample)
    usual = max(set(widths), key=lambda width: (widths.count(width), width), default=0)
    everything = chain(sample, rows)
    upcoming = deque(islice(everything, 2))
    before: Row | None = None
    header: Row | None = None
    columns: set[int] = set()
    while upcoming:
        row = upcoming.popleft()
        upcoming.extend(islice(everything, 1))
        following = upcoming[0] if upcoming else None
        new_table = before is None or not sink.header_seen or row.number > before.number + 1
        joined = _joined_header(row, *upcoming) if new_table else None
        if joined is not None:
            upcoming.popleft()
            upcoming.extend(islice(everything, 1))
            sink.begin(joined, alone=not upcoming)
            before, header, columns = joined, joined, set(joined.cells)
            continue
        if new_table and (
            _is_header(row, following, usual, first=not sink.header_seen)
            or (header is not None and _begins_anew(row, following, header, columns))
        ):
            sink.begin(row, alone=following is None)
            header, columns = row, set(row.cells)
        else:
            sink.add(row)
            columns |= row.cells.keys()
        before = row


def column_names(header: Row) -> dict[int, str]:
    """The column names in a header; a merged cell names all columns that it covers."""
    names: dict[int, str] = {}
    columns = list(header.cells)
    for column, behind in zip(columns, [*columns[1:], MOST_COLUMNS + 1], strict=True):
        last = min(header.wide.get(column, column), behind - 1)
        names.update(dict.fromkeys(range(column, last + 1), one_line(header.cells[column])[:LABEL_LIMIT]))
    return names


class _Writer:
    """Adds rows as text: pairs under a header, otherwise values.

    Names in a header that none of the next rows repeats are a row of their own, as in a form that isn't filled in.
    """

    def __init__(self, builder: TextBuilder, sheet: str) -> None:
        self.header_seen = False
        self._builder = builder
        self._sheet = sheet
        self._names: dict[int, str] = {}
        self._own = 0
        """The column left of all that have names: it has the rows' own names."""
        self._header: Row | None = None
        """The header of the waiting rows."""
        self._waiting: list[tuple[Row, str]] = []

    def finish(self) -> None:
        """Adds the rows that wait until it is known which names they repeat."""
        header, self._header = self._header, None
        if header is not None:
            repeated = {self._names.get(column) for row, _ in self._waiting for column in row.cells}
            unrepeated = {column: text for column, text in header.cells.items() if one_line(text) not in repeated}
            if unrepeated:
                self._write(replace(header, cells=unrepeated), "\n".join(unrepeated.values()))
        for row, text in self._waiting:
            self._write(row, text)
        self._waiting.clear()

    def begin(self, row: Row, *, alone: bool) -> None:
        self.finish()
        self.header_seen = True
        self._names = column_names(row)
        self._own = min(self._names) - 1
        self._header = row

    def add(self, row: Row) -> None:
        text = self._text(row)
        if self._header is None:
            self._write(row, text)
            return
        self._waiting.append((row, text))
        if len(self._waiting) == _LOOKED_AT:
            self.finish()

    def _text(self, row: Row) -> str:
        if not self._names or (len(row.cells) == 1 < len(self._names) and min(row.cells) not in self._names):
            return "\n".join(row.cells.values())
        pairs = (
            text if column == self._own else f"{self._names.get(column) or column_name(column)}: {text}"
            for column, text in row.cells.items()
        )
        return "\n".join(pairs)

    def _write(self, row: Row, text: str) -> None:
        first, last = column_name(min(row.cells)), column_name(max(row.cells))
        cells = f"{first}{row.number}" if first == last else f"{first}{row.number}:{last}{row.number}"
        start, end = self._builder.write(text)
        place = Place(row=row.number, cell_range=cells)
        if self._sheet:
            place.sheet = self._sheet
        self._builder.add(Block(BlockKind.ROW, start, end, place=place))


def _joined_header(groups: Row, row: Row | None = None, following: Row | None = None) -> Row | None:
    """A row of groups and the row with their columns' names below it as one header; None if they aren't that.

    Each group that is merged across columns has several names below it, and any other column has one name. It shows
    that they are names if groups share some, a column's name is merged with the cell below it, or numbers follow.
    """
    if row is None or not groups.wide or len(groups.cells) == 1 or row.number != groups.number + 1:
        return None
    if sum(end - start + 1 for start, end in groups.wide.items()) > len(row.cells):
        return None  # before all columns are listed, of which a cell of a few bytes may cover 16,384
    names = column_names(groups)
    covered = {each for start, end in groups.wide.items() for each in range(start, end + 1)}
    grouped = {column: name for column, name in names.items() if column in covered}
    below = {column: one_line(text) for column, text in row.cells.items() if column not in row.reached}
    if not grouped or not grouped.keys() <= below.keys() or (below.keys() - grouped.keys()) & groups.cells.keys():
        return None
    if len({(grouped.get(column, ""), text) for column, text in below.items()}) < len(below):
        return None
    if any(NUMBER.fullmatch(text) and not YEAR.fullmatch(text) for text in [*groups.cells.values(), *below.values()]):
        return None
    if any(typed.kind != "number" for typed in row.typed.values()):
        return None
    are_names = bool(row.reached - grouped.keys()) or len(set(below.values())) < len(below)
    if not are_names and (following is None or not (following.typed or _has_number(following))):
        return None
    joined = {column: f"{grouped[column]} / {text}" if column in grouped else text for column, text in below.items()}
    return Row(row.number, dict(sorted((names | joined).items())), {})


def _has_number(row: Row) -> bool:
    return any(NUMBER.fullmatch(text) for text in row.cells.values())


def _is_header(row: Row, following: Row | None, usual: int, *, first: bool) -> bool:
    """Whether a row names columns: only words, as wide as most rows; a later one only above a row with numbers."""
    if _has_number(row) or (row.typed and not first):
        return False
    if first:
        return 2 * len(row.cells) >= usual and (len(row.cells) > 1 or usual == 1)
    numbers = following is not None and (bool(following.typed) or _has_number(following))
    return numbers and len(row.cells) > 1 and following is not None and row.number + 1 == following.number


def _begins_anew(row: Row, following: Row | None, header: Row, columns: set[int]) -> bool:
    """Whether words below an empty row are a header above words: the last header repeated, or new columns."""
    if row.typed or _has_number(row) or len(row.cells) == 1:
        return False
    if list(map(str.casefold, row.cells.values())) == list(map(str.casefold, header.cells.values())):
        return True
    if following is None or following.number != row.number + 1 or row.cells.keys() <= columns:
        return False
    return following.cells.keys() == row.cells.keys()


def merged(rows: Iterator[Row], merges: list[Merge]) -> Iterator[Row]:
    """Fills merged cells with the value from above. Rows must come in order."""
    pending = deque(sorted(merges, key=lambda each: each.first_row))
    reaching: dict[int, tuple[int, str]] = {}  # column -> the last row that a value spans, and the value
    for row in rows:
        reaching = {column: value for column, value in reaching.items() if value[0] >= row.number}
        cells = {column: text for column, (_, text) in reaching.items()} | row.cells
        while pending and pending[0].first_row <= row.number:
            merge = pending.popleft()
            text = row.cells.get(merge.first_column, "") if merge.first_row == row.number else ""
            if text and merge.last_row > row.number:
                reaching[merge.first_column] = merge.last_row, text
            if text and merge.last_column > merge.first_column:
                row.wide[merge.first_column] = merge.last_column
        if len(cells) > len(row.cells):
            yield replace(row, cells=dict(sorted(cells.items())), reached=frozenset(cells.keys() - row.cells.keys()))
        else:
            yield row
