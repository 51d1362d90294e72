"""A gateway on a free port inside the test's event loop, with a real database and scripted services."""

from __future__ import annotations

import asyncio
import copy
import json
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from functools import cache
from typing import Any

import httpx
import psycopg
import structlog
from fastapi import FastAPI
from starlette.datastructures import State

from callers import KEY
from citewire_gateway.api.dependencies import Services
from citewire_gateway.app import build_api, build_app, build_services
from citewire_gateway.settings import GatewaySettings
from citewire_http.server import Drain, GatewayServer
from databases import HasDsn
from gateway_fake_servers import Fakes
from openapi_checks import CheckedClient
from waiting import wait_until

Json = dict[str, Any]

# structlog's default prints tracebacks with all variables, which takes seconds each.
structlog.configure(processors=[structlog.processors.add_log_level, structlog.processors.format_exc_info,
                                structlog.processors.KeyValueRenderer(key_order=["level", "event"])])  # fmt: skip


@dataclass(frozen=True)
class Frame:
    """One server-sent event, as in the stream."""

    event: str | None
    id: str | None
    data: Any
    raw: str


@dataclass(frozen=True)
class Gateway:
    """A running gateway, a client for it, and the services behind it."""

    http: httpx.AsyncClient
    fakes: Fakes
    server: GatewayServer
    services: Services
    url: str

    async def stream(self, path: str, body: Json, headers: dict[str, str] | None = None) -> list[Frame]:
        """POSTs and reads the stream to its end."""
        response = await self.http.post(path, json=body, headers=headers)
        assert response.status_code == 200, response.text
        assert response.headers["content-type"].startswith("text/event-stream")
        return frames_of(response.text)


def frames_of(text: str) -> list[Frame]:
    """Splits a stream into its frames; heartbeats are left out."""
    assert text.endswith("\n\n"), text[-200:]
    frames: list[Frame] = []
    for raw in text.split("\n\n")[:-1]:
        if raw.startswith(":"):
            continue
        lines = dict(line.split(": ", 1) for line in raw.split("\n"))
        assert set(lines) <= {"event", "id", "data"}, raw
        frames.append(Frame(lines.get("event"), lines.get("id"), json.loads(lines["data"]), raw))
    return frames


def text_of(frames: list[Frame]) -> str:
    """The answer of a native stream."""
    return "".join(frame.data["text"] for frame in frames if frame.event == "token")


@asynccontextmanager
async def running_gateway(database: HasDsn, fakes: Fakes, **settings: object) -> AsyncGenerator[Gateway, None]:
    """Runs a gateway until the block ends."""
    built = GatewaySettings.model_validate(
        {
            "port": 0,
            "metrics_port": 0,
            "auth": "off",
            "dsn": database.dsn("citewire_chat"),
            "leave_seconds": 0,
            "drain_seconds": 1,
            "caller_key": KEY,
            **{f"{name}_target": fakes.target(name) for name in ("embedder", "retriever", "generator")},
            **settings,
        }
    )
    async with AsyncExitStack() as stack:
        drain = Drain()
        services = await build_services(built, stack, drain)
        server = GatewayServer(build_app(services, _own_api()), built, drain, signals=False)
        serving = asyncio.create_task(server.serve())
        await server.listening.wait()

        async def stop() -> None:
            server.leave()
            drain.expire()
            await serving

        stack.push_async_callback(stop)
        url = f"http://127.0.0.1:{server.port}"
        http = await stack.enter_async_context(CheckedClient(base_url=url, timeout=30, trust_env=False))
        yield Gateway(http, fakes, server, services, url)


@cache
def _api() -> FastAPI:
    return build_api()


def _own_api() -> FastAPI:
    """The API with its own services. Its routes are shared: building them takes longer than most tests do."""
    own = copy.copy(_api())
    own.state, own.middleware_stack = State(), None
    return own


def rows(database: HasDsn, statement: str) -> list[tuple[Any, ...]]:
    """Rows as the owner of the database sees them, for all tenants."""
    with psycopg.connect(database.dsn("postgres"), autocommit=True) as connection:
        return connection.execute(statement.encode()).fetchall()


async def write(database: HasDsn, statement: str) -> list[tuple[Any, ...]]:
    """Changes rows as the owner. A gateway in this event loop that locks one of them can continue and release it."""
    return await asyncio.to_thread(rows, database, statement)


async def until_rows(database: HasDsn, statement: str, expected: list[tuple[Any, ...]]) -> None:
    """Waits until a statement returns these rows, while the gateway in this event loop keeps working."""

    async def are_there() -> bool:
        return await asyncio.to_thread(rows, database, statement) == expected

    await wait_until(are_there)
