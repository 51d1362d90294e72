"""Checks the health of a gRPC server."""

from __future__ import annotations

from typing import Any

import grpc
from grpc_health.v1 import health_pb2


async def health_of(port: int, service: str = "") -> int:
    """Returns the status of the server on a port of this machine, or of one of its services."""
    async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
        check: Any = channel.unary_unary(
            "/grpc.health.v1.Health/Check",
            health_pb2.HealthCheckRequest.SerializeToString,
            health_pb2.HealthCheckResponse.FromString,
        )
        answer: health_pb2.HealthCheckResponse = await check(health_pb2.HealthCheckRequest(service=service), timeout=5)
        return answer.status
