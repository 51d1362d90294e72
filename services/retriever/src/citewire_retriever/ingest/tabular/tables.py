"""Tables of a file: the same that its rows are searched under, with all that their cells hold."""

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from mmap import mmap
from typing import Final

from citewire.retriever.v1 import table_pb2 as pb

from citewire_retriever.ingest.cells import column_name
from citewire_retriever.ingest.decode import decode, is_utf8
from citewire_retriever.ingest.detect import HEAD_BYTES, detect
from citewire_retriever.ingest.document import Format, ParseLimits
from citewire_retriever.ingest.parsers.ods import ods_sheets
from citewire_retriever.ingest.parsers.package import Package
from citewire_retriever.ingest.parsers.pairs import LABEL_LIMIT, NUMBER, one_line
from citewire_retriever.ingest.parsers.sheet import sheet_records
from citewire_retriever.ingest.parsers.workbook import Row, Sheet, column_names, cut_tables
from citewire_retriever.ingest.parsers.xlsx import xlsx_sheets
from citewire_retriever.ingest.tabular import TableQueryError
from citewire_retriever.ingest.tabular.values import Cell, CellLike, Column, decimal_comma, fold, read_column

MOST_ROWS: Final = 2_000_000
"""Rows of a table that are computed over."""
MOST_CELLS: Final = 12_000_000
"""Cells of a table's columns that a query uses."""
_SAMPLED_ROWS: Final = 50
_SHARED_TEXTS: Final = 10_000
_YEAR: Final = re.compile(r"(?:19|20|21)\d\d")
_TOTALS: Final = (
    "(?:grand |sub|sub-)?totals?|sum|(?:gesamt|zwischen|end)?summe|gesamt|insgesamt|totale?|somme|suma|итого"
    "|合計|合计|总计|小计|小計"
)
_TOTAL: Final = re.compile(rf"(?:{_TOTALS})\s*:?", re.I)
_HOW_TO_COMPUTE: Final = "open and save it in a spreadsheet"
_MAYBE_TOTAL: Final = re.compile(rf"(?:{_TOTALS})\b.*|.*\b(?:{_TOTALS})\s*:?", re.I | re.S)

_NOTE: Final = re.compile(r"\*|(?:source|notes?|quellen?|hinweis|anmerkung(?:en)?|nota|fuente)\s?:", re.I)
_DIGIT: Final = re.compile(r"\d")
_NOTE_CHARS: Final = 60


@dataclass(slots=True)
class Table:
    """A table, and the cells of those of its columns that a query uses."""

    sheet: str
    header_row: int
    names: dict[int, str]
    """By column, from 1; each once. A column without a name has its letters."""
    comma: bool | None = None
    """Whether numbers have a decimal comma, as the first rows tell."""
    cells: dict[int, list[CellLike]] = field(default_factory=dict[int, list[CellLike]])
    """By column, of each row."""
    rows: list[int] = field(default_factory=list[int])
    """The rows' numbers."""
    excluded: list[int] = field(default_factory=list[int])
    """Numbers of rows that hold totals of others, or notes, and aren't among the rows."""
    last_row: int = 0
    maybe_totals: dict[int, str] = field(default_factory=dict[int, str])
    """Numbers of rows of which it can't be told whether they hold totals of others, with what they begin with."""
    uncomputed: set[int] = field(default_factory=set[int])
    """Columns with formulas whose values the file doesn't say."""
    refusal: str = ""
    """Why no number over it would be right."""

    def column(self, number: int) -> Column:
        """What a column holds. Raises TableQueryError: the file doesn't say it."""
        if number in self.uncomputed:
            name = self.names[number]
            raise TableQueryError(
                "", f"the file doesn't say what formulas in column {name!r} come to: {_HOW_TO_COMPUTE}"
            )
        return read_column(self.cells[number], comma=self.comma)


