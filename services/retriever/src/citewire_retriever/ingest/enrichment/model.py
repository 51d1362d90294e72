"""What enrichment works with. No gRPC, no SQL."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum


class Field(StrEnum):
    """What enrichment may fill: `tags` of the document, the others in its metadata."""

    SUMMARY = "summary"
    ENTITY_TYPE = "entity_type"
    CATEGORY = "category"
    TAGS = "tags"


class EnrichmentSource(StrEnum):
    """What filled it in."""

    MODEL = "model"
    RULES = "rules"


class EnrichmentCode(StrEnum):
    """Why a document isn't enriched, as its `citewire.retriever.v1.EnrichmentError` says."""

    PROVIDER = "PROVIDER"
    """The model's provider failed or refused."""
    BUDGET = "BUDGET"
    """A budget has too little left."""
    UNREADABLE = "UNREADABLE"
    """The model answered with something else."""
    INTERNAL = "INTERNAL"
    """Every attempt failed for a reason of ours."""


class EnrichmentError(Exception):
    """An enrichment that another attempt wouldn't make better."""

    def __init__(self, code: EnrichmentCode, message: str) -> None:
        super().__init__(f"{code}: {message}")
        self.code = code
        """What is wrong, for programs."""
        self.message = message
        """What is wrong, for people; never a provider's text."""


@dataclass(frozen=True, slots=True)
class KnownLabels:
    """What the owner's documents are labelled with, the most frequent first."""

    entity_types: Sequence[str] = ()
    categories: Sequence[str] = ()
    tags: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class OwnChatModel:
    """A model of a tenant's chain: its own provider, or with `provider` empty one of the operator's models."""

    provider: str
    model: str
    user_id: str
    """Whose; "" is the organisation's."""
    sealed_api_base: bytes = field(default=b"", repr=False)
    sealed_key: bytes = field(default=b"", repr=False)


@dataclass(frozen=True, slots=True)
class DocumentToEnrich:
    """A live document whose collection wants it enriched."""

    type: str
    title: str
    url: str
    text: str
    """Its beginning."""
    open_fields: frozenset[Field]
    """What may be written: it is empty, or was written by enrichment and changed by nobody."""
    labels: KnownLabels
    models: Sequence[OwnChatModel]
    """The tenant's own chain; empty: the operator's."""
    only_own: bool
    """Whether the organisation lets nobody but its own providers see its documents."""
    metadata_bytes: int
    """Size of its metadata as JSON."""


@dataclass(frozen=True, slots=True)
class Description:
    """What is to be written of a document; what is empty is left empty."""

    source: EnrichmentSource
    summary: str = ""
    entity_type: str = ""
    category: str = ""
    tags: Sequence[str] = ()
