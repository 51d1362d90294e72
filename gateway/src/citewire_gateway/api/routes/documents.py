"""`/v1/documents` and below."""

from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Annotated, Any, ClassVar
from urllib.parse import quote

from citewire.retriever.v1 import corpus_pb2
from fastapi import APIRouter, Depends, Query, Response

from citewire_accounts.api.dependencies import TenantDep, authenticate
from citewire_dialects.filters import parse_filter
from citewire_dialects.profile import DocumentType
from citewire_dialects.schemas import StreamError
from citewire_dialects.schemas.library import (
    PROGRESS_EVENTS,
    STATUSES,
    Document,
    DocumentList,
    DocumentPatch,
    DocumentProgress,
    DocumentStatus,
    SpanPlaces,
)
from citewire_gateway.api.dependencies import Services, ServicesDep, document_number
from citewire_gateway.api.uploads import UploadCallDep
from citewire_http.api.openapi import REF, deleted, problems, streamed
from citewire_http.api.parameters import Clean, PageSize, PageToken, SearchText
from citewire_http.api.schemas import Nothing, ResponseModel
from citewire_http.api.times import Moment
from citewire_http.bodies import JsonBody, parse_json
from citewire_http.departures import CancellingRoute
from citewire_http.streams import ByteStream, EventStream, StreamDialect
from citewire_kit.audit import touch
from citewire_kit.errors import CitewireError, invalid_field

router = APIRouter(route_class=CancellingRoute, tags=["documents"], dependencies=[Depends(authenticate)])

Name = Annotated[str | None, Query(min_length=1, max_length=128), Clean]
Version = Annotated[int | None, Query(ge=1, le=2**31 - 1)]

_UPLOAD: dict[str, Any] = {
    "status_code": 202,
    "response_description": "Stored; processing has begun.",
    "responses": problems(400, 404, 409, 413, 415, 503, 507),
    "openapi_extra": {
        "requestBody": {
            "required": True,
            "content": {
                "multipart/form-data": {"schema": {"$ref": f"{REF}DocumentForm"}},
                "application/json": {
                    "schema": {"anyOf": [{"$ref": f"{REF}DocumentBody"}, {"$ref": f"{REF}AddressBody"}]}
                },
            },
        }
    },
}


@router.post("/v1/documents", summary="Add a document", **_UPLOAD)
async def add_document(call: UploadCallDep, response: Response) -> Document:
    """Stores a file, a text, or a file fetched from a URL. It is durable on return, and processed afterwards."""
    return _accepted(response, await call.store(None))


@router.put("/v1/documents/{document_id}", summary="Add a new version", **_UPLOAD)
async def replace_document(document_id: str, call: UploadCallDep, response: Response) -> Document:
    """Stores a new version; the current one is served until the new one is ready."""
    return _accepted(response, await call.store(document_number(document_id)))


@router.get("/v1/documents", summary="List documents")
async def list_documents(
    services: ServicesDep,
    page_size: PageSize = None,
    page_token: PageToken = None,
    collection: Name = None,
    type: Annotated[DocumentType | None, Query()] = None,
    status: Annotated[DocumentStatus | None, Query()] = None,
    tag: Annotated[str | None, Query(min_length=1, max_length=64), Clean] = None,
    filter: Annotated[str | None, Query(max_length=20_000, description="A filter as JSON.")] = None,
    q: SearchText = None,
    as_of: Annotated[Moment | None, Query()] = None,
    any_validity: Annotated[bool, Query(description="Whether to list documents regardless of validity.")] = False,
) -> DocumentList:
    """Returns valid documents, newest first; `q` searches titles and file names."""
    request = corpus_pb2.ListDocumentsRequest(
        page_size=page_size or 0,
        page_token=page_token or "",
        collection=collection or "",
        type=type or "",
        status=None if status is None else STATUSES.to_proto(status),
        tag=tag or "",
        filter=None if filter is None else parse_filter(parse_json(filter.encode())),
        q=q or "",
        as_of=as_of,
        any_validity=any_validity,
    )
    return DocumentList.read(await services.corpus.list(request))


@router.get("/v1/documents/{document_id}", summary="Get a document", responses=problems(404))
async def get_document(document_id: str, services: ServicesDep) -> Document:
    """Returns a document, described by its latest version."""
    return Document.read(await services.corpus.get(document_number(document_id)))


@router.patch("/v1/documents/{document_id}", summary="Change a document's description", responses=problems(404, 507))
async def patch_document(
    document_id: str, services: ServicesDep, body: Annotated[DocumentPatch, Depends(JsonBody(DocumentPatch))]
) -> Document:
    """Changes title, url, tags, metadata, collection, readers, validity or file name without a new upload."""
    if not body.model_fields_set:
        raise invalid_field("body", f"must name at least one of {', '.join(DocumentPatch.model_fields)}")
    for name in ("title", "file_name"):
        if name in body.model_fields_set and getattr(body, name) is None:
            raise invalid_field(name, "must not be null")
    return Document.read(await services.corpus.update(body.to_proto(document_number(document_id))))


@router.delete("/v1/documents/{document_id}", summary="Delete a document", **deleted(404))
async def delete_document(document_id: str, tenant: TenantDep, services: ServicesDep) -> None:
    """Deletes a document with all its versions, and the answers that were written from it."""
    number = document_number(document_id)
    await services.eraser.announce(tenant)
    await services.corpus.delete(number)
    services.pipeline.forget_library(tenant.org_id)
    await services.eraser.erase_now(tenant, number)


