"""What a document is cut into, and what of it is embedded."""

import hashlib
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

from citewire.common.v1.place_pb2 import Place

from citewire_retriever.ingest.places import Parts

TokenCounter = Callable[[Sequence[str]], Awaitable[list[int]]]
"""Counts the tokens of each text as the embedding model sees it, special tokens excluded; an empty text has 0."""


@dataclass(frozen=True, slots=True)
class ChunkRules:
    """How large chunks become, in tokens of the embedding model, special tokens excluded."""

    max_tokens: int
    """What the model takes of title, section and text together. Nothing longer is ever made."""
    target_tokens: int = 160
    """Where a chunk of small parts is closed. A part (paragraph, row, definition) that is larger, but fits the window,
    stays whole.
    """
    row_tokens: int = 24
    """Where a chunk of small rows of a table is closed."""
    overlap_tokens: int = 32
    """How much of the sentences before a cut is repeated behind it."""
    header_share: float = 0.25
    """Share of the window that title and section may take; what is longer is shortened."""
    max_chunks: int = 1_000_000
    """Chunks of one document; more is an error."""

    def __post_init__(self) -> None:
        if self.max_tokens < 16:
            raise ValueError("a window of fewer than 16 tokens leaves no room for text")
        if not 0 < self.header_share <= 0.5:
            raise ValueError("header_share must be above 0 and at most 0.5")


@dataclass(frozen=True, slots=True)
class Chunk:
    """A piece of a document that is found and cited as one."""

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
    """Where it stands in the original; its first line is that of the definition if one starts here."""
    char_start: int
    """Start in the stored text, in code points."""
    char_end: int
    """End, exclusive."""
    verbatim: bool
    """Whether the text is the stored text between char_start and char_end."""
    header: str
    """What is embedded before the text, by `embedding_input`; shortened to its share of the window."""
    places: Parts = ()
    """Places of its parts, where they are several and the text holds them; empty if all of it has the one place."""


def embedding_input(header: str, text: str) -> str:
    """What is embedded for a chunk: the document's title and section above the text."""
    return f"{header}\n{text}" if header else text


def input_hash(chunk: Chunk) -> bytes:
    """Tells what is embedded for a chunk from all else that may be: 16 bytes."""
    return hashlib.sha256(embedding_input(chunk.header, chunk.text).encode()).digest()[:16]
