"""The standard health check of a service."""

from typing import Any, cast

import grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc

from citewire_kit import client

_SECONDS = 1.0


class ServiceHealth:
    """Asks one service whether it serves."""

    def __init__(self, channel: grpc.aio.Channel) -> None:
        self._check = cast(
            "grpc.aio.UnaryUnaryMultiCallable[Any, Any]",
            health_pb2_grpc.HealthStub(channel).Check,  # pyright: ignore[reportUnknownMemberType, reportAttributeAccessIssue] - has no types
        )

    async def serving(self) -> bool:
        """Returns whether the service serves.

        Raises:
            CitewireError: It can't be reached.
        """
        response = await client.unary(self._check, health_pb2.HealthCheckRequest(), timeout=_SECONDS)
        return response.status == health_pb2.HealthCheckResponse.SERVING
