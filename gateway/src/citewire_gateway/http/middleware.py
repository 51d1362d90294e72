"""What happens to every request, around the routes. Pure ASGI: a wrapped body would lose its aborts.

Outermost first: request id, security headers, trace, access log and metrics, errors, time budget, body limit.
"""

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from opentelemetry import trace
from opentelemetry.trace import SpanKind, StatusCode
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from citewire_gateway.http.bodies import too_large
from citewire_gateway.settings import MIB, GatewaySettings
from citewire_kit.deadline import budget
from citewire_kit.errors import CitewireError, Internal, PermissionDenied
from citewire_kit.metrics import HTTP_REQUESTS, HTTP_SECONDS
from citewire_kit.settings import is_loopback
from citewire_kit.telemetry import get_logger
from citewire_kit.tenant import use_request_id
from citewire_kit.tracing import extract, get_tracer

log = get_logger(__name__)
_tracer = get_tracer(__name__)

UNMATCHED = "unmatched"
"""Route label of addresses that don't exist: what clients make up is no label."""

# Outermost first. Errors are inside of access, so that what went wrong is counted and logged as it was answered.
MIDDLEWARE_ORDER = ("request_id", "security_headers", "tracing", "access", "errors", "deadline", "body_limit")

_CHATS = ("/v1/chat", "/api/chat", "/api/rag-chat")
_DOCUMENTS = "/v1/documents"
_TRANSFERS = ("/content", "/events")
_FORM_OVERHEAD = MIB  # a form's other fields and boundaries
_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})

Seconds = Callable[[str, str], float]
"""Time budget of a request, by its method and path."""


class Limit(NamedTuple):
    """Largest body: how it is called, the bytes that an error names, and those that are read."""

    what: str
    shown_bytes: int
    read_bytes: int


BodyLimit = Callable[[str, str], Limit]
"""Largest body of a request, by its path and content type."""


ProblemResponse = Callable[[CitewireError], ASGIApp]
"""Answers with an error."""


def wrap(
    app: ASGIApp,
    *,
    problem_response: ProblemResponse,
    seconds: Seconds,
    body_limit: BodyLimit,
    local_only: bool = False,
) -> ASGIApp:
    """Puts all middleware around an application, in `MIDDLEWARE_ORDER`; inside of all `_LocalOnly`, if it is to."""
    if local_only:
        app = _LocalOnly(app)
    layers: dict[str, Callable[[ASGIApp], ASGIApp]] = {
        "request_id": _RequestId,
        "security_headers": _SecurityHeaders,
        "tracing": _Tracing,
        "access": _Access,
        "errors": lambda inner: _Errors(inner, problem_response),
        "deadline": lambda inner: _Deadline(inner, seconds),
        "body_limit": lambda inner: _BodyLimit(inner, body_limit),
    }
    for name in reversed(MIDDLEWARE_ORDER):
        app = layers[name](app)
    return app


def time_budget(settings: GatewaySettings) -> Seconds:
    """Returns the time budgets: chats, transfers, and all the rest."""

    def seconds(method: str, path: str) -> float:
        if path.startswith(_CHATS):
            return settings.chat_seconds
        if path.startswith(_DOCUMENTS) and (method in ("POST", "PUT") or path.endswith(_TRANSFERS)):
            return settings.transfer_seconds
        return settings.request_seconds

    return seconds


def body_limit(settings: GatewaySettings) -> BodyLimit:
    """Returns the limits of bodies: forms of documents, and all the rest."""

    def limit(path: str, content_type: str) -> Limit:
        if path.startswith(_DOCUMENTS) and content_type.lower().startswith("multipart/form-data"):
            return Limit("the upload", settings.max_upload_bytes, settings.max_upload_bytes + _FORM_OVERHEAD)
        return Limit("the body", settings.max_json_bytes, settings.max_json_bytes)

    return limit


class _Layer(ABC):
    """One of them: it sees HTTP requests, and nothing else that comes."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            await self.handle(scope, receive, send)
        else:
            await self._app(scope, receive, send)

    @abstractmethod
    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handles a request."""


class _RequestId(_Layer):
    """Takes the caller's X-Request-Id, or makes one, and gives it back with the answer."""

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        with use_request_id(header(scope, b"x-request-id")) as request_id:
            await self._app(scope, receive, _adding(send, [(b"x-request-id", request_id.encode())]))


class _SecurityHeaders(_Layer):
    """Headers that keep a browser from guessing, framing and telling on."""

    _HEADERS = (
        (b"x-content-type-options", b"nosniff"),
        (b"x-frame-options", b"DENY"),
        (b"referrer-policy", b"no-referrer"),
        (b"cross-origin-resource-policy", b"same-origin"),
        (b"content-security-policy", b"default-src 'none'; frame-ancestors 'none'"),
    )

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._app(scope, receive, _adding(send, self._HEADERS))


class _Tracing(_Layer):
    """Continues the caller's trace, or begins one; every call to a service becomes a part of it."""

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        carrier = {name: value for name in ("traceparent", "tracestate") if (value := header(scope, name.encode()))}
        span = _tracer.start_span(scope["method"], context=extract(carrier), kind=SpanKind.SERVER)
        with trace.use_span(span, end_on_exit=True, record_exception=False, set_status_on_exception=False):
            status = _Status(send)
            try:
                await self._app(scope, receive, status.send)
            finally:
                if span.is_recording():
                    route = route_of(scope)
                    span.update_name(f"{scope['method']} {route}")
                    span.set_attributes({"http.request.method": scope["method"], "http.route": route})
                    span.set_attribute("http.response.status_code", status.code)
                    if status.code >= 500:
                        span.set_status(StatusCode.ERROR)


