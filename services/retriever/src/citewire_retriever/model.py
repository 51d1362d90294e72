"""What the retriever talks about, as plain frozen data. No transport, no SQL."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Final, Generic, Literal, NamedTuple, TypeAlias, TypeVar

from citewire_retriever.filters import Filter

JsonValue: TypeAlias = "bool | int | float | str | Sequence[JsonValue] | Mapping[str, JsonValue] | None"
JsonObject: TypeAlias = Mapping[str, JsonValue]

Status = Literal["pending", "processing", "ready", "failed"]
DocumentType = Literal["file", "article", "repository", "capture"]
SearchMode = Literal["dense", "lexical", "hybrid"]
Stage = Literal["parse", "chunk", "embed", "publish"]
DOCUMENT_TYPES: Final[tuple[DocumentType, ...]] = ("file", "article", "repository", "capture")

MAX_ID: Final = 2**53 - 1
"""Ids travel as JSON numbers."""


@dataclass(frozen=True, slots=True)
class Space:
    """An embedding space: vectors are comparable only inside one."""

    model: str
    revision: str
    dimensions: int


@dataclass(frozen=True, slots=True)
class IngestError:
    """Why a version failed: a code in upper case, and a sentence for the person who uploaded it."""

    code: str
    message: str


@dataclass(frozen=True, slots=True)
class Progress:
    """What the worker is doing with the latest version."""

    stage: Stage | None
    done: int
    total: int
    """Units in this stage; 0 if unknown."""
    attempt: int


@dataclass(frozen=True, slots=True)
class Document:
    """A document, described by its latest version."""

    document_id: int
    title: str
    file_name: str
    media_type: str
    type: str
    url: str
    collection: str
    tags: tuple[str, ...]
    metadata: JsonObject
    owner: str
    status: Status
    error: IngestError | None
    version: int
    live_version: int
    """The version that is searched; 0 if none is."""
    chunks: int
    pages: int | None
    size_bytes: int
    tokens: int
    created_at: datetime
    updated_at: datetime
    sha256: bytes
    progress: Progress


@dataclass(frozen=True, slots=True)
class NewContent:
    """What comes with new content, be it a new document or a new version of one.

    For a version, what is empty (or None) stays as it is. `request_id` makes a repetition of the same request harmless;
    "" is none.
    """

    document_id: int | None
    type: str
    file_name: str
    media_type: str
    title: str
    collection: str
    tags: tuple[str, ...]
    metadata: JsonObject | None
    url: str
    request_id: str = ""


@dataclass(frozen=True, slots=True)
class Changes:
    """What an update changes; None leaves a field as it is, an empty value empties it."""

    title: str | None = None
    url: str | None = None
    tags: tuple[str, ...] | None = None
    metadata: JsonObject | None = None
    collection: str | None = None


@dataclass(frozen=True, slots=True)
class DocumentQuery:
    """Which documents a list shows; empty and None mean all."""

    collection: str = ""
    type: str = ""
    status: Status | None = None
    tag: str = ""
    filter: Filter | None = None


@dataclass(frozen=True, slots=True)
class DocumentCursor:
    """The last document of the previous page."""

    created_at: datetime
    document_id: int


TEXT_TYPE = "text/plain; charset=utf-8"
"""Media type of the text that ingest found."""


@dataclass(frozen=True, slots=True)
class Original:
    """What is known of a version's bytes, or of the text found in them, before they are read; a text has no hash."""

    document_id: int
    version: int
    file_name: str
    media_type: str
    size_bytes: int
    sha256: bytes


@dataclass(frozen=True, slots=True)
class Collection:
    """A named group of documents."""

    name: str
    documents: int
    created_at: datetime


@dataclass(frozen=True, slots=True)
class Scope:
    """What a search reaches inside the caller's organisation: everything that satisfies all of these."""

    own: bool = False
    """Only documents whose owner is the calling user."""
    document_ids: tuple[int, ...] | None = None
    """Only these; None means no selection, empty selects nothing."""
    collection: str = ""
    types: tuple[str, ...] = ()
    filter: Filter | None = None

    @property
    def narrowed(self) -> bool:
        """Whether it is less than the whole organisation."""
        return self != _EVERYTHING


_EVERYTHING = Scope()


@dataclass(frozen=True, slots=True)
class ChunkKey:
    """What tells a chunk from others, and whether its text is another's."""

    chunk_id: int
    document_id: int
    content_hash: bytes


@dataclass(frozen=True, slots=True)
class Chunk(ChunkKey):
    """A chunk with all that a citation needs to open the exact place."""

    version: int
    chunk_index: int
    text: str
    token_count: int
    section: str
    place: Mapping[str, int]
    """The fields of a `Place` that are set."""
    char_start: int
    char_end: int
    title: str
    file_name: str
    url: str
    type: str
    created_at: datetime
    live: bool
    metadata: JsonObject
    """The document's."""
    verbatim: bool = True
    """Whether the text is the version's stored text from char_start to char_end."""


Key_co = TypeVar("Key_co", bound=ChunkKey, covariant=True)


