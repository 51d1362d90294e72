"""What the worker works with, and what it asks of the store and of the embedder. No gRPC, no SQL."""

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
    """The job isn't this worker's any more: its lease passed, it was queued anew, or its document was deleted."""


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
    """What is to be done."""
    attempt: int
    """Claims so far, this one included."""
    fence: int
    """Grows with each claim; whoever holds an older one may write nothing."""
    tenant: Tenant
    """On whose behalf."""
    trace_context: Mapping[str, str]
    """W3C trace context and request id of the upload."""
    age_seconds: float
    """Since it was queued first."""
    lane: Lane = "bulk"
    """Whether somebody waits for it."""
    waited_seconds: float = 0.0
    """Since it could have run."""


@dataclass(frozen=True, slots=True)
class OwnEmbedding:
    """A tenant's own embedding provider: names in plain, key and address as ciphertext that only the embedder opens."""

    provider: str
    model: str
    dimensions: int
    """Length of the vectors; 0 is the model's own."""
    user_id: str
    """Whose; "" is the organisation's."""
    sealed_api_base: bytes = field(default=b"", repr=False)
    sealed_key: bytes = field(default=b"", repr=False)


@dataclass(frozen=True, slots=True)
class VersionToIngest:
    """What is known of a version before it is read."""

    file_name: str
    """Its file's name; empty if it wasn't a file."""
    media_type: str
    """As the client said."""
    size_bytes: int
    """Size of the original."""
    sha256: bytes
    """Of the original."""
    title: str
    """The document's title as it is now."""
    title_given: bool
    """Whether a person chose it; if not, the one found in the text takes its place."""
    space: Space | None
    """The organisation's live embedding space; None before its first document."""
    own: OwnEmbedding | None = None
    """The uploader's own embedding provider, or else the organisation's; None: the operator's."""
    only_own: bool = False
    """Whether the organisation demands its own."""


@dataclass(frozen=True, slots=True)
class VectorTable:
    """Where a space's vectors are kept."""

    space_id: int
    name: str


@dataclass(frozen=True, slots=True)
class StagedChunk:
    """A chunk that an earlier attempt has stored; whole if its vector is there too."""

    index: int
    content_hash: bytes
    char_start: int
    has_vector: bool


@dataclass(frozen=True, slots=True)
class Publication:
    """What becomes of a version when it goes live."""

    title: str | None
    """The title found in the text; None leaves the document's as it is."""
    media_type: str
    """By content."""
    pages: int | None
    """Number of pages; None if the format has none."""
    chunks: int
    """Number of chunks."""
    tokens: int
    """Tokens of all chunks."""
    table: VectorTable
    """Where the vectors are."""
    keep_seconds: float
    """How long superseded versions keep their text, chunks and bytes."""
    further: bool = False
    """Whether it is to be embedded in further spaces afterwards."""


@dataclass(frozen=True, slots=True)
class StoredChunk:
    """A chunk of a live version, as far as it is embedded."""

    chunk_id: int
    section: str
    text: str
    tokens: int


@dataclass(frozen=True, slots=True)
class LiveVersion:
    """A version that is searched."""

    title: str
    """Its document's, as it is embedded: with its file's name."""
    space: Space | None
    """The organisation's live space."""
    only_own: bool
    """Whether the organisation lets nobody but its own providers see its documents."""


class Published(StrEnum):
    """What publishing did."""

    LIVE = "live"
    """The version is searched now."""
    OVERTAKEN = "overtaken"
    """A newer version was live already: this one is kept as superseded."""
    OTHER_SPACE = "other_space"
    """The organisation's space became another one meanwhile: nothing was changed, ingest must run again."""


@dataclass(frozen=True, slots=True)
class QueueState:
    """The queue over all tenants: jobs that could run now, and the seconds that the oldest has waited."""

    depth: int
    oldest_seconds: float


@dataclass(frozen=True, slots=True)
class ModelWindow:
    """The model that a document is embedded with."""

    space: Space
    """What its vectors belong to."""
    max_tokens: int
    """What it takes, special tokens excluded."""
    own: OwnEmbedding | None = None
    """The tenant's own provider, if that is what embeds."""
