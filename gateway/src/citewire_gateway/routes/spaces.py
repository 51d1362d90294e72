"""`/v1/spaces`: the embedding spaces of an organisation, and how far each is filled."""

from fastapi import APIRouter, Depends, Response
from fastapi.responses import JSONResponse

from citewire_gateway.web.depends import ServicesDep, TenantDep, authenticate
from citewire_gateway.web.openapi import spaces_docs

router = APIRouter(tags=["spaces"], dependencies=[Depends(authenticate)])


@router.get("/v1/spaces", summary="List embedding spaces", **spaces_docs())
async def list_spaces(_tenant: TenantDep, services: ServicesDep) -> Response:
    """Returns the live space, the one that is being prepared, the previous one and those of further models.

    Documents that lack vectors (`missing`) are embedded in the background, those of the `previous` space aside.
    """
    return JSONResponse(await services.corpus.list_spaces())
