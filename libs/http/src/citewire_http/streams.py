"""Responses that take their time: streams of frames, bodies that are filled first, and files.

Until something has been shown, a failure is an HTTP error; from then on it is the dialect's own error frame, never a
clean end. Who leaves stops the work at once.
"""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Callable, Generator, Mapping, Sequence
from contextlib import aclosing, contextmanager
from types import MappingProxyType
from typing import Any, ClassVar, Generic, TypeVar

from starlette.responses import JSONResponse, Response
from starlette.types import Receive, Scope, Send

from citewire_http.supervision import LAST_FRAME_SECONDS, StreamControl, StreamRules, error_of, supervise
from citewire_kit.audit import fail
from citewire_kit.errors import CitewireError
from citewire_kit.metrics import STREAMS_BROKEN, STREAMS_IN_FLIGHT
from citewire_kit.status import http_status
from citewire_kit.telemetry import get_logger
from citewire_kit.tenant import Tenant, use_tenant
from citewire_kit.turns import in_turn

E = TypeVar("E")

log = get_logger(__name__)

HEARTBEAT = b": keep-alive\n\n"
"""A comment, which prevents proxies from closing an idle stream, and means nothing to clients."""

NO_HEADERS: Mapping[str, str] = MappingProxyType({})

_HEADERS = [
    (b"content-type", b"text/event-stream; charset=utf-8"),
    (b"cache-control", b"no-cache, no-transform"),
    (b"x-accel-buffering", b"no"),
]


class StreamDialect(ABC, Generic[E]):
    """Encodes the frames of one stream, in order; one object per stream."""

    name: ClassVar[str]
    """Label in metrics and records."""

    headers: ClassVar[Sequence[tuple[bytes, bytes]]] = ()
    """Additional response headers."""

    @abstractmethod
    def encode(self, event: E) -> bytes:
        """Returns the event's frames; empty if this dialect (or the profile) doesn't show it."""

    def takes_long(self, event: E) -> bool:
        """Whether `encode` takes milliseconds, so that it has to be called outside the event loop."""
        del event
        return False

    @abstractmethod
    def failed(self, error: CitewireError) -> bytes:
        """Returns the frames that end a failed stream. It must not look like a successful one."""

    def going_away(self, error: CitewireError) -> bytes:
        """Returns the final frames if this process shuts down: the same request may be sent again at once."""
        return self.failed(error)


class BodyDialect(ABC, Generic[E]):
    """Collects events into one JSON body; one object per request."""

    name: ClassVar[str]
    """Label in metrics and records."""

    @abstractmethod
    def add(self, event: E) -> None:
        """Adds an event."""

    @property
    def takes_long(self) -> bool:
        """Whether `members` takes milliseconds, so that it has to be called outside the event loop."""
        return False

    @abstractmethod
    def members(self) -> dict[str, Any]:
        """Returns the body, after the last event."""


class EventStream(Response, Generic[E]):
    """A `text/event-stream` of what `run` yields."""

    def __init__(
        self,
        run: Callable[[StreamControl], AsyncGenerator[E, None]],
        *,
        dialect: StreamDialect[E],
        preliminary: tuple[type, ...] = (),
        tenant: Tenant,
        rules: StreamRules,
        grace_seconds: float = 0.0,
        more_headers: Mapping[str, str] = NO_HEADERS,
        at_once: bool = False,
    ) -> None:
        """Nothing runs until the server calls the response.

        Args:
            run: Produces the events.
            dialect: Encodes them.
            preliminary: Events that don't yet prove that the work succeeds: they wait for the next one.
            tenant: The tenant for which it runs.
            rules: See `StreamRules`.
            grace_seconds: See `StreamControl`.
            more_headers: Additional headers of the response.
            at_once: Whether the response begins before there is any result.
        """
        super().__init__()
        self._run = run
        self._grace_seconds = grace_seconds
        self._headers = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in more_headers.items()]
        self._at_once = at_once
        self._dialect = dialect
        self._preliminary = preliminary
        self._tenant = tenant
        self._rules = rules

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Streams until the end, or until the client disconnects, the deadline passes or the process stops."""
        control = StreamControl(grace_seconds=self._grace_seconds)
        dialect = self._dialect
        writer = _Writer(send, control, self._rules, [*dialect.headers, *self._headers])
        with use_tenant(self._tenant), _in_flight(dialect.name):
            if self._at_once:
                await writer.write(HEARTBEAT, hold=False)
            work = asyncio.create_task(self._pump(writer, control))
            cause = await supervise(work, receive, control, self._rules.drain, writer)
            if cause == "client":
                return
            error = control.error if cause is not None else error_of(work)
            if error is not None:
                if not writer.started:
                    raise error
                if http_status(error) >= 500:
                    STREAMS_BROKEN.labels(dialect.name).inc()
                log.warning("stream_failed", dialect=dialect.name, reason=error.reason, error=error.message)
                going = error.reason == "SHUTTING_DOWN"
                end = dialect.going_away(error) if going else dialect.failed(error)
                try:
                    async with asyncio.timeout(LAST_FRAME_SECONDS):
                        await writer.write(end, hold=False)
                except TimeoutError:
                    # A client that doesn't read gets no error frame. The server closes the connection.
                    log.warning("client_does_not_read", dialect=dialect.name)
                    return
            await writer.finish()

    async def _pump(self, writer: "_Writer", control: StreamControl) -> None:
        encode, takes_long = self._dialect.encode, self._dialect.takes_long
        preliminary, write = self._preliminary, writer.write
        async with aclosing(self._run(control)) as events:
            async for event in events:
                frames = await in_turn(encode, event) if takes_long(event) else encode(event)
                if frames:
                    await write(frames, hold=isinstance(event, preliminary))


class EventBody(Response, Generic[E]):
    """A JSON body that `run` fills; the client may disconnect meanwhile."""

    def __init__(
        self,
        run: Callable[[StreamControl], AsyncGenerator[E, None]],
        *,
        dialect: BodyDialect[E],
        tenant: Tenant,
        rules: StreamRules,
        grace_seconds: float = 0.0,
        more_headers: Mapping[str, str] = NO_HEADERS,
    ) -> None:
        """See `EventStream`."""
        super().__init__()
        self._run = run
        self._grace_seconds = grace_seconds
        self._headers = dict(more_headers)
        self._dialect = dialect
        self._tenant = tenant
        self._rules = rules

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Runs to the end, then responds."""
        control = StreamControl(grace_seconds=self._grace_seconds)
        with use_tenant(self._tenant), _in_flight(self._dialect.name):
            work = asyncio.create_task(self._gather(control))
            cause = await supervise(work, receive, control, self._rules.drain, None)
            if cause == "client":
                return
            error = control.error if cause is not None else error_of(work)
            if error is not None:
                raise error
            response = await in_turn(self._respond) if self._dialect.takes_long else self._respond()
            await response(scope, receive, send)

    def _respond(self) -> JSONResponse:
        return JSONResponse(self._dialect.members(), headers=self._headers)

    async def _gather(self, control: StreamControl) -> None:
        async with aclosing(self._run(control)) as events:
            async for event in events:
                self._dialect.add(event)


