"""The middleware around the routes of every request. Pure ASGI: a wrapped body would lose its aborts."""

import re
import time
from collections.abc import Callable, Collection, Generator, Iterable
from contextlib import AbstractAsyncContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any, NamedTuple

from opentelemetry import trace
from opentelemetry.trace import SpanKind, StatusCode
from starlette.middleware.cors import CORSMiddleware
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from citewire_http.bodies import too_large
from citewire_http.settings import HttpSettings
from citewire_kit.arrivals import Arrivals
from citewire_kit.audit import NO_TRAIL, AuditRecord, AuditTrail, use_record
from citewire_kit.audit_events import Action, Outcome
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
"""Route label of unknown paths, so that clients can't create labels."""

_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
_UNLOGGED = frozenset({"/livez", "/readyz"})
_AUTHORITY = re.compile(r"(?:\[(?P<address>[0-9A-Fa-f:.]+)\]|(?P<name>[A-Za-z0-9._-]+))(?::\d{0,5})?")
_READING_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})
_RESPONSE = "citewire.response"
_REFUSALS = frozenset({401, 402, 403, 429})
_CROSS_ORIGIN_METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE")
_EXPOSED_HEADERS = (
    "Allow",
    "Citewire-Run",
    "Content-Disposition",
    "Location",
    "RateLimit",
    "RateLimit-Policy",
    "Retry-After",
    "WWW-Authenticate",
    "X-Document-Version",
    "X-Request-Id",
    "X-Vercel-AI-UI-Message-Stream",
)
_SECURITY_HEADERS = (
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"content-security-policy", b"default-src 'none'; frame-ancestors 'none'"),
)

Seconds = Callable[[str, str], float]
"""Returns the time budget of a request, by its method and path."""


class Limit(NamedTuple):
    """A body's size limit: its name, the bytes shown in errors, and the bytes that are read."""

    what: str
    shown_bytes: int
    read_bytes: int


BodyLimit = Callable[[str, str], Limit]
"""Returns the size limit of a request's body, by its path and content type."""

Audited = Callable[[Scope], tuple[Action, str] | None]
"""Returns a request's action in the audit trail and its object ("" without one); None if it isn't recorded."""

ProblemResponse = Callable[[CitewireError], ASGIApp]
"""Returns an error as a response."""


@dataclass(frozen=True, slots=True)
class CrossOrigin:
    """The origins whose pages may call from a browser. A page may send a key in a header."""

    origins: tuple[str, ...]
    credentials: bool
    seconds: int

    def around(self, app: ASGIApp) -> ASGIApp:
        """Answers preflight requests, and adds the allowed origin to every other response; `Vary` is set either way."""
        return CORSMiddleware(
            app,
            allow_origins=self.origins,
            allow_methods=_CROSS_ORIGIN_METHODS,
            allow_headers=("*",),  # clients send custom headers, such as OpenAI's `x-stainless-lang`
            allow_credentials=self.credentials,
            expose_headers=_EXPOSED_HEADERS,
            max_age=self.seconds,
        )


def cross_origin_rules(settings: HttpSettings) -> CrossOrigin | None:
    """Returns the rules for other origins; None if no other may call."""
    origins = settings.allowed_origins()
    return CrossOrigin(origins, settings.cors_credentials, settings.cors_seconds) if origins else None


