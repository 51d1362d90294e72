"""The canonical events of a chat: what the pipeline says and each dialect writes in its own way."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import ClassVar

from citewire_gateway.domain import Hit

SNIPPET_CHARS = 200


class EventType(StrEnum):
    """Names of the events, as the native dialect writes them."""

    CONVERSATION = "conversation"
    STEP = "step"
    DECISION = "decision"
    CITATIONS = "citations"
    TOKEN = "token"  # noqa: S105 - a piece of text, no secret
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


@dataclass(frozen=True, slots=True)
class Done:
    """The chat is complete; nothing follows."""

    type: ClassVar[EventType] = EventType.DONE
    outcome: Outcome


Event = ConversationCreated | Step | Decided | Citations | Tokens | Sources | Assessed | Usage | Done

PRELIMINARY = (ConversationCreated, Step)
"""Events that don't yet prove that an answer is coming: the status line may wait for the next one."""
