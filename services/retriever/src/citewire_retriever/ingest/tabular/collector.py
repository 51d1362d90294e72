"""Builds tables from a sheet's rows."""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Final

from citewire.retriever.v1 import table_pb2 as pb

from citewire_retriever.ingest.cells import column_name
from citewire_retriever.ingest.parsers.pairs import NUMBER, YEAR, one_line
from citewire_retriever.ingest.parsers.workbook import Row, column_names
from citewire_retriever.ingest.tabular import TableQueryError
from citewire_retriever.ingest.tabular.table import HOW_TO_COMPUTE, Table
from citewire_retriever.ingest.tabular.totals import Candidate, Label, label_of, says_total
from citewire_retriever.ingest.tabular.values import Cell, CellLike, Notation, fold, notation_of, read_column

MOST_ROWS: Final = 2_000_000
"""Most rows of a table for computing."""
MOST_CELLS: Final = 12_000_000
"""Most cells of the columns that a query uses."""
_MOST_READ_TWICE: Final = 20_000
"""Most rows of a table that is read twice just to see whether its last row is a total without a known label."""
_MOST_BESIDE_A_NAME: Final = 2
"""Most columns of a table in which a row with only a name is an ordinary one."""
_SAMPLED_ROWS: Final = 50
_SHARED_TEXTS: Final = 10_000
_NOTE: Final = re.compile(r"\*|(?:source|notes?|quellen?|hinweis|anmerkung(?:en)?|nota|fuente)\s?:", re.I)
_DIGIT: Final = re.compile(r"\d")
_NOTE_CHARS: Final = 60


class Collector:
    """Receives a sheet's rows, and builds tables from them."""

    def __init__(self, sheet: str, used: frozenset[str] | None, *, by_lines: bool = False) -> None:
        """Takes the sheet's name, and the folded names of columns to keep; None for all."""
        self.header_seen = False
        self.tables: list[Table] = []
        self.unsaid: list[Row] = []
        """Rows with only formulas without stored values."""
        self._by_lines = by_lines
        self._sheet = sheet
        self._names = used
        self._samples: list[list[Row]] = []
        """The first rows of each table."""
        self._blocks: list[list[int]] = []
        """Groups of the current table's columns, separated by empty ones."""
        self._lopsided = False
        """Whether some row is empty in one of these groups."""
        self._texts: dict[str, str] = {}
        self._last_text = ""
        self._above: list[Row] = []
        """Wide rows with numbers above the first header, which may be data; only the first ones."""
        self._header: dict[int, str] = {}
        """The cells of the current table's header."""

    def begin(self, row: Row, *, alone: bool) -> None:
        """Starts a table."""
        self._finish()
        self.header_seen = True
        names = _distinct(column_names(row))
        table = Table(self._sheet, row.number, names, last_row=row.number, by_lines=self._by_lines)
        if any(NUMBER.fullmatch(name) and not YEAR.fullmatch(name) for name in table.names.values()):
            table.refusal = (
                f"its first row, {row.number}, looks like data: a row with the names of the columns is missing"
            )
        above = next((each for each in self._above if len(each.cells) >= len(row.cells)), None)
        if above is not None and not self.tables:
            table.refusal = f"row {above.number}, above its header, looks like data"
        self.tables.append(table)
        self._samples.append([])
        self._lopsided = False
        self._header = row.cells
        self._blocks = _blocks(table.names)
        table.cells = {column: [] for column, name in table.names.items() if self._is_used(name)}

    def add(self, row: Row) -> None:
        """Adds a row to the table."""
        if not self.tables:
            if len(row.cells) > 1 and len(self._above) < _SAMPLED_ROWS and _has_digits(row):
                self._above.append(row)
            return
        table = self.tables[-1]
        text = one_line(next(iter(row.cells.values())))
        follows = row.number == table.last_row + 1
        table.last_row = row.number
        if (follows and row.cells == self._header) or _is_left_out(row, text, table.names, follows=follows):
            table.excluded.append(row.number)
            return
        sample = self._samples[-1]
        if not follows:
            table.gaps.append(len(table.rows))
            if sample and not _has_digits(row) and not _goes_on(sample, row):
                problem = f"it isn't clear whether row {row.number}, below an empty one, belongs to it"
                table.refusal = table.refusal or problem
        if len(sample) < _SAMPLED_ROWS:
            sample.append(row)
        for column in row.cells.keys() - table.names.keys():
            self._add_column(table, column)
        if len(self._blocks) > 1 and not all(any(column in row.cells for column in block) for block in self._blocks):
            self._lopsided = True
        if len(table.rows) >= MOST_ROWS or len(table.rows) * len(table.cells) >= MOST_CELLS:
            most = f"{MOST_ROWS:,} rows and {MOST_CELLS:,} cells"
            raise TableQueryError(
                "", f"the table at row {table.header_row} is too large to be queried: the maximum is {most}"
            )
        if (not table.rows or table.headings) and len(table.names) > _MOST_BESIDE_A_NAME and _is_name(row, table.names):
            table.headings.append(row.number)
        self._note_candidate(table, row, text, follows=follows)
        self._last_text = text
        table.rows.append(row.number)
        for column, cells in table.cells.items():
            cells.append(self._cell(row, column))
        table.uncomputed |= {column for column, typed in row.typed.items() if typed.kind == "formula"}

    def leave_out(self, row: Row) -> None:
        """Takes a row of the table that the file marks as separate from its data."""
        if self.tables:
            self.tables[-1].excluded.append(row.number)
            self.tables[-1].last_row = row.number

    def _note_candidate(self, table: Table, row: Row, text: str, *, follows: bool) -> None:
        label = label_of(row, min(table.names))
        if follows and label is None and table.candidates and table.candidates[-1].label is Label.NONE:
            last = table.candidates[-1]
            if last.index == len(table.rows) - 1:  # it isn't the last row, and so not a total
                table.candidates.pop()
        if label is not None:
            table.candidates.append(Candidate(len(table.rows), label, text[:_NOTE_CHARS]))

    def _is_used(self, name: str) -> bool:
        return self._names is None or fold(name) in self._names

    def _add_column(self, table: Table, column: int) -> None:
        """Adds a column without a name."""
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
            # Equal texts share one object, as a long table has few different ones.
            return (
                self._texts.setdefault(text, text) if len(self._texts) < _SHARED_TEXTS else self._texts.get(text, text)
            )
        return Cell(text, typed, reached=column in row.reached) if text else ""

    def finish(self) -> list[Table]:
        """Ends the last table, and returns all."""
        self._finish()
        rows = self.unsaid
        for index, table in enumerate(self.tables):
            end = self.tables[index + 1].header_row if index + 1 < len(self.tables) else None
            if any(table.header_row < row.number and (end is None or row.number < end) for row in rows):
                table.refusal = (
                    table.refusal or f"the file doesn't contain the results of its formulas: {HOW_TO_COMPUTE}"
                )
        for index in range(1, len(self.tables)):
            self._check_end(index)
        return self.tables

    def _finish(self) -> None:
        if not self.tables:
            return
        table, sample = self.tables[-1], self._samples[-1]
        table.names = dict(sorted(table.names.items()))
        index = len(table.rows) - 1
        if 0 < index < _MOST_READ_TWICE and not any(each.index == index for each in table.candidates[-1:]):
            table.candidates.append(Candidate(index, Label.LAST, self._last_text[:_NOTE_CHARS]))
        table.notation = notation_of(_sampled(sample, column) for column in table.names)
        if self._lopsided:
            table.refusal = table.refusal or "tables of different lengths stand side by side in it"

    def _check_end(self, index: int) -> None:
        """Refuses a table that may continue below what looks like the header of another one."""
        table, following = self.tables[index - 1 : index + 1]
        known, others = (frozenset(map(fold, each.names.values())) for each in (table, following))
        if not following.names.keys() <= table.names.keys() or known & others:
            return
        if all(_alike(self._samples[index - 1], self._samples[index], column) for column in table.names):
            problem = (
                f"it isn't clear whether row {following.header_row} names columns or continues the table at row "
                f"{table.header_row}"
            )
            table.refusal = table.refusal or problem
            following.refusal = following.refusal or problem