def wrap(
    app: ASGIApp,
    *,
    problem_response: ProblemResponse,
    seconds: Seconds,
    body_limit: BodyLimit,
    arrivals: Arrivals,
    admit: Callable[[Scope], AbstractAsyncContextManager[None]] = nullcontext,
    local_only: bool = False,
    cross_origin: CrossOrigin | None = None,
    trail: AuditTrail = NO_TRAIL,
    audited: Audited = lambda _: None,
) -> ASGIApp:
    """Wraps an application in, outermost first: request id, trace, logs, other origins, errors, time budget.

    Errors are inside the access log, so that failures are counted and logged as they were answered, and inside the
    rules for other origins, so that their pages can read them. `admit` may reject a request before any work.
    """

    async def answer(scope: Scope, receive: Receive, send: Send) -> None:
        try:
            with budget(seconds(scope["method"], scope["path"])), arrivals.admit(_caller(scope)) as arrival:
                limit = body_limit(scope["path"], header(scope, b"content-type"))
                limited = _limited(scope, receive, limit, arrival.complete)
                if local_only:
                    _check_local(scope, cross_origin.origins if cross_origin is not None else ())
                if scope["path"] not in _UNLOGGED:
                    trail.check()
                async with admit(scope):
                    await app(scope, limited, send)
        except Exception as exc:  # noqa: BLE001 # it becomes a response, and is logged there
            # If a body has begun and isn't complete, the server closes the connection, so that it doesn't look
            # complete. The failure has already been logged.
            if not scope[_RESPONSE].started:
                await problem_response(_as_answered(exc))(scope, receive, send)

    inner = answer if cross_origin is None else cross_origin.around(answer)

    async def handle(scope: Scope, receive: Receive, send: Send) -> None:
        agent = header(scope, b"user-agent")
        with (
            use_request_id(header(scope, b"x-request-id")) as request_id,
            use_record(trail, _address(scope), agent) as record,
        ):
            response = _Response(send, ((b"x-request-id", request_id.encode()), *_SECURITY_HEADERS))
            scope[_RESPONSE] = response
            with _traced(scope, response), _logged(scope, response, record, audited):
                await inner(scope, receive, response.send)

    return handle


class _Response:
    """Wraps `send`: adds missing headers to the response, and notes its status."""

    def __init__(self, send: Send, headers: Iterable[tuple[bytes, bytes]]) -> None:
        self._send = send
        self.headers = tuple(headers)
        self.code = 499  # the client disconnected before a response began
        self.started = False

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.code, self.started = message["status"], True
            given: list[tuple[bytes, bytes]] = list(message.get("headers", []))
            names = {name.lower() for name, _ in given}
            message = {**message, "headers": [*given, *(pair for pair in self.headers if pair[0] not in names)]}
        await self._send(message)


@contextmanager
def _traced(scope: Scope, response: _Response) -> Generator[None]:
    """Continues the caller's trace or begins one; every call to a service becomes part of it."""
    carrier = {name: value for name in ("traceparent", "tracestate") if (value := header(scope, name.encode()))}
    span = _tracer.start_span(scope["method"], context=extract(carrier), kind=SpanKind.SERVER)
    with trace.use_span(span, end_on_exit=True, record_exception=False, set_status_on_exception=False):
        try:
            yield
        finally:
            if span.is_recording():
                route = route_of(scope)
                span.update_name(f"{scope['method']} {route}")
                span.set_attributes({"http.request.method": scope["method"], "http.route": route})
                span.set_attribute("http.response.status_code", response.code)
                if response.code >= 500:
                    span.set_status(StatusCode.ERROR)


@contextmanager
def _logged(scope: Scope, response: _Response, record: AuditRecord, audited: Audited) -> Generator[None]:
    """Writes a log line, a count and an audit event for each request at the end of its response."""
    started = time.perf_counter()
    try:
        yield
    finally:
        seconds = time.perf_counter() - started
        method = scope["method"] if scope["method"] in _METHODS else "OTHER"
        route = route_of(scope)
        HTTP_REQUESTS.labels(method, route, str(response.code)).inc()
        HTTP_SECONDS.labels(method, route).observe(seconds)
        if route not in _UNLOGGED:
            caller = (
                {} if (who := record.tenant) is None else {"org": who.org_id, "user": who.user_id, "key": who.key_id}
            )
            ms = round(seconds * 1000, 1)
            log.info("http_request", method=method, route=route, status=response.code, ms=ms, **caller)
        if (entry := audited(scope)) is not None:
            action, name = entry
            reason = record.reason or (
                "" if response.code < 400 else "CANCELLED" if response.code == 499 else "INTERNAL"
            )
            record.add(action, _outcome(response.code, reason), (*((name,) if name else ()), *record.objects), reason)


def _outcome(status: int, reason: str) -> Outcome:
    """The outcome of a request; one that failed after its response had begun has a success status and a reason."""
    if status in _REFUSALS:
        return Outcome.REFUSED
    return Outcome.FAILED if reason or status >= 400 else Outcome.OK


