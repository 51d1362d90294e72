"""A tenant's providers as the gateway knows them: names in plain, keys and addresses as ciphertext."""

from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

from citewire_gateway.clients.domain import Space

MAX_FALLBACKS = 4
ORG = ""
"""The `user_id` of what is the organisation's."""


class ProviderType(StrEnum):
    """What a provider is for."""

    CHAT = "chat"
    EMBEDDING = "embedding"
    RERANK = "rerank"


@dataclass(frozen=True, slots=True)
class ProviderSpec:
    """A provider as its owner gives it, on its way to be sealed. `user_id` "" is the organisation."""

    type: ProviderType
    provider: str
    user_id: str
    model: str = ""
    api_base: str = field(default="", repr=False)
    api_key: str = field(default="", repr=False)
    dimensions: int = 0
    skip_test: bool = False


@dataclass(frozen=True, slots=True)
class ProviderRef:
    """A sealed provider, as calls carry it."""

    type: ProviderType
    provider: str
    model: str
    user_id: str
    sealed_api_base: bytes = field(default=b"", repr=False)
    sealed_key: bytes = field(default=b"", repr=False)
    dimensions: int = 0


@dataclass(frozen=True, slots=True)
class ProviderTest:
    """How the test call went when the provider was saved."""

    tried: bool
    ok: bool
    reason: str = ""
    text: str = ""
    status: int = 0
    dimensions: int = 0


@dataclass(frozen=True, slots=True)
class Sealed:
    """What sealing gave. `space` is that of an embedding provider, where it is known."""

    ref: ProviderRef
    test: ProviderTest
    space: Space | None = None


@dataclass(frozen=True, slots=True)
class Entry:
    """One row: a provider, or in a chain of fallbacks a model of the operator's.

    Attributes:
        user_id: Whose; "" is the organisation's.
        position: 0 is asked first.
        ref: None for a model of the operator's.
        model: Its name.
    """

    user_id: str
    type: ProviderType
    position: int
    model: str
    ref: ProviderRef | None = None
    test: ProviderTest | None = None
    updated_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class TenantProviders:
    """All that a user sees: own and the organisation's, and whether the organisation demands its own."""

    entries: tuple[Entry, ...] = ()
    require_own: bool = False

    def chain(self, type_: ProviderType, user_id: str) -> tuple[Entry, ...]:
        """Returns the entries of one owner and type, first the one that is asked first."""
        found = [one for one in self.entries if one.type is type_ and one.user_id == user_id]
        return tuple(sorted(found, key=lambda one: one.position))

    def effective(self, type_: ProviderType, user_id: str) -> tuple[Entry, ...]:
        """Returns what counts for a user: their own, or else the organisation's."""
        return self.chain(type_, user_id) or self.chain(type_, ORG)


@dataclass(frozen=True, slots=True)
class Chosen:
    """The providers of one request; None is the operator's.

    Attributes:
        fallbacks: Who takes over from the chat provider: sealed providers, and names of the operator's models.
        only_own: Whether the operator's may not be used in place of what is missing.
    """

    chat: ProviderRef | None = None
    fallbacks: tuple[ProviderRef | str, ...] = ()
    embedding: ProviderRef | None = None
    rerank: ProviderRef | None = None
    only_own: bool = False


OPERATORS = Chosen()
"""All of the operator's."""
