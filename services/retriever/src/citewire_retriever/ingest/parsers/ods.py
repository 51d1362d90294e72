"""OpenDocument spreadsheets (ODS): each row of each sheet under its header; cells hold the text that they show."""

from collections.abc import Iterator
from mmap import mmap
from typing import Final

from citewire_retriever.ingest.document import Format, ParsedDocument, ParseLimits, TextBuilder
from citewire_retriever.ingest.parsers.lxml_facade import Element
from citewire_retriever.ingest.parsers.odf_text import cell_text, count, properties_title
from citewire_retriever.ingest.parsers.package import Package, attribute, local
from citewire_retriever.ingest.parsers.workbook import MOST_COLUMNS, Row, add_sheet

_MOST_ROWS: Final = 1_048_576
_CELLS: Final = frozenset({"table-cell", "covered-table-cell"})


def parse_ods(data: bytes | mmap, limits: ParseLimits) -> ParsedDocument:
    """Parses a spreadsheet; hidden sheets are read, and their heading says so.

    Raises:
        IngestError: CORRUPT, PASSWORD_REQUIRED, TOO_LARGE.
    """
    package = Package(data, "OpenDocument spreadsheet")
    builder = TextBuilder(limits)
    events = package.elements("content.xml", frozenset({"table-row", "style"}), frozenset({"table"}))
    hidden_styles: set[str] = set()
    for event, element in events:
        if local(element.tag) == "style" and any(attribute(each, "display") == "false" for each in element):
            hidden_styles.add(attribute(element, "name"))
        elif event == "start":
            hidden = attribute(element, "style-name") in hidden_styles
            add_sheet(builder, attribute(element, "name"), _rows(events), hidden=hidden)
    title = properties_title(package)
    media_type = "application/vnd.oasis.opendocument.spreadsheet"
    return ParsedDocument(Format.OPEN_WORKBOOK, media_type, builder.text(), tuple(builder.blocks), title=title)


def _rows(events: Iterator[tuple[str, Element]]) -> Iterator[Row]:
    """The rows that hold anything, until the sheet ends."""
    number = 1
    reaching: dict[int, tuple[int, str]] = {}  # column -> rows that a value still reaches down to, and the value
    for event, element in events:
        if event == "end" and local(element.tag) == "table":
            return
        if local(element.tag) != "table-row":
            continue
        repeated = count(element, "number-rows-repeated", 1)
        cells, wide = _cells(element, reaching, repeated)
        for copy in range(repeated if cells else 0):
            if number + copy <= _MOST_ROWS:
                yield Row(number + copy, cells, wide)
        number += repeated


def _cells(row: Element, reaching: dict[int, tuple[int, str]], copies: int) -> tuple[dict[int, str], dict[int, int]]:
    """A row's cells that hold anything, and the last columns of those that are merged with what is beside them."""
    cells: dict[int, str] = {}
    wide: dict[int, int] = {}
    column = 1
    for element in row:
        tag = local(element.tag)
        if tag not in _CELLS or column > MOST_COLUMNS:
            continue
        last = min(column + count(element, "number-columns-repeated", 1) - 1, MOST_COLUMNS)
        text = cell_text(element) if tag == "table-cell" else ""
        if text:
            cells.update(dict.fromkeys(range(column, last + 1), text))
            rows, columns = count(element, "number-rows-spanned", 1), count(element, "number-columns-spanned", 1)
            if rows > 1:
                reaching[column] = rows, text
            if columns > 1:
                wide[column] = min(column + columns - 1, MOST_COLUMNS)
        column = last + 1
    for column, (rows, text) in list(reaching.items()):
        cells.setdefault(column, text)
        reaching[column] = rows - copies, text
        if rows <= copies:
            del reaching[column]
    return dict(sorted(cells.items())), wide
