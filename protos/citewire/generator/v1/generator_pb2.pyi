import datetime

from citewire.common.v1 import common_pb2 as _common_pb2
from citewire.retriever.v1 import table_pb2 as _table_pb2
from google.protobuf import timestamp_pb2 as _timestamp_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Role(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    ROLE_UNSPECIFIED: _ClassVar[Role]
    ROLE_USER: _ClassVar[Role]
    ROLE_ASSISTANT: _ClassVar[Role]
    ROLE_TOOL: _ClassVar[Role]

class ToolMode(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    TOOL_MODE_UNSPECIFIED: _ClassVar[ToolMode]
    TOOL_MODE_AUTO: _ClassVar[ToolMode]
    TOOL_MODE_NONE: _ClassVar[ToolMode]
    TOOL_MODE_REQUIRED: _ClassVar[ToolMode]

class ContextFormat(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    CONTEXT_FORMAT_UNSPECIFIED: _ClassVar[ContextFormat]
    CONTEXT_FORMAT_NUMBERED: _ClassVar[ContextFormat]
    CONTEXT_FORMAT_SOURCE_LABELS: _ClassVar[ContextFormat]
    CONTEXT_FORMAT_TYPED: _ClassVar[ContextFormat]
    CONTEXT_FORMAT_PLAIN: _ClassVar[ContextFormat]

class MarkerStyle(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    MARKER_STYLE_UNSPECIFIED: _ClassVar[MarkerStyle]
    MARKER_STYLE_NONE: _ClassVar[MarkerStyle]
    MARKER_STYLE_REMOVE: _ClassVar[MarkerStyle]
    MARKER_STYLE_REF: _ClassVar[MarkerStyle]
    MARKER_STYLE_SOURCE: _ClassVar[MarkerStyle]
    MARKER_STYLE_NUMBER: _ClassVar[MarkerStyle]

class Grounding(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    GROUNDING_UNSPECIFIED: _ClassVar[Grounding]
    GROUNDING_STRICT: _ClassVar[Grounding]
    GROUNDING_SAY_SO: _ClassVar[Grounding]
    GROUNDING_OPEN: _ClassVar[Grounding]

class Verdict(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    VERDICT_UNSPECIFIED: _ClassVar[Verdict]
    VERDICT_SUPPORTED: _ClassVar[Verdict]
    VERDICT_PARTIAL: _ClassVar[Verdict]
    VERDICT_UNSUPPORTED: _ClassVar[Verdict]
    VERDICT_UNVERIFIED: _ClassVar[Verdict]

class FinishReason(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    FINISH_REASON_UNSPECIFIED: _ClassVar[FinishReason]
    FINISH_REASON_STOP: _ClassVar[FinishReason]
    FINISH_REASON_LENGTH: _ClassVar[FinishReason]
    FINISH_REASON_CONTENT_FILTER: _ClassVar[FinishReason]
    FINISH_REASON_REFUSAL: _ClassVar[FinishReason]
    FINISH_REASON_TOOL_CALLS: _ClassVar[FinishReason]

class RewriteKind(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    REWRITE_KIND_UNSPECIFIED: _ClassVar[RewriteKind]
    REWRITE_KIND_CONDENSE: _ClassVar[RewriteKind]
    REWRITE_KIND_HYDE: _ClassVar[RewriteKind]

class EnrichmentField(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    ENRICHMENT_FIELD_UNSPECIFIED: _ClassVar[EnrichmentField]
    ENRICHMENT_FIELD_SUMMARY: _ClassVar[EnrichmentField]
    ENRICHMENT_FIELD_ENTITY_TYPE: _ClassVar[EnrichmentField]
    ENRICHMENT_FIELD_CATEGORY: _ClassVar[EnrichmentField]
    ENRICHMENT_FIELD_TAGS: _ClassVar[EnrichmentField]
ROLE_UNSPECIFIED: Role
ROLE_USER: Role
ROLE_ASSISTANT: Role
ROLE_TOOL: Role
TOOL_MODE_UNSPECIFIED: ToolMode
TOOL_MODE_AUTO: ToolMode
TOOL_MODE_NONE: ToolMode
TOOL_MODE_REQUIRED: ToolMode
CONTEXT_FORMAT_UNSPECIFIED: ContextFormat
CONTEXT_FORMAT_NUMBERED: ContextFormat
CONTEXT_FORMAT_SOURCE_LABELS: ContextFormat
CONTEXT_FORMAT_TYPED: ContextFormat
CONTEXT_FORMAT_PLAIN: ContextFormat
MARKER_STYLE_UNSPECIFIED: MarkerStyle
MARKER_STYLE_NONE: MarkerStyle
MARKER_STYLE_REMOVE: MarkerStyle
MARKER_STYLE_REF: MarkerStyle
MARKER_STYLE_SOURCE: MarkerStyle
MARKER_STYLE_NUMBER: MarkerStyle
GROUNDING_UNSPECIFIED: Grounding
GROUNDING_STRICT: Grounding
GROUNDING_SAY_SO: Grounding
GROUNDING_OPEN: Grounding
VERDICT_UNSPECIFIED: Verdict
VERDICT_SUPPORTED: Verdict
VERDICT_PARTIAL: Verdict
VERDICT_UNSUPPORTED: Verdict
VERDICT_UNVERIFIED: Verdict
FINISH_REASON_UNSPECIFIED: FinishReason
FINISH_REASON_STOP: FinishReason
FINISH_REASON_LENGTH: FinishReason
FINISH_REASON_CONTENT_FILTER: FinishReason
FINISH_REASON_REFUSAL: FinishReason
FINISH_REASON_TOOL_CALLS: FinishReason
REWRITE_KIND_UNSPECIFIED: RewriteKind
REWRITE_KIND_CONDENSE: RewriteKind
REWRITE_KIND_HYDE: RewriteKind
ENRICHMENT_FIELD_UNSPECIFIED: EnrichmentField
ENRICHMENT_FIELD_SUMMARY: EnrichmentField
ENRICHMENT_FIELD_ENTITY_TYPE: EnrichmentField
ENRICHMENT_FIELD_CATEGORY: EnrichmentField
ENRICHMENT_FIELD_TAGS: EnrichmentField

class Image(_message.Message):
    __slots__ = ("url", "detail")
    URL_FIELD_NUMBER: _ClassVar[int]
    DETAIL_FIELD_NUMBER: _ClassVar[int]
    url: str
    detail: str
    def __init__(self, url: _Optional[str] = ..., detail: _Optional[str] = ...) -> None: ...

class ToolCall(_message.Message):
    __slots__ = ("id", "name", "arguments")
    ID_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    ARGUMENTS_FIELD_NUMBER: _ClassVar[int]
    id: str
    name: str
    arguments: str
    def __init__(self, id: _Optional[str] = ..., name: _Optional[str] = ..., arguments: _Optional[str] = ...) -> None: ...

class Message(_message.Message):
    __slots__ = ("role", "content", "tool_calls", "tool_call_id", "images", "passages")
    ROLE_FIELD_NUMBER: _ClassVar[int]
    CONTENT_FIELD_NUMBER: _ClassVar[int]
    TOOL_CALLS_FIELD_NUMBER: _ClassVar[int]
    TOOL_CALL_ID_FIELD_NUMBER: _ClassVar[int]
    IMAGES_FIELD_NUMBER: _ClassVar[int]
    PASSAGES_FIELD_NUMBER: _ClassVar[int]
    role: Role
    content: str
    tool_calls: _containers.RepeatedCompositeFieldContainer[ToolCall]
    tool_call_id: str
    images: _containers.RepeatedCompositeFieldContainer[Image]
    passages: _containers.RepeatedCompositeFieldContainer[Passage]
    def __init__(self, role: _Optional[_Union[Role, str]] = ..., content: _Optional[str] = ..., tool_calls: _Optional[_Iterable[_Union[ToolCall, _Mapping]]] = ..., tool_call_id: _Optional[str] = ..., images: _Optional[_Iterable[_Union[Image, _Mapping]]] = ..., passages: _Optional[_Iterable[_Union[Passage, _Mapping]]] = ...) -> None: ...

class Tool(_message.Message):
    __slots__ = ("name", "description", "parameters_json", "strict")
    NAME_FIELD_NUMBER: _ClassVar[int]
    DESCRIPTION_FIELD_NUMBER: _ClassVar[int]
    PARAMETERS_JSON_FIELD_NUMBER: _ClassVar[int]
    STRICT_FIELD_NUMBER: _ClassVar[int]
    name: str
    description: str
    parameters_json: str
    strict: bool
    def __init__(self, name: _Optional[str] = ..., description: _Optional[str] = ..., parameters_json: _Optional[str] = ..., strict: _Optional[bool] = ...) -> None: ...

class ToolUse(_message.Message):
    __slots__ = ("tools", "mode", "name", "parallel")
    TOOLS_FIELD_NUMBER: _ClassVar[int]
    MODE_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    PARALLEL_FIELD_NUMBER: _ClassVar[int]
    tools: _containers.RepeatedCompositeFieldContainer[Tool]
    mode: ToolMode
    name: str
    parallel: bool
    def __init__(self, tools: _Optional[_Iterable[_Union[Tool, _Mapping]]] = ..., mode: _Optional[_Union[ToolMode, str]] = ..., name: _Optional[str] = ..., parallel: _Optional[bool] = ...) -> None: ...

class AnswerFormat(_message.Message):
    __slots__ = ("name", "description", "schema_json", "strict")
    NAME_FIELD_NUMBER: _ClassVar[int]
    DESCRIPTION_FIELD_NUMBER: _ClassVar[int]
    SCHEMA_JSON_FIELD_NUMBER: _ClassVar[int]
    STRICT_FIELD_NUMBER: _ClassVar[int]
    name: str
    description: str
    schema_json: str
    strict: bool
    def __init__(self, name: _Optional[str] = ..., description: _Optional[str] = ..., schema_json: _Optional[str] = ..., strict: _Optional[bool] = ...) -> None: ...

class Sampling(_message.Message):
    __slots__ = ("top_p", "stop", "seed", "frequency_penalty", "presence_penalty", "reasoning_effort", "verbosity")
    TOP_P_FIELD_NUMBER: _ClassVar[int]
    STOP_FIELD_NUMBER: _ClassVar[int]
    SEED_FIELD_NUMBER: _ClassVar[int]
    FREQUENCY_PENALTY_FIELD_NUMBER: _ClassVar[int]
    PRESENCE_PENALTY_FIELD_NUMBER: _ClassVar[int]
    REASONING_EFFORT_FIELD_NUMBER: _ClassVar[int]
    VERBOSITY_FIELD_NUMBER: _ClassVar[int]
    top_p: float
    stop: _containers.RepeatedScalarFieldContainer[str]
    seed: int
    frequency_penalty: float
    presence_penalty: float
    reasoning_effort: str
    verbosity: str
    def __init__(self, top_p: _Optional[float] = ..., stop: _Optional[_Iterable[str]] = ..., seed: _Optional[int] = ..., frequency_penalty: _Optional[float] = ..., presence_penalty: _Optional[float] = ..., reasoning_effort: _Optional[str] = ..., verbosity: _Optional[str] = ...) -> None: ...

class Passage(_message.Message):
    __slots__ = ("chunk_id", "document_id", "text", "title", "file_name", "section", "type", "url", "place_label", "similarity", "token_count", "saved_at", "tags", "entity_type", "category", "computed")
    CHUNK_ID_FIELD_NUMBER: _ClassVar[int]
    DOCUMENT_ID_FIELD_NUMBER: _ClassVar[int]
    TEXT_FIELD_NUMBER: _ClassVar[int]
    TITLE_FIELD_NUMBER: _ClassVar[int]
    FILE_NAME_FIELD_NUMBER: _ClassVar[int]
    SECTION_FIELD_NUMBER: _ClassVar[int]
    TYPE_FIELD_NUMBER: _ClassVar[int]
    URL_FIELD_NUMBER: _ClassVar[int]
    PLACE_LABEL_FIELD_NUMBER: _ClassVar[int]
    SIMILARITY_FIELD_NUMBER: _ClassVar[int]
    TOKEN_COUNT_FIELD_NUMBER: _ClassVar[int]
    SAVED_AT_FIELD_NUMBER: _ClassVar[int]
    TAGS_FIELD_NUMBER: _ClassVar[int]
    ENTITY_TYPE_FIELD_NUMBER: _ClassVar[int]
    CATEGORY_FIELD_NUMBER: _ClassVar[int]
    COMPUTED_FIELD_NUMBER: _ClassVar[int]
    chunk_id: int
    document_id: int
    text: str
    title: str
    file_name: str
    section: str
    type: str
    url: str
    place_label: str
    similarity: float
    token_count: int
    saved_at: _timestamp_pb2.Timestamp
    tags: _containers.RepeatedScalarFieldContainer[str]
    entity_type: str
    category: str
    computed: bool
    def __init__(self, chunk_id: _Optional[int] = ..., document_id: _Optional[int] = ..., text: _Optional[str] = ..., title: _Optional[str] = ..., file_name: _Optional[str] = ..., section: _Optional[str] = ..., type: _Optional[str] = ..., url: _Optional[str] = ..., place_label: _Optional[str] = ..., similarity: _Optional[float] = ..., token_count: _Optional[int] = ..., saved_at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., tags: _Optional[_Iterable[str]] = ..., entity_type: _Optional[str] = ..., category: _Optional[str] = ..., computed: _Optional[bool] = ...) -> None: ...

class AnswerPolicy(_message.Message):
    __slots__ = ("context_format", "marker_style", "grounding", "answer_language", "not_found_sentence", "suggest_on_not_found", "ask_back", "max_context_tokens", "max_context_chars", "instructions", "max_history_tokens", "verify_citations", "flag_uncited", "answerable_threshold", "remove_invalid_markers")
    CONTEXT_FORMAT_FIELD_NUMBER: _ClassVar[int]
    MARKER_STYLE_FIELD_NUMBER: _ClassVar[int]
    GROUNDING_FIELD_NUMBER: _ClassVar[int]
    ANSWER_LANGUAGE_FIELD_NUMBER: _ClassVar[int]
    NOT_FOUND_SENTENCE_FIELD_NUMBER: _ClassVar[int]
    SUGGEST_ON_NOT_FOUND_FIELD_NUMBER: _ClassVar[int]
    ASK_BACK_FIELD_NUMBER: _ClassVar[int]
    MAX_CONTEXT_TOKENS_FIELD_NUMBER: _ClassVar[int]
    MAX_CONTEXT_CHARS_FIELD_NUMBER: _ClassVar[int]
    INSTRUCTIONS_FIELD_NUMBER: _ClassVar[int]
    MAX_HISTORY_TOKENS_FIELD_NUMBER: _ClassVar[int]
    VERIFY_CITATIONS_FIELD_NUMBER: _ClassVar[int]
    FLAG_UNCITED_FIELD_NUMBER: _ClassVar[int]
    ANSWERABLE_THRESHOLD_FIELD_NUMBER: _ClassVar[int]
    REMOVE_INVALID_MARKERS_FIELD_NUMBER: _ClassVar[int]
    context_format: ContextFormat
    marker_style: MarkerStyle
    grounding: Grounding
    answer_language: str
    not_found_sentence: str
    suggest_on_not_found: bool
    ask_back: bool
    max_context_tokens: int
    max_context_chars: int
    instructions: str
    max_history_tokens: int
    verify_citations: bool
    flag_uncited: bool
    answerable_threshold: float
    remove_invalid_markers: bool
    def __init__(self, context_format: _Optional[_Union[ContextFormat, str]] = ..., marker_style: _Optional[_Union[MarkerStyle, str]] = ..., grounding: _Optional[_Union[Grounding, str]] = ..., answer_language: _Optional[str] = ..., not_found_sentence: _Optional[str] = ..., suggest_on_not_found: _Optional[bool] = ..., ask_back: _Optional[bool] = ..., max_context_tokens: _Optional[int] = ..., max_context_chars: _Optional[int] = ..., instructions: _Optional[str] = ..., max_history_tokens: _Optional[int] = ..., verify_citations: _Optional[bool] = ..., flag_uncited: _Optional[bool] = ..., answerable_threshold: _Optional[float] = ..., remove_invalid_markers: _Optional[bool] = ...) -> None: ...

class GenerateRequest(_message.Message):
    __slots__ = ("question", "passages", "history", "policy", "model", "max_completion_tokens", "temperature", "provider", "fallbacks", "time_zone", "listing", "format", "tools", "continuation", "sampling", "images", "cache_key")
    QUESTION_FIELD_NUMBER: _ClassVar[int]
    PASSAGES_FIELD_NUMBER: _ClassVar[int]
    HISTORY_FIELD_NUMBER: _ClassVar[int]
    POLICY_FIELD_NUMBER: _ClassVar[int]
    MODEL_FIELD_NUMBER: _ClassVar[int]
    MAX_COMPLETION_TOKENS_FIELD_NUMBER: _ClassVar[int]
    TEMPERATURE_FIELD_NUMBER: _ClassVar[int]
    PROVIDER_FIELD_NUMBER: _ClassVar[int]
    FALLBACKS_FIELD_NUMBER: _ClassVar[int]
    TIME_ZONE_FIELD_NUMBER: _ClassVar[int]
    LISTING_FIELD_NUMBER: _ClassVar[int]
    FORMAT_FIELD_NUMBER: _ClassVar[int]
    TOOLS_FIELD_NUMBER: _ClassVar[int]
    CONTINUATION_FIELD_NUMBER: _ClassVar[int]
    SAMPLING_FIELD_NUMBER: _ClassVar[int]
    IMAGES_FIELD_NUMBER: _ClassVar[int]
    CACHE_KEY_FIELD_NUMBER: _ClassVar[int]
    question: str
    passages: _containers.RepeatedCompositeFieldContainer[Passage]
    history: _containers.RepeatedCompositeFieldContainer[Message]
    policy: AnswerPolicy
    model: str
    max_completion_tokens: int
    temperature: float
    provider: _common_pb2.ProviderRef
    fallbacks: _containers.RepeatedCompositeFieldContainer[Fallback]
    time_zone: str
    listing: ItemListing
    format: AnswerFormat
    tools: ToolUse
    continuation: _containers.RepeatedCompositeFieldContainer[Message]
    sampling: Sampling
    images: _containers.RepeatedCompositeFieldContainer[Image]
    cache_key: str
    def __init__(self, question: _Optional[str] = ..., passages: _Optional[_Iterable[_Union[Passage, _Mapping]]] = ..., history: _Optional[_Iterable[_Union[Message, _Mapping]]] = ..., policy: _Optional[_Union[AnswerPolicy, _Mapping]] = ..., model: _Optional[str] = ..., max_completion_tokens: _Optional[int] = ..., temperature: _Optional[float] = ..., provider: _Optional[_Union[_common_pb2.ProviderRef, _Mapping]] = ..., fallbacks: _Optional[_Iterable[_Union[Fallback, _Mapping]]] = ..., time_zone: _Optional[str] = ..., listing: _Optional[_Union[ItemListing, _Mapping]] = ..., format: _Optional[_Union[AnswerFormat, _Mapping]] = ..., tools: _Optional[_Union[ToolUse, _Mapping]] = ..., continuation: _Optional[_Iterable[_Union[Message, _Mapping]]] = ..., sampling: _Optional[_Union[Sampling, _Mapping]] = ..., images: _Optional[_Iterable[_Union[Image, _Mapping]]] = ..., cache_key: _Optional[str] = ...) -> None: ...

class ItemListing(_message.Message):
    __slots__ = ("topic", "max_items")
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    MAX_ITEMS_FIELD_NUMBER: _ClassVar[int]
    topic: str
    max_items: int
    def __init__(self, topic: _Optional[str] = ..., max_items: _Optional[int] = ...) -> None: ...

class Fallback(_message.Message):
    __slots__ = ("model", "provider")
    MODEL_FIELD_NUMBER: _ClassVar[int]
    PROVIDER_FIELD_NUMBER: _ClassVar[int]
    model: str
    provider: _common_pb2.ProviderRef
    def __init__(self, model: _Optional[str] = ..., provider: _Optional[_Union[_common_pb2.ProviderRef, _Mapping]] = ...) -> None: ...

class GenerateResponse(_message.Message):
    __slots__ = ("started", "delta", "notice", "completed", "verified_citation", "uncited_sentence", "tool_call")
    STARTED_FIELD_NUMBER: _ClassVar[int]
    DELTA_FIELD_NUMBER: _ClassVar[int]
    NOTICE_FIELD_NUMBER: _ClassVar[int]
    COMPLETED_FIELD_NUMBER: _ClassVar[int]
    VERIFIED_CITATION_FIELD_NUMBER: _ClassVar[int]
    UNCITED_SENTENCE_FIELD_NUMBER: _ClassVar[int]
    TOOL_CALL_FIELD_NUMBER: _ClassVar[int]
    started: Started
    delta: TextDelta
    notice: Notice
    completed: Completed
    verified_citation: VerifiedCitation
    uncited_sentence: UncitedSentence
    tool_call: ToolCallDelta
    def __init__(self, started: _Optional[_Union[Started, _Mapping]] = ..., delta: _Optional[_Union[TextDelta, _Mapping]] = ..., notice: _Optional[_Union[Notice, _Mapping]] = ..., completed: _Optional[_Union[Completed, _Mapping]] = ..., verified_citation: _Optional[_Union[VerifiedCitation, _Mapping]] = ..., uncited_sentence: _Optional[_Union[UncitedSentence, _Mapping]] = ..., tool_call: _Optional[_Union[ToolCallDelta, _Mapping]] = ...) -> None: ...

class AnswerSpan(_message.Message):
    __slots__ = ("start", "end")
    START_FIELD_NUMBER: _ClassVar[int]
    END_FIELD_NUMBER: _ClassVar[int]
    start: int
    end: int
    def __init__(self, start: _Optional[int] = ..., end: _Optional[int] = ...) -> None: ...

class VerifiedCitation(_message.Message):
    __slots__ = ("sentence", "number", "quote", "quote_start", "quote_end", "support", "verdict", "sentence_verdict", "mismatches", "pointer")
    SENTENCE_FIELD_NUMBER: _ClassVar[int]
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    QUOTE_FIELD_NUMBER: _ClassVar[int]
    QUOTE_START_FIELD_NUMBER: _ClassVar[int]
    QUOTE_END_FIELD_NUMBER: _ClassVar[int]
    SUPPORT_FIELD_NUMBER: _ClassVar[int]
    VERDICT_FIELD_NUMBER: _ClassVar[int]
    SENTENCE_VERDICT_FIELD_NUMBER: _ClassVar[int]
    MISMATCHES_FIELD_NUMBER: _ClassVar[int]
    POINTER_FIELD_NUMBER: _ClassVar[int]
    sentence: AnswerSpan
    number: int
    quote: str
    quote_start: int
    quote_end: int
    support: float
    verdict: Verdict
    sentence_verdict: Verdict
    mismatches: _containers.RepeatedScalarFieldContainer[str]
    pointer: str
    def __init__(self, sentence: _Optional[_Union[AnswerSpan, _Mapping]] = ..., number: _Optional[int] = ..., quote: _Optional[str] = ..., quote_start: _Optional[int] = ..., quote_end: _Optional[int] = ..., support: _Optional[float] = ..., verdict: _Optional[_Union[Verdict, str]] = ..., sentence_verdict: _Optional[_Union[Verdict, str]] = ..., mismatches: _Optional[_Iterable[str]] = ..., pointer: _Optional[str] = ...) -> None: ...

class UncitedSentence(_message.Message):
    __slots__ = ("sentence",)
    SENTENCE_FIELD_NUMBER: _ClassVar[int]
    sentence: AnswerSpan
    def __init__(self, sentence: _Optional[_Union[AnswerSpan, _Mapping]] = ...) -> None: ...

class Citation(_message.Message):
    __slots__ = ("number", "passage_index", "chars")
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    PASSAGE_INDEX_FIELD_NUMBER: _ClassVar[int]
    CHARS_FIELD_NUMBER: _ClassVar[int]
    number: int
    passage_index: int
    chars: int
    def __init__(self, number: _Optional[int] = ..., passage_index: _Optional[int] = ..., chars: _Optional[int] = ...) -> None: ...

class Started(_message.Message):
    __slots__ = ("provider", "model", "citations")
    PROVIDER_FIELD_NUMBER: _ClassVar[int]
    MODEL_FIELD_NUMBER: _ClassVar[int]
    CITATIONS_FIELD_NUMBER: _ClassVar[int]
    provider: str
    model: str
    citations: _containers.RepeatedCompositeFieldContainer[Citation]
    def __init__(self, provider: _Optional[str] = ..., model: _Optional[str] = ..., citations: _Optional[_Iterable[_Union[Citation, _Mapping]]] = ...) -> None: ...

class TextDelta(_message.Message):
    __slots__ = ("texts",)
    TEXTS_FIELD_NUMBER: _ClassVar[int]
    texts: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, texts: _Optional[_Iterable[str]] = ...) -> None: ...

class ToolCallDelta(_message.Message):
    __slots__ = ("index", "id", "name", "arguments")
    INDEX_FIELD_NUMBER: _ClassVar[int]
    ID_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    ARGUMENTS_FIELD_NUMBER: _ClassVar[int]
    index: int
    id: str
    name: str
    arguments: str
    def __init__(self, index: _Optional[int] = ..., id: _Optional[str] = ..., name: _Optional[str] = ..., arguments: _Optional[str] = ...) -> None: ...

class Notice(_message.Message):
    __slots__ = ("name", "text", "provider", "model", "passages_left_out")
    NAME_FIELD_NUMBER: _ClassVar[int]
    TEXT_FIELD_NUMBER: _ClassVar[int]
    PROVIDER_FIELD_NUMBER: _ClassVar[int]
    MODEL_FIELD_NUMBER: _ClassVar[int]
    PASSAGES_LEFT_OUT_FIELD_NUMBER: _ClassVar[int]
    name: str
    text: str
    provider: str
    model: str
    passages_left_out: int
    def __init__(self, name: _Optional[str] = ..., text: _Optional[str] = ..., provider: _Optional[str] = ..., model: _Optional[str] = ..., passages_left_out: _Optional[int] = ...) -> None: ...

class TokenUsage(_message.Message):
    __slots__ = ("prompt_tokens", "cached_prompt_tokens", "completion_tokens", "estimated", "cache_write_prompt_tokens")
    PROMPT_TOKENS_FIELD_NUMBER: _ClassVar[int]
    CACHED_PROMPT_TOKENS_FIELD_NUMBER: _ClassVar[int]
    COMPLETION_TOKENS_FIELD_NUMBER: _ClassVar[int]
    ESTIMATED_FIELD_NUMBER: _ClassVar[int]
    CACHE_WRITE_PROMPT_TOKENS_FIELD_NUMBER: _ClassVar[int]
    prompt_tokens: int
    cached_prompt_tokens: int
    completion_tokens: int
    estimated: bool
    cache_write_prompt_tokens: int
    def __init__(self, prompt_tokens: _Optional[int] = ..., cached_prompt_tokens: _Optional[int] = ..., completion_tokens: _Optional[int] = ..., estimated: _Optional[bool] = ..., cache_write_prompt_tokens: _Optional[int] = ...) -> None: ...

class Completed(_message.Message):
    __slots__ = ("usage", "finish_reason", "attempts", "not_found", "suggested_questions", "invalid_markers", "cited_numbers", "provider", "model", "answerable_score", "refusal")
    USAGE_FIELD_NUMBER: _ClassVar[int]
    FINISH_REASON_FIELD_NUMBER: _ClassVar[int]
    ATTEMPTS_FIELD_NUMBER: _ClassVar[int]
    NOT_FOUND_FIELD_NUMBER: _ClassVar[int]
    SUGGESTED_QUESTIONS_FIELD_NUMBER: _ClassVar[int]
    INVALID_MARKERS_FIELD_NUMBER: _ClassVar[int]
    CITED_NUMBERS_FIELD_NUMBER: _ClassVar[int]
    PROVIDER_FIELD_NUMBER: _ClassVar[int]
    MODEL_FIELD_NUMBER: _ClassVar[int]
    ANSWERABLE_SCORE_FIELD_NUMBER: _ClassVar[int]
    REFUSAL_FIELD_NUMBER: _ClassVar[int]
    usage: TokenUsage
    finish_reason: FinishReason
    attempts: int
    not_found: bool
    suggested_questions: int
    invalid_markers: int
    cited_numbers: _containers.RepeatedScalarFieldContainer[int]
    provider: str
    model: str
    answerable_score: float
    refusal: str
    def __init__(self, usage: _Optional[_Union[TokenUsage, _Mapping]] = ..., finish_reason: _Optional[_Union[FinishReason, str]] = ..., attempts: _Optional[int] = ..., not_found: _Optional[bool] = ..., suggested_questions: _Optional[int] = ..., invalid_markers: _Optional[int] = ..., cited_numbers: _Optional[_Iterable[int]] = ..., provider: _Optional[str] = ..., model: _Optional[str] = ..., answerable_score: _Optional[float] = ..., refusal: _Optional[str] = ...) -> None: ...

class VerifyRequest(_message.Message):
    __slots__ = ("answer", "passages", "marker_style")
    ANSWER_FIELD_NUMBER: _ClassVar[int]
    PASSAGES_FIELD_NUMBER: _ClassVar[int]
    MARKER_STYLE_FIELD_NUMBER: _ClassVar[int]
    answer: str
    passages: _containers.RepeatedCompositeFieldContainer[Passage]
    marker_style: MarkerStyle
    def __init__(self, answer: _Optional[str] = ..., passages: _Optional[_Iterable[_Union[Passage, _Mapping]]] = ..., marker_style: _Optional[_Union[MarkerStyle, str]] = ...) -> None: ...

class VerifyResponse(_message.Message):
    __slots__ = ("verified_citations", "uncited_sentences", "cited_numbers", "invalid_markers")
    VERIFIED_CITATIONS_FIELD_NUMBER: _ClassVar[int]
    UNCITED_SENTENCES_FIELD_NUMBER: _ClassVar[int]
    CITED_NUMBERS_FIELD_NUMBER: _ClassVar[int]
    INVALID_MARKERS_FIELD_NUMBER: _ClassVar[int]
    verified_citations: _containers.RepeatedCompositeFieldContainer[VerifiedCitation]
    uncited_sentences: _containers.RepeatedCompositeFieldContainer[UncitedSentence]
    cited_numbers: _containers.RepeatedScalarFieldContainer[int]
    invalid_markers: int
    def __init__(self, verified_citations: _Optional[_Iterable[_Union[VerifiedCitation, _Mapping]]] = ..., uncited_sentences: _Optional[_Iterable[_Union[UncitedSentence, _Mapping]]] = ..., cited_numbers: _Optional[_Iterable[int]] = ..., invalid_markers: _Optional[int] = ...) -> None: ...

class JudgementFailure(_message.Message):
    __slots__ = ("provider", "model", "error_reason")
    PROVIDER_FIELD_NUMBER: _ClassVar[int]
    MODEL_FIELD_NUMBER: _ClassVar[int]
    ERROR_REASON_FIELD_NUMBER: _ClassVar[int]
    provider: str
    model: str
    error_reason: str
    def __init__(self, provider: _Optional[str] = ..., model: _Optional[str] = ..., error_reason: _Optional[str] = ...) -> None: ...

class DecideRequest(_message.Message):
    __slots__ = ("question", "model", "provider", "fallbacks")
    QUESTION_FIELD_NUMBER: _ClassVar[int]
    MODEL_FIELD_NUMBER: _ClassVar[int]
    PROVIDER_FIELD_NUMBER: _ClassVar[int]
    FALLBACKS_FIELD_NUMBER: _ClassVar[int]
    question: str
    model: str
    provider: _common_pb2.ProviderRef
    fallbacks: _containers.RepeatedCompositeFieldContainer[Fallback]
    def __init__(self, question: _Optional[str] = ..., model: _Optional[str] = ..., provider: _Optional[_Union[_common_pb2.ProviderRef, _Mapping]] = ..., fallbacks: _Optional[_Iterable[_Union[Fallback, _Mapping]]] = ...) -> None: ...

class DecideResponse(_message.Message):
    __slots__ = ("needs_retrieval", "reason", "usage", "fallback", "heuristic", "failure")
    NEEDS_RETRIEVAL_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    USAGE_FIELD_NUMBER: _ClassVar[int]
    FALLBACK_FIELD_NUMBER: _ClassVar[int]
    HEURISTIC_FIELD_NUMBER: _ClassVar[int]
    FAILURE_FIELD_NUMBER: _ClassVar[int]
    needs_retrieval: bool
    reason: str
    usage: TokenUsage
    fallback: bool
    heuristic: bool
    failure: JudgementFailure
    def __init__(self, needs_retrieval: _Optional[bool] = ..., reason: _Optional[str] = ..., usage: _Optional[_Union[TokenUsage, _Mapping]] = ..., fallback: _Optional[bool] = ..., heuristic: _Optional[bool] = ..., failure: _Optional[_Union[JudgementFailure, _Mapping]] = ...) -> None: ...

class AssessRequest(_message.Message):
    __slots__ = ("question", "answer", "passages", "model", "provider", "fallbacks")
    QUESTION_FIELD_NUMBER: _ClassVar[int]
    ANSWER_FIELD_NUMBER: _ClassVar[int]
    PASSAGES_FIELD_NUMBER: _ClassVar[int]
    MODEL_FIELD_NUMBER: _ClassVar[int]
    PROVIDER_FIELD_NUMBER: _ClassVar[int]
    FALLBACKS_FIELD_NUMBER: _ClassVar[int]
    question: str
    answer: str
    passages: _containers.RepeatedCompositeFieldContainer[Passage]
    model: str
    provider: _common_pb2.ProviderRef
    fallbacks: _containers.RepeatedCompositeFieldContainer[Fallback]
    def __init__(self, question: _Optional[str] = ..., answer: _Optional[str] = ..., passages: _Optional[_Iterable[_Union[Passage, _Mapping]]] = ..., model: _Optional[str] = ..., provider: _Optional[_Union[_common_pb2.ProviderRef, _Mapping]] = ..., fallbacks: _Optional[_Iterable[_Union[Fallback, _Mapping]]] = ...) -> None: ...

class AssessResponse(_message.Message):
    __slots__ = ("supported", "utility", "fallback", "usage", "heuristic", "failure")
    SUPPORTED_FIELD_NUMBER: _ClassVar[int]
    UTILITY_FIELD_NUMBER: _ClassVar[int]
    FALLBACK_FIELD_NUMBER: _ClassVar[int]
    USAGE_FIELD_NUMBER: _ClassVar[int]
    HEURISTIC_FIELD_NUMBER: _ClassVar[int]
    FAILURE_FIELD_NUMBER: _ClassVar[int]
    supported: bool
    utility: float
    fallback: bool
    usage: TokenUsage
    heuristic: bool
    failure: JudgementFailure
    def __init__(self, supported: _Optional[bool] = ..., utility: _Optional[float] = ..., fallback: _Optional[bool] = ..., usage: _Optional[_Union[TokenUsage, _Mapping]] = ..., heuristic: _Optional[bool] = ..., failure: _Optional[_Union[JudgementFailure, _Mapping]] = ...) -> None: ...

class JudgeRelevanceRequest(_message.Message):
    __slots__ = ("question", "passages", "model", "provider", "fallbacks")
    QUESTION_FIELD_NUMBER: _ClassVar[int]
    PASSAGES_FIELD_NUMBER: _ClassVar[int]
    MODEL_FIELD_NUMBER: _ClassVar[int]
    PROVIDER_FIELD_NUMBER: _ClassVar[int]
    FALLBACKS_FIELD_NUMBER: _ClassVar[int]
    question: str
    passages: _containers.RepeatedCompositeFieldContainer[Passage]
    model: str
    provider: _common_pb2.ProviderRef
    fallbacks: _containers.RepeatedCompositeFieldContainer[Fallback]
    def __init__(self, question: _Optional[str] = ..., passages: _Optional[_Iterable[_Union[Passage, _Mapping]]] = ..., model: _Optional[str] = ..., provider: _Optional[_Union[_common_pb2.ProviderRef, _Mapping]] = ..., fallbacks: _Optional[_Iterable[_Union[Fallback, _Mapping]]] = ...) -> None: ...

class JudgeRelevanceResponse(_message.Message):
    __slots__ = ("irrelevant", "judged", "usage", "fallback", "heuristic", "failure")
    IRRELEVANT_FIELD_NUMBER: _ClassVar[int]
    JUDGED_FIELD_NUMBER: _ClassVar[int]
    USAGE_FIELD_NUMBER: _ClassVar[int]
    FALLBACK_FIELD_NUMBER: _ClassVar[int]
    HEURISTIC_FIELD_NUMBER: _ClassVar[int]
    FAILURE_FIELD_NUMBER: _ClassVar[int]
    irrelevant: _containers.RepeatedScalarFieldContainer[int]
    judged: int
    usage: TokenUsage
    fallback: bool
    heuristic: bool
    failure: JudgementFailure
    def __init__(self, irrelevant: _Optional[_Iterable[int]] = ..., judged: _Optional[int] = ..., usage: _Optional[_Union[TokenUsage, _Mapping]] = ..., fallback: _Optional[bool] = ..., heuristic: _Optional[bool] = ..., failure: _Optional[_Union[JudgementFailure, _Mapping]] = ...) -> None: ...

class RewriteRequest(_message.Message):
    __slots__ = ("kind", "question", "history", "model", "provider", "fallbacks")
    KIND_FIELD_NUMBER: _ClassVar[int]
    QUESTION_FIELD_NUMBER: _ClassVar[int]
    HISTORY_FIELD_NUMBER: _ClassVar[int]
    MODEL_FIELD_NUMBER: _ClassVar[int]
    PROVIDER_FIELD_NUMBER: _ClassVar[int]
    FALLBACKS_FIELD_NUMBER: _ClassVar[int]
    kind: RewriteKind
    question: str
    history: _containers.RepeatedCompositeFieldContainer[Message]
    model: str
    provider: _common_pb2.ProviderRef
    fallbacks: _containers.RepeatedCompositeFieldContainer[Fallback]
    def __init__(self, kind: _Optional[_Union[RewriteKind, str]] = ..., question: _Optional[str] = ..., history: _Optional[_Iterable[_Union[Message, _Mapping]]] = ..., model: _Optional[str] = ..., provider: _Optional[_Union[_common_pb2.ProviderRef, _Mapping]] = ..., fallbacks: _Optional[_Iterable[_Union[Fallback, _Mapping]]] = ...) -> None: ...

class RewriteResponse(_message.Message):
    __slots__ = ("text", "usage", "fallback", "heuristic", "failure")
    TEXT_FIELD_NUMBER: _ClassVar[int]
    USAGE_FIELD_NUMBER: _ClassVar[int]
    FALLBACK_FIELD_NUMBER: _ClassVar[int]
    HEURISTIC_FIELD_NUMBER: _ClassVar[int]
    FAILURE_FIELD_NUMBER: _ClassVar[int]
    text: str
    usage: TokenUsage
    fallback: bool
    heuristic: bool
    failure: JudgementFailure
    def __init__(self, text: _Optional[str] = ..., usage: _Optional[_Union[TokenUsage, _Mapping]] = ..., fallback: _Optional[bool] = ..., heuristic: _Optional[bool] = ..., failure: _Optional[_Union[JudgementFailure, _Mapping]] = ...) -> None: ...

class FillTableQueryRequest(_message.Message):
    __slots__ = ("question", "tables", "time_zone", "model", "provider", "fallbacks")
    QUESTION_FIELD_NUMBER: _ClassVar[int]
    TABLES_FIELD_NUMBER: _ClassVar[int]
    TIME_ZONE_FIELD_NUMBER: _ClassVar[int]
    MODEL_FIELD_NUMBER: _ClassVar[int]
    PROVIDER_FIELD_NUMBER: _ClassVar[int]
    FALLBACKS_FIELD_NUMBER: _ClassVar[int]
    question: str
    tables: _containers.RepeatedCompositeFieldContainer[_table_pb2.TableInReach]
    time_zone: str
    model: str
    provider: _common_pb2.ProviderRef
    fallbacks: _containers.RepeatedCompositeFieldContainer[Fallback]
    def __init__(self, question: _Optional[str] = ..., tables: _Optional[_Iterable[_Union[_table_pb2.TableInReach, _Mapping]]] = ..., time_zone: _Optional[str] = ..., model: _Optional[str] = ..., provider: _Optional[_Union[_common_pb2.ProviderRef, _Mapping]] = ..., fallbacks: _Optional[_Iterable[_Union[Fallback, _Mapping]]] = ...) -> None: ...

class FillTableQueryResponse(_message.Message):
    __slots__ = ("table", "query", "usage", "fallback", "no_model", "failure")
    TABLE_FIELD_NUMBER: _ClassVar[int]
    QUERY_FIELD_NUMBER: _ClassVar[int]
    USAGE_FIELD_NUMBER: _ClassVar[int]
    FALLBACK_FIELD_NUMBER: _ClassVar[int]
    NO_MODEL_FIELD_NUMBER: _ClassVar[int]
    FAILURE_FIELD_NUMBER: _ClassVar[int]
    table: int
    query: _table_pb2.TableQuery
    usage: TokenUsage
    fallback: bool
    no_model: bool
    failure: JudgementFailure
    def __init__(self, table: _Optional[int] = ..., query: _Optional[_Union[_table_pb2.TableQuery, _Mapping]] = ..., usage: _Optional[_Union[TokenUsage, _Mapping]] = ..., fallback: _Optional[bool] = ..., no_model: _Optional[bool] = ..., failure: _Optional[_Union[JudgementFailure, _Mapping]] = ...) -> None: ...

class SuggestQuestionsRequest(_message.Message):
    __slots__ = ("question", "passages", "count", "language", "model", "provider", "minimum")
    QUESTION_FIELD_NUMBER: _ClassVar[int]
    PASSAGES_FIELD_NUMBER: _ClassVar[int]
    COUNT_FIELD_NUMBER: _ClassVar[int]
    LANGUAGE_FIELD_NUMBER: _ClassVar[int]
    MODEL_FIELD_NUMBER: _ClassVar[int]
    PROVIDER_FIELD_NUMBER: _ClassVar[int]
    MINIMUM_FIELD_NUMBER: _ClassVar[int]
    question: str
    passages: _containers.RepeatedCompositeFieldContainer[Passage]
    count: int
    language: str
    model: str
    provider: _common_pb2.ProviderRef
    minimum: int
    def __init__(self, question: _Optional[str] = ..., passages: _Optional[_Iterable[_Union[Passage, _Mapping]]] = ..., count: _Optional[int] = ..., language: _Optional[str] = ..., model: _Optional[str] = ..., provider: _Optional[_Union[_common_pb2.ProviderRef, _Mapping]] = ..., minimum: _Optional[int] = ...) -> None: ...

class SuggestQuestionsResponse(_message.Message):
    __slots__ = ("questions", "usage", "fallback", "heading")
    QUESTIONS_FIELD_NUMBER: _ClassVar[int]
    USAGE_FIELD_NUMBER: _ClassVar[int]
    FALLBACK_FIELD_NUMBER: _ClassVar[int]
    HEADING_FIELD_NUMBER: _ClassVar[int]
    questions: _containers.RepeatedScalarFieldContainer[str]
    usage: TokenUsage
    fallback: bool
    heading: str
    def __init__(self, questions: _Optional[_Iterable[str]] = ..., usage: _Optional[_Union[TokenUsage, _Mapping]] = ..., fallback: _Optional[bool] = ..., heading: _Optional[str] = ...) -> None: ...

class KnownLabels(_message.Message):
    __slots__ = ("entity_types", "categories", "tags")
    ENTITY_TYPES_FIELD_NUMBER: _ClassVar[int]
    CATEGORIES_FIELD_NUMBER: _ClassVar[int]
    TAGS_FIELD_NUMBER: _ClassVar[int]
    entity_types: _containers.RepeatedScalarFieldContainer[str]
    categories: _containers.RepeatedScalarFieldContainer[str]
    tags: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, entity_types: _Optional[_Iterable[str]] = ..., categories: _Optional[_Iterable[str]] = ..., tags: _Optional[_Iterable[str]] = ...) -> None: ...

class EnrichRequest(_message.Message):
    __slots__ = ("text", "title", "type", "url", "fields", "labels", "model", "provider", "fallbacks")
    TEXT_FIELD_NUMBER: _ClassVar[int]
    TITLE_FIELD_NUMBER: _ClassVar[int]
    TYPE_FIELD_NUMBER: _ClassVar[int]
    URL_FIELD_NUMBER: _ClassVar[int]
    FIELDS_FIELD_NUMBER: _ClassVar[int]
    LABELS_FIELD_NUMBER: _ClassVar[int]
    MODEL_FIELD_NUMBER: _ClassVar[int]
    PROVIDER_FIELD_NUMBER: _ClassVar[int]
    FALLBACKS_FIELD_NUMBER: _ClassVar[int]
    text: str
    title: str
    type: str
    url: str
    fields: _containers.RepeatedScalarFieldContainer[EnrichmentField]
    labels: KnownLabels
    model: str
    provider: _common_pb2.ProviderRef
    fallbacks: _containers.RepeatedCompositeFieldContainer[Fallback]
    def __init__(self, text: _Optional[str] = ..., title: _Optional[str] = ..., type: _Optional[str] = ..., url: _Optional[str] = ..., fields: _Optional[_Iterable[_Union[EnrichmentField, str]]] = ..., labels: _Optional[_Union[KnownLabels, _Mapping]] = ..., model: _Optional[str] = ..., provider: _Optional[_Union[_common_pb2.ProviderRef, _Mapping]] = ..., fallbacks: _Optional[_Iterable[_Union[Fallback, _Mapping]]] = ...) -> None: ...

class EnrichResponse(_message.Message):
    __slots__ = ("summary", "entity_type", "category", "tags", "usage", "no_model", "unreadable", "provider", "model")
    SUMMARY_FIELD_NUMBER: _ClassVar[int]
    ENTITY_TYPE_FIELD_NUMBER: _ClassVar[int]
    CATEGORY_FIELD_NUMBER: _ClassVar[int]
    TAGS_FIELD_NUMBER: _ClassVar[int]
    USAGE_FIELD_NUMBER: _ClassVar[int]
    NO_MODEL_FIELD_NUMBER: _ClassVar[int]
    UNREADABLE_FIELD_NUMBER: _ClassVar[int]
    PROVIDER_FIELD_NUMBER: _ClassVar[int]
    MODEL_FIELD_NUMBER: _ClassVar[int]
    summary: str
    entity_type: str
    category: str
    tags: _containers.RepeatedScalarFieldContainer[str]
    usage: TokenUsage
    no_model: bool
    unreadable: bool
    provider: str
    model: str
    def __init__(self, summary: _Optional[str] = ..., entity_type: _Optional[str] = ..., category: _Optional[str] = ..., tags: _Optional[_Iterable[str]] = ..., usage: _Optional[_Union[TokenUsage, _Mapping]] = ..., no_model: _Optional[bool] = ..., unreadable: _Optional[bool] = ..., provider: _Optional[str] = ..., model: _Optional[str] = ...) -> None: ...

class ListModelsRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ListModelsResponse(_message.Message):
    __slots__ = ("models",)
    MODELS_FIELD_NUMBER: _ClassVar[int]
    models: _containers.RepeatedCompositeFieldContainer[Model]
    def __init__(self, models: _Optional[_Iterable[_Union[Model, _Mapping]]] = ...) -> None: ...

class Model(_message.Message):
    __slots__ = ("provider", "name", "is_default", "context_window", "max_completion_tokens", "remote")
    PROVIDER_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    IS_DEFAULT_FIELD_NUMBER: _ClassVar[int]
    CONTEXT_WINDOW_FIELD_NUMBER: _ClassVar[int]
    MAX_COMPLETION_TOKENS_FIELD_NUMBER: _ClassVar[int]
    REMOTE_FIELD_NUMBER: _ClassVar[int]
    provider: str
    name: str
    is_default: bool
    context_window: int
    max_completion_tokens: int
    remote: bool
    def __init__(self, provider: _Optional[str] = ..., name: _Optional[str] = ..., is_default: _Optional[bool] = ..., context_window: _Optional[int] = ..., max_completion_tokens: _Optional[int] = ..., remote: _Optional[bool] = ...) -> None: ...

class SealProviderRequest(_message.Message):
    __slots__ = ("spec",)
    SPEC_FIELD_NUMBER: _ClassVar[int]
    spec: _common_pb2.ProviderSpec
    def __init__(self, spec: _Optional[_Union[_common_pb2.ProviderSpec, _Mapping]] = ...) -> None: ...

class SealProviderResponse(_message.Message):
    __slots__ = ("ref", "test")
    REF_FIELD_NUMBER: _ClassVar[int]
    TEST_FIELD_NUMBER: _ClassVar[int]
    ref: _common_pb2.ProviderRef
    test: _common_pb2.ProviderTest
    def __init__(self, ref: _Optional[_Union[_common_pb2.ProviderRef, _Mapping]] = ..., test: _Optional[_Union[_common_pb2.ProviderTest, _Mapping]] = ...) -> None: ...

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
