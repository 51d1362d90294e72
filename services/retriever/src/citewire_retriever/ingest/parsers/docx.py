"""Word documents (DOCX): paragraphs, lists and tables under their headings.

Read from the package's own parts: libraries for DOCX give neither list numbers, nor text boxes, footnotes and tracked
changes, and inflate all of a file. Names of elements and styles are ECMA-376's.
"""

from collections.abc import Iterator
from dataclasses import replace
from mmap import mmap
from typing import Final

from citewire.common.v1.place_pb2 import Place

from citewire_retriever.ingest.decode import decode
from citewire_retriever.ingest.document import Block, BlockKind, Format, ParsedDocument, ParseLimits, TextBuilder
from citewire_retriever.ingest.errors import IngestCode, IngestError
from citewire_retriever.ingest.parsers.charts import add_chart
from citewire_retriever.ingest.parsers.docx_numbers import Numbers
from citewire_retriever.ingest.parsers.docx_styles import Styles
from citewire_retriever.ingest.parsers.docx_text import Paragraph, children, find, read_paragraphs, value
from citewire_retriever.ingest.parsers.formulas import FORMULAS
from citewire_retriever.ingest.parsers.html import parse_html_page
from citewire_retriever.ingest.parsers.lxml_facade import Element
from citewire_retriever.ingest.parsers.mail import contents_of, read_message
from citewire_retriever.ingest.parsers.nesting import embed
from citewire_retriever.ingest.parsers.package import Package, attribute, local, relation_id
from citewire_retriever.ingest.parsers.pairs import LABEL_LIMIT, one_line
from citewire_retriever.ingest.parsers.tables import Cell, Grid, add_rows, mark_header, table_name

MEDIA_TYPE: Final = "application/vnd.openxmlformats-officedocument.wordprocessingml.document"
_MOST_COLUMNS: Final = 1000


def parse_docx(data: bytes | mmap, limits: ParseLimits) -> ParsedDocument:
    """Parses a Word document.

    Headings are recognised by their style's outline level, whatever the language of the style's name. List items have
    their numbers; notes, text boxes and the values of charts follow the paragraph that refers to them. Left out:
    headers and footers, tables of contents, deletions of tracked changes, hidden text.

    Raises:
        IngestError: CORRUPT, PASSWORD_REQUIRED, TOO_LARGE.
    """
    package = Package(data, "Word document")
    reader = _read(package, limits)
    title = reader.title or package.title() or reader.first_heading
    return ParsedDocument(Format.DOCX, MEDIA_TYPE, reader.builder.text(), tuple(reader.builder.blocks), title=title)


def read_docx_tables(data: bytes | mmap, limits: ParseLimits) -> Iterator[Grid]:
    """The tables of a Word document. Raises as `parse_docx` does."""
    for grid in _read(Package(data, "Word document"), limits, keep_tables=True).tables:
        rows = [
            [replace(cell, head=True) for cell in row] if index < grid.header_rows else row
            for index, row in enumerate(grid.rows)
        ]
        yield Grid(rows, is_cut=grid.is_cut)


def _read(package: Package, limits: ParseLimits, *, keep_tables: bool = False) -> "_Reader":
    main = package.related("", "officeDocument") or "word/document.xml"
    reader = _Reader(package, main, limits, keep_tables=keep_tables)
    for _, element in package.elements(main, frozenset({"p", "tbl", "altChunk", *FORMULAS})):
        reader.read(element)
    return reader


class _Reader:
    def __init__(self, package: Package, main: str, limits: ParseLimits, *, keep_tables: bool) -> None:
        self.keep_tables = keep_tables
        self.package = package
        self.relations = package.relations(main)
        self.builder = TextBuilder(limits)
        self.styles = Styles(package.related_tree(main, "styles"))
        self.numbers = Numbers(package.related_tree(main, "numbering"), self.styles)
        self.notes = {
            (kind, attribute(note, "id")): note
            for kind in ("footnote", "endnote")
            for note in children(package.related_tree(main, f"{kind}s"))
        }
        self.tables: list[_Grid] = []
        self.table_count = 0
        self.title: str | None = None
        self.first_heading: str | None = None

    def read(self, element: Element) -> None:
        tag = local(element.tag)
        if tag == "tbl":
            self._table(element)
            return
        if tag == "altChunk":
            self._page(self.relations.get(relation_id(element), ("", ""))[1])
            return
        self._paragraphs(read_paragraphs(element))

    def _page(self, part: str) -> None:
        """A part in another format, from programs that convert pages to documents: HTML, or a saved page."""
        if part not in self.package or not part.lower().endswith((".html", ".htm", ".xhtml", ".mht", ".mhtml")):
            return
        data = self.package.read(part)
        try:
            pages = contents_of(read_message(data)).html if part.lower().endswith(("mht", "mhtml")) else [decode(data)]
            for page in pages[:1]:
                embed(self.builder, parse_html_page(page, self.builder.limits), Place())
        except IngestError as error:
            if error.code is IngestCode.TOO_LARGE:
                raise

    def _paragraphs(self, paragraphs: list[Paragraph]) -> None:
        """A paragraph, followed by its text boxes and notes."""
        for paragraph in paragraphs:
            self._paragraph(paragraph)
            for chart in paragraph.charts:
                kind, part = self.relations.get(chart, ("", ""))
                if kind == "chart":
                    add_chart(self.builder, self.package, part)
            self._notes(paragraph.notes)

    def _notes(self, notes: list[tuple[str, str]]) -> None:
        """The paragraphs and tables of notes, each only once, even if several places refer to it."""
        for note in notes:
            for each in children(self.notes.pop(note, None)):
                if local(each.tag) in {"p", "tbl"}:
                    self.read(each)

    def _paragraph(self, paragraph: Paragraph) -> None:
        text = paragraph.text.strip()
        style = self.styles.of(paragraph.element)
        number = self.numbers.next(paragraph.element)
        if not text or style.is_contents:
            return
        if style.level:
            label = one_line(f"{number} {text}" if number and number != "-" else text)
            self._write(BlockKind.HEADING, label, level=style.level)
            if style.is_title:
                self.title = self.title or label
            self.first_heading = self.first_heading or label
            return
        self._write(BlockKind.PARAGRAPH, f"{number} {text}" if number else text, "\n" if number else "\n\n")

    def _table(self, table: Element) -> None:
        grid = _Grid(self.numbers)
        notes = [note for row in _below(table, "tr") for note in grid.add(row)]
        if self.keep_tables:
            self.tables.append(grid)
        self.table_count += 1
        marked = mark_header(grid.rows, grid.header_rows)
        add_rows(self.builder, marked, name=table_name(self.table_count))
        self._notes(notes)

    def _write(self, kind: BlockKind, text: str, separator: str = "\n\n", *, level: int = 0) -> None:
        start, end = self.builder.write(text, separator=separator)
        label = text[:LABEL_LIMIT] if level else ""
        self.builder.add(Block(kind, start, end, level=level, label=label))


