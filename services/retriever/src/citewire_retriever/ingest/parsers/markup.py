"""reStructuredText, AsciiDoc and Org: the stored text is the file; headings are sections, and code keeps its lines.

Files are read line by line. Computed content (includes, macros, substitutions) is left as written, so no file can make
the reader open another.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from citewire_retriever.ingest.document import (
    Block,
    BlockKind,
    Format,
    LineIndex,
    ParsedDocument,
    ParseLimits,
    check_blocks,
)
from citewire_retriever.ingest.parsers.markup_tables import TextTable, read_adoc_table, read_rst_table
from citewire_retriever.ingest.parsers.pairs import LABEL_LIMIT, NUMBER, one_line, pairs
from citewire_retriever.ingest.parsers.plain import lined_block, paragraphs

_MOST_LINE: Final = 300
"""Code points of a line that are examined: no heading or structural mark is longer."""
_ADORNMENT: Final = re.compile(r"([!-/:-@\[-`{-~])\1{1,}\s*")
_DIRECTIVE: Final = re.compile(r"\.\. (?:code|code-block|sourcecode|literalinclude|highlight|math|parsed-literal)::")
_ADOC_HEADING: Final = re.compile(r"(={1,6})\s+(\S.*)")
_ADOC_UNDERLINE: Final = re.compile(r"(={3,}|-{3,}|~{3,}|\^{3,}|\+{3,})\s*")
_ADOC_FENCE: Final = re.compile(r"(?:-{4,}|\.{4,}|\+{4,}|/{4,}|```\w*)\s*")
_ADOC_TABLE: Final = "|==="
_ORG_HEADING: Final = re.compile(r"(\*{1,6})\s+(?:(?:TODO|DONE|NEXT|WAITING)\s+)?(?:\[#\w\]\s+)?(\S.*)")
_ORG_TAGS: Final = re.compile(r"\s+:[\w@#%:]+:\s*\Z")
_ORG_BEGIN: Final = re.compile(r"\s*#\+begin_(src|example|export)\b.*", re.I)
_ORG_END: Final = re.compile(r"\s*#\+end_(src|example|export)\s*", re.I)
_ORG_KEYWORD: Final = re.compile(r"\s*#\+title:\s*(\S.*)", re.I)
_ORG_RULE: Final = re.compile(r"\s*\|[-+|]+\|?\s*")


@dataclass(frozen=True, slots=True)
class _Part:
    """Lines of a file that form one unit: [first, end)."""

    kind: BlockKind
    first: int
    end: int
    level: int = 0
    label: str = ""
    row: str | None = None
    """A row as pairs, empty for a rule between rows; None for a row of Org, which is read with its header above."""


# Each reader finds headings, code and rows among a file's lines; what lies between is text.


def parse_markup(text: str, limits: ParseLimits, *, media_type: str) -> ParsedDocument:
    """Parses decoded text of one of these media types, named as in `kinds`. Rows of tables with a header become rows.

    Raises:
        IngestError: TOO_LARGE.
    """
    cut = {"text/x-rst": _cut_rst, "text/asciidoc": _cut_adoc, "text/org": _cut_org}[media_type]
    lines = LineIndex(text)
    rows = text.split("\n")
    starts = [*lines.starts, len(text) + 1]
    blocks: list[Block] = []
    header: list[str] | None = None
    done = 0
    for part in [*cut(rows), _Part(BlockKind.PARAGRAPH, len(rows), len(rows))]:
        blocks += paragraphs(text, starts[done], max(starts[done], starts[part.first] - 1), lines)
        header = header if done == part.first else None
        done = max(done, part.end)
        start, end = starts[part.first], starts[part.end] - 1
        end = start + len(text[start:end].rstrip())
        if start >= end or _ORG_RULE.fullmatch(text[start : min(end, start + _MOST_LINE)]):
            continue
        if part.row is not None:
            if part.row:
                line = lined_block(BlockKind.ROW, start, end, lines)
                blocks.append(Block(BlockKind.ROW, start, end, place=line.place, text=part.row))
            continue
        if part.kind is not BlockKind.ROW:
            header = None
            blocks.append(lined_block(part.kind, start, end, lines, level=part.level, label=part.label))
            continue
        cells = [cell.strip() for cell in text[start:end].strip().strip("|").split("|")]
        if header is None:
            header = cells
            blocks.append(lined_block(BlockKind.PARAGRAPH, start, end, lines))
        elif row := pairs(header, cells):
            line = lined_block(BlockKind.ROW, start, end, lines)
            blocks.append(Block(BlockKind.ROW, start, end, place=line.place, text=row))
    check_blocks(len(blocks), limits)
    title = next((block.label for block in blocks if block.kind is BlockKind.HEADING), None)
    return ParsedDocument(
        Format.MARKUP, media_type, text, tuple(blocks), title=_keyword_title(rows, media_type) or title, has_lines=True
    )


def _keyword_title(rows: list[str], media_type: str) -> str | None:
    """The title from an Org file's title line."""
    if media_type != "text/org":
        return None
    match = next((match for row in rows[:50] if (match := _ORG_KEYWORD.fullmatch(row[:_MOST_LINE]))), None)
    return one_line(match.group(1))[:LABEL_LIMIT] if match else None


