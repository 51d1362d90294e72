"""What the worker works with, and what it asks of the store and of the embedder. No gRPC, no SQL."""

from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from citewire_kit.tenant import Tenant
from citewire_retriever.ingest.chunks import Chunk
from citewire_retriever.ingest.errors import IngestError
from citewire_retriever.model import Space, Stage

JobKind = Literal["ingest", "embed", "sweep", "backfill"]
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
    """Its document's."""
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


class JobStore(ABC):
    """Jobs, and all that ingest reads and writes.

    Methods that take a job work under its tenant. Those that write raise `LeaseLostError`, and write nothing, if the
    worker holds it no longer. All raise `citewire_kit.errors.Unavailable` if the database can't be reached.
    """

    @abstractmethod
    async def claim(self, kind: JobKind, *, worker: str, lease_seconds: float, served: Sequence[str]) -> Job | None:
        """Takes the oldest job that may run, of the organisation whose turn it is.

        It is the turn of the one with the fewest running jobs; among these, of the one that isn't in `served`, or
        stands first there. Two workers never get the same job.
        """

    @abstractmethod
    async def requeue_expired(self) -> int:
        """Queues jobs again whose lease has passed; returns how many."""

    @abstractmethod
    async def release_all(self, worker: str) -> int:
        """Queues again whatever a worker that ends still holds; returns how many."""

    @abstractmethod
    async def renew(self, job: Job, *, lease_seconds: float) -> bool:
        """Extends a lease; False if the job isn't held any more."""

    @abstractmethod
    async def begin(self, job: Job) -> VersionToIngest:
        """Marks the version as processing, and reads what is known of it."""

    @abstractmethod
    def read_original(self, job: Job, size_bytes: int) -> AsyncGenerator[bytes]:
        """Reads the version's bytes, part by part."""

    @abstractmethod
    async def progress(self, job: Job, stage: Stage, done: int, total: int) -> None:
        """Writes how far the version is; watchers are told."""

    @abstractmethod
    async def save_text(self, job: Job, text: str) -> None:
        """Stores the text that chunks' spans point into, in place of what an earlier attempt stored."""

    @abstractmethod
    async def ensure_space(self, space: Space) -> VectorTable:
        """Finds a space's table, or makes it."""

    @abstractmethod
    async def staged(self, job: Job, table: VectorTable) -> list[StagedChunk]:
        """Reads what an earlier attempt has stored of the version's chunks, in order."""

    @abstractmethod
    async def clear(self, job: Job) -> None:
        """Removes the version's chunks, with their vectors."""

    @abstractmethod
    async def stage(self, job: Job, table: VectorTable, chunks: Sequence[Chunk], vectors: Vectors, total: int) -> None:
        """Stores a batch of chunks with their vectors. No search sees them before the version is live."""

    @abstractmethod
    async def publish(self, job: Job, publication: Publication) -> Published:
        """Makes the version the live one and ends the job, all in one transaction.

        Older versions lose their vectors at once; a sweep is queued for the rest of them.
        """

    @abstractmethod
    async def fail(self, job: Job, error: IngestError) -> None:
        """Marks the version as failed for good, removes what was staged, and ends the job. The live version stays."""

    @abstractmethod
    async def retry(self, job: Job, *, delay_seconds: float, uncount: bool = False) -> None:
        """Queues the job again.

        Args:
            job: The job.
            delay_seconds: Not before.
            uncount: Whether the attempt doesn't count: it was broken off by us.
        """

    @abstractmethod
    async def live(self, job: Job) -> LiveVersion | None:
        """Reads the job's version; None if it isn't the live one any more."""

    @abstractmethod
    async def unembedded(self, job: Job, table: VectorTable, most: int) -> list[StoredChunk]:
        """Reads chunks of the version, in order, that have no vector in a space."""

    @abstractmethod
    async def add_vectors(self, job: Job, table: VectorTable, chunk_ids: Sequence[int], vectors: Vectors) -> None:
        """Stores vectors of a live version in a space; those that are there already stay."""

    @abstractmethod
    async def end_embedding(self, job: Job, tables: Sequence[VectorTable], *, failed: bool = False) -> None:
        """Ends a job of the kind embed; from now on the organisation's searches may use these spaces."""

    @abstractmethod
    async def sweep(self, job: Job) -> None:
        """Forgets a superseded version: bytes, text, chunks. Does nothing to one that is live or may become so."""

    @abstractmethod
    async def queue_state(self) -> QueueState:
        """Measures the queue of ingest jobs."""

    @abstractmethod
    def wake_ups(self) -> AsyncGenerator[None]:
        """Yields whenever jobs were queued, until the connection is lost (`Unavailable`)."""


class Embedder(ABC):
    """The embedding model, wherever it runs. Raises `citewire_kit.errors.CitewireError`."""

    @abstractmethod
    async def window(self, model: str, own: OwnEmbedding | None = None) -> ModelWindow:
        """What a model takes, or a tenant's own provider; an empty name is the default model."""

    @abstractmethod
    async def count(self, window: ModelWindow, texts: Sequence[str]) -> list[int]:
        """Counts tokens, special ones excluded. Any number of texts."""

    @abstractmethod
    def embed(
        self, window: ModelWindow, batches: Sequence[Sequence[str]], *, truncate: bool = False
    ) -> AsyncGenerator[Vectors]:
        """Embeds batches of documents; yields the vectors of each, in order.

        Args:
            window: The model.
            batches: The texts.
            truncate: Leave out the tail of a text that is longer than the model takes, instead of failing.

        Raises:
            CitewireError: The call failed, or the model's space isn't this one any more (`FailedPrecondition`).
        """