def read_tables(
    data: bytes | mmap, file_name: str, media_type: str, limits: ParseLimits, used: frozenset[str] | None
) -> list[Table]:
    """The tables of a file.

    Args:
        data: The whole file.
        file_name: For its suffix.
        media_type: What it is believed to be.
        limits: Bounds on what is read.
        used: Names of columns whose cells are kept, as `fold` leaves them; None for all.

    Raises:
        IngestError: The file can't be read.
        TableQueryError: It is of another format, or has a table that is too large.
    """
    detected = detect(data[:HEAD_BYTES], file_name, media_type)
    if detected.format is Format.SHEET:
        reader = _Collector("", used)
        _read_records(data if is_utf8(data) else decode(data[:]).encode(), detected.media_type, reader)
        return reader.tables
    if detected.format is Format.WORKBOOK:
        sheets = xlsx_sheets(Package(data, "workbook"), limits)
    elif detected.format is Format.OPEN_WORKBOOK:
        sheets = ods_sheets(Package(data, "OpenDocument spreadsheet"))
    else:
        raise TableQueryError(
            "", "answers are computed over workbooks (XLSX, ODS), CSV and TSV, and this document is none of them"
        )
    return [table for sheet in sheets for table in _read_sheet(sheet, used)]


class _Collector:
    """Takes the rows of a sheet, and makes tables of them."""

    def __init__(self, sheet: str, used: frozenset[str] | None) -> None:
        self.header_seen = False
        self.tables: list[Table] = []
        self._sheet = sheet
        self._names = used
        self._samples: list[list[Row]] = []
        """The first rows of each table."""
        self._blocks: list[list[int]] = []
        """Groups of the present table's columns between empty ones."""
        self._lopsided = False
        """Whether some row has nothing in one of these groups."""
        self._texts: dict[str, str] = {}

    def begin(self, row: Row, *, alone: bool) -> None:
        """Starts a table."""
        self._finish()
        self.header_seen = True
        table = Table(self._sheet, row.number, _distinct(column_names(row)), last_row=row.number)
        if any(NUMBER.fullmatch(name) and not _YEAR.fullmatch(name) for name in table.names.values()):
            table.refusal = f"its first row, {row.number}, looks like data: it needs a row with the columns' names"
        self.tables.append(table)
        self._samples.append([])
        self._lopsided = False
        self._blocks = _blocks(table.names)
        table.cells = {column: [] for column, name in table.names.items() if self._is_used(name)}

    def add(self, row: Row) -> None:
        """Adds a row to the table."""
        if not self.tables:
            return
        table = self.tables[-1]
        text = one_line(next(iter(row.cells.values())))
        follows = row.number == table.last_row + 1
        table.last_row = row.number
        is_alone = len(row.cells) == 1 < len(table.names)
        if is_alone and row.cells.keys() <= table.names.keys():
            is_left_out = not follows or len(text) > _NOTE_CHARS or _NOTE.match(text) is not None
        else:
            is_left_out = is_alone or _TOTAL.fullmatch(text) is not None
        if is_left_out:
            table.excluded.append(row.number)
            return
        sample = self._samples[-1]
        if not follows and not _has_digits(row) and 2 * sum(map(_has_digits, sample)) > len(sample):
            problem = f"it can't be told whether row {row.number}, below an empty one, belongs to it"
            table.refusal = table.refusal or problem
        if len(sample) < _SAMPLED_ROWS:
            sample.append(row)
        for column in row.cells.keys() - table.names.keys():
            self._add_column(table, column)
        if len(self._blocks) > 1 and not all(any(column in row.cells for column in block) for block in self._blocks):
            self._lopsided = True
        if len(table.rows) >= MOST_ROWS or len(table.rows) * len(table.cells) >= MOST_CELLS:
            most = f"{MOST_ROWS:,} rows and {MOST_CELLS:,} cells are"
            raise TableQueryError("", f"the table at row {table.header_row} is too large: at most {most} computed over")
        if _MAYBE_TOTAL.fullmatch(text[:LABEL_LIMIT]):
            table.maybe_totals[row.number] = text[:_NOTE_CHARS]
        table.rows.append(row.number)
        for column, cells in table.cells.items():
            cells.append(self._cell(row, column))
        table.uncomputed |= {column for column, typed in row.typed.items() if typed.kind == "formula"}

    def _is_used(self, name: str) -> bool:
        return self._names is None or fold(name) in self._names

    def _add_column(self, table: Table, column: int) -> None:
        """Adds a column that has no name."""
        taken = {name.casefold() for name in table.names.values()}
        name = column_name(column)
        table.names[column] = f"{name} (2)" if name.casefold() in taken else name
        self._blocks = _blocks(table.names)
        if self._is_used(table.names[column]):
            table.cells[column] = [""] * len(table.rows)

    def _cell(self, row: Row, column: int) -> CellLike:
        text = one_line(row.cells.get(column, ""))
        typed = row.typed.get(column)
        if typed is None and column not in row.reached:
            # Equal texts are one object: a long table has few different ones.
            return (
                self._texts.setdefault(text, text) if len(self._texts) < _SHARED_TEXTS else self._texts.get(text, text)
            )
        return Cell(text, typed, reached=column in row.reached) if text else ""

    def finish(self, unsaid: Iterable[Row]) -> None:
        """Ends the last table.

        Args:
            unsaid: Rows that hold nothing but formulas whose values the file doesn't say.
        """
        self._finish()
        rows = list(unsaid)
        for index, table in enumerate(self.tables):
            end = self.tables[index + 1].header_row if index + 1 < len(self.tables) else None
            if any(table.header_row < row.number and (end is None or row.number < end) for row in rows):
                table.refusal = table.refusal or f"the file doesn't say what formulas in it come to: {_HOW_TO_COMPUTE}"
        for index in range(1, len(self.tables)):
            self._check_end(index)

    def _finish(self) -> None:
        if not self.tables:
            return
        table, sample = self.tables[-1], self._samples[-1]
        table.names = dict(sorted(table.names.items()))
        votes = Counter(decimal_comma(_sampled(sample, column)) for column in table.names)
        table.comma = None if votes[True] == votes[False] else votes[True] > votes[False]
        if self._lopsided:
            table.refusal = table.refusal or "tables of different lengths stand side by side in it"

    def _check_end(self, index: int) -> None:
        """Refuses a table that may go on below what looks like the header of another one."""
        table, following = self.tables[index - 1 : index + 1]
        known, others = (frozenset(map(fold, each.names.values())) for each in (table, following))
        if not following.names.keys() <= table.names.keys() or known & others:
            return
        if all(_alike(self._samples[index - 1], self._samples[index], column) for column in table.names):
            problem = (
                f"it can't be told whether row {following.header_row} names columns, or goes on with the table at row "
                f"{table.header_row}"
            )
            table.refusal = table.refusal or problem
            following.refusal = following.refusal or problem