class _Access(_Layer):
    """One line and one count per request, when its answer has ended."""

    _UNLOGGED = frozenset({"/livez", "/readyz"})

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        started, status = time.perf_counter(), _Status(send)
        try:
            await self._app(scope, receive, status.send)
        finally:
            seconds = time.perf_counter() - started
            method = scope["method"] if scope["method"] in _METHODS else "OTHER"
            route = route_of(scope)
            HTTP_REQUESTS.labels(method, route, str(status.code)).inc()
            HTTP_SECONDS.labels(method, route).observe(seconds)
            if route not in self._UNLOGGED:
                log.info("http_request", method=method, route=route, status=status.code, ms=round(seconds * 1000, 1))


class _Errors(_Layer):
    """The last net: what no handler caught becomes a problem document, or cuts a body that has begun."""

    def __init__(self, app: ASGIApp, problem_response: ProblemResponse) -> None:
        super().__init__(app)
        self._problem_response = problem_response

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        status = _Status(send)
        try:
            await self._app(scope, receive, status.send)
        except Exception as exc:
            if status.started:
                # What failed has been logged. The server closes the connection under a body that isn't complete: a cut
                # one must not look like a whole one.
                return
            if isinstance(exc, CitewireError):
                error = exc
            else:
                log.exception("request_failed")
                error = Internal("something went wrong on our side; the log has the details", reason="INTERNAL")
            await self._problem_response(error)(scope, receive, send)


class _Deadline(_Layer):
    """Gives each request its time; calls to services and to the database never ask for more."""

    def __init__(self, app: ASGIApp, seconds: Seconds) -> None:
        super().__init__(app)
        self._seconds = seconds

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        with budget(self._seconds(scope["method"], scope["path"])):
            await self._app(scope, receive, send)


class _BodyLimit(_Layer):
    """Stops reading a body at its limit, by its declared length already where there is one."""

    def __init__(self, app: ASGIApp, body_limit: BodyLimit) -> None:
        super().__init__(app)
        self._limit = body_limit

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        limit = self._limit(scope["path"], header(scope, b"content-type"))
        declared = header(scope, b"content-length")
        if declared.isdecimal() and int(declared) > limit.read_bytes:
            raise too_large(limit.shown_bytes, limit.what)
        seen = 0

        async def limited() -> Message:
            nonlocal seen
            message = await receive()
            if message["type"] == "http.request":
                seen += len(message.get("body", b""))
                if seen > limit.read_bytes:
                    raise too_large(limit.shown_bytes, limit.what)
            return message

        await self._app(scope, limited, send)


class _LocalOnly(_Layer):
    """With auth off, refuses requests whose Host or Origin isn't this machine.

    Listening on loopback keeps other machines out, but not web pages: a browser sends what any page asks for to
    `localhost`, and a name that a stranger points at 127.0.0.1 makes it look like the same site.
    """

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        if not (_is_local(header(scope, b"host")) and _is_from_here(header(scope, b"origin"))):
            raise PermissionDenied(
                "while authentication is off, only addresses of this machine may be used (localhost, 127.0.0.1)",
                reason="PERMISSION_DENIED",
            )
        await self._app(scope, receive, send)


class _Status:
    """Looks at a response's status on its way out."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self.code = 499  # the client left before an answer began
        self.started = False

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.code = message["status"]
            self.started = True
        await self._send(message)


def header(scope: Scope, name: bytes) -> str:
    """Returns a request header's value, "" if it isn't there."""
    pairs: Iterable[tuple[bytes, bytes]] = scope["headers"]
    for key, value in pairs:
        if key == name:
            return value.decode("latin-1")
    return ""


def route_of(scope: Scope) -> str:
    """Returns the template of the route that took the request."""
    route: Any = scope.get("route")
    path = getattr(route, "path", None)
    return path if isinstance(path, str) else UNMATCHED


def _adding(send: Send, headers: Iterable[tuple[bytes, bytes]]) -> Send:
    """Adds headers to a response; those that it has already stay."""

    async def adding(message: Message) -> None:
        if message["type"] == "http.response.start":
            given: list[tuple[bytes, bytes]] = list(message.get("headers", []))
            names = {name.lower() for name, _ in given}
            message = {**message, "headers": [*given, *(pair for pair in headers if pair[0] not in names)]}
        await send(message)

    return adding


def _is_from_here(origin: str) -> bool:
    """An Origin is sent by browsers only; a page of another site can't leave it out of a POST (it may be `null`)."""
    _, scheme_end, authority = origin.partition("://")
    return not origin or (bool(scheme_end) and _is_local(authority))


def _is_local(authority: str) -> bool:
    """Whether `host`, `host:port` or `[address]:port` is this machine; HTTP/1.0 clients may send none."""
    host, bracket, _ = authority.removeprefix("[").partition("]")
    return not authority or is_loopback(host if bracket else authority.rpartition(":")[0] or authority)