@router.post(
    "/v1/documents/{document_id}:retry",
    summary="Process a document again",
    status_code=202,
    responses=problems(404, 409),
)
async def retry_document(document_id: str, response: Response, services: ServicesDep) -> Document:
    """Retries a failed version."""
    return _accepted(response, Document.read(await services.corpus.retry(document_number(document_id))))


@router.get(
    "/v1/documents/{document_id}/content",
    summary="Download the original",
    response_class=Response,
    response_description="The original bytes.",
    responses={
        200: {"content": {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}}},
        **problems(404),
    },
)
async def get_content(document_id: str, tenant: TenantDep, services: ServicesDep, version: Version = None) -> Response:
    """Returns a version's original bytes; the live version's if none is named."""
    original, data = await services.corpus.download(document_number(document_id), version)
    media_type, disposition, policy = _presentation(original.media_type)
    name = original.file_name.rpartition("/")[2] or f"document-{document_id}"
    headers = {
        "Content-Type": media_type,
        "Content-Length": str(original.size_bytes),
        "Content-Disposition": f"{disposition}; filename*=UTF-8''{quote(name, safe='')}",
        "Content-Security-Policy": policy,
        "ETag": f'"{original.sha256}"',
        "X-Document-Version": str(original.version),
    }
    return ByteStream(data, headers=headers, tenant=tenant, rules=services.stream_rules)


@router.get(
    "/v1/documents/{document_id}/text",
    summary="Read the extracted text",
    response_class=Response,
    response_description="The text.",
    responses={
        200: {
            "content": {
                "text/plain": {
                    "schema": {"type": "string", "examples": ["Revenue grew by 12 %, to 4.2 million euros."]}
                }
            }
        },
        **problems(404, 409),
    },
)
async def get_text(document_id: str, tenant: TenantDep, services: ServicesDep, version: Version = None) -> Response:
    """Returns a version's extracted text, to which citations' offsets refer; by default the live one's."""
    text, data = await services.corpus.download(document_number(document_id), version, text=True)
    media_type, _, policy = _presentation(text.media_type)
    headers = {
        "Content-Type": media_type,
        "Content-Length": str(text.size_bytes),
        "Content-Security-Policy": policy,
        "X-Document-Version": str(text.version),
    }
    return ByteStream(data, headers=headers, tenant=tenant, rules=services.stream_rules)


@router.get("/v1/documents/{document_id}/locate", summary="Locate a quote", responses=problems(404, 409))
async def locate_span(
    document_id: str,
    services: ServicesDep,
    char_start: Annotated[int, Query(ge=0, le=2**31 - 1, description="Where the quote starts in the version's text.")],
    char_end: Annotated[int, Query(ge=1, le=2**31 - 1, description="Where it ends; at most 8,000 after its start.")],
    version: Version = None,
) -> SpanPlaces:
    """Locates a part of a version's text in the original: for a PDF, a box per line on each page."""
    span = corpus_pb2.LocateSpanRequest(
        document_id=document_number(document_id), version=version, char_start=char_start, char_end=char_end
    )
    return SpanPlaces.read(await services.corpus.locate(span))


@router.get(
    "/v1/documents/{document_id}/events",
    summary="Watch a document's progress",
    **streamed("ProgressEvent", "`progress` events, the current state first; `done` last.", 404),
)
async def watch_document(document_id: str, tenant: TenantDep, services: ServicesDep) -> Response:
    """Streams progress until the latest version is ready or failed, or the document is deleted."""
    number = document_number(document_id)
    return EventStream(
        lambda _control: _progress(services, number),
        dialect=ProgressDialect(),
        tenant=tenant,
        rules=services.stream_rules,
    )


class ProgressDialect(StreamDialect[ResponseModel]):
    """Encodes the frames of one watch: `progress` many times, then `done`; on an error `error`, then `done`."""

    name: ClassVar[str] = "progress"

    def __init__(self) -> None:
        self._sequence = 0

    def encode(self, event: ResponseModel) -> bytes:
        """Returns one frame."""
        name = next(name for name, model in PROGRESS_EVENTS.items() if isinstance(event, model))
        self._sequence += 1
        return f"event: {name}\nid: {self._sequence}\n{event.frame()}".encode()

    def failed(self, error: CitewireError) -> bytes:
        """Returns the frames of a watch that failed."""
        return self.encode(StreamError(text=error.message)) + self.encode(Nothing())

    def going_away(self, error: CitewireError) -> bytes:
        """See `StreamDialect.going_away`."""
        return self.encode(StreamError(text=error.message, retryable=True)) + self.encode(Nothing())


async def _progress(services: Services, document_id: int) -> AsyncGenerator[ResponseModel, None]:
    async with aclosing(services.corpus.watch(document_id)) as messages:
        async for message in messages:
            yield DocumentProgress.read(message)
    yield Nothing()


def _accepted(response: Response, document: Document) -> Document:
    touch(f"document:{document.id}")
    response.headers["Location"] = f"/v1/documents/{document.id}"
    return document


def _presentation(media_type: str) -> tuple[str, str, str]:
    """Content type, disposition and policy of an original: types that can't run scripts are shown, others are saved."""
    sandbox = "default-src 'none'; sandbox"
    kind = media_type.partition(";")[0].strip().lower()
    if kind == "application/pdf":
        return kind, "inline", "frame-ancestors 'self'"  # browsers' PDF viewers don't work in a sandbox
    if kind in ("image/png", "image/jpeg", "image/gif", "image/webp"):
        return kind, "inline", sandbox
    if kind.startswith("text/") and kind != "text/html":
        return "text/plain; charset=utf-8", "inline", sandbox
    return kind or "application/octet-stream", "attachment", sandbox
