"""CSV and TSV: one block per row, rendered as ``column: value`` pairs."""

import csv
import io
import re
from collections import Counter
from collections.abc import Iterator
from itertools import islice

from citewire.common.v1.place_pb2 import Place

from citewire_retriever.ingest.document import Block, BlockKind, Format, ParsedDocument, ParseLimits, TextBuilder
from citewire_retriever.ingest.errors import IngestCode, IngestError
from citewire_retriever.ingest.parsers.pairs import NUMBER, one_line, pairs

_DELIMITERS = "\t;|,"
_SNIFF_CHARS = 65_536
_SNIFF_ROWS = 200
_EXCEL_HINT = re.compile(r"sep=([^\n])\n", re.I)

# A cell may be as long as the whole text, which has its own limit; the module's default of 128 KiB is a surprise.
csv.field_size_limit(2**31 - 1)


def parse_sheet(text: str, limits: ParseLimits, *, media_type: str = "text/csv") -> ParsedDocument:
    """Parses decoded rows.

    The delimiter is found among comma, semicolon, tab and bar. A row's number is that which a spreadsheet shows: a
    quoted cell with line ends is one row, an empty line is a row too. The first row about as wide as the others is the
    header, unless it holds only numbers; rows above it (a sheet's title) have no column names.

    Raises:
        IngestError: EMPTY if no cell holds anything; TOO_LARGE.
    """
    hint = _EXCEL_HINT.match(text)
    body = text[hint.end() :] if hint else text
    delimiter = hint.group(1) if hint else _sniff(body, prefer_tab=media_type == "text/tab-separated-values")
    records = _records(body, delimiter)
    width = _usual_width(_sample(body, delimiter))
    rows = ((number, cells) for number, cells in enumerate(records, start=1) if any(cell.strip() for cell in cells))

    builder = TextBuilder(limits)
    header: tuple[int, list[str]] | None = None
    for number, cells in rows:
        if 2 * _filled(cells) >= width:
            header = (number, [one_line(cell) for cell in cells])
            break
        _add(builder, number, "\n".join(cell.strip() for cell in cells if cell.strip()))
    if header is None and not builder.blocks:
        raise IngestError(IngestCode.EMPTY, "The table has no filled cell.")
    if header is not None:
        _add_body(builder, header, rows)
    return ParsedDocument(Format.SHEET, media_type, builder.text(), tuple(builder.blocks))


def _add_body(builder: TextBuilder, header: tuple[int, list[str]], rows: Iterator[tuple[int, list[str]]]) -> None:
    number, names = header
    if all(NUMBER.fullmatch(name) for name in names if name):
        # A row of numbers names no columns: the data starts here.
        _add(builder, number, pairs([], names))
        names = []
    before = len(builder.blocks)
    for row, cells in rows:
        _add(builder, row, pairs(names, cells))
    if names and len(builder.blocks) == before:
        _add(builder, number, "\n".join(name for name in names if name))


def _add(builder: TextBuilder, row: int, text: str) -> None:
    start, end = builder.write(text)
    builder.add(Block(BlockKind.ROW, start, end, place=Place(row=row)))


def _records(text: str, delimiter: str) -> Iterator[list[str]]:
    quoting = csv.QUOTE_NONE if _unbalanced(text, delimiter) else csv.QUOTE_MINIMAL
    try:
        yield from csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, quoting=quoting)
    except csv.Error as error:
        raise IngestError(IngestCode.CORRUPT, "The table can't be read as CSV: check its quotes.") from error


def _unbalanced(text: str, delimiter: str) -> bool:
    """Whether an opening quote is never closed: it would swallow every row below it, so quotes are then mere signs."""
    if text.count('"') % 2 == 0:
        return False
    try:
        for _ in csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True):
            pass
    except csv.Error as error:
        return "unexpected end of data" in str(error)
    return False


def _sample(text: str, delimiter: str) -> list[list[str]]:
    head = text[:_SNIFF_CHARS]
    if len(text) > _SNIFF_CHARS:
        head = head.rpartition("\n")[0] or head
    records = islice(csv.reader(io.StringIO(head, newline=""), delimiter=delimiter), _SNIFF_ROWS)
    return [cells for cells in records if any(cell.strip() for cell in cells)]


def _sniff(text: str, *, prefer_tab: bool) -> str:
    """The delimiter that cuts the first rows best; a comma if none cuts them.

    Among equals the comma comes last: decimal commas in a sheet cut by semicolons are commoner than the reverse.
    """
    best, best_score = "\t" if prefer_tab else ",", 0.0
    for delimiter in _DELIMITERS:
        score = _evenness(_sample(text, delimiter)) + (0.5 if prefer_tab and delimiter == "\t" else 0)
        if score > best_score:
            best, best_score = delimiter, score
    return best


def _evenness(rows: list[list[str]]) -> float:
    """How well a delimiter fits: rows that it cuts, evenly, and not through quoted cells. At most 1."""
    cut = [row for row in rows if len(row) > 1]
    if not cut:
        return 0
    usual = Counter(len(row) for row in rows).most_common(1)[0][1]
    quotes = sum(any('"' in cell for cell in row) for row in rows)
    return len(cut) / len(rows) * (1 + usual / len(rows)) / 2 - quotes / len(rows)


def _usual_width(rows: list[list[str]]) -> int:
    return Counter(_filled(cells) for cells in rows).most_common(1)[0][0] if rows else 1


def _filled(cells: list[str]) -> int:
    return sum(1 for cell in cells if cell.strip())
