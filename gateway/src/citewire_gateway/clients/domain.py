"""What the gateway's domain talks about: plain values, free of HTTP, gRPC and SQL."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

JsonScalar = str | int | float | bool | None
Json = JsonScalar | Sequence["Json"] | Mapping[str, "Json"]

MAX_ID = 2**53 - 1
"""Largest id of a document or chunk: what a JavaScript number holds exactly."""


class ScopeLevel(StrEnum):
    """How far a search reaches inside the caller's organisation."""

    ORG = "org"
    USER = "user"


class Strategy(StrEnum):
    """Which decision table `Plan` follows."""

    SEMANTIC = "semantic"
    LIBRARY = "library"


class SearchMode(StrEnum):
    """How a search ranks."""

    DENSE = "dense"
    LEXICAL = "lexical"
    HYBRID = "hybrid"


class Operator(StrEnum):
    """Operators of the filter grammar."""

    EQ = "eq"
    NE = "ne"
    IN = "in"
    LT = "lt"
    LE = "le"
    GT = "gt"
    GE = "ge"
    CONTAINS = "contains"
    EXISTS = "exists"


@dataclass(frozen=True, slots=True)
class Comparison:
    """A condition on one field of a document."""

    field: str
    op: Operator
    value: Json


@dataclass(frozen=True, slots=True)
class All:
    """True if every member is."""

    members: tuple["Filter", ...]


@dataclass(frozen=True, slots=True)
class AnyOf:
    """True if at least one member is."""

    members: tuple["Filter", ...]


@dataclass(frozen=True, slots=True)
class Not:
    """True if its member isn't."""

    member: "Filter"


Filter = Comparison | All | AnyOf | Not


@dataclass(frozen=True, slots=True)
class Scope:
    """What is searched: everything that satisfies all of these.

    Attributes:
        document_ids: None is every document; an empty tuple is none.
        collection: A collection's name; "" is all.
        types: Types of documents; empty is all.
    """

    level: ScopeLevel = ScopeLevel.ORG
    document_ids: tuple[int, ...] | None = None
    collection: str = ""
    types: tuple[str, ...] = ()
    filter: Filter | None = None


@dataclass(frozen=True, slots=True)
class Space:
    """An embedding space: vectors are comparable only inside one."""

    model: str
    revision: str
    dimensions: int


@dataclass(frozen=True, slots=True)
class Vector:
    """A question's vector.

    Attributes:
        data: Little-endian float32.
        tokens: Tokens that the call spent; 0 if it came from the embedder's cache.
        token_count: Tokens of the whole question.
        truncated: Whether the model read only the beginning of the question.
    """

    data: bytes
    space: Space
    tokens: int
    token_count: int
    truncated: bool


@dataclass(frozen=True, slots=True)
class Vectors:
    """Vectors of several texts: little-endian float32, row after row. `tokens`: what the call spent."""

    data: bytes
    space: Space
    tokens: int


@dataclass(frozen=True, slots=True)
class ScopeCounts:
    """What a scope holds; an item is a document with a live version."""

    items: int = 0
    kept: int = 0
    trimmed: int = 0
    without_embedding: int = 0
    not_ready: int = 0
    chunks: int = 0


@dataclass(frozen=True, slots=True)
class Plan:
    """Which context path a question takes, and why. `space` is None while nothing was ingested."""

    path: str
    reason: str
    counts: ScopeCounts
    space: Space | None
    answerable_threshold: float | None = None
    """What was derived for that space: the lowest score of an extractive answer."""


@dataclass(frozen=True, slots=True)
class Chunk:
    """A chunk with all that a citation needs to open the exact place."""

    chunk_id: int
    document_id: int
    version: int
    chunk_index: int
    text: str
    title: str
    file_name: str
    url: str = ""
    type: str = "file"
    section: str = ""
    page_number: int | None = None
    row_number: int | None = None
    start_line: int | None = None
    end_line: int | None = None
    char_start: int = 0
    char_end: int = 0
    token_count: int = 0
    content_hash: str = ""
    created_at: str | None = None
    live: bool = True
    metadata: Mapping[str, Json] = field(default_factory=dict[str, Json])
    verbatim: bool = False
    """Whether the text is its document's, character by character."""

    @property
    def name(self) -> str:
        """File name, or title where it wasn't a file."""
        return self.file_name or self.title

    @property
    def ref(self) -> str:
        """Where it is as a person would say it: `file § section`, or the file alone."""
        return f"{self.name} § {self.section}" if self.section else self.name


@dataclass(frozen=True, slots=True)
class Hit:
    """A chunk that a search found. `similarity` is cosine similarity, 0-1; the other scores order within one mode."""

    chunk: Chunk
    score: float
    similarity: float | None = None
    lexical_score: float | None = None
    rerank_score: float | None = None
    recent: bool = False
    duplicate_ids: tuple[int, ...] = ()
    """Chunks that were left out because their text is nearly this one's."""


@dataclass(frozen=True, slots=True)
class SearchQuery:
    """One search."""

    scope: Scope
    mode: SearchMode
    query: str
    vector: Vector | None
    top_k: int
    min_score: float | None = None
    min_score_calibrated: bool = False
    """Whether the space's own threshold counts in `min_score`'s stead, where it is known."""
    by_document: bool = False
    recent: int = 0
    """How many of the latest documents are added, whatever they say."""
    dense_weight: float | None = None
    fuse_by_rank: bool = False
    """Whether a hybrid search fuses by reciprocal rank instead of scores."""
    diversity: float = 0.0
    """0–1: how much likeness to results before counts against relevance."""
    keep_duplicates: bool = False
    """Weight of the dense leg in a hybrid search, 0–1; None leaves it to the retriever."""


@dataclass(frozen=True, slots=True)
class LongContext:
    """The chunks of whole items, latest item first, as many as fit a budget."""

    chunks: tuple[Chunk, ...]
    counts: ScopeCounts


@dataclass(frozen=True, slots=True)
class RerankScore:
    """Relevance of one text to the question, by its index among the texts."""

    index: int
    score: float
