"""CSV and TSV: one block per row, rendered as ``column: value`` pairs; long tables are read in parts."""

import csv
import io
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from itertools import islice
from mmap import mmap
from typing import Final

from citewire.common.v1.place_pb2 import Place

from citewire_retriever.ingest.decode import clean
from citewire_retriever.ingest.document import (
    Block,
    BlockKind,
    Format,
    ParsedDocument,
    ParseLimits,
    SheetPosition,
    TextBuilder,
)
from citewire_retriever.ingest.errors import IngestCode, IngestError
from citewire_retriever.ingest.parsers.pairs import NUMBER, YEAR, one_line, pairs, unrepeated

_DELIMITERS = "\t;|,"
_RARE_DELIMITERS = "^~"
_APOSTROPHES = re.compile(r"^'[^'\n]*'(?=[\t;|,])", re.M)
"""Matches a line that begins with a cell in single quotes."""
_RULE = re.compile(r"\s*(?:[-:=+]{3,}\s*)?")
"""Matches a cell of a ruling line below the column names."""
_DATE = re.compile(r"\d{4}-\d\d-\d\d\b.{0,20}|\d\d?[./]\d\d?[./]\d{2,4}\b.{0,20}")
_SNIFF_CHARS = 65_536
_SNIFF_ROWS = 200
_HEAD_BYTES: Final = 4 * _SNIFF_CHARS
_EXCEL_HINT = re.compile(r"sep=([^\n])\n", re.I)
_PART_ROWS: Final = 20_000
_PART_BYTES: Final = 2 * 1024 * 1024
_LOOKED_AT: Final = 50
"""Rows below the column names, at most, that may repeat them."""

# A cell may be as long as the whole text, which has its own limit, rather than the module's 128 KiB.
csv.field_size_limit(2**31 - 1)


def parse_sheet(text: str, limits: ParseLimits, *, media_type: str = "text/csv") -> ParsedDocument:
    """Parses decoded rows.

    The delimiter is a comma, semicolon, tab or bar. Rows are numbered as in a spreadsheet: a quoted cell with line ends
    is one row, and an empty line is a row too. The first row about as wide as the others is the header, unless it
    contains only numbers or begins with one, or with a date; rows above it (a sheet's title) have no column names.

    Raises:
        IngestError: EMPTY if no cell holds anything; TOO_LARGE.
    """
    hint = _EXCEL_HINT.match(text)
    body = text[hint.end() :] if hint else text
    start = _dialect(body, media_type, hint.group(1) if hint else "")
    if body.count(start.quote) % 2 == 1 and _never_closed(_lines_of(body), start):
        start = replace(start, quoted=False, escape="")
    reader = _Reader(start, _usual_width(_sample(body, start)))
    builder = TextBuilder(limits)
    reader.read(builder, _records(_lines_of(body), start))
    reader.finish(builder)
    if not builder.blocks:
        raise IngestError(IngestCode.EMPTY, "The table has no filled cell.")
    return ParsedDocument(Format.SHEET, media_type, builder.text(), tuple(builder.blocks))


def parse_long_sheet(
    data: bytes | mmap, limits: ParseLimits, *, media_type: str, position: SheetPosition
) -> ParsedDocument:
    """Parses the next part of a table in UTF-8, as `parse_sheet` parses a whole one.

    Memory depends only on the part, which has at most 20,000 rows or a little over 2 MiB.

    Args:
        data: The whole file.
        limits: Limits on the part.
        media_type: Of the file.
        position: Where the part starts: `following` of the previous part's document, if any.

    Returns:
        The part, possibly without blocks; its `following` is None if it is the last.

    Raises:
        IngestError: CORRUPT, TOO_LARGE.
    """
    position, width = _opened(data, media_type, position)
    reader = _Reader(position, width)
    builder = TextBuilder(limits)
    lines = _FileLines(data, position.offset)
    records = _records(lines, position)
    last = position.offset + _PART_BYTES
    part = _until(
        records,
        lambda count: lines.at_end and (lines.offset >= last or (count >= _PART_ROWS and not reader.is_waiting)),
    )
    reader.read(builder, part)
    reader.finish(builder)
    following = reader.position(lines.offset) if lines.offset < len(data) else None
    return ParsedDocument(Format.SHEET, media_type, builder.text(), tuple(builder.blocks), following=following)


def sheet_records(data: bytes | mmap, media_type: str) -> Iterator[tuple[int, list[str], list[str] | None]]:
    """Yields every record of a table in UTF-8 with its row number, and the column names if it is the header.

    The names are those of `parse_sheet`: empty if the record in the header's place is data.

    Raises:
        IngestError: CORRUPT.
    """
    position, width = _opened(data, media_type, SheetPosition())
    header: list[str] | None = None
    records = _records(_FileLines(data, position.offset), position)
    for row, cells in enumerate(records, start=1):
        names = None
        if header is None and any(cell.strip() for cell in cells):
            names = header = _header(cells, width)
        yield row, cells, names


