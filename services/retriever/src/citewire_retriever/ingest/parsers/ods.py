"""OpenDocument spreadsheets (ODS): each row of each sheet under its header, with the cells' displayed text."""

from collections.abc import Iterator
from dataclasses import replace
from mmap import mmap
from typing import Final, Literal

from citewire_retriever.ingest.document import Format, ParsedDocument, ParseLimits, TextBuilder
from citewire_retriever.ingest.parsers.cell_formats import show
from citewire_retriever.ingest.parsers.lxml_facade import Element
from citewire_retriever.ingest.parsers.odf_text import cell_text, count, open_document, properties_title
from citewire_retriever.ingest.parsers.package import Package, attribute, local
from citewire_retriever.ingest.parsers.workbook import MOST_COLUMNS, Row, Sheet, Typed, add_sheet

_MOST_ROWS: Final = 1_048_576
_KINDS: Final[dict[str, Literal["number", "percent", "currency"]]] = {
    "float": "number",
    "percentage": "percent",
    "currency": "currency",
}
_CELLS: Final = frozenset({"table-cell", "covered-table-cell"})


def parse_ods(data: bytes | mmap, limits: ParseLimits) -> ParsedDocument:
    """Parses a spreadsheet; hidden sheets are read, and their heading says so.

    Raises:
        IngestError: CORRUPT, PASSWORD_REQUIRED, TOO_LARGE.
    """
    package = open_document(data, "OpenDocument spreadsheet")
    builder = TextBuilder(limits)
    for sheet in ods_sheets(package):
        add_sheet(builder, sheet)
    title = properties_title(package)
    media_type = "application/vnd.oasis.opendocument.spreadsheet"
    return ParsedDocument(Format.OPEN_WORKBOOK, media_type, builder.text(), tuple(builder.blocks), title=title)


def ods_sheets(package: Package) -> Iterator[Sheet]:
    """Yields the sheets of a spreadsheet; each must be read before the next one. Raises as `parse_ods`."""
    events = package.elements("content.xml", frozenset({"table-row", "style"}), frozenset({"table"}))
    hidden_styles: set[str] = set()
    for event, element in events:
        if local(element.tag) == "style" and any(attribute(each, "display") == "false" for each in element):
            hidden_styles.add(attribute(element, "name"))
        elif event == "start":
            hidden = attribute(element, "style-name") in hidden_styles
            yield Sheet(attribute(element, "name"), hidden, _rows(package, events))


def _rows(package: Package, events: Iterator[tuple[str, Element]]) -> Iterator[Row]:
    """The rows that aren't empty, to the sheet's end."""
    number = 1
    reaching: dict[int, tuple[int, str]] = {}  # column -> rows that a value still spans, and the value
    for event, element in events:
        if event == "end" and local(element.tag) == "table":
            return
        if local(element.tag) != "table-row":
            continue
        repeated = count(element, "number-rows-repeated", 1)
        row = _row(number, element, reaching, repeated)
        for copy in range(repeated if row.cells or row.typed else 0):
            if number + copy > _MOST_ROWS:
                raise package.too_large()
            yield replace(row, number=number + copy)
        number += repeated


def _row(number: int, element: Element, reaching: dict[int, tuple[int, str]], copies: int) -> Row:
    """A row's cells that aren't empty, with the values that span into it, whose remaining span it reduces."""
    row = Row(number, {}, {})
    cells = row.cells
    column = 1
    for each in element:
        tag = local(each.tag)
        if tag not in _CELLS or column > MOST_COLUMNS:
            continue
        last = min(column + count(each, "number-columns-repeated", 1) - 1, MOST_COLUMNS)
        text = cell_text(each) if tag == "table-cell" else ""
        value = _typed(each, text) if tag == "table-cell" else None
        if value is not None and not text:
            text = _shown(value)
        if value is not None:
            row.typed.update(dict.fromkeys(range(column, last + 1), value))
        if text:
            cells.update(dict.fromkeys(range(column, last + 1), text))
            rows, columns = count(each, "number-rows-spanned", 1), count(each, "number-columns-spanned", 1)
            if rows > 1:
                reaching[column] = rows, text
            if columns > 1:
                row.wide[column] = min(column + columns - 1, MOST_COLUMNS)
        column = last + 1
    own = frozenset(cells)
    for column, (rows, text) in list(reaching.items()):
        cells.setdefault(column, text)
        reaching[column] = rows - copies, text
        if rows <= copies:
            del reaching[column]
    return replace(row, cells=dict(sorted(cells.items())), reached=frozenset(cells) - own)


def _shown(value: Typed) -> str:
    """The displayed text of a cell stored with its value only."""
    if value.kind == "boolean":
        return "TRUE" if value.raw == "1" else "FALSE"
    return f"{value.raw} {value.currency}".strip() if value.kind != "percent" else _percent(value.raw)


def _percent(raw: str) -> str:
    try:
        return show(float(raw), "0.##%")
    except ValueError:
        return raw


def _typed(cell: Element, text: str) -> Typed | None:
    kind = attribute(cell, "value-type")
    if kind in {"float", "percentage", "currency"} and (value := attribute(cell, "value")):
        currency = attribute(cell, "currency") if kind == "currency" else ""
        return Typed(_KINDS[kind], value, currency)
    if kind == "date" and (value := attribute(cell, "date-value")):
        return Typed("date", value)
    if kind == "boolean" and (value := attribute(cell, "boolean-value")):
        return Typed("boolean", "1" if value == "true" else "0")
    return Typed("formula") if not text and attribute(cell, "formula") else None