class ByteStream(Response):
    """A body, piece by piece; reading stops when the client disconnects."""

    def __init__(
        self, data: AsyncGenerator[bytes, None], *, headers: Mapping[str, str], tenant: Tenant, rules: StreamRules
    ) -> None:
        """`headers` include Content-Length if it is known; `data` is closed by the response."""
        super().__init__()
        self._data = data
        self._head = [(name.lower().encode("latin-1"), value.encode("latin-1")) for name, value in headers.items()]
        self._tenant = tenant
        self._rules = rules

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Sends the body. After a failure it isn't completed, so that the server cuts the connection."""
        with use_tenant(self._tenant):
            work, control = asyncio.create_task(self._send(send)), StreamControl()
            try:
                cause = await supervise(work, receive, control, self._rules.drain, None)
            finally:
                await self._data.aclose()
            if cause == "client":
                fail("CANCELLED")
                return
            error = control.error if cause is not None else error_of(work)
            if error is not None:
                fail(error.reason)
                log.warning("body_cut", reason=error.reason, error=error.message)

    async def _send(self, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": self._head})
        async with aclosing(self._data) as pieces:
            async for piece in pieces:
                await send({"type": "http.response.body", "body": piece, "more_body": True})
        await send({"type": "http.response.body", "body": b"", "more_body": False})


class _Writer:
    """Writes frames, and begins the response when there is something to show."""

    def __init__(
        self, send: Send, control: StreamControl, rules: StreamRules, headers: Sequence[tuple[bytes, bytes]]
    ) -> None:
        self._send = send
        self._headers = [*_HEADERS, *headers]
        self._control = control
        self._heartbeat = rules.heartbeat_seconds
        self._now = asyncio.get_running_loop().time
        self._hold_until = self._now() + rules.hold_seconds
        self._held: list[bytes] = []
        self._last = 0.0
        self.started = False

    async def write(self, frames: bytes, *, hold: bool) -> None:
        """Writes whole frames at once; held ones wait for the next one that isn't held."""
        if not self.started:
            self._held.append(frames)
            if not hold:
                await self._begin()
            return
        self._last = self._now()
        await self._send({"type": "http.response.body", "body": frames, "more_body": True})

    async def tick(self) -> None:
        """Sends a sign of life: begins a response that waited long enough, or sends a heartbeat."""
        now = self._now()
        if not self.started:
            if now >= self._hold_until:
                self._held.append(HEARTBEAT)
                await self._begin()
        elif now - self._last >= self._heartbeat:
            await self.write(HEARTBEAT, hold=False)

    def next_tick(self) -> float:
        """Seconds until `tick` has something to do."""
        due = self._last + self._heartbeat if self.started else self._hold_until
        return max(0.001, due - self._now())

    async def finish(self) -> None:
        """Ends the response."""
        if not self.started:
            await self._begin()
        await self._send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _begin(self) -> None:
        # Set before anything is awaited, because two tasks write, and the response can't be taken back from here on.
        self.started = self._control.committed = True
        held, self._held = b"".join(self._held), []
        self._last = self._now()
        await self._send({"type": "http.response.start", "status": 200, "headers": self._headers})
        if held:
            await self._send({"type": "http.response.body", "body": held, "more_body": True})


@contextmanager
def _in_flight(dialect: str) -> Generator[None]:
    gauge = STREAMS_IN_FLIGHT.labels(dialect)
    gauge.inc()
    try:
        yield
    finally:
        gauge.dec()
