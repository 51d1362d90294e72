"""`/livez` and `/readyz`. Neither requires a key."""

from fastapi import APIRouter, Depends, Response
from fastapi.responses import JSONResponse

from citewire_gateway.api.dependencies import ServicesDep
from citewire_gateway.api.schemas import Health, Readiness
from citewire_http.api.openapi import problems
from citewire_http.api.parameters import check_parameters
from citewire_http.api.problems import problem_response
from citewire_kit.errors import Unavailable

router = APIRouter(tags=["system"], dependencies=[Depends(check_parameters)])


@router.get("/livez", summary="Check that the process is alive", response_description="It is alive.")
async def livez() -> Health:
    """Succeeds as long as the process responds; it checks nothing else."""
    return Health(status="ok")


@router.get(
    "/readyz",
    summary="Check that everything works",
    response_model=Readiness,
    response_description="Everything works.",
    responses=problems(503),
)
async def readyz(services: ServicesDep) -> Response:
    """Checks the database and the three services; a 503 names what is missing."""
    if services.drain.draining:
        error = Unavailable("the server is shutting down", reason="SHUTTING_DOWN", retry_after=2.0)
        return problem_response(error)
    parts = await services.health.look()
    missing = [name for name, state in parts.items() if state != "ok"]
    if missing:
        error = Unavailable(f"not ready: {', '.join(missing)}", reason="SERVICE_UNAVAILABLE", retry_after=2.0)
        return problem_response(error, parts)
    return JSONResponse({"status": "ready", **parts})
