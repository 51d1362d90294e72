"""A parser's result for a file: stored text, and typed blocks that point into it."""

from bisect import bisect_right
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum

from citewire.common.v1.place_pb2 import Place

from citewire_retriever.ingest.errors import IngestCode, IngestError

PagesRead = Callable[[int, int], None]
"""Told how many pages of a file were read, and how many it has."""


class Format(StrEnum):
    """The supported formats."""

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
    """A block's kind, which determines where it may be cut and what it may share a chunk with."""

    HEADING = "heading"
    """Opens a section of its level. Its text belongs to the first chunk of the section."""
    PARAGRAPH = "paragraph"
    """Prose, cut between sentences if necessary."""
    LIST = "list"
    """A list; its children are its items."""
    CODE = "code"
    """Lines, cut only between lines."""
    DEFINITION = "definition"
    """A definition of source code. Never shares a chunk; its children are its members."""
    ROW = "row"
    """A table row. Shares a chunk only with other rows."""
    TABLE = "table"
    """A table with one header: its children are its rows; its label names their columns and is last in their path."""


@dataclass(frozen=True, slots=True)
class Block:
    """One piece of a document."""

    kind: BlockKind
    """Its kind."""
    start: int
    """Its start in the stored text, in code points."""
    end: int
    """Where it ends, exclusive."""
    level: int = 0
    """Level of a heading, 1–6; 0 otherwise."""
    label: str = ""
    """A heading's plain text, or a definition's name."""
    place: Place = field(default_factory=Place)
    """Its place in the file; empty if the format has no places. The first line of a definition is that of its
    decorators, not of the comments above them.
    """
    text: str | None = None
    """The row as ``column: value`` pairs if the stored text has another form (a Markdown table); None if the stored
    text between start and end is the text.
    """
    children: tuple["Block", ...] = ()
    """Parts of a list or definition in order, which may not cover all of it."""


@dataclass(frozen=True, slots=True)
class SheetPosition:
    """The position in a table that is read in parts."""

    offset: int = 0
    """Offset of the next record in bytes."""
    row: int = 0
    """Number of the last row read."""
    delimiter: str = ","
    quoted: bool = True
    """Whether cells may be quoted; otherwise quotes are ordinary characters."""
    names: tuple[str, ...] | None = None
    """The columns' names, empty if they have none; None if the header hasn't been read."""
    quote: str = '"'
    """The quote character."""
    escape: str = ""
    """The escape character for quotes inside cells, in addition to doubling; empty for none."""


@dataclass(frozen=True, slots=True)
class ParsedDocument:
    """Text and structure of a file, or of a part of a long table."""

    format: Format
    """Its format."""
    media_type: str
    """Its media type by content and name."""
    text: str
    """The stored text to which all spans refer. For Markdown, plain text and source code it is the file (decoded, with
    LF as line end); for other formats it is rendered by the parser.
    """
    blocks: tuple[Block, ...]
    """Blocks in order of the text, without overlap; every word of the text is in one."""
    title: str | None = None
    """Title from the document; None if it has none."""
    pages: int | None = None
    """Number of pages; None if the format has none."""
    has_lines: bool = False
    """Whether lines of the text are lines of the file."""
    following: SheetPosition | None = None
    """Start of the next part of a long table; None if this is the whole file or its last part."""


@dataclass(frozen=True, slots=True)
class ParseLimits:
    """Limits for one file."""

    max_chars: int = 32_000_000
    """Maximum code points of stored text."""
    max_pages: int = 10_000
    """Maximum pages of a PDF."""
    max_blocks: int = 500_000
    """Maximum blocks of any kind (mainly rows of a sheet)."""


@dataclass(slots=True)
class TextBuilder:
    """Renders stored text piece by piece, for formats that aren't text, and enforces the limits."""

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
        """Appends a block for a written span."""
        self.blocks.append(block)
        check_blocks(len(self.blocks), self.limits)

    def text(self) -> str:
        """Everything written so far."""
        return "".join(self._parts)


def too_much_text(limits: ParseLimits) -> IngestError:
    """The error for a document whose text exceeds the limit."""
    return IngestError(
        IngestCode.TOO_LARGE, f"The document has more than {limits.max_chars:,} characters of text: split it."
    )


def check_blocks(count: int, limits: ParseLimits) -> None:
    """Raises IngestError(TOO_LARGE) if a document has too many blocks."""
    if count > limits.max_blocks:
        raise IngestError(
            IngestCode.TOO_LARGE,
            f"The document has more than {limits.max_blocks:,} rows or paragraphs: split it.",
        )


class LineIndex:
    """Finds the line of an offset: lines are counted from 1 and end at LF, as in editors."""

    def __init__(self, text: str) -> None:
        self.starts = [0]
        position = text.find("\n")
        while position >= 0:
            self.starts.append(position + 1)
            position = text.find("\n", position + 1)

    def line_of(self, offset: int) -> int:
        """The line of the offset, from 1."""
        return bisect_right(self.starts, offset)
