"""`/livez`, `/readyz`, and the page at `/docs`. None of them asks for a key."""

import html
from importlib import resources

from fastapi import APIRouter, Depends, Request, Response
from fastapi.responses import HTMLResponse, JSONResponse

from citewire_gateway.api.dependencies import ServicesDep
from citewire_gateway.api.schemas import Health, Readiness
from citewire_http.api.openapi import problems
from citewire_http.api.parameters import check_parameters
from citewire_http.api.problems import problem_response
from citewire_kit.errors import NotFound, Unavailable

router = APIRouter(tags=["system"], dependencies=[Depends(check_parameters)])


@router.get("/livez", summary="Is the process alive", response_description="It is.")
async def livez() -> Health:
    """Answers as long as the process can answer; it asks nobody."""
    return Health(status="ok")


@router.get(
    "/readyz",
    summary="Does everything work",
    response_model=Readiness,
    response_description="It does.",
    responses=problems(503),
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
    """The API as a page that needs no other server, where requests can be tried."""
    page = _PAGE.format(title=html.escape(request.app.title))
    return HTMLResponse(page, headers={"Content-Security-Policy": _POLICY})


@router.get("/docs/{name}", include_in_schema=False)
async def docs_asset(name: str) -> Response:
    """A file of the page."""
    asset = _ASSETS.get(name)
    if asset is None:
        raise NotFound(f"there is nothing at /docs/{name[:64]}", reason="ROUTE_NOT_FOUND")
    content, media_type = asset
    return Response(content, media_type=media_type, headers={"Cache-Control": "public, max-age=3600"})


def _assets() -> dict[str, tuple[bytes, str]]:
    folder = resources.files("fastapi_swagger") / "resources"
    types = {"swagger-ui-bundle.js": "text/javascript", "swagger-ui.css": "text/css"}
    files = {name: ((folder / name).read_bytes(), media_type) for name, media_type in types.items()}
    return files | {"start.js": (_START.encode(), "text/javascript")}


_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; "
    "connect-src 'self'; frame-ancestors 'none'"
)
_PAGE = """<!doctype html>
<html lang="en">
<head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title><link rel="stylesheet" href="docs/swagger-ui.css"></head>
<body><div id="page"></div><script src="docs/swagger-ui-bundle.js"></script><script src="docs/start.js"></script></body>
</html>
"""
_START = """SwaggerUIBundle({url: "openapi.json", dom_id: "#page", deepLinking: true, tryItOutEnabled: true,
  docExpansion: "none", validatorUrl: null});
"""
_ASSETS = _assets()
