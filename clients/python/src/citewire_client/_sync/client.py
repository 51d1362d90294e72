"""The client for a gateway."""

import time
from collections.abc import Generator, Iterator, Mapping
from contextlib import closing, contextmanager
from types import TracebackType
from typing import Self

import httpx

from citewire_client import models
from citewire_client._sync.operations import Operations
from citewire_client._sync.transport import Transport
from citewire_client._waiting import sleep
from citewire_client.errors import StreamCutError, StreamError, UploadStuckError
from citewire_client.requests import Request, path_of, query, read_model

_FINISHED = frozenset({"ready", "failed"})
_LONGEST_PAUSE = 2.0


class Citewire(Operations):
    """A client for one gateway: every operation of its API is a method. Use it as a context manager.

    Methods raise `CitewireError`: `ApiError` and its subclasses if the gateway answered, `ConnectionFailedError` if it
    didn't. Requests that are safe to repeat are retried with growing pauses, or after the time in `Retry-After`.
    """

    def __init__(
        self,
        url: str | None = None,
        *,
        api_key: str | None = None,
        retries: int = 2,
        timeout: float | None = None,
        headers: Mapping[str, str] | None = None,
        http: httpx.Client | None = None,
    ) -> None:
        """Prepares a client; no request is sent.

        Args:
            url: The gateway's address; None: `CITEWIRE_URL`, or `http://127.0.0.1:8080`.
            api_key: An API key or token; None: `CITEWIRE_API_KEY` if it is set.
            retries: Number of retries after the first try.
            timeout: Seconds without data after which a connection counts as lost; None: 60.
            headers: Sent with each request.
            http: Your own HTTP client, for proxies or certificates; you close it.
        """
        super().__init__(Transport(url, api_key, retries=retries, timeout=timeout, headers=headers, http=http))

    def __enter__(self) -> Self:
        """Returns the client."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Closes its connections."""
        self.close()

    def close(self) -> None:
        """Closes its connections."""
        self._transport.close()

    def wait_for_document(self, document_id: int, *, timeout: float = 300.0) -> models.Document:
        """Waits until a document is `ready` or `failed`, and returns it.

        Args:
            document_id: The document.
            timeout: Maximum wait in seconds.

        Raises:
            UploadStuckError: It was neither when the time was up.
            CitewireError: As every method.
        """
        until, pause = time.monotonic() + timeout, 0.1
        while True:
            document = self.get_document(document_id)
            if document.status in _FINISHED:
                return document
            if time.monotonic() + pause > until:
                raise UploadStuckError(f"document {document_id} is still {document.status} after {timeout:g} s")
            sleep(pause)
            pause = min(pause * 1.5, _LONGEST_PAUSE)

    @contextmanager
    def download(self, document_id: int, *, version: int | None = None) -> Generator[Iterator[bytes], None]:
        """Opens a document's original file as a stream of pieces; `version` None: the latest version."""
        request = Request("GET", path_of("/v1/documents/{}/content", document_id), query(version=version))
        with self._transport.data(request) as pieces:
            yield pieces

    def get_text(self, document_id: int, *, version: int | None = None) -> str:
        """Returns the text extracted from a document, which the offsets of quotes refer to."""
        request = Request("GET", path_of("/v1/documents/{}/text", document_id), query(version=version))
        return (self._transport.content(request)).decode()

    def watch_document(self, document_id: int) -> Generator[models.DocumentProgress, None]:
        """Yields a document's progress until it is `ready` or `failed`.

        Raises:
            StreamCutError: The stream ended before that.
            CitewireError: As every method.
        """
        request = Request("GET", path_of("/v1/documents/{}/events", document_id))
        with self._transport.open(request) as response, closing(self._transport.events(response)) as events:
            for event in events:
                if event.event == "progress":
                    yield read_model(models.DocumentProgress, event.data.encode())
                elif event.event == "done":
                    return
                elif event.event == "error":
                    raise StreamError(read_model(models.StreamError, event.data.encode()).text)
        raise StreamCutError("the stream ended before the document was ready or failed")

    def export_user(self, user: str) -> Generator[models.ExportLine, None]:
        """Yields the data stored about a user, line by line; the last line is of kind `end`.

        Raises:
            StreamCutError: The export ended before its last line.
            CitewireError: As every method.
        """
        request = Request("GET", path_of("/v1/users/{}/export", user))
        with self._transport.data(request) as pieces:
            rest: list[bytes] = []
            for piece in pieces:
                *lines, last = piece.split(b"\n")
                if lines:
                    lines[0] = b"".join([*rest, lines[0]])
                    rest = []
                rest.append(last)
                for text in lines:
                    line = read_model(models.ExportLine, text)
                    yield line
                    if line.kind == "end":
                        return
        raise StreamCutError("the export ended before its last line: it is incomplete")
