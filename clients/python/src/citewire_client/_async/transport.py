"""Sends requests, with retries where these are safe, and reads the responses."""

import os
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import aclosing, asynccontextmanager
from typing import Any, TypeVar

import httpx
from pydantic import BaseModel

from citewire_client import connection, requests
from citewire_client._translation import translated
from citewire_client._waiting import async_sleep
from citewire_client.errors import (
    ApiError,
    CitewireError,
    ConnectionFailedError,
    InvalidResponseError,
)
from citewire_client.requests import Request
from citewire_client.sse import SseEvent, SseParser

M = TypeVar("M", bound=BaseModel)


class AsyncTransport:
    """One connection pool to one gateway."""

    def __init__(
        self,
        url: str | None,
        api_key: str | None,
        *,
        retries: int,
        timeout: float | None,
        headers: Mapping[str, str] | None,
        http: httpx.AsyncClient | None,
    ) -> None:
        """See `AsyncCitewire`."""
        self.url = (url or os.environ.get("CITEWIRE_URL") or "http://127.0.0.1:8080").rstrip("/")
        key = os.environ.get("CITEWIRE_API_KEY", "") if api_key is None else api_key
        self._headers = {"User-Agent": "citewire-client/0.1.0", **(headers or {})}
        if key:
            self._headers["Authorization"] = f"Bearer {key}"
        self._retries = retries
        self._is_own = http is None
        read = connection.READ_SECONDS if timeout is None else timeout
        self._timeout = httpx.Timeout(read, connect=min(connection.CONNECT_SECONDS, read))
        self._http = http or httpx.AsyncClient(verify=connection.trust(self.url))

    async def aclose(self) -> None:
        """Closes the pool, unless the caller passed it."""
        if self._is_own:
            await self._http.aclose()

    async def call(self, request: Request, model: type[M]) -> M:
        """Sends a request and reads its response.

        Raises:
            CitewireError: See `errors`.
        """
        return requests.read_model(model, await self.content(request))

    async def do(self, request: Request) -> None:
        """Sends a request whose response has no body; raises like `call`."""
        await self.content(request)

    async def content(self, request: Request) -> bytes:
        """Sends a request and returns the bytes of the response; raises like `call`."""
        async with self.open(request, whole=True) as response:
            return response.content

    async def pages(self, request: Request, model: type[M], member: str) -> AsyncGenerator[Any, None]:
        """Yields the items of a list and requests its pages as needed; raises like `call`."""
        params = dict(request.params)
        while True:
            page = await self.call(Request("GET", request.path, params), model)
            for entry in getattr(page, member):
                yield entry
            token = getattr(page, "next_page_token", "")
            if not token:
                return
            params["page_token"] = token

    @asynccontextmanager
    async def open(self, request: Request, *, whole: bool = False) -> AsyncGenerator[httpx.Response, None]:
        """Sends a request and opens its successful response; leaving the block closes it. Raises like `call`.

        Args:
            request: The request; its file, if any, is read from the beginning.
            whole: Whether to read the body here, so that the request is retried if the connection breaks meanwhile.
        """
        attempt = 0
        while True:
            attempt += 1
            error: CitewireError
            response: httpx.Response | None = None
            try:
                with translated(self.url):
                    response = await self._http.send(self._built(request), stream=True)
                    if not response.is_success or whole:
                        await response.aread()
                if response.is_success:
                    break
                error = requests.error_of(response.status_code, response.headers, response.content)
            except ConnectionFailedError as failure:
                error = failure
            finally:
                if response is not None and (whole or not response.is_success):
                    await response.aclose()
            answered = error if isinstance(error, ApiError) else None
            wait = requests.wait_before(attempt, answered) if attempt <= self._retries else None
            # The gateway sends 429 before it does anything.
            if wait is None or not (request.repeatable or (answered is not None and answered.status == 429)):
                raise error
            await async_sleep(wait)
        try:
            yield response
        finally:
            await response.aclose()

    @asynccontextmanager
    async def data(self, request: Request) -> AsyncGenerator[AsyncIterator[bytes], None]:
        """Opens a possibly long response as a stream of pieces; raises like `call`, also during reading."""
        async with self.open(request) as response, aclosing(self._pieces(response)) as pieces:
            yield pieces

    async def events(self, response: httpx.Response) -> AsyncGenerator[SseEvent, None]:
        """Reads the events of an open response until it ends; raises like `call`."""
        if not response.headers.get("content-type", "").startswith("text/event-stream"):
            raise InvalidResponseError(f"the response of {self.url} isn't a stream of events")
        parser = SseParser()
        async with aclosing(self._pieces(response)) as pieces:
            async for piece in pieces:
                for event in parser.feed(piece):
                    yield event

    async def _pieces(self, response: httpx.Response) -> AsyncGenerator[bytes, None]:
        with translated(self.url):
            bytes_of: AsyncIterator[bytes] = response.aiter_bytes()
            async for piece in bytes_of:
                yield piece

    def _built(self, request: Request) -> httpx.Request:
        return self._http.build_request(
            request.method,
            self.url + request.path,
            params=request.params,
            json=request.json,
            data=request.form,
            files=None if request.file is None else {"file": request.file},
            headers={**self._headers, **request.headers},
            timeout=self._timeout,
        )
