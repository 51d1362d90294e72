"""A service that the ingest worker calls, with a test's servicer."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from typing import Literal, TypeVar

import grpc.aio

from callers import KEYED
from citewire_kit.server import GrpcServer
from citewire_kit.settings import ServiceSettings

Servicer = TypeVar("Servicer")


@asynccontextmanager
async def worker_upstream(
    name: Literal["embedder", "generator"], add: Callable[[Servicer, grpc.aio.Server], None], servicer: Servicer
) -> AsyncGenerator[str]:
    """Serves until the block ends; yields the address.

    Args:
        name: The name of the service.
        add: The generated function that adds its servicer to a server.
        servicer: The servicer that answers.
    """
    settings = ServiceSettings(port=0, metrics_port=0, drain_seconds=0.1, leave_seconds=0, **KEYED)
    server = GrpcServer(settings, service=name)
    server.add(add, servicer, f"citewire.{name}.v1.{name.title()}Service")
    port = await server.start()
    server.set_serving(True)
    try:
        yield f"127.0.0.1:{port}"
    finally:
        await server.drain_and_stop()
