"""Table rows as text."""

import re
from typing import Final

LABEL_LIMIT = 200
"""Code points of a column's name or a heading's label that are kept."""

NUMBER: Final = re.compile(r"[-+(]?[$€£]?\d[\d.,' ]*%?\)?")
"""What a cell holds that is a number, and so no column's name."""


def one_line(text: str) -> str:
    """Text with every run of white space as one space."""
    return " ".join(text.split())


def pairs(header: list[str], cells: list[str]) -> str:
    """A row as ``column: value`` lines; empty cells are left out, cells beyond the header are numbered from 1."""
    lines: list[str] = []
    for index, cell in enumerate(cells):
        value = cell.strip()
        if not value:
            continue
        name = header[index] if index < len(header) and header[index] else f"column {index + 1}"
        lines.append(f"{name[:LABEL_LIMIT]}: {value}")
    return "\n".join(lines)
