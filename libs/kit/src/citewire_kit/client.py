"""Calls to other services.

Each function adds the request id and the trace context (the channel adds who calls), limits the timeout to what the
running call has left, records metrics and a span, turns errors of the call into a `CitewireError`, and cancels the RPC
when its caller is cancelled: a grpc.aio call that is only dropped goes on.
"""

from __future__ import annotations  # grpc's classes are generic only in their type stubs

import asyncio
import contextlib
import time
from collections.abc import AsyncGenerator, AsyncIterable, Coroutine, Iterable
from contextlib import aclosing
from types import TracebackType
from typing import Any, Final, Protocol, Self, TypeVar, cast

import grpc
from opentelemetry import trace
from opentelemetry.trace import SpanKind, StatusCode

from citewire_kit import metrics
from citewire_kit.deadline import remaining
from citewire_kit.errors import CitewireError, Code, DeadlineExceeded, Internal, Unavailable
from citewire_kit.health import NAME as HEALTH
from citewire_kit.methods import Shape, methods_of, parse_method
from citewire_kit.status import from_rpc_error
from citewire_kit.telemetry import get_logger
from citewire_kit.tenant import (
    REQUEST_ID_KEY,
    context_to_metadata,
    current_call_context,
    current_request_id,
)
from citewire_kit.tracing import get_tracer, inject

T = TypeVar("T")
Req = TypeVar("Req")
Res = TypeVar("Res")
Req_contra = TypeVar("Req_contra", contravariant=True)

HOP_SECONDS: Final = 0.05
"""Reserved for the response, so that the caller gets it before its own deadline."""

_STATUS_SECONDS: Final = 1.0
"""Maximum wait for the server's status if the library's own error hides it; the status is already on its way."""

_CALLER_REASONS: Final = ("CALLER_INVALID", "CALLER_FORBIDDEN")

log = get_logger(__name__)
_tracer = get_tracer(__name__)


def init_client(services: Iterable[str]) -> None:
    """Creates the client metrics of `services` (full names, whose stubs are imported) before the first call."""
    for service in services:
        for labels in methods_of(service):
            metrics.grpc_client_series(*labels)


async def unary(method: grpc.aio.UnaryUnaryMultiCallable[Req, Res], request: Req, *, timeout: float) -> Res:
    """Calls a unary method.

    Args:
        method: A method of a stub, for example `stub.Embed`.
        request: The request message.
        timeout: Maximum duration in seconds; shorter if the running call has less time left.

    Returns:
        The response message.

    Raises:
        CitewireError: The call failed; `DeadlineExceeded` at once if no time is left.
    """
    with _ClientCall(method, "unary", timeout) as client_call:
        call = method(request, timeout=client_call.timeout, metadata=client_call.metadata)
        try:
            return await call
        finally:
            call.cancel()  # does nothing to a finished call


async def client_stream(
    method: grpc.aio.StreamUnaryMultiCallable[Req, Res], requests: AsyncIterable[Req], *, timeout: float
) -> Res:
    """Calls a method that takes a stream of requests.

    An error of `requests` ends the call and is raised here. For the rest, see `unary`.
    """
    with _ClientCall(method, "client_stream", timeout) as client_call:
        call = method(timeout=client_call.timeout, metadata=client_call.metadata)
        server_status = _ServerStatus(call)
        sender = asyncio.create_task(_send(call, requests, client_call))
        try:
            return await call
        except grpc.aio.AioRpcError as exc:
            raise await server_status.of(exc) from None
        finally:
            call.cancel()
            await _stop(sender)


async def stream(
    method: grpc.aio.UnaryStreamMultiCallable[Req, Res], request: Req, *, timeout: float
) -> AsyncGenerator[Res, None]:
    """Calls a method that answers with a stream.

    Iterate it inside `contextlib.aclosing`, so that leaving the loop cancels the RPC at once.

    Raises:
        CitewireError: The call failed, before or between messages.
    """
    with _ClientCall(method, "server_stream", timeout) as client_call:
        call = method(request, timeout=client_call.timeout, metadata=client_call.metadata)
        try:
            while (message := await call.read()) is not grpc.aio.EOF:
                yield cast("Res", message)
        finally:
            call.cancel()