def _read_sheet(sheet: Sheet, used: frozenset[str] | None) -> list[Table]:
    collector = _Collector(one_line(sheet.name), used)
    unsaid: list[Row] = []
    cut_tables(_with_cells(sheet.rows, unsaid), collector)
    collector.finish(unsaid)
    for table in collector.tables:
        if sheet.is_cut:
            table.refusal = "its sheet has more merged cells than are read"
    return collector.tables


def _with_cells(rows: Iterator[Row], others: list[Row]) -> Iterator[Row]:
    for row in rows:
        if row.cells:
            yield row
        else:
            others.append(row)


def _read_records(data: bytes | mmap, media_type: str, collector: _Collector) -> None:
    for number, record, names in sheet_records(data, media_type):
        cells = {column: cell for column, text in enumerate(record, start=1) if (cell := text.strip())}
        if not cells:
            continue
        row = Row(number, cells, {})
        if names:
            collector.begin(row, alone=False)
        else:
            collector.add(row)
    collector.finish(())


def _distinct(names: dict[int, str]) -> dict[int, str]:
    """Names of which each is there once, whatever the case: the second `Amount` is `Amount (2)`."""
    results: dict[int, str] = {}
    count: Counter[str] = Counter()
    for column, text in names.items():
        name = text or column_name(column)
        count[name.casefold()] += 1
        while (number := count[name.casefold()]) > 1:
            name = f"{text} ({number})"
            count[name.casefold()] += 1
        results[column] = name
    return results


def _blocks(names: dict[int, str]) -> list[list[int]]:
    """Columns that stand side by side."""
    blocks: list[list[int]] = []
    for column in sorted(names):
        if blocks and blocks[-1][-1] == column - 1:
            blocks[-1].append(column)
        else:
            blocks.append([column])
    return blocks


def _has_digits(row: Row) -> bool:
    return bool(row.typed) or any(_DIGIT.search(text) for text in row.cells.values())


def _alike(rows: list[Row], others: list[Row], column: int) -> bool:
    """Whether a column holds values of the same type in two tables, as far as they are told by a few rows."""
    return _sampled_type(rows, column) in {_sampled_type(others, column), None} or _sampled_type(others, column) is None


def _sampled_type(rows: list[Row], column: int) -> pb.TableType | None:
    cells = _sampled(rows, column)
    return read_column(cells, comma=None).type if cells else None


def _sampled(rows: list[Row], column: int) -> list[CellLike]:
    return [Cell(one_line(row.cells[column]), row.typed.get(column)) for row in rows if column in row.cells]
