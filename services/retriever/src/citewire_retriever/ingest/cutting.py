"""Where a block that is too long may be cut, from the best places to the worst."""

import re
from collections.abc import Callable
from dataclasses import dataclass

from citewire_retriever.ingest.document import Block, BlockKind
from citewire_retriever.ingest.sentences import sentences

Spans = list[tuple[int, int]]
_BLANK = re.compile(r"\n[^\S\n]*\n")


@dataclass(slots=True)
class Piece:
    """A part of a group's source text."""

    start: int
    """Its start in the source."""
    end: int
    """Where it ends, exclusive."""
    kind: BlockKind
    """The kind of its block, which determines how it can be cut."""
    step: int = 0
    """Number of the kind's ways to cut that have been tried."""
    cut: int = -1
    """Number of the structure from which it was cut, or -1 if it is whole. Only neighbours of one structure overlap.
    """
    sentence: bool = False
    """Whether it is a sentence, which may be repeated as overlap."""
    children: tuple[Block, ...] = ()
    """Parts into which a list is cut first."""
    tokens: int = -1
    """Its tokens; -1 if they aren't counted yet."""


def divide(source: str, piece: Piece, parts: int, cut: int) -> list[Piece]:
    """Cuts a piece at the best remaining places for its kind.

    Args:
        source: The text to which spans refer.
        piece: The piece that is too long.
        parts: Minimum number of pieces if it is cut at any place (the last way).
        cut: Number for the structure that is cut now.

    Returns:
        Two or more pieces, in order, with everything except white space. A piece of one character can't be cut and is
        returned alone.
    """
    ways = _WAYS.get(piece.kind, _PROSE)
    for step in range(piece.step, len(ways)):
        spans = _children(source, piece) if step == 0 and piece.children else ways[step](source, piece.start, piece.end)
        if len(spans) > 1:
            is_sentence = ways[step] is sentences
            inner_cut = piece.cut if piece.cut >= 0 else cut
            return [
                Piece(start, end, piece.kind, step + 1, -1 if piece.children and step == 0 else inner_cut, is_sentence)
                for start, end in spans
            ]
    return [
        Piece(start, end, piece.kind, len(ways), piece.cut if piece.cut >= 0 else cut)
        for start, end in _anywhere(source, piece.start, piece.end, max(2, parts))
    ]


def _children(source: str, piece: Piece) -> Spans:
    """The children's spans, and the text between them."""
    spans: Spans = []
    position = piece.start
    for child in piece.children:
        _append(spans, source, position, child.start)
        _append(spans, source, child.start, child.end)
        position = child.end
    _append(spans, source, position, piece.end)
    return spans


def _paragraphs(source: str, start: int, end: int) -> Spans:
    spans: Spans = []
    position = start
    for match in _BLANK.finditer(source, start, end):
        _append(spans, source, position, match.start(), keep_indent=True)
        position = match.end()
    _append(spans, source, position, end, keep_indent=True)
    return spans


def _lines(source: str, start: int, end: int) -> Spans:
    spans: Spans = []
    position = start
    while position < end:
        newline = source.find("\n", position, end)
        line_end = end if newline < 0 else newline
        _append(spans, source, position, line_end, keep_indent=True)
        position = line_end + 1
    return spans


def _anywhere(source: str, start: int, end: int, parts: int) -> Spans:
    """Approximately equal parts, between words if one ends close enough."""
    spans: Spans = []
    size = max(1, -(-(end - start) // parts))
    position = start
    while position < end:
        stop = min(end, position + size)
        if stop < end:
            reach = max(position + 1, stop - size // 4)
            space = max((source.rfind(sign, reach, stop + 1) for sign in " \n\t"), default=-1)
            stop = space if space > position else stop
        _append(spans, source, position, stop)
        position = stop
    return spans or [(start, end)]


def _append(spans: Spans, source: str, start: int, end: int, *, keep_indent: bool = False) -> None:
    text = source[start:end]
    stripped = text.strip()
    if not stripped:
        return
    lead = len(text) - len(text.lstrip())
    if keep_indent:  # a line of code includes its indentation, but not the empty lines above
        lead = text.rfind("\n", 0, lead) + 1
    spans.append((start + lead, start + len(text.rstrip())))


_PROSE: tuple[Callable[[str, int, int], Spans], ...] = (_paragraphs, sentences, _lines)
_WAYS: dict[BlockKind, tuple[Callable[[str, int, int], Spans], ...]] = {
    BlockKind.ROW: (_lines, sentences),
    BlockKind.CODE: (_paragraphs, _lines),
    BlockKind.DEFINITION: (_paragraphs, _lines),
}
