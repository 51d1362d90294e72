"""Bodies of OpenAI's files and vector stores, as what they are here: documents and collections."""

from collections.abc import Sequence
from typing import Annotated, Any, Literal, Self

from citewire.retriever.v1 import corpus_pb2, retriever_pb2
from pydantic import AfterValidator, BeforeValidator, Field, StrictBool, StrictInt, StrictStr

from citewire_dialects.json_values import attributes_of
from citewire_dialects.schemas import CollectionName
from citewire_dialects.schemas.compatible import absent, only
from citewire_dialects.schemas.responses import RankingOptions
from citewire_http.api.schemas import Count, RequestModel, ResponseModel

_NO_CHUNKING = "documents are divided along their structure"
_NO_EXPIRY = "a document's valid_until says when it isn't found any more"
_READY, _FAILED = corpus_pb2.DOCUMENT_STATUS_READY, corpus_pb2.DOCUMENT_STATUS_FAILED

Attributes = dict[str, str | float | bool]
FileStatus = Literal["in_progress", "completed", "failed"]


class VectorStoreBody(RequestModel):
    """A new vector store: an empty collection, whose name is its id."""

    name: CollectionName
    file_ids: Annotated[Any, only([], why="add files one by one, with vector_stores.files.create")] = absent()
    metadata: Annotated[Any, only({}, why="a collection has none")] = absent()
    description: Annotated[Any, only("", why="a collection has none")] = absent()
    expires_after: Annotated[Any, only(why=_NO_EXPIRY)] = absent()
    chunking_strategy: Annotated[Any, only({"type": "auto"}, why=_NO_CHUNKING)] = absent()


class FileForm(RequestModel):
    """A document as a file; further fields are those of `DocumentForm`."""

    file: str = Field(description="Up to 256 MiB.", json_schema_extra={"format": "binary"})
    purpose: Literal["user_data", "assistants"] = Field(description="Files are allowed only in questions.")


class StoreFileBody(RequestModel):
    """A file to add to a vector store."""

    file_id: StrictStr
    attributes: dict[StrictStr, StrictStr | StrictBool | StrictInt | float] | None = None
    chunking_strategy: Annotated[Any, only({"type": "auto"}, why=_NO_CHUNKING)] = absent()


def _one_query(queries: list[str]) -> list[str]:
    if len(queries) != 1:
        raise ValueError("must be one query: send a request for each")
    return queries


class StoreSearchBody(RequestModel):
    """A search of a vector store."""

    query: Annotated[
        list[StrictStr],
        BeforeValidator(
            lambda value: [value] if isinstance(value, str) else value,
            json_schema_input_type=StrictStr | list[StrictStr],
        ),
        AfterValidator(_one_query),
    ]
    filters: Any = Field(default=None, description="As in the tool `file_search`.")
    max_num_results: Annotated[StrictInt, Field(ge=1, le=50)] = 10
    ranking_options: RankingOptions | None = None
    rewrite_query: Annotated[Any, only(False, why="a search takes the query as it is")] = absent()


class FileCounts(ResponseModel):
    """Files of a vector store; their states aren't counted."""

    total: Count = Field(examples=[3])
    in_progress: None = None
    completed: None = None
    failed: None = None
    cancelled: None = None


class VectorStore(ResponseModel):
    """A collection."""

    id: str = Field(examples=["reports"])
    object: Literal["vector_store"]
    created_at: Count = Field(examples=[1768470000])
    name: str = Field(examples=["reports"])
    status: Literal["completed"]
    file_counts: FileCounts
    usage_bytes: None = Field(description="Not counted.")
    metadata: dict[str, str]

    @classmethod
    def of(cls, collection: corpus_pb2.Collection) -> Self:
        """Describes a collection."""
        return cls(
            id=collection.name,
            object="vector_store",
            created_at=collection.created_at.seconds,
            name=collection.name,
            status="completed",
            file_counts=FileCounts(total=collection.documents),
            usage_bytes=None,
            metadata={},
        )


class FileFault(ResponseModel):
    """Why a file couldn't be processed."""

    code: Literal["server_error", "unsupported_file", "invalid_file"]
    message: str = Field(examples=["The file has no text."])


