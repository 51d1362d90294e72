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
    """The conversation it belongs to; None if its profile keeps none."""
    creates: bool
    """Whether it begins that conversation."""
    lease_seconds: float
    """After which it counts as lost if nobody closed it."""
    shown: Sequence[str] | None = None
    """Names of the events that readers are shown, where its events are stored."""
    keep_seconds: float = 0.0
    """How long they are kept after its end."""


@dataclass(frozen=True, slots=True)
class Closing:
    """How an exchange ended."""

    state: State
    reason: str | None = None
    """Why it was cancelled or failed; None if it is done."""
    ordinal: int | None = None
    """Of the answer in its conversation; None if the conversation has not been begun."""
    discard: bool = False
    """Whether the question is to go, with the conversation that it created: nothing came of it, and the caller was
    told so by an HTTP error."""
    answer: str = ""
    details: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """What is kept with the answer, as JSON."""
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


@dataclass(frozen=True, slots=True)
class AnswerSources:
    """What an answer was written from."""

    ordinal: int
    history: int | None
    """Messages of the conversation that its model had read; None in an answer of a version that didn't note it."""
    document_ids: Sequence[int]


@dataclass(frozen=True, slots=True)
class Readers:
    """Who may read a conversation beside its user."""

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
    """What the conversation's user thinks of the answer; None for every other reader."""


@dataclass(frozen=True, slots=True)
class StoredExchange:
    """What was asked and answered in one exchange."""

    conversation_id: UUID
    question: str
    answer: StoredMessage | None
    """None until it has ended."""
    last: bool
    """Whether nothing was asked after it."""


@dataclass(frozen=True, slots=True)
class AskedAnswer:
    """An answer with what was asked."""

    profile: str
    question: str
    message: StoredMessage
