"""Tables of HTML pages: which hold data, and what their rows say."""

from dataclasses import dataclass

from citewire_retriever.ingest.parsers.html_measures import Measures
from citewire_retriever.ingest.parsers.html_text import is_skipped, visible_text
from citewire_retriever.ingest.parsers.lxml_facade import Element
from citewire_retriever.ingest.parsers.pairs import one_line, pairs

_MAX_SPAN = 1000
_MAX_CELLS = 2_000_000


@dataclass(frozen=True, slots=True)
class _Cell:
    text: str
    head: bool


@dataclass(frozen=True, slots=True)
class TableRow:
    """A row as text."""

    text: str
    """``column: value`` pairs, or values."""
    wide: bool
    """Whether it is one cell across the table: a title, not data."""


def is_data_table(table: Element, measures: Measures) -> bool:
    """Whether a table's rows are data: it isn't for layout, has two columns or more, and isn't mostly other tables."""
    if table.get("role", "") in {"presentation", "none"}:
        return False
    return measures.in_tables <= measures.visible / 2 and measures.columns


def read_table(table: Element) -> tuple[str, list[TableRow]]:
    """Reads a data table.

    A cell that spans rows or columns says the same in each. The first rows of headings only make the header, joined
    from the top down; rows above them, and later ones, that are one wide cell have no columns. Without a header, a row
    is ``heading: values`` if it starts with a heading cell, and else its values.

    Returns:
        The caption (may be empty), and the rows that aren't empty.
    """
    caption = next((one_line("".join(visible_text(each))) for each in table.iter("caption")), "")
    grid = _grid(table)
    first = next((index for index, cells in enumerate(grid) if not _is_wide(cells)), len(grid))
    depth = _header_depth(grid[first:])
    header = _header(grid[first : first + depth])
    rows = [_row(header, cells) for cells in [*grid[:first], *grid[first + depth :]]]
    if depth and not any(row.text for row in rows):
        rows = [TableRow(" | ".join(name for name in header if name), wide=False)]
    return caption, [row for row in rows if row.text]


def _is_wide(cells: list[_Cell]) -> bool:
    """Whether a row is one cell across all columns: a title, not data."""
    return all(cell is cells[0] for cell in cells)


def _row(header: list[str], cells: list[_Cell]) -> TableRow:
    if _is_wide(cells):
        return TableRow(cells[0].text, wide=True)
    if header:
        return TableRow(pairs(header, [cell.text for cell in cells]), wide=False)
    texts = [
        cell.text for index, cell in enumerate(cells) if cell.text and (index == 0 or cell is not cells[index - 1])
    ]
    if len(texts) > 1 and (cells[0].head or texts[0].endswith(":")):
        return TableRow(f"{texts[0].removesuffix(':')}: {' | '.join(texts[1:])}", wide=False)
    return TableRow(" | ".join(texts), wide=False)


def _grid(table: Element) -> list[list[_Cell]]:
    """The cells by row and column, with spans filled in."""
    grid: list[list[_Cell]] = []
    pending: dict[int, tuple[int, _Cell]] = {}  # column -> rows still covered, and the cell that covers them
    total = 0
    for row in table.iter("tr"):
        if is_skipped(row) or _table_of(row) is not table:
            continue
        line: list[_Cell] = []
        for element in row:
            if element.tag not in {"td", "th"} or is_skipped(element):
                continue
            _carry(pending, line)
            cell = _Cell(one_line("".join(visible_text(element))), head=element.tag == "th")
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


def _carry(pending: dict[int, tuple[int, _Cell]], line: list[_Cell]) -> None:
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


def _header_depth(grid: list[list[_Cell]]) -> int:
    depth = 0
    for cells in grid:
        if _is_wide(cells) or not all(cell.head for cell in cells):
            break
        depth += 1
    return depth


def _header(rows: list[list[_Cell]]) -> list[str]:
    """The columns' names: the texts above each other, each of them once."""
    columns: list[dict[str, None]] = []
    for row in rows:
        columns += [{} for _ in range(len(row) - len(columns))]
        for texts, cell in zip(columns, row, strict=False):
            if cell.text:
                texts[cell.text] = None
    return [" / ".join(texts) for texts in columns]