async def bidi(
    method: grpc.aio.StreamStreamMultiCallable[Req, Res], requests: AsyncIterable[Req], *, timeout: float
) -> AsyncGenerator[Res, None]:
    """Calls a method that takes a stream and answers with a stream. See `stream` and `client_stream`."""
    with _ClientCall(method, "bidi_stream", timeout) as client_call:
        call = method(timeout=client_call.timeout, metadata=client_call.metadata)
        server_status = _ServerStatus(call)
        sender = asyncio.create_task(_send(call, requests, client_call))
        try:
            # Not call.read(): it drops unread messages once there is a status, even one that hides the real status.
            async with aclosing(cast("AsyncGenerator[Res, None]", aiter(call))) as messages:
                async for message in messages:
                    yield message
        except grpc.aio.AioRpcError as exc:
            sent = await server_status.of(exc)
            if sent.code() is not grpc.StatusCode.OK:
                raise sent from None
        finally:
            call.cancel()
            await _stop(sender)


class _ClientCall:
    """One call: its timeout and metadata, its metrics and span, and the translation of its errors."""

    def __init__(self, method: object, shape: Shape, timeout: float) -> None:
        path = cast("bytes", getattr(method, "_method", b"/unknown/unknown")).decode()
        name = parse_method(path)
        self._name = name
        self._series = metrics.grpc_client_series(shape, name.service, name.method)
        self._span = _tracer.start_span(path.removeprefix("/"), kind=SpanKind.CLIENT)
        self._span.set_attributes({"rpc.system": "grpc", "rpc.service": name.service, "rpc.method": name.method})
        self._started = 0.0
        self._timeout = timeout
        self.timeout = timeout
        self.metadata: tuple[tuple[str, str], ...] = ()
        self.request_error: Exception | None = None

    def __enter__(self) -> Self:
        self._started = time.perf_counter()
        self._series.started.inc()
        self._series.in_flight.inc()
        try:
            self.timeout = _allowed(self._timeout)
            self.metadata = _metadata(self._span)
        except CitewireError as exc:
            self._finish(exc.code)
            raise
        return self

    def __exit__(
        self, _type: type[BaseException] | None, exc: BaseException | None, _trace: TracebackType | None
    ) -> None:
        if exc is None:
            self._finish(Code.OK)
        elif isinstance(exc, grpc.RpcError):
            error = from_rpc_error(exc)
            self._log(exc, error)
            self._finish(error.code)
            raise (_misconfigured() if error.reason in _CALLER_REASONS else error) from exc
        elif isinstance(exc, asyncio.CancelledError) and not _caller_cancelled():
            self._finish(Code.CANCELLED)
            if self.request_error is not None:
                raise self.request_error from None
            # The channel was closed under the call.
            raise Unavailable(
                "a service that this call needs can't be reached", reason="SERVICE_UNAVAILABLE", retry_after=1.0
            ) from exc
        elif isinstance(exc, (asyncio.CancelledError, GeneratorExit)):
            self._finish(Code.CANCELLED)
        else:
            self._finish(exc.code if isinstance(exc, CitewireError) else Code.UNKNOWN)

    def _finish(self, code: Code) -> None:
        self._series.in_flight.dec()
        self._series.seconds.observe(time.perf_counter() - self._started)
        self._series.handled[code].inc()
        if self._span.is_recording():
            self._span.set_attribute("rpc.grpc.status_code", grpc.StatusCode[code.value].value[0])
            if code is not Code.OK:
                self._span.set_status(StatusCode.ERROR, code.value)
        self._span.end()

    def _log(self, exc: grpc.RpcError, error: CitewireError) -> None:
        """Logs the peer's message, which the `CitewireError` no longer holds."""
        refused = error.reason in _CALLER_REASONS
        if isinstance(exc, grpc.aio.AioRpcError) and (refused or error.code in (Code.INTERNAL, Code.UNAVAILABLE)):
            # Health checks are repeated, may reach a server that is still starting, and report their result themselves.
            note = log.info if self._name.service == HEALTH else log.warning
            note(
                "grpc_call_failed",
                grpc_service=self._name.service,
                grpc_method=self._name.method,
                code=exc.code().name,
                details=(exc.details() or "")[:500],
                reason=error.reason,
            )


