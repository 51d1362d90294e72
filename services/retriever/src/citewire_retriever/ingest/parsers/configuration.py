"""TOML and INI files: the stored text is the file; its sections are sections, named by their whole path."""

import re
from collections.abc import Iterator
from typing import Final

from citewire_retriever.ingest.document import (
    BlockKind,
    Format,
    LineIndex,
    ParsedDocument,
    ParseLimits,
    check_blocks,
)
from citewire_retriever.ingest.parsers.pairs import LABEL_LIMIT, one_line
from citewire_retriever.ingest.parsers.plain import lined_block, paragraphs

TOML: Final = "application/toml"
_MOST_LINE: Final = 1000
"""Maximum code points of a line that is checked."""
_KEY: Final = r"(?:[\w-]+|\"[^\"\n]*\"|'[^'\n]*')"
_TOML_SECTION: Final = re.compile(rf"\s*\[\[?\s*({_KEY}(?:\s*\.\s*{_KEY})*)\s*\]\]?\s*(?:#.*)?")
_INI_SECTION: Final = re.compile(r"\[([^\[\]\n]+)\]\s*(?:[#;].*)?")
_TOML_SIGN: Final = re.compile(r'"""|\'\'\'|"(?:[^"\\\n]|\\.)*+"|\'[^\'\n]*+\'|#.*|[\[\]]')


def parse_configuration(text: str, limits: ParseLimits, *, media_type: str) -> ParsedDocument:
    """Parses decoded TOML or INI.

    A section's header, such as ``[tool.ruff]``, is a heading with that name. The text below keeps its lines.

    Raises:
        IngestError: TOO_LARGE.
    """
    lines = LineIndex(text)
    rows = text.split("\n")
    starts = [*lines.starts, len(text) + 1]
    headers = list(_toml_sections(rows) if media_type == TOML else _ini_sections(rows))
    blocks = paragraphs(text, 0, starts[headers[0][0]] if headers else len(text), lines, kind=BlockKind.CODE)
    ends = [*(index for index, _ in headers[1:]), len(rows)]
    for (index, label), following in zip(headers, ends, strict=False):
        end = starts[index] + len(rows[index].rstrip())
        blocks.append(lined_block(BlockKind.HEADING, starts[index], end, lines, level=1, label=label))
        end = min(len(text), starts[following])
        blocks += paragraphs(text, min(end, starts[index + 1]), end, lines, kind=BlockKind.CODE)
    check_blocks(len(blocks), limits)
    return ParsedDocument(Format.CONFIGURATION, media_type, text, tuple(blocks), has_lines=True)


def _ini_sections(rows: list[str]) -> Iterator[tuple[int, str]]:
    for index, row in enumerate(rows):
        if len(row) <= _MOST_LINE and (match := _INI_SECTION.fullmatch(row.rstrip())):
            yield index, one_line(match.group(1))[:LABEL_LIMIT]


def _toml_sections(rows: list[str]) -> Iterator[tuple[int, str]]:
    """Headers of tables. Similar lines within a multi-line text or list don't count."""
    fence = ""  # the quotes that end the open text
    depth = 0  # open brackets
    for index, row in enumerate(rows):
        if len(row) > _MOST_LINE:
            continue
        if not fence and not depth and (match := _TOML_SECTION.fullmatch(row)):
            yield index, one_line(match.group(1))[:LABEL_LIMIT]
            continue
        fence, depth = _open_at_end(row, fence, depth)


def _open_at_end(row: str, fence: str, depth: int) -> tuple[str, int]:
    """The open constructs after a line of TOML: a text, by the quotes that end it, and brackets."""
    position = 0
    while position < len(row):
        if fence:
            end = row.find(fence, position)
            if end < 0:
                break
            fence, position = "", end + len(fence)
            continue
        match = _TOML_SIGN.search(row, position)
        if match is None:
            break
        sign, position = match.group(), match.end()
        if sign in {'"""', "'''"}:
            fence = sign
        elif sign in {"[", "]"}:
            depth = max(0, depth + (1 if sign == "[" else -1))
    return fence, depth
