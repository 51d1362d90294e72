"""The canonical events of a chat: what the pipeline says and each dialect writes in its own way."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar
from urllib.parse import quote

from citewire.common.v1 import place_pb2
from citewire.generator.v1 import generator_pb2
from citewire.retriever.v1 import retriever_pb2

from citewire_dialects.profile import EventType
from citewire_kit.enums import enum_text

SNIPPET_CHARS = 200


@dataclass(frozen=True, slots=True)
class ConversationCreated:
    """A conversation was created for this question."""

    type: ClassVar[EventType] = EventType.CONVERSATION
    conversation_id: str


@dataclass(frozen=True, slots=True)
class Step:
    """A decision or omission on the way, in words for the user."""

    type: ClassVar[EventType] = EventType.STEP
    name: str
    text: str
    path: str | None = None
    counts: Mapping[str, int] | None = None
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class Decision:
    """Whether the question needs retrieval; the first event of a chat that decides this."""

    type: ClassVar[EventType] = EventType.DECISION
    decision: generator_pb2.DecideResponse


@dataclass(frozen=True, slots=True)
class Citation:
    """A passage that was placed in the prompt, with its number there."""

    index: int
    result: retriever_pb2.SearchResult

    @property
    def chunk(self) -> retriever_pb2.Chunk:
        """The passage's chunk."""
        return self.result.chunk

    @property
    def is_brought(self) -> bool:
        """Whether it comes from the request, and has no document."""
        return not self.chunk.document_id

    @property
    def document_name(self) -> str:
        """The file name of the passage's document, or its title if it wasn't a file."""
        return self.chunk.file_name or self.chunk.title

    @property
    def document_type(self) -> str:
        """The document's type; "" in answers stored by releases without dates, which are replayed unchanged."""
        return self.chunk.type if self.chunk.HasField("created_at") else ""

    @property
    def url(self) -> str:
        """The URL that opens the passage at its page or row: the document's own, or else that of its content.

        For passages from the request: the address given there, or "".
        """
        chunk, place = self.chunk, self.chunk.place
        if self.is_brought:
            return chunk.url
        url = chunk.url or f"/v1/documents/{chunk.document_id}/content?version={chunk.version}"
        if "#" in url:
            return url
        if place.HasField("part"):  # the rest of the place is within the part
            return f"{url}#part={quote(place.part, safe='')}"
        if place.HasField("page"):
            return f"{url}#page={place.page}"
        if place.HasField("slide"):
            return f"{url}#slide={place.slide}"
        rows = f"{place.row}-{place.end_row}" if place.HasField("end_row") else place.row
        if place.HasField("sheet"):
            inside = f"range={place.cell_range}" if place.HasField("cell_range") else f"row={rows}"
            return f"{url}#sheet={quote(place.sheet, safe='')}&{inside}"
        if place.HasField("cell"):
            return f"{url}#cell={place.cell}"
        if place.HasField("record_path"):
            return f"{url}#path={quote(place.record_path, safe='')}"
        if place.HasField("start_seconds"):  # a media fragment
            return f"{url}#t={place.start_seconds:g}"
        return f"{url}#row={rows}" if place.HasField("row") else url  # RFC 7111

    @property
    def snippet(self) -> str:
        """The passage's first 200 characters."""
        return self.chunk.text[:SNIPPET_CHARS]


@dataclass(frozen=True, slots=True)
class Citations:
    """The passages in the prompt, in the same order and with the same numbers; sent before the first token."""

    type: ClassVar[EventType] = EventType.CITATIONS
    citations: tuple[Citation, ...]


@dataclass(frozen=True, slots=True)
class Tokens:
    """Pieces of the answer's text that arrived together: one frame each, one socket write for all."""

    type: ClassVar[EventType] = EventType.TOKEN
    texts: Sequence[str]


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A piece of a call of one of the caller's tools; shown in dialects that have tools."""

    type: ClassVar[EventType] = EventType.TOOL_CALL
    piece: generator_pb2.ToolCallDelta


