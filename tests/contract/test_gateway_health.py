"""What the gateway's readiness makes of a service's replicas."""

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


class StandingStill(health_pb2_grpc.HealthServicer):
    """Said that it serves, and says nothing more: what is left of a process that hangs."""

    async def Check(self, request: Any, context: Any) -> Any:  # noqa: N802, ANN401 # grpc's interface
        await asyncio.Event().wait()

    async def Watch(self, request: Any, context: Any) -> AsyncGenerator[Any]:  # noqa: N802, ANN401 # grpc's interface
        yield SERVING
        await asyncio.Event().wait()


@asynccontextmanager
async def standing_still() -> AsyncGenerator[int]:
    server = grpc.aio.server()
    health_pb2_grpc.add_HealthServicer_to_server(StandingStill(), server)  # pyright: ignore[reportUnknownMemberType] - has no types
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    try:
        yield port
    finally:
        await server.stop(None)


async def test_a_replica_that_stands_still_does_not_hide_the_one_that_serves() -> None:
    async with standing_still() as still, running_echo_service(EchoServicer()) as running:
        channel = open_channel(f"ipv4:127.0.0.1:{still},127.0.0.1:{running.port}")
        try:
            health = ServiceHealth(channel)
            async with asyncio.timeout(10):
                for _ in range(4):
                    assert await health.serving()
        finally:
            await channel.close()


async def test_where_all_replicas_stand_still_the_service_is_not_ready() -> None:
    async with standing_still() as still:
        channel = open_channel(f"127.0.0.1:{still}")
        try:
            async with asyncio.timeout(BUSY_SECONDS):
                with pytest.raises(CitewireError):
                    await ServiceHealth(channel).serving()
        finally:
            await channel.close()
