"""The values of enrichment. No gRPC, no SQL."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum


class Field(StrEnum):
    """Fields that enrichment may fill: `tags` of the document, the others in its metadata."""

    SUMMARY = "summary"
    ENTITY_TYPE = "entity_type"
    CATEGORY = "category"
    TAGS = "tags"


class EnrichmentSource(StrEnum):
    """The source of the filled fields."""

    MODEL = "model"
    RULES = "rules"


class EnrichmentCode(StrEnum):
    """Why a document isn't enriched; see `citewire.retriever.v1.EnrichmentError`."""

    PROVIDER = "PROVIDER"
    """The model's provider failed or rejected the request."""
    BUDGET = "BUDGET"
    """A budget has too little left."""
    UNREADABLE = "UNREADABLE"
    """The model's answer is invalid."""
    INTERNAL = "INTERNAL"
    """All attempts failed because of an internal error."""


class EnrichmentError(Exception):
    """An enrichment for which another attempt is useless."""

    def __init__(self, code: EnrichmentCode, message: str) -> None:
        super().__init__(f"{code}: {message}")
        self.code = code
        """The error, for programs."""
        self.message = message
        """The error, for users; never a provider's text."""


@dataclass(frozen=True, slots=True)
class KnownLabels:
    """Labels of the owner's documents, the most frequent first."""

    entity_types: Sequence[str] = ()
    categories: Sequence[str] = ()
    tags: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class OwnChatModel:
    """A model of a tenant's chain: its own provider, or with `provider` empty one of the operator's models."""

    provider: str
    model: str
    user_id: str
    """The owning user; "" for the organisation."""
    sealed_api_base: bytes = field(default=b"", repr=False)
    sealed_key: bytes = field(default=b"", repr=False)


@dataclass(frozen=True, slots=True)
class DocumentToEnrich:
    """A live document of a collection with enrichment."""

    type: str
    title: str
    url: str
    text: str
    """The beginning of its text."""
    open_fields: frozenset[Field]
    """Fields that may be written: empty ones, and those written by enrichment and unchanged since."""
    labels: KnownLabels
    models: Sequence[OwnChatModel]
    """The tenant's own chain; empty for the operator's."""
    only_own: bool
    """Whether only the organisation's own providers may see its documents."""
    metadata_bytes: int
    """Size of its metadata as JSON."""


@dataclass(frozen=True, slots=True)
class Description:
    """The values to write to a document; empty ones are left out."""

    source: EnrichmentSource
    summary: str = ""
    entity_type: str = ""
    category: str = ""
    tags: Sequence[str] = ()
