import datetime

from citewire.common.v1 import common_pb2 as _common_pb2
from citewire.common.v1 import place_pb2 as _place_pb2
from citewire.retriever.v1 import calibration_pb2 as _calibration_pb2
from citewire.retriever.v1 import filter_pb2 as _filter_pb2
from citewire.retriever.v1 import table_pb2 as _table_pb2
from google.protobuf import duration_pb2 as _duration_pb2
from google.protobuf import field_mask_pb2 as _field_mask_pb2
from google.protobuf import struct_pb2 as _struct_pb2
from google.protobuf import timestamp_pb2 as _timestamp_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Access(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    ACCESS_UNSPECIFIED: _ClassVar[Access]
    ACCESS_READ: _ClassVar[Access]
    ACCESS_WRITE: _ClassVar[Access]
    ACCESS_MANAGE: _ClassVar[Access]

class DocumentStatus(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    DOCUMENT_STATUS_UNSPECIFIED: _ClassVar[DocumentStatus]
    DOCUMENT_STATUS_PENDING: _ClassVar[DocumentStatus]
    DOCUMENT_STATUS_PROCESSING: _ClassVar[DocumentStatus]
    DOCUMENT_STATUS_READY: _ClassVar[DocumentStatus]
    DOCUMENT_STATUS_FAILED: _ClassVar[DocumentStatus]

class EnrichmentState(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    ENRICHMENT_STATE_UNSPECIFIED: _ClassVar[EnrichmentState]
    ENRICHMENT_STATE_PENDING: _ClassVar[EnrichmentState]
    ENRICHMENT_STATE_DONE: _ClassVar[EnrichmentState]
    ENRICHMENT_STATE_FAILED: _ClassVar[EnrichmentState]

class EnrichmentSource(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    ENRICHMENT_SOURCE_UNSPECIFIED: _ClassVar[EnrichmentSource]
    ENRICHMENT_SOURCE_MODEL: _ClassVar[EnrichmentSource]
    ENRICHMENT_SOURCE_RULES: _ClassVar[EnrichmentSource]

class IngestStage(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    INGEST_STAGE_UNSPECIFIED: _ClassVar[IngestStage]
    INGEST_STAGE_PARSE: _ClassVar[IngestStage]
    INGEST_STAGE_CHUNK: _ClassVar[IngestStage]
    INGEST_STAGE_EMBED: _ClassVar[IngestStage]
    INGEST_STAGE_PUBLISH: _ClassVar[IngestStage]

class SpaceRole(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    SPACE_ROLE_UNSPECIFIED: _ClassVar[SpaceRole]
    SPACE_ROLE_LIVE: _ClassVar[SpaceRole]
    SPACE_ROLE_NEXT: _ClassVar[SpaceRole]
    SPACE_ROLE_PREVIOUS: _ClassVar[SpaceRole]
    SPACE_ROLE_FURTHER: _ClassVar[SpaceRole]
ACCESS_UNSPECIFIED: Access
ACCESS_READ: Access
ACCESS_WRITE: Access
ACCESS_MANAGE: Access
DOCUMENT_STATUS_UNSPECIFIED: DocumentStatus
DOCUMENT_STATUS_PENDING: DocumentStatus
DOCUMENT_STATUS_PROCESSING: DocumentStatus
DOCUMENT_STATUS_READY: DocumentStatus
DOCUMENT_STATUS_FAILED: DocumentStatus
ENRICHMENT_STATE_UNSPECIFIED: EnrichmentState
ENRICHMENT_STATE_PENDING: EnrichmentState
ENRICHMENT_STATE_DONE: EnrichmentState
ENRICHMENT_STATE_FAILED: EnrichmentState
ENRICHMENT_SOURCE_UNSPECIFIED: EnrichmentSource
ENRICHMENT_SOURCE_MODEL: EnrichmentSource
ENRICHMENT_SOURCE_RULES: EnrichmentSource
INGEST_STAGE_UNSPECIFIED: IngestStage
INGEST_STAGE_PARSE: IngestStage
INGEST_STAGE_CHUNK: IngestStage
INGEST_STAGE_EMBED: IngestStage
INGEST_STAGE_PUBLISH: IngestStage
SPACE_ROLE_UNSPECIFIED: SpaceRole
SPACE_ROLE_LIVE: SpaceRole
SPACE_ROLE_NEXT: SpaceRole
SPACE_ROLE_PREVIOUS: SpaceRole
SPACE_ROLE_FURTHER: SpaceRole

class Grant(_message.Message):
    __slots__ = ("subject", "access")
    SUBJECT_FIELD_NUMBER: _ClassVar[int]
    ACCESS_FIELD_NUMBER: _ClassVar[int]
    subject: str
    access: Access
    def __init__(self, subject: _Optional[str] = ..., access: _Optional[_Union[Access, str]] = ...) -> None: ...

class IngestError(_message.Message):
    __slots__ = ("code", "message")
    CODE_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    code: str
    message: str
    def __init__(self, code: _Optional[str] = ..., message: _Optional[str] = ...) -> None: ...

class EnrichmentError(_message.Message):
    __slots__ = ("code", "message")
    CODE_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    code: str
    message: str
    def __init__(self, code: _Optional[str] = ..., message: _Optional[str] = ...) -> None: ...

class Enrichment(_message.Message):
    __slots__ = ("state", "fields", "source", "error")
    STATE_FIELD_NUMBER: _ClassVar[int]
    FIELDS_FIELD_NUMBER: _ClassVar[int]
    SOURCE_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    state: EnrichmentState
    fields: _containers.RepeatedScalarFieldContainer[str]
    source: EnrichmentSource
    error: EnrichmentError
    def __init__(self, state: _Optional[_Union[EnrichmentState, str]] = ..., fields: _Optional[_Iterable[str]] = ..., source: _Optional[_Union[EnrichmentSource, str]] = ..., error: _Optional[_Union[EnrichmentError, _Mapping]] = ...) -> None: ...

class IngestProgress(_message.Message):
    __slots__ = ("stage", "done", "total")
    STAGE_FIELD_NUMBER: _ClassVar[int]
    DONE_FIELD_NUMBER: _ClassVar[int]
    TOTAL_FIELD_NUMBER: _ClassVar[int]
    stage: IngestStage
    done: int
    total: int
    def __init__(self, stage: _Optional[_Union[IngestStage, str]] = ..., done: _Optional[int] = ..., total: _Optional[int] = ...) -> None: ...

class Document(_message.Message):
    __slots__ = ("document_id", "title", "file_name", "media_type", "type", "url", "collection", "tags", "metadata", "owner", "status", "error", "version", "live_version", "chunks", "pages", "size_bytes", "tokens", "created_at", "updated_at", "sha256", "enrichment", "readers", "access", "valid_from", "valid_until", "progress")
    DOCUMENT_ID_FIELD_NUMBER: _ClassVar[int]
    TITLE_FIELD_NUMBER: _ClassVar[int]
    FILE_NAME_FIELD_NUMBER: _ClassVar[int]
    MEDIA_TYPE_FIELD_NUMBER: _ClassVar[int]
    TYPE_FIELD_NUMBER: _ClassVar[int]
    URL_FIELD_NUMBER: _ClassVar[int]
    COLLECTION_FIELD_NUMBER: _ClassVar[int]
    TAGS_FIELD_NUMBER: _ClassVar[int]
    METADATA_FIELD_NUMBER: _ClassVar[int]
    OWNER_FIELD_NUMBER: _ClassVar[int]
    STATUS_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    LIVE_VERSION_FIELD_NUMBER: _ClassVar[int]
    CHUNKS_FIELD_NUMBER: _ClassVar[int]
    PAGES_FIELD_NUMBER: _ClassVar[int]
    SIZE_BYTES_FIELD_NUMBER: _ClassVar[int]
    TOKENS_FIELD_NUMBER: _ClassVar[int]
    CREATED_AT_FIELD_NUMBER: _ClassVar[int]
    UPDATED_AT_FIELD_NUMBER: _ClassVar[int]
    SHA256_FIELD_NUMBER: _ClassVar[int]
    ENRICHMENT_FIELD_NUMBER: _ClassVar[int]
    READERS_FIELD_NUMBER: _ClassVar[int]
    ACCESS_FIELD_NUMBER: _ClassVar[int]
    VALID_FROM_FIELD_NUMBER: _ClassVar[int]
    VALID_UNTIL_FIELD_NUMBER: _ClassVar[int]
    PROGRESS_FIELD_NUMBER: _ClassVar[int]
    document_id: int
    title: str
    file_name: str
    media_type: str
    type: str
    url: str
    collection: str
    tags: _containers.RepeatedScalarFieldContainer[str]
    metadata: _struct_pb2.Struct
    owner: str
    status: DocumentStatus
    error: IngestError
    version: int
    live_version: int
    chunks: int
    pages: int
    size_bytes: int
    tokens: int
    created_at: _timestamp_pb2.Timestamp
    updated_at: _timestamp_pb2.Timestamp
    sha256: str
    enrichment: Enrichment
    readers: _containers.RepeatedScalarFieldContainer[str]
    access: Access
    valid_from: _timestamp_pb2.Timestamp
    valid_until: _timestamp_pb2.Timestamp
    progress: IngestProgress
    def __init__(self, document_id: _Optional[int] = ..., title: _Optional[str] = ..., file_name: _Optional[str] = ..., media_type: _Optional[str] = ..., type: _Optional[str] = ..., url: _Optional[str] = ..., collection: _Optional[str] = ..., tags: _Optional[_Iterable[str]] = ..., metadata: _Optional[_Union[_struct_pb2.Struct, _Mapping]] = ..., owner: _Optional[str] = ..., status: _Optional[_Union[DocumentStatus, str]] = ..., error: _Optional[_Union[IngestError, _Mapping]] = ..., version: _Optional[int] = ..., live_version: _Optional[int] = ..., chunks: _Optional[int] = ..., pages: _Optional[int] = ..., size_bytes: _Optional[int] = ..., tokens: _Optional[int] = ..., created_at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., updated_at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., sha256: _Optional[str] = ..., enrichment: _Optional[_Union[Enrichment, _Mapping]] = ..., readers: _Optional[_Iterable[str]] = ..., access: _Optional[_Union[Access, str]] = ..., valid_from: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., valid_until: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., progress: _Optional[_Union[IngestProgress, _Mapping]] = ...) -> None: ...

class UploadHeader(_message.Message):
    __slots__ = ("document_id", "file_name", "media_type", "title", "collection", "tags", "metadata", "url", "type", "request_id", "readers", "valid_from", "valid_until", "source_url")
    DOCUMENT_ID_FIELD_NUMBER: _ClassVar[int]
    FILE_NAME_FIELD_NUMBER: _ClassVar[int]
    MEDIA_TYPE_FIELD_NUMBER: _ClassVar[int]
    TITLE_FIELD_NUMBER: _ClassVar[int]
    COLLECTION_FIELD_NUMBER: _ClassVar[int]
    TAGS_FIELD_NUMBER: _ClassVar[int]
    METADATA_FIELD_NUMBER: _ClassVar[int]
    URL_FIELD_NUMBER: _ClassVar[int]
    TYPE_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    READERS_FIELD_NUMBER: _ClassVar[int]
    VALID_FROM_FIELD_NUMBER: _ClassVar[int]
    VALID_UNTIL_FIELD_NUMBER: _ClassVar[int]
    SOURCE_URL_FIELD_NUMBER: _ClassVar[int]
    document_id: int
    file_name: str
    media_type: str
    title: str
    collection: str
    tags: _containers.RepeatedScalarFieldContainer[str]
    metadata: _struct_pb2.Struct
    url: str
    type: str
    request_id: str
    readers: _containers.RepeatedScalarFieldContainer[str]
    valid_from: _timestamp_pb2.Timestamp
    valid_until: _timestamp_pb2.Timestamp
    source_url: str
    def __init__(self, document_id: _Optional[int] = ..., file_name: _Optional[str] = ..., media_type: _Optional[str] = ..., title: _Optional[str] = ..., collection: _Optional[str] = ..., tags: _Optional[_Iterable[str]] = ..., metadata: _Optional[_Union[_struct_pb2.Struct, _Mapping]] = ..., url: _Optional[str] = ..., type: _Optional[str] = ..., request_id: _Optional[str] = ..., readers: _Optional[_Iterable[str]] = ..., valid_from: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., valid_until: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., source_url: _Optional[str] = ...) -> None: ...

class UploadDocumentRequest(_message.Message):
    __slots__ = ("header", "data")
    HEADER_FIELD_NUMBER: _ClassVar[int]
    DATA_FIELD_NUMBER: _ClassVar[int]
    header: UploadHeader
    data: bytes
    def __init__(self, header: _Optional[_Union[UploadHeader, _Mapping]] = ..., data: _Optional[bytes] = ...) -> None: ...

class UploadDocumentResponse(_message.Message):
    __slots__ = ("document",)
    DOCUMENT_FIELD_NUMBER: _ClassVar[int]
    document: Document
    def __init__(self, document: _Optional[_Union[Document, _Mapping]] = ...) -> None: ...

class PutDocumentRequest(_message.Message):
    __slots__ = ("document_id", "type", "title", "content", "url", "collection", "tags", "metadata", "media_type", "request_id", "readers", "valid_from", "valid_until")
    DOCUMENT_ID_FIELD_NUMBER: _ClassVar[int]
    TYPE_FIELD_NUMBER: _ClassVar[int]
    TITLE_FIELD_NUMBER: _ClassVar[int]
    CONTENT_FIELD_NUMBER: _ClassVar[int]
    URL_FIELD_NUMBER: _ClassVar[int]
    COLLECTION_FIELD_NUMBER: _ClassVar[int]
    TAGS_FIELD_NUMBER: _ClassVar[int]
    METADATA_FIELD_NUMBER: _ClassVar[int]
    MEDIA_TYPE_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    READERS_FIELD_NUMBER: _ClassVar[int]
    VALID_FROM_FIELD_NUMBER: _ClassVar[int]
    VALID_UNTIL_FIELD_NUMBER: _ClassVar[int]
    document_id: int
    type: str
    title: str
    content: str
    url: str
    collection: str
    tags: _containers.RepeatedScalarFieldContainer[str]
    metadata: _struct_pb2.Struct
    media_type: str
    request_id: str
    readers: _containers.RepeatedScalarFieldContainer[str]
    valid_from: _timestamp_pb2.Timestamp
    valid_until: _timestamp_pb2.Timestamp
    def __init__(self, document_id: _Optional[int] = ..., type: _Optional[str] = ..., title: _Optional[str] = ..., content: _Optional[str] = ..., url: _Optional[str] = ..., collection: _Optional[str] = ..., tags: _Optional[_Iterable[str]] = ..., metadata: _Optional[_Union[_struct_pb2.Struct, _Mapping]] = ..., media_type: _Optional[str] = ..., request_id: _Optional[str] = ..., readers: _Optional[_Iterable[str]] = ..., valid_from: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., valid_until: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ...) -> None: ...

class PutDocumentResponse(_message.Message):
    __slots__ = ("document",)
    DOCUMENT_FIELD_NUMBER: _ClassVar[int]
    document: Document
    def __init__(self, document: _Optional[_Union[Document, _Mapping]] = ...) -> None: ...

class GetDocumentRequest(_message.Message):
    __slots__ = ("document_id",)
    DOCUMENT_ID_FIELD_NUMBER: _ClassVar[int]
    document_id: int
    def __init__(self, document_id: _Optional[int] = ...) -> None: ...

class GetDocumentResponse(_message.Message):
    __slots__ = ("document",)
    DOCUMENT_FIELD_NUMBER: _ClassVar[int]
    document: Document
    def __init__(self, document: _Optional[_Union[Document, _Mapping]] = ...) -> None: ...

class ListDocumentsRequest(_message.Message):
    __slots__ = ("page_size", "page_token", "collection", "type", "status", "tag", "filter", "q", "as_of", "any_validity", "after")
    PAGE_SIZE_FIELD_NUMBER: _ClassVar[int]
    PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    COLLECTION_FIELD_NUMBER: _ClassVar[int]
    TYPE_FIELD_NUMBER: _ClassVar[int]
    STATUS_FIELD_NUMBER: _ClassVar[int]
    TAG_FIELD_NUMBER: _ClassVar[int]
    FILTER_FIELD_NUMBER: _ClassVar[int]
    Q_FIELD_NUMBER: _ClassVar[int]
    AS_OF_FIELD_NUMBER: _ClassVar[int]
    ANY_VALIDITY_FIELD_NUMBER: _ClassVar[int]
    AFTER_FIELD_NUMBER: _ClassVar[int]
    page_size: int
    page_token: str
    collection: str
    type: str
    status: DocumentStatus
    tag: str
    filter: _filter_pb2.Filter
    q: str
    as_of: _timestamp_pb2.Timestamp
    any_validity: bool
    after: int
    def __init__(self, page_size: _Optional[int] = ..., page_token: _Optional[str] = ..., collection: _Optional[str] = ..., type: _Optional[str] = ..., status: _Optional[_Union[DocumentStatus, str]] = ..., tag: _Optional[str] = ..., filter: _Optional[_Union[_filter_pb2.Filter, _Mapping]] = ..., q: _Optional[str] = ..., as_of: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., any_validity: _Optional[bool] = ..., after: _Optional[int] = ...) -> None: ...

class ListDocumentsResponse(_message.Message):
    __slots__ = ("documents", "next_page_token")
    DOCUMENTS_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    documents: _containers.RepeatedCompositeFieldContainer[Document]
    next_page_token: str
    def __init__(self, documents: _Optional[_Iterable[_Union[Document, _Mapping]]] = ..., next_page_token: _Optional[str] = ...) -> None: ...

class UpdateDocumentRequest(_message.Message):
    __slots__ = ("document", "update_mask")
    DOCUMENT_FIELD_NUMBER: _ClassVar[int]
    UPDATE_MASK_FIELD_NUMBER: _ClassVar[int]
    document: Document
    update_mask: _field_mask_pb2.FieldMask
    def __init__(self, document: _Optional[_Union[Document, _Mapping]] = ..., update_mask: _Optional[_Union[_field_mask_pb2.FieldMask, _Mapping]] = ...) -> None: ...

class UpdateDocumentResponse(_message.Message):
    __slots__ = ("document",)
    DOCUMENT_FIELD_NUMBER: _ClassVar[int]
    document: Document
    def __init__(self, document: _Optional[_Union[Document, _Mapping]] = ...) -> None: ...

class DeleteDocumentRequest(_message.Message):
    __slots__ = ("document_id",)
    DOCUMENT_ID_FIELD_NUMBER: _ClassVar[int]
    document_id: int
    def __init__(self, document_id: _Optional[int] = ...) -> None: ...

class DeleteDocumentResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ListErasedDocumentsRequest(_message.Message):
    __slots__ = ("forget_document_ids", "after_document_id")
    FORGET_DOCUMENT_IDS_FIELD_NUMBER: _ClassVar[int]
    AFTER_DOCUMENT_ID_FIELD_NUMBER: _ClassVar[int]
    forget_document_ids: _containers.RepeatedScalarFieldContainer[int]
    after_document_id: int
    def __init__(self, forget_document_ids: _Optional[_Iterable[int]] = ..., after_document_id: _Optional[int] = ...) -> None: ...

class ErasedDocument(_message.Message):
    __slots__ = ("document_id", "age")
    DOCUMENT_ID_FIELD_NUMBER: _ClassVar[int]
    AGE_FIELD_NUMBER: _ClassVar[int]
    document_id: int
    age: _duration_pb2.Duration
    def __init__(self, document_id: _Optional[int] = ..., age: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ...) -> None: ...

class ListErasedDocumentsResponse(_message.Message):
    __slots__ = ("documents",)
    DOCUMENTS_FIELD_NUMBER: _ClassVar[int]
    documents: _containers.RepeatedCompositeFieldContainer[ErasedDocument]
    def __init__(self, documents: _Optional[_Iterable[_Union[ErasedDocument, _Mapping]]] = ...) -> None: ...

class EraseOwnerRequest(_message.Message):
    __slots__ = ("user_id", "successor", "name")
    USER_ID_FIELD_NUMBER: _ClassVar[int]
    SUCCESSOR_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    user_id: str
    successor: str
    name: str
    def __init__(self, user_id: _Optional[str] = ..., successor: _Optional[str] = ..., name: _Optional[str] = ...) -> None: ...

class EraseOwnerResponse(_message.Message):
    __slots__ = ("documents", "done")
    DOCUMENTS_FIELD_NUMBER: _ClassVar[int]
    DONE_FIELD_NUMBER: _ClassVar[int]
    documents: int
    done: bool
    def __init__(self, documents: _Optional[int] = ..., done: _Optional[bool] = ...) -> None: ...

class EraseOldDocumentsRequest(_message.Message):
    __slots__ = ("days", "expired")
    DAYS_FIELD_NUMBER: _ClassVar[int]
    EXPIRED_FIELD_NUMBER: _ClassVar[int]
    days: int
    expired: bool
    def __init__(self, days: _Optional[int] = ..., expired: _Optional[bool] = ...) -> None: ...

class EraseOldDocumentsResponse(_message.Message):
    __slots__ = ("documents", "done")
    DOCUMENTS_FIELD_NUMBER: _ClassVar[int]
    DONE_FIELD_NUMBER: _ClassVar[int]
    documents: int
    done: bool
    def __init__(self, documents: _Optional[int] = ..., done: _Optional[bool] = ...) -> None: ...

class ExportUserRequest(_message.Message):
    __slots__ = ("user_id",)
    USER_ID_FIELD_NUMBER: _ClassVar[int]
    user_id: str
    def __init__(self, user_id: _Optional[str] = ...) -> None: ...

class ExportUserResponse(_message.Message):
    __slots__ = ("kind", "record")
    KIND_FIELD_NUMBER: _ClassVar[int]
    RECORD_FIELD_NUMBER: _ClassVar[int]
    kind: str
    record: str
    def __init__(self, kind: _Optional[str] = ..., record: _Optional[str] = ...) -> None: ...

class RetryDocumentRequest(_message.Message):
    __slots__ = ("document_id",)
    DOCUMENT_ID_FIELD_NUMBER: _ClassVar[int]
    document_id: int
    def __init__(self, document_id: _Optional[int] = ...) -> None: ...

class RetryDocumentResponse(_message.Message):
    __slots__ = ("document",)
    DOCUMENT_FIELD_NUMBER: _ClassVar[int]
    document: Document
    def __init__(self, document: _Optional[_Union[Document, _Mapping]] = ...) -> None: ...

class WatchDocumentRequest(_message.Message):
    __slots__ = ("document_id",)
    DOCUMENT_ID_FIELD_NUMBER: _ClassVar[int]
    document_id: int
    def __init__(self, document_id: _Optional[int] = ...) -> None: ...

class WatchDocumentResponse(_message.Message):
    __slots__ = ("document", "stage", "done", "total", "attempt", "deleted")
    DOCUMENT_FIELD_NUMBER: _ClassVar[int]
    STAGE_FIELD_NUMBER: _ClassVar[int]
    DONE_FIELD_NUMBER: _ClassVar[int]
    TOTAL_FIELD_NUMBER: _ClassVar[int]
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    DELETED_FIELD_NUMBER: _ClassVar[int]
    document: Document
    stage: IngestStage
    done: int
    total: int
    attempt: int
    deleted: bool
    def __init__(self, document: _Optional[_Union[Document, _Mapping]] = ..., stage: _Optional[_Union[IngestStage, str]] = ..., done: _Optional[int] = ..., total: _Optional[int] = ..., attempt: _Optional[int] = ..., deleted: _Optional[bool] = ...) -> None: ...

class DownloadDocumentRequest(_message.Message):
    __slots__ = ("document_id", "version", "text")
    DOCUMENT_ID_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    TEXT_FIELD_NUMBER: _ClassVar[int]
    document_id: int
    version: int
    text: bool
    def __init__(self, document_id: _Optional[int] = ..., version: _Optional[int] = ..., text: _Optional[bool] = ...) -> None: ...

class DownloadHeader(_message.Message):
    __slots__ = ("file_name", "media_type", "size_bytes", "sha256", "version")
    FILE_NAME_FIELD_NUMBER: _ClassVar[int]
    MEDIA_TYPE_FIELD_NUMBER: _ClassVar[int]
    SIZE_BYTES_FIELD_NUMBER: _ClassVar[int]
    SHA256_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    file_name: str
    media_type: str
    size_bytes: int
    sha256: str
    version: int
    def __init__(self, file_name: _Optional[str] = ..., media_type: _Optional[str] = ..., size_bytes: _Optional[int] = ..., sha256: _Optional[str] = ..., version: _Optional[int] = ...) -> None: ...

class DownloadDocumentResponse(_message.Message):
    __slots__ = ("header", "data")
    HEADER_FIELD_NUMBER: _ClassVar[int]
    DATA_FIELD_NUMBER: _ClassVar[int]
    header: DownloadHeader
    data: bytes
    def __init__(self, header: _Optional[_Union[DownloadHeader, _Mapping]] = ..., data: _Optional[bytes] = ...) -> None: ...

class LocateSpanRequest(_message.Message):
    __slots__ = ("document_id", "version", "char_start", "char_end")
    DOCUMENT_ID_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    CHAR_START_FIELD_NUMBER: _ClassVar[int]
    CHAR_END_FIELD_NUMBER: _ClassVar[int]
    document_id: int
    version: int
    char_start: int
    char_end: int
    def __init__(self, document_id: _Optional[int] = ..., version: _Optional[int] = ..., char_start: _Optional[int] = ..., char_end: _Optional[int] = ...) -> None: ...

class LocateSpanResponse(_message.Message):
    __slots__ = ("places", "version")
    PLACES_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    places: _containers.RepeatedCompositeFieldContainer[_place_pb2.Place]
    version: int
    def __init__(self, places: _Optional[_Iterable[_Union[_place_pb2.Place, _Mapping]]] = ..., version: _Optional[int] = ...) -> None: ...

class Collection(_message.Message):
    __slots__ = ("name", "documents", "created_at", "enrich", "access")
    NAME_FIELD_NUMBER: _ClassVar[int]
    DOCUMENTS_FIELD_NUMBER: _ClassVar[int]
    CREATED_AT_FIELD_NUMBER: _ClassVar[int]
    ENRICH_FIELD_NUMBER: _ClassVar[int]
    ACCESS_FIELD_NUMBER: _ClassVar[int]
    name: str
    documents: int
    created_at: _timestamp_pb2.Timestamp
    enrich: bool
    access: Access
    def __init__(self, name: _Optional[str] = ..., documents: _Optional[int] = ..., created_at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., enrich: _Optional[bool] = ..., access: _Optional[_Union[Access, str]] = ...) -> None: ...

class ListCollectionsRequest(_message.Message):
    __slots__ = ("page_size", "page_token", "q", "after")
    PAGE_SIZE_FIELD_NUMBER: _ClassVar[int]
    PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    Q_FIELD_NUMBER: _ClassVar[int]
    AFTER_FIELD_NUMBER: _ClassVar[int]
    page_size: int
    page_token: str
    q: str
    after: str
    def __init__(self, page_size: _Optional[int] = ..., page_token: _Optional[str] = ..., q: _Optional[str] = ..., after: _Optional[str] = ...) -> None: ...

class ListCollectionsResponse(_message.Message):
    __slots__ = ("collections", "next_page_token")
    COLLECTIONS_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    collections: _containers.RepeatedCompositeFieldContainer[Collection]
    next_page_token: str
    def __init__(self, collections: _Optional[_Iterable[_Union[Collection, _Mapping]]] = ..., next_page_token: _Optional[str] = ...) -> None: ...

class CreateCollectionRequest(_message.Message):
    __slots__ = ("name", "enrich")
    NAME_FIELD_NUMBER: _ClassVar[int]
    ENRICH_FIELD_NUMBER: _ClassVar[int]
    name: str
    enrich: bool
    def __init__(self, name: _Optional[str] = ..., enrich: _Optional[bool] = ...) -> None: ...

class CreateCollectionResponse(_message.Message):
    __slots__ = ("collection",)
    COLLECTION_FIELD_NUMBER: _ClassVar[int]
    collection: Collection
    def __init__(self, collection: _Optional[_Union[Collection, _Mapping]] = ...) -> None: ...

class UpdateCollectionRequest(_message.Message):
    __slots__ = ("name", "new_name", "enrich")
    NAME_FIELD_NUMBER: _ClassVar[int]
    NEW_NAME_FIELD_NUMBER: _ClassVar[int]
    ENRICH_FIELD_NUMBER: _ClassVar[int]
    name: str
    new_name: str
    enrich: bool
    def __init__(self, name: _Optional[str] = ..., new_name: _Optional[str] = ..., enrich: _Optional[bool] = ...) -> None: ...

class UpdateCollectionResponse(_message.Message):
    __slots__ = ("collection",)
    COLLECTION_FIELD_NUMBER: _ClassVar[int]
    collection: Collection
    def __init__(self, collection: _Optional[_Union[Collection, _Mapping]] = ...) -> None: ...

class DeleteCollectionRequest(_message.Message):
    __slots__ = ("name", "force")
    NAME_FIELD_NUMBER: _ClassVar[int]
    FORCE_FIELD_NUMBER: _ClassVar[int]
    name: str
    force: bool
    def __init__(self, name: _Optional[str] = ..., force: _Optional[bool] = ...) -> None: ...

class DeleteCollectionResponse(_message.Message):
    __slots__ = ("documents_deleted",)
    DOCUMENTS_DELETED_FIELD_NUMBER: _ClassVar[int]
    documents_deleted: int
    def __init__(self, documents_deleted: _Optional[int] = ...) -> None: ...

class GetCollectionGrantsRequest(_message.Message):
    __slots__ = ("name",)
    NAME_FIELD_NUMBER: _ClassVar[int]
    name: str
    def __init__(self, name: _Optional[str] = ...) -> None: ...

class GetCollectionGrantsResponse(_message.Message):
    __slots__ = ("grants",)
    GRANTS_FIELD_NUMBER: _ClassVar[int]
    grants: _containers.RepeatedCompositeFieldContainer[Grant]
    def __init__(self, grants: _Optional[_Iterable[_Union[Grant, _Mapping]]] = ...) -> None: ...

class SetCollectionGrantsRequest(_message.Message):
    __slots__ = ("name", "grants")
    NAME_FIELD_NUMBER: _ClassVar[int]
    GRANTS_FIELD_NUMBER: _ClassVar[int]
    name: str
    grants: _containers.RepeatedCompositeFieldContainer[Grant]
    def __init__(self, name: _Optional[str] = ..., grants: _Optional[_Iterable[_Union[Grant, _Mapping]]] = ...) -> None: ...

class SetCollectionGrantsResponse(_message.Message):
    __slots__ = ("grants",)
    GRANTS_FIELD_NUMBER: _ClassVar[int]
    grants: _containers.RepeatedCompositeFieldContainer[Grant]
    def __init__(self, grants: _Optional[_Iterable[_Union[Grant, _Mapping]]] = ...) -> None: ...

class SpaceInfo(_message.Message):
    __slots__ = ("space", "live", "chunks_filled", "chunks", "role", "documents", "documents_filled", "documents_failed", "calibration", "scale")
    SPACE_FIELD_NUMBER: _ClassVar[int]
    LIVE_FIELD_NUMBER: _ClassVar[int]
    CHUNKS_FILLED_FIELD_NUMBER: _ClassVar[int]
    CHUNKS_FIELD_NUMBER: _ClassVar[int]
    ROLE_FIELD_NUMBER: _ClassVar[int]
    DOCUMENTS_FIELD_NUMBER: _ClassVar[int]
    DOCUMENTS_FILLED_FIELD_NUMBER: _ClassVar[int]
    DOCUMENTS_FAILED_FIELD_NUMBER: _ClassVar[int]
    CALIBRATION_FIELD_NUMBER: _ClassVar[int]
    SCALE_FIELD_NUMBER: _ClassVar[int]
    space: _common_pb2.EmbeddingSpace
    live: bool
    chunks_filled: int
    chunks: int
    role: SpaceRole
    documents: int
    documents_filled: int
    documents_failed: int
    calibration: _calibration_pb2.Calibration
    scale: _calibration_pb2.SpaceScale
    def __init__(self, space: _Optional[_Union[_common_pb2.EmbeddingSpace, _Mapping]] = ..., live: _Optional[bool] = ..., chunks_filled: _Optional[int] = ..., chunks: _Optional[int] = ..., role: _Optional[_Union[SpaceRole, str]] = ..., documents: _Optional[int] = ..., documents_filled: _Optional[int] = ..., documents_failed: _Optional[int] = ..., calibration: _Optional[_Union[_calibration_pb2.Calibration, _Mapping]] = ..., scale: _Optional[_Union[_calibration_pb2.SpaceScale, _Mapping]] = ...) -> None: ...

class ListSpacesRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ListSpacesResponse(_message.Message):
    __slots__ = ("spaces",)
    SPACES_FIELD_NUMBER: _ClassVar[int]
    spaces: _containers.RepeatedCompositeFieldContainer[SpaceInfo]
    def __init__(self, spaces: _Optional[_Iterable[_Union[SpaceInfo, _Mapping]]] = ...) -> None: ...

class PrepareSpaceRequest(_message.Message):
    __slots__ = ("space",)
    SPACE_FIELD_NUMBER: _ClassVar[int]
    space: _common_pb2.EmbeddingSpace
    def __init__(self, space: _Optional[_Union[_common_pb2.EmbeddingSpace, _Mapping]] = ...) -> None: ...

class PrepareSpaceResponse(_message.Message):
    __slots__ = ("space",)
    SPACE_FIELD_NUMBER: _ClassVar[int]
    space: SpaceInfo
    def __init__(self, space: _Optional[_Union[SpaceInfo, _Mapping]] = ...) -> None: ...

class SwitchSpaceRequest(_message.Message):
    __slots__ = ("space", "force")
    SPACE_FIELD_NUMBER: _ClassVar[int]
    FORCE_FIELD_NUMBER: _ClassVar[int]
    space: _common_pb2.EmbeddingSpace
    force: bool
    def __init__(self, space: _Optional[_Union[_common_pb2.EmbeddingSpace, _Mapping]] = ..., force: _Optional[bool] = ...) -> None: ...

class SwitchSpaceResponse(_message.Message):
    __slots__ = ("space",)
    SPACE_FIELD_NUMBER: _ClassVar[int]
    space: SpaceInfo
    def __init__(self, space: _Optional[_Union[SpaceInfo, _Mapping]] = ...) -> None: ...

class SetCalibrationRequest(_message.Message):
    __slots__ = ("space", "calibration")
    SPACE_FIELD_NUMBER: _ClassVar[int]
    CALIBRATION_FIELD_NUMBER: _ClassVar[int]
    space: _common_pb2.EmbeddingSpace
    calibration: _calibration_pb2.Calibration
    def __init__(self, space: _Optional[_Union[_common_pb2.EmbeddingSpace, _Mapping]] = ..., calibration: _Optional[_Union[_calibration_pb2.Calibration, _Mapping]] = ...) -> None: ...

class SetCalibrationResponse(_message.Message):
    __slots__ = ("space",)
    SPACE_FIELD_NUMBER: _ClassVar[int]
    space: SpaceInfo
    def __init__(self, space: _Optional[_Union[SpaceInfo, _Mapping]] = ...) -> None: ...

class GetStorageRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class GetStorageResponse(_message.Message):
    __slots__ = ("user_bytes", "org_bytes", "user_limit_bytes", "org_limit_bytes")
    USER_BYTES_FIELD_NUMBER: _ClassVar[int]
    ORG_BYTES_FIELD_NUMBER: _ClassVar[int]
    USER_LIMIT_BYTES_FIELD_NUMBER: _ClassVar[int]
    ORG_LIMIT_BYTES_FIELD_NUMBER: _ClassVar[int]
    user_bytes: int
    org_bytes: int
    user_limit_bytes: int
    org_limit_bytes: int
    def __init__(self, user_bytes: _Optional[int] = ..., org_bytes: _Optional[int] = ..., user_limit_bytes: _Optional[int] = ..., org_limit_bytes: _Optional[int] = ...) -> None: ...
