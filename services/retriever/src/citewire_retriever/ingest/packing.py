"""Neighbouring pieces as chunks of even size."""

from collections.abc import Sequence
from dataclasses import dataclass

from citewire_retriever.ingest.cutting import Piece
from citewire_retriever.ingest.document import BlockKind


@dataclass(frozen=True, slots=True)
class Sizes:
    """Sizes of a group's chunks."""

    target: int
    """Tokens at which a chunk is closed."""
    room: int
    """Maximum tokens of a chunk."""
    chars: int
    """Maximum characters of a chunk with several pieces, including white space between them."""
    overlap: int
    """Tokens of sentences that are repeated after a cut."""


@dataclass(frozen=True, slots=True)
class Span:
    """The pieces of a chunk."""

    start: int
    """Their start in the group's source."""
    end: int
    """Their exclusive end."""
    parts_tokens: int
    """The sum of their tokens."""
    mere_heading: bool
    """Whether they are only headings, which didn't fit together with their text."""


def pack(pieces: Sequence[Piece], sizes: Sizes) -> list[Span]:
    """Combines pieces of one group into chunks.

    Chunks are closed at the target, evenly: three of 100 tokens are better than two of 145 and one of 10. A piece
    above the target stays alone. If a structure was cut into sentences, the last ones, up to the overlap, are
    repeated at the start of the next chunk.

    Args:
        pieces: In order; one that exceeds the room stays alone.
        sizes: Bounds.

    Returns:
        Spans in the group's source, in order.
    """
    spans: list[Span] = []
    left = sum(piece.tokens for piece in pieces)
    first = 0
    while first < len(pieces):
        # The rest is distributed evenly over as few chunks as possible.
        even = left / -(-left // sizes.target) if left else 0
        last, used = _fill(pieces, first, sizes, even)
        start = _overlap_start(pieces, first, sizes.overlap, sizes.room - used)
        parts = pieces[start:last]
        heading = all(piece.kind is BlockKind.HEADING for piece in parts)
        spans.append(Span(parts[0].start, parts[-1].end, sum(piece.tokens for piece in parts), heading))
        left -= used
        first = last
    return spans


def _fill(pieces: Sequence[Piece], first: int, sizes: Sizes, even: float) -> tuple[int, int]:
    """The end of a chunk that starts at a piece: the index after its last piece, and its tokens."""
    used = pieces[first].tokens
    last = first + 1
    while last < len(pieces):
        more = pieces[last].tokens
        if used + more > sizes.room or pieces[last].end - pieces[first].start > sizes.chars:
            break
        # A heading stays with the text below it; so does a short first line.
        glued = pieces[last - 1].kind is BlockKind.HEADING or used < sizes.target / 4
        if not glued and (used + more > sizes.target or used + more / 2 > even):
            break
        used += more
        last += 1
    return last, used


def _overlap_start(pieces: Sequence[Piece], first: int, overlap: int, free: int) -> int:
    """The first of the sentences before a cut that are repeated after it."""
    start = first
    budget = min(overlap, free)
    while start > 1:
        before = pieces[start - 1]
        tokens = max(1, before.tokens)  # an estimate may be 0, for any number of short sentences
        if not before.sentence or before.cut != pieces[first].cut or before.cut < 0 or tokens > budget:
            break
        budget -= tokens
        start -= 1
    return start
