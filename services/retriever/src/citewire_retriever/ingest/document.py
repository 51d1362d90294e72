"""What a parser makes of a file: stored text, and typed blocks that point into it."""

from bisect import bisect_right
from dataclasses import dataclass, field
from enum import StrEnum

from citewire.common.v1.place_pb2 import Place

from citewire_retriever.ingest.errors import IngestCode, IngestError


class Format(StrEnum):
    """The formats that are read."""

    MARKDOWN = "markdown"
    TEXT = "text"
    HTML = "html"
    PDF = "pdf"
    SHEET = "sheet"
    CODE = "code"
    DOCX = "docx"
    WORKBOOK = "workbook"
    OLD_WORKBOOK = "old workbook"
    SLIDES = "slides"
    NOTEBOOK = "notebook"
    DATA = "data"
    MAIL = "mail"
    SUBTITLES = "subtitles"
    MARKUP = "markup"
    CONFIGURATION = "configuration"
    OPEN_TEXT = "open text"
    OPEN_SLIDES = "open slides"
    OPEN_WORKBOOK = "open workbook"
    EBOOK = "e-book"
    RTF = "rtf"
    ARCHIVE = "archive"
    IMAGE = "image"
    CARDS = "cards"


class BlockKind(StrEnum):
    """What a block is; decides where it may be cut and what it may share a chunk with."""

    HEADING = "heading"
    """Opens a section of its level. Its words belong to the first chunk of the section."""
    PARAGRAPH = "paragraph"
    """Prose. Cut between sentences if it must be."""
    LIST = "list"
    """A list; its children are its items."""
    CODE = "code"
    """Lines that are cut only between lines."""
    DEFINITION = "definition"
    """A definition of source code. Never shares a chunk; its children are its members."""
    ROW = "row"
    """A table row. Shares a chunk with other rows only."""
    TABLE = "table"
    """A table under one header: its children are its rows, its label names their columns and ends their path."""


@dataclass(frozen=True, slots=True)
class Block:
    """One piece of a document."""

    kind: BlockKind
    """What it is."""
    start: int
    """Where it starts in the stored text, in code points."""
    end: int
    """Where it ends, exclusive."""
    level: int = 0
    """Level of a heading, 1–6; 0 otherwise."""
    label: str = ""
    """A heading's plain text, or a definition's name."""
    place: Place = field(default_factory=Place)
    """Where it stands in the file; empty if the format has no places. The first line of a definition is that of its
    decorators, not of the comments above them.
    """
    text: str | None = None
    """The row as ``column: value`` pairs where the stored text has another form (a Markdown table); None where the
    stored text between start and end is the text.
    """
    children: tuple["Block", ...] = ()
    """Parts in order, for a list or a definition; they needn't cover all of it."""


@dataclass(frozen=True, slots=True)
class SheetPosition:
    """How far a table that is read part by part was read."""

    offset: int = 0
    """Where its next record starts, in bytes."""
    row: int = 0
    """The last row that was read."""
    delimiter: str = ","
    quoted: bool = True
    """Whether quotes stand around cells, and aren't mere signs."""
    names: tuple[str, ...] | None = None
    """The columns' names, empty if they have none; None if the header is still to come."""
    quote: str = '"'
    """The sign around cells."""
    escape: str = ""
    """The sign before a quote that is one of a cell's own, beside one that is doubled; empty: none."""


@dataclass(frozen=True, slots=True)
class ParsedDocument:
    """A file's text and structure, or those of a part of a long table."""

    format: Format
    """How it was read."""
    media_type: str
    """Its media type by content and name."""
    text: str
    """The stored text that every span points into. For Markdown, plain text and source code it is the file (decoded,
    line ends as LF); for the others it is rendered by the parser.
    """
    blocks: tuple[Block, ...]
    """In order of the text, not overlapping; every word of the text is in one."""
    title: str | None = None
    """Found in the document; None if it names none."""
    pages: int | None = None
    """Number of pages; None if the format has none."""
    has_lines: bool = False
    """Whether lines of the text are lines of the file."""
    following: SheetPosition | None = None
    """Where the next part of a long table starts; None if this is all of the file, or its last part."""


@dataclass(frozen=True, slots=True)
class ParseLimits:
    """Bounds on what one file may become."""

    max_chars: int = 32_000_000
    """Code points of stored text."""
    max_pages: int = 10_000
    """Pages of a PDF."""
    max_blocks: int = 500_000
    """Blocks of any kind (rows of a sheet above all)."""


@dataclass(slots=True)
class TextBuilder:
    """Renders stored text piece by piece, for formats whose file isn't text, and keeps to the limits."""

    limits: ParseLimits
    blocks: list[Block] = field(default_factory=list[Block])
    _parts: list[str] = field(default_factory=list[str])
    _length: int = 0

    def write(self, text: str, *, separator: str = "\n\n") -> tuple[int, int]:
        """Appends a piece after a separator (none before the first) and returns its span."""
        if self._length:
            self._parts.append(separator)
            self._length += len(separator)
        start = self._length
        self._parts.append(text)
        self._length += len(text)
        if self._length > self.limits.max_chars:
            raise too_much_text(self.limits)
        return start, self._length

    def add(self, block: Block) -> None:
        """Appends a block that points at what was written."""
        self.blocks.append(block)
        check_blocks(len(self.blocks), self.limits)

    def text(self) -> str:
        """Everything written so far."""
        return "".join(self._parts)


def too_much_text(limits: ParseLimits) -> IngestError:
    """The error for a document whose text passes the limit."""
    return IngestError(
        IngestCode.TOO_LARGE, f"The document holds more than {limits.max_chars:,} characters of text: split it."
    )


def check_blocks(count: int, limits: ParseLimits) -> None:
    """Raises IngestError(TOO_LARGE) if a document has more blocks than it may."""
    if count > limits.max_blocks:
        raise IngestError(
            IngestCode.TOO_LARGE,
            f"The document has more than {limits.max_blocks:,} rows or paragraphs: split it.",
        )


class LineIndex:
    """Finds the line of an offset: lines are counted from 1 and end at LF, as editors count them."""

    def __init__(self, text: str) -> None:
        self.starts = [0]
        position = text.find("\n")
        while position >= 0:
            self.starts.append(position + 1)
            position = text.find("\n", position + 1)

    def line_of(self, offset: int) -> int:
        """The line, from 1, that holds the offset."""
        return bisect_right(self.starts, offset)
