"""`/v1/vector_stores` and `/v1/files`: collections and documents, as untouched clients of OpenAI call them."""

from dataclasses import replace
from typing import Annotated, Literal

from citewire.retriever.v1 import corpus_pb2
from fastapi import APIRouter, Depends, Query, Response
from google.protobuf.field_mask_pb2 import FieldMask

from citewire_accounts.api.dependencies import TenantDep, authenticate
from citewire_accounts.tenants.providers import ProviderType
from citewire_dialects.json_values import struct_from_json
from citewire_dialects.openai_filters import native_filter
from citewire_dialects.schemas.search import SearchBody
from citewire_dialects.schemas.vector_stores import (
    FileObject,
    FilePage,
    Gone,
    StoreFileBody,
    StoreMatch,
    StoreMatches,
    StoreSearchBody,
    VectorStore,
    VectorStoreBody,
    VectorStoreFile,
    VectorStoreFilePage,
    VectorStorePage,
    file_status,
)
from citewire_gateway.api.dependencies import Services, ServicesDep, read_id
from citewire_gateway.api.routes import collections, documents
from citewire_gateway.api.routes.search import require_query
from citewire_gateway.api.uploads import UploadCallDep, upload_header
from citewire_gateway.chat.retrieval import embed_and_search
from citewire_http.api.openapi import REF, problems
from citewire_http.api.parameters import Clean
from citewire_http.bodies import JsonBody
from citewire_http.departures import CancellingRoute
from citewire_http.multipart import Form
from citewire_kit.audit import touch
from citewire_kit.errors import FailedPrecondition, NotFound, Violations, invalid_field

router = APIRouter(route_class=CancellingRoute, dependencies=[Depends(authenticate)])

_PAGE = 1000
_PURPOSES = ("user_data", "assistants")
After = Annotated[str | None, Query(max_length=200, description="Id of the previous page's last entry."), Clean]
Limit = Annotated[int, Query(ge=1, le=100, description="Maximum number of entries per page.")]
MoreFiles = Annotated[int, Query(ge=1, le=10_000, description="Maximum number of entries per page.")]
Newest = Annotated[Literal["desc"], Query(description="Newest first; no other order.")]
ByName = Annotated[Literal["asc"] | None, Query(description="By name; no other order.")]
Purpose = Annotated[
    Literal["user_data", "assistants"] | None, Query(description="Files are allowed only in questions.")
]


@router.get("/v1/vector_stores", summary="List collections (OpenAI)", tags=["collections"])
async def list_stores(
    services: ServicesDep, limit: Limit = 20, after: After = None, order: ByName = None
) -> VectorStorePage:
    """Returns collections as vector stores, by name."""
    del order

    if after is not None and await services.corpus.find_collection(after) is None:
        raise invalid_field("after", "must be the id of a vector store")
    request = corpus_pb2.ListCollectionsRequest(page_size=limit, after=after)
    listed = await services.corpus.list_collections(request)
    return VectorStorePage.of(
        [VectorStore.of(entry) for entry in listed.collections], has_more=bool(listed.next_page_token)
    )


@router.post("/v1/vector_stores", summary="Create a collection (OpenAI)", tags=["collections"], responses=problems(409))
async def create_store(
    services: ServicesDep, body: Annotated[VectorStoreBody, Depends(JsonBody(VectorStoreBody))]
) -> VectorStore:
    """Creates an empty collection; its name is the vector store's id."""
    touch(f"collection:{body.name}")
    request = corpus_pb2.CreateCollectionRequest(name=body.name)
    return VectorStore.of(await services.corpus.create_collection(request))


@router.post(
    "/v1/vector_stores/{name:path}/search",
    summary="Search a collection (OpenAI)",
    tags=["search"],
    responses=problems(402, 404, 503),
)
async def search_store(
    name: str,
    tenant: TenantDep,
    services: ServicesDep,
    body: Annotated[StoreSearchBody, Depends(JsonBody(StoreSearchBody))],
) -> StoreMatches:
    """Returns the best passages of a collection, by meaning, best first."""
    await _find_store(services, name)
    (query,), violations, ranking = body.query, Violations(), body.ranking_options
    require_query(violations, query, services.settings)
    violations.raise_if_any()
    asked = SearchBody(
        query=query,
        top_k=body.max_num_results,
        collection=name,
        filter=None if body.filters is None else native_filter(body.filters, "filters"),
        min_score=None if ranking is None else ranking.score_threshold,
    )
    route = await services.providers.route(tenant, {ProviderType.EMBEDDING})
    retrieval = await embed_and_search(services.embedder, services.retriever, asked.to_proto(), query, route)
    touch(*(f"document:{result.chunk.document_id}" for result in retrieval.results))
    return StoreMatches(
        object="vector_store.search_results.page",
        search_query=[query],
        data=[StoreMatch.of(result) for result in retrieval.results],
        has_more=False,
        next_page=None,
    )