def _cut_rst(rows: list[str]) -> list[_Part]:
    """Finds underlined titles; the characters used get levels in order of appearance."""
    parts: list[_Part] = []
    levels: dict[tuple[str, bool], int] = {}
    index = 0
    while index < len(rows):
        row = rows[index]
        if len(row) <= _MOST_LINE:
            heading = _rst_heading(rows, index)
            if heading is not None:
                over, first, end = heading
                sign = rows[end - 1][0]
                level = levels.setdefault((sign, over), len(levels) + 1)
                label = one_line(rows[first])[:LABEL_LIMIT]
                parts.append(_Part(BlockKind.HEADING, index, end, min(level, 6), label))
                index = end
                continue
            if (table := read_rst_table(rows, index)) is not None:
                parts += _table_parts(table)
                index = table.end
                continue
            if _DIRECTIVE.match(row) or (row.rstrip().endswith("::") and not row.startswith("..")):
                end = _indented(rows, index)
                if end > index + 1:
                    ends_paragraph = not row.startswith("..") and index > 0 and bool(rows[index - 1].strip())
                    below = next(at for at in range(index + 1, end) if rows[at].strip())
                    parts.append(_Part(BlockKind.CODE, below if ends_paragraph else index, end))
                    index = end
                    continue
        index += 1
    return parts


def _table_parts(table: TextTable) -> list[_Part]:
    """A table's header as text, its rows, and the rules between them."""
    header, *rows = table.rows
    parts = [
        _Part(BlockKind.ROW, table.first, header.first, row=""),
        _Part(BlockKind.PARAGRAPH, header.first, header.end),
    ]
    done = header.end
    for row in rows:
        parts.append(_Part(BlockKind.ROW, done, row.first, row=""))
        parts.append(_Part(BlockKind.ROW, row.first, row.end, row=pairs(list(header.cells), list(row.cells))))
        done = row.end
    return [part for part in [*parts, _Part(BlockKind.ROW, done, table.end, row="")] if part.first < part.end]


def _rst_heading(rows: list[str], index: int) -> tuple[bool, int, int] | None:
    """The title that starts here, if any: its overline if it has one, its text and its underline."""
    over = bool(_ADORNMENT.fullmatch(rows[index]))
    first = index + over
    if first + 1 >= len(rows) or len(rows[first]) > _MOST_LINE or len(rows[first + 1]) > _MOST_LINE:
        return None
    title, under = rows[first], rows[first + 1]
    if not title.strip() or not _ADORNMENT.fullmatch(under) or _ADORNMENT.fullmatch(title):
        return None
    if over and rows[index].rstrip() != under.rstrip():
        return None
    is_long_enough = len(under.rstrip()) >= len(title.strip()) or len(under.rstrip()) >= 4
    is_paragraph = not over and (title[0].isspace() or (index > 0 and bool(rows[index - 1].strip())))
    return (over, first, first + 2) if is_long_enough and not is_paragraph else None


def _indented(rows: list[str], index: int) -> int:
    """The row after the block indented below a row."""
    margin = len(rows[index]) - len(rows[index].lstrip())
    end = last = index + 1
    while end < len(rows):
        row = rows[end]
        if row.strip():
            if len(row) - len(row.lstrip()) <= margin:
                break
            last = end + 1
        end += 1
    return last


