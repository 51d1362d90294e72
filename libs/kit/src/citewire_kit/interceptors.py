"""The one interceptor of every server: it runs the ordered stages around each call, whatever its shape.

A stage is an async context manager around the whole call. It runs in the handler's task, so a context variable that
it sets is seen by the handler. The wrapped handler is always a coroutine, never an async generator: grpc.aio closes a
generator only when it is garbage collected, and then in another task, whereas a coroutine is cancelled in place, so
that the stages and the handler's `finally` run at once and in their own context.

See docs/adr/0006-interceptors.md.
"""

from __future__ import annotations  # grpc's classes are generic only in their type stubs

import asyncio
import time
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, aclosing
from dataclasses import dataclass
from typing import Any, Final, TypeAlias, cast

import grpc
from google.rpc.status_pb2 import Status

from citewire_kit.audit_rpcs import touch_message
from citewire_kit.errors import Code, FieldViolation, InvalidArgument
from citewire_kit.methods import Shape, parse_method, shape
from citewire_kit.status import DETAILS_KEY

Context: TypeAlias = "grpc.aio.ServicerContext[Any, Any]"
Handler: TypeAlias = "grpc.RpcMethodHandler[Any, Any]"
Behaviour = Callable[[Any, Context], Awaitable[Any]]

INTERCEPTOR_ORDER: Final = ("request_id", "tracing", "metrics", "audit", "errors", "tenant", "limits")
"""Outermost first. Metrics count and the audit trail records what later stages reject, and every error has a request id
and a trace id."""

RETRY_SECONDS: Final = 0.5
"""The client's channel may retry a call that became UNAVAILABLE within this time and has as much time left.

A later retry would only exceed the deadline, because the call has already waited without success.
"""

_NO_RETRY: Final = ("grpc-retry-pushback-ms", "-1")

SKIPPED: Final = ("grpc.health.", "grpc.reflection.")
"""Services without stages: probes carry no tenant, don't count as load, and must be answered by a full server."""


@dataclass(slots=True)
class Call:
    """The call that a stage wraps."""

    path: str
    service: str
    method: str
    shape: Shape
    metadata: Mapping[str, str]
    raw_metadata: Sequence[tuple[str, str | bytes]]
    context: Context
    seconds: float | None
    """Seconds that the client gave the call; None without a deadline."""
    started: float
    """`time.monotonic()` at the call's start."""


Stage = Callable[[Call], AbstractAsyncContextManager[None]]


class RpcFailure(Exception):  # noqa: N818 # not a domain error: it carries a call's status to the client
    """The final status of a call, raised by the errors stage and sent after all stages have ended."""

    def __init__(self, code: Code, status: Status) -> None:
        super().__init__(status.message)
        self.code = code
        self.status = status


class ClientGone(asyncio.CancelledError):
    """A message can't be sent because the call is over; its cancellation hasn't arrived yet."""


class StageInterceptor(grpc.aio.ServerInterceptor):
    """Wraps every handler in the stages, once."""

    def __init__(self, interceptor_stages: Sequence[tuple[str, Stage]]) -> None:
        self._interceptor_stages = tuple(stage for _, stage in interceptor_stages)
        self._wrapped: dict[str, Handler] = {}

    async def intercept_service(  # noqa: D102 # grpc's interface
        self,
        continuation: Callable[[grpc.HandlerCallDetails], Awaitable[Handler | None]],
        handler_call_details: grpc.HandlerCallDetails,
    ) -> Handler:
        path = handler_call_details.method
        known = self._wrapped.get(path)
        if known is not None:
            return known
        handler = await continuation(handler_call_details)
        if handler is None or path.startswith(tuple(f"/{name}" for name in SKIPPED)):
            # None is an unknown method, which grpc answers. It isn't cached, because clients could fill the memory.
            return cast("Handler", handler)
        wrapped = _wrap(path, handler, self._interceptor_stages)
        self._wrapped[path] = wrapped
        return wrapped


