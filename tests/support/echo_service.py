"""A service with one method of each RPC shape, for tests of the kit: strings in, strings out.

Its descriptor is built here, so that these tests don't depend on a real contract.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass
from typing import Any, TypeAlias

import grpc
from google.protobuf import descriptor_pb2, descriptor_pool, wrappers_pb2
from google.protobuf.wrappers_pb2 import StringValue

from callers import KEY, KEYED
from citewire_kit.caller_limits import CallerLimits
from citewire_kit.callers.signer import Signer
from citewire_kit.channel import open_channel
from citewire_kit.server import GrpcServer
from citewire_kit.settings import Auth, ServiceSettings

SERVICE = "citewire.test.v1.EchoService"
METHODS = {
    "Unary": "unary",
    "ServerStream": "server_stream",
    "ClientStream": "client_stream",
    "Bidi": "bidi_stream",
}
Context: TypeAlias = "grpc.aio.ServicerContext[Any, Any]"


def text(value: str) -> StringValue:
    """A message."""
    return StringValue(value=value)


async def echo(request: StringValue) -> StringValue:
    """Answers with the request."""
    return request


async def echo_stream(request: StringValue) -> AsyncGenerator[StringValue]:
    """Answers with each character of the request."""
    for character in request.value:
        yield text(character)


async def join(requests: AsyncIterator[StringValue]) -> StringValue:
    """Answers with all requests, joined."""
    return text("".join([request.value async for request in requests]))


async def echo_bidi(requests: AsyncIterator[StringValue]) -> AsyncGenerator[StringValue]:
    """Answers each request with itself."""
    async for request in requests:
        yield request


@dataclass(frozen=True)
class EchoServicer:
    """The servicer; a test sets the behaviour that it needs."""

    unary: Callable[[StringValue], Awaitable[StringValue]] = echo
    server_stream: Callable[[StringValue], AsyncGenerator[StringValue]] = echo_stream
    client_stream: Callable[[AsyncIterator[StringValue]], Awaitable[StringValue]] = join
    bidi: Callable[[AsyncIterator[StringValue]], AsyncGenerator[StringValue]] = echo_bidi


class EchoStub:
    """The client side."""

    def __init__(self, channel: grpc.aio.Channel) -> None:
        def make(factory: Callable[..., Any], name: str) -> Any:  # noqa: ANN401 # typed by the attributes below
            return factory(
                f"/{SERVICE}/{name}",
                request_serializer=StringValue.SerializeToString,
                response_deserializer=StringValue.FromString,
            )

        self.unary: grpc.aio.UnaryUnaryMultiCallable[StringValue, StringValue] = make(channel.unary_unary, "Unary")
        self.server_stream: grpc.aio.UnaryStreamMultiCallable[StringValue, StringValue] = make(
            channel.unary_stream, "ServerStream"
        )
        self.client_stream: grpc.aio.StreamUnaryMultiCallable[StringValue, StringValue] = make(
            channel.stream_unary, "ClientStream"
        )
        self.bidi: grpc.aio.StreamStreamMultiCallable[StringValue, StringValue] = make(channel.stream_stream, "Bidi")


def register(servicer: EchoServicer, server: grpc.aio.Server) -> None:
    """Adds the service to a server, with handlers like those of generated code."""

    async def unary(request: StringValue, _context: Context) -> StringValue:
        return await servicer.unary(request)

    async def server_stream(request: StringValue, _context: Context) -> AsyncGenerator[StringValue]:
        async with aclosing(servicer.server_stream(request)) as answers:
            async for answer in answers:
                yield answer

    async def client_stream(requests: AsyncIterator[StringValue], _context: Context) -> StringValue:
        return await servicer.client_stream(requests)

    # Not itself a generator, as a decorated handler wouldn't be.
    def bidi(requests: AsyncIterator[StringValue], _context: Context) -> AsyncGenerator[StringValue]:
        return servicer.bidi(requests)

    def handler(make: Callable[..., Any], behaviour: Callable[..., Any]) -> Any:  # noqa: ANN401 # grpc has no type for it
        return make(
            behaviour,
            request_deserializer=StringValue.FromString,
            response_serializer=StringValue.SerializeToString,
        )

    handlers = {
        "Unary": handler(grpc.unary_unary_rpc_method_handler, unary),
        "ServerStream": handler(grpc.unary_stream_rpc_method_handler, server_stream),
        "ClientStream": handler(grpc.stream_unary_rpc_method_handler, client_stream),
        "Bidi": handler(grpc.stream_stream_rpc_method_handler, bidi),
    }
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(SERVICE, handlers),))


@dataclass(frozen=True)
class RunningEchoService:
    """A server that runs, and a client of it."""

    server: GrpcServer
    stub: EchoStub
    port: int


def make_settings(
    *,
    auth: Auth = "off",
    drain_seconds: float = 5.0,
    leave_seconds: float = 0.0,
    connection_seconds: float = 30.0,
    port: int = 0,
) -> ServiceSettings:
    """Settings of a test server."""
    return ServiceSettings(
        **(KEYED if auth == "keys" else {}),
        port=port,
        metrics_port=0,
        auth=auth,
        drain_seconds=drain_seconds,
        leave_seconds=leave_seconds,
        connection_seconds=connection_seconds,
    )


@asynccontextmanager
async def running_echo_service(
    servicer: EchoServicer,
    settings: ServiceSettings | None = None,
    *,
    max_concurrent: int | None = None,
    callers: CallerLimits | None = None,
) -> AsyncGenerator[RunningEchoService]:
    """Runs the service on a free port until the block ends."""
    server = GrpcServer(settings or make_settings(), service="test", max_concurrent=max_concurrent, callers=callers)
    server.add(register, servicer, SERVICE)
    port = await server.start()
    server.set_serving(True)
    told = settings or make_settings()
    signer = Signer("citewire-gateway", KEY if told.caller_issuers else None)
    channel = open_channel(f"127.0.0.1:{port}", signer=signer)
    try:
        yield RunningEchoService(server, EchoStub(channel), port)
    finally:
        await channel.close()
        await server.drain_and_stop()


def _describe() -> None:
    file = descriptor_pb2.FileDescriptorProto(
        name="citewire/test/v1/echo.proto",
        package="citewire.test.v1",
        syntax="proto3",
        dependency=[wrappers_pb2.DESCRIPTOR.name],
    )
    service = file.service.add(name="EchoService")
    for name, shape in METHODS.items():
        service.method.add(
            name=name,
            input_type=".google.protobuf.StringValue",
            output_type=".google.protobuf.StringValue",
            client_streaming=shape in ("client_stream", "bidi_stream"),
            server_streaming=shape in ("server_stream", "bidi_stream"),
        )
    descriptor_pool.Default().AddSerializedFile(file.SerializeToString())


_describe()
