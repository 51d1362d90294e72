"""`/v1/collections`: named groups of documents; `/v1/spaces`: the vectors that documents have."""

from collections.abc import Sequence
from typing import Annotated

from citewire.common.v1 import common_pb2
from citewire.embedder.v1 import embedder_pb2
from citewire.retriever.v1 import corpus_pb2
from fastapi import APIRouter, Depends, Query

from citewire_accounts.api.dependencies import TenantDep, authenticate, require_admin
from citewire_dialects.schemas.grants import GrantList, GrantsBody
from citewire_dialects.schemas.library import (
    Collection,
    CollectionBody,
    CollectionDeleted,
    CollectionList,
    CollectionPatch,
)
from citewire_dialects.schemas.spaces import (
    CalibrationBody,
    PrepareBody,
    Space,
    SpaceChoice,
    SpaceList,
    SpaceRole,
    SwitchBody,
)
from citewire_gateway.api.dependencies import ServicesDep
from citewire_http.api.openapi import problems
from citewire_http.api.pages import PagesDep
from citewire_http.api.parameters import PageSize, PageToken, SearchText
from citewire_http.bodies import JsonBody, unstorable
from citewire_http.departures import CancellingRoute
from citewire_kit.audit import touch
from citewire_kit.errors import NotFound, invalid_field

router = APIRouter(route_class=CancellingRoute, dependencies=[Depends(authenticate)])

_MAX_NAME = 128


@router.get("/v1/collections", summary="List collections", tags=["collections"])
async def list_collections(
    services: ServicesDep, page_size: PageSize = None, page_token: PageToken = None, q: SearchText = None
) -> CollectionList:
    """Returns collections by name; `q` searches names."""
    request = corpus_pb2.ListCollectionsRequest(page_size=page_size or 0, page_token=page_token or "", q=q or "")
    return CollectionList.read(await services.corpus.list_collections(request))


@router.post(
    "/v1/collections", summary="Create a collection", tags=["collections"], status_code=201, responses=problems(409)
)
async def create_collection(
    services: ServicesDep, body: Annotated[CollectionBody, Depends(JsonBody(CollectionBody))]
) -> Collection:
    """Creates an empty collection. Uploads also create the one that they name.

    With `enrich`, missing summaries, kinds, categories and tags of its documents are filled in the background.
    """
    touch(f"collection:{body.name}")
    return Collection.read(await services.corpus.create_collection(body.to_message(corpus_pb2.CreateCollectionRequest)))


@router.patch(
    "/v1/collections/{name:path}", summary="Change a collection", tags=["collections"], responses=problems(404, 409)
)
async def update_collection(
    name: str, services: ServicesDep, body: Annotated[CollectionPatch, Depends(JsonBody(CollectionPatch))]
) -> Collection:
    """Renames a collection, or switches `enrich` on or off; absent fields stay unchanged.

    Switching it on also enriches existing documents; switching it off keeps what was filled.
    """
    request = corpus_pb2.UpdateCollectionRequest(name=_existing(name), new_name=body.name, enrich=body.enrich)
    return Collection.read(await services.corpus.update_collection(request))


@router.delete(
    "/v1/collections/{name:path}", summary="Delete a collection", tags=["collections"], responses=problems(404, 409)
)
async def delete_collection(
    name: str,
    tenant: TenantDep,
    services: ServicesDep,
    force: Annotated[bool, Query(description="Deletes its documents too.")] = False,
) -> CollectionDeleted:
    """Deletes an empty collection, or with `force` one with all its documents."""
    if force:
        await services.eraser.announce(tenant)
    deleted = await services.corpus.delete_collection(_existing(name), force=force)
    services.pipeline.forget_library(tenant.org_id)
    return CollectionDeleted(documents_deleted=deleted)


@router.get(
    "/v1/collections/{name:path}/grants",
    summary="Get a collection's grants",
    tags=["collections"],
    responses=problems(403, 404),
)
async def get_grants(name: str, services: ServicesDep) -> GrantList:
    """Returns a collection's grants, for those who may manage it; without any, it is open to everybody."""
    return GrantList.read(await services.corpus.grants(_existing(name)))


@router.put(
    "/v1/collections/{name:path}/grants",
    summary="Replace a collection's grants",
    tags=["collections"],
    responses=problems(403, 404),
)
async def put_grants(
    name: str, services: ServicesDep, body: Annotated[GrantsBody, Depends(JsonBody(GrantsBody))]
) -> GrantList:
    """Replaces a collection's grants to users, groups or everyone, effective from the next request.

    The first grant closes the collection to everybody else except owners and admins. Requires `manage`.
    """
    return GrantList.read(await services.corpus.set_grants(body.to_proto(_existing(name))))