def _distinct(names: dict[int, str]) -> dict[int, str]:
    """Makes names unique regardless of case: the second `Amount` becomes `Amount (2)`."""
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
    """Groups of adjacent columns."""
    blocks: list[list[int]] = []
    for column in sorted(names):
        if blocks and blocks[-1][-1] == column - 1:
            blocks[-1].append(column)
        else:
            blocks.append([column])
    return blocks


def _is_left_out(row: Row, text: str, names: Mapping[int, str], *, follows: bool) -> bool:
    """Whether a row is a title or a note: a single cell that is long, wide, below an empty row, or worded as one."""
    if not len(row.cells) == 1 < len(names):
        return False
    column = next(iter(row.cells))
    if column not in names or row.wide.get(column, column) - column + 1 >= len(names):
        return True
    return not follows or len(text) > _NOTE_CHARS or says_total(text) or _NOTE.match(text) is not None


def _is_name(row: Row, names: Mapping[int, str]) -> bool:
    """Whether a row has only a name, in the first column."""
    return row.cells.keys() == {min(names)} and not _has_digits(row)


def _goes_on(rows: Sequence[Row], row: Row) -> bool:
    """Whether words below an empty row continue a table, which has some of them and no more numbers than words."""
    if 2 * sum(map(_has_digits, rows)) > len(rows):
        return False
    return any(fold(text) in {fold(each.cells.get(column, "")) for each in rows} for column, text in row.cells.items())


def _has_digits(row: Row) -> bool:
    return bool(row.typed) or any(_DIGIT.search(text) for text in row.cells.values())


def _alike(rows: list[Row], others: list[Row], column: int) -> bool:
    """Whether a column has the same type in two tables, judging by a few rows."""
    return _sampled_type(rows, column) in {_sampled_type(others, column), None} or _sampled_type(others, column) is None


def _sampled_type(rows: list[Row], column: int) -> pb.TableType | None:
    cells = _sampled(rows, column)
    return read_column(cells, Notation()).type if cells else None


def _sampled(rows: list[Row], column: int) -> list[CellLike]:
    return [Cell(one_line(row.cells[column]), row.typed.get(column)) for row in rows if column in row.cells]
