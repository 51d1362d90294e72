"""Sources of tables: one reader per format, all of which return `RowSource`."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from mmap import mmap
from typing import Final

from citewire_retriever.ingest.decode import decode, is_utf8
from citewire_retriever.ingest.detect import Detected
from citewire_retriever.ingest.document import Format, ParseLimits, too_much_text
from citewire_retriever.ingest.parsers.docx import read_docx_tables
from citewire_retriever.ingest.parsers.html import read_html_tables
from citewire_retriever.ingest.parsers.markdown import read_markdown_tables
from citewire_retriever.ingest.parsers.odf import read_odt_tables
from citewire_retriever.ingest.parsers.odf_text import open_document
from citewire_retriever.ingest.parsers.ods import ods_sheets
from citewire_retriever.ingest.parsers.package import Package
from citewire_retriever.ingest.parsers.pairs import one_line
from citewire_retriever.ingest.parsers.sheet import sheet_records
from citewire_retriever.ingest.parsers.tables import Cell, Grid, is_wide, split_header, table_name
from citewire_retriever.ingest.parsers.workbook import Row, Sheet, Typed, cut_tables
from citewire_retriever.ingest.parsers.xls import xls_sheets
from citewire_retriever.ingest.parsers.xlsx import xlsx_sheets
from citewire_retriever.ingest.tabular.collector import Collector
from citewire_retriever.ingest.tabular.values import is_number

_BYTES_PER_CHAR: Final = 4
_FORMATS: Final = (
    "answers are computed from workbooks (XLSX, XLS, ODS), CSV, TSV, and tables in HTML, Markdown, Word documents "
    "(DOCX) and OpenDocument texts (ODT)"
)
_PDF: Final = (
    f"{_FORMATS}; a PDF doesn't say which words are cells of a table: add the table as a workbook or as CSV, if there "
    "is one"
)


@dataclass(frozen=True, slots=True)
class Source:
    """A file from which tables are read, possibly twice."""

    data: bytes | mmap
    detected: Detected
    limits: ParseLimits

    def text(self) -> str:
        """The file as text. Raises IngestError: TOO_LARGE, UNSUPPORTED_FORMAT."""
        if len(self.data) > self.limits.max_chars * _BYTES_PER_CHAR:
            raise too_much_text(self.limits)
        return decode(self.data[:])


@dataclass(frozen=True, slots=True)
class RowSource:
    """A sheet with any number of tables, or one table of a text."""

    name: str
    """The sheet's or table's name; empty if the file's line numbers suffice."""
    feed: Callable[[Collector], None]
    """Passes all rows to a collector, in order."""
    refusal: str = ""
    """Why results computed from it could be wrong."""
    by_lines: bool = False
    """Whether row numbers are the file's line numbers."""
    is_sheet: bool = False
    """Whether it is a sheet, so that its cells have names."""


def refusal_of(format: Format) -> str:
    """Why the tables of a file can't be queried if its format has no reader."""
    return _PDF if format is Format.PDF else f"{_FORMATS}, and this document is none of them"


def _read_records(source: Source) -> Iterator[RowSource]:
    def feed(collector: Collector) -> None:
        data = source.data if is_utf8(source.data) else decode(source.data[:]).encode()
        for number, record, names in sheet_records(data, source.detected.media_type):
            cells = {column: cell for column, text in enumerate(record, start=1) if (cell := text.strip())}
            if not cells:
                continue
            row = Row(number, cells, {})
            if names:
                collector.begin(row, alone=False)
            else:
                collector.add(row)

    yield RowSource("", feed)


def _read_workbook(source: Source) -> Iterator[RowSource]:
    return map(_sheet, xlsx_sheets(Package(source.data, "workbook"), source.limits))


def _read_old_workbook(source: Source) -> Iterator[RowSource]:
    return map(_sheet, xls_sheets(source.data))


def _read_open_workbook(source: Source) -> Iterator[RowSource]:
    return map(_sheet, ods_sheets(open_document(source.data, "OpenDocument spreadsheet")))


def _sheet(sheet: Sheet) -> RowSource:
    def feed(collector: Collector) -> None:
        cut_tables(_with_cells(sheet.rows, collector.unsaid), collector)

    refusal = "its sheet has more merged cells than are read" if sheet.is_cut else ""
    return RowSource(one_line(sheet.name), feed, refusal, is_sheet=True)


