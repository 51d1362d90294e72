"""Starts generator and gateway on one core, and everything that they need on another.

Embedder and retriever are stand-ins that answer immediately, because only the relay is measured. The gateway stores its
records in a real Postgres, as always.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import AsyncGenerator, Callable
from dataclasses import dataclass
from pathlib import Path

from benchmarks.relay_load import Target
from benchmarks.relay_services import FOUND_STAMP
from benchmarks.relay_systems import ROOT, free_port, start, wait_for_http
from benchmarks.slow_down import module_command
from callers import keyed_environment
from embedded_postgres import start_embedded_postgres

BODY: dict[str, object] = {"question": "What does the paced upstream say?", "profile": "simple"}

_ALL_ADMITTED = {
    "CITEWIRE_GATEWAY_MAX_CALLS": "512",
    "CITEWIRE_GATEWAY_MAX_WAITING_CALLS": "5000",
    "CITEWIRE_GATEWAY_ARRIVAL_SECONDS": "600",
}
"""Raised limits: only running streams are measured, and some of hundreds that begin at once would be rejected."""


@dataclass(frozen=True, slots=True)
class RelayBackend:
    """The dependencies of a tree's generator and gateway: a migrated database, the stand-ins, the upstream."""

    root: Path
    python: Path
    dsn: str
    services_port: int
    upstream_url: str
    logs: Path


@dataclass(frozen=True, slots=True)
class Relay:
    """A running generator and gateway."""

    target: Target
    cpu_seconds: Callable[[], float]
    """CPU time of both since their start."""
    pids: tuple[int, ...]


@contextlib.asynccontextmanager
async def relay_backend(
    root: Path, python: Path, *, core: int, upstream_url: str, logs: Path
) -> AsyncGenerator[RelayBackend]:
    """Starts the dependencies of a tree's relay on a separate core."""
    async with contextlib.AsyncExitStack() as stack:
        postgres = stack.enter_context(start_embedded_postgres(durable=True))
        postgres.create_database("citewire")
        migrate = {"CITEWIRE_GATEWAY_MIGRATE_DSN": postgres.dsn(database="citewire")}
        command = [python, "-m", "citewire_gateway", "migrate"]
        log = logs / "migrate.log"
        async with start(command, core=core, log=log, environment=migrate, folder=root) as migration:
            await migration.finished()
        command = [python, "-m", "benchmarks.relay_services"]
        services = await stack.enter_async_context(
            start(command, core=core, log=logs / "services.log", folder=root, announces=True)
        )
        port = await services.announced_port()
        yield RelayBackend(root, python, postgres.dsn("citewire_chat", "citewire"), port, upstream_url, logs)


@contextlib.asynccontextmanager
async def running_relay(backend: RelayBackend, *, core: int, slow_down: float = 1.0) -> AsyncGenerator[Relay]:
    """Generator and gateway as two processes on one core."""
    ports = {name: free_port() for name in ("gateway", "gateway_metrics", "generator", "generator_metrics")}
    shared = {"CITEWIRE_AUTH": "off", "CITEWIRE_LOG_LEVEL": "WARNING", **keyed_environment()}
    shared |= {"CITEWIRE_GATEWAY_LEAVE_SECONDS": "0", "CITEWIRE_GENERATOR_LEAVE_SECONDS": "0"}
    async with (
        start(
            module_command(backend.python, "citewire_generator", slow_down=slow_down),
            core=core,
            log=backend.logs / "generator.log",
            environment={
                **shared,
                "CITEWIRE_GENERATOR_PORT": str(ports["generator"]),
                "CITEWIRE_GENERATOR_METRICS_PORT": str(ports["generator_metrics"]),
                "CITEWIRE_GENERATOR_PROVIDER": "openai-compatible",
                "CITEWIRE_GENERATOR_API_BASE": backend.upstream_url,
                "CITEWIRE_GENERATOR_MODEL": "paced",
            },
            folder=backend.root,
        ) as generator,
        start(
            module_command(backend.python, "citewire_gateway", "serve", slow_down=slow_down),
            core=core,
            log=backend.logs / "gateway.log",
            environment={
                **shared,
                "CITEWIRE_GATEWAY_PORT": str(ports["gateway"]),
                "CITEWIRE_GATEWAY_METRICS_PORT": str(ports["gateway_metrics"]),
                "CITEWIRE_GATEWAY_DSN": backend.dsn,
                **_ALL_ADMITTED,
                "CITEWIRE_GATEWAY_EMBEDDER_TARGET": f"127.0.0.1:{backend.services_port}",
                "CITEWIRE_GATEWAY_RETRIEVER_TARGET": f"127.0.0.1:{backend.services_port}",
                "CITEWIRE_GATEWAY_GENERATOR_TARGET": f"127.0.0.1:{ports['generator']}",
            },
            folder=backend.root,
        ) as gateway,
    ):
        await wait_for_http(f"http://127.0.0.1:{ports['gateway']}/readyz", generator, gateway)
        target = Target("127.0.0.1", ports["gateway"], "/v1/chat", BODY, b"event: done\n", FOUND_STAMP)
        yield Relay(target, lambda: generator.cpu_seconds() + gateway.cpu_seconds(), (generator.pid, gateway.pid))


@contextlib.asynccontextmanager
async def citewire(
    *, core: int, other_core: int, upstream_url: str, logs: Path
) -> AsyncGenerator[tuple[Target, Callable[[], float]]]:
    """The relay of this tree with its dependencies."""
    python = Path(sys.executable)
    async with relay_backend(ROOT, python, core=other_core, upstream_url=upstream_url, logs=logs) as backend:
        async with running_relay(backend, core=core) as relay:
            yield relay.target, relay.cpu_seconds
