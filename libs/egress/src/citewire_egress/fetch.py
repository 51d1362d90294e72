"""Files from addresses that tenants name: fetched by the rules for their providers, under limits of size and time."""

import asyncio
import re
import ssl
from collections.abc import AsyncGenerator
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass
from email.message import Message
from pathlib import PurePosixPath, PureWindowsPath
from typing import Final
from urllib.parse import unquote

import httpx2

from citewire_egress.addresses import EgressPolicy
from citewire_egress.bodies import BoundedTransport
from citewire_egress.connections import guarded_transport, refusal_in
from citewire_kit.errors import InvalidArgument, ResourceExhausted, invalid_field
from citewire_kit.telemetry import get_logger

log = get_logger(__name__)

FIELD: Final = "source_url"
"""The field with the address, for errors."""
MOST_REDIRECTS: Final = 5
_CONNECT_SECONDS: Final = 10.0
_HEADERS: Final = {"User-Agent": "Citewire", "Accept": "*/*", "Accept-Encoding": "identity"}
_OK: Final = 200
_REDIRECTS: Final = frozenset({301, 302, 303, 307, 308})
_MAX_NAME: Final = 255
_MAX_MEDIA_TYPE: Final = 255
_UNPRINTABLE: Final = re.compile(r"[^\S ]|[\x00-\x1f\x7f-\x9f]")


@dataclass(frozen=True, slots=True)
class FetchLimits:
    """Limits for one file."""

    most_bytes: int
    """Maximum size, both as sent and as decoded."""
    seconds: float
    """From the first connection to the last byte, redirects included."""


@dataclass(frozen=True, slots=True)
class FetchedFile:
    """A file that is being fetched."""

    file_name: str
    """The name given by the server, or else the end of its address."""
    media_type: str
    """The media type given by the server, without parameters; "" if there is none."""
    data: AsyncGenerator[bytes]
    """Its content, which can be read once."""


class Fetcher:
    """Fetches files. Nothing is kept between them: no cookies, no connections.

    Args:
        policy: Which addresses it may connect to.
        limits: Limits for one file.
    """

    def __init__(self, policy: EgressPolicy, limits: FetchLimits) -> None:
        self._policy = policy
        self._limits = limits

    @asynccontextmanager
    async def open(self, url: str) -> AsyncGenerator[FetchedFile]:
        """Opens an address for the duration of the block.

        Raises:
            InvalidArgument: Connecting to the address isn't allowed (reason `INVALID_FIELD`), or no complete file
                arrives in time (`SOURCE_FAILED`); the error names `FIELD`.
            ResourceExhausted: The file is too large, compressed or not (`TOO_LARGE`).
        """
        transport = BoundedTransport(
            guarded_transport(self._policy), self._limits.most_bytes, too_long=self._too_large, whole=True
        )
        timeout = httpx2.Timeout(self._limits.seconds, connect=_CONNECT_SECONDS)
        try:
            async with (
                asyncio.timeout(self._limits.seconds) as scope,
                httpx2.AsyncClient(
                    transport=transport, timeout=timeout, headers=_HEADERS, follow_redirects=False, trust_env=False
                ) as client,
                aclosing(_Response(client)) as response,
            ):
                answer = await response.open(url)
                async with aclosing(_read(answer, scope)) as data:
                    yield FetchedFile(_file_name(answer, url), _media_type(answer), data)
        except TimeoutError as exc:
            raise failed(f"the file didn't arrive within {self._limits.seconds:g} seconds") from exc

    def _too_large(self) -> ResourceExhausted:
        most = self._limits.most_bytes
        return ResourceExhausted(
            f"the file at this address is larger than {most} bytes",
            reason="TOO_LARGE",
            metadata={"limit_bytes": str(most)},
        )


def failed(why: str) -> InvalidArgument:
    """Returns the error for an address that doesn't serve a file."""
    return invalid_field(FIELD, why, reason="SOURCE_FAILED")


