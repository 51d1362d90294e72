"""Documents, collections and embedding spaces."""

from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated, Any, Self

from citewire.retriever.v1 import calibration_pb2, corpus_pb2
from google.protobuf.field_mask_pb2 import FieldMask
from pydantic import MISSING, Field, StrictBool, StrictInt, StrictStr

from citewire_gateway.api.schemas.base import (
    CollectionName,
    Count,
    DocumentType,
    Id,
    JsonObject,
    KnownType,
    Nothing,
    RequestModel,
    ResponseModel,
    Score,
    StreamError,
    Time,
)
from citewire_gateway.clients.retriever import struct_from_json, struct_to_json
from citewire_kit.enums import EnumMap

MAX_TAGS = 50
MAX_TAG = 64
Tag = Annotated[StrictStr, Field(min_length=1, max_length=MAX_TAG)]
Title = Annotated[StrictStr, Field(min_length=1, max_length=500)]
Url = Annotated[StrictStr, Field(max_length=2048)]


class DocumentStatus(StrEnum):
    """How far a document's latest version is."""

    PENDING = "pending"
    PROCESSING = "processing"
    READY = "ready"
    FAILED = "failed"


class Stage(StrEnum):
    """What is being done with a version."""

    PARSE = "parse"
    CHUNK = "chunk"
    EMBED = "embed"
    PUBLISH = "publish"


class SpaceRole(StrEnum):
    """What a space is for."""

    LIVE = "live"
    NEXT = "next"
    PREVIOUS = "previous"
    FURTHER = "further"


STATUSES = EnumMap(DocumentStatus, corpus_pb2.DocumentStatus)
_INGEST_STAGES = EnumMap(Stage, corpus_pb2.IngestStage)
_ROLES = EnumMap(SpaceRole, corpus_pb2.SpaceRole)


class DocumentBody(RequestModel):
    """A document as text."""

    type: DocumentType
    title: Title
    content: Annotated[StrictStr, Field(min_length=1, description="Markdown.")]
    url: Url | None = None
    metadata: dict[str, Any] | None = None
    tags: Annotated[list[Tag], Field(max_length=MAX_TAGS)] = Field(default_factory=list)
    collection: CollectionName | None = None

    def to_proto(self, document_id: int | None) -> corpus_pb2.PutDocumentRequest:
        """As the retriever takes it: a new document, or a new version of one."""
        return corpus_pb2.PutDocumentRequest(
            document_id=document_id,
            type=self.type,
            title=self.title,
            content=self.content,
            url=self.url,
            collection=self.collection,
            tags=self.tags,
            metadata=None if self.metadata is None else struct_from_json(self.metadata),
        )


class DocumentForm(RequestModel):
    """A document as a file."""

    file: str = Field(description="Up to 256 MiB.", json_schema_extra={"format": "binary"})
    title: Annotated[str, Field(max_length=500)] | MISSING = MISSING
    collection: Annotated[str, Field(max_length=128)] | MISSING = Field(
        default=MISSING, description="Created on first use."
    )
    tags: str | MISSING = Field(default=MISSING, description="Repeatable; a JSON list, or separated by commas.")
    metadata: str | MISSING = Field(default=MISSING, description="A JSON object.")
    path: str | MISSING = Field(
        default=MISSING,
        description="The file's path in its folder, with `/` between; lists and citations show it as `file_name`.",
        examples=["handbook/travel.md"],
    )
    url: Annotated[str, Field(max_length=2048)] | MISSING = MISSING
    type: DocumentType | MISSING = MISSING


class DocumentPatch(RequestModel):
    """What may be changed of a document without a new version; a field that is absent stays as it is."""

    title: Title | None = None
    url: Url | None = None
    metadata: dict[str, Any] | None = None
    tags: Annotated[list[Tag], Field(max_length=MAX_TAGS)] | None = None
    collection: CollectionName | None = Field(default=None, description="null takes it out of its collection.")

    def to_proto(self, document_id: int) -> corpus_pb2.UpdateDocumentRequest:
        """The mask names the fields that were given; null empties one."""
        given = sorted(self.model_fields_set)
        document = corpus_pb2.Document(
            document_id=document_id,
            title=self.title or "",
            url=self.url or "",
            tags=self.tags or (),
            collection=self.collection or "",
        )
        if "metadata" in given:
            document.metadata.CopyFrom(struct_from_json(self.metadata or {}))
        return corpus_pb2.UpdateDocumentRequest(document=document, update_mask=FieldMask(paths=given))


class DocumentError(ResponseModel):
    """Why a version couldn't be processed."""

    code: str = Field(examples=["UNREADABLE"])
    message: str = Field(examples=["The file has no text."])