class VectorStoreFile(ResponseModel):
    """A document of a collection."""

    id: str = Field(examples=["7"])
    object: Literal["vector_store.file"]
    created_at: Count = Field(examples=[1768470000])
    vector_store_id: str = Field(examples=["reports"])
    status: FileStatus
    last_error: FileFault | None
    usage_bytes: Count = Field(examples=[183220])
    attributes: Attributes = Field(description="Its metadata's first 16 plain values.", examples=[{"year": 2025}])

    @classmethod
    def of(cls, document: corpus_pb2.Document) -> Self:
        """Describes a document of a collection."""
        fault = FileFault(code="invalid_file", message=document.error.message)
        return cls(
            id=str(document.document_id),
            object="vector_store.file",
            created_at=document.created_at.seconds,
            vector_store_id=document.collection,
            status=file_status(document),
            last_error=fault if document.HasField("error") else None,
            usage_bytes=document.size_bytes,
            attributes=attributes_of(document.metadata),
        )


class FileObject(ResponseModel):
    """A document."""

    id: str = Field(examples=["7"])
    object: Literal["file"]
    bytes: Count = Field(examples=[183220])
    created_at: Count = Field(examples=[1768470000])
    filename: str = Field(examples=["report.pdf"])
    purpose: Literal["user_data"]
    status: Literal["uploaded", "processed", "error"]
    status_details: str | None

    @classmethod
    def of(cls, document: corpus_pb2.Document) -> Self:
        """Describes a document."""
        status = file_status(document)
        states: dict[FileStatus, Any] = {"in_progress": "uploaded", "completed": "processed", "failed": "error"}
        return cls(
            id=str(document.document_id),
            object="file",
            bytes=document.size_bytes,
            created_at=document.created_at.seconds,
            filename=document.file_name or document.title,
            purpose="user_data",
            status=states[status],
            status_details=document.error.message if document.HasField("error") else None,
        )


class _Page(ResponseModel):
    object: Literal["list"]
    first_id: str | None
    last_id: str | None
    has_more: bool


class VectorStorePage(_Page):
    """Vector stores by name."""

    data: list[VectorStore]

    @classmethod
    def of(cls, data: list[VectorStore], *, has_more: bool) -> Self:
        """Returns a page."""
        return cls(object="list", data=data, has_more=has_more, **_ends([entry.id for entry in data]))


class VectorStoreFilePage(_Page):
    """Files of a vector store, newest first."""

    data: list[VectorStoreFile]

    @classmethod
    def of(cls, data: list[VectorStoreFile], *, has_more: bool) -> Self:
        """Returns a page."""
        return cls(object="list", data=data, has_more=has_more, **_ends([entry.id for entry in data]))


class FilePage(_Page):
    """Files, newest first."""

    data: list[FileObject]

    @classmethod
    def of(cls, data: list[FileObject], *, has_more: bool) -> Self:
        """Returns a page."""
        return cls(object="list", data=data, has_more=has_more, **_ends([entry.id for entry in data]))


class StoreText(ResponseModel):
    """A passage's text."""

    type: Literal["text"]
    text: str = Field(examples=["Revenue grew by 12 %, …"])


class StoreMatch(ResponseModel):
    """A retrieved passage."""

    file_id: str = Field(examples=["7"])
    filename: str = Field(examples=["report.pdf"])
    score: float = Field(description="Cosine similarity.", examples=[0.742])
    attributes: Attributes = Field(examples=[{"year": 2025}])
    content: list[StoreText]

    @classmethod
    def of(cls, result: retriever_pb2.SearchResult) -> Self:
        """Describes the result of a search by meaning."""
        chunk = result.chunk
        return cls(
            file_id=str(chunk.document_id),
            filename=chunk.file_name or chunk.title,
            score=round(result.score, 6),
            attributes=attributes_of(chunk.metadata),
            content=[StoreText(type="text", text=chunk.text)],
        )


class StoreMatches(ResponseModel):
    """Search results, best first."""

    object: Literal["vector_store.search_results.page"]
    search_query: list[str] = Field(examples=[["revenue growth"]])
    data: list[StoreMatch]
    has_more: Literal[False]
    next_page: None


class Gone(ResponseModel):
    """Something was deleted or removed."""

    id: str = Field(examples=["7"])
    object: Literal["vector_store.deleted", "vector_store.file.deleted", "file"]
    deleted: Literal[True]


def file_status(document: corpus_pb2.Document) -> FileStatus:
    """Returns a document's processing state."""
    return "completed" if document.status == _READY else "failed" if document.status == _FAILED else "in_progress"


def _ends(ids: Sequence[str]) -> dict[str, str | None]:
    return {"first_id": ids[0] if ids else None, "last_id": ids[-1] if ids else None}
