"""Documents and collections."""

from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated, ClassVar, Literal, Self

from citewire.retriever.v1 import corpus_pb2
from google.protobuf.field_mask_pb2 import FieldMask
from pydantic import MISSING, BeforeValidator, Field, StrictBool, StrictStr, model_validator

from citewire_dialects.profile import DocumentType
from citewire_dialects.schemas import CollectionName, KnownType, PlaceFields, StreamError
from citewire_dialects.schemas.grants import Access, Subject
from citewire_http.api.batches import Base64
from citewire_http.api.reading import Names
from citewire_http.api.schemas import Count, FlatObject, Id, JsonObject, Nothing, RequestModel, ResponseModel, Time
from citewire_http.api.times import LastMoment, Moment
from citewire_kit.enums import EnumMap

MAX_TAGS = 50
MAX_TAG = 64
Points = Annotated[float, Field(examples=[72.0])]
Tag = Annotated[StrictStr, Field(min_length=1, max_length=MAX_TAG)]
Title = Annotated[StrictStr, Field(min_length=1, max_length=500)]
Url = Annotated[StrictStr, Field(max_length=2048)]
FileName = Annotated[StrictStr, Field(min_length=1, max_length=1000, examples=["handbook/travel.md"])]


class DocumentStatus(StrEnum):
    """The state of a document's latest version."""

    PENDING = "pending"
    PROCESSING = "processing"
    READY = "ready"
    FAILED = "failed"


class Stage(StrEnum):
    """The processing step of a version."""

    PARSE = "parse"
    CHUNK = "chunk"
    EMBED = "embed"
    PUBLISH = "publish"


STATUSES = EnumMap(DocumentStatus, corpus_pb2.DocumentStatus)

_READERS = "Of those who may read its collection, only these subjects may read it; empty means all of them."
Readers = Annotated[list[Subject], Field(max_length=200, description=_READERS)]


class ValidityFields(RequestModel):
    """From when, and until when, a document is found."""

    valid_from: Moment | None = Field(default=None, description="Start of its validity; it isn't found before then.")
    valid_until: LastMoment | None = Field(default=None, description="End of its validity.")


class FilingFields(ValidityFields):
    """How a document is filed, and for whom."""

    metadata: FlatObject | None = None
    tags: Annotated[list[Tag], Field(max_length=MAX_TAGS)] = Field(default_factory=list)
    collection: CollectionName | None = None
    readers: Readers = Field(default_factory=list)


class ContentFields(FilingFields):
    """The description that comes with a document's content."""

    url: Url | None = None


class DocumentBody(ContentFields):
    """A document as text."""

    type: DocumentType
    title: Title
    content: Annotated[StrictStr, Field(min_length=1, description="Markdown.")]

    def to_proto(self, document_id: int | None) -> corpus_pb2.PutDocumentRequest:
        """Returns it as the retriever's message: a new document, or a new version of one."""
        return self.to_message(corpus_pb2.PutDocumentRequest, document_id=document_id)


class FileBody(ContentFields):
    """A small file."""

    file_name: FileName
    content: Base64
    type: DocumentType = "file"
    title: Annotated[StrictStr, Field(max_length=500)] = ""


class AddressBody(FilingFields):
    """A file to fetch from its URL."""

    url: Annotated[
        StrictStr,
        Field(
            min_length=1,
            max_length=2048,
            description="http or https; citations show it.",
            examples=["https://example.org/report.pdf"],
        ),
    ]
    file_name: FileName | None = Field(
        default=None, description="Default: the name in the server's response or the URL."
    )
    type: DocumentType = "file"
    title: Annotated[StrictStr, Field(max_length=500)] = ""

    def to_proto(self, document_id: int | None) -> corpus_pb2.UploadHeader:
        """Returns it as the retriever's message."""
        return self.to_message(corpus_pb2.UploadHeader, document_id=document_id, source_url=self.url)


def is_address(body: object) -> bool:
    """Whether a body has a URL and no content, so that the content has to be fetched."""
    return isinstance(body, dict) and "url" in body and "content" not in body


