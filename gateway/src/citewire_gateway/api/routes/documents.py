"""`/v1/documents` and below."""

import hashlib
import json
from collections.abc import Awaitable, Callable
from typing import Annotated, Any, Literal
from urllib.parse import quote

from fastapi import APIRouter, Depends, Query, Request, Response
from fastapi.responses import JSONResponse

from citewire_gateway.api.dependencies import IdempotencyDep, ServicesDep, TenantDep, authenticate
from citewire_gateway.api.filters import parse_filter
from citewire_gateway.api.forms import file_fields
from citewire_gateway.api.library_docs import (
    content_docs,
    document_docs,
    documents_docs,
    events_docs,
    patch_docs,
    text_docs,
    upload_docs,
)
from citewire_gateway.api.operation_docs import deleted_docs
from citewire_gateway.api.progress import ProgressFrames
from citewire_gateway.api.queries import Clean, PageSize, PageToken
from citewire_gateway.api.schemas import MAX_ID, DocumentBody, DocumentPatch
from citewire_gateway.api.streams import ByteStream, EventStream
from citewire_gateway.clients.corpus import ListQuery, TextFields
from citewire_gateway.http.bodies import (
    json_body,
    parse_json,
    require_json,
    unsupported_media_type,
    validate,
)
from citewire_gateway.http.idempotency import StoredAnswer, hash_json
from citewire_gateway.http.multipart import receive_form
from citewire_gateway.services import Services
from citewire_kit.errors import NotFound, invalid_field
from citewire_kit.tenant import Tenant

router = APIRouter(tags=["documents"], dependencies=[Depends(authenticate)])

_LEASE_SECONDS = 120.0
"""How long an Idempotency-Key of an upload is held for a gateway that died: the body is complete by then."""

Name = Annotated[str | None, Query(min_length=1, max_length=128), Clean]


@router.post("/v1/documents", summary="Add a document", status_code=202, **upload_docs())
async def add_document(request: Request, tenant: TenantDep, services: ServicesDep, key: IdempotencyDep) -> Response:
    """Stores a file or a text. When this answers, the document is durable; it is then processed."""
    return await _store(request, tenant, services, key, None)


@router.put("/v1/documents/{document_id}", summary="Add a new version", status_code=202, **upload_docs())
async def replace_document(
    document_id: str, request: Request, tenant: TenantDep, services: ServicesDep, key: IdempotencyDep
) -> Response:
    """Stores a new version; the present one goes on serving until the new one is ready."""
    return await _store(request, tenant, services, key, _id(document_id))


@router.get("/v1/documents", summary="List documents", **documents_docs())
async def list_documents(
    _tenant: TenantDep,
    services: ServicesDep,
    page_size: PageSize = None,
    page_token: PageToken = None,
    collection: Name = None,
    type: Annotated[Literal["file", "article", "repository", "capture"] | None, Query()] = None,
    status: Annotated[Literal["pending", "processing", "ready", "failed"] | None, Query()] = None,
    tag: Annotated[str | None, Query(min_length=1, max_length=64), Clean] = None,
    filter: Annotated[str | None, Query(max_length=20_000, description="A filter as JSON.")] = None,
) -> Response:
    """Returns documents, newest first."""
    query = ListQuery(
        page_size=page_size or 0,
        page_token=page_token or "",
        collection=collection or "",
        type=type or "",
        status=status or "",
        tag=tag or "",
        filter=None if filter is None else parse_filter(parse_json(filter.encode())),
    )
    return JSONResponse(await services.corpus.list(query))


@router.get("/v1/documents/{document_id}", summary="Get a document", **document_docs())
async def get_document(document_id: str, _tenant: TenantDep, services: ServicesDep) -> Response:
    """Returns a document, described by its latest version."""
    return JSONResponse(await services.corpus.get(_id(document_id)))


@router.patch("/v1/documents/{document_id}", summary="Change a document's description", **patch_docs())
async def patch_document(
    document_id: str,
    _tenant: TenantDep,
    services: ServicesDep,
    body: Annotated[DocumentPatch, Depends(json_body(DocumentPatch))],
) -> Response:
    """Changes title, url, tags, metadata or collection, without a new version."""
    changes = body.model_dump(exclude_unset=True)
    if not changes:
        raise invalid_field("body", "must name at least one of title, url, tags, metadata, collection")
    if "title" in changes and changes["title"] is None:
        raise invalid_field("title", "must not be null")
    return JSONResponse(await services.corpus.update(_id(document_id), changes))


@router.delete("/v1/documents/{document_id}", summary="Delete a document", status_code=204, **deleted_docs())
async def delete_document(document_id: str, _tenant: TenantDep, services: ServicesDep) -> Response:
    """Deletes a document with all its versions."""
    await services.corpus.delete(_id(document_id))
    return Response(status_code=204)


@router.post("/v1/documents/{document_id}:retry", summary="Process again", status_code=202, **document_docs(202))
async def retry_document(document_id: str, _tenant: TenantDep, services: ServicesDep) -> Response:
    """Processes a version that failed once more."""
    return _accepted(await services.corpus.retry(_id(document_id)))


