"""The standard health service, whose watches the server can end.

grpcio's own implementation keeps every watch open until its client leaves, so a graceful stop waits for clients without
any other call; and changing its answer must be awaited.
"""

from __future__ import annotations  # grpc's classes are generic only in their type stubs

import asyncio
from collections.abc import AsyncGenerator, Callable, Iterable
from typing import Any, Final, cast

import grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc

NAME = "grpc.health.v1.Health"

LIVENESS: Final = "citewire.liveness"
"""SERVING as long as the process can answer. It checks no dependency: a restart doesn't repair a database."""

STARTUP: Final = "citewire.startup"
"""SERVING once the process has started, including slow steps such as loading a model."""

_Response = health_pb2.HealthCheckResponse


class HealthServicer(health_pb2_grpc.HealthServicer):
    """Reports one state for the whole server ("") and each of its services: whether it accepts calls.

    Liveness and startup probes have their own names.
    """

    def __init__(self) -> None:
        self._names = {""}
        self._serving = False
        self._started = False
        self._closed = False
        self._ended = False
        self._changed = asyncio.Event()

    def add(self, names: Iterable[str]) -> None:
        """Adds services that clients may ask about."""
        self._names.update(names)

    def set_serving(self, serving: bool) -> None:
        """Sets the state; after `close` it stays NOT_SERVING."""
        if not self._closed and serving != self._serving:
            self._serving = serving
            self._wake()

    def set_started(self) -> None:
        """Marks the process as started, permanently."""
        if not self._started:
            self._started = True
            self._wake()

    def close(self) -> None:
        """Reports NOT_SERVING from now on."""
        self.set_serving(False)
        self._closed = True

    def end_watches(self) -> None:
        """Closes and ends all watches."""
        self.close()
        self._ended = True
        self._wake()

    async def Check(  # noqa: N802, D102 # grpc's interface
        self, request: health_pb2.HealthCheckRequest, context: grpc.aio.ServicerContext[Any, Any]
    ) -> health_pb2.HealthCheckResponse:
        state = self._state(request.service)
        if state == _Response.SERVICE_UNKNOWN:
            await context.abort(grpc.StatusCode.NOT_FOUND, "unknown service")
        return _Response(status=state)

    async def Watch(  # noqa: N802, D102 # grpc's interface
        self, request: health_pb2.HealthCheckRequest, context: grpc.aio.ServicerContext[Any, Any]
    ) -> AsyncGenerator[health_pb2.HealthCheckResponse, None]:
        last: int | None = None
        while True:
            changed = self._changed
            state = self._state(request.service)
            if state != last:
                yield _Response(status=state)
                last = state
            if self._ended:
                return
            await changed.wait()

    def _state(self, service: str) -> health_pb2.HealthCheckResponse.ServingStatus:
        if service == LIVENESS:
            return _Response.SERVING
        if service == STARTUP:
            return _Response.SERVING if self._started else _Response.NOT_SERVING
        if service not in self._names:
            return _Response.SERVICE_UNKNOWN
        return _Response.SERVING if self._serving else _Response.NOT_SERVING

    def _wake(self) -> None:
        # Each change has its own event, so that no watch misses a change or has to reset an event.
        self._changed.set()
        self._changed = asyncio.Event()


def register(servicer: HealthServicer, server: grpc.aio.Server) -> None:
    """Adds the service to a server."""
    add = cast(
        "Callable[[HealthServicer, grpc.aio.Server], None]",
        health_pb2_grpc.add_HealthServicer_to_server,  # pyright: ignore[reportUnknownMemberType] # has no types
    )
    add(servicer, server)
