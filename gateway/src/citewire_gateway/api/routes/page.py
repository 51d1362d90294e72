"""The page at `/`: files that were built from `web/` (`make web`), none of which asks for a key."""

import gzip
import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import resources
from importlib.resources.abc import Traversable
from typing import Final

from fastapi import APIRouter, Request, Response

from citewire_kit.errors import NotFound

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


@dataclass(frozen=True, slots=True)
class _File:
    """A file as it is sent."""

    content: bytes
    compressed: bytes
    headers: dict[str, str]

    @classmethod
    def of(cls, path: str, content: bytes) -> "_File":
        headers = {
            "Content-Type": _TYPES[path.rpartition(".")[2]],
            # The names of assets hold a hash of what is in them.
            "Cache-Control": _IMMUTABLE if path.startswith("assets/") else _REVALIDATED,
            "ETag": f'W/"{hashlib.sha256(content).hexdigest()[:24]}"',
            "Vary": "Accept-Encoding",
            "Content-Security-Policy": _POLICY,
            "Cross-Origin-Opener-Policy": "same-origin",
            "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
        }
        return cls(content, gzip.compress(content, compresslevel=6, mtime=0), headers)


@router.api_route("/", methods=_METHODS, include_in_schema=False)
async def page(request: Request) -> Response:
    """The page. Whatever a link asks of it in its query is read there."""
    return _answer(request, "index.html")


@router.api_route("/assets/{name}", methods=_METHODS, include_in_schema=False)
async def page_asset(request: Request, name: str) -> Response:
    """A script or style of the page."""
    return _answer(request, f"assets/{name}")


@router.api_route("/icon.svg", methods=_METHODS, include_in_schema=False)
@router.api_route("/licences.txt", methods=_METHODS, include_in_schema=False)
async def page_file(request: Request) -> Response:
    """Another file of the page."""
    return _answer(request, request.url.path.removeprefix("/"))


def _answer(request: Request, path: str) -> Response:
    file = _FILES.get(path)
    if file is None:
        raise NotFound(f"there is nothing at {request.url.path[:64]}", reason="ROUTE_NOT_FOUND")
    known = {tag.strip() for tag in request.headers.get("if-none-match", "").split(",")}
    if file.headers["ETag"] in known:
        return Response(status_code=304, headers=file.headers)
    if "gzip" in request.headers.get("accept-encoding", ""):
        return Response(file.compressed, headers=file.headers | {"Content-Encoding": "gzip"})
    return Response(file.content, headers=file.headers)


def _walk(folder: Traversable, prefix: str = "") -> Iterator[tuple[str, bytes]]:
    for entry in folder.iterdir():
        if entry.is_dir():
            yield from _walk(entry, f"{prefix}{entry.name}/")
        else:
            yield f"{prefix}{entry.name}", entry.read_bytes()


_FILES: Final = {
    path: _File.of(path, content) for path, content in _walk(resources.files("citewire_gateway").joinpath("page"))
}