class _Response:
    """The response at the end of the redirects."""

    def __init__(self, client: httpx2.AsyncClient) -> None:
        self._client = client
        self._answer: httpx2.Response | None = None

    async def open(self, text: str) -> httpx2.Response:
        url = _checked(text)
        for _ in range(MOST_REDIRECTS + 1):
            answer = self._answer = await self._get(url)
            if answer.status_code == _OK:
                return answer
            if answer.status_code not in _REDIRECTS or "location" not in answer.headers:
                raise failed(f"the server at this address answered {answer.status_code}")
            await answer.aclose()
            url = _redirected(url, answer.headers["location"])
        raise failed(f"the address redirects more than {MOST_REDIRECTS} times")

    async def aclose(self) -> None:
        if self._answer is not None:
            await self._answer.aclose()

    async def _get(self, url: httpx2.URL) -> httpx2.Response:
        try:
            return await self._client.send(self._client.build_request("GET", url), stream=True)
        except InvalidArgument as exc:
            raise _refused(exc) from exc
        except (httpx2.HTTPError, OSError, ValueError) as exc:
            refusal = refusal_in(exc)
            raise (_refused(exc) if refusal is not None else failed(_unreachable(exc))) from exc


async def _read(answer: httpx2.Response, scope: asyncio.Timeout) -> AsyncGenerator[bytes]:
    try:
        async with aclosing(_pieces(answer)) as pieces:
            async for piece in pieces:
                yield piece
    except (httpx2.HTTPError, OSError) as exc:
        log.info("fetch_broken", error=type(exc).__name__)
        raise failed("the file was cut off, or its length or compression differs from its headers") from exc
    scope.reschedule(None)  # using the file doesn't count


async def _pieces(answer: httpx2.Response) -> AsyncGenerator[bytes]:
    async for piece in answer.aiter_raw():
        yield piece


def _checked(text: str) -> httpx2.URL:
    try:
        url = httpx2.URL(text)
    except (httpx2.InvalidURL, ValueError) as exc:
        raise invalid_field(FIELD, "must be an http or https address") from exc
    if url.scheme not in ("http", "https") or not url.host:
        raise invalid_field(FIELD, "must be an http or https address")
    if url.userinfo:
        raise invalid_field(FIELD, "must not contain a user name or password")
    return url.copy_with(fragment=None)


def _redirected(url: httpx2.URL, target_text: str) -> httpx2.URL:
    try:
        target = _checked(str(url.join(target_text)))
    except (InvalidArgument, httpx2.InvalidURL, ValueError) as exc:
        raise failed("the address redirects to one that isn't http or https, or contains a user name") from exc
    if url.scheme == "https" and target.scheme == "http":
        raise failed("the address redirects from https to http")
    return target


def _refused(exc: BaseException) -> InvalidArgument:
    log.info("fetch_refused", error=type(exc).__name__)
    return invalid_field(
        FIELD,
        "leads to an address that this server may not connect to: private, loopback, link-local and metadata addresses "
        "are refused unless the operator allows them",
    )


def _unreachable(exc: BaseException) -> str:
    log.info("fetch_failed", error=type(exc).__name__)
    at: BaseException | None = exc
    for _ in range(8):
        if isinstance(at, ssl.SSLError):
            return "the server at this address has no valid certificate"
        at = None if at is None else at.__cause__ or at.__context__
    if isinstance(exc, httpx2.RemoteProtocolError):
        return "the server at this address doesn't speak HTTP, or closed the connection"
    return "the server at this address can't be reached"


def _media_type(answer: httpx2.Response) -> str:
    media_type = answer.headers.get("content-type", "").partition(";")[0].strip().lower()
    fits = len(media_type) <= _MAX_MEDIA_TYPE and media_type.isascii() and media_type.isprintable()
    return media_type if fits else ""


def _file_name(answer: httpx2.Response, url: str) -> str:
    """The name given by the server, or the end of the last or first address, or the host."""
    message = Message()
    try:
        message["Content-Disposition"] = answer.headers.get("content-disposition", "")
        given = message.get_filename("") or ""
    except (ValueError, LookupError):  # an invalid header
        given = ""
    last, first = (unquote(_path(text)).rpartition("/")[2] for text in (str(answer.url), url))
    names = [given, last if PurePosixPath(last).suffix else "", first if PurePosixPath(first).suffix else "", last]
    return next((plain for name in names if (plain := _plain(name))), "") or _plain(answer.url.host) or "file"


def _path(url: str) -> str:
    return httpx2.URL(url).path.rstrip("/")


def _plain(name: str) -> str:
    """The printable characters of a name's last part; "" if there are none."""
    text = PureWindowsPath(PurePosixPath(_UNPRINTABLE.sub("", name)).name).name.strip()
    text = "".join(character for character in text if character.isprintable())
    stem, dot, suffix = text.rpartition(".")
    if len(text) > _MAX_NAME and dot and len(suffix) < 16:
        text = f"{stem[: _MAX_NAME - 1 - len(suffix)]}.{suffix}"
    return "" if text in (".", "..") else text[:_MAX_NAME]