@router.get(
    "/v1/vector_stores/{name:path}/files",
    summary="List a collection's documents (OpenAI)",
    tags=["documents"],
    responses=problems(404),
)
async def list_store_files(
    name: str,
    services: ServicesDep,
    limit: Limit = 20,
    after: After = None,
    order: Newest = "desc",
    filter: Annotated[Literal["in_progress", "completed", "failed", "cancelled"] | None, Query()] = None,
) -> VectorStoreFilePage:
    """Returns the documents of a collection, newest first."""
    del order
    await _find_store(services, name)
    page, more = await _documents(services, after, limit, collection=name, status=filter)
    return VectorStoreFilePage.of([VectorStoreFile.of(document) for document in page], has_more=more)


@router.post(
    "/v1/vector_stores/{name:path}/files",
    summary="Add a document to a collection (OpenAI)",
    tags=["documents"],
    responses=problems(404, 409, 507),
)
async def add_store_file(
    name: str, services: ServicesDep, body: Annotated[StoreFileBody, Depends(JsonBody(StoreFileBody))]
) -> VectorStoreFile:
    """Adds a document to a collection; a document can be in at most one."""
    await _find_store(services, name)
    document = await _find_file(services, body.file_id)
    if document.collection not in ("", name):
        raise FailedPrecondition(
            f"the file is in the vector store {document.collection!r}, and can only be in one: remove it first",
            reason="WRONG_STATE",
        )
    document = corpus_pb2.Document(document_id=document.document_id, collection=name)
    paths = ["collection"]
    if body.attributes is not None:
        document.metadata.CopyFrom(struct_from_json(body.attributes))
        paths.append("metadata")
    return VectorStoreFile.of(await _update(services, document, *paths))


@router.get(
    "/v1/vector_stores/{name:path}/files/{file_id}",
    summary="Get a collection's document (OpenAI)",
    tags=["documents"],
    responses=problems(404),
)
async def get_store_file(name: str, file_id: str, services: ServicesDep) -> VectorStoreFile:
    """Returns a document of a collection."""
    return VectorStoreFile.of(await _find_file(services, file_id, collection=name))


@router.delete(
    "/v1/vector_stores/{name:path}/files/{file_id}",
    summary="Take a document out of a collection (OpenAI)",
    tags=["documents"],
    responses=problems(404),
)
async def remove_store_file(name: str, file_id: str, services: ServicesDep) -> Gone:
    """Takes a document out of its collection; the document stays."""
    document = await _find_file(services, file_id, collection=name)
    await _update(services, corpus_pb2.Document(document_id=document.document_id), "collection")
    return Gone(id=file_id, object="vector_store.file.deleted", deleted=True)


@router.get(
    "/v1/vector_stores/{name:path}",
    summary="Get a collection (OpenAI)",
    tags=["collections"],
    responses=problems(404),
)
async def get_store(name: str, services: ServicesDep) -> VectorStore:
    """Returns a collection as a vector store."""
    return VectorStore.of(await _find_store(services, name))


@router.delete(
    "/v1/vector_stores/{name:path}",
    summary="Delete an empty collection (OpenAI)",
    tags=["collections"],
    responses=problems(404, 409),
)
async def delete_store(name: str, tenant: TenantDep, services: ServicesDep) -> Gone:
    """Deletes an empty collection; one with documents is rejected, because they would be deleted too."""
    await collections.delete_collection(name, tenant, services)
    return Gone(id=name, object="vector_store.deleted", deleted=True)