class Document(ResponseModel):
    """A document, described by its latest version."""

    id: Id = Field(examples=[7])
    title: str = Field(examples=["Annual report"])
    file_name: str = Field(examples=["report.pdf"])
    type: KnownType = Field(examples=["file"])
    status: DocumentStatus = Field(examples=["ready"])
    version: Id = Field(examples=[1])
    live_version: Id | None = Field(description="The version that is searched now.", examples=[1])
    chunks: Count = Field(examples=[42])
    media_type: str = Field(examples=["application/pdf"])
    size_bytes: Count = Field(examples=[183220])
    tokens: Count = Field(examples=[5210])
    collection: str | None = Field(examples=["reports"])
    tags: list[str] = Field(examples=[["2025"]])
    metadata: JsonObject = Field(examples=[{}])
    owner: str = Field(examples=["local"])
    sha256: str = Field(examples=["9f86d081…"])
    error: DocumentError | MISSING = MISSING
    pages: Count | MISSING = Field(default=MISSING, examples=[12])
    url: str | MISSING = MISSING
    created_at: Time | MISSING = Field(default=MISSING, examples=["2026-01-15T09:30:00Z"])
    updated_at: Time | MISSING = Field(default=MISSING, examples=["2026-01-15T09:30:04Z"])

    @classmethod
    def from_proto(cls, message: corpus_pb2.Document) -> Self:
        """As the retriever describes it."""
        error = DocumentError(code=message.error.code, message=message.error.message)
        return cls(
            id=message.document_id,
            title=message.title,
            file_name=message.file_name,
            type=message.type,
            status=STATUSES.from_proto(message.status) or DocumentStatus.PENDING,
            version=message.version,
            live_version=message.live_version or None,
            chunks=message.chunks,
            media_type=message.media_type,
            size_bytes=message.size_bytes,
            tokens=message.tokens,
            collection=message.collection or None,
            tags=list(message.tags),
            metadata=struct_to_json(message.metadata),
            owner=message.owner,
            sha256=message.sha256,
            error=error if message.HasField("error") else MISSING,
            pages=message.pages if message.HasField("pages") else MISSING,
            url=message.url or MISSING,
            created_at=message.created_at.ToJsonString() if message.HasField("created_at") else MISSING,
            updated_at=message.updated_at.ToJsonString() if message.HasField("updated_at") else MISSING,
        )


class DocumentList(ResponseModel):
    """A page of documents, newest first."""

    documents: list[Document]
    next_page_token: str = Field(description='"" on the last page.', examples=[""])


class DocumentProgress(ResponseModel):
    """How far the processing of a document's latest version is."""

    document: Document
    stage: Stage | None = Field(examples=["embed"])
    done: Count = Field(examples=[12])
    total: Count | None = Field(examples=[42])
    attempt: Count = Field(examples=[1])
    deleted: bool = Field(examples=[False])

    @classmethod
    def from_proto(cls, message: corpus_pb2.WatchDocumentResponse) -> Self:
        """As the retriever describes it."""
        return cls(
            document=Document.from_proto(message.document),
            stage=_INGEST_STAGES.from_proto(message.stage),
            done=message.done,
            total=message.total or None,
            attempt=message.attempt,
            deleted=message.deleted,
        )


PROGRESS_EVENTS: Mapping[str, type[ResponseModel]] = {
    "progress": DocumentProgress,
    "error": StreamError,
    "done": Nothing,
}
"""Events of `GET /v1/documents/{document_id}/events`."""


class CollectionBody(RequestModel):
    """A collection's name."""

    name: CollectionName


class Collection(ResponseModel):
    """A named group of documents."""

    name: str = Field(examples=["reports"])
    documents: Count = Field(examples=[3])
    created_at: Time | MISSING = Field(default=MISSING, examples=["2026-01-15T09:30:00Z"])

    @classmethod
    def from_proto(cls, message: corpus_pb2.Collection) -> Self:
        """As the retriever describes it."""
        created_at = message.created_at.ToJsonString() if message.HasField("created_at") else MISSING
        return cls(name=message.name, documents=message.documents, created_at=created_at)


class CollectionList(ResponseModel):
    """A page of collections, by name."""

    collections: list[Collection]
    next_page_token: str = Field(description='"" on the last page.', examples=[""])


class CollectionDeleted(ResponseModel):
    """How many documents were deleted with a collection."""

    documents_deleted: Count = Field(examples=[0])


class SpaceBody(RequestModel):
    """An embedding space, as `GET /v1/spaces` names it."""

    model: Annotated[StrictStr, Field(min_length=1, max_length=200)]
    revision: Annotated[StrictStr, Field(min_length=1, max_length=100)]
    dimensions: Annotated[StrictInt, Field(ge=1, le=4096)]


