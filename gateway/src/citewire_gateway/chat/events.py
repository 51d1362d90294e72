"""The canonical events of a chat: what the pipeline says and each dialect writes in its own way."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import ClassVar

from citewire_gateway.clients.domain import Chunk, Hit
from citewire_gateway.clients.verified import Span, Uncited, Verdict, Verified

SNIPPET_CHARS = 200


class EventType(StrEnum):
    """Names of the events, as the native dialect writes them."""

    CONVERSATION = "conversation"
    STEP = "step"
    DECISION = "decision"
    CITATIONS = "citations"
    TOKEN = "token"  # noqa: S105 - a piece of text, no secret
    CITATION = "citation"
    UNCITED = "uncited"
    SOURCES = "sources"
    ASSESSMENT = "assessment"
    USAGE = "usage"
    ERROR = "error"
    DONE = "done"


@dataclass(frozen=True, slots=True)
class ConversationCreated:
    """A conversation was created for this question."""

    type: ClassVar[EventType] = EventType.CONVERSATION
    conversation_id: str


@dataclass(frozen=True, slots=True)
class Step:
    """Something that was decided or left out on the way, in words that a user can read."""

    type: ClassVar[EventType] = EventType.STEP
    name: str
    text: str
    path: str | None = None
    counts: Mapping[str, int] | None = None
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class Decided:
    """Whether the question needs retrieval; the first event of a chat that asks itself."""

    type: ClassVar[EventType] = EventType.DECISION
    needs_retrieval: bool
    reason: str
    fallback: bool = False


@dataclass(frozen=True, slots=True)
class Citation:
    """A passage that was placed in the prompt, under its number there."""

    index: int
    hit: Hit

    @property
    def snippet(self) -> str:
        """The passage's first 200 characters."""
        return self.hit.chunk.text[:SNIPPET_CHARS]


@dataclass(frozen=True, slots=True)
class Citations:
    """What was placed in the prompt, in the same order and with the same numbers; sent before the first token."""

    type: ClassVar[EventType] = EventType.CITATIONS
    citations: tuple[Citation, ...]


@dataclass(frozen=True, slots=True)
class Tokens:
    """Pieces of the answer's text that arrived together: one frame each, one socket write for all."""

    type: ClassVar[EventType] = EventType.TOKEN
    texts: Sequence[str]


@dataclass(frozen=True, slots=True)
class CheckedCitation:
    """A sentence of the answer, and what the passage that it cites says about it; after the sentence's last token.

    Attributes:
        index: The passage's number.
        sentence: Where the sentence stands in the answer.
        start_line: The quote's first line, where the document has lines.
        quote: The passage's own words that support the sentence; "" if nothing comes near.
        quote_start: Where they start in the chunk's text, in Unicode code points.
        quote_end: Where they end, exclusive.
        document_start: Where they start in the version's stored text; None without a quote.
        document_end: Where they end there, exclusive.
        support: How far the passage supports the sentence, 0-1.
        verdict: On this passage alone.
        sentence_verdict: On all passages that the sentence cites together.
        mismatches: What the sentence states and the passage doesn't: numbers, names, negations.
    """

    type: ClassVar[EventType] = EventType.CITATION
    index: int
    sentence: Span
    chunk_id: int
    document_id: int
    version: int
    page_number: int | None
    row_number: int | None
    start_line: int | None
    quote: str
    quote_start: int
    quote_end: int
    document_start: int | None
    document_end: int | None
    support: float
    verdict: Verdict
    sentence_verdict: Verdict
    mismatches: tuple[str, ...] = ()

    @classmethod
    def of(cls, verified: Verified, chunk: Chunk) -> "CheckedCitation":
        """Puts a verdict together with the place that it speaks of."""
        # The words of a chunk that isn't its document's text have no place there.
        placed = bool(verified.quote) and chunk.verbatim
        return cls(
            index=verified.number,
            sentence=verified.sentence,
            chunk_id=chunk.chunk_id,
            document_id=chunk.document_id,
            version=chunk.version,
            page_number=chunk.page_number,
            row_number=chunk.row_number,
            start_line=_line(chunk, verified.quote_start),
            quote=verified.quote,
            quote_start=verified.quote_start,
            quote_end=verified.quote_end,
            document_start=chunk.char_start + verified.quote_start if placed else None,
            document_end=chunk.char_start + verified.quote_end if placed else None,
            support=verified.support,
            verdict=verified.verdict,
            sentence_verdict=verified.sentence_verdict,
            mismatches=verified.mismatches,
        )


def _line(chunk: Chunk, offset: int) -> int | None:
    """The line of a character of the chunk, where each of its lines is one of the document's."""
    first, last = chunk.start_line, chunk.end_line
    if first is None or last is None or last - first != chunk.text.rstrip("\n").count("\n"):
        return first
    return first + chunk.text.count("\n", 0, offset)


@dataclass(frozen=True, slots=True)
class UncitedSentence:
    """A sentence of the answer that states facts and cites nothing; after its last token."""

    type: ClassVar[EventType] = EventType.UNCITED
    sentence: Span

    @classmethod
    def of(cls, uncited: Uncited) -> "UncitedSentence":
        """As the generator said."""
        return cls(uncited.sentence)


@dataclass(frozen=True, slots=True)
class Sources:
    """The same passages as `Citations` held, once more after the last token, for those who list them under it."""

    type: ClassVar[EventType] = EventType.SOURCES
    citations: tuple[Citation, ...]


@dataclass(frozen=True, slots=True)
class Assessed:
    """Whether the passages support the answer, and how useful it is, 0-1. `fallback`: neither could be had."""

    type: ClassVar[EventType] = EventType.ASSESSMENT
    supported: bool
    utility: float
    fallback: bool = False


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens that the chat spent, all its calls together."""

    type: ClassVar[EventType] = EventType.USAGE
    embedding_tokens: int
    prompt_tokens: int
    completion_tokens: int
    path: str | None = None
    """The context path that was taken, and the cost: only where the profile shows them."""
    cost_usd: float | None = None


@dataclass(frozen=True, slots=True)
class Outcome:
    """What is known of a chat at its end."""

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
    """Of an extractive answer, 0–1, found or not."""


@dataclass(frozen=True, slots=True)
class Done:
    """The chat is complete; nothing follows."""

    type: ClassVar[EventType] = EventType.DONE
    outcome: Outcome


Event = (
    ConversationCreated
    | Step
    | Decided
    | Citations
    | Tokens
    | CheckedCitation
    | UncitedSentence
    | Sources
    | Assessed
    | Usage
    | Done
)

PRELIMINARY = (ConversationCreated, Step)
"""Events that don't yet prove that an answer is coming: the status line may wait for the next one."""
