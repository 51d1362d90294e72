"""The chunks of a document, and the text of each that is embedded."""

import hashlib
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

from citewire.common.v1.place_pb2 import Place

from citewire_retriever.ingest.places import Parts

TokenCounter = Callable[[Sequence[str]], Awaitable[list[int]]]
"""Counts each text's tokens for the embedding model, without special tokens; an empty text has 0."""


@dataclass(frozen=True, slots=True)
class ChunkRules:
    """Sizes of chunks, in tokens of the embedding model, without special tokens."""

    max_tokens: int
    """The model's window for title, section and text together, which no chunk exceeds."""
    target_tokens: int = 160
    """Size at which a chunk of small parts is closed. A larger part (paragraph, row, definition) that fits the window
    stays whole.
    """
    row_tokens: int = 24
    """Size at which a chunk of small table rows is closed."""
    overlap_tokens: int = 32
    """How much of the sentences before a cut is repeated after it."""
    header_share: float = 0.25
    """Maximum share of the window for title and section, which are shortened to it."""
    max_chunks: int = 1_000_000
    """Maximum number of chunks of one document; more is an error."""

    def __post_init__(self) -> None:
        if self.max_tokens < 16:
            raise ValueError("a window of fewer than 16 tokens leaves no room for text")
        if not 0 < self.header_share <= 0.5:
            raise ValueError("header_share must be above 0 and at most 0.5")


@dataclass(frozen=True, slots=True)
class Chunk:
    """A piece of a document that is found and cited as a unit."""

    index: int
    """Its order in the version, from 0."""
    text: str
    """Its text: the stored text between char_start and char_end; for rows of a Markdown table, their
    ``column: value`` pairs, and the span is that of the rows.
    """
    token_count: int
    """Tokens of the text alone."""
    content_hash: bytes
    """SHA-256 of the text in UTF-8."""
    section: str
    """Heading path, or path of names in source code, joined by ``SEPARATOR``; empty if there is none."""
    place: Place
    """Its place in the original; the first line is that of the definition if one starts here."""
    char_start: int
    """Start in the stored text, in code points."""
    char_end: int
    """End, exclusive."""
    verbatim: bool
    """Whether the text is the stored text between char_start and char_end."""
    header: str
    """The header embedded before the text, see `embedding_input`; shortened to its share of the window."""
    places: Parts = ()
    """Places of its parts, if there are several; empty if all of it has one place."""


def embedding_input(header: str, text: str) -> str:
    """The text to embed for a chunk: the document's title and section above the text."""
    return f"{header}\n{text}" if header else text


def input_hash(chunk: Chunk) -> bytes:
    """A hash of a chunk's embedding input: 16 bytes."""
    return hashlib.sha256(embedding_input(chunk.header, chunk.text).encode()).digest()[:16]
