"""Limits of the bodies that other servers send: bytes on the wire, bytes once decoded, and time.

Bodies are decoded here, a piece at a time, because what decodes them elsewhere decodes everything that it is given: a
few hundred kilobytes become gigabytes.
"""

import asyncio
import zlib
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import aclosing
from typing import Final, cast

import httpx2

from citewire_kit.errors import CitewireError, FailedPrecondition

MAX_BODY: Final = 64 * 1024 * 1024
"""Maximum size of a response in bytes, both as sent and as decoded."""
MAX_ERROR_BODY: Final = 64 * 1024
"""Bytes of a decoded error body that are read."""
MAX_ERROR_WIRE: Final = 256 * 1024
"""Bytes of a compressed error body that are read."""
ERROR_BODY_SECONDS: Final = 5.0
"""Maximum time to read an error body, which an SDK reads completely."""

_PIECE: Final = 64 * 1024
_OURS: Final = frozenset({"content-encoding", "content-length", "transfer-encoding"})
"""Headers that don't apply to a decoded body."""
_GZIP: Final = zlib.MAX_WBITS | 16
_WINDOWS: Final = {"gzip": _GZIP, "x-gzip": _GZIP, "deflate": zlib.MAX_WBITS}


def decoded_headers(headers: httpx2.Headers) -> list[tuple[str, str]]:
    """Returns the headers that still apply to a decoded body."""
    return [(name, value) for name, value in headers.multi_items() if name.lower() not in _OURS]


class BoundedTransport(httpx2.AsyncBaseTransport):
    """Decodes and limits the bodies that another httpx2 transport receives.

    Args:
        transport: Makes the requests; closed by `aclose`.
        most_bytes: Maximum size of a response, both as sent and as decoded.
        too_long: Creates the error for a longer response; None for `FailedPrecondition` (`PROVIDER_REJECTED`).
        whole: Whether a compressed response that is cut off or followed by anything raises `httpx2.DecodingError`.
    """

    def __init__(
        self,
        transport: httpx2.AsyncBaseTransport,
        most_bytes: int = MAX_BODY,
        *,
        too_long: Callable[[], CitewireError] | None = None,
        whole: bool = False,
    ) -> None:
        self._transport = transport
        self._most_bytes = most_bytes
        self._too_long = too_long or _too_long
        self._whole = whole

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """Sends one request."""
        response = await self._transport.handle_async_request(request)
        raw = cast("httpx2.AsyncByteStream", response.stream)
        encoding = response.headers.get("content-encoding", "")
        failed = response.status_code >= 300
        most = MAX_ERROR_WIRE if failed else self._most_bytes
        body = _DecodedBody(raw, encoding.strip().lower(), most, self._too_long, whole=self._whole and not failed)
        if self._whole and not failed and int(response.headers.get("content-length", "0")) > most:
            await response.aclose()
            raise self._too_long()
        return httpx2.Response(
            response.status_code,
            headers=decoded_headers(response.headers),
            stream=ErrorBody(body) if failed else body,
            extensions=response.extensions,
        )

    async def aclose(self) -> None:
        """Closes the connections."""
        await self._transport.aclose()


class ErrorBody(httpx2.AsyncByteStream):
    """An error's body, limited in time and size, because the error matters more than its text.

    Args:
        body: The complete decoded body.
    """

    def __init__(self, body: httpx2.AsyncByteStream) -> None:
        self._body = body

    async def __aiter__(self) -> AsyncIterator[bytes]:
        """Yields what arrives, and ends at a failure."""
        left = MAX_ERROR_BODY
        try:
            async with asyncio.timeout(ERROR_BODY_SECONDS), aclosing(_iterate(self._body)) as pieces:
                async for piece in pieces:
                    yield piece[:left]
                    left -= len(piece)
                    if left <= 0:
                        return
        except (TimeoutError, OSError, httpx2.HTTPError, FailedPrecondition):
            return

    async def aclose(self) -> None:
        """Closes the connection, unless the body was read to its end."""
        await self._body.aclose()


class _DecodedBody(httpx2.AsyncByteStream):
    """A decompressed body, in pieces of at most 64 KiB; its reader yields to other tasks between them."""

    def __init__(
        self,
        raw: httpx2.AsyncByteStream,
        encoding: str,
        most_bytes: int,
        too_long: Callable[[], CitewireError],
        *,
        whole: bool,
    ) -> None:
        self._raw = raw
        self._encoding = encoding
        self._most_bytes = most_bytes
        self._too_long = too_long
        self._whole = whole

    async def __aiter__(self) -> AsyncIterator[bytes]:
        decode = _decoder(self._encoding)
        wire = size = 0
        async with aclosing(_iterate(self._raw)) as chunks:
            async for chunk in chunks:
                wire += len(chunk)
                if wire > self._most_bytes:
                    raise self._too_long()
                if self._whole and decode.ended and chunk:
                    raise httpx2.DecodingError("the compressed body is followed by other data")
                async for piece in decode.pieces(chunk):
                    size += len(piece)
                    if size > self._most_bytes:
                        raise self._too_long()
                    yield piece
                if decode.ended and not self._whole:
                    return
        if self._whole and wire and not decode.complete:
            raise httpx2.DecodingError("the compressed body is cut off, or followed by other data")

    async def aclose(self) -> None:
        await self._raw.aclose()


class _Identity:
    ended = False
    complete = True

    async def pieces(self, chunk: bytes) -> AsyncGenerator[bytes]:
        yield chunk


class _Zlib:
    """gzip and deflate. Only the first member of a gzip body is read: no provider sends several."""

    def __init__(self, window: int) -> None:
        self._window = window
        self._decompressor = zlib.decompressobj(window)
        self._begun = False
        self.ended = False

    @property
    def complete(self) -> bool:
        """Whether it has ended and nothing followed."""
        return self.ended and not self._decompressor.unused_data

    async def pieces(self, chunk: bytes) -> AsyncGenerator[bytes]:
        if not self._begun and chunk:
            self._begun = True
            # Some servers take "deflate" literally, and leave out zlib's header.
            if self._window == zlib.MAX_WBITS and chunk[0] & 0x0F != 8:
                self._decompressor = zlib.decompressobj(-zlib.MAX_WBITS)
        decompressor = self._decompressor
        while chunk and not decompressor.eof:
            try:
                piece = decompressor.decompress(chunk, _PIECE)
            except zlib.error as exc:
                raise httpx2.DecodingError(str(exc)) from exc
            chunk = decompressor.unconsumed_tail
            if piece:
                yield piece
            await asyncio.sleep(0)
        self.ended = decompressor.eof


def _decoder(encoding: str) -> _Identity | _Zlib:
    if encoding in {"", "identity"}:
        return _Identity()
    if encoding not in _WINDOWS:  # br, zstd, several encodings: nothing that we accept
        raise httpx2.DecodingError("the body has an encoding that wasn't requested")
    return _Zlib(_WINDOWS[encoding])


async def _iterate(body: httpx2.AsyncByteStream) -> AsyncGenerator[bytes]:
    async for chunk in body:
        yield chunk


def _too_long() -> FailedPrecondition:
    return FailedPrecondition("the model provider's answer is too long", reason="PROVIDER_REJECTED")