FORM_LENGTHS = {"path": 1000, "title": 500, "collection": 128, "url": 2048, "type": 32}
"""Maximum number of characters of a form's texts."""


class DocumentForm(RequestModel):
    """A document as a file."""

    file: str = Field(description="Up to 256 MiB.", json_schema_extra={"format": "binary"})
    title: Annotated[str, Field(max_length=500)] | MISSING = MISSING
    collection: Annotated[str, Field(max_length=128)] | MISSING = Field(
        default=MISSING, description="Created on first use."
    )
    tags: str | MISSING = Field(default=MISSING, description="Repeatable, or a JSON list, or separated by commas.")
    metadata: str | MISSING = Field(default=MISSING, description="A JSON object.")
    path: str | MISSING = Field(
        default=MISSING,
        description="The file's relative path, with `/` as separator; lists and citations show it as `file_name`.",
        examples=["handbook/travel.md"],
    )
    url: Annotated[str, Field(max_length=2048)] | MISSING = MISSING
    type: DocumentType | MISSING = MISSING
    valid_from: Moment | MISSING = MISSING
    valid_until: LastMoment | MISSING = MISSING
    readers: str | MISSING = Field(
        default=MISSING, description=f"{_READERS} Repeatable, or a JSON list.", examples=["group:hr"]
    )


class DocumentPatch(ValidityFields):
    """Changes of a document without a new version; absent fields stay unchanged."""

    title: Title | None = None
    url: Url | None = None
    metadata: FlatObject | None = None
    tags: Annotated[list[Tag], Field(max_length=MAX_TAGS)] | None = None
    collection: CollectionName | None = Field(default=None, description="null removes it from its collection.")
    readers: Readers | None = Field(default=None, description="null: everyone who may read its collection.")
    file_name: FileName | None = Field(
        default=None, description="Its current path, with the same extension: a moved file needs no new version."
    )

    def to_proto(self, document_id: int) -> corpus_pb2.UpdateDocumentRequest:
        """The mask contains the given fields; null clears one."""
        given = sorted(self.model_fields_set)
        document = self.to_message(corpus_pb2.Document, document_id=document_id, metadata=self.metadata or {})
        return corpus_pb2.UpdateDocumentRequest(document=document, update_mask=FieldMask(paths=given))


class Box(ResponseModel):
    """A line's rectangle, in points from the page's upper left corner."""

    left: Points
    top: Points
    right: Points
    bottom: Points


class PageBoxes(ResponseModel):
    """A quote's position on a page as displayed: cropped and rotated."""

    width: Points = Field(description="The page's width.", examples=[595.28])
    height: Points = Field(examples=[841.89])
    boxes: list[Box] = Field(description="One per line; none if the quote isn't found on the page.")


class SpanPlace(PlaceFields):
    """A place in the original."""

    names: ClassVar[Names] = {"page_number": "page", "row_number": "row", "end_row_number": "end_row"}

    boxes: PageBoxes | MISSING = Field(default=MISSING, description="Only for a PDF that can be read in time.")


class SpanPlaces(ResponseModel):
    """The place of a part of a version's text in the original."""

    version: Id = Field(examples=[1])
    places: list[SpanPlace] = Field(description="In the text's order: for a PDF, one for each page.")


class DocumentError(ResponseModel):
    """Why a version couldn't be processed."""

    code: str = Field(examples=["UNREADABLE"])
    message: str = Field(examples=["The file has no text."])


class EnrichmentProblem(ResponseModel):
    """Why a document isn't enriched."""

    code: str = Field(examples=["BUDGET"])
    message: str = Field(examples=["The organisation's budget has too little left for this call."])


class Enrichment(ResponseModel):
    """The result of a document's enrichment."""

    state: Literal["pending", "done", "failed"] = Field(
        description="`pending` with an `error` is retried automatically, `failed` with `:retry`.", examples=["done"]
    )
    fields: list[Literal["summary", "entity_type", "category", "tags"]] = Field(
        description="Fields that it filled in and nobody has changed since.", examples=[["category", "tags"]]
    )
    source: Literal["model", "rules"] | None = Field(examples=["model"])
    error: EnrichmentProblem | MISSING = MISSING


