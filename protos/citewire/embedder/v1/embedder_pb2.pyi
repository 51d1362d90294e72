import datetime

from citewire.common.v1 import common_pb2 as _common_pb2
from google.protobuf import duration_pb2 as _duration_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Purpose(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    PURPOSE_UNSPECIFIED: _ClassVar[Purpose]
    PURPOSE_QUERY: _ClassVar[Purpose]
    PURPOSE_DOCUMENT: _ClassVar[Purpose]

class Overflow(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    OVERFLOW_UNSPECIFIED: _ClassVar[Overflow]
    OVERFLOW_REJECT: _ClassVar[Overflow]
    OVERFLOW_TRUNCATE: _ClassVar[Overflow]

class Capability(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    CAPABILITY_UNSPECIFIED: _ClassVar[Capability]
    CAPABILITY_EMBED: _ClassVar[Capability]
    CAPABILITY_RERANK: _ClassVar[Capability]
PURPOSE_UNSPECIFIED: Purpose
PURPOSE_QUERY: Purpose
PURPOSE_DOCUMENT: Purpose
OVERFLOW_UNSPECIFIED: Overflow
OVERFLOW_REJECT: Overflow
OVERFLOW_TRUNCATE: Overflow
CAPABILITY_UNSPECIFIED: Capability
CAPABILITY_EMBED: Capability
CAPABILITY_RERANK: Capability

class EmbeddingUsage(_message.Message):
    __slots__ = ("input_tokens",)
    INPUT_TOKENS_FIELD_NUMBER: _ClassVar[int]
    input_tokens: int
    def __init__(self, input_tokens: _Optional[int] = ...) -> None: ...

class EmbedRequest(_message.Message):
    __slots__ = ("inputs", "purpose", "model", "dimensions", "overflow", "provider")
    INPUTS_FIELD_NUMBER: _ClassVar[int]
    PURPOSE_FIELD_NUMBER: _ClassVar[int]
    MODEL_FIELD_NUMBER: _ClassVar[int]
    DIMENSIONS_FIELD_NUMBER: _ClassVar[int]
    OVERFLOW_FIELD_NUMBER: _ClassVar[int]
    PROVIDER_FIELD_NUMBER: _ClassVar[int]
    inputs: _containers.RepeatedScalarFieldContainer[str]
    purpose: Purpose
    model: str
    dimensions: int
    overflow: Overflow
    provider: _common_pb2.ProviderRef
    def __init__(self, inputs: _Optional[_Iterable[str]] = ..., purpose: _Optional[_Union[Purpose, str]] = ..., model: _Optional[str] = ..., dimensions: _Optional[int] = ..., overflow: _Optional[_Union[Overflow, str]] = ..., provider: _Optional[_Union[_common_pb2.ProviderRef, _Mapping]] = ...) -> None: ...

class EmbedResponse(_message.Message):
    __slots__ = ("vectors", "space", "usage", "token_counts", "truncated")
    VECTORS_FIELD_NUMBER: _ClassVar[int]
    SPACE_FIELD_NUMBER: _ClassVar[int]
    USAGE_FIELD_NUMBER: _ClassVar[int]
    TOKEN_COUNTS_FIELD_NUMBER: _ClassVar[int]
    TRUNCATED_FIELD_NUMBER: _ClassVar[int]
    vectors: bytes
    space: _common_pb2.EmbeddingSpace
    usage: EmbeddingUsage
    token_counts: _containers.RepeatedScalarFieldContainer[int]
    truncated: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, vectors: _Optional[bytes] = ..., space: _Optional[_Union[_common_pb2.EmbeddingSpace, _Mapping]] = ..., usage: _Optional[_Union[EmbeddingUsage, _Mapping]] = ..., token_counts: _Optional[_Iterable[int]] = ..., truncated: _Optional[_Iterable[int]] = ...) -> None: ...

class EmbedStreamRequest(_message.Message):
    __slots__ = ("batch_id", "batch")
    BATCH_ID_FIELD_NUMBER: _ClassVar[int]
    BATCH_FIELD_NUMBER: _ClassVar[int]
    batch_id: int
    batch: EmbedRequest
    def __init__(self, batch_id: _Optional[int] = ..., batch: _Optional[_Union[EmbedRequest, _Mapping]] = ...) -> None: ...

class EmbedStreamResponse(_message.Message):
    __slots__ = ("batch_id", "batch")
    BATCH_ID_FIELD_NUMBER: _ClassVar[int]
    BATCH_FIELD_NUMBER: _ClassVar[int]
    batch_id: int
    batch: EmbedResponse
    def __init__(self, batch_id: _Optional[int] = ..., batch: _Optional[_Union[EmbedResponse, _Mapping]] = ...) -> None: ...

class RerankRequest(_message.Message):
    __slots__ = ("query", "documents", "model", "top_n", "provider", "first_scores", "headings", "budget")
    QUERY_FIELD_NUMBER: _ClassVar[int]
    DOCUMENTS_FIELD_NUMBER: _ClassVar[int]
    MODEL_FIELD_NUMBER: _ClassVar[int]
    TOP_N_FIELD_NUMBER: _ClassVar[int]
    PROVIDER_FIELD_NUMBER: _ClassVar[int]
    FIRST_SCORES_FIELD_NUMBER: _ClassVar[int]
    HEADINGS_FIELD_NUMBER: _ClassVar[int]
    BUDGET_FIELD_NUMBER: _ClassVar[int]
    query: str
    documents: _containers.RepeatedScalarFieldContainer[str]
    model: str
    top_n: int
    provider: _common_pb2.ProviderRef
    first_scores: _containers.RepeatedScalarFieldContainer[float]
    headings: _containers.RepeatedScalarFieldContainer[str]
    budget: _duration_pb2.Duration
    def __init__(self, query: _Optional[str] = ..., documents: _Optional[_Iterable[str]] = ..., model: _Optional[str] = ..., top_n: _Optional[int] = ..., provider: _Optional[_Union[_common_pb2.ProviderRef, _Mapping]] = ..., first_scores: _Optional[_Iterable[float]] = ..., headings: _Optional[_Iterable[str]] = ..., budget: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ...) -> None: ...

class RerankResponse(_message.Message):
    __slots__ = ("results", "model", "usage", "scored")
    RESULTS_FIELD_NUMBER: _ClassVar[int]
    MODEL_FIELD_NUMBER: _ClassVar[int]
    USAGE_FIELD_NUMBER: _ClassVar[int]
    SCORED_FIELD_NUMBER: _ClassVar[int]
    results: _containers.RepeatedCompositeFieldContainer[RerankResult]
    model: str
    usage: EmbeddingUsage
    scored: int
    def __init__(self, results: _Optional[_Iterable[_Union[RerankResult, _Mapping]]] = ..., model: _Optional[str] = ..., usage: _Optional[_Union[EmbeddingUsage, _Mapping]] = ..., scored: _Optional[int] = ...) -> None: ...

class RerankResult(_message.Message):
    __slots__ = ("index", "score")
    INDEX_FIELD_NUMBER: _ClassVar[int]
    SCORE_FIELD_NUMBER: _ClassVar[int]
    index: int
    score: float
    def __init__(self, index: _Optional[int] = ..., score: _Optional[float] = ...) -> None: ...

class CountTokensRequest(_message.Message):
    __slots__ = ("inputs", "model", "provider")
    INPUTS_FIELD_NUMBER: _ClassVar[int]
    MODEL_FIELD_NUMBER: _ClassVar[int]
    PROVIDER_FIELD_NUMBER: _ClassVar[int]
    inputs: _containers.RepeatedScalarFieldContainer[str]
    model: str
    provider: _common_pb2.ProviderRef
    def __init__(self, inputs: _Optional[_Iterable[str]] = ..., model: _Optional[str] = ..., provider: _Optional[_Union[_common_pb2.ProviderRef, _Mapping]] = ...) -> None: ...

class CountTokensResponse(_message.Message):
    __slots__ = ("counts", "special_tokens", "max_input_tokens", "space")
    COUNTS_FIELD_NUMBER: _ClassVar[int]
    SPECIAL_TOKENS_FIELD_NUMBER: _ClassVar[int]
    MAX_INPUT_TOKENS_FIELD_NUMBER: _ClassVar[int]
    SPACE_FIELD_NUMBER: _ClassVar[int]
    counts: _containers.RepeatedScalarFieldContainer[int]
    special_tokens: int
    max_input_tokens: int
    space: _common_pb2.EmbeddingSpace
    def __init__(self, counts: _Optional[_Iterable[int]] = ..., special_tokens: _Optional[int] = ..., max_input_tokens: _Optional[int] = ..., space: _Optional[_Union[_common_pb2.EmbeddingSpace, _Mapping]] = ...) -> None: ...

class ListModelsRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ListModelsResponse(_message.Message):
    __slots__ = ("models",)
    MODELS_FIELD_NUMBER: _ClassVar[int]
    models: _containers.RepeatedCompositeFieldContainer[Model]
    def __init__(self, models: _Optional[_Iterable[_Union[Model, _Mapping]]] = ...) -> None: ...

class Model(_message.Message):
    __slots__ = ("space", "max_input_tokens", "is_default", "provider", "capability", "precision")
    SPACE_FIELD_NUMBER: _ClassVar[int]
    MAX_INPUT_TOKENS_FIELD_NUMBER: _ClassVar[int]
    IS_DEFAULT_FIELD_NUMBER: _ClassVar[int]
    PROVIDER_FIELD_NUMBER: _ClassVar[int]
    CAPABILITY_FIELD_NUMBER: _ClassVar[int]
    PRECISION_FIELD_NUMBER: _ClassVar[int]
    space: _common_pb2.EmbeddingSpace
    max_input_tokens: int
    is_default: bool
    provider: str
    capability: Capability
    precision: str
    def __init__(self, space: _Optional[_Union[_common_pb2.EmbeddingSpace, _Mapping]] = ..., max_input_tokens: _Optional[int] = ..., is_default: _Optional[bool] = ..., provider: _Optional[str] = ..., capability: _Optional[_Union[Capability, str]] = ..., precision: _Optional[str] = ...) -> None: ...

class SealProviderRequest(_message.Message):
    __slots__ = ("spec",)
    SPEC_FIELD_NUMBER: _ClassVar[int]
    spec: _common_pb2.ProviderSpec
    def __init__(self, spec: _Optional[_Union[_common_pb2.ProviderSpec, _Mapping]] = ...) -> None: ...

class SealProviderResponse(_message.Message):
    __slots__ = ("ref", "test", "space")
    REF_FIELD_NUMBER: _ClassVar[int]
    TEST_FIELD_NUMBER: _ClassVar[int]
    SPACE_FIELD_NUMBER: _ClassVar[int]
    ref: _common_pb2.ProviderRef
    test: _common_pb2.ProviderTest
    space: _common_pb2.EmbeddingSpace
    def __init__(self, ref: _Optional[_Union[_common_pb2.ProviderRef, _Mapping]] = ..., test: _Optional[_Union[_common_pb2.ProviderTest, _Mapping]] = ..., space: _Optional[_Union[_common_pb2.EmbeddingSpace, _Mapping]] = ...) -> None: ...

class RewrapProviderRequest(_message.Message):
    __slots__ = ("ref",)
    REF_FIELD_NUMBER: _ClassVar[int]
    ref: _common_pb2.ProviderRef
    def __init__(self, ref: _Optional[_Union[_common_pb2.ProviderRef, _Mapping]] = ...) -> None: ...

class RewrapProviderResponse(_message.Message):
    __slots__ = ("ref", "changed")
    REF_FIELD_NUMBER: _ClassVar[int]
    CHANGED_FIELD_NUMBER: _ClassVar[int]
    ref: _common_pb2.ProviderRef
    changed: bool
    def __init__(self, ref: _Optional[_Union[_common_pb2.ProviderRef, _Mapping]] = ..., changed: _Optional[bool] = ...) -> None: ...

class TestProviderRequest(_message.Message):
    __slots__ = ("ref",)
    REF_FIELD_NUMBER: _ClassVar[int]
    ref: _common_pb2.ProviderRef
    def __init__(self, ref: _Optional[_Union[_common_pb2.ProviderRef, _Mapping]] = ...) -> None: ...

class TestProviderResponse(_message.Message):
    __slots__ = ("test",)
    TEST_FIELD_NUMBER: _ClassVar[int]
    test: _common_pb2.ProviderTest
    def __init__(self, test: _Optional[_Union[_common_pb2.ProviderTest, _Mapping]] = ...) -> None: ...
