"""A table of a file, with its cells' values."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import compress
from typing import Final

from citewire_retriever.ingest.tabular import TableQueryError
from citewire_retriever.ingest.tabular.totals import Candidate, Verdict, settle
from citewire_retriever.ingest.tabular.values import CellLike, Column, Notation, read_column

HOW_TO_COMPUTE: Final = "open and save it in a spreadsheet"


@dataclass(slots=True)
class Table:
    """A table, with the cells of the columns that a query uses."""

    sheet: str
    header_row: int
    names: dict[int, str]
    """Unique names by column, from 1. A column without a name has its letters."""
    notation: Notation = field(default_factory=Notation)
    """How numbers are written, judging by the first rows."""
    cells: dict[int, list[CellLike]] = field(default_factory=dict[int, list[CellLike]])
    """Cells by column, one per row."""
    rows: list[int] = field(default_factory=list[int])
    """The rows' numbers."""
    excluded: list[int] = field(default_factory=list[int])
    """Numbers of rows with totals or notes, which aren't among the rows."""
    last_row: int = 0
    candidates: list[Candidate] = field(default_factory=list[Candidate])
    """Rows that may be totals of others, until decided."""
    gaps: list[int] = field(default_factory=list[int])
    """Indexes of rows below an empty one."""
    by_lines: bool = False
    """Whether row numbers are the file's line numbers."""
    is_sheet: bool = False
    """Whether its cells have names, like `B2`."""
    maybe_totals: dict[int, str] = field(default_factory=dict[int, str])
    """Numbers of rows that may or may not be totals of others, with their first texts."""
    headings: list[int] = field(default_factory=list[int])
    """Numbers of rows that may be headings of those below: of a table whose first row is one, all with only a name."""
    verdicts: tuple[Verdict, ...] = ()
    """The results for the candidates."""
    uncomputed: set[int] = field(default_factory=set[int])
    """Columns with formulas without stored values."""
    refusal: str = ""
    """Why results computed from it could be wrong."""

    def column(self, number: int) -> Column:
        """A column's values. Raises TableQueryError if the file doesn't store them."""
        if number in self.uncomputed:
            name = self.names[number]
            raise TableQueryError(
                "", f"the file doesn't contain the results of the formulas in column {name!r}: {HOW_TO_COMPUTE}"
            )
        return read_column(self.cells[number], self.notation)

    def settle_totals(self) -> None:
        """Decides which rows are totals of others, and removes them; needs the cells of all columns."""
        if not self.candidates:
            return
        columns = [column for number in self.cells if (column := self._try_column(number)) is not None]
        self.take(settle(self.candidates, columns, self.gaps, len(self.rows)))

    def take(self, verdicts: Sequence[Verdict]) -> None:
        """Takes the candidates' verdicts, in order."""
        judged = list(zip(self.candidates, verdicts, strict=True))
        totals = {each.index for each, verdict in judged if verdict is Verdict.TOTAL}
        self.maybe_totals = {
            self.rows[each.index]: each.text for each, verdict in judged if verdict is Verdict.UNDECIDED
        }
        self.verdicts = tuple(verdicts)
        self.candidates = []
        if not totals:
            return
        self.excluded = sorted([*self.excluded, *(self.rows[index] for index in totals)])
        staying = [index not in totals for index in range(len(self.rows))]
        self.rows = list(compress(self.rows, staying))
        self.cells = {column: list(compress(cells, staying)) for column, cells in self.cells.items()}

    def _try_column(self, number: int) -> Column | None:
        try:
            return self.column(number)
        except TableQueryError:
            return None
