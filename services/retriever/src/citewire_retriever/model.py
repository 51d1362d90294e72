"""The retriever's domain model: plain frozen data, without transport or SQL."""

from collections.abc import AsyncGenerator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Final, Literal, NamedTuple, Protocol, TypeAlias

from citewire.common.v1.common_pb2 import EmbeddingSpace
from citewire.retriever.v1 import retriever_pb2 as pb

from citewire_kit.enums import EnumMap
from citewire_retriever.filters import Filter

JsonValue: TypeAlias = "bool | int | float | str | Sequence[JsonValue] | Mapping[str, JsonValue] | None"
JsonObject: TypeAlias = Mapping[str, JsonValue]

DocumentType = Literal["file", "article", "repository", "capture"]
Stage = Literal["parse", "chunk", "embed", "publish"]
DOCUMENT_TYPES: Final[tuple[DocumentType, ...]] = ("file", "article", "repository", "capture")


class SearchMode(StrEnum):
    """How a search ranks."""

    DENSE = "dense"
    LEXICAL = "lexical"
    HYBRID = "hybrid"


class Strategy(StrEnum):
    """The decision table for plans."""

    SEMANTIC = "semantic"
    LIBRARY = "library"


SEARCH_MODES: Final = EnumMap(SearchMode, pb.SearchMode, unspecified=SearchMode.DENSE)
STRATEGIES: Final = EnumMap(Strategy, pb.Strategy, unspecified=Strategy.SEMANTIC)

MAX_ID: Final = 2**53 - 1
MAX_ERASED: Final = 1000
"""Deleted documents on a page."""
"""Ids travel as JSON numbers."""


@dataclass(frozen=True, slots=True)
class Space:
    """An embedding space: vectors are comparable only within one."""

    model: str
    revision: str
    dimensions: int


def space_from_proto(message: EmbeddingSpace) -> Space:
    """Returns the space that a message names; unlike the message, it can be a key."""
    return Space(message.model, message.revision, message.dimensions)


CALIBRATED_SHARES: Final = ("relevance_threshold", "answerable_threshold", "dense_weight", "off_topic_threshold")
"""Fields of a calibration that are shares, 0–1."""


def space_to_proto(space: Space) -> EmbeddingSpace:
    """Returns the message that names a space."""
    return EmbeddingSpace(model=space.model, revision=space.revision, dimensions=space.dimensions)


Bound: TypeAlias = Literal["valid_from", "valid_until"]
VALIDITY: Final[tuple[Bound, ...]] = ("valid_from", "valid_until")
"""Start and end (exclusive) of a document's validity; None for no bound."""


@dataclass(frozen=True, slots=True)
class NewContent:
    """The metadata of new content, for a new document or a new version.

    For a version, empty fields (or None) leave the old values. `request_id` makes repeating a request by the same user
    harmless; "" is none.
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
    readers: tuple[str, ...] | None = None
    """Those of the collection's readers who may read it; empty for all of them."""
    valid_from: datetime | None = None
    valid_until: datetime | None = None
    source_url: str = ""
    """The address to fetch the file from; empty if its bytes are uploaded."""


@dataclass(frozen=True, slots=True)
class Changes:
    """An update's changes; None leaves a field as it is, an empty value clears it."""

    title: str | None = None
    url: str | None = None
    tags: tuple[str, ...] | None = None
    metadata: JsonObject | None = None
    collection: str | None = None
    readers: tuple[str, ...] | None = None
    """As in `NewContent`."""
    file_name: str | None = None
    """Its path if the file was moved; a title equal to the old name becomes the new name."""
    validity: Mapping[Bound, datetime | None] = field(default_factory=dict[Bound, datetime | None])
    """The bounds that change."""


@dataclass(frozen=True, slots=True)
class Validity:
    """Which documents are found, by validity."""

    as_of: datetime | None = None
    """Those valid at this time; None for now."""
    any: bool = False
    """Whether all are found."""


VALID_NOW: Final = Validity()


@dataclass(frozen=True, slots=True)
class DocumentQuery:
    """Which documents a list shows; empty and None mean all."""

    collection: str = ""
    type: str = ""
    status: str = ""
    tag: str = ""
    filter: Filter | None = None
    validity: Validity = VALID_NOW
    text: str = ""
    """Part of the title or the file name, case-insensitive."""


@dataclass(frozen=True, slots=True)
class DocumentCursor:
    """The last document of the previous page."""

    created_at: datetime
    document_id: int


TEXT_TYPE = "text/plain; charset=utf-8"
"""Media type of the text found by ingest."""


@dataclass(frozen=True, slots=True)
class Original:
    """Metadata of a version's bytes, or of the text found in them; a text has no hash."""

    document_id: int
    version: int
    file_name: str
    media_type: str
    size_bytes: int
    sha256: bytes


