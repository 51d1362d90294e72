"""Source code: the stored text is the file; a block is a top-level definition, or what lies between two."""

import re
from dataclasses import replace
from itertools import pairwise

from citewire.common.v1.place_pb2 import Place

from citewire_retriever.ingest.document import (
    Block,
    BlockKind,
    Format,
    LineIndex,
    ParsedDocument,
    ParseLimits,
    check_blocks,
)
from citewire_retriever.ingest.parsers.code_tree import Definition, definitions, has_grammar
from citewire_retriever.ingest.parsers.plain import lined_block

# For languages without a grammar: a row at the margin that starts a definition, as most languages write it.
_DEFINING_ROW = re.compile(
    r"(?:(?:@?[\w<>\[\],.:&*()]+)[ \t]+){0,6}?"
    r"(?:def|defp|defmodule|fun|func|fn|function|sub|class|interface|struct|enum|trait|object|protocol|extension|impl"
    r"|message|service|module|namespace|type|const|procedure"
    r"|(?:CREATE|create)[ \t]+(?:(?:OR|or)[ \t]+(?:REPLACE|replace)[ \t]+)?[A-Za-z]+)"
    r"[ \t]+(?:(?:IF|if)[ \t]+(?:NOT|not)[ \t]+(?:EXISTS|exists)[ \t]+)?[`\"\[]?([\w.:]+)"
)
_COMMENT_ROW = re.compile(r"(?:#|//|/\*| \*|\*|--|;|%|@)")
_CLOSING = re.compile(r"[^\w\n]*(?:end|endif|fi|done|esac)?[^\w\n]*")  # a row that only ends the block above it
_ROW_LIMIT = 2000  # a longer row is generated or minified, and isn't searched
_CPP_SIGNS = re.compile(r"^\s*(?:class|namespace|template\s*<|public:|private:)", re.M)


def parse_code(text: str, language: str, limits: ParseLimits) -> ParsedDocument:
    """Parses decoded source code.

    Args:
        text: The file.
        language: As named by `detect`.
        limits: Limits.

    Raises:
        IngestError: TOO_LARGE.
    """
    lines = LineIndex(text)
    grammar = "cpp" if language == "c" and _CPP_SIGNS.search(text) else language
    result = definitions(text, grammar) if has_grammar(grammar) else _by_indentation(text)
    blocks = _Tiler(text, lines).tile(result, 0, len(lines.starts) - 1)
    check_blocks(len(blocks), limits)
    return ParsedDocument(Format.CODE, f"text/x-{language}", text, tuple(blocks), has_lines=True)


class _Tiler:
    """Covers a range of rows with blocks: definitions, and code between them."""

    def __init__(self, text: str, lines: LineIndex) -> None:
        self.text = text
        self.lines = lines

    def tile(self, definitions: list[Definition], first: int, last: int) -> list[Block]:
        """Blocks for the rows from first to last, which contain these definitions."""
        blocks: list[Block] = []
        row = first
        for each in definitions:
            self._add_code(blocks, row, each.first - 1)
            start, end = self._span(each.first, each.end)
            blocks.append(
                Block(
                    BlockKind.DEFINITION,
                    start,
                    end,
                    label=each.name,
                    place=Place(start_line=each.start + 1, end_line=each.end + 1),
                    children=self._members(each),
                )
            )
            row = each.end + 1
        self._add_code(blocks, row, last)
        return blocks

    def _members(self, each: Definition) -> tuple[Block, ...]:
        if not each.members:
            return ()
        parts = self.tile(list(each.members), each.first, each.end)
        if parts and parts[0].kind is BlockKind.CODE:
            # The head of a class is also cited by its own first line, not by the comment above.
            parts[0].place.start_line = each.start + 1
        return tuple(parts)

    def _add_code(self, blocks: list[Block], first: int, last: int) -> None:
        """Appends code between definitions; a lone closing bracket belongs to the block before it."""
        if last < first:
            return
        start, end = self._span(first, last)
        if start >= end:
            return
        if blocks and _CLOSING.fullmatch(self.text, start, end):
            blocks[-1] = replace(blocks[-1], end=end)
        else:
            blocks.append(lined_block(BlockKind.CODE, start, end, self.lines))

    def _span(self, first: int, last: int) -> tuple[int, int]:
        """Offsets of whole rows, without empty ones at either end; the first row keeps its indentation."""
        starts = self.lines.starts
        start = starts[first]
        end = starts[last + 1] if last + 1 < len(starts) else len(self.text)
        text = self.text[start:end]
        lead = len(text) - len(text.lstrip())
        start += text.rfind("\n", 0, lead) + 1
        return start, max(start, end - len(text) + len(text.rstrip()))


def _by_indentation(text: str) -> list[Definition]:
    """Definitions that start at the margin; each ends before the next, or before other code at the margin."""
    rows = text.split("\n")
    starts: list[tuple[int, int, str]] = []  # first row with comments, own row, name
    for index, row in enumerate(rows):
        match = _DEFINING_ROW.match(row) if row[:1].strip() and len(row) <= _ROW_LIMIT else None
        if match:
            first = index
            while first > 0 and _COMMENT_ROW.match(rows[first - 1]) and (not starts or first - 1 > starts[-1][1]):
                first -= 1
            starts.append((first, index, match.group(1)))
    limits = [following[0] - 1 for _, following in pairwise(starts)] + [len(rows) - 1]
    return [
        Definition(name, first, start, _last_of(rows, start, limit))
        for (first, start, name), limit in zip(starts, limits, strict=False)
    ]


def _last_of(rows: list[str], start: int, limit: int) -> int:
    last = start
    for index in range(start + 1, limit + 1):
        row = rows[index]
        if not row.strip():
            continue
        if row[0].strip() and last < index - 1 and row[0] not in "})]{":
            break
        last = index
    return last