class _Grid:
    """A table's cells by row and column; a cell that spans several is the same object in each."""

    def __init__(self, numbers: Numbers) -> None:
        self.rows: list[list[Cell]] = []
        self.header_rows = 0
        self.is_cut = False
        """Whether it has more columns than are supported."""
        self._numbers = numbers

    def add(self, row: Element) -> list[tuple[str, str]]:
        """Adds a row; returns the notes to which it refers."""
        properties = find(row, "trPr")
        if find(properties, "del") is not None:
            return []
        above = self.rows[-1] if self.rows else []
        notes: list[tuple[str, str]] = []
        cells: list[Cell] = [Cell("", head=False)] * min(_count(properties, "gridBefore", 0), _MOST_COLUMNS)
        for element in _below(row, "tc"):
            cell_properties = find(element, "tcPr")
            span = min(_count(cell_properties, "gridSpan", 1), _MOST_COLUMNS)
            merged = find(cell_properties, "vMerge")
            if merged is not None and value(merged, "continue") == "continue" and len(cells) < len(above):
                cell = above[len(cells)]
            else:
                text, plain = self._text(element, notes)
                cell = Cell(text, head=False, plain=plain)
            cells += [cell] * span
            if len(cells) > _MOST_COLUMNS:
                self.is_cut = True
                break
        if cells:
            self.rows.append(cells)
            marked = find(properties, "tblHeader")
            if (
                marked is not None
                and value(marked, "1") not in {"0", "false"}
                and self.header_rows == len(self.rows) - 1
            ):
                self.header_rows += 1
        return notes

    def _text(self, cell: Element, notes: list[tuple[str, str]]) -> tuple[str, bool]:
        """A cell's text, and whether it is one line without formulas and raised or struck-through characters."""
        texts: list[str] = []
        for element in cell.iter():
            if local(element.tag) == "p" and not _inside_paragraph(element, cell):
                for paragraph in read_paragraphs(element):
                    number = self._numbers.next(paragraph.element) if paragraph.text.strip() else ""
                    texts.append(f"{number} {paragraph.text}" if number not in {"", "-"} else paragraph.text)
                    notes += paragraph.notes
        filled = [text for text in texts if text.strip()]
        plain = len(filled) < 2 and not any(sign in text.strip() for text in filled for sign in "\n\t")
        return one_line(" ".join(texts)), plain and not any(map(_is_raised, cell.iter()))


def _is_raised(element: Element) -> bool:
    """Whether it is a formula, or makes a run raised, lowered or struck through."""
    name = local(element.tag)
    if name == "oMath":
        return True
    if name == "vertAlign":
        return value(element, "baseline") != "baseline"
    return name in {"strike", "dstrike"} and value(element, "1") not in {"0", "false", "off"}


def _inside_paragraph(element: Element, cell: Element) -> bool:
    """Whether a paragraph is inside another one within a cell, like that of a text box."""
    around = element.getparent()
    while around is not None and around is not cell:
        if local(around.tag) == "p":
            return True
        around = around.getparent()
    return False


def _below(element: Element, tag: str) -> list[Element]:
    """Rows of a table or cells of a row, including content controls, but not those of nested tables."""
    results: list[Element] = []
    for each in element:
        name = local(each.tag)
        if name == tag:
            results.append(each)
        elif name in {"sdt", "sdtContent", "customXml", "ins", "moveTo"}:
            results += _below(each, tag)
    return results


def _count(properties: Element | None, name: str, default: int) -> int:
    text = value(find(properties, name), "")
    return int(text) if text.isdecimal() and text.isascii() and len(text) < 6 else default
