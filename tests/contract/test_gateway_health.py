"""How the gateway's readiness depends on a service's replicas."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

from citewire_kit.channel import open_channel
from citewire_kit.errors import CitewireError
from citewire_kit.service_health import ServiceHealth
from echo_service import EchoServicer, running_echo_service
from waiting import BUSY_SECONDS

SERVING = health_pb2.HealthCheckResponse(status=health_pb2.HealthCheckResponse.SERVING)


class Hanging(health_pb2_grpc.HealthServicer):
    """Reports SERVING once and then nothing more, as a process that hangs does."""

    async def Check(self, request: Any, context: Any) -> Any:  # noqa: N802, ANN401 # grpc's interface
        await asyncio.Event().wait()

    async def Watch(self, request: Any, context: Any) -> AsyncGenerator[Any]:  # noqa: N802, ANN401 # grpc's interface
        yield SERVING
        await asyncio.Event().wait()


@asynccontextmanager
async def hanging_replica() -> AsyncGenerator[int]:
    server = grpc.aio.server()
    health_pb2_grpc.add_HealthServicer_to_server(Hanging(), server)  # pyright: ignore[reportUnknownMemberType] - has no types
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    try:
        yield port
    finally:
        await server.stop(None)


async def test_a_hanging_replica_does_not_hide_one_that_serves() -> None:
    async with hanging_replica() as still, running_echo_service(EchoServicer()) as running:
        channel = open_channel(f"ipv4:127.0.0.1:{still},127.0.0.1:{running.port}")
        try:
            health = ServiceHealth(channel)
            async with asyncio.timeout(10):
                for _ in range(4):
                    assert await health.serving()
        finally:
            await channel.close()


async def test_a_service_whose_replicas_all_hang_is_not_ready() -> None:
    async with hanging_replica() as still:
        channel = open_channel(f"127.0.0.1:{still}")
        try:
            async with asyncio.timeout(BUSY_SECONDS):
                with pytest.raises(CitewireError):
                    await ServiceHealth(channel).serving()
        finally:
            await channel.close()
