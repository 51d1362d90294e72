"""`/livez`, `/readyz`, and the page at `/docs`. None of them asks for a key."""

from typing import Any

from fastapi import APIRouter, Request, Response
from fastapi.responses import HTMLResponse, JSONResponse

from citewire_gateway.api.dependencies import ServicesDep
from citewire_gateway.api.docs_page import render
from citewire_gateway.api.operation_docs import json_docs
from citewire_gateway.api.problems import problem_response
from citewire_kit.errors import Unavailable

router = APIRouter(tags=["system"])

_DOCS_POLICY = "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'"


@router.get("/livez", summary="Is the process alive", **json_docs("It is.", {"status": "ok"}))
async def livez() -> Response:
    """Answers as long as the process can answer; it asks nobody."""
    return JSONResponse({"status": "ok"})


@router.get(
    "/readyz",
    summary="Does everything work",
    **json_docs("It does.", {"status": "ready", "database": "ok", "retriever": "ok"}, unavailable=True),
)
async def readyz(services: ServicesDep) -> Response:
    """Asks the database and the three services; 503 names what is missing."""
    if services.drain.draining:
        error = Unavailable("the server is shutting down", reason="SHUTTING_DOWN", retry_after=2.0)
        return problem_response(error)
    parts = await services.health.look()
    missing = [name for name, state in parts.items() if state != "ok"]
    if missing:
        error = Unavailable(f"not ready: {', '.join(missing)}", reason="SERVICE_UNAVAILABLE", retry_after=2.0)
        return problem_response(error, parts)
    return JSONResponse({"status": "ready", **parts})


@router.get("/docs", include_in_schema=False)
async def docs(request: Request) -> Response:
    """The API as one page that needs no script and no other server."""
    schema: dict[str, Any] = request.app.openapi()
    return HTMLResponse(render(schema), headers={"Content-Security-Policy": _DOCS_POLICY})
