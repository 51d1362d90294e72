"""`/v1/collections`: named groups of documents."""

from typing import Annotated

from fastapi import APIRouter, Depends, Query, Response
from fastapi.responses import JSONResponse

from citewire_gateway.api.dependencies import ServicesDep, TenantDep, authenticate
from citewire_gateway.api.library_docs import collection_body_docs, collections_docs
from citewire_gateway.api.operation_docs import json_docs
from citewire_gateway.api.queries import PageSize, PageToken
from citewire_gateway.api.schemas import CollectionBody
from citewire_gateway.http.bodies import json_body, unstorable
from citewire_kit.errors import NotFound

router = APIRouter(tags=["collections"], dependencies=[Depends(authenticate)])

_MAX_NAME = 128


@router.get("/v1/collections", summary="List collections", **collections_docs())
async def list_collections(
    _tenant: TenantDep, services: ServicesDep, page_size: PageSize = None, page_token: PageToken = None
) -> Response:
    """Returns collections by name."""
    return JSONResponse(await services.corpus.list_collections(page_size or 0, page_token or ""))


@router.post("/v1/collections", summary="Create a collection", status_code=201, **collection_body_docs(201))
async def create_collection(
    _tenant: TenantDep, services: ServicesDep, body: Annotated[CollectionBody, Depends(json_body(CollectionBody))]
) -> Response:
    """Creates an empty collection. Uploads also create the one that they name."""
    return JSONResponse(await services.corpus.create_collection(body.name), status_code=201)


@router.patch("/v1/collections/{name:path}", summary="Rename a collection", **collection_body_docs(200))
async def rename_collection(
    name: str,
    _tenant: TenantDep,
    services: ServicesDep,
    body: Annotated[CollectionBody, Depends(json_body(CollectionBody))],
) -> Response:
    """Renames a collection."""
    return JSONResponse(await services.corpus.rename_collection(_existing(name), body.name))


@router.delete(
    "/v1/collections/{name:path}",
    summary="Delete a collection",
    **json_docs("How many documents were deleted with it.", {"documents_deleted": 0}, conflicts=True, missing=True),
)
async def delete_collection(
    name: str,
    _tenant: TenantDep,
    services: ServicesDep,
    force: Annotated[bool, Query(description="Deletes its documents too.")] = False,
) -> Response:
    """Deletes an empty collection, or with `force` one with all its documents."""
    deleted = await services.corpus.delete_collection(_existing(name), force=force)
    return JSONResponse({"documents_deleted": deleted})


def _existing(name: str) -> str:
    if not 1 <= len(name) <= _MAX_NAME or unstorable(name) is not None:
        raise NotFound("there is no such collection", reason="COLLECTION_NOT_FOUND")
    return name
