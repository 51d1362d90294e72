"""Tables as self-explanatory rows: each value with its column's name."""

from dataclasses import dataclass

from citewire.common.v1.place_pb2 import Place

from citewire_retriever.ingest.document import Block, BlockKind, TextBuilder
from citewire_retriever.ingest.parsers.pairs import LABEL_LIMIT, NUMBER, pairs, unrepeated


@dataclass(frozen=True, slots=True)
class Cell:
    """A cell; one that spans rows or columns is the same object in each."""

    text: str
    """Its text on one line."""
    head: bool
    """Whether it names its column or row."""
    plain: bool = True
    """Whether its text is one line without raised or struck-through characters, so a number in it can be trusted."""


@dataclass(frozen=True, slots=True)
class Grid:
    """A table's cells by row and column, with spans filled in."""

    rows: list[list[Cell]]
    feet: frozenset[int] = frozenset()
    """Indices of rows, from 0, that the file marks as summaries of others."""
    is_cut: bool = False
    """Whether the table was truncated."""


@dataclass(frozen=True, slots=True)
class TableRow:
    """A row as text."""

    text: str
    """``column: value`` pairs, or values."""
    wide: bool
    """Whether it is one cell across the table: a title, not data."""
    number: int = 0
    """Its row number in the table, from 1; a header without data has its first row's."""


def table_rows(grid: list[list[Cell]]) -> list[TableRow]:
    """The rows of a table that aren't empty, in order.

    The leading rows of only heading cells form the header, joined from the top down. Rows of one wide cell, above it or
    later, have no columns. Without a header, a row that starts with a heading cell becomes ``heading: values``, any
    other its values. Names of columns without values, and those too long to be repeated, are a row of their own.
    """
    first, depth, header = split_header(grid)
    above = [_row(number, header, cells) for number, cells in enumerate(grid[:first], start=1)]
    below = grid[first + depth :]
    rows = [_row(number, header, cells) for number, cells in enumerate(below, start=first + depth + 1)]
    texts = ([cell.text for cell in cells] for cells in below if not is_wide(cells))
    names = TableRow(" | ".join(dict.fromkeys(unrepeated(header, texts))), wide=False, number=first + 1)
    return [row for row in [*above, names, *rows] if row.text]


def split_header(grid: list[list[Cell]]) -> tuple[int, int, list[str]]:
    """A table's header: its first row, number of rows and column names; no rows if none is marked."""
    first = next((index for index, cells in enumerate(grid) if not is_wide(cells)), len(grid))
    depth = _header_depth(grid[first:])
    return first, depth, _header(grid[first : first + depth])


def mark_header(grid: list[list[Cell]], depth: int) -> list[list[Cell]]:
    """The same table with its first `depth` rows as header; if the file marks none, the first row may be it.

    It is if more rows follow, and all its cells (except the first) contain words, none a number or a long text.
    """
    if not depth and len(grid) > 1 and len(grid[0]) > 1 and not is_wide(grid[0]):
        first = grid[0]
        depth = int(all(cell.text for cell in first[1:]) and not any(map(_is_value, first)))
    marked: dict[int, Cell] = {}
    for row in grid[:depth]:
        marked.update((id(cell), Cell(cell.text, head=True, plain=cell.plain)) for cell in row)
    return [[marked.get(id(cell), cell) for cell in row] if index < depth else row for index, row in enumerate(grid)]


def add_rows(builder: TextBuilder, grid: list[list[Cell]], place: Place | None = None, name: str = "") -> None:
    """Adds each of a table's rows as a block; with a table name, each also gets its place in the table."""
    for row in table_rows(grid):
        start, end = builder.write(row.text)
        kind = BlockKind.PARAGRAPH if row.wide else BlockKind.ROW
        builder.add(Block(kind, start, end, place=place_in(name, row) if name else place or Place()))


def table_name(number: int) -> str:
    """The name of a text's table, numbered from 1."""
    return f"Table {number}"


def place_in(name: str, row: TableRow) -> Place:
    """A row's place in its table; a title across the table isn't counted as a row."""
    return Place() if row.wide else Place(sheet=name, row=row.number)


def is_wide(cells: list[Cell]) -> bool:
    """Whether a row is one cell across all columns: a title, not data."""
    return all(cell is cells[0] for cell in cells)


def _is_value(cell: Cell) -> bool:
    return len(cell.text) > LABEL_LIMIT or NUMBER.fullmatch(cell.text) is not None


def _row(number: int, header: list[str], cells: list[Cell]) -> TableRow:
    if is_wide(cells):
        return TableRow(cells[0].text, wide=True, number=number)
    if header:
        return TableRow(pairs(header, [cell.text for cell in cells]), wide=False, number=number)
    texts = [
        cell.text for index, cell in enumerate(cells) if cell.text and (index == 0 or cell is not cells[index - 1])
    ]
    if len(texts) > 1 and (cells[0].head or texts[0].endswith(":")):
        return TableRow(f"{texts[0].removesuffix(':')}: {' | '.join(texts[1:])}", wide=False, number=number)
    return TableRow(" | ".join(texts), wide=False, number=number)


def _header_depth(grid: list[list[Cell]]) -> int:
    depth = 0
    for cells in grid:
        if is_wide(cells) or not all(cell.head for cell in cells):
            break
        depth += 1
    return depth


def _header(rows: list[list[Cell]]) -> list[str]:
    """The column names: the texts above each other, each once."""
    columns: list[dict[str, None]] = []
    for row in rows:
        columns += [{} for _ in range(len(row) - len(columns))]
        for texts, cell in zip(columns, row, strict=False):
            if cell.text:
                texts[cell.text] = None
    return [" / ".join(texts) for texts in columns]