def _wrap(path: str, handler: Handler, interceptor_stages: Sequence[Stage]) -> Handler:
    streams_in, streams_out = bool(handler.request_streaming), bool(handler.response_streaming)
    kind = shape(client_streams=streams_in, server_streams=streams_out)
    attribute = {
        "unary": "unary_unary",
        "server_stream": "unary_stream",
        "client_stream": "stream_unary",
        "bidi_stream": "stream_stream",
    }[kind]
    inner: Callable[..., Any] = getattr(handler, attribute)
    behave = _streaming(inner) if streams_out else cast("Behaviour", inner)
    if kind == "client_stream":
        behave = _complete_requests(behave)
    make: Callable[..., Handler] = getattr(grpc, f"{attribute}_rpc_method_handler")
    name = parse_method(path)
    # A single request is parsed inside the stages: rejected calls aren't parsed, and malformed ones get our error.
    parse = None if streams_in else handler.request_deserializer

    async def run(request: Any, context: Context) -> Any:  # noqa: ANN401 # any message
        raw = tuple(cast("Sequence[tuple[str, str | bytes]]", context.invocation_metadata() or ()))
        call = Call(
            path,
            name.service,
            name.method,
            kind,
            {key: value for key, value in raw if isinstance(value, str)},
            raw,
            context,
            context.time_remaining(),
            time.monotonic(),
        )
        try:
            async with AsyncExitStack() as stack:
                for stage in interceptor_stages:
                    await stack.enter_async_context(stage(call))
                message = request if parse is None else _parse(parse, request)
                touch_message(message)
                answer = await behave(message, context)
                touch_message(answer)
                return answer
        except RpcFailure as failure:
            trailing: tuple[tuple[str, str | bytes], ...] = ((DETAILS_KEY, failure.status.SerializeToString()),)
            if failure.code is Code.UNAVAILABLE and not _may_be_retried(call):
                trailing += (_NO_RETRY,)
            await context.abort(grpc.StatusCode[failure.code.value], failure.status.message, trailing)

    return make(
        run,
        request_deserializer=handler.request_deserializer if streams_in else None,
        response_serializer=handler.response_serializer,
    )


def _may_be_retried(call: Call) -> bool:
    taken = time.monotonic() - call.started
    return taken < RETRY_SECONDS and (call.seconds is None or call.seconds - taken > RETRY_SECONDS)


def _parse(parse: Callable[[bytes], Any], raw: bytes) -> Any:  # noqa: ANN401 # any message
    try:
        return parse(raw)
    except Exception as exc:
        raise InvalidArgument(
            "the request isn't a valid message of this method",
            reason="INVALID_FIELD",
            violations=[FieldViolation("", "can't be parsed")],
        ) from exc


def _complete_requests(behave: Behaviour) -> Behaviour:
    """Prevents a handler from treating the requests of a disconnected client as complete.

    In grpc.aio a broken stream looks like one that ended, and the cancellation arrives later, so a cut upload would
    be stored as a complete one. Sending fails on a broken call, so the initial metadata is sent before the end of the
    requests is believed.
    """

    async def checked(requests: AsyncIterator[Any], context: Context) -> AsyncGenerator[Any]:
        async for request in requests:
            yield request
        try:
            await context.send_initial_metadata(())
        except grpc.aio.BaseError as exc:
            raise ClientGone from exc

    async def run(requests: AsyncIterator[Any], context: Context) -> Any:  # noqa: ANN401 # any message
        async with aclosing(checked(requests, context)) as complete:
            return await behave(complete, context)

    return run


def _streaming(inner: Callable[..., Any]) -> Behaviour:
    """Runs a handler that returns a stream: an async generator, or a coroutine that writes messages itself."""

    async def run(request: Any, context: Context) -> None:  # noqa: ANN401 # any message
        answer = inner(request, context)
        if not isinstance(answer, AsyncGenerator):
            await answer
            return
        write = context.write
        async with aclosing(cast("AsyncGenerator[Any, None]", answer)) as messages:
            async for message in messages:
                try:
                    await write(message)
                except grpc.aio.BaseError as exc:
                    raise ClientGone from exc

    return run
