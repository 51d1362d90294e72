"""Plain-text tables, for benchmarks and for the long tests."""

from __future__ import annotations

import platform
from collections.abc import Sequence
from pathlib import Path


def format_table(headings: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """Columns as wide as their widest cell; text to the left, numbers to the right. Markdown, ready for the docs."""
    cells = [[_cell(value) for value in row] for row in rows]
    widths = [max(len(line[i]) for line in [list(headings), *cells]) for i in range(len(headings))]
    numeric = [bool(rows) and all(isinstance(row[i], (int, float)) for row in rows) for i in range(len(headings))]
    rule = [("-" * (width - 1) + ":") if right else "-" * width for width, right in zip(widths, numeric, strict=True)]
    return "\n".join(_line(line, widths, numeric) for line in [list(headings), rule, *cells])


def describe_machine() -> str:
    """One line to quote with a figure: processor, cores, memory, Python."""
    model = _first_value(Path("/proc/cpuinfo"), "model name") or platform.processor() or platform.machine()
    memory = _first_value(Path("/proc/meminfo"), "MemTotal")
    gibibytes = f", {int(memory.split()[0]) / 2**20:.0f} GiB" if memory else ""
    cores = sum(1 for line in _lines(Path("/proc/cpuinfo")) if line.startswith("processor"))
    system = f"{platform.system()} {platform.release()}, Python {platform.python_version()}"
    return f"{model}, {cores} cores{gibibytes}, {system}"


def _line(cells: Sequence[str], widths: Sequence[int], right: Sequence[bool]) -> str:
    padded = [
        cell.rjust(width) if to_right else cell.ljust(width)
        for cell, width, to_right in zip(cells, widths, right, strict=True)
    ]
    return f"| {' | '.join(padded)} |"


def _cell(value: object) -> str:
    if not isinstance(value, float):
        return str(value)
    digits = 0 if abs(value) >= 100 else 1 if abs(value) >= 10 else 2  # three significant figures
    return f"{value:,.{digits}f}"


def _first_value(path: Path, key: str) -> str | None:
    for line in _lines(path):
        name, _, value = line.partition(":")
        if name.strip() == key:
            return value.strip()
    return None


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text(encoding="utf-8").splitlines()
    except OSError:  # not Linux
        return []
