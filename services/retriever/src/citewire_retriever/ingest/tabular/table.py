"""A table of a file, with what its cells hold."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import compress
from typing import Final

from citewire_retriever.ingest.tabular import TableQueryError
from citewire_retriever.ingest.tabular.totals import Candidate, Verdict, settle
from citewire_retriever.ingest.tabular.values import CellLike, Column, read_column

HOW_TO_COMPUTE: Final = "open and save it in a spreadsheet"


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
    candidates: list[Candidate] = field(default_factory=list[Candidate])
    """Rows that may hold totals of others, until that is settled."""
    gaps: list[int] = field(default_factory=list[int])
    """Indexes of rows that stand below an empty one."""
    by_lines: bool = False
    """Whether the rows' numbers are those of the file's lines."""
    is_sheet: bool = False
    """Whether its cells have names, like `B2`."""
    maybe_totals: dict[int, str] = field(default_factory=dict[int, str])
    """Numbers of rows of which it can't be told whether they hold totals of others, with what they begin with."""
    verdicts: tuple[Verdict, ...] = ()
    """What the candidates were."""
    uncomputed: set[int] = field(default_factory=set[int])
    """Columns with formulas whose values the file doesn't say."""
    refusal: str = ""
    """Why no number over it would be right."""

    def column(self, number: int) -> Column:
        """What a column holds. Raises TableQueryError: the file doesn't say it."""
        if number in self.uncomputed:
            name = self.names[number]
            raise TableQueryError(
                "", f"the file doesn't say what formulas in column {name!r} come to: {HOW_TO_COMPUTE}"
            )
        return read_column(self.cells[number], comma=self.comma)

    def settle_totals(self) -> None:
        """Decides which rows hold totals of others, and leaves these out; it must have the cells of all columns."""
        if not self.candidates:
            return
        columns = [column for number in self.cells if (column := self._try_column(number)) is not None]
        self.take(settle(self.candidates, columns, self.gaps, len(self.rows)))

    def take(self, verdicts: Sequence[Verdict]) -> None:
        """Takes what the candidates are, in their order."""
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