def _as_answered(exc: Exception) -> CitewireError:
    if isinstance(exc, CitewireError):
        return exc
    log.error("request_failed", exc_info=exc)
    return Internal("something went wrong on our side; the log has the details", reason="INTERNAL")


def _caller(scope: Scope) -> str:
    """Identifies the sender before its key is looked up: by its credentials, or else by its address."""
    return header(scope, b"authorization") or _address(scope)


def _address(scope: Scope) -> str:
    """The client's address; behind a trusted proxy, the one given by the proxy."""
    peer: tuple[str, int] | None = scope.get("client")
    return peer[0] if peer else ""


def _limited(scope: Scope, receive: Receive, limit: Limit, on_end: Callable[[], None]) -> Receive:
    """Stops reading a body at its limit, or already by its declared length.

    `on_end` is called when the request has been received completely.
    """
    declared = header(scope, b"content-length")
    if declared.isdecimal() and int(declared) > limit.read_bytes:
        raise too_large(limit.shown_bytes, limit.what)
    seen = 0
    if declared in ("", "0") and not header(scope, b"transfer-encoding"):
        on_end()

    async def limited() -> Message:
        nonlocal seen
        message = await receive()
        if message["type"] == "http.request":
            seen += len(message.get("body", b""))
            if seen > limit.read_bytes:
                raise too_large(limit.shown_bytes, limit.what)
            if not message.get("more_body", False):
                on_end()
        return message

    return limited


def _check_local(scope: Scope, origins: Collection[str]) -> None:
    """With auth off, rejects requests whose Host isn't this machine, and those from other servers' pages.

    Listening on loopback excludes other machines, but not web pages: a browser sends any page's requests to
    `localhost`, forms even without a preflight, and with a host name that resolves to 127.0.0.1 they look like those
    of the same site. Pages of another server on this machine are foreign too, unless their origin is allowed.
    """
    host, origin, site = (header(scope, name) for name in (b"host", b"origin", b"sec-fetch-site"))
    if not is_local(host) or not _may_send(scope["method"], host, origin, site, origins):
        raise PermissionDenied(
            "while authentication is off, only addresses of this machine may be used (localhost, 127.0.0.1), and only "
            "by its own pages or those of CITEWIRE_GATEWAY_CORS_ORIGINS",
            reason="PERMISSION_DENIED",
        )


def _may_send(method: str, host: str, origin: str, site: str, origins: Collection[str]) -> bool:
    """Whether a request's origin is allowed, as stated by browsers; other clients don't state one.

    Only browsers send an Origin, and a page of another site can't omit it from a POST (it may be `null`).
    """
    if origin in origins:
        return True
    _, scheme_end, authority = origin.partition("://")
    if origin and not (scheme_end and authority and is_local(authority)):
        return False
    if method in _READING_METHODS:
        return True  # pages of other origins can't read the response
    return site in ("same-origin", "none") if site else not origin or authority.lower() == host.lower()


def add_headers(scope: Scope, headers: Iterable[tuple[bytes, bytes]]) -> None:
    """Adds headers, in lower case, to the response, unless it has its own of that name."""
    response: _Response = scope[_RESPONSE]
    response.headers += tuple(headers)


def header(scope: Scope, name: bytes) -> str:
    """Returns a request header's value, "" if it isn't there."""
    pairs: Iterable[tuple[bytes, bytes]] = scope["headers"]
    for key, value in pairs:
        if key == name:
            return value.decode("latin-1")
    return ""


def route_of(scope: Scope) -> str:
    """Returns the template of the request's route."""
    route: Any = scope.get("route")
    path = getattr(route, "path", None)
    return path if isinstance(path, str) else UNMATCHED


def is_local(authority: str) -> bool:
    """Whether `host`, `host:port` or `[address]:port` is this machine; HTTP/1.0 clients may send none."""
    parts = _AUTHORITY.fullmatch(authority)
    return not authority or (parts is not None and is_loopback((parts["address"] or parts["name"]).lower()))
