"""Starts generator and gateway on one core, and all that they need on another.

Embedder and retriever are stand-ins that answer at once: what is measured is the relay. The gateway keeps its records
in a real Postgres, as it always does.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import AsyncGenerator, Callable
from pathlib import Path

from benchmarks.relay_load import Target
from benchmarks.relay_services import FOUND_STAMP
from benchmarks.relay_systems import free_port, start, wait_for_http
from embedded_postgres import start_embedded_postgres

BODY: dict[str, object] = {"question": "What does the paced upstream say?", "profile": "simple"}


@contextlib.asynccontextmanager
async def citewire(
    *, core: int, other_core: int, upstream_url: str, logs: Path
) -> AsyncGenerator[tuple[Target, Callable[[], float]]]:
    """Generator and gateway as two processes on one core; gives how to ask them, and their CPU time."""
    async with contextlib.AsyncExitStack() as stack:
        postgres = stack.enter_context(start_embedded_postgres(durable=True))
        postgres.create_database("citewire")
        migrate = {"CITEWIRE_GATEWAY_MIGRATE_DSN": postgres.dsn(database="citewire")}
        command = [sys.executable, "-m", "citewire_gateway", "migrate"]
        async with start(command, core=other_core, log=logs / "migrate.log", environment=migrate) as migration:
            await migration.finished()
        services = await stack.enter_async_context(
            start(
                [sys.executable, "-m", "benchmarks.relay_services"],
                core=other_core,
                log=logs / "services.log",
                announces=True,
            )
        )
        services_port = await services.announced_port()
        ports = {name: free_port() for name in ("gateway", "gateway_metrics", "generator", "generator_metrics")}
        shared = {"CITEWIRE_AUTH": "off", "CITEWIRE_LOG_LEVEL": "WARNING"}
        generator = await stack.enter_async_context(
            start(
                [sys.executable, "-m", "citewire_generator"],
                core=core,
                log=logs / "generator.log",
                environment={
                    **shared,
                    "CITEWIRE_GENERATOR_PORT": str(ports["generator"]),
                    "CITEWIRE_GENERATOR_METRICS_PORT": str(ports["generator_metrics"]),
                    "CITEWIRE_GENERATOR_PROVIDER": "openai-compatible",
                    "CITEWIRE_GENERATOR_API_BASE": upstream_url,
                    "CITEWIRE_GENERATOR_MODEL": "paced",
                },
            )
        )
        gateway = await stack.enter_async_context(
            start(
                [sys.executable, "-m", "citewire_gateway", "serve"],
                core=core,
                log=logs / "gateway.log",
                environment={
                    **shared,
                    "CITEWIRE_GATEWAY_PORT": str(ports["gateway"]),
                    "CITEWIRE_GATEWAY_METRICS_PORT": str(ports["gateway_metrics"]),
                    "CITEWIRE_GATEWAY_DSN": postgres.dsn("citewire_chat", "citewire"),
                    "CITEWIRE_GATEWAY_EMBEDDER_TARGET": f"127.0.0.1:{services_port}",
                    "CITEWIRE_GATEWAY_RETRIEVER_TARGET": f"127.0.0.1:{services_port}",
                    "CITEWIRE_GATEWAY_GENERATOR_TARGET": f"127.0.0.1:{ports['generator']}",
                },
            )
        )
        await wait_for_http(f"http://127.0.0.1:{ports['gateway']}/readyz", generator, gateway)
        target = Target("127.0.0.1", ports["gateway"], "/v1/chat", BODY, b"event: done\n", FOUND_STAMP)
        yield target, lambda: generator.cpu_seconds() + gateway.cpu_seconds()