class SpaceChoice(RequestModel):
    """An embedding space, as `GET /v1/spaces` or the embedder names it."""

    model: Annotated[StrictStr, Field(min_length=1, max_length=200)] = Field(examples=["text-embedding-3-small"])
    revision: Annotated[StrictStr, Field(min_length=1, max_length=100)] | None = Field(
        default=None, description="Absent: the one that is offered.", examples=["1"]
    )
    dimensions: Annotated[StrictInt, Field(ge=1, le=4096)] | None = Field(
        default=None, description="Absent: those that are offered.", examples=[1536]
    )


class PrepareBody(RequestModel):
    """Which space is to be filled beside the live one."""

    space: SpaceChoice


class SwitchBody(RequestModel):
    """Which space is to be searched from now on."""

    space: SpaceChoice
    force: StrictBool = Field(
        default=False,
        description="Also to a space that lacks vectors: searches miss those documents until it has them.",
    )


_RELEVANCE = "Cosine similarity below which a chunk is hardly ever relevant."
_ANSWERABLE = "Score of an extractive answer below which the passages don't answer."
_WEIGHT = "Weight of the vectors in hybrid search; the words have the rest."


class CalibrationValues(RequestModel):
    """What was measured; what is absent or null wasn't measured, and the server's default counts."""

    relevance_threshold: Score | None = Field(default=None, description=_RELEVANCE)
    answerable_threshold: Score | None = Field(default=None, description=_ANSWERABLE)
    dense_weight: Score | None = Field(default=None, description=_WEIGHT)
    report: dict[str, Any] | None = Field(
        default=None, description="What was measured and how: any JSON object, at most 64 KiB."
    )

    def to_proto(self) -> calibration_pb2.Calibration:
        """What is absent stays unset."""
        return calibration_pb2.Calibration(
            relevance_threshold=self.relevance_threshold,
            answerable_threshold=self.answerable_threshold,
            dense_weight=self.dense_weight,
            report=struct_from_json(self.report or {}),
        )


class CalibrationBody(RequestModel):
    """What a space's scores mean; it takes the place of what is stored, as a whole."""

    space: SpaceBody
    calibration: CalibrationValues | None = Field(
        description="Null removes what is stored: what comes with the server counts again."
    )


class Calibration(ResponseModel):
    """What a space's scores mean, as it was measured; what wasn't is null."""

    relevance_threshold: float | None = Field(description=_RELEVANCE, examples=[0.21])
    answerable_threshold: float | None = Field(description=_ANSWERABLE, examples=[0.38])
    dense_weight: float | None = Field(description=_WEIGHT, examples=[0.5])
    measured_at: Time | None = Field(
        description="null where it came with the server.", examples=["2026-01-01T12:00:00Z"]
    )
    report: JsonObject = Field(examples=[{"questions": 1200}])

    @classmethod
    def from_proto(cls, message: calibration_pb2.Calibration) -> Self:
        """As the retriever keeps it."""
        return cls(
            relevance_threshold=message.relevance_threshold if message.HasField("relevance_threshold") else None,
            answerable_threshold=message.answerable_threshold if message.HasField("answerable_threshold") else None,
            dense_weight=message.dense_weight if message.HasField("dense_weight") else None,
            measured_at=message.measured_at.ToJsonString() if message.HasField("measured_at") else None,
            report=struct_to_json(message.report),
        )


class Space(ResponseModel):
    """An embedding space: how far it is filled, and what its scores mean."""

    model: str = Field(examples=["text-embedding-3-small"])
    revision: str = Field(examples=["1"])
    dimensions: int = Field(examples=[1536])
    role: SpaceRole = Field(examples=["next"])
    items: Count = Field(description="Documents with a live version.", examples=[240])
    with_vectors: Count = Field(examples=[190])
    missing: Count = Field(description="Documents that still lack vectors.", examples=[50])
    given_up: Count = Field(description="Documents whose embedding failed for good.", examples=[0])
    chunks: Count = Field(examples=[1810])
    chunks_with_vectors: Count = Field(examples=[1424])
    calibration: Calibration | None

    @classmethod
    def from_proto(cls, message: corpus_pb2.SpaceInfo) -> Self:
        """As the retriever describes it."""
        return cls(
            model=message.space.model,
            revision=message.space.revision,
            dimensions=message.space.dimensions,
            role=_ROLES.from_proto(message.role) or SpaceRole.FURTHER,
            items=message.documents,
            with_vectors=message.documents_filled,
            missing=message.documents - message.documents_filled,
            given_up=message.documents_failed,
            chunks=message.chunks,
            chunks_with_vectors=message.chunks_filled,
            calibration=Calibration.from_proto(message.calibration) if message.HasField("calibration") else None,
        )


class SpaceList(ResponseModel):
    """The organisation's embedding spaces, the live one first."""

    spaces: list[Space]