@dataclass(frozen=True, slots=True)
class VerifiedCitation:
    """A sentence of the answer with the support by a cited passage; sent after the sentence's last token."""

    type: ClassVar[EventType] = EventType.CITATION
    verified: generator_pb2.VerifiedCitation
    chunk: retriever_pb2.Chunk

    @property
    def verdict(self) -> str:
        """The verdict considering only this passage."""
        return enum_text(generator_pb2.Verdict, self.verified.verdict)

    @property
    def sentence_verdict(self) -> str:
        """The verdict considering all passages that the sentence cites."""
        return enum_text(generator_pb2.Verdict, self.verified.sentence_verdict)

    @property
    def place(self) -> place_pb2.Place:
        """The quote's place in the original; the chunk's, if there is no quote or it isn't the stored text."""
        place, text, verified = place_pb2.Place(), self.chunk.text, self.verified
        parts = [part.place for part in self.chunk.places if verified.quote and part.start <= verified.quote_start]
        place.CopyFrom(parts[-1] if parts else self.chunk.place)
        rendered = parts or place.HasField("record_path")  # its lines are those of the file, not of the text
        if verified.quote and self.chunk.verbatim and place.HasField("end_line") and not rendered:
            # Counted from the end: a chunk's first line may be that of a definition below its comment.
            place.start_line = place.end_line - text.count("\n", verified.quote_start, len(text) - 1)
        place.ClearField("end_line")
        place.ClearField("end_row")
        return place

    @property
    def document_start(self) -> int | None:
        """Start of the quote in the version's stored text; None without a quote, or if it isn't known."""
        # A chunk whose text differs from its document's has no offsets there.
        known = self.verified.quote and self.chunk.verbatim
        return self.chunk.char_start + self.verified.quote_start if known else None

    @property
    def document_end(self) -> int | None:
        """Its exclusive end there."""
        start = self.document_start
        return None if start is None else start + self.verified.quote_end - self.verified.quote_start


@dataclass(frozen=True, slots=True)
class UncitedSentence:
    """A sentence of the answer that states facts and cites nothing; sent after its last token."""

    type: ClassVar[EventType] = EventType.UNCITED
    sentence: generator_pb2.AnswerSpan


@dataclass(frozen=True, slots=True)
class Sources:
    """The passages of `Citations` again, after the last token, for clients that list them below the answer."""

    type: ClassVar[EventType] = EventType.SOURCES
    citations: tuple[Citation, ...]


@dataclass(frozen=True, slots=True)
class Assessment:
    """Whether the passages support the answer, and how useful it is."""

    type: ClassVar[EventType] = EventType.ASSESSMENT
    assessment: generator_pb2.AssessResponse


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens of all the chat's calls."""

    type: ClassVar[EventType] = EventType.USAGE
    embedding_tokens: int
    prompt_tokens: int
    completion_tokens: int
    path: str | None = None
    """The context path and the cost: only if the profile shows them."""
    cost_usd: float | None = None
    cached_tokens: int | None = None
    """Prompt tokens that the provider read from its cache; None if there were none."""
    cache_write_tokens: int | None = None
    """Tokens that it wrote to its cache, if it bills for that; None if there were none."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """Information about a chat at its end."""

    conversation_id: str | None
    exchange_id: str
    profile: str
    provider: str = ""
    model: str = ""
    finish_reason: str = "stop"
    not_found: bool = False
    cited: tuple[int, ...] = ()
    steps: tuple[Step, ...] = ()
    answerable_score: float | None = None
    """Score of an extractive answer, 0–1, whether or not it was found."""
    refusal: str = ""
    """Why there is no JSON, if it was requested."""


@dataclass(frozen=True, slots=True)
class Done:
    """The chat is complete; nothing follows."""

    type: ClassVar[EventType] = EventType.DONE
    outcome: Outcome


Event = (
    ConversationCreated
    | Step
    | Decision
    | Citations
    | Tokens
    | ToolCall
    | VerifiedCitation
    | UncitedSentence
    | Sources
    | Assessment
    | Usage
    | Done
)

PRELIMINARY = (ConversationCreated, Step)
"""Events that don't yet prove that an answer will come: the status line may wait for the next one."""
