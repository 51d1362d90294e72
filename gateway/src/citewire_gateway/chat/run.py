"""What a chat is asked, and how whoever asked may stop it."""

from dataclasses import dataclass
from typing import Literal
from uuid import UUID

from citewire_gateway.clients.domain import Scope
from citewire_gateway.clients.generation import Message
from citewire_gateway.profiles.model import Persist, Profile
from citewire_gateway.tenants.providers import OPERATORS, Chosen
from citewire_kit.tenant import Tenant

CancelCause = Literal["client", "drain", "deadline"]


@dataclass(frozen=True, slots=True)
class Ask:
    """One chat, as a route understood it.

    Attributes:
        scope: What is searched. `document_ids` is as the request had it: the profile says what an empty list means.
        dialect: Name of the wire format, for records and metrics.
        messages: The conversation that the request brought, the question last; empty if it brought only a question.
        keep: Whether the chat is to become a conversation, where the profile leaves that to the request.
        conversation_id: The conversation to continue; None begins one, where the profile keeps conversations.
        model: The chat model; "" is the default.
        embedding_model: The operator's model that embeds the question; "" is the default.
        own: The tenant's own providers for it.
        min_score_calibrated: Whether the threshold of the space that is searched counts in `min_score`'s stead, where
            it is known.
    """

    tenant: Tenant
    profile: Profile
    question: str
    scope: Scope
    top_k: int
    min_score: float | None
    dialect: str
    request_id: str
    messages: tuple[Message, ...] = ()
    conversation_id: UUID | None = None
    model: str = ""
    embedding_model: str = ""
    own: Chosen = OPERATORS
    keep: bool = False
    min_score_calibrated: bool = False

    @property
    def persists(self) -> bool:
        """Whether question and answer are kept in a conversation."""
        if self.profile.persist is Persist.ON_REQUEST:
            return self.keep or self.conversation_id is not None
        return self.profile.persist is Persist.ALWAYS


@dataclass(slots=True)
class RunControl:
    """Shared by a run and by who writes its events.

    Attributes:
        cause: Why the run is being cancelled; set before cancelling.
        committed: Whether the caller has been shown anything. Until then a failure leaves no question behind.
    """

    cause: CancelCause = "client"
    committed: bool = False