def _opened(data: bytes | mmap, media_type: str, position: SheetPosition) -> tuple[SheetPosition, int]:
    """The start, the dialect, and how many cells of a row are usually filled."""
    head = clean(data[:_HEAD_BYTES].decode("utf-8", errors="ignore"))
    hint = _EXCEL_HINT.match(head)
    head = head[hint.end() :] if hint else head
    if not position.offset:
        offset = data.find(b"\n") + 1 if hint else 0
        position = replace(_dialect(head, media_type, hint.group(1) if hint else ""), offset=offset)
        if _odd_quotes(data, position) and _never_closed(_FileLines(data, position.offset), position):
            position = replace(position, quoted=False, escape="")
    return position, _usual_width(_sample(head, position))


def _header(cells: list[str], width: int) -> list[str] | None:
    """The column names; empty if the row is data: only numbers, or one or a date in its first cell.

    None if it is a title above the table.
    """
    if 3 * _filled(cells) < 2 * width:
        return None
    names = [one_line(cell) for cell in cells]
    are_numbers = all(NUMBER.fullmatch(name) for name in names if name)
    return [] if are_numbers or _is_value(names[0]) else names


def _is_value(text: str) -> bool:
    return bool(_DATE.fullmatch(text) or (NUMBER.fullmatch(text) and not YEAR.fullmatch(text)))


class _Reader:
    """Turns records into blocks; keeps the header, once found, and the row number.

    Names that none of the next rows repeats are a row of their own, as in a form that isn't filled in.
    """

    def __init__(self, start: SheetPosition, width: int) -> None:
        self._start = start
        self._width = width
        self._row = start.row
        self._names = start.names
        self._unrepeated: list[str] = []
        """Names that no row has repeated yet."""
        self._header_row = 0
        self._waiting: list[tuple[int, list[str]]] = []
        """Rows below the header, until it is known which names they repeat."""

    @property
    def is_waiting(self) -> bool:
        """Whether rows wait until it is known which names the next ones repeat."""
        return bool(self._unrepeated)

    def read(self, builder: TextBuilder, records: Iterable[list[str]]) -> None:
        """Adds records as rows."""
        for cells in records:
            self._row += 1
            if any(cell.strip() for cell in cells) and not all(map(_RULE.fullmatch, cells)):
                self._add(builder, cells)

    def finish(self, builder: TextBuilder) -> None:
        """Adds the names that no row repeats, and the rows that wait."""
        names = list(self._names or ())
        if self._unrepeated:
            _add(builder, self._header_row, "\n".join(self._unrepeated))
        for row, cells in self._waiting:
            _add(builder, row, pairs(names, cells))
        self._unrepeated = []
        self._waiting = []

    def position(self, offset: int) -> SheetPosition:
        """Where reading continues."""
        return replace(self._start, offset=offset, row=self._row, names=self._names)

    def _add(self, builder: TextBuilder, cells: list[str]) -> None:
        if self._names is not None:
            self._waiting.append((self._row, cells))
            if self._unrepeated:
                left = set(unrepeated(self._names, [cells]))
                self._unrepeated = [name for name in self._unrepeated if name in left]
            if not self._unrepeated or len(self._waiting) == _LOOKED_AT:
                self.finish(builder)
            return
        names = _header(cells, self._width)
        if names is None:
            _add(builder, self._row, "\n".join(cell.strip() for cell in cells if cell.strip()))
            return
        if names:
            self._unrepeated, self._header_row = unrepeated(names, []), self._row
        else:
            _add(builder, self._row, pairs([], [one_line(cell) for cell in cells]))
        self._names = tuple(names)


def _add(builder: TextBuilder, row: int, text: str) -> None:
    start, end = builder.write(text)
    builder.add(Block(BlockKind.ROW, start, end, place=Place(row=row)))


class _FileLines:
    """Iterates over a UTF-8 file's lines, and knows where the next one starts."""

    def __init__(self, data: bytes | mmap, offset: int) -> None:
        self.offset = offset
        self._data = data
        self._pending: list[str] = []

    def __iter__(self) -> Iterator[str]:
        return self

    def __next__(self) -> str:
        if not self._pending:
            if self.offset >= len(self._data):
                raise StopIteration
            end = self._data.find(b"\n", self.offset) + 1 or len(self._data)
            line = clean(self._data[self.offset : end].decode())
            self.offset = end
            if line.find("\n") in {-1, len(line) - 1}:
                return line
            self._pending = list(_lines_of(line))[::-1]  # line ends of old Macintoshes
        return self._pending.pop()

    @property
    def at_end(self) -> bool:
        """Whether the next line starts at `offset`."""
        return not self._pending


