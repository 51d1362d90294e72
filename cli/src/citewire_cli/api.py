"""The gateway's HTTP API for the command: JSON in and out, and every failure is a CliError."""

from collections.abc import AsyncGenerator, Generator, Mapping
from contextlib import aclosing, asynccontextmanager, contextmanager
from typing import IO, Self, TypeAlias, cast

import httpx

from citewire_cli.errors import CliError, ExitCode, FieldError
from citewire_cli.jsonio import JsonObject, get_objects, get_str, parse_object
from citewire_cli.settings import ClientSettings
from citewire_cli.sse import SseEvent, read_events
from citewire_client.connection import CONNECT_SECONDS, READ_SECONDS, retry_after, trust

FilePart: TypeAlias = tuple[str, IO[bytes], str]
"""A file of a multipart upload: name, open file, media type."""


BROKEN = "The connection to the gateway broke"
"""Title of the error for a connection that was closed in the middle."""


class Api:
    """One connection pool to one gateway. Use as an async context manager."""

    def __init__(self, settings: ClientSettings, *, read_seconds: float = READ_SECONDS) -> None:
        """Prepares the client; nothing is sent yet.

        Args:
            settings: address and key.
            read_seconds: longest wait for the next bytes before the connection counts as lost.
        """
        self._url = settings.url
        headers = {"User-Agent": "citewire-cli"}
        if settings.api_key:
            headers["Authorization"] = f"Bearer {settings.api_key}"
        self._http = httpx.AsyncClient(
            base_url=settings.url,
            headers=headers,
            timeout=httpx.Timeout(read_seconds, connect=CONNECT_SECONDS),
            trust_env=not settings.loopback,
            verify=trust(settings.url),
        )

    async def __aenter__(self) -> Self:
        """Opens the pool."""
        await self._http.__aenter__()
        return self

    async def __aexit__(self, *error: object) -> None:
        """Closes the pool."""
        await self._http.aclose()

    async def call(
        self,
        method: str,
        path: str,
        *,
        params: Mapping[str, str | int] | None = None,
        body: JsonObject | None = None,
        files: Mapping[str, FilePart] | None = None,
        form: Mapping[str, str] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> JsonObject:
        """One request and its JSON answer (empty for an answer without a body).

        Raises:
            CliError: the gateway cannot be reached, or refused; see `problem`.
        """
        with self._translated():
            response = await self._http.request(
                method, path, params=params, json=body, files=files, data=form, headers=headers
            )
        if not response.is_success:
            raise problem(response.status_code, response.headers, response.content)
        if not response.content:
            return {}
        answer = parse_object(response.content)
        if answer is None:
            raise _not_citewire(self._url)
        return answer

    async def text(self, path: str, *, params: Mapping[str, str | int] | None = None) -> str:
        """GETs a body other than JSON.

        Raises:
            CliError: as `call`.
        """
        with self._translated():
            response = await self._http.get(path, params=params)
        if not response.is_success:
            raise problem(response.status_code, response.headers, response.content)
        return response.text

    @asynccontextmanager
    async def data(self, path: str) -> AsyncGenerator[AsyncGenerator[bytes]]:
        """GETs a possibly long body piece by piece; leaving the context ends the request.

        Raises:
            CliError: as `call`; also while reading, when the connection is lost.
        """
        with self._translated():
            async with self._http.stream("GET", path) as response:
                if not response.is_success:
                    raise problem(response.status_code, response.headers, await response.aread())
                pieces = cast("AsyncGenerator[bytes]", response.aiter_bytes())
                async with aclosing(pieces):
                    yield pieces

    async def health(self) -> tuple[bool, JsonObject]:
        """Whether everything works, and each part's state from `/readyz`; not being ready isn't an error.

        Raises:
            CliError: the gateway cannot be reached at all.
        """
        with self._translated():
            response = await self._http.get("/readyz")
        return response.is_success, parse_object(response.content) or {}

    @asynccontextmanager
    async def events(self, path: str, body: JsonObject) -> AsyncGenerator[AsyncGenerator[SseEvent]]:
        """POSTs `body` and opens the answer's event stream; leaving the context cancels the request.

        Raises:
            CliError: as `call`; also while reading, when the connection is lost.
        """
        headers = {"Accept": "text/event-stream"}
        with self._translated():
            async with self._http.stream("POST", path, json=body, headers=headers) as response:
                if not response.is_success:
                    raise problem(response.status_code, response.headers, await response.aread())
                if not response.headers.get("content-type", "").startswith("text/event-stream"):
                    raise _not_citewire(self._url)
                async with aclosing(read_events(response.aiter_bytes())) as events:
                    yield events

    @contextmanager
    def _translated(self) -> Generator[None]:
        """Turns the HTTP client's errors into CliErrors."""
        try:
            yield
        except (httpx.ConnectError, httpx.ConnectTimeout):
            title = "The gateway cannot be reached"
            detail = f"Nothing answers at {self._url}. Start the stack with `citewire up`, or set CITEWIRE_URL."
        except httpx.TimeoutException:
            title = "The gateway does not answer"
            detail = f"{self._url} has sent nothing for too long; see `citewire status`."
        except httpx.TransportError:
            title = BROKEN
            detail = f"{self._url} closed it in the middle; see `citewire status`, then try again."
        else:
            return
        raise CliError(title, detail, ExitCode.UNREACHABLE)


_OTHER_SERVER = "This may not be Citewire's gateway: see CITEWIRE_URL (or --url)."


def problem(status: int, headers: Mapping[str, str], content: bytes) -> CliError:
    """The error for an unsuccessful response.

    `application/problem+json` (RFC 9457) gives title, detail, reason, refused fields and request id; for any other body
    there is only the status and, with 404, 405 or 501, a hint that this may be another server.
    """
    body = parse_object(content) or {}
    strange = status in {404, 405, 501} and not get_str(body, "title")
    errors = tuple(FieldError(get_str(e, "field"), get_str(e, "message")) for e in get_objects(body, "errors"))
    return CliError(
        get_str(body, "title") or f"The gateway answered HTTP {status}",
        get_str(body, "detail") or (_OTHER_SERVER if strange else ""),
        _exit_code(status),
        errors,
        get_str(body, "reason"),
        get_str(body, "request_id") or headers.get("x-request-id", ""),
        status,
        retry_after(headers),
    )


def _exit_code(status: int) -> ExitCode:
    match status:
        case 401 | 403:
            return ExitCode.UNAUTHORISED
        case 404 | 410:
            return ExitCode.NOT_FOUND
        case 400 | 413 | 415 | 422:
            return ExitCode.USAGE
        case 429 | 502 | 503 | 504:
            return ExitCode.UNREACHABLE
        case _:
            return ExitCode.FAILED


def _not_citewire(url: str) -> CliError:
    return CliError(
        "This is not a Citewire gateway",
        f"{url} answered with something other than its API. Is another program on that port?",
        ExitCode.UNREACHABLE,
    )