class _ServerStatus:
    """Records the status that the server sent.

    If a server ends a call while the client is still writing, grpc.aio may replace the server's status with its own
    INTERNAL, before or after the status arrives. Every status passes through the done callback.
    """

    _MASK = "Internal error from Core"

    def __init__(self, call: grpc.aio.Call) -> None:
        self._call = call
        self._sent: grpc.aio.AioRpcError | None = None
        self._known = asyncio.Event()
        call.add_done_callback(self._note)

    async def of(self, exc: grpc.aio.AioRpcError) -> grpc.aio.AioRpcError:
        """Returns the server's status if `exc` hides it."""
        if exc.details() != self._MASK:
            return exc
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_STATUS_SECONDS):
                await self._known.wait()
        return self._sent or exc

    def _note(self, _call: object) -> None:
        # These coroutines don't suspend once there is a status.
        details = _result(self._call.details())
        if details != self._MASK:
            code, trailing = _result(self._call.code()), _result(self._call.trailing_metadata())
            self._sent = grpc.aio.AioRpcError(code, grpc.aio.Metadata(), trailing, details)
            self._known.set()


def _result(ready: Coroutine[Any, Any, T]) -> T:
    try:
        ready.send(None)
    except StopIteration as done:
        return cast("T", done.value)
    raise RuntimeError("the coroutine wasn't ready")


class _Writable(Protocol[Req_contra]):
    async def write(self, request: Req_contra) -> None: ...

    async def done_writing(self) -> None: ...

    def cancel(self) -> bool: ...


async def _send(call: _Writable[Req], requests: AsyncIterable[Req], client_call: _ClientCall) -> None:
    """Writes the requests. grpc.aio's own sender loses errors of `requests` and never closes it."""
    try:
        if isinstance(requests, AsyncGenerator):
            async with aclosing(cast("AsyncGenerator[Req, None]", requests)) as closing:
                await _write_all(call, closing)
        else:
            await _write_all(call, requests)
    except Exception as exc:  # noqa: BLE001 # raised again by the call that this ends
        client_call.request_error = exc
        call.cancel()


async def _write_all(call: _Writable[Req], requests: AsyncIterable[Req]) -> None:
    async for request in requests:
        try:
            await call.write(request)
        except (grpc.RpcError, asyncio.InvalidStateError):
            return  # the call has ended: reading it raises the reason
    await call.done_writing()


async def _stop(task: asyncio.Task[None]) -> None:
    task.cancel()
    await asyncio.wait({task})


def _caller_cancelled() -> bool:
    """Whether the caller was cancelled; if not, a CancelledError means that only the RPC was."""
    task = asyncio.current_task()
    return task is None or task.cancelling() > 0


def _misconfigured() -> Internal:
    """Returns the error for a service that rejects this process, rather than the user for whom it calls."""
    return Internal("a service rejects this process's calls; the log has the details", reason="INTERNAL")


def _allowed(timeout: float) -> float:
    left = remaining()
    if left is None:
        return timeout
    left -= HOP_SECONDS
    if left <= 0:
        raise DeadlineExceeded("no time was left for the call", reason="DEADLINE_EXCEEDED")
    return min(timeout, left)


def _metadata(span: trace.Span) -> tuple[tuple[str, str], ...]:
    carrier: dict[str, str] = {}
    inject(carrier, trace.set_span_in_context(span))
    request_id = current_request_id()
    if request_id:
        carrier[REQUEST_ID_KEY] = request_id
    return (*carrier.items(), *context_to_metadata(current_call_context()))
