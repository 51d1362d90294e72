from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class ErrorReason(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    ERROR_REASON_UNSPECIFIED: _ClassVar[ErrorReason]
    ERROR_REASON_INVALID_FIELD: _ClassVar[ErrorReason]
    ERROR_REASON_NOT_IMPLEMENTED: _ClassVar[ErrorReason]
    ERROR_REASON_INTERNAL: _ClassVar[ErrorReason]
    ERROR_REASON_SERVICE_UNAVAILABLE: _ClassVar[ErrorReason]
    ERROR_REASON_DATABASE_UNAVAILABLE: _ClassVar[ErrorReason]
    ERROR_REASON_OVERLOADED: _ClassVar[ErrorReason]
    ERROR_REASON_DEADLINE_EXCEEDED: _ClassVar[ErrorReason]
    ERROR_REASON_CANCELLED: _ClassVar[ErrorReason]
    ERROR_REASON_SHUTTING_DOWN: _ClassVar[ErrorReason]
    ERROR_REASON_TENANT_MISSING: _ClassVar[ErrorReason]
    ERROR_REASON_API_KEY_MISSING: _ClassVar[ErrorReason]
    ERROR_REASON_API_KEY_INVALID: _ClassVar[ErrorReason]
    ERROR_REASON_API_KEY_REVOKED: _ClassVar[ErrorReason]
    ERROR_REASON_PERMISSION_DENIED: _ClassVar[ErrorReason]
    ERROR_REASON_CALLER_INVALID: _ClassVar[ErrorReason]
    ERROR_REASON_CALLER_FORBIDDEN: _ClassVar[ErrorReason]
    ERROR_REASON_API_KEY_EXPIRED: _ClassVar[ErrorReason]
    ERROR_REASON_SCOPE_MISSING: _ClassVar[ErrorReason]
    ERROR_REASON_TOKEN_INVALID: _ClassVar[ErrorReason]
    ERROR_REASON_CLAIM_INVALID: _ClassVar[ErrorReason]
    ERROR_REASON_SIGN_IN_FAILED: _ClassVar[ErrorReason]
    ERROR_REASON_SESSION_EXPIRED: _ClassVar[ErrorReason]
    ERROR_REASON_CROSS_SITE: _ClassVar[ErrorReason]
    ERROR_REASON_USER_DISABLED: _ClassVar[ErrorReason]
    ERROR_REASON_ORGANISATION_SUSPENDED: _ClassVar[ErrorReason]
    ERROR_REASON_DOCUMENT_NOT_FOUND: _ClassVar[ErrorReason]
    ERROR_REASON_VERSION_NOT_FOUND: _ClassVar[ErrorReason]
    ERROR_REASON_CHUNK_NOT_FOUND: _ClassVar[ErrorReason]
    ERROR_REASON_COLLECTION_NOT_FOUND: _ClassVar[ErrorReason]
    ERROR_REASON_CONVERSATION_NOT_FOUND: _ClassVar[ErrorReason]
    ERROR_REASON_PROFILE_NOT_FOUND: _ClassVar[ErrorReason]
    ERROR_REASON_ROUTE_NOT_FOUND: _ClassVar[ErrorReason]
    ERROR_REASON_METHOD_NOT_ALLOWED: _ClassVar[ErrorReason]
    ERROR_REASON_API_KEY_NOT_FOUND: _ClassVar[ErrorReason]
    ERROR_REASON_SPACE_NOT_FOUND: _ClassVar[ErrorReason]
    ERROR_REASON_BUDGET_NOT_FOUND: _ClassVar[ErrorReason]
    ERROR_REASON_ERASURE_NOT_FOUND: _ClassVar[ErrorReason]
    ERROR_REASON_USER_NOT_FOUND: _ClassVar[ErrorReason]
    ERROR_REASON_RUN_NOT_FOUND: _ClassVar[ErrorReason]
    ERROR_REASON_ORGANISATION_NOT_FOUND: _ClassVar[ErrorReason]
    ERROR_REASON_EMPTY_UPLOAD: _ClassVar[ErrorReason]
    ERROR_REASON_TOO_LARGE: _ClassVar[ErrorReason]
    ERROR_REASON_UNSUPPORTED_FORMAT: _ClassVar[ErrorReason]
    ERROR_REASON_WRONG_STATE: _ClassVar[ErrorReason]
    ERROR_REASON_IDEMPOTENCY_CONFLICT: _ClassVar[ErrorReason]
    ERROR_REASON_IDEMPOTENCY_IN_PROGRESS: _ClassVar[ErrorReason]
    ERROR_REASON_COLLECTION_EXISTS: _ClassVar[ErrorReason]
    ERROR_REASON_INVALID_JSON: _ClassVar[ErrorReason]
    ERROR_REASON_UNSUPPORTED_MEDIA_TYPE: _ClassVar[ErrorReason]
    ERROR_REASON_UPLOAD_ABORTED: _ClassVar[ErrorReason]
    ERROR_REASON_PROFILE_EXISTS: _ClassVar[ErrorReason]
    ERROR_REASON_RUN_LOST: _ClassVar[ErrorReason]
    ERROR_REASON_RUN_CANCELLED: _ClassVar[ErrorReason]
    ERROR_REASON_TABLE_NOT_COMPUTED: _ClassVar[ErrorReason]
    ERROR_REASON_SOURCE_FAILED: _ClassVar[ErrorReason]
    ERROR_REASON_INPUT_TOO_LONG: _ClassVar[ErrorReason]
    ERROR_REASON_MODEL_NOT_FOUND: _ClassVar[ErrorReason]
    ERROR_REASON_SPACE_MISMATCH: _ClassVar[ErrorReason]
    ERROR_REASON_INVALID_VECTOR: _ClassVar[ErrorReason]
    ERROR_REASON_INVALID_FILTER: _ClassVar[ErrorReason]
    ERROR_REASON_INVALID_PAGE_TOKEN: _ClassVar[ErrorReason]
    ERROR_REASON_PROVIDER_UNAVAILABLE: _ClassVar[ErrorReason]
    ERROR_REASON_PROVIDER_AUTH: _ClassVar[ErrorReason]
    ERROR_REASON_PROVIDER_RATE_LIMITED: _ClassVar[ErrorReason]
    ERROR_REASON_PROVIDER_REJECTED: _ClassVar[ErrorReason]
    ERROR_REASON_PROVIDER_STREAM_BROKEN: _ClassVar[ErrorReason]
    ERROR_REASON_PROVIDER_TIMEOUT: _ClassVar[ErrorReason]
    ERROR_REASON_PROVIDER_MISSING: _ClassVar[ErrorReason]
    ERROR_REASON_CONTEXT_TOO_LONG: _ClassVar[ErrorReason]
    ERROR_REASON_PROVIDER_ADDRESS: _ClassVar[ErrorReason]
    ERROR_REASON_PROVIDER_SEAL: _ClassVar[ErrorReason]
    ERROR_REASON_PROVIDER_NOT_FOUND: _ClassVar[ErrorReason]
    ERROR_REASON_BUDGET_EXCEEDED: _ClassVar[ErrorReason]
    ERROR_REASON_RATE_LIMITED: _ClassVar[ErrorReason]
    ERROR_REASON_STORAGE_FULL: _ClassVar[ErrorReason]

class ProviderType(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    PROVIDER_TYPE_UNSPECIFIED: _ClassVar[ProviderType]
    PROVIDER_TYPE_CHAT: _ClassVar[ProviderType]
    PROVIDER_TYPE_EMBEDDING: _ClassVar[ProviderType]
    PROVIDER_TYPE_RERANK: _ClassVar[ProviderType]
ERROR_REASON_UNSPECIFIED: ErrorReason
ERROR_REASON_INVALID_FIELD: ErrorReason
ERROR_REASON_NOT_IMPLEMENTED: ErrorReason
ERROR_REASON_INTERNAL: ErrorReason
ERROR_REASON_SERVICE_UNAVAILABLE: ErrorReason
ERROR_REASON_DATABASE_UNAVAILABLE: ErrorReason
ERROR_REASON_OVERLOADED: ErrorReason
ERROR_REASON_DEADLINE_EXCEEDED: ErrorReason
ERROR_REASON_CANCELLED: ErrorReason
ERROR_REASON_SHUTTING_DOWN: ErrorReason
ERROR_REASON_TENANT_MISSING: ErrorReason
ERROR_REASON_API_KEY_MISSING: ErrorReason
ERROR_REASON_API_KEY_INVALID: ErrorReason
ERROR_REASON_API_KEY_REVOKED: ErrorReason
ERROR_REASON_PERMISSION_DENIED: ErrorReason
ERROR_REASON_CALLER_INVALID: ErrorReason
ERROR_REASON_CALLER_FORBIDDEN: ErrorReason
ERROR_REASON_API_KEY_EXPIRED: ErrorReason
ERROR_REASON_SCOPE_MISSING: ErrorReason
ERROR_REASON_TOKEN_INVALID: ErrorReason
ERROR_REASON_CLAIM_INVALID: ErrorReason
ERROR_REASON_SIGN_IN_FAILED: ErrorReason
ERROR_REASON_SESSION_EXPIRED: ErrorReason
ERROR_REASON_CROSS_SITE: ErrorReason
ERROR_REASON_USER_DISABLED: ErrorReason
ERROR_REASON_ORGANISATION_SUSPENDED: ErrorReason
ERROR_REASON_DOCUMENT_NOT_FOUND: ErrorReason
ERROR_REASON_VERSION_NOT_FOUND: ErrorReason
ERROR_REASON_CHUNK_NOT_FOUND: ErrorReason
ERROR_REASON_COLLECTION_NOT_FOUND: ErrorReason
ERROR_REASON_CONVERSATION_NOT_FOUND: ErrorReason
ERROR_REASON_PROFILE_NOT_FOUND: ErrorReason
ERROR_REASON_ROUTE_NOT_FOUND: ErrorReason
ERROR_REASON_METHOD_NOT_ALLOWED: ErrorReason
ERROR_REASON_API_KEY_NOT_FOUND: ErrorReason
ERROR_REASON_SPACE_NOT_FOUND: ErrorReason
ERROR_REASON_BUDGET_NOT_FOUND: ErrorReason
ERROR_REASON_ERASURE_NOT_FOUND: ErrorReason
ERROR_REASON_USER_NOT_FOUND: ErrorReason
ERROR_REASON_RUN_NOT_FOUND: ErrorReason
ERROR_REASON_ORGANISATION_NOT_FOUND: ErrorReason
ERROR_REASON_EMPTY_UPLOAD: ErrorReason
ERROR_REASON_TOO_LARGE: ErrorReason
ERROR_REASON_UNSUPPORTED_FORMAT: ErrorReason
ERROR_REASON_WRONG_STATE: ErrorReason
ERROR_REASON_IDEMPOTENCY_CONFLICT: ErrorReason
ERROR_REASON_IDEMPOTENCY_IN_PROGRESS: ErrorReason
ERROR_REASON_COLLECTION_EXISTS: ErrorReason
ERROR_REASON_INVALID_JSON: ErrorReason
ERROR_REASON_UNSUPPORTED_MEDIA_TYPE: ErrorReason
ERROR_REASON_UPLOAD_ABORTED: ErrorReason
ERROR_REASON_PROFILE_EXISTS: ErrorReason
ERROR_REASON_RUN_LOST: ErrorReason
ERROR_REASON_RUN_CANCELLED: ErrorReason
ERROR_REASON_TABLE_NOT_COMPUTED: ErrorReason
ERROR_REASON_SOURCE_FAILED: ErrorReason
ERROR_REASON_INPUT_TOO_LONG: ErrorReason
ERROR_REASON_MODEL_NOT_FOUND: ErrorReason
ERROR_REASON_SPACE_MISMATCH: ErrorReason
ERROR_REASON_INVALID_VECTOR: ErrorReason
ERROR_REASON_INVALID_FILTER: ErrorReason
ERROR_REASON_INVALID_PAGE_TOKEN: ErrorReason
ERROR_REASON_PROVIDER_UNAVAILABLE: ErrorReason
ERROR_REASON_PROVIDER_AUTH: ErrorReason
ERROR_REASON_PROVIDER_RATE_LIMITED: ErrorReason
ERROR_REASON_PROVIDER_REJECTED: ErrorReason
ERROR_REASON_PROVIDER_STREAM_BROKEN: ErrorReason
ERROR_REASON_PROVIDER_TIMEOUT: ErrorReason
ERROR_REASON_PROVIDER_MISSING: ErrorReason
ERROR_REASON_CONTEXT_TOO_LONG: ErrorReason
ERROR_REASON_PROVIDER_ADDRESS: ErrorReason
ERROR_REASON_PROVIDER_SEAL: ErrorReason
ERROR_REASON_PROVIDER_NOT_FOUND: ErrorReason
ERROR_REASON_BUDGET_EXCEEDED: ErrorReason
ERROR_REASON_RATE_LIMITED: ErrorReason
ERROR_REASON_STORAGE_FULL: ErrorReason
PROVIDER_TYPE_UNSPECIFIED: ProviderType
PROVIDER_TYPE_CHAT: ProviderType
PROVIDER_TYPE_EMBEDDING: ProviderType
PROVIDER_TYPE_RERANK: ProviderType

class EmbeddingSpace(_message.Message):
    __slots__ = ("model", "revision", "dimensions")
    MODEL_FIELD_NUMBER: _ClassVar[int]
    REVISION_FIELD_NUMBER: _ClassVar[int]
    DIMENSIONS_FIELD_NUMBER: _ClassVar[int]
    model: str
    revision: str
    dimensions: int
    def __init__(self, model: _Optional[str] = ..., revision: _Optional[str] = ..., dimensions: _Optional[int] = ...) -> None: ...

class ProviderRef(_message.Message):
    __slots__ = ("provider", "model", "sealed_api_base", "sealed_key", "type", "user_id", "dimensions")
    PROVIDER_FIELD_NUMBER: _ClassVar[int]
    MODEL_FIELD_NUMBER: _ClassVar[int]
    SEALED_API_BASE_FIELD_NUMBER: _ClassVar[int]
    SEALED_KEY_FIELD_NUMBER: _ClassVar[int]
    TYPE_FIELD_NUMBER: _ClassVar[int]
    USER_ID_FIELD_NUMBER: _ClassVar[int]
    DIMENSIONS_FIELD_NUMBER: _ClassVar[int]
    provider: str
    model: str
    sealed_api_base: bytes
    sealed_key: bytes
    type: ProviderType
    user_id: str
    dimensions: int
    def __init__(self, provider: _Optional[str] = ..., model: _Optional[str] = ..., sealed_api_base: _Optional[bytes] = ..., sealed_key: _Optional[bytes] = ..., type: _Optional[_Union[ProviderType, str]] = ..., user_id: _Optional[str] = ..., dimensions: _Optional[int] = ...) -> None: ...

class ProviderSpec(_message.Message):
    __slots__ = ("type", "provider", "model", "api_base", "api_key", "user_id", "dimensions", "skip_test")
    TYPE_FIELD_NUMBER: _ClassVar[int]
    PROVIDER_FIELD_NUMBER: _ClassVar[int]
    MODEL_FIELD_NUMBER: _ClassVar[int]
    API_BASE_FIELD_NUMBER: _ClassVar[int]
    API_KEY_FIELD_NUMBER: _ClassVar[int]
    USER_ID_FIELD_NUMBER: _ClassVar[int]
    DIMENSIONS_FIELD_NUMBER: _ClassVar[int]
    SKIP_TEST_FIELD_NUMBER: _ClassVar[int]
    type: ProviderType
    provider: str
    model: str
    api_base: str
    api_key: str
    user_id: str
    dimensions: int
    skip_test: bool
    def __init__(self, type: _Optional[_Union[ProviderType, str]] = ..., provider: _Optional[str] = ..., model: _Optional[str] = ..., api_base: _Optional[str] = ..., api_key: _Optional[str] = ..., user_id: _Optional[str] = ..., dimensions: _Optional[int] = ..., skip_test: _Optional[bool] = ...) -> None: ...

class ProviderTest(_message.Message):
    __slots__ = ("tried", "ok", "reason", "text", "status", "dimensions")
    TRIED_FIELD_NUMBER: _ClassVar[int]
    OK_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    TEXT_FIELD_NUMBER: _ClassVar[int]
    STATUS_FIELD_NUMBER: _ClassVar[int]
    DIMENSIONS_FIELD_NUMBER: _ClassVar[int]
    tried: bool
    ok: bool
    reason: str
    text: str
    status: int
    dimensions: int
    def __init__(self, tried: _Optional[bool] = ..., ok: _Optional[bool] = ..., reason: _Optional[str] = ..., text: _Optional[str] = ..., status: _Optional[int] = ..., dimensions: _Optional[int] = ...) -> None: ...