def _lines_of(text: str) -> Iterator[str]:
    """The lines of a text with their ends, without copying all of it."""
    start = 0
    while start < len(text):
        end = text.find("\n", start) + 1 or len(text)
        yield text[start:end]
        start = end


def _until(records: Iterator[list[str]], is_last: Callable[[int], bool]) -> Iterator[list[str]]:
    """Yields records until there are enough."""
    for count, cells in enumerate(records, start=1):
        yield cells
        if is_last(count):
            return


def _records(lines: Iterable[str], dialect: SheetPosition) -> Iterator[list[str]]:
    try:
        yield from _csv_rows(lines, dialect)
    except csv.Error as error:
        raise IngestError(IngestCode.CORRUPT, "The table can't be read as CSV: check its quotes.") from error


def _odd_quotes(data: bytes | mmap, dialect: SheetPosition) -> bool:
    quote = dialect.quote.encode()
    count = sum(data[start : start + _PART_BYTES].count(quote) for start in range(0, len(data), _PART_BYTES))
    return count % 2 == 1


def _never_closed(lines: Iterable[str], dialect: SheetPosition) -> bool:
    """Whether a quote is never closed: it would swallow all rows below, so quotes are then ordinary characters."""
    try:
        for _ in _csv_rows(lines, dialect, strict=True):
            pass
    except csv.Error as error:
        return "unexpected end of data" in str(error)
    return False


def _sample(text: str, dialect: SheetPosition) -> list[list[str]]:
    head = text[:_SNIFF_CHARS]
    if len(text) > _SNIFF_CHARS:
        head = head.rpartition("\n")[0] or head
    records = islice(_csv_rows(io.StringIO(head, newline=""), dialect), _SNIFF_ROWS)
    return [cells for cells in records if any(cell.strip() for cell in cells)]


def _sniff(text: str, media_type: str, quote: str) -> str:
    """The delimiter that splits the first rows best; a comma if none splits them.

    In a tie the comma loses: decimal commas in a semicolon-separated sheet are commoner than the reverse.
    """
    prefer_tab = media_type == "text/tab-separated-values"
    best, best_score = "\t" if prefer_tab else ",", 0.0
    for delimiter in _DELIMITERS:
        preference = 0.5 if prefer_tab and delimiter == "\t" else 0
        score = _evenness(_sample(text, SheetPosition(delimiter=delimiter, quote=quote))) + preference
        if score > best_score:
            best, best_score = delimiter, score
    return best if best_score else _rare(text) or best


def _evenness(rows: list[list[str]]) -> float:
    """How well a delimiter fits, at most 1: whether it splits rows evenly, and not within quoted cells."""
    cut = [row for row in rows if len(row) > 1]
    if not cut:
        return 0
    usual = Counter(len(row) for row in rows).most_common(1)[0][1]
    quotes = sum(any('"' in cell for cell in row) for row in rows)
    return len(cut) / len(rows) * (1 + usual / len(rows)) / 2 - quotes / len(rows)


def _usual_width(rows: list[list[str]]) -> int:
    """The most frequent number of cells per row; the larger one in a tie, as titles and notes have few."""
    count = Counter(_filled(cells) for cells in rows)
    return max(count, key=lambda width: (count[width], width)) if rows else 1


def _filled(cells: list[str]) -> int:
    return sum(1 for cell in cells if cell.strip())


def _dialect(text: str, media_type: str, delimiter: str) -> SheetPosition:
    """The dialect of a table's first rows: delimiter and quotes; `delimiter` if given."""
    head = text[:_SNIFF_CHARS]
    lines = head.count("\n") + 1
    quote = "'" if '"' not in head and 2 * len(_APOSTROPHES.findall(head)) >= lines else '"'
    dialect = SheetPosition(delimiter=delimiter or _sniff(text, media_type, quote), quote=quote)
    if f"\\{quote}" not in head:
        return dialect
    escaped = replace(dialect, escape="\\")
    return escaped if _evenness(_sample(text, escaped)) > _evenness(_sample(text, dialect)) else dialect


def _rare(text: str) -> str:
    """A rare delimiter, if it splits all rows alike and the first one into names; empty if none does."""
    for delimiter in _RARE_DELIMITERS:
        rows = _sample(text, SheetPosition(delimiter=delimiter))
        if len(rows) > 1 and len(rows[0]) > 1 and all(rows[0]) and len({len(row) for row in rows}) == 1:
            return delimiter
    return ""


def _csv_rows(lines: Iterable[str], dialect: SheetPosition, *, strict: bool = False) -> Iterator[list[str]]:
    return csv.reader(
        lines,
        delimiter=dialect.delimiter,
        quotechar=dialect.quote,
        escapechar=dialect.escape or None,
        quoting=csv.QUOTE_MINIMAL if dialect.quoted else csv.QUOTE_NONE,
        strict=strict,
    )
