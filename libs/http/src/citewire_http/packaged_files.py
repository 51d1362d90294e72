"""A package's files as a browser gets them: compressed once, with a validator, each under the same headers."""

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
    compressed: bytes | None
    """None if compression is useless: fonts and tables are already compressed."""
    headers: Mapping[str, str]


class PackagedFiles:
    """The files of a folder, read on creation and identified by their path in it, with `/`."""

    def __init__(self, folder: Traversable, headers_of: Callable[[str], Mapping[str, str]]) -> None:
        """`headers_of` returns the headers of a path, `Content-Type` at least."""
        self._files = {path: _packaged(content, headers_of(path)) for path, content in _walk(folder)}

    def respond(self, request: Request, path: str) -> Response:
        """Returns the response to a request for a file.

        Raises:
            NotFound: There is none at that path (reason `ROUTE_NOT_FOUND`).
        """
        file = self._files.get(path)
        if file is None:
            raise NotFound(f"there is nothing at {request.url.path[:64]}", reason="ROUTE_NOT_FOUND")
        known = {tag.strip() for tag in request.headers.get("if-none-match", "").split(",")}
        if file.headers["ETag"] in known:
            return Response(status_code=304, headers=file.headers)
        if file.compressed is not None and "gzip" in request.headers.get("accept-encoding", ""):
            return Response(file.compressed, headers={**file.headers, "Content-Encoding": "gzip"})
        return Response(file.content, headers=file.headers)


def _packaged(content: bytes, headers: Mapping[str, str]) -> _File:
    tag = f'W/"{hashlib.sha256(content).hexdigest()[:24]}"'
    if headers["Content-Type"] == _PACKED:
        return _File(content, None, {**headers, "ETag": tag})
    compressed = gzip.compress(content, compresslevel=6, mtime=0)
    return _File(content, compressed, {**headers, "ETag": tag, "Vary": "Accept-Encoding"})


def _walk(folder: Traversable, prefix: str = "") -> Iterator[tuple[str, bytes]]:
    for entry in folder.iterdir():
        if entry.is_dir():
            yield from _walk(entry, f"{prefix}{entry.name}/")
        else:
            yield f"{prefix}{entry.name}", entry.read_bytes()