def _with_cells(rows: Iterator[Row], others: list[Row]) -> Iterator[Row]:
    for row in rows:
        if row.cells:
            yield row
        else:
            others.append(row)


def _read_html(source: Source) -> Iterator[RowSource]:
    return _numbered(read_html_tables(source.text(), source.limits))


def _read_docx(source: Source) -> Iterator[RowSource]:
    return _numbered(read_docx_tables(source.data, source.limits))


def _read_odt(source: Source) -> Iterator[RowSource]:
    return _numbered(read_odt_tables(source.data, source.limits))


def _read_markdown(source: Source) -> Iterator[RowSource]:
    for lines, grid in read_markdown_tables(source.text(), source.limits):
        yield from _grid("", grid, lines, by_lines=True)


def _numbered(grids: Iterator[Grid]) -> Iterator[RowSource]:
    """Tables in a text are numbered, and so are the rows within each."""
    for number, grid in enumerate(grids, start=1):
        yield from _grid(table_name(number), grid, range(1, len(grid.rows) + 1))


def _grid(name: str, grid: Grid, numbers: Sequence[int], *, by_lines: bool = False) -> Iterator[RowSource]:
    """A table given by its cells, if it has data rows below a header."""
    first, depth, header = split_header(grid.rows)
    is_marked = depth > 0
    if not is_marked and first < len(grid.rows):
        depth, header = 1, [cell.text for cell in grid.rows[first]]
    begin = first + depth
    if begin >= len(grid.rows) or sum(map(bool, header)) < 2:
        return
    rows = [
        _row(number, cells, above)
        for number, cells, above in zip(numbers[begin:], grid.rows[begin:], grid.rows[begin - 1 :], strict=False)
    ]
    refusal = "it has more cells than are read" if grid.is_cut else ""
    if not is_marked and not _names_columns(header, grid.rows[begin:]):
        refusal = refusal or f"it isn't clear whether its first row, {numbers[first]}, names columns or is data"
    names = Row(numbers[begin - 1], {column: text for column, text in enumerate(header, start=1) if text}, {})

    def feed(collector: Collector) -> None:
        collector.begin(names, alone=False)
        for index, row in enumerate(rows, start=begin):
            if index in grid.feet:
                collector.leave_out(row)
            elif row.cells:
                collector.add(row)

    yield RowSource(name, feed, refusal, by_lines)


def _row(number: int, cells: list[Cell], above: list[Cell]) -> Row:
    """The equivalent row of a sheet; text on several lines, or raised, isn't a number."""
    texts: dict[int, str] = {}
    wide: dict[int, int] = {}
    typed: dict[int, Typed] = {}
    reached: set[int] = set()
    start = 0
    for column, cell in enumerate(cells, start=1):
        if column > 1 and cell is cells[column - 2]:
            wide[start] = column
            continue
        start = column
        if not cell.text:
            continue
        texts[column] = cell.text
        if not cell.plain:
            typed[column] = Typed("text")
        if column <= len(above) and above[column - 1] is cell:
            reached.add(column)
    return Row(number, texts, wide, typed, frozenset(reached))


def _names_columns(header: list[str], rows: list[list[Cell]]) -> bool:
    """Whether an unmarked first row is a header: words, above a column with only numbers."""
    if any(map(is_number, header)):
        return False
    for index, name in enumerate(header):
        texts = [cells[index].text for cells in rows if index < len(cells) and cells[index].text and not is_wide(cells)]
        if name and texts and all(map(is_number, texts)):
            return True
    return False


READERS: Final[Mapping[Format, Callable[[Source], Iterator[RowSource]]]] = {
    Format.SHEET: _read_records,
    Format.WORKBOOK: _read_workbook,
    Format.OLD_WORKBOOK: _read_old_workbook,
    Format.OPEN_WORKBOOK: _read_open_workbook,
    Format.HTML: _read_html,
    Format.MARKDOWN: _read_markdown,
    Format.DOCX: _read_docx,
    Format.OPEN_TEXT: _read_odt,
}
"""Readers by format."""
