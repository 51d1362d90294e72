"""Health and the address of kit's gRPC server."""

from __future__ import annotations

import grpc
import pytest
from grpc_health.v1 import health_pb2

from citewire_kit.errors import (
    StartupError,
)
from citewire_kit.server import GrpcServer
from echo_service import SERVICE, EchoServicer, make_settings, register, running_echo_service
from health_calls import health_of


async def test_health_starts_not_serving_and_follows_the_server() -> None:
    server = GrpcServer(make_settings(auth="keys"), service="test")
    server.add(register, EchoServicer(), SERVICE)
    port = await server.start()
    assert await health_of(port) == health_pb2.HealthCheckResponse.NOT_SERVING
    server.set_serving(True)
    assert await health_of(port, SERVICE) == health_pb2.HealthCheckResponse.SERVING
    server.set_serving(False)
    assert await health_of(port, SERVICE) == health_pb2.HealthCheckResponse.NOT_SERVING
    with pytest.raises(grpc.aio.AioRpcError) as raised:
        await health_of(port, "unknown.Service")
    assert raised.value.code() is grpc.StatusCode.NOT_FOUND
    await server.drain_and_stop()


async def test_a_taken_port_is_reported_plainly() -> None:
    async with running_echo_service(EchoServicer()) as running:
        second = GrpcServer(make_settings(port=running.port), service="embedder")
        second.add(register, EchoServicer(), SERVICE)
        with pytest.raises(
            StartupError, match=rf"embedder cannot listen on 127\.0\.0\.1:{running.port}.*CITEWIRE_PORT"
        ):
            await second.start()
        await second.drain_and_stop()