@router.get("/v1/documents/{document_id}/content", summary="Download the original", **content_docs())
async def get_content(
    document_id: str,
    tenant: TenantDep,
    services: ServicesDep,
    version: Annotated[int | None, Query(ge=1, le=2**31 - 1)] = None,
) -> Response:
    """Returns a version's original bytes; the live version's if none is named."""
    original = await services.corpus.download(_id(document_id), version)
    media_type, disposition, policy = _presentation(original.media_type)
    name = original.file_name or f"document-{document_id}"
    headers = {
        "Content-Type": media_type,
        "Content-Length": str(original.size_bytes),
        "Content-Disposition": f"{disposition}; filename*=UTF-8''{quote(name, safe='')}",
        "Content-Security-Policy": policy,
        "ETag": f'"{original.sha256}"',
        "X-Document-Version": str(original.version),
    }
    return ByteStream(original.data, headers=headers, tenant=tenant, rules=services.stream_rules)


@router.get("/v1/documents/{document_id}/text", summary="Read the text that was found", **text_docs())
async def get_text(
    document_id: str,
    tenant: TenantDep,
    services: ServicesDep,
    version: Annotated[int | None, Query(ge=1, le=2**31 - 1)] = None,
) -> Response:
    """Returns the text that was found in a version, which citations' offsets count from; by default the live one's."""
    text = await services.corpus.download(_id(document_id), version, text=True)
    media_type, _, policy = _presentation(text.media_type)
    headers = {
        "Content-Type": media_type,
        "Content-Length": str(text.size_bytes),
        "Content-Security-Policy": policy,
        "X-Document-Version": str(text.version),
    }
    return ByteStream(text.data, headers=headers, tenant=tenant, rules=services.stream_rules)


@router.get("/v1/documents/{document_id}/events", summary="Watch a document's progress", **events_docs())
async def watch_document(document_id: str, tenant: TenantDep, services: ServicesDep) -> Response:
    """Streams progress until the latest version is ready or failed, or the document is deleted."""
    number = _id(document_id)
    frames = ProgressFrames()
    return EventStream[dict[str, Any] | None](
        lambda _control: frames.until_done(services.corpus.watch(number)),
        encode=frames.encode,
        failed=frames.failed,
        dialect=frames.name,
        tenant=tenant,
        rules=services.stream_rules,
    )


async def _store(
    request: Request, tenant: Tenant, services: Services, key: str | None, document_id: int | None
) -> Response:
    """Takes a form or a JSON body and hands it to the retriever; with a key, at most once."""
    media_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if media_type == "multipart/form-data":
        return await _store_file(request, tenant, services, key, document_id)
    if media_type not in ("", "application/json"):
        raise unsupported_media_type(media_type, "multipart/form-data or application/json")
    require_json(request)
    body = validate(DocumentBody, parse_json(await request.body()))
    if not body.content.strip():
        raise invalid_field("content", "must not be empty")
    fields = TextFields(
        type=body.type,
        title=body.title,
        content=body.content,
        url=body.url or "",
        collection=body.collection or "",
        tags=tuple(body.tags),
        metadata=body.metadata,
    )

    async def put(request_id: str) -> dict[str, Any]:
        return await services.corpus.put(fields, document_id, request_id)

    return await _once(tenant, services, key, document_id, hash_json(body.model_dump(mode="json")), put)


async def _store_file(
    request: Request, tenant: Tenant, services: Services, key: str | None, document_id: int | None
) -> Response:
    with services.uploads.take():
        async with receive_form(
            request.stream(),
            request.headers["content-type"],
            max_file_bytes=services.settings.max_upload_bytes,
            folder=services.settings.spool_dir,
        ) as form:
            fields = file_fields(form)

            async def upload(request_id: str) -> dict[str, Any]:
                return await services.corpus.upload(fields, form.data(), document_id, request_id)

            return await _once(tenant, services, key, document_id, form.digest, upload)


async def _once(
    tenant: Tenant,
    services: Services,
    key: str | None,
    document_id: int | None,
    digest: bytes,
    store: Callable[[str], Awaitable[dict[str, Any]]],
) -> Response:
    if key is None:
        return _accepted(await store(""))
    operation = "documents" if document_id is None else f"documents/{document_id}"
    request_hash = hashlib.sha256(digest).digest()
    held = await services.idempotency.claim(
        tenant, key, operation=operation, request_hash=request_hash, lease_seconds=_LEASE_SECONDS
    )
    if isinstance(held, StoredAnswer):
        return _accepted(held.response)
    # The retriever keeps it with what it makes: where its answer was lost, the same request doesn't make it twice.
    named = json.dumps([tenant.user_id, operation, key, request_hash.hex()]).encode()
    try:
        document = await store(hashlib.sha256(named).hexdigest())
    except BaseException:
        await held.release()
        raise
    await held.answer(document)
    return _accepted(document)


def _accepted(document: dict[str, Any]) -> Response:
    return JSONResponse(document, status_code=202, headers={"Location": f"/v1/documents/{document['id']}"})


def _id(text: str) -> int:
    """Reads a document's id; what can't be one doesn't exist."""
    number = int(text) if text.isascii() and text.isdecimal() and len(text) <= 16 else 0
    if not 1 <= number <= MAX_ID:
        raise NotFound(
            f"there is no document {text[:64]}", reason="DOCUMENT_NOT_FOUND", metadata={"document_ids": text[:64]}
        )
    return number


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