class IngestProgress(ResponseModel):
    """How far a worker has got with a document's latest version."""

    stage: Stage | None = Field(examples=["embed"])
    done: Count = Field(description="Pages while a PDF is read, chunks while embedding.", examples=[12])
    total: Count | None = Field(description="In this stage, if known.", examples=[42])


def _known_status(text: object) -> object:
    return DocumentStatus.PENDING if text == "unspecified" else text  # from a later version


class Document(ResponseModel):
    """A document, described by its latest version."""

    names: ClassVar[Names] = {"id": "document_id"}

    id: Id = Field(examples=[7])
    title: str = Field(examples=["Annual report"])
    file_name: str = Field(examples=["report.pdf"])
    type: KnownType = Field(examples=["file"])
    status: Annotated[DocumentStatus, BeforeValidator(_known_status)] = Field(examples=["ready"])
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
    readers: list[str] | MISSING = Field(default=MISSING, description=_READERS, examples=[["group:hr"]])
    access: Access | MISSING = Field(
        default=MISSING, description="The caller's access: `read` or `write`.", examples=["write"]
    )
    error: DocumentError | MISSING = MISSING
    progress: IngestProgress | MISSING = Field(default=MISSING, description="Only while it is processed.")
    enrichment: Enrichment | MISSING = Field(
        default=MISSING, description="Only for documents that were or will be enriched."
    )
    valid_from: Time | MISSING = Field(
        default=MISSING, description="Start of its validity; it isn't found before then."
    )
    valid_until: Time | MISSING = Field(default=MISSING, description="End of its validity.")
    pages: Count | MISSING = Field(default=MISSING, examples=[12])
    url: str | MISSING = MISSING
    created_at: Time | MISSING = Field(default=MISSING, examples=["2026-01-15T09:30:00Z"])
    updated_at: Time | MISSING = Field(default=MISSING, examples=["2026-01-15T09:30:04Z"])


class DocumentList(ResponseModel):
    """A page of documents, newest first."""

    documents: list[Document]
    next_page_token: str = Field(description='"" on the last page.', examples=[""])


class DocumentProgress(ResponseModel):
    """The processing state of a document's latest version."""

    document: Document
    stage: Stage | None = Field(examples=["embed"])
    done: Count = Field(examples=[12])
    total: Count | None = Field(examples=[42])
    attempt: Count = Field(examples=[1])
    deleted: bool = Field(examples=[False])


PROGRESS_EVENTS: Mapping[str, type[ResponseModel]] = {
    "progress": DocumentProgress,
    "error": StreamError,
    "done": Nothing,
}
"""Events of `GET /v1/documents/{document_id}/events`."""


class CollectionBody(RequestModel):
    """A new collection."""

    name: CollectionName
    enrich: StrictBool = Field(
        default=False,
        description="Whether missing summaries, kinds, categories and tags of its documents are filled in: by a "
        "language model if there is one, which costs money.",
    )


class CollectionPatch(RequestModel):
    """Changes of a collection; absent fields stay unchanged."""

    name: CollectionName | None = None
    enrich: StrictBool | None = None

    @model_validator(mode="after")
    def _changes_something(self) -> Self:
        if self.name is None and self.enrich is None:
            raise ValueError("must change `name` or `enrich`")
        return self


class Collection(ResponseModel):
    """A named group of documents."""

    name: str = Field(examples=["reports"])
    documents: Count = Field(examples=[3])
    enrich: bool = Field(examples=[False])
    access: Access = Field(description="The caller's access.", examples=["manage"])
    created_at: Time | MISSING = Field(default=MISSING, examples=["2026-01-15T09:30:00Z"])


class CollectionList(ResponseModel):
    """A page of collections, by name."""

    collections: list[Collection]
    next_page_token: str = Field(description='"" on the last page.', examples=[""])


class CollectionDeleted(ResponseModel):
    """Number of documents deleted with a collection."""

    documents_deleted: Count = Field(examples=[0])
