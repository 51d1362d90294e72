"""Plain text: paragraphs are separated by blank lines."""

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


def parse_plain(text: str, limits: ParseLimits, *, media_type: str = "text/plain") -> ParsedDocument:
    """Parses decoded text.

    Raises:
        IngestError: TOO_LARGE.
    """
    blocks = paragraphs(text, 0, len(text), LineIndex(text))
    check_blocks(len(blocks), limits)
    return ParsedDocument(Format.TEXT, media_type, text, tuple(blocks), has_lines=True)


def paragraphs(
    text: str, start: int, end: int, lines: LineIndex, *, kind: BlockKind = BlockKind.PARAGRAPH
) -> list[Block]:
    """The paragraphs in text[start:end], as blocks with their lines. A blank line contains only white space."""
    results: list[Block] = []
    first = -1  # start of the open paragraph, or -1
    last = position = start
    while position < end:
        newline = text.find("\n", position, end)
        line_end = end if newline < 0 else newline
        blank = position == line_end or text[position:line_end].isspace()
        if not blank:
            first = position if first < 0 else first
            last = line_end
        if blank and first >= 0:
            results.append(lined_block(kind, first, last, lines))
            first = -1
        position = line_end + 1
    if first >= 0:
        results.append(lined_block(kind, first, last, lines))
    return results


def lined_block(kind: BlockKind, start: int, end: int, lines: LineIndex, *, level: int = 0, label: str = "") -> Block:
    """A block over text[start:end] with its lines."""
    place = Place(start_line=lines.line_of(start), end_line=lines.line_of(end - 1))
    return Block(kind, start, end, level=level, label=label, place=place)
