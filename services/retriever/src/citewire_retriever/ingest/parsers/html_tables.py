"""Tables of HTML pages: which hold data, and what their rows say."""

from citewire_retriever.ingest.parsers.html_measures import Measures
from citewire_retriever.ingest.parsers.html_text import is_skipped, visible_text
from citewire_retriever.ingest.parsers.lxml_facade import Element
from citewire_retriever.ingest.parsers.pairs import one_line
from citewire_retriever.ingest.parsers.tables import Cell, TableRow, table_rows

_MAX_SPAN = 1000
_MAX_CELLS = 2_000_000


def is_data_table(table: Element, measures: Measures) -> bool:
    """Whether a table's rows are data: it isn't for layout, has two columns or more, and isn't mostly other tables."""
    if table.get("role", "") in {"presentation", "none"}:
        return False
    return measures.in_tables <= measures.visible / 2 and measures.columns


def read_table(table: Element) -> tuple[str, list[TableRow]]:
    """Reads a data table; its rows are as `table_rows` has them.

    Returns:
        The caption (may be empty), and the rows that aren't empty.
    """
    caption = next((one_line("".join(visible_text(each))) for each in table.iter("caption")), "")
    return caption, table_rows(_grid(table))


def _grid(table: Element) -> list[list[Cell]]:
    """The cells by row and column, with spans filled in."""
    grid: list[list[Cell]] = []
    pending: dict[int, tuple[int, Cell]] = {}  # column -> rows still covered, and the cell that covers them
    total = 0
    for row in table.iter("tr"):
        if is_skipped(row) or _table_of(row) is not table:
            continue
        line: list[Cell] = []
        for element in row:
            if element.tag not in {"td", "th"} or is_skipped(element):
                continue
            _carry(pending, line)
            cell = Cell(one_line("".join(visible_text(element))), head=element.tag == "th")
            rows, columns = _span(element, "rowspan"), _span(element, "colspan")
            for _ in range(columns):
                if rows > 1:
                    pending[len(line)] = (rows - 1, cell)
                line.append(cell)
        _carry(pending, line)
        total += len(line)
        if total > _MAX_CELLS:
            break
        if line:
            grid.append(line)
    return grid


def _table_of(row: Element) -> Element | None:
    around = row.getparent()
    while around is not None and around.tag != "table":
        around = around.getparent()
    return around


def _carry(pending: dict[int, tuple[int, Cell]], line: list[Cell]) -> None:
    """Appends the cells from above that reach down to this place."""
    while len(line) in pending:
        column = len(line)
        rows, cell = pending.pop(column)
        if rows > 1:
            pending[column] = (rows - 1, cell)
        line.append(cell)


def _span(element: Element, name: str) -> int:
    value = element.get(name, "")[:6]
    return min(int(value), _MAX_SPAN) if value.isdecimal() and value.isascii() and int(value) > 0 else 1
