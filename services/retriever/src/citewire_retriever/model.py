"""What the retriever talks about, as plain frozen data. No transport, no SQL."""

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
    """Which decision table plans follow."""

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
    """An embedding space: vectors are comparable only inside one."""

    model: str
    revision: str
    dimensions: int


def space_from_proto(message: EmbeddingSpace) -> Space:
    """Returns the space that a message names; one can be a key, the other can't."""
    return Space(message.model, message.revision, message.dimensions)


CALIBRATED_SHARES: Final = ("relevance_threshold", "answerable_threshold", "dense_weight", "off_topic_threshold")
"""A calibration's fields that are shares, 0–1."""


def space_to_proto(space: Space) -> EmbeddingSpace:
    """Returns the message that names a space."""
    return EmbeddingSpace(model=space.model, revision=space.revision, dimensions=space.dimensions)


Bound: TypeAlias = Literal["valid_from", "valid_until"]
VALIDITY: Final[tuple[Bound, ...]] = ("valid_from", "valid_until")
"""From when, and until when (exclusive), a document is found; None is no bound."""


@dataclass(frozen=True, slots=True)
class NewContent:
    """What comes with new content, be it a new document or a new version of one.

    For a version, what is empty (or None) stays as it is. `request_id` makes a repetition of the same request by the
    same user harmless; "" is none.
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
    """Subjects who may read it, of those who may read its collection; empty: all of them."""
    valid_from: datetime | None = None
    valid_until: datetime | None = None
    source_url: str = ""
    """Where the file is fetched from; empty where its bytes come along."""


@dataclass(frozen=True, slots=True)
class Changes:
    """What an update changes; None leaves a field as it is, an empty value empties it."""

    title: str | None = None
    url: str | None = None
    tags: tuple[str, ...] | None = None
    metadata: JsonObject | None = None
    collection: str | None = None
    readers: tuple[str, ...] | None = None
    """As of `NewContent`."""
    file_name: str | None = None
    """Its path where the file was moved; a title that was the old name becomes the new one."""
    validity: Mapping[Bound, datetime | None] = field(default_factory=dict[Bound, datetime | None])
    """Those bounds that change."""


@dataclass(frozen=True, slots=True)
class Validity:
    """Which documents are found, by their validity."""

    as_of: datetime | None = None
    """Those that are valid then; None is now."""
    any: bool = False
    """All of them."""


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
    """Part of the title or the file name, in any case."""


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


class Source(Protocol):
    """Content that waits to be stored."""

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
    """What a search reaches inside the caller's organisation: everything that satisfies all of these."""

    own: bool = False
    """Only documents whose owner is the calling user."""
    document_ids: tuple[int, ...] | None = None
    """Only these; None means no selection, empty selects nothing."""
    collection: str = ""
    types: tuple[str, ...] = ()
    filter: Filter | None = None
    validity: Validity = VALID_NOW

    @property
    def narrowed(self) -> bool:
        """Whether it is less than the whole organisation."""
        return self != _EVERYTHING


_EVERYTHING = Scope()


@dataclass(frozen=True, slots=True)
class SpaceScale:
    """What similarities are in an embedding space, measured with the built-in texts."""

    unrelated: float
    """Mean cosine similarity of a question and a text that has nothing to do with it."""
    deviation: float
    """Its standard deviation."""
    related: float
    """Median similarity of a question and the text that answers it, in standard deviations above that mean."""


class Candidate(NamedTuple):
    """A chunk that may become a result: its key and its scores, and once it was read the chunk itself.

    A tuple, as a hybrid search makes hundreds: a frozen dataclass takes four times as long to make.
    """

    chunk_id: int
    document_id: int
    content_hash: bytes
    """Tells whether its text is another's to the letter."""
    score: float | None
    """Cosine similarity, 1 − distance clamped to 0–1; None if the chunk has no vector."""
    recent: bool = False
    """Whether it is here for its recency."""
    lexical_score: float | None = None
    """BM25's; None if the lexical leg didn't find it."""
    fused_score: float | None = None
    """In a hybrid search the weighted sum of both legs, 0–1, or the sum of reciprocal ranks; in a lexical one BM25."""
    duplicate_ids: tuple[int, ...] = ()
    """Chunks that were left out as near-duplicates of it."""
    chunk: pb.Chunk | None = None
    """None while only its key was read."""
    chars_per_token: float = 0.0
    """Code points of its text for each token of the embedding model; 0 if that wasn't read, or if more than a tenth of
    them are digits: numbers have short tokens in any language."""

    @property
    def whole(self) -> pb.Chunk:
        """The chunk of a candidate that was read whole."""
        if self.chunk is None:
            raise ValueError(f"only the key of chunk {self.chunk_id} was read")
        return self.chunk

    @property
    def rank_score(self) -> float:
        """What orders results of one search."""
        scores = (self.fused_score, self.score, self.lexical_score)
        return next((score for score in scores if score is not None), 0.0)

    def with_scores(self, lexical_score: float | None, fused_score: float | None = None) -> "Candidate":
        """The same key with these scores; for hundreds of them `_replace` is slow."""
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
    """A search: by vector, by words, or by both."""

    scope: Scope
    vector: bytes = b""
    """Little-endian float32, 4 × dimensions bytes; empty if only words count."""
    space: Space | None = None
    """The vector's; None if there is none."""
    text: str = ""
    """The question's words; if only the vector counts, they tell with it whether the results have to do with it."""
    mode: SearchMode = SearchMode.DENSE
    top_k: int = 10
    min_score: float | None = None
    min_score_calibrated: bool = False
    """Whether the space's relevance threshold replaces `min_score`, if it is known."""
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
    max_per_document: int | None = None
    """Most results of one document; None: no limit."""


ContextPath = Literal["focused", "long_context", "long_context_trim", "long_context_fallback", "semantic"]


@dataclass(frozen=True, slots=True)
class ItemVersion:
    """A document's live version, as it was when the scope was counted."""

    document_id: int
    version: int
