"""Limits of connections, before anything of their requests is known: bytes, headers, time, and how many there are.

uvicorn has no limits of its own with httptools (ADR 22). Its protocol is extended here: what a request's head may
hold is checked as it is parsed, and a sweep twice a second ends requests that take too long.
"""

import asyncio
import json
from collections import Counter, defaultdict, deque
from http import HTTPStatus
from typing import Any, Final, cast

import httptools
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from citewire_http.addresses import TrustedProxies, site_of
from citewire_http.metrics import REFUSED_CONNECTIONS
from citewire_http.settings import HttpSettings

RESERVED: Final = 64
"""Connections beyond the limit, on which only `/livez` and `/readyz` are answered."""
PROBES: Final = frozenset({"/livez", "/readyz"})

DEPARTURE: Final = "citewire.departure"
"""Key in a request's scope of the future that is done once its client has disconnected."""

_LINGER_SECONDS: Final = 2.0
"""How long the rest of a rejected request is discarded, so that its sender gets the response."""
_REST_SECONDS: Final = 5.0
"""How long a body may continue after its request has been answered."""
_LINGER_BYTES: Final = 1024 * 1024
_OVERHEAD_BYTES: Final = 64 * 1024
_OVERHEAD_RATIO: Final = 16
"""Bytes of framing allowed per byte of a chunked body, beyond `_OVERHEAD_BYTES`."""
_MAX_PIPELINED: Final = 16

_REASONS: Final = {
    400: ("INVALID_FIELD", "the request isn't HTTP/1.1"),
    408: ("DEADLINE_EXCEEDED", "the request didn't arrive in time"),
    414: ("TOO_LARGE", "the address is too long"),
    429: ("RATE_LIMITED", "too many connections from this address: close some"),
    431: ("TOO_LARGE", "the headers are too many or too long"),
    503: ("OVERLOADED", "too many connections: try again soon"),
}


class Connections:
    """All connections of a process.

    Args:
        settings: The limits.
    """

    def __init__(self, settings: HttpSettings) -> None:
        self.settings = settings
        self.proxies = TrustedProxies(settings.trusted_networks())
        self._by_address: Counter[str] = Counter()
        self._all: set[GuardedProtocol] = set()
        self._waiting: dict[GuardedProtocol, None] = {}
        """Connections without a request, the longest waiting first."""
        self._idle: defaultdict[str, dict[GuardedProtocol, None]] = defaultdict(dict)
        """An address's idle connections, the longest idle first."""

    @property
    def full(self) -> bool:
        """Whether there are more connections than allowed."""
        return len(self._all) > self.settings.max_connections

    def add(self, connection: "GuardedProtocol") -> bool:
        """Adds a new connection; returns whether there is room, if necessary by closing the longest waiting one."""
        if len(self._all) >= self.settings.max_connections and self._waiting:
            next(iter(self._waiting)).drop("replaced")
        if len(self._all) >= self.settings.max_connections + RESERVED:
            return False
        self._all.add(connection)
        self._waiting[connection] = None
        return True

    def remove(self, connection: "GuardedProtocol") -> None:
        """Removes a connection."""
        self._all.discard(connection)
        self.busy(connection)

    def wait(self, connection: "GuardedProtocol") -> None:
        """Records that all requests of a connection have been answered."""
        if connection in self._all:
            self._waiting[connection] = None
            self._idle[site_of(connection.address)][connection] = None

    def busy(self, connection: "GuardedProtocol") -> None:
        """Records that a connection has a request."""
        self._waiting.pop(connection, None)
        site = site_of(connection.address)
        self._idle[site].pop(connection, None)
        if not self._idle[site]:
            del self._idle[site]

    def make_room(self, address: str) -> None:
        """Closes an address's longest idle connection, if the address is at its limit."""
        idle = self._idle.get(site_of(address))
        if idle and self._by_address[site_of(address)] >= self.settings.max_connections_per_address:
            next(iter(idle)).drop("replaced")

    def enter(self, address: str) -> bool:
        """Counts a connection, or a proxy's request, for an address; returns whether that is within the limit."""
        key = site_of(address)
        if self._by_address[key] >= self.settings.max_connections_per_address:
            return False
        self._by_address[key] += 1
        return True

    def leave(self, address: str) -> None:
        """Undoes `enter`."""
        key = site_of(address)
        self._by_address[key] -= 1
        if self._by_address[key] <= 0:
            del self._by_address[key]

    def sweep(self, now: float) -> None:
        """Ends requests that take too long."""
        for connection in list(self._all):
            connection.check_time(now)


