"""`/v1/documents` and below."""

import hashlib
import json
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from typing import Annotated, Any, ClassVar
from urllib.parse import quote

from citewire.retriever.v1 import corpus_pb2
from fastapi import APIRouter, Depends, Query, Request, Response

from citewire_accounts.api.dependencies import TenantDep, authenticate
from citewire_dialects.filters import parse_filter
from citewire_dialects.profile import DocumentType
from citewire_dialects.schemas import StreamError
from citewire_gateway.api.dependencies import Services, ServicesDep, read_id
from citewire_gateway.api.forms import upload_header
from citewire_gateway.api.schemas.library import (
    PROGRESS_EVENTS,
    STATUSES,
    AddressBody,
    Document,
    DocumentBody,
    DocumentList,
    DocumentPatch,
    DocumentProgress,
    DocumentStatus,
    SpanPlaces,
    is_address,
)
from citewire_http.api.openapi import REF, deleted, problems, streamed
from citewire_http.api.parameters import Clean, IdempotencyDep, PageSize, PageToken, SearchText
from citewire_http.api.schemas import Nothing, ResponseModel
from citewire_http.api.times import Moment
from citewire_http.bodies import JsonBody, parse_json, require_json, unsupported_media_type, validate
from citewire_http.departures import CancellingRoute
from citewire_http.idempotency import StoredAnswer, hash_json
from citewire_http.multipart import Form, receive_form
from citewire_http.streams import ByteStream, EventStream, StreamDialect
from citewire_kit.audit import touch
from citewire_kit.errors import CitewireError, NotFound, invalid_field
from citewire_kit.limiter import Taken
from citewire_kit.pace import paced
from citewire_kit.plan_limits import Measure
from citewire_kit.tenant import Tenant

router = APIRouter(route_class=CancellingRoute, tags=["documents"], dependencies=[Depends(authenticate)])

_LEASE_SECONDS = 120.0
"""How long an Idempotency-Key of an upload is held for a gateway that died: the body is complete by then."""

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
async def add_document(
    request: Request, response: Response, tenant: TenantDep, services: ServicesDep, key: IdempotencyDep
) -> Document:
    """Stores a file, a text, or what is fetched from an address. When this answers, it is durable; it is then read."""
    return _accepted(response, await _store(request, tenant, services, key, None))


@router.put("/v1/documents/{document_id}", summary="Add a new version", **_UPLOAD)
async def replace_document(
    document_id: str,
    request: Request,
    response: Response,
    tenant: TenantDep,
    services: ServicesDep,
    key: IdempotencyDep,
) -> Document:
    """Stores a new version; the present one goes on serving until the new one is ready."""
    return _accepted(response, await _store(request, tenant, services, key, document_number(document_id)))


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
    any_validity: Annotated[bool, Query(description="Whether also those that aren't valid are listed.")] = False,
) -> DocumentList:
    """Returns documents that are valid, newest first; `q` looks into titles and file names."""
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
    """Changes title, url, tags, metadata, collection, readers, validity or file name; the file isn't sent again."""
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
    "/v1/documents/{document_id}:retry", summary="Process again", status_code=202, responses=problems(404, 409)
)
async def retry_document(document_id: str, response: Response, services: ServicesDep) -> Document:
    """Processes a version that failed once more."""
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
    summary="Read the text that was found",
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
    """Returns the text that was found in a version, which citations' offsets count from; by default the live one's."""
    text, data = await services.corpus.download(document_number(document_id), version, text=True)
    media_type, _, policy = _presentation(text.media_type)
    headers = {
        "Content-Type": media_type,
        "Content-Length": str(text.size_bytes),
        "Content-Security-Policy": policy,
        "X-Document-Version": str(text.version),
    }
    return ByteStream(data, headers=headers, tenant=tenant, rules=services.stream_rules)


@router.get("/v1/documents/{document_id}/locate", summary="Find where a quote stands", responses=problems(404, 409))
async def locate_span(
    document_id: str,
    services: ServicesDep,
    char_start: Annotated[int, Query(ge=0, le=2**31 - 1, description="Where the quote starts in the version's text.")],
    char_end: Annotated[int, Query(ge=1, le=2**31 - 1, description="Where it ends; at most 8,000 after its start.")],
    version: Version = None,
) -> SpanPlaces:
    """Returns where a part of a version's text stands in the original: for a PDF, a box per line on each page."""
    span = corpus_pb2.LocateSpanRequest(
        document_id=document_number(document_id), version=version, char_start=char_start, char_end=char_end
    )
    return SpanPlaces.read(await services.corpus.locate(span))


