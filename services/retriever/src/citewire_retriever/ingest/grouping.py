"""A document as groups: what may share a chunk, and under which section."""

import re
from bisect import bisect_right
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import accumulate

from citewire.common.v1.place_pb2 import Place

from citewire_retriever.headings import SEPARATOR
from citewire_retriever.ingest.cutting import Piece
from citewire_retriever.ingest.document import Block, BlockKind, ParsedDocument
from citewire_retriever.ingest.parsers.pairs import LABEL_LIMIT
from citewire_retriever.ingest.places import Parts, shared

_MAX_PATH = 1000
_WORD = re.compile(r"\w+")
_BETWEEN_ROWS = "\n\n"


@dataclass(slots=True)
class RenderedRows:
    """Rows whose text isn't the stored text (a Markdown table's), concatenated in a group's source."""

    starts: list[int] = field(default_factory=list[int])
    """The start of each in the source."""
    blocks: list[Block] = field(default_factory=list[Block])

    def within(self, start: int, end: int) -> tuple[tuple[int, int], Parts]:
        """The span in the stored text of the rows that overlap a part of the source, and their places."""
        first, behind = bisect_right(self.starts, start) - 1, bisect_right(self.starts, end - 1)
        parts = tuple((max(0, self.starts[at] - start), self.blocks[at].place) for at in range(first, behind))
        return (self.blocks[first].start, self.blocks[behind - 1].end), parts


@dataclass(slots=True)
class Group:
    """Text that shares a page, a section, a definition and a table: chunks never contain parts of two groups."""

    source: str
    """The text to which the pieces refer: the stored text, or the rows' text."""
    pieces: list[Piece]
    """The pieces in order."""
    section: str
    """Path of headings or names; for a table, the names of its columns are last."""
    place: Place = field(default_factory=Place)
    """The common part of its chunks' places; the first line is set if it isn't the line of the text."""
    columns: str = ""
    """Names of a table's columns, which are the end of its section."""
    rows: RenderedRows | None = None
    """The rows whose text is the source; None if the source is the stored text."""
    definition: Block | None = None
    """The block, if the group is a definition that may be split."""
    parts: list["Group"] = field(default_factory=list["Group"])
    """The groups into which it was split; the group itself is then empty."""
    room: int = 0
    """Maximum tokens of a chunk's text; 0 until it is known."""
    header: str = ""
    """The header embedded before the text."""
    header_tokens: int = 0
    """Its tokens."""

    @property
    def is_table(self) -> bool:
        """Whether it consists of table rows."""
        return self.pieces[0].kind is BlockKind.ROW

    @property
    def sections(self) -> tuple[str, str]:
        """The section, with and without the names of columns."""
        return self.section, self.section.removesuffix(self.columns).removesuffix(SEPARATOR)

    def section_of(self, start: int, end: int) -> str:
        """The section of a part of the source, without the names of columns if the part contains them."""
        names_itself = bool(self.columns) and _words(self.columns) <= _words(self.source[start:end])
        return self.sections[names_itself]


def group(document: ParsedDocument) -> list[Group]:
    """Sorts a document's blocks into groups.

    A heading starts a group. One without text, directly above a subsection or at the end of a page, has no group:
    its words begin the section path of what follows.
    """
    groups = list(_groups(document))
    following: list[Group | None] = [*groups[1:], None]
    # A document with only symbols (emojis, rules) is still a document.
    return [each for each, after in zip(groups, following, strict=False) if _says_something(each, after)] or groups


def take_apart(outer: Group, text: str) -> list[Group]:
    """The groups of a definition that is too long: its members, and the code between them."""
    definition = outer.definition
    if definition is None or not definition.children:
        return []
    parts = [_alone(text, child, outer.section) for child in definition.children]
    return [part for part in parts if any(char.isalnum() for char in text[part.pieces[0].start : part.pieces[0].end])]


def leaves(groups: list[Group]) -> Iterator[Group]:
    """The groups with text, in order."""
    for each in groups:
        if each.parts:
            yield from leaves(each.parts)
        else:
            yield each


def is_in_path(each: Group, start: int, end: int) -> bool:
    """Whether all words of a span of a group's source are in the section's path."""
    return _words(each.source[start:end]) <= _words(each.section)


def _groups(document: ParsedDocument) -> Iterator[Group]:
    path: list[tuple[int, str]] = []
    current: Group | None = None
    blocks = deque(document.blocks)
    while blocks:
        block = blocks.popleft()
        if block.kind is BlockKind.HEADING:
            while path and path[-1][0] >= block.level:
                path.pop()
            path.append((block.level, block.label))
            current = None
        section = SEPARATOR.join(label for _, label in path if label)[:_MAX_PATH]
        if block.kind is BlockKind.DEFINITION:
            yield _alone(document.text, block, section)
            current = None
            continue
        place = shared(block.place)
        if block.kind is BlockKind.TABLE:
            columns = block.label[: _MAX_PATH - len(section) - len(SEPARATOR)]
            named = SEPARATOR.join(part for part in (section, columns) if part)
            pieces = [_piece(child) for child in block.children]
            yield Group(document.text, pieces, named, place, columns=columns)
            current = None
        elif block.text is not None:
            rows = [block]
            while blocks and blocks[0].text is not None and shared(blocks[0].place) == place:
                rows.append(blocks.popleft())
            yield _rendered(rows, section, place)
            current = None
        elif current is None or current.place != place or (block.kind is BlockKind.ROW) != current.is_table:
            current = Group(document.text, [_piece(block)], section, place)
            yield current
        else:
            current.pieces.append(_piece(block))


def _rendered(rows: list[Block], section: str, place: Place) -> Group:
    """A group of rows whose text isn't the stored text."""
    texts = [row.text or "" for row in rows]
    starts = list(accumulate((len(text) + len(_BETWEEN_ROWS) for text in texts[:-1]), initial=0))
    pieces = [Piece(start, start + len(text), BlockKind.ROW) for start, text in zip(starts, texts, strict=True)]
    return Group(_BETWEEN_ROWS.join(texts), pieces, section, place, rows=RenderedRows(starts, rows))


def _alone(text: str, block: Block, section: str) -> Group:
    label = block.label[:LABEL_LIMIT] if block.kind is BlockKind.DEFINITION else ""
    path = SEPARATOR.join(part for part in (section, label) if part)[:_MAX_PATH]
    definition = block if block.kind is BlockKind.DEFINITION else None
    return Group(text, [_piece(block)], path, block.place, definition=definition)


def _piece(block: Block) -> Piece:
    children = block.children if block.kind is BlockKind.LIST else ()
    return Piece(block.start, block.end, block.kind, children=children)


def _says_something(each: Group, following: Group | None) -> bool:
    start, end = each.pieces[0].start, each.pieces[-1].end
    if not any(char.isalnum() for char in each.source[start:end]):
        return False
    if following is None or any(piece.kind is not BlockKind.HEADING for piece in each.pieces):
        return True
    inside = f"{following.section}{SEPARATOR}".startswith(f"{each.section}{SEPARATOR}")
    return not (inside and is_in_path(each, start, end))


def _words(text: str) -> set[str]:
    return set(_WORD.findall(text))