class GuardedProtocol(HttpToolsProtocol):
    """uvicorn's HTTP protocol with limits.

    Args:
        connections: All connections of the process.
        arguments: uvicorn's own.
    """

    def __init__(self, connections: Connections, **arguments: Any) -> None:  # noqa: ANN401 # uvicorn's
        super().__init__(**arguments)
        self._connections = connections
        self._limits = connections.settings
        self.address = ""
        """The peer's address, while it is counted; "" for a proxy."""
        self._from_proxy = False
        self._forwarded_addresses: deque[str] = deque()
        self._refusal = 0
        self._in_head, self._in_body = True, False
        self._head_bytes = self._headers_bytes = self._header_count = 0
        self._body_bytes = self._overhead = 0
        self._begun = self._progressed = self._checked = self.loop.time()
        self._answered = 0.0
        self._departure: asyncio.Future[None] = self.loop.create_future()

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override] # as uvicorn has it
        """Admits or rejects the connection."""
        super().connection_made(transport)
        address = self.client[0] if self.client else ""
        if not self._connections.add(self):
            self.connections.discard(self)
            REFUSED_CONNECTIONS.labels("full").inc()
            transport.abort()
            return
        self._from_proxy = address in self._connections.proxies
        if self._from_proxy:
            return
        self._connections.make_room(address)
        if self._connections.enter(address):
            self.address = address
        else:
            self._refuse(429)

    def connection_lost(self, exc: Exception | None) -> None:
        """Removes the connection, and notifies its request."""
        super().connection_lost(exc)
        self._departure.set_result(None)
        self._connections.remove(self)
        self._leave_all()

    def data_received(self, data: bytes) -> None:
        """Parses and counts received data."""
        if self._refusal:
            self._discard(len(data))
            return
        if not self._in_head and not self._in_body:
            self._expect_head()  # for the next request; empty lines before it don't start one
        in_head, body_bytes, cycle = self._in_head, self._body_bytes, self.cycle
        super().data_received(data)
        if self._refusal:
            return
        if self._in_head and in_head:
            self._head_bytes += len(data)
            if self._head_bytes > self._limits.max_header_bytes:
                self._refuse(431)
        elif self._in_body and self.cycle is cycle:
            self._overhead += len(data) - (self._body_bytes - body_bytes)
            if self._overhead > _OVERHEAD_BYTES + _OVERHEAD_RATIO * self._body_bytes:
                self._refuse(400)

    def on_message_begin(self) -> None:
        """Called at the start of a request."""
        super().on_message_begin()
        if not self._in_head:
            self._expect_head()
        self._headers_bytes = self._header_count = 0

    def on_url(self, url: bytes) -> None:
        """Called with a part of the URL."""
        super().on_url(url)
        if len(self.url) > self._limits.max_url_bytes:
            self._stop(414)

    def on_header(self, name: bytes, value: bytes) -> None:
        """Called with a header, or a trailer, which is dropped."""
        self._header_count += 1
        self._headers_bytes += len(name) + len(value) + 4
        if self._header_count > self._limits.max_headers or self._headers_bytes > self._limits.max_header_bytes:
            self._stop(431)
        if self._in_head:
            super().on_header(name, value)

    def on_headers_complete(self) -> None:
        """Called when the head is complete: the request may run if there is room."""
        if self._connections.full and self.url.partition(b"?")[0].decode("latin-1") not in PROBES:
            self._stop(503)
        if self._from_proxy:
            self._count_forwarded()
        if len(self.pipeline) >= _MAX_PIPELINED:
            self._stop(400)
        self._in_head, self._in_body = False, True
        self._body_bytes = self._overhead = 0
        self._begun = self._progressed = self.loop.time()
        self._connections.busy(self)
        cast("dict[str, Any]", self.scope)[DEPARTURE] = self._departure
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        """Called with a part of the body."""
        self._body_bytes += len(body)
        self._progressed = self.loop.time()
        super().on_body(body)

    def on_message_complete(self) -> None:
        """Called at the end of the body."""
        self._in_body = False
        super().on_message_complete()

    def on_response_complete(self) -> None:
        """Called when a request has been answered."""
        self._answered = self.loop.time()
        if self._forwarded_addresses:
            self._leave(self._forwarded_addresses.popleft())
        if not self.pipeline:
            self._connections.wait(self)
        super().on_response_complete()

    def send_400_response(self, msg: str) -> None:
        """Responds to a request that can't be parsed, or that a callback has rejected."""
        del msg
        self._refuse(self._refusal or 400)

    def drop(self, cause: str) -> None:
        """Closes the connection without a response."""
        REFUSED_CONNECTIONS.labels(cause).inc()
        self._connections.remove(self)
        self._leave_all()
        self.transport.abort()

    def check_time(self, now: float) -> None:
        """Ends a connection if its request takes too long to arrive."""
        passed, self._checked = now - self._checked, now
        cycle = self._running()
        if self._refusal:
            if now - self._answered > _LINGER_SECONDS:
                self.transport.abort()
        elif self._in_head:
            if cycle is not None:
                self._begun = now  # the next request's head may wait while one is answered
            elif now - self._begun > self._limits.header_seconds:
                self._refuse(408)
        elif not self._in_body:
            return
        elif cycle is None:
            if now - self._answered > _REST_SECONDS:
                self.drop("body")
        elif self.flow.read_paused:
            self._begun += passed  # the application is slow, not the client
            self._progressed += passed
        else:
            allowed = self._limits.body_seconds + self._body_bytes / self._limits.body_bytes_per_second
            if now - self._progressed > self._limits.body_idle_seconds or now - self._begun > allowed:
                self._refuse(408)

    def _running(self) -> RequestResponseCycle | None:
        """Returns the newest request, unless it has been answered."""
        cycle = cast("RequestResponseCycle | None", self.cycle)
        return None if cycle is None or cycle.response_complete else cycle

    def _expect_head(self) -> None:
        self._in_head = True
        self._head_bytes = 0
        self._begun = self.loop.time()

    def _count_forwarded(self) -> None:
        """Counts a proxy's request for its client, which the application sees as the peer from now on."""
        header = b",".join(value for name, value in self.headers if name == b"x-forwarded-for")
        address = self._connections.proxies.forwarded_for(header)
        if address:
            self.scope["client"] = (address, 0)
            if not self._connections.enter(address):
                self._stop(429)
        self._forwarded_addresses.append(address)

    def _leave_all(self) -> None:
        self._leave(self.address)
        self.address = ""
        while self._forwarded_addresses:
            self._leave(self._forwarded_addresses.popleft())

    def _leave(self, address: str) -> None:
        if address:
            self._connections.leave(address)

    def _stop(self, status: int) -> None:
        """Rejects from a parser callback: the parser stops, and uvicorn requests the response."""
        self._refusal = status
        raise httptools.HttpParserError(_REASONS[status][1])

    def _refuse(self, status: int) -> None:
        """Responds and closes; further data is discarded for a moment, so that the client gets the response."""
        self._refusal = status
        self._answered = self.loop.time()
        self._head_bytes = 0
        REFUSED_CONNECTIONS.labels(str(status)).inc()
        cycle = self._running()
        if cycle is not None:
            if cycle.response_started or self._in_head or self.pipeline:  # another response has to be sent first
                self.transport.abort()
                return
            cycle.disconnected = True
            cycle.message_event.set()
        if self.transport.is_closing():
            return
        self.flow.resume_reading()
        self.transport.write(_answer(status))
        if self.transport.can_write_eof():
            self.transport.write_eof()

    def _discard(self, size: int) -> None:
        self._head_bytes += size
        if self._head_bytes > _LINGER_BYTES:
            self.transport.abort()


def _answer(status: int) -> bytes:
    """Returns a problem like those of routes, but without a request id, because there is no request."""
    reason, detail = _REASONS[status]
    name = reason.lower().replace("_", "-")
    problem = {
        "type": f"https://citewire.dev/errors/{name}",
        "title": HTTPStatus(status).phrase,
        "status": status,
        "detail": detail,
        "reason": reason,
    }
    body = json.dumps(problem).encode()
    retry = "Retry-After: 1\r\n" if status in (429, 503) else ""
    head = (
        f"HTTP/1.1 {status} {HTTPStatus(status).phrase}\r\nContent-Type: application/problem+json\r\n"
        f"Content-Length: {len(body)}\r\n{retry}X-Content-Type-Options: nosniff\r\nConnection: close\r\n\r\n"
    )
    return head.encode() + body
