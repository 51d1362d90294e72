"""The worker's values, and its interfaces to the store and the embedder. No gRPC, no SQL."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from citewire_kit.tenant import Tenant
from citewire_retriever.model import Space

Lane = Literal["interactive", "bulk"]
JobKind = Literal["ingest", "embed", "sweep", "backfill", "enrich"]
Vectors = NDArray[np.float32]
"""One row per text."""


class LeaseLostError(Exception):
    """The job isn't this worker's any more: its lease expired, it was queued again, or its document was deleted."""


@dataclass(frozen=True, slots=True)
class Job:
    """A job that this worker holds."""

    job_id: int
    """Its id, unique in the organisation."""
    document_id: int
    """Its document."""
    version: int
    """The document's version."""
    kind: JobKind
    """The kind of work."""
    attempt: int
    """Claims so far, including this one."""
    fence: int
    """Fence, which grows with each claim; a worker with an older one can't write."""
    tenant: Tenant
    """The tenant for which it runs."""
    trace_context: Mapping[str, str]
    """W3C trace context and request id of the upload."""
    age_seconds: float
    """Seconds since it was first queued."""
    lane: Lane = "bulk"
    """Whether somebody is waiting for it."""
    waited_seconds: float = 0.0
    """Seconds since it could have run."""

    @property
    def names(self) -> dict[str, str | int]:
        """The fields that identify it in logs."""
        return {
            "org_id": self.tenant.org_id,
            "document_id": self.document_id,
            "version": self.version,
            "job_id": self.job_id,
            "kind": self.kind,
        }


@dataclass(frozen=True, slots=True)
class OwnEmbedding:
    """A tenant's own embedding provider: names in plain text, key and address sealed for the embedder."""

    provider: str
    model: str
    dimensions: int
    """Length of the vectors; 0 is the model's own."""
    user_id: str
    """The owning user; "" for the organisation."""
    sealed_api_base: bytes = field(default=b"", repr=False)
    sealed_key: bytes = field(default=b"", repr=False)


@dataclass(frozen=True, slots=True)
class VersionToIngest:
    """Data about a version before it is read."""

    file_name: str
    """Its file's name; empty if it wasn't a file."""
    media_type: str
    """The client's media type."""
    size_bytes: int
    """Size of the original."""
    sha256: bytes
    """SHA-256 of the original."""
    title: str
    """The document's current title."""
    title_given: bool
    """Whether a person chose it; otherwise the one found in the text replaces it."""
    space: Space | None
    """The organisation's live embedding space; None before its first document."""
    own: OwnEmbedding | None = None
    """The uploader's own embedding provider, or else the organisation's; None for the operator's."""
    only_own: bool = False
    """Whether the organisation requires its own."""


@dataclass(frozen=True, slots=True)
class VectorTable:
    """The table of a space's vectors."""

    space_id: int
    name: str


@dataclass(frozen=True, slots=True)
class StagedChunk:
    """A chunk stored by an earlier attempt; complete if its vector is stored too."""

    index: int
    content_hash: bytes
    char_start: int
    has_vector: bool


@dataclass(frozen=True, slots=True)
class Publication:
    """Data of a version for publishing."""

    title: str | None
    """The title found in the text; None leaves the document's unchanged."""
    media_type: str
    """Media type by content."""
    pages: int | None
    """Number of pages; None if the format has none."""
    chunks: int
    """Number of chunks."""
    tokens: int
    """Tokens of all chunks."""
    table: VectorTable
    """The tables with its vectors."""
    keep_seconds: float
    """How long superseded versions keep their text, chunks and bytes."""
    further: bool = False
    """Whether to embed it in further spaces afterwards."""


@dataclass(frozen=True, slots=True)
class StoredChunk:
    """The embedded parts of a chunk of a live version."""

    chunk_id: int
    section: str
    text: str
    tokens: int


@dataclass(frozen=True, slots=True)
class LiveVersion:
    """A live version."""

    title: str
    """Its document's title for embedding, with its file's name."""
    space: Space | None
    """The organisation's live space."""
    only_own: bool
    """Whether only the organisation's own providers may see its documents."""


class Published(StrEnum):
    """The result of publishing."""

    LIVE = "live"
    """The version is live."""
    OVERTAKEN = "overtaken"
    """A newer version was already live; this one is stored as superseded."""
    OTHER_SPACE = "other_space"
    """The organisation's space changed meanwhile: nothing was published, and ingest must run again."""


@dataclass(frozen=True, slots=True)
class QueueState:
    """The queue of all tenants: jobs that could run now, and how many seconds the oldest has waited."""

    depth: int
    oldest_seconds: float


@dataclass(frozen=True, slots=True)
class ModelWindow:
    """The model that embeds a document."""

    space: Space
    """The space of its vectors."""
    max_tokens: int
    """Its window, without special tokens."""
    own: OwnEmbedding | None = None
    """The tenant's own provider, if it is used."""
