"""Table rows as text."""

import re
from collections.abc import Iterable, Sequence
from typing import Final

LABEL_LIMIT = 200
"""Maximum code points of a column's name or a heading's label."""

NUMBER: Final = re.compile(r"[-+(]?[$€£]?\d[\d.,' ]*%?\)?")
"""Matches a cell that is a number, and so can't name a column."""
YEAR: Final = re.compile(r"(?:19|20|21)\d\d")
"""Matches a number that can name a column after all."""


def one_line(text: str) -> str:
    """Text with runs of white space collapsed to one space."""
    return " ".join(text.split())


def pairs(header: list[str], cells: list[str]) -> str:
    """A row as ``column: value`` lines; empty cells are left out, cells beyond the header are numbered from 1.

    In a table with a header, a first column without a name has the rows' own names, which stand alone.
    """
    lines: list[str] = []
    first_is_name = any(header[1:]) and not header[0]
    for index, cell in enumerate(cells):
        value = cell.strip()
        if not value:
            continue
        if index == 0 and first_is_name:
            lines.append(value)
            continue
        name = header[index] if index < len(header) and header[index] else f"column {index + 1}"
        lines.append(f"{name[:LABEL_LIMIT]}: {value}")
    return "\n".join(lines)


def unrepeated(header: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    """The column names that no row repeats in full: those above no value, and those too long for that."""
    left = {name for name in header if name}
    for cells in rows:
        if not left:
            break
        named = zip(header, cells, strict=False)
        left -= {name for name, cell in named if cell and not cell.isspace() and len(name) <= LABEL_LIMIT}
    return [name for name in header if name in left]
