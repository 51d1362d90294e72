"""A page at `/`: packaged files that a build made, none of which asks for a key."""

from importlib.resources.abc import Traversable
from typing import Final

from fastapi import APIRouter, Request, Response

from citewire_http.packaged_files import PackagedFiles

_TYPES: Final = {
    "html": "text/html; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "mjs": "text/javascript; charset=utf-8",
    "css": "text/css; charset=utf-8",
    "svg": "image/svg+xml",
    "txt": "text/plain; charset=utf-8",
    "pfb": "application/octet-stream",
    "bcmap": "application/octet-stream",
}
_POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; font-src 'self'; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types "
)
_IMMUTABLE: Final = "public, max-age=31536000, immutable"
_REVALIDATED: Final = "no-cache"
_METHODS: Final = ["GET", "HEAD"]


def page_router(folder: Traversable, trusted_types: str) -> APIRouter:
    """Returns the routes of a page: `index.html` at `/`, its assets, icon and licences.

    Args:
        folder: Folder with its files; names under `assets` contain a hash of their content, or a version.
        trusted_types: Names of the policies that may create a script or an element from text.
    """
    router = APIRouter()

    def headers(path: str) -> dict[str, str]:
        return {
            "Content-Type": _TYPES[path.rpartition(".")[2]],
            "Cache-Control": _IMMUTABLE if path.startswith("assets/") else _REVALIDATED,
            "Content-Security-Policy": _POLICY + trusted_types,
            "Cross-Origin-Opener-Policy": "same-origin",
            "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
        }

    files = PackagedFiles(folder, headers)

    async def page(request: Request) -> Response:
        """The page. It reads the query of its address itself."""
        return await files.respond(request, "index.html")

    async def asset(request: Request, name: str) -> Response:
        """A script or style of the page."""
        return await files.respond(request, f"assets/{name}")

    async def file(request: Request) -> Response:
        """Another file of the page."""
        return await files.respond(request, request.url.path.removeprefix("/"))

    for path, endpoint in (("/", page), ("/assets/{name:path}", asset), ("/icon.svg", file), ("/licences.txt", file)):
        router.add_api_route(path, endpoint, methods=_METHODS, include_in_schema=False)
    return router
