"""What is kept of a chat: its exchange (what it spent, how it ended) and, where the profile says so, its messages."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal
from uuid import UUID

from citewire_gateway.clients.generation import Message, TokenUsage
from citewire_kit.tenant import Tenant

State = Literal["done", "cancelled", "failed"]
_TITLE_CHARS = 80


@dataclass(frozen=True, slots=True)
class Exchange:
    """One chat.

    Attributes:
        conversation_id: The conversation it belongs to; None if its profile keeps none.
        creates: Whether it begins that conversation.
        lease_seconds: After which it counts as lost if nobody closed it.
    """

    exchange_id: UUID
    tenant: Tenant
    profile: str
    dialect: str
    request_id: str
    question: str
    conversation_id: UUID | None
    creates: bool
    lease_seconds: float


@dataclass(frozen=True, slots=True)
class Closing:
    """How an exchange ended.

    Attributes:
        reason: Why it was cancelled or failed; None if it is done.
        ordinal: Of the answer in its conversation; None if the conversation has not been begun.
        discard: Whether the question is to go, with the conversation that it created: nothing came of it, and the
            caller was told so by an HTTP error.
        details: What is kept with the answer, as JSON.
        first_token_ms: Milliseconds from the request to the first token; None if there was none.
    """

    state: State
    reason: str | None = None
    ordinal: int | None = None
    discard: bool = False
    answer: str = ""
    details: Mapping[str, Any] = field(default_factory=dict[str, Any])
    provider: str = ""
    model: str = ""
    embedding_model: str = ""
    embedding_tokens: int = 0
    usage: TokenUsage = field(default_factory=TokenUsage)
    first_token_ms: int | None = None


class Records(ABC):
    """Keeps chats. All methods raise `CitewireError`."""

    @abstractmethod
    async def open(self, exchange: Exchange) -> None:
        """Opens the exchange.

        Raises:
            NotFound: It continues a conversation that the user doesn't have (`CONVERSATION_NOT_FOUND`).
        """

    @abstractmethod
    async def history(self, exchange: Exchange, most: int) -> Sequence[Message]:
        """Returns the last complete messages of the conversation that the exchange continues, oldest first."""

    @abstractmethod
    async def begin(self, exchange: Exchange) -> int:
        """Writes the question into its conversation, which is created if need be; returns the answer's ordinal."""

    @abstractmethod
    async def close(self, exchange: Exchange, closing: Closing) -> None:
        """Closes the exchange and writes the answer, in one transaction."""


def title_of(question: str) -> str:
    """Returns a conversation's title: its first question on one line, cut at a word's end."""
    line = " ".join(question.split())
    if len(line) <= _TITLE_CHARS:
        return line
    cut = line[: _TITLE_CHARS - 1]
    head, space, _ = cut.rpartition(" ")
    return f"{head if space and len(head) > _TITLE_CHARS // 2 else cut}…"
