"""Sends requests, with retries where these are safe, and reads the responses."""

import os
from collections.abc import Generator, Iterator, Mapping
from contextlib import closing, contextmanager
from typing import Any, TypeVar

import httpx
from pydantic import BaseModel

from citewire_client import connection, requests
from citewire_client._translation import translated
from citewire_client._waiting import sleep
from citewire_client.errors import (
    ApiError,
    CitewireError,
    ConnectionFailedError,
    InvalidResponseError,
)
from citewire_client.requests import Request
from citewire_client.sse import SseEvent, SseParser

M = TypeVar("M", bound=BaseModel)


class Transport:
    """One connection pool to one gateway."""

    def __init__(
        self,
        url: str | None,
        api_key: str | None,
        *,
        retries: int,
        timeout: float | None,
        headers: Mapping[str, str] | None,
        http: httpx.Client | None,
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
        self._http = http or httpx.Client(verify=connection.trust(self.url))

    def close(self) -> None:
        """Closes the pool, unless the caller passed it."""
        if self._is_own:
            self._http.close()

    def call(self, request: Request, model: type[M]) -> M:
        """Sends a request and reads its response.

        Raises:
            CitewireError: See `errors`.
        """
        return requests.read_model(model, self.content(request))

    def do(self, request: Request) -> None:
        """Sends a request whose response has no body; raises like `call`."""
        self.content(request)

    def content(self, request: Request) -> bytes:
        """Sends a request and returns the bytes of the response; raises like `call`."""
        with self.open(request, whole=True) as response:
            return response.content

    def pages(self, request: Request, model: type[M], member: str) -> Generator[Any, None]:
        """Yields the items of a list and requests its pages as needed; raises like `call`."""
        params = dict(request.params)
        while True:
            page = self.call(Request("GET", request.path, params), model)
            for entry in getattr(page, member):
                yield entry
            token = getattr(page, "next_page_token", "")
            if not token:
                return
            params["page_token"] = token

    @contextmanager
    def open(self, request: Request, *, whole: bool = False) -> Generator[httpx.Response, None]:
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
                    response = self._http.send(self._built(request), stream=True)
                    if not response.is_success or whole:
                        response.read()
                if response.is_success:
                    break
                error = requests.error_of(response.status_code, response.headers, response.content)
            except ConnectionFailedError as failure:
                error = failure
            finally:
                if response is not None and (whole or not response.is_success):
                    response.close()
            answered = error if isinstance(error, ApiError) else None
            wait = requests.wait_before(attempt, answered) if attempt <= self._retries else None
            # The gateway sends 429 before it does anything.
            if wait is None or not (request.repeatable or (answered is not None and answered.status == 429)):
                raise error
            sleep(wait)
        try:
            yield response
        finally:
            response.close()

    @contextmanager
    def data(self, request: Request) -> Generator[Iterator[bytes], None]:
        """Opens a possibly long response as a stream of pieces; raises like `call`, also during reading."""
        with self.open(request) as response, closing(self._pieces(response)) as pieces:
            yield pieces

    def events(self, response: httpx.Response) -> Generator[SseEvent, None]:
        """Reads the events of an open response until it ends; raises like `call`."""
        if not response.headers.get("content-type", "").startswith("text/event-stream"):
            raise InvalidResponseError(f"the response of {self.url} isn't a stream of events")
        parser = SseParser()
        with closing(self._pieces(response)) as pieces:
            for piece in pieces:
                for event in parser.feed(piece):
                    yield event

    def _pieces(self, response: httpx.Response) -> Generator[bytes, None]:
        with translated(self.url):
            bytes_of: Iterator[bytes] = response.iter_bytes()
            for piece in bytes_of:
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
