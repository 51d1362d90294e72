"""Sends requests, again where that is safe, and reads their answers."""

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
        """Closes the pool, unless it was given."""
        if self._is_own:
            self._http.close()

    def call(self, request: Request, model: type[M]) -> M:
        """Sends a request and reads its answer.

        Raises:
            CitewireError: See `errors`.
        """
        return requests.read_model(model, self.content(request))

    def do(self, request: Request) -> None:
        """Sends a request whose answer has no body; raises as `call`."""
        self.content(request)

    def content(self, request: Request) -> bytes:
        """Sends a request and returns its answer's bytes; raises as `call`."""
        with self.open(request, whole=True) as response:
            return response.content

    def pages(self, request: Request, model: type[M], member: str) -> Generator[Any, None]:
        """Yields what a list holds, page by page, each asked for when it is needed; raises as `call`."""
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
        """Sends a request and opens its answer, which was successful; leaving closes it. Raises as `call`.

        Args:
            request: What to send; a file of it is read from its beginning.
            whole: Read the body here, so that a connection that breaks in it is tried again.
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
            # 429 is said before anything is done.
            if wait is None or not (request.repeatable or (answered is not None and answered.status == 429)):
                raise error
            sleep(wait)
        try:
            yield response
        finally:
            response.close()

    @contextmanager
    def data(self, request: Request) -> Generator[Iterator[bytes], None]:
        """Opens an answer that may be long, piece by piece; raises as `call`, while it is read too."""
        with self.open(request) as response, closing(self._pieces(response)) as pieces:
            yield pieces

    def events(self, response: httpx.Response) -> Generator[SseEvent, None]:
        """Reads an open answer's events until it ends; raises as `call`."""
        if not response.headers.get("content-type", "").startswith("text/event-stream"):
            raise InvalidResponseError(f"{self.url} answered with something else than a stream of events")
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
