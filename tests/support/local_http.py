"""An aiohttp application on a free port of this machine."""

from __future__ import annotations

import socket
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from aiohttp import web


@asynccontextmanager
async def serving(app: web.Application) -> AsyncGenerator[int]:
    """Serves until the block ends, then stops without waiting; yields the port."""
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    listening = socket.create_server(("127.0.0.1", 0))
    await web.SockSite(runner, listening).start()
    try:
        yield int(listening.getsockname()[1])
    finally:
        await runner.cleanup()
