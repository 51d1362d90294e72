"""The page at `/docs`: the API with its requests to try, which needs no other server and asks for no key."""

import html
from importlib import resources

from fastapi import APIRouter, Depends, Request, Response
from fastapi.responses import HTMLResponse

from citewire_http.api.parameters import check_parameters
from citewire_kit.errors import NotFound

router = APIRouter(dependencies=[Depends(check_parameters)])


@router.get("/docs", include_in_schema=False)
async def docs(request: Request) -> Response:
    """The API as a self-contained page on which requests can be tried."""
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
