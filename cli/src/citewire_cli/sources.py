"""Formats citations and search results as lines of text: place and quote."""

from rich.text import Text

from citewire_cli.jsonio import JsonObject, get_float, get_int, get_str
from citewire_cli.output import clean, one_line

SNIPPET_CHARACTERS = 160


def place(source: JsonObject) -> str:
    """A chunk's place in the document: part, page or slide, section, cells, row, path, time, lines.

    Empty without structure.

    Line numbers are shown only if there is nothing better (source code): prose has its section.
    """
    parts: list[str] = []
    page, row = get_int(source, "page_number"), get_int(source, "row_number")
    start, end = get_int(source, "start_line"), get_int(source, "end_line")
    if part := get_str(source, "part"):
        parts.append(one_line(part, 100))
    if page is not None:
        parts.append(f"page {page}")
    if (slide := get_int(source, "slide")) is not None:
        parts.append(f"slide {slide}")
    if section := get_str(source, "section"):
        parts.append(f"§ {one_line(section, 100)}")
    sheet, cells = get_str(source, "sheet"), get_str(source, "cell_range")
    if sheet:
        parts.append(one_line(f"{sheet}!{cells}" if cells else sheet, 100))
    if row is not None and not cells:
        last = get_int(source, "end_row_number")
        parts.append(f"row {row}" if last is None else f"rows {row}–{last}")
    elif (cell := get_int(source, "cell")) is not None:
        parts.append(f"cell {cell}")
    elif path := get_str(source, "record_path"):
        parts.append(one_line(path, 100))
    elif (seconds := get_float(source, "start_seconds")) is not None:
        parts.append(clock(seconds))
    elif start is not None and page is None:
        parts.append(f"lines {start}–{end}" if end is not None and end > start else f"line {start}")
    return ", ".join(parts)


def clock(seconds: float) -> str:
    """A time from the beginning, as players show it: ``00:01:05``."""
    whole = int(seconds)
    return f"{whole // 3600:02}:{whole // 60 % 60:02}:{whole % 60:02}"


def source_lines(number: int, source: JsonObject, text: str, *, limit: int = SNIPPET_CHARACTERS) -> list[Text]:
    """A numbered source: its place on the first line, below it its quotes, or the start of its text."""
    name = get_str(source, "file_name") or get_str(source, "title") or f"document {get_str(source, 'document_id')}"
    head = Text.assemble((f"[{number}] ", "bold cyan"), (clean(name), "bold"))
    if where := place(source):
        head.append(f", {where}")
    if (score := get_float(source, "score")) is not None:
        head.append(f"  {score:.2f}", style="dim")
    lines = [head]
    if url := get_str(source, "url"):
        lines.append(Text(f"    {clean(url)}", style="dim"))
    if snippet := one_line(text, limit):
        lines.append(Text(f"    {snippet}", style="dim"))
    return lines
