import datetime

from citewire.common.v1 import common_pb2 as _common_pb2
from citewire.common.v1 import place_pb2 as _place_pb2
from citewire.retriever.v1 import calibration_pb2 as _calibration_pb2
from citewire.retriever.v1 import filter_pb2 as _filter_pb2
from google.protobuf import struct_pb2 as _struct_pb2
from google.protobuf import timestamp_pb2 as _timestamp_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class ScopeLevel(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    SCOPE_LEVEL_UNSPECIFIED: _ClassVar[ScopeLevel]
    SCOPE_LEVEL_ORG: _ClassVar[ScopeLevel]
    SCOPE_LEVEL_USER: _ClassVar[ScopeLevel]

class Strategy(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    STRATEGY_UNSPECIFIED: _ClassVar[Strategy]
    STRATEGY_SEMANTIC: _ClassVar[Strategy]
    STRATEGY_LIBRARY: _ClassVar[Strategy]

class ContextPath(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    CONTEXT_PATH_UNSPECIFIED: _ClassVar[ContextPath]
    CONTEXT_PATH_FOCUSED: _ClassVar[ContextPath]
    CONTEXT_PATH_LONG_CONTEXT: _ClassVar[ContextPath]
    CONTEXT_PATH_LONG_CONTEXT_TRIM: _ClassVar[ContextPath]
    CONTEXT_PATH_LONG_CONTEXT_FALLBACK: _ClassVar[ContextPath]
    CONTEXT_PATH_SEMANTIC: _ClassVar[ContextPath]

class SearchMode(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    SEARCH_MODE_UNSPECIFIED: _ClassVar[SearchMode]
    SEARCH_MODE_DENSE: _ClassVar[SearchMode]
    SEARCH_MODE_LEXICAL: _ClassVar[SearchMode]
    SEARCH_MODE_HYBRID: _ClassVar[SearchMode]

class GroupBy(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    GROUP_BY_UNSPECIFIED: _ClassVar[GroupBy]
    GROUP_BY_CHUNK: _ClassVar[GroupBy]
    GROUP_BY_DOCUMENT: _ClassVar[GroupBy]
SCOPE_LEVEL_UNSPECIFIED: ScopeLevel
SCOPE_LEVEL_ORG: ScopeLevel
SCOPE_LEVEL_USER: ScopeLevel
STRATEGY_UNSPECIFIED: Strategy
STRATEGY_SEMANTIC: Strategy
STRATEGY_LIBRARY: Strategy
CONTEXT_PATH_UNSPECIFIED: ContextPath
CONTEXT_PATH_FOCUSED: ContextPath
CONTEXT_PATH_LONG_CONTEXT: ContextPath
CONTEXT_PATH_LONG_CONTEXT_TRIM: ContextPath
CONTEXT_PATH_LONG_CONTEXT_FALLBACK: ContextPath
CONTEXT_PATH_SEMANTIC: ContextPath
SEARCH_MODE_UNSPECIFIED: SearchMode
SEARCH_MODE_DENSE: SearchMode
SEARCH_MODE_LEXICAL: SearchMode
SEARCH_MODE_HYBRID: SearchMode
GROUP_BY_UNSPECIFIED: GroupBy
GROUP_BY_CHUNK: GroupBy
GROUP_BY_DOCUMENT: GroupBy

class DocumentSelection(_message.Message):
    __slots__ = ("document_ids",)
    DOCUMENT_IDS_FIELD_NUMBER: _ClassVar[int]
    document_ids: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, document_ids: _Optional[_Iterable[int]] = ...) -> None: ...

class Scope(_message.Message):
    __slots__ = ("level", "selection", "collection", "types", "filter", "as_of", "any_validity")
    LEVEL_FIELD_NUMBER: _ClassVar[int]
    SELECTION_FIELD_NUMBER: _ClassVar[int]
    COLLECTION_FIELD_NUMBER: _ClassVar[int]
    TYPES_FIELD_NUMBER: _ClassVar[int]
    FILTER_FIELD_NUMBER: _ClassVar[int]
    AS_OF_FIELD_NUMBER: _ClassVar[int]
    ANY_VALIDITY_FIELD_NUMBER: _ClassVar[int]
    level: ScopeLevel
    selection: DocumentSelection
    collection: str
    types: _containers.RepeatedScalarFieldContainer[str]
    filter: _filter_pb2.Filter
    as_of: _timestamp_pb2.Timestamp
    any_validity: bool
    def __init__(self, level: _Optional[_Union[ScopeLevel, str]] = ..., selection: _Optional[_Union[DocumentSelection, _Mapping]] = ..., collection: _Optional[str] = ..., types: _Optional[_Iterable[str]] = ..., filter: _Optional[_Union[_filter_pb2.Filter, _Mapping]] = ..., as_of: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., any_validity: _Optional[bool] = ...) -> None: ...

class PlanRequest(_message.Message):
    __slots__ = ("scope", "strategy", "max_tokens", "query", "derive_filter", "time_zone")
    SCOPE_FIELD_NUMBER: _ClassVar[int]
    STRATEGY_FIELD_NUMBER: _ClassVar[int]
    MAX_TOKENS_FIELD_NUMBER: _ClassVar[int]
    QUERY_FIELD_NUMBER: _ClassVar[int]
    DERIVE_FILTER_FIELD_NUMBER: _ClassVar[int]
    TIME_ZONE_FIELD_NUMBER: _ClassVar[int]
    scope: Scope
    strategy: Strategy
    max_tokens: int
    query: str
    derive_filter: bool
    time_zone: str
    def __init__(self, scope: _Optional[_Union[Scope, _Mapping]] = ..., strategy: _Optional[_Union[Strategy, str]] = ..., max_tokens: _Optional[int] = ..., query: _Optional[str] = ..., derive_filter: _Optional[bool] = ..., time_zone: _Optional[str] = ...) -> None: ...

class QueryFilter(_message.Message):
    __slots__ = ("filter", "phrases")
    FILTER_FIELD_NUMBER: _ClassVar[int]
    PHRASES_FIELD_NUMBER: _ClassVar[int]
    filter: _filter_pb2.Filter
    phrases: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, filter: _Optional[_Union[_filter_pb2.Filter, _Mapping]] = ..., phrases: _Optional[_Iterable[str]] = ...) -> None: ...

class ItemListing(_message.Message):
    __slots__ = ("topic", "max_items")
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    MAX_ITEMS_FIELD_NUMBER: _ClassVar[int]
    topic: str
    max_items: int
    def __init__(self, topic: _Optional[str] = ..., max_items: _Optional[int] = ...) -> None: ...

class PlanResponse(_message.Message):
    __slots__ = ("path", "reason", "counts", "space", "calibration", "query_filter", "listing")
    PATH_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    COUNTS_FIELD_NUMBER: _ClassVar[int]
    SPACE_FIELD_NUMBER: _ClassVar[int]
    CALIBRATION_FIELD_NUMBER: _ClassVar[int]
    QUERY_FILTER_FIELD_NUMBER: _ClassVar[int]
    LISTING_FIELD_NUMBER: _ClassVar[int]
    path: ContextPath
    reason: str
    counts: ScopeCounts
    space: _common_pb2.EmbeddingSpace
    calibration: _calibration_pb2.Calibration
    query_filter: QueryFilter
    listing: ItemListing
    def __init__(self, path: _Optional[_Union[ContextPath, str]] = ..., reason: _Optional[str] = ..., counts: _Optional[_Union[ScopeCounts, _Mapping]] = ..., space: _Optional[_Union[_common_pb2.EmbeddingSpace, _Mapping]] = ..., calibration: _Optional[_Union[_calibration_pb2.Calibration, _Mapping]] = ..., query_filter: _Optional[_Union[QueryFilter, _Mapping]] = ..., listing: _Optional[_Union[ItemListing, _Mapping]] = ...) -> None: ...

class ScopeCounts(_message.Message):
    __slots__ = ("items", "kept", "trimmed", "without_embedding", "not_ready", "chunks")
    ITEMS_FIELD_NUMBER: _ClassVar[int]
    KEPT_FIELD_NUMBER: _ClassVar[int]
    TRIMMED_FIELD_NUMBER: _ClassVar[int]
    WITHOUT_EMBEDDING_FIELD_NUMBER: _ClassVar[int]
    NOT_READY_FIELD_NUMBER: _ClassVar[int]
    CHUNKS_FIELD_NUMBER: _ClassVar[int]
    items: int
    kept: int
    trimmed: int
    without_embedding: int
    not_ready: int
    chunks: int
    def __init__(self, items: _Optional[int] = ..., kept: _Optional[int] = ..., trimmed: _Optional[int] = ..., without_embedding: _Optional[int] = ..., not_ready: _Optional[int] = ..., chunks: _Optional[int] = ...) -> None: ...

class SearchRequest(_message.Message):
    __slots__ = ("scope", "mode", "query", "vector", "space", "top_k", "min_score", "group_by", "recent", "exact", "diversity", "keep_duplicates", "min_score_calibrated", "dense_weight", "fuse_by_rank", "max_per_document")
    SCOPE_FIELD_NUMBER: _ClassVar[int]
    MODE_FIELD_NUMBER: _ClassVar[int]
    QUERY_FIELD_NUMBER: _ClassVar[int]
    VECTOR_FIELD_NUMBER: _ClassVar[int]
    SPACE_FIELD_NUMBER: _ClassVar[int]
    TOP_K_FIELD_NUMBER: _ClassVar[int]
    MIN_SCORE_FIELD_NUMBER: _ClassVar[int]
    GROUP_BY_FIELD_NUMBER: _ClassVar[int]
    RECENT_FIELD_NUMBER: _ClassVar[int]
    EXACT_FIELD_NUMBER: _ClassVar[int]
    DIVERSITY_FIELD_NUMBER: _ClassVar[int]
    KEEP_DUPLICATES_FIELD_NUMBER: _ClassVar[int]
    MIN_SCORE_CALIBRATED_FIELD_NUMBER: _ClassVar[int]
    DENSE_WEIGHT_FIELD_NUMBER: _ClassVar[int]
    FUSE_BY_RANK_FIELD_NUMBER: _ClassVar[int]
    MAX_PER_DOCUMENT_FIELD_NUMBER: _ClassVar[int]
    scope: Scope
    mode: SearchMode
    query: str
    vector: bytes
    space: _common_pb2.EmbeddingSpace
    top_k: int
    min_score: float
    group_by: GroupBy
    recent: int
    exact: bool
    diversity: float
    keep_duplicates: bool
    min_score_calibrated: bool
    dense_weight: float
    fuse_by_rank: bool
    max_per_document: int
    def __init__(self, scope: _Optional[_Union[Scope, _Mapping]] = ..., mode: _Optional[_Union[SearchMode, str]] = ..., query: _Optional[str] = ..., vector: _Optional[bytes] = ..., space: _Optional[_Union[_common_pb2.EmbeddingSpace, _Mapping]] = ..., top_k: _Optional[int] = ..., min_score: _Optional[float] = ..., group_by: _Optional[_Union[GroupBy, str]] = ..., recent: _Optional[int] = ..., exact: _Optional[bool] = ..., diversity: _Optional[float] = ..., keep_duplicates: _Optional[bool] = ..., min_score_calibrated: _Optional[bool] = ..., dense_weight: _Optional[float] = ..., fuse_by_rank: _Optional[bool] = ..., max_per_document: _Optional[int] = ...) -> None: ...

class SearchResponse(_message.Message):
    __slots__ = ("results", "exact", "space", "calibration", "off_topic", "topic_margin")
    RESULTS_FIELD_NUMBER: _ClassVar[int]
    EXACT_FIELD_NUMBER: _ClassVar[int]
    SPACE_FIELD_NUMBER: _ClassVar[int]
    CALIBRATION_FIELD_NUMBER: _ClassVar[int]
    OFF_TOPIC_FIELD_NUMBER: _ClassVar[int]
    TOPIC_MARGIN_FIELD_NUMBER: _ClassVar[int]
    results: _containers.RepeatedCompositeFieldContainer[SearchResult]
    exact: bool
    space: _common_pb2.EmbeddingSpace
    calibration: _calibration_pb2.Calibration
    off_topic: bool
    topic_margin: float
    def __init__(self, results: _Optional[_Iterable[_Union[SearchResult, _Mapping]]] = ..., exact: _Optional[bool] = ..., space: _Optional[_Union[_common_pb2.EmbeddingSpace, _Mapping]] = ..., calibration: _Optional[_Union[_calibration_pb2.Calibration, _Mapping]] = ..., off_topic: _Optional[bool] = ..., topic_margin: _Optional[float] = ...) -> None: ...

class SearchResult(_message.Message):
    __slots__ = ("chunk", "rank_score", "score", "lexical_score", "recent", "duplicate_chunk_ids", "first_score", "recency_rank")
    CHUNK_FIELD_NUMBER: _ClassVar[int]
    RANK_SCORE_FIELD_NUMBER: _ClassVar[int]
    SCORE_FIELD_NUMBER: _ClassVar[int]
    LEXICAL_SCORE_FIELD_NUMBER: _ClassVar[int]
    RECENT_FIELD_NUMBER: _ClassVar[int]
    DUPLICATE_CHUNK_IDS_FIELD_NUMBER: _ClassVar[int]
    FIRST_SCORE_FIELD_NUMBER: _ClassVar[int]
    RECENCY_RANK_FIELD_NUMBER: _ClassVar[int]
    chunk: Chunk
    rank_score: float
    score: float
    lexical_score: float
    recent: bool
    duplicate_chunk_ids: _containers.RepeatedScalarFieldContainer[int]
    first_score: float
    recency_rank: int
    def __init__(self, chunk: _Optional[_Union[Chunk, _Mapping]] = ..., rank_score: _Optional[float] = ..., score: _Optional[float] = ..., lexical_score: _Optional[float] = ..., recent: _Optional[bool] = ..., duplicate_chunk_ids: _Optional[_Iterable[int]] = ..., first_score: _Optional[float] = ..., recency_rank: _Optional[int] = ...) -> None: ...

class Chunk(_message.Message):
    __slots__ = ("chunk_id", "document_id", "version", "chunk_index", "text", "token_count", "content_hash", "section", "char_start", "char_end", "title", "file_name", "url", "type", "created_at", "live", "metadata", "verbatim", "place", "heading", "label", "tags", "entity_type", "category", "places", "computed")
    CHUNK_ID_FIELD_NUMBER: _ClassVar[int]
    DOCUMENT_ID_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    CHUNK_INDEX_FIELD_NUMBER: _ClassVar[int]
    TEXT_FIELD_NUMBER: _ClassVar[int]
    TOKEN_COUNT_FIELD_NUMBER: _ClassVar[int]
    CONTENT_HASH_FIELD_NUMBER: _ClassVar[int]
    SECTION_FIELD_NUMBER: _ClassVar[int]
    CHAR_START_FIELD_NUMBER: _ClassVar[int]
    CHAR_END_FIELD_NUMBER: _ClassVar[int]
    TITLE_FIELD_NUMBER: _ClassVar[int]
    FILE_NAME_FIELD_NUMBER: _ClassVar[int]
    URL_FIELD_NUMBER: _ClassVar[int]
    TYPE_FIELD_NUMBER: _ClassVar[int]
    CREATED_AT_FIELD_NUMBER: _ClassVar[int]
    LIVE_FIELD_NUMBER: _ClassVar[int]
    METADATA_FIELD_NUMBER: _ClassVar[int]
    VERBATIM_FIELD_NUMBER: _ClassVar[int]
    PLACE_FIELD_NUMBER: _ClassVar[int]
    HEADING_FIELD_NUMBER: _ClassVar[int]
    LABEL_FIELD_NUMBER: _ClassVar[int]
    TAGS_FIELD_NUMBER: _ClassVar[int]
    ENTITY_TYPE_FIELD_NUMBER: _ClassVar[int]
    CATEGORY_FIELD_NUMBER: _ClassVar[int]
    PLACES_FIELD_NUMBER: _ClassVar[int]
    COMPUTED_FIELD_NUMBER: _ClassVar[int]
    chunk_id: int
    document_id: int
    version: int
    chunk_index: int
    text: str
    token_count: int
    content_hash: str
    section: str
    char_start: int
    char_end: int
    title: str
    file_name: str
    url: str
    type: str
    created_at: _timestamp_pb2.Timestamp
    live: bool
    metadata: _struct_pb2.Struct
    verbatim: bool
    place: _place_pb2.Place
    heading: str
    label: str
    tags: _containers.RepeatedScalarFieldContainer[str]
    entity_type: str
    category: str
    places: _containers.RepeatedCompositeFieldContainer[TextPlace]
    computed: bool
    def __init__(self, chunk_id: _Optional[int] = ..., document_id: _Optional[int] = ..., version: _Optional[int] = ..., chunk_index: _Optional[int] = ..., text: _Optional[str] = ..., token_count: _Optional[int] = ..., content_hash: _Optional[str] = ..., section: _Optional[str] = ..., char_start: _Optional[int] = ..., char_end: _Optional[int] = ..., title: _Optional[str] = ..., file_name: _Optional[str] = ..., url: _Optional[str] = ..., type: _Optional[str] = ..., created_at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., live: _Optional[bool] = ..., metadata: _Optional[_Union[_struct_pb2.Struct, _Mapping]] = ..., verbatim: _Optional[bool] = ..., place: _Optional[_Union[_place_pb2.Place, _Mapping]] = ..., heading: _Optional[str] = ..., label: _Optional[str] = ..., tags: _Optional[_Iterable[str]] = ..., entity_type: _Optional[str] = ..., category: _Optional[str] = ..., places: _Optional[_Iterable[_Union[TextPlace, _Mapping]]] = ..., computed: _Optional[bool] = ...) -> None: ...

class TextPlace(_message.Message):
    __slots__ = ("start", "place")
    START_FIELD_NUMBER: _ClassVar[int]
    PLACE_FIELD_NUMBER: _ClassVar[int]
    start: int
    place: _place_pb2.Place
    def __init__(self, start: _Optional[int] = ..., place: _Optional[_Union[_place_pb2.Place, _Mapping]] = ...) -> None: ...

class GetContextRequest(_message.Message):
    __slots__ = ("scope", "max_tokens")
    SCOPE_FIELD_NUMBER: _ClassVar[int]
    MAX_TOKENS_FIELD_NUMBER: _ClassVar[int]
    scope: Scope
    max_tokens: int
    def __init__(self, scope: _Optional[_Union[Scope, _Mapping]] = ..., max_tokens: _Optional[int] = ...) -> None: ...

class GetContextResponse(_message.Message):
    __slots__ = ("chunks", "counts")
    CHUNKS_FIELD_NUMBER: _ClassVar[int]
    COUNTS_FIELD_NUMBER: _ClassVar[int]
    chunks: _containers.RepeatedCompositeFieldContainer[Chunk]
    counts: ScopeCounts
    def __init__(self, chunks: _Optional[_Iterable[_Union[Chunk, _Mapping]]] = ..., counts: _Optional[_Union[ScopeCounts, _Mapping]] = ...) -> None: ...

class GetChunksRequest(_message.Message):
    __slots__ = ("chunk_ids",)
    CHUNK_IDS_FIELD_NUMBER: _ClassVar[int]
    chunk_ids: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, chunk_ids: _Optional[_Iterable[int]] = ...) -> None: ...

class GetChunksResponse(_message.Message):
    __slots__ = ("chunks",)
    CHUNKS_FIELD_NUMBER: _ClassVar[int]
    chunks: _containers.RepeatedCompositeFieldContainer[Chunk]
    def __init__(self, chunks: _Optional[_Iterable[_Union[Chunk, _Mapping]]] = ...) -> None: ...

class FindDocumentsRequest(_message.Message):
    __slots__ = ("document_ids",)
    DOCUMENT_IDS_FIELD_NUMBER: _ClassVar[int]
    document_ids: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, document_ids: _Optional[_Iterable[int]] = ...) -> None: ...

class FindDocumentsResponse(_message.Message):
    __slots__ = ("document_ids",)
    DOCUMENT_IDS_FIELD_NUMBER: _ClassVar[int]
    document_ids: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, document_ids: _Optional[_Iterable[int]] = ...) -> None: ...
