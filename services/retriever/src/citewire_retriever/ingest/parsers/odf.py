"""OpenDocument texts and presentations (ODT, ODP): paragraphs, lists and tables under their headings.

Names of elements are OpenDocument 1.3's.
"""

from collections.abc import Iterator
from dataclasses import replace
from mmap import mmap
from typing import Final

from citewire.common.v1.place_pb2 import Place

from citewire_retriever.ingest.document import Block, BlockKind, Format, ParsedDocument, ParseLimits, TextBuilder
from citewire_retriever.ingest.parsers.lxml_facade import Element, walk
from citewire_retriever.ingest.parsers.odf_text import cell_text, count, open_document, properties_title, text_of
from citewire_retriever.ingest.parsers.package import Package, attribute, local
from citewire_retriever.ingest.parsers.pairs import LABEL_LIMIT, one_line
from citewire_retriever.ingest.parsers.tables import Cell, Grid, add_rows, mark_header, table_name

_CONTENT: Final = "content.xml"
_DEEPEST: Final = 6
_MOST_COLUMNS: Final = 1000
_LEFT_OUT: Final = frozenset(
    {"tracked-changes", "table-of-content", "alphabetical-index", "illustration-index", "table-index", "forms",
     "sequence-decls", "variable-decls", "footer-decl", "header-decl", "date-time-decl"}
)  # fmt: skip
_TEXT_PARTS: Final = frozenset({"p", "h", "list", "table", *_LEFT_OUT})


def parse_odt(data: bytes | mmap, limits: ParseLimits) -> ParsedDocument:
    """Parses a text: headings by outline level, lists, tables by row, notes after their paragraph.

    Left out: headers and footers, tables of contents and indexes, tracked deletions.

    Raises:
        IngestError: CORRUPT, PASSWORD_REQUIRED, TOO_LARGE.
    """
    package = open_document(data, "OpenDocument text")
    return _document(package, _read_text(package, _Reader(limits)), "text")


def read_odt_tables(data: bytes | mmap, limits: ParseLimits) -> Iterator[Grid]:
    """The tables of a text. Raises as `parse_odt` does."""
    package = open_document(data, "OpenDocument text")
    reader = _Reader(limits, raised=_raised_styles(package), keep_tables=True)
    yield from _read_text(package, reader).tables


def _read_text(package: Package, reader: "_Reader") -> "_Reader":
    for _, element in package.elements(_CONTENT, _TEXT_PARTS):
        reader.read(element)
    return reader


def _raised_styles(package: Package) -> frozenset[str]:
    """Names of styles with raised, lowered or struck-through characters."""
    names: set[str] = set()
    for part in ("styles.xml", _CONTENT):
        if part not in package:
            continue
        for _, style in package.elements(part, frozenset({"style"})):
            if any(map(_is_raised, style)) or attribute(style, "parent-style-name") in names:
                names.add(attribute(style, "name"))
    return frozenset(names)


def _is_raised(properties: Element) -> bool:
    position = attribute(properties, "text-position").split()
    struck = {attribute(properties, f"text-line-through-{each}") for each in ("style", "type")}
    return (bool(position) and position[0] not in {"0%", "0"}) or not struck <= {"", "none"}


def parse_odp(data: bytes | mmap, limits: ParseLimits) -> ParsedDocument:
    """Parses a presentation: each slide under its title, its notes last. Raises as `parse_odt`."""
    package = open_document(data, "OpenDocument presentation")
    reader = _Reader(limits)
    has_text = False
    slides = (element for _, element in package.elements(_CONTENT, frozenset({"page"})))
    for number, slide in enumerate(slides, 1):
        reader.place = Place(slide=number)
        title = next((each for each in slide.iter("{*}frame") if attribute(each, "class") == "title"), None)
        label = cell_text(title) if title is not None else ""
        has_text = has_text or bool(label)
        reader.heading(label or f"Slide {number}", 1)
        for part in _parts_of(slide, title):
            reader.read(part)
    # Without any text, "Slide 1" isn't worth finding.
    if not has_text and all(each.kind is BlockKind.HEADING for each in reader.builder.blocks):
        reader = _Reader(limits)
    return _document(package, reader, "presentation")


def _document(package: Package, reader: "_Reader", kind: str) -> ParsedDocument:
    return ParsedDocument(
        Format.OPEN_TEXT if kind == "text" else Format.OPEN_SLIDES,
        f"application/vnd.oasis.opendocument.{kind}",
        reader.builder.text(),
        tuple(reader.builder.blocks),
        title=properties_title(package) or reader.first_heading,
    )