def _cut_adoc(rows: list[str]) -> list[_Part]:
    parts: list[_Part] = []
    ends = _fence_ends(rows, _adoc_fence)
    index = 0
    while index < len(rows):
        row = rows[index] if len(rows[index]) <= _MOST_LINE else ""
        if level := _adoc_underlined(rows, index):
            parts.append(_Part(BlockKind.HEADING, index, index + 2, level, one_line(row)[:LABEL_LIMIT]))
            index += 2
            continue
        end = ends.get(index)
        if end is not None and row.startswith(_ADOC_TABLE):
            table = read_adoc_table(rows, index, end)
            parts += _table_parts(table) if table is not None else []
            index = end
            continue
        if end is not None:
            parts.append(_Part(BlockKind.CODE, index, end))
            index = end
            continue
        if match := _ADOC_HEADING.fullmatch(row.rstrip()):
            label = one_line(match.group(2))[:LABEL_LIMIT]
            parts.append(_Part(BlockKind.HEADING, index, index + 1, len(match.group(1)), label))
        index += 1
    return parts


def _adoc_underlined(rows: list[str], index: int) -> int:
    """The level of the underlined title that starts here; 0 if none does. Its underline is about as long."""
    if index + 1 == len(rows) or not rows[index][:1].strip() or len(rows[index]) > _MOST_LINE:
        return 0
    under = _ADOC_UNDERLINE.fullmatch(rows[index + 1][:_MOST_LINE])
    title = rows[index].rstrip()
    above = rows[index - 1].strip()[:_MOST_LINE] if index else ""
    if under is None or abs(len(title) - len(under[1])) > 1 or not any(map(str.isalnum, title)):
        return 0
    stands_alone = not above or (above.startswith("[") and above.endswith("]")) or above.startswith("//")
    return "=-~^+".index(under[1][0]) + 1 if stands_alone and title[0] not in ".[" else 0


def _adoc_fence(row: str) -> str | None:
    row = row.rstrip()
    return row if row == _ADOC_TABLE or _ADOC_FENCE.fullmatch(row) else None


def _fence_ends(rows: list[str], sign: Callable[[str], str | None]) -> dict[int, int]:
    """For each row that opens a fence, the row after the closing one; unclosed fences are left out."""
    ends: dict[int, int] = {}
    later: dict[str, list[int]] = {}
    signs = [sign(row) if len(row) <= _MOST_LINE else None for row in rows]
    for index in range(len(rows) - 1, -1, -1):
        if (name := signs[index]) is not None:
            later.setdefault(name, []).append(index)
    for index, name in enumerate(signs):
        if name is None:
            continue
        following = later[name]
        following.pop()
        if following:
            ends[index] = following[-1] + 1
    return ends


def _cut_org(rows: list[str]) -> list[_Part]:
    parts: list[_Part] = []
    closing = [index for index, row in enumerate(rows) if len(row) <= _MOST_LINE and _ORG_END.fullmatch(row)]
    closing.reverse()
    index = 0
    while index < len(rows):
        row = rows[index] if len(rows[index]) <= _MOST_LINE else ""
        while closing and closing[-1] < index:
            closing.pop()
        if closing and _ORG_BEGIN.fullmatch(row):
            parts.append(_Part(BlockKind.CODE, index, closing[-1] + 1))
            index = closing[-1] + 1
            continue
        if match := _ORG_HEADING.fullmatch(row):
            label = one_line(_ORG_TAGS.sub("", match.group(2)))[:LABEL_LIMIT]
            parts.append(_Part(BlockKind.HEADING, index, index + 1, len(match.group(1)), label))
        elif row.lstrip().startswith("|"):
            end = next((at for at in range(index, len(rows)) if not rows[at].lstrip().startswith("|")), len(rows))
            if _has_org_header(rows[index:end]):
                parts += [_Part(BlockKind.ROW, at, at + 1) for at in range(index, end)]
            index = end
            continue
        index += 1
    return parts


def _has_org_header(table: list[str]) -> bool:
    """Whether a table's first row names columns: a rule is below it, or it has no numbers."""
    are_rules = [bool(_ORG_RULE.fullmatch(row[:_MOST_LINE])) for row in table]
    if all(are_rules):
        return True
    first = are_rules.index(False)
    if True in are_rules[first + 1 : first + 2]:
        return True
    return not any(NUMBER.fullmatch(cell.strip()) for cell in table[first].split("|"))
