"""The gateway's HTTP server, with an application that does nothing."""

from __future__ import annotations

import asyncio
import time

from starlette.types import Receive, Scope, Send

from citewire_http.server import Drain, GatewayServer
from citewire_http.settings import HttpSettings


async def nothing(scope: Scope, receive: Receive, send: Send) -> None:
    del scope, receive, send


async def test_without_connections_it_ends_at_once() -> None:
    seconds: list[float] = []
    for _ in range(4):
        server = GatewayServer(nothing, HttpSettings(port=0, metrics_port=0, leave_seconds=0), Drain(), signals=False)
        serving = asyncio.create_task(server.serve())
        await server.listening.wait()
        began = time.perf_counter()
        server.leave()
        await serving
        seconds.append(time.perf_counter() - began)
    # uvicorn checks ten times a second whether to stop, then waits a tenth. The shortest time counts: the machine may
    # be busy.
    assert min(seconds) < 0.09
