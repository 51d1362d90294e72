"""The SDKs' HTTP over aiohttp: the SDK builds requests, authenticates and names errors; aiohttp moves the bytes.

An SDK's own transport costs more than twice as much per piece of a streamed body (ADR 8).
"""

from collections.abc import AsyncIterator
from typing import Final, cast

import aiohttp
import httpx2
from yarl import URL

from citewire_egress.bodies import ErrorBody, decoded_headers
from citewire_remote.failures import stream_broken
from citewire_remote.redaction import quiet_sdks

MAX_STREAM: Final = 64 * 1024 * 1024
"""Maximum size of a streamed answer in bytes: more than today's longest, 128,000 tokens with an event each."""

_BODY: Final = "citewire_body"
_SENT: Final = frozenset(
    {"accept", "accept-encoding", "anthropic-beta", "anthropic-version", "authorization", "content-type", "user-agent"}
)
"""Headers that are sent. SDKs add headers from the environment (an organisation, a project), which would reach tenant
providers too, and telemetry about this machine."""


class AiohttpTransport(httpx2.AsyncBaseTransport):
    """Sends httpx2's requests through an aiohttp session. The caller and the session set time limits.

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
                # It is already encoded, and must not be encoded twice.
                URL(str(request.url), encoded=True),
                headers=[(name, value) for name, value in request.headers.items() if name.lower() in _SENT],
                data=request.content,
                allow_redirects=False,
            )
        except TimeoutError as exc:
            raise httpx2.ConnectTimeout("not connected in time", request=request) from exc
        except (aiohttp.ClientError, OSError) as exc:
            raise httpx2.ConnectError(type(exc).__name__, request=request) from exc
        body = _Stream(response)
        return httpx2.Response(
            response.status,
            headers=decoded_headers(httpx2.Headers(list(response.headers.items()))),
            stream=body if response.status < 300 else ErrorBody(body),
            extensions={_BODY: response},
        )


def raw_body(response: httpx2.Response) -> aiohttp.ClientResponse:
    """Returns the response to read the body from, bypassing httpx2 and the SDK."""
    return cast("aiohttp.ClientResponse", response.extensions[_BODY])


async def read_some(response: aiohttp.ClientResponse) -> bytes:
    """Reads and decodes the part of a body that has arrived; b"" at its end.

    Raises:
        Unavailable: The body is longer than `MAX_STREAM`, as sent or as decoded.
    """
    content = response.content
    chunk = await content.readany()
    if content.total_bytes > MAX_STREAM or content.total_raw_bytes > MAX_STREAM:
        raise stream_broken("the answer is too long")
    return chunk


class _Stream(httpx2.AsyncByteStream):
    def __init__(self, response: aiohttp.ClientResponse) -> None:
        self._response = response

    async def __aiter__(self) -> AsyncIterator[bytes]:
        try:
            while chunk := await read_some(self._response):
                yield chunk
        except (aiohttp.ClientError, OSError) as exc:
            raise httpx2.ReadError(type(exc).__name__) from exc

    async def aclose(self) -> None:
        # Closes the socket at once, unless the body was read to its end and the connection went back to the pool.
        self._response.close()