class Source(Protocol):
    """Content waiting to be stored."""

    @property
    def size_bytes(self) -> int:
        """Its size, at least 1."""
        ...

    @property
    def sha256(self) -> bytes:
        """Its SHA-256."""
        ...

    def parts(self, size: int) -> AsyncGenerator[bytes, None]:
        """Yields it in parts of `size` bytes; the last one may be shorter."""
        ...


@dataclass(frozen=True, slots=True)
class Scope:
    """The part of the caller's organisation that a search covers: documents that satisfy all of these."""

    own: bool = False
    """Only documents whose owner is the calling user."""
    document_ids: tuple[int, ...] | None = None
    """Only these; None for no selection, empty selects nothing."""
    collection: str = ""
    types: tuple[str, ...] = ()
    filter: Filter | None = None
    validity: Validity = VALID_NOW

    @property
    def narrowed(self) -> bool:
        """Whether it is narrower than the whole organisation."""
        return self != _EVERYTHING


_EVERYTHING = Scope()


@dataclass(frozen=True, slots=True)
class SpaceScale:
    """Typical similarities in an embedding space, measured with the built-in texts."""

    unrelated: float
    """Mean cosine similarity of a question and an unrelated text."""
    deviation: float
    """Its standard deviation."""
    related: float
    """Median similarity of a question and its answering text, in standard deviations above that mean."""


class Candidate(NamedTuple):
    """A chunk that may become a result: its key and scores, and once read the chunk itself.

    A tuple, as a hybrid search creates hundreds: a frozen dataclass takes four times as long to create.
    """

    chunk_id: int
    document_id: int
    content_hash: bytes
    """Identifies exactly equal texts."""
    score: float | None
    """Cosine similarity, 1 − distance clamped to 0–1; None if the chunk has no vector."""
    recent: bool = False
    """Whether it was added for its recency."""
    lexical_score: float | None = None
    """BM25 score; None if the lexical leg didn't find it."""
    fused_score: float | None = None
    """Hybrid search: the weighted sum of both legs, 0–1, or the sum of reciprocal ranks; lexical search: BM25."""
    duplicate_ids: tuple[int, ...] = ()
    """Chunks left out as its near-duplicates."""
    chunk: pb.Chunk | None = None
    """None if only its key was read."""
    chars_per_token: float = 0.0
    """Code points of its text per token of the embedding model; 0 if that wasn't read, or if more than a tenth of
    its first 400 are digits and signs, as these have short tokens in any language."""

    @property
    def whole(self) -> pb.Chunk:
        """The chunk; the candidate must have been read whole."""
        if self.chunk is None:
            raise ValueError(f"only the key of chunk {self.chunk_id} was read")
        return self.chunk

    @property
    def rank_score(self) -> float:
        """The score that orders the results of a search."""
        scores = (self.fused_score, self.score, self.lexical_score)
        return next((score for score in scores if score is not None), 0.0)

    def with_scores(self, lexical_score: float | None, fused_score: float | None = None) -> "Candidate":
        """The same key with these scores; `_replace` is slow for hundreds."""
        return Candidate(
            self.chunk_id,
            self.document_id,
            self.content_hash,
            self.score,
            self.recent,
            lexical_score,
            fused_score,
            chars_per_token=self.chars_per_token,
        )


@dataclass(frozen=True, slots=True)
class SearchQuery:
    """A search by vector, by words, or by both."""

    scope: Scope
    vector: bytes = b""
    """Little-endian float32, 4 × dimensions bytes; empty for a lexical search."""
    space: Space | None = None
    """The vector's; None if there is none."""
    text: str = ""
    """The question's text; in a search by vector, it only helps to judge whether the results are related."""
    mode: SearchMode = SearchMode.DENSE
    top_k: int = 10
    min_score: float | None = None
    min_score_calibrated: bool = False
    """Whether the space's relevance threshold, if known, replaces `min_score`."""
    by_document: bool = False
    recent: int = 0
    exact: bool = False
    diversity: float = 0.0
    """0–1: how much similarity to earlier results counts against relevance."""
    fuse_by_rank: bool = False
    """Whether a hybrid search fuses by reciprocal rank rather than scores."""
    keep_duplicates: bool = False
    """Whether near-duplicates of better results are kept."""
    dense_weight: float | None = None
    """Weight of the dense leg in a hybrid search, 0–1; None for the space's."""
    max_per_document: int | None = None
    """Most results per document; None for no limit."""


ContextPath = Literal["focused", "long_context", "long_context_trim", "long_context_fallback", "semantic"]


@dataclass(frozen=True, slots=True)
class ItemVersion:
    """A document's live version, as it was when the scope was counted."""

    document_id: int
    version: int
