"""Stored chats, as the pipeline writes them and readers get them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal
from uuid import UUID

from citewire.generator.v1 import generator_pb2

from citewire_accounts.tenants.feedback import Feedback
from citewire_http.runs.store import Batch
from citewire_kit.tenant import Tenant

State = Literal["done", "cancelled", "failed"]


@dataclass(frozen=True, slots=True)
class Exchange:
    """One chat."""

    exchange_id: UUID
    tenant: Tenant
    profile: str
    dialect: str
    request_id: str
    question: str
    conversation_id: UUID | None
    """Its conversation; None if its profile stores none."""
    creates: bool
    """Whether it creates that conversation."""
    lease_seconds: float
    """Time after which it counts as lost if nobody closed it."""
    shown: Sequence[str] | None = None
    """Names of the events shown to readers, if its events are stored."""
    keep_seconds: float = 0.0
    """How long they are kept after its end."""


@dataclass(frozen=True, slots=True)
class Closing:
    """How an exchange ended."""

    state: State
    reason: str | None = None
    """Why it was cancelled or failed; None if it completed."""
    ordinal: int | None = None
    """Ordinal of the answer in its conversation; None if the question hasn't been stored."""
    discard: bool = False
    """Whether to delete the question, and the conversation that it created, because the caller got an HTTP error."""
    answer: str = ""
    details: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """Details stored with the answer, as JSON."""
    provider: str = ""
    model: str = ""
    embedding_model: str = ""
    embedding_tokens: int = 0
    usage: generator_pb2.TokenUsage = field(default_factory=generator_pb2.TokenUsage)
    first_token_ms: int | None = None
    """Milliseconds from the request to the first token; None if there was none."""
    events: Sequence[Batch] = ()
    """The last events of a stored run."""


@dataclass(frozen=True, slots=True)
class Conversation:
    """A conversation without its messages."""

    conversation_id: UUID
    title: str
    profile: str
    created_at: datetime
    updated_at: datetime
    user_id: str
    """Its owner."""
    found_in: Sequence[int] = ()
    """Ordinals of the answers that contain a searched text, if neither the title nor a question does."""


@dataclass(frozen=True, slots=True)
class AnswerSources:
    """The sources of an answer."""

    ordinal: int
    history: int | None
    """Number of the conversation's messages that its model had read; None if an earlier version didn't record it."""
    document_ids: Sequence[int]


@dataclass(frozen=True, slots=True)
class Readers:
    """Who may read a conversation besides its user."""

    users: Sequence[str] = ()
    groups: Sequence[str] = ()
    organisation: bool = False
    """Whether everybody in the organisation may read it."""


@dataclass(frozen=True, slots=True)
class StoredMessage:
    """A question or an answer. `details` of an answer: citations, usage, steps, model."""

    ordinal: int
    role: str
    content: str
    state: str
    details: dict[str, Any]
    created_at: datetime
    exchange_id: UUID
    feedback: Feedback | None = None
    """The rating by the conversation's user; None for other readers."""


@dataclass(frozen=True, slots=True)
class StoredExchange:
    """Question and answer of one exchange."""

    conversation_id: UUID
    question: str
    answer: StoredMessage | None
    """None until it has ended."""
    last: bool
    """Whether it is the last of its conversation."""


@dataclass(frozen=True, slots=True)
class AskedAnswer:
    """An answer with its question."""

    profile: str
    question: str
    message: StoredMessage
