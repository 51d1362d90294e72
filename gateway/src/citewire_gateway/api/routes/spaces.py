"""`/v1/spaces`: the embedding spaces of an organisation, how far each is filled, and what its scores mean."""

from typing import Annotated

from citewire.common.v1 import common_pb2
from fastapi import APIRouter, Depends, Response
from fastapi.responses import JSONResponse

from citewire_gateway.api.dependencies import ServicesDep, TenantDep, authenticate, require_admin
from citewire_gateway.api.library_docs import calibration_docs, spaces_docs
from citewire_gateway.api.schemas import CalibrationBody
from citewire_gateway.http.bodies import json_body

router = APIRouter(tags=["spaces"], dependencies=[Depends(authenticate)])


@router.get("/v1/spaces", summary="List embedding spaces", **spaces_docs())
async def list_spaces(_tenant: TenantDep, services: ServicesDep) -> Response:
    """Returns the live space, the one that is being prepared, the previous one and those of further models.

    Documents that lack vectors (`missing`) are embedded in the background, those of the `previous` space aside.
    `calibration` is what was measured of a space's scores: null where nobody did, without `measured_at` where it came
    with the server.
    """
    return JSONResponse(await services.corpus.list_spaces())


@router.put("/v1/spaces/calibration", summary="Keep what a space's scores mean", **calibration_docs())
async def put_calibration(
    tenant: TenantDep,
    services: ServicesDep,
    body: Annotated[CalibrationBody, Depends(json_body(CalibrationBody))],
) -> Response:
    """Keeps thresholds that were measured, in place of those that are kept; they count from the next request on.

    `"calibration": null` removes them, so that those that come with the server count again. Owners and admins may.
    """
    require_admin(tenant)
    space = common_pb2.EmbeddingSpace(**body.space.model_dump())
    calibration = None if body.calibration is None else body.calibration.model_dump(exclude_none=True)
    return JSONResponse(await services.corpus.set_calibration(space, calibration))