class Hit(NamedTuple, Generic[Key_co]):
    """One result: a chunk, or while results are still being chosen its key, and how near it is.

    A tuple, as a hybrid search makes hundreds: a frozen dataclass takes four times as long to make.
    """

    chunk: Key_co
    similarity: float | None
    """Cosine similarity, 1 − distance clamped to 0–1; None if the chunk has no vector."""
    recent: bool = False
    """Whether it is here for its recency."""
    lexical_score: float | None = None
    """BM25's; None if the words didn't find it."""
    fused_score: float | None = None
    """The weighted sum of both legs, 0–1, in a hybrid search; or the sum of reciprocal ranks."""
    duplicate_ids: tuple[int, ...] = ()
    """Chunks that were left out because their text is nearly this one's."""

    @property
    def score(self) -> float:
        """What orders results of one search."""
        scores = (self.fused_score, self.similarity, self.lexical_score)
        return next((score for score in scores if score is not None), 0.0)

    def fused(self, score: float) -> "Hit[Key_co]":
        """The same with its score; for hundreds of them `_replace` is slow."""
        return Hit(self.chunk, self.similarity, self.recent, self.lexical_score, score, self.duplicate_ids)

    def found_by_words(self, score: float | None) -> "Hit[Key_co]":
        """The same with the words' score."""
        return Hit(self.chunk, self.similarity, self.recent, score, self.fused_score, self.duplicate_ids)

    def of(self, chunk: Chunk) -> "Hit[Chunk]":
        """The same with the whole chunk."""
        return Hit(chunk, self.similarity, self.recent, self.lexical_score, self.fused_score, self.duplicate_ids)


Candidate: TypeAlias = Hit[ChunkKey]
"""What may become a result."""


@dataclass(frozen=True, slots=True)
class SearchQuery:
    """A search: by vector, by words, or by both."""

    scope: Scope
    vector: bytes = b""
    """Little-endian float32, 4 × dimensions bytes; empty if only words count."""
    space: Space | None = None
    """The vector's; None if there is none."""
    text: str = ""
    """The question's words; not read if only the vector counts."""
    mode: SearchMode = "dense"
    top_k: int = 10
    min_score: float | None = None
    min_score_calibrated: bool = False
    """Whether the space's relevance threshold counts in `min_score`'s stead, where it is known."""
    by_document: bool = False
    recent: int = 0
    exact: bool = False
    diversity: float = 0.0
    """0–1: how much likeness to results before counts against relevance."""
    fuse_by_rank: bool = False
    """Whether a hybrid search fuses by reciprocal rank instead of scores."""
    keep_duplicates: bool = False
    """Whether results stay whose text is nearly that of a better one."""
    dense_weight: float | None = None
    """Weight of the dense leg in a hybrid search, 0–1; None is the space's."""


@dataclass(frozen=True, slots=True)
class SearchOutcome:
    """What a search found, best first; those that are there for their recency come last."""

    hits: tuple[Hit[Chunk], ...]
    exact: bool
    """Whether no index was used for the ranking."""
    space: Space | None
    calibration: "Calibration | None" = None
    """What scores mean in that space; None: that isn't known."""


ContextPath = Literal["focused", "long_context", "long_context_trim", "long_context_fallback", "semantic"]
Strategy = Literal["semantic", "library"]


@dataclass(frozen=True, slots=True)
class ScopeCounts:
    """What a scope holds. An item is a document with a live version."""

    items: int
    kept: int
    without_embedding: int
    not_ready: int
    chunks: int
    cut: bool = False
    """Whether the most recent item alone is over the budget: only its beginning is kept."""

    @property
    def trimmed(self) -> int:
        """Items left out by the budget."""
        return self.items - self.kept

    def untrimmed(self) -> "ScopeCounts":
        """The same where no budget applies."""
        return replace(self, kept=self.items, cut=False)


@dataclass(frozen=True, slots=True)
class Item:
    """A document's live version, as it was when the scope was counted."""

    document_id: int
    version: int


@dataclass(frozen=True, slots=True)
class Plan:
    """Which context path a question takes, and why."""

    path: ContextPath
    reason: str
    counts: ScopeCounts
    space: Space | None
    """The live space; None while nothing was ingested."""
    calibration: "Calibration | None" = None
    """What scores mean in the live space; None: that isn't known."""


@dataclass(frozen=True, slots=True)
class Calibration:
    """What scores mean in a space. None: that wasn't derived.

    Attributes:
        relevance_threshold: Cosine similarity, 0–1, below which a chunk is hardly ever relevant.
        answerable_threshold: Score of an extractive answer, 0–1, below which the passages don't answer.
        dense_weight: Weight of the dense leg in hybrid search, 0–1; the words have the rest.
        measured_at: None for one that came with the server.
        report: What was measured, at most 64 KiB as JSON; empty where it wasn't read.
    """

    relevance_threshold: float | None = None
    answerable_threshold: float | None = None
    dense_weight: float | None = None
    measured_at: datetime | None = None
    report: JsonObject = field(default_factory=dict[str, JsonValue])


SpaceRole = Literal["live", "previous", "next", "further"]


@dataclass(frozen=True, slots=True)
class SpaceFill:
    """A space as one organisation sees it, and how far it is filled. Live versions are what counts.

    Attributes:
        role: `live` is searched by default, `previous` was before it, `next` is being prepared, `further` is searched
            by systems with a model of their own.
        documents: Documents.
        documents_filled: Those whose chunks all have a vector in it.
        chunks: Chunks of the documents.
        chunks_filled: Those that have a vector in it.
        documents_failed: Documents whose backfill was given up for now; counted over all spaces together.
        calibration: What its scores mean; of a store: what is stored for it.
    """

    space: Space
    role: SpaceRole
    documents: int
    documents_filled: int
    chunks: int
    chunks_filled: int
    documents_failed: int
    calibration: Calibration | None = None

    @property
    def missing(self) -> int:
        """Documents that lack a vector."""
        return self.documents - self.documents_filled