@router.get(
    "/v1/documents/{document_id}/events",
    summary="Watch a document's progress",
    **streamed("ProgressEvent", "`progress` many, the present state first; `done` last.", 404),
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
    """Writes the frames of one watch: `progress` many, then `done`; a fault is `error`, then `done`."""

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


async def _store(
    request: Request, tenant: Tenant, services: Services, key: str | None, document_id: int | None
) -> Document:
    """Takes a form or a JSON body and hands it to the retriever; with a key, at most once."""
    media_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if media_type == "multipart/form-data":
        return await store_file(request, tenant, services, key, document_id)
    if media_type not in ("", "application/json"):
        raise unsupported_media_type(media_type, "multipart/form-data or application/json")
    require_json(request)
    return await store_json(tenant, services, key, document_id, parse_json(await request.body()))


async def store_json(
    tenant: Tenant, services: Services, key: str | None, document_id: int | None, given: object
) -> Document:
    """Hands a text to the retriever, or an address that it fetches a file from; with a key, at most once."""
    if is_address(given):
        return await _fetch(tenant, services, key, document_id, validate(AddressBody, given))
    return await store_text(tenant, services, key, document_id, validate(DocumentBody, given))


async def _fetch(
    tenant: Tenant, services: Services, key: str | None, document_id: int | None, body: AddressBody
) -> Document:
    header = body.to_proto(document_id)
    taken = await take_upload(services, tenant, 0)

    async def fetch(request_id: str) -> corpus_pb2.Document:
        header.request_id = request_id
        document = await services.corpus.fetch(header)
        await services.limiter.settle(taken, document.size_bytes)
        return document

    return await store_once(tenant, services, key, document_id, hash_json(body.model_dump(mode="json")), fetch)


async def store_text(
    tenant: Tenant, services: Services, key: str | None, document_id: int | None, body: DocumentBody
) -> Document:
    """Hands a text to the retriever; with a key, at most once."""
    if not body.content.strip():
        raise invalid_field("content", "must not be empty")
    message = body.to_proto(document_id)
    await take_upload(services, tenant, len(body.content.encode()))

    async def put(request_id: str) -> corpus_pb2.Document:
        message.request_id = request_id
        return await services.corpus.put(message)

    return await store_once(tenant, services, key, document_id, hash_json(body.model_dump(mode="json")), put)


async def store_file(
    request: Request,
    tenant: Tenant,
    services: Services,
    key: str | None,
    document_id: int | None,
    *,
    read: Callable[[Form, int | None], corpus_pb2.UploadHeader] = upload_header,
) -> Document:
    """Hands a form's file to the retriever; with a key, at most once. `read` makes its header of the form's fields."""
    media_type = request.headers.get("content-type", "")
    if not media_type.lower().startswith("multipart/form-data"):
        raise unsupported_media_type(media_type, "multipart/form-data")
    declared = request.headers.get("content-length", "")
    taken = await take_upload(services, tenant, int(declared) if declared.isdecimal() else 0)
    with services.uploads.hold_for(tenant.org_id, request.scope) as place:
        async with receive_form(
            paced(request.stream(), services.settings.upload_pace(), place),
            request.headers["content-type"],
            max_file_bytes=services.settings.max_upload_bytes,
            folder=services.settings.spool_dir,
        ) as form:
            await services.limiter.settle(taken, form.size)
            header = read(form, document_id)

            async def upload(request_id: str) -> corpus_pb2.Document:
                header.request_id = request_id
                return await services.corpus.upload(header, form.data())

            return await store_once(tenant, services, key, document_id, form.digest, upload)


async def take_upload(services: Services, tenant: Tenant, size: int) -> Taken:
    """Counts an upload and its bytes before it is read; returns what it took of the bytes."""
    await services.limiter.take(tenant, Measure.UPLOADS)
    return await services.limiter.take(tenant, Measure.UPLOAD_BYTES, size)


async def store_once(
    tenant: Tenant,
    services: Services,
    key: str | None,
    document_id: int | None,
    digest: bytes,
    store: Callable[[str], Awaitable[corpus_pb2.Document]],
) -> Document:
    """Has a document stored; with a key, at most once: what is the same has the same digest."""
    if key is None:
        return Document.read(await store(""))
    operation = "documents" if document_id is None else f"documents/{document_id}"
    request_hash = hashlib.sha256(digest).digest()
    held = await services.idempotency.claim(
        tenant, key, operation=operation, request_hash=request_hash, lease_seconds=_LEASE_SECONDS
    )
    if isinstance(held, StoredAnswer):
        if not await services.reader.may_read([int(held.response["id"])]):
            raise _no_document(str(held.response["id"]))  # it was deleted since, or hidden from who saved it
        return Document.model_validate(held.response)
    # The retriever keeps it with what it makes: where its answer was lost, the same request doesn't make it twice.
    named = json.dumps([tenant.user_id, operation, key, request_hash.hex()]).encode()
    try:
        document = Document.read(await store(hashlib.sha256(named).hexdigest()))
    except BaseException:
        await held.release()
        raise
    await held.answer(document.stored())
    return document


def _accepted(response: Response, document: Document) -> Document:
    touch(f"document:{document.id}")
    response.headers["Location"] = f"/v1/documents/{document.id}"
    return document


def document_number(text: str) -> int:
    """Reads a document's id; what can't be one doesn't exist."""
    number = read_id(text)
    if number is None:
        raise _no_document(text)
    return number


def _no_document(text: str) -> NotFound:
    return NotFound(
        f"there is no document {text[:64]}", reason="DOCUMENT_NOT_FOUND", metadata={"document_ids": text[:64]}
    )


def _presentation(media_type: str) -> tuple[str, str, str]:
    """Content type, disposition and policy of an original: what can't run scripts is shown, all else is saved."""
    sandbox = "default-src 'none'; sandbox"
    kind = media_type.partition(";")[0].strip().lower()
    if kind == "application/pdf":
        return kind, "inline", "frame-ancestors 'self'"  # browsers' PDF viewers don't work in a sandbox
    if kind in ("image/png", "image/jpeg", "image/gif", "image/webp"):
        return kind, "inline", sandbox
    if kind.startswith("text/") and kind != "text/html":
        return "text/plain; charset=utf-8", "inline", sandbox
    return kind or "application/octet-stream", "attachment", sandbox