@router.post(
    "/v1/files",
    summary="Add a document (OpenAI)",
    tags=["documents"],
    responses=problems(400, 409, 413, 415, 503, 507),
    openapi_extra={
        "requestBody": {
            "required": True,
            "content": {"multipart/form-data": {"schema": {"$ref": f"{REF}FileForm"}}},
        }
    },
)
async def create_file(call: UploadCallDep) -> FileObject:
    """Stores a file as a document; further fields are those of `POST /v1/documents`, including `collection`."""
    stored = await call.store_form(None, read=_header)
    touch(f"document:{stored.id}")
    return FileObject.of(await call.services.corpus.get(stored.id))


@router.get("/v1/files", summary="List documents (OpenAI)", tags=["documents"])
async def list_files(
    services: ServicesDep,
    limit: MoreFiles = 1000,
    after: After = None,
    order: Newest = "desc",
    purpose: Purpose = None,
) -> FilePage:
    """Returns documents as files, newest first."""
    del order, purpose
    page, more = await _documents(services, after, limit)
    return FilePage.of([FileObject.of(document) for document in page], has_more=more)


@router.get("/v1/files/{file_id}", summary="Get a document (OpenAI)", tags=["documents"], responses=problems(404))
async def get_file(file_id: str, services: ServicesDep) -> FileObject:
    """Returns a document as a file."""
    return FileObject.of(await _find_file(services, file_id))


@router.delete("/v1/files/{file_id}", summary="Delete a document (OpenAI)", tags=["documents"], responses=problems(404))
async def delete_file(file_id: str, tenant: TenantDep, services: ServicesDep) -> Gone:
    """Deletes a document with all its versions, and the answers that were written from it."""
    await documents.delete_document(file_id, tenant, services)
    return Gone(id=file_id, object="file", deleted=True)


@router.get(
    "/v1/files/{file_id}/content",
    summary="Download the original (OpenAI)",
    tags=["documents"],
    response_class=Response,
    response_description="The original bytes.",
    responses={
        200: {"content": {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}}},
        **problems(404),
    },
)
async def get_file_content(file_id: str, tenant: TenantDep, services: ServicesDep) -> Response:
    """Returns the original bytes of a document's live version."""
    return await documents.get_content(file_id, tenant, services)


def _header(form: Form, document_id: int | None) -> corpus_pb2.UploadHeader:
    """Reads an upload's fields; OpenAI's `purpose` must be one for questions."""
    purpose = form.fields.get("purpose", [])
    if len(purpose) != 1 or purpose[0] not in _PURPOSES:
        raise invalid_field("purpose", f"must be {' or '.join(_PURPOSES)}: files are only for questions")
    fields = {name: values for name, values in form.fields.items() if name != "purpose"}
    return upload_header(replace(form, fields=fields), document_id)


async def _find_store(services: Services, name: str) -> corpus_pb2.Collection:
    """Finds a collection that the caller may see."""
    store = await services.corpus.find_collection(name)
    if store is None:
        raise NotFound(f"there is no vector store {name[:128]!r}", reason="COLLECTION_NOT_FOUND")
    return store


async def _find_file(services: Services, file_id: str, *, collection: str | None = None) -> corpus_pb2.Document:
    """Finds a document that the caller may see; with `collection`, one that is in it."""
    number = read_id(file_id)
    document = None if number is None else await services.corpus.get(number)
    if document is None or collection not in (None, document.collection):
        raise NotFound(f"there is no file {file_id[:64]}", reason="DOCUMENT_NOT_FOUND")
    touch(f"document:{number}")
    return document


async def _update(services: Services, document: corpus_pb2.Document, *paths: str) -> corpus_pb2.Document:
    request = corpus_pb2.UpdateDocumentRequest(document=document, update_mask=FieldMask(paths=paths))
    return await services.corpus.update(request)


async def _documents(
    services: Services, after: str | None, limit: int, *, collection: str = "", status: str | None = None
) -> tuple[list[corpus_pb2.Document], bool]:
    """Returns documents after the one with that id, and whether more follow."""
    first = 0 if after is None else read_id(after)
    if first is None:
        raise invalid_field("after", "must be the id of a file")
    size = _PAGE if status else min(limit + 1, _PAGE)
    request = corpus_pb2.ListDocumentsRequest(page_size=size, collection=collection, after=first)
    documents = list[corpus_pb2.Document]()
    while len(documents) <= limit:
        listed = await services.corpus.list(request)
        documents += [document for document in listed.documents if status in (None, file_status(document))]
        request.page_token = listed.next_page_token
        if not request.page_token:
            break
    return documents[:limit], len(documents) > limit
