"""The page at `/`: files that were built from `web/` (`make web`), none of which asks for a key."""

from importlib import resources
from typing import Final

from fastapi import APIRouter, Request, Response

from citewire_http.packaged_files import PackagedFiles

router = APIRouter()

_TYPES: Final = {
    "html": "text/html; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "mjs": "text/javascript; charset=utf-8",
    "css": "text/css; charset=utf-8",
    "svg": "image/svg+xml",
    "txt": "text/plain; charset=utf-8",
}
_POLICY: Final = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self'",
        "connect-src 'self'",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
        # No text becomes a script or an element but through a policy; the one there is takes one address, of the script
        # that reads PDFs beside the page.
        "require-trusted-types-for 'script'",
        "trusted-types citewire-worker",
    )
)
_IMMUTABLE: Final = "public, max-age=31536000, immutable"
_REVALIDATED: Final = "no-cache"
_METHODS: Final = ["GET", "HEAD"]


@router.api_route("/", methods=_METHODS, include_in_schema=False)
async def page(request: Request) -> Response:
    """The page. Whatever a link asks of it in its query is read there."""
    return _FILES.respond(request, "index.html")


@router.api_route("/assets/{name}", methods=_METHODS, include_in_schema=False)
async def page_asset(request: Request, name: str) -> Response:
    """A script or style of the page."""
    return _FILES.respond(request, f"assets/{name}")


@router.api_route("/icon.svg", methods=_METHODS, include_in_schema=False)
@router.api_route("/licences.txt", methods=_METHODS, include_in_schema=False)
async def page_file(request: Request) -> Response:
    """Another file of the page."""
    return _FILES.respond(request, request.url.path.removeprefix("/"))


def _headers(path: str) -> dict[str, str]:
    return {
        "Content-Type": _TYPES[path.rpartition(".")[2]],
        # The names of assets hold a hash of what is in them.
        "Cache-Control": _IMMUTABLE if path.startswith("assets/") else _REVALIDATED,
        "Content-Security-Policy": _POLICY,
        "Cross-Origin-Opener-Policy": "same-origin",
        "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
    }


_FILES: Final = PackagedFiles(resources.files("citewire_gateway") / "page", _headers)
