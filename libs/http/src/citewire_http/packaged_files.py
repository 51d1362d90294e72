"""A package's files as a browser gets them: compressed once, with a validator, each under the same headers."""

import asyncio
import gzip
import hashlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from importlib.resources.abc import Traversable
from typing import Final

from starlette.requests import Request
from starlette.responses import Response

from citewire_kit.errors import NotFound

_PACKED: Final = "application/octet-stream"


@dataclass(frozen=True, slots=True)
class _File:
    content: bytes
    is_compressible: bool
    """Whether compression is worthwhile: fonts and tables are already compressed."""
    headers: Mapping[str, str]


class PackagedFiles:
    """The files of a folder, read on creation and identified by their path in it, with `/`."""

    def __init__(self, folder: Traversable, headers_of: Callable[[str], Mapping[str, str]]) -> None:
        """`headers_of` returns the headers of a path, `Content-Type` at least."""
        self._files = {path: _packaged(content, headers_of(path)) for path, content in _walk(folder)}
        self._compressed: dict[str, bytes] = {}

    async def respond(self, request: Request, path: str) -> Response:
        """Returns the response to a request for a file, which is compressed when it is first requested.

        Raises:
            NotFound: There is none at that path (reason `ROUTE_NOT_FOUND`).
        """
        file = self._files.get(path)
        if file is None:
            raise NotFound(f"there is nothing at {request.url.path[:64]}", reason="ROUTE_NOT_FOUND")
        known = {tag.strip() for tag in request.headers.get("if-none-match", "").split(",")}
        if file.headers["ETag"] in known:
            return Response(status_code=304, headers=file.headers)
        if not file.is_compressible or "gzip" not in request.headers.get("accept-encoding", ""):
            return Response(file.content, headers=file.headers)
        compressed = self._compressed.get(path)
        if compressed is None:  # in a thread: a large script takes tens of milliseconds
            compressed = self._compressed[path] = await asyncio.to_thread(gzip.compress, file.content, 6, mtime=0)
        return Response(compressed, headers={**file.headers, "Content-Encoding": "gzip"})


def _packaged(content: bytes, headers: Mapping[str, str]) -> _File:
    tag = f'W/"{hashlib.sha256(content).hexdigest()[:24]}"'
    if headers["Content-Type"] == _PACKED:
        return _File(content, is_compressible=False, headers={**headers, "ETag": tag})
    return _File(content, is_compressible=True, headers={**headers, "ETag": tag, "Vary": "Accept-Encoding"})


def _walk(folder: Traversable, prefix: str = "") -> Iterator[tuple[str, bytes]]:
    for entry in folder.iterdir():
        if entry.is_dir():
            yield from _walk(entry, f"{prefix}{entry.name}/")
        else:
            yield f"{prefix}{entry.name}", entry.read_bytes()
