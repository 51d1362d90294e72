"""Tables of HTML pages: which hold data, and what their rows say."""

from citewire_retriever.ingest.parsers.html_measures import Measures
from citewire_retriever.ingest.parsers.html_text import is_skipped, visible_text
from citewire_retriever.ingest.parsers.lxml_facade import Element
from citewire_retriever.ingest.parsers.pairs import one_line
from citewire_retriever.ingest.parsers.tables import Cell, Grid, TableRow, table_rows

_MAX_SPAN = 1000
_MAX_CELLS = 2_000_000
_PLAIN = frozenset(
    {
        "a", "abbr", "b", "bdi", "bdo", "big", "cite", "code", "data", "em", "font", "i", "kbd", "label", "mark",
        "nobr", "samp", "small", "span", "strong", "time", "tt", "u", "var", "wbr"
    }
)  # fmt: skip
"""Inline elements."""
_ONE_BLOCK = frozenset({"center", "div", "p"})


def is_data_table(table: Element, measures: Measures) -> bool:
    """Whether a table contains data: not for layout, two or more columns, and not mostly nested tables."""
    if table.get("role", "") in {"presentation", "none"}:
        return False
    return measures.in_tables <= measures.visible / 2 and measures.columns


def read_table(table: Element) -> tuple[str, list[TableRow]]:
    """Reads a data table; its rows are those of `table_rows`.

    Returns:
        The caption (may be empty), and the rows that aren't empty.
    """
    caption = next((one_line("".join(visible_text(each))) for each in table.iter("caption")), "")
    return caption, table_rows(read_grid(table).rows)


def read_grid(table: Element) -> Grid:
    """The cells by row and column, with spans filled in."""
    grid: list[list[Cell]] = []
    feet: set[int] = set()
    is_cut = False
    pending: dict[int, tuple[int, Cell]] = {}  # by column: rows still covered, and the cell that covers them
    total = 0
    for row in table.iter("tr"):
        if is_skipped(row) or _table_of(row) is not table:
            continue
        line: list[Cell] = []
        part = _part_of(row)
        for element in row:
            if element.tag not in {"td", "th"} or is_skipped(element):
                continue
            _carry(pending, line)
            text = one_line("".join(visible_text(element)))
            cell = Cell(text, head=element.tag == "th" or part == "thead", plain=_is_plain(element))
            (rows, down), (columns, across) = _span(element, "rowspan"), _span(element, "colspan")
            is_cut = is_cut or down or across
            for _ in range(columns):
                if rows > 1:
                    pending[len(line)] = (rows - 1, cell)
                line.append(cell)
        _carry(pending, line)
        total += len(line)
        if total > _MAX_CELLS:
            is_cut = True
            break
        if line:
            feet |= {len(grid)} if part == "tfoot" else set()
            grid.append(line)
    return Grid(grid, frozenset(feet), is_cut)


def _is_plain(cell: Element) -> bool:
    """Whether a cell's text is one line, without raised or struck-through characters or list items."""
    blocks = 0
    for element in cell.iter():
        if element is cell or is_skipped(element):
            continue
        blocks += element.tag in _ONE_BLOCK
        if element.tag not in _PLAIN | _ONE_BLOCK:
            return False
    return blocks <= 1


def _part_of(row: Element) -> str:
    """`thead` or `tfoot`, if the row is in one."""
    around = row.getparent()
    return around.tag if around is not None and around.tag in {"thead", "tfoot"} else ""


def _table_of(row: Element) -> Element | None:
    around = row.getparent()
    while around is not None and around.tag != "table":
        around = around.getparent()
    return around


def _carry(pending: dict[int, tuple[int, Cell]], line: list[Cell]) -> None:
    """Appends the cells from above that span this position."""
    while len(line) in pending:
        column = len(line)
        rows, cell = pending.pop(column)
        if rows > 1:
            pending[column] = (rows - 1, cell)
        line.append(cell)


def _span(element: Element, name: str) -> tuple[int, bool]:
    """The number of rows or columns that a cell spans, within a limit."""
    value = element.get(name, "1").strip()
    number = int(value[:6]) if value.isdecimal() and value.isascii() else 1
    return min(max(number, 1), _MAX_SPAN), number == 0 or number > _MAX_SPAN