class _Reader:
    def __init__(self, limits: ParseLimits, *, raised: frozenset[str] = frozenset(), keep_tables: bool = False) -> None:
        self.builder = TextBuilder(limits)
        self.place = Place()
        self.tables: list[Grid] = []
        self._keep_tables = keep_tables
        self._table_count = 0
        self._raised = raised
        self.first_heading: str | None = None

    def read(self, element: Element) -> None:
        """Adds a paragraph."""
        tag = local(element.tag)
        if tag == "h":
            self.heading(text_of(element).text, min(count(element, "outline-level", 1), _DEEPEST) or 1)
        elif tag == "p":
            self._paragraph(element, "")
        elif tag == "list":
            self._list(element)
        elif tag == "table":
            self._table(element)

    def heading(self, text: str, level: int) -> None:
        """Adds a heading, if it says anything."""
        label = one_line(text)
        if label:
            self.first_heading = self.first_heading or label
            start, end = self.builder.write(label)
            block = Block(BlockKind.HEADING, start, end, level=level, label=label[:LABEL_LIMIT], place=self.place)
            self.builder.add(block)

    def _paragraph(self, element: Element, sign: str) -> None:
        content = text_of(element)
        self._write(f"{sign}{content.text}" if content.text else "", "\n" if sign else "\n\n")
        for aside in content.asides:
            self._write(aside)

    def _list(self, element: Element) -> None:
        """Items in order; those of lists within lists follow their own. Headings may be numbered as a list."""
        events = walk(element)
        first = False
        for event, each in events:
            tag = local(each.tag)
            if event != "start":
                continue
            if tag in {"list-item", "list-header"}:
                first = tag == "list-item"
            elif tag in {"p", "h", "table"}:
                if tag == "p":
                    self._paragraph(each, "- " if first else "")
                else:
                    self.read(each)
                first = False
                events.skip_subtree()

    def _table(self, table: Element) -> None:
        grid: list[list[Cell]] = []
        header_rows = 0
        pending: dict[int, tuple[int, Cell]] = {}
        is_cut = False
        for row in _rows(table):
            cells = _cells(row, pending, self._raised)
            is_cut = is_cut or len(cells) >= _MOST_COLUMNS or count(row, "number-rows-repeated", 1) > 1
            around = row.getparent()
            if cells:
                grid.append(cells)
                header_rows += around is not None and local(around.tag) == "table-header-rows"
        self._table_count += 1
        if self._keep_tables:
            rows = [
                [replace(cell, head=True) for cell in row] if index < header_rows else row
                for index, row in enumerate(grid)
            ]
            self.tables.append(Grid(rows, is_cut=is_cut))
        name = "" if self.place.HasField("slide") else table_name(self._table_count)
        add_rows(self.builder, mark_header(grid, header_rows), self.place, name)

    def _write(self, text: str, separator: str = "\n\n") -> None:
        if text:
            start, end = self.builder.write(text, separator=separator)
            self.builder.add(Block(BlockKind.PARAGRAPH, start, end, place=self.place))


def _parts_of(slide: Element, title: Element | None) -> list[Element]:
    """Paragraphs, lists and tables of a slide, without its title, in order."""
    results: list[Element] = []
    events = walk(slide)
    for event, each in events:
        if event != "start":
            continue
        if each is title or local(each.tag) in _LEFT_OUT:
            events.skip_subtree()
        elif local(each.tag) in _TEXT_PARTS:
            results.append(each)
            events.skip_subtree()
    return results


def _rows(table: Element) -> list[Element]:
    """Rows, including grouped ones, without those of nested tables."""
    results: list[Element] = []
    for each in table:
        tag = local(each.tag)
        if tag == "table-row":
            results.append(each)
        elif tag in {"table-header-rows", "table-rows", "table-row-group"}:
            results += _rows(each)
    return results


def _cell(element: Element, raised: frozenset[str]) -> Cell:
    text = cell_text(element)
    plain = not any(sign in text for sign in "\n\t")
    if plain and raised:
        plain = not any(attribute(each, "style-name") in raised for each in element.iter("{*}p", "{*}h", "{*}span"))
    return Cell(one_line(text), head=False, plain=plain)


def _cells(row: Element, pending: dict[int, tuple[int, Cell]], raised: frozenset[str]) -> list[Cell]:
    """A row's cells; one that spans rows or columns is the same object in each, and covered cells are ignored."""
    cells: list[Cell] = []
    width = 0
    for element in row:
        tag = local(element.tag)
        if tag not in {"table-cell", "covered-table-cell"}:
            continue
        repeated = min(count(element, "number-columns-repeated", 1), _MOST_COLUMNS - len(cells))
        for _ in range(repeated):
            column = len(cells)
            rows, above = pending.pop(column, (0, None))
            if tag == "covered-table-cell" and above is not None:
                cells.append(above)
                if rows > 1:
                    pending[column] = rows - 1, above
            elif tag == "covered-table-cell" and cells:
                cells.append(cells[-1])
            else:
                cells.append(_cell(element, raised))
            spanned = count(element, "number-rows-spanned", 1) if tag == "table-cell" else 1
            for covered in range(count(element, "number-columns-spanned", 1) if spanned > 1 else 0):
                pending[min(column + covered, _MOST_COLUMNS)] = spanned - 1, cells[-1]
        if cells and cells[-1].text:
            width = len(cells)
    return cells[:width]