@router.get("/v1/spaces", summary="List embedding spaces", tags=["spaces"])
async def list_spaces(services: ServicesDep, pages: PagesDep) -> SpaceList:
    """Returns the live space, the one being prepared, the previous one and those of further models.

    Documents that lack vectors (`missing`) are embedded in the background, except in the `previous` space.
    `calibration` has the measured values of a space's scores: null if there are none, without `measured_at` if they
    come with the server. `q` searches models.
    """
    spaces, token = pages.page(
        [Space.from_proto(message) for message in await services.corpus.list_spaces()],
        key=lambda space: (str([*SpaceRole].index(space.role)), space.model, space.revision, str(space.dimensions)),
        text=lambda space: space.model,
    )
    return SpaceList(spaces=spaces, next_page_token=token)


@router.post("/v1/spaces:prepare", summary="Prepare another space", tags=["spaces"], responses=problems(403, 404, 409))
async def prepare_space(
    tenant: TenantDep, services: ServicesDep, body: Annotated[PrepareBody, Depends(JsonBody(PrepareBody))]
) -> Space:
    """Starts embedding the library in another space, in the background; searches stay in the live one.

    It replaces a space that was being prepared; preparing the live one cancels that. A model of the server is
    identified by its name; the space of an organisation's own provider also by revision and dimensions. For owners and
    admins.
    """
    require_admin(tenant)
    space = _full_space(body.space)
    if space is None:
        models = await services.embedder.list_models()
        offered = [model.space for model in models if model.capability == embedder_pb2.CAPABILITY_EMBED]
        listed = [info.space for info in await services.corpus.list_spaces()]
        space = _matching_space(body.space, [*offered, *(space for space in listed if space not in offered)])
    return Space.from_proto(await services.corpus.prepare_space(space))


@router.post("/v1/spaces:switch", summary="Search in another space", tags=["spaces"], responses=problems(403, 404, 409))
async def switch_space(
    tenant: TenantDep, services: ServicesDep, body: Annotated[SwitchBody, Depends(JsonBody(SwitchBody))]
) -> Space:
    """Makes a filled space the live one from the next search on; the former one is kept as `previous`.

    While documents lack vectors in it, the answer is 409 `WRONG_STATE`, unless `force` is true. For owners and
    admins.
    """
    require_admin(tenant)
    space = _full_space(body.space)
    if space is None:
        space = _matching_space(body.space, [info.space for info in await services.corpus.list_spaces()])
    return Space.from_proto(await services.corpus.switch_space(space, force=body.force))


@router.put(
    "/v1/spaces/calibration",
    summary="Store a space's calibration",
    tags=["spaces"],
    responses=problems(403, 404, 409),
)
async def put_calibration(
    tenant: TenantDep, services: ServicesDep, body: Annotated[CalibrationBody, Depends(JsonBody(CalibrationBody))]
) -> Space:
    """Stores measured thresholds, replacing the stored ones, from the next request on.

    `"calibration": null` removes them, so that the server's own apply again. For owners and admins.
    """
    require_admin(tenant)
    space = body.space.to_message(common_pb2.EmbeddingSpace)
    calibration = None if body.calibration is None else body.calibration.to_proto()
    return Space.from_proto(await services.corpus.set_calibration(space, calibration))


def _full_space(choice: SpaceChoice) -> common_pb2.EmbeddingSpace | None:
    """The space, if it is fully specified."""
    if choice.revision is None or choice.dimensions is None:
        return None
    return common_pb2.EmbeddingSpace(model=choice.model, revision=choice.revision, dimensions=choice.dimensions)


def _matching_space(choice: SpaceChoice, candidates: Sequence[common_pb2.EmbeddingSpace]) -> common_pb2.EmbeddingSpace:
    """The only candidate that matches the given fields."""
    matches = [
        space
        for space in candidates
        if space.model == choice.model
        and choice.revision in (None, space.revision)
        and choice.dimensions in (None, space.dimensions)
    ]
    if not matches:
        names = ", ".join(dict.fromkeys(space.model for space in candidates)) or "none"
        raise NotFound(
            f"there is no such space of the model {choice.model}; there are spaces of: {names}",
            reason="SPACE_NOT_FOUND",
        )
    if len(matches) > 1:
        spaces = ", ".join(f"{space.revision} with {space.dimensions} dimensions" for space in matches)
        raise invalid_field("space", f"must have revision and dimensions: {choice.model} exists as {spaces}")
    return matches[0]


def _existing(name: str) -> str:
    if not 1 <= len(name) <= _MAX_NAME or unstorable(name) is not None:
        raise NotFound("there is no such collection", reason="COLLECTION_NOT_FOUND")
    return name
