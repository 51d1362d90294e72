"""The SDKs' HTTP over aiohttp: they build requests, authenticate and name errors; aiohttp moves the bytes.

An SDK's own transport costs more than twice as much for each piece of a streamed body (ADR 8).
"""

import asyncio
from collections.abc import AsyncIterator
from typing import Final, cast

import aiohttp
import httpx2
from yarl import URL

from citewire_remote.redaction import quiet_sdks

MAX_ERROR_BODY: Final = 64 * 1024
ERROR_BODY_SECONDS: Final = 5.0
"""Time to read the body of an error, which an SDK reads whole."""

_BODY: Final = "citewire_body"
_DECODED: Final = frozenset({"content-encoding", "content-length", "transfer-encoding"})
"""Headers that no longer hold once aiohttp has decoded the body."""
_SENT: Final = frozenset(
    {"accept", "accept-encoding", "anthropic-beta", "anthropic-version", "authorization", "content-type", "user-agent"}
)
"""Headers that are sent. SDKs add what they find in the environment (an organisation, a project, any header), which
would reach tenants' providers too; and what tells their makers about this machine."""


class AiohttpTransport(httpx2.AsyncBaseTransport):
    """Sends httpx2's requests by an aiohttp session. Time limits are the caller's and the session's.

    Args:
        session: Used, not closed.
    """

    def __init__(self, session: aiohttp.ClientSession) -> None:
        quiet_sdks()
        self._session = session

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """Sends one request.

        Raises:
            httpx2.TransportError: As an SDK expects it; aiohttp's error is its cause.
        """
        try:
            response = await self._session.request(
                request.method,
                # Encoded already: a second time would change it.
                URL(str(request.url), encoded=True),
                headers=[(name, value) for name, value in request.headers.items() if name.lower() in _SENT],
                data=request.content,
                allow_redirects=False,
            )
        except TimeoutError as exc:
            raise httpx2.ConnectTimeout("not connected in time", request=request) from exc
        except (aiohttp.ClientError, OSError) as exc:
            raise httpx2.ConnectError(type(exc).__name__, request=request) from exc
        headers = [(name, value) for name, value in response.headers.items() if name.lower() not in _DECODED]
        stream = _Stream(response) if response.status < 300 else _ErrorStream(response)
        return httpx2.Response(response.status, headers=headers, stream=stream, extensions={_BODY: response})


def raw_body(response: httpx2.Response) -> aiohttp.ClientResponse:
    """What an answer's body is read from, past the layers of httpx2 and of an SDK."""
    return cast("aiohttp.ClientResponse", response.extensions[_BODY])


class _Stream(httpx2.AsyncByteStream):
    def __init__(self, response: aiohttp.ClientResponse) -> None:
        self._response = response

    async def __aiter__(self) -> AsyncIterator[bytes]:
        try:
            while chunk := await self._response.content.readany():
                yield chunk
        except (aiohttp.ClientError, OSError) as exc:
            raise httpx2.ReadError(type(exc).__name__) from exc

    async def aclose(self) -> None:
        # Closes the socket at once, unless the body was read to its end and the connection went back to the pool.
        self._response.close()


class _ErrorStream(_Stream):
    """An error's body: what came of it in time, up to a size. The error is more important than its words."""

    async def __aiter__(self) -> AsyncIterator[bytes]:
        size = 0
        try:
            async with asyncio.timeout(ERROR_BODY_SECONDS):
                while size < MAX_ERROR_BODY and (chunk := await self._response.content.readany()):
                    size += len(chunk)
                    yield chunk
        except (TimeoutError, aiohttp.ClientError, OSError):
            return
