"""A page with its own origin, opened in Chromium; it sends its reports back to the test."""

from __future__ import annotations

import asyncio
import contextlib
from asyncio.subprocess import DEVNULL
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from aiohttp import web

_REPORT_SECONDS = 60.0


@dataclass
class Page:
    """A page and the origin that serves it."""

    origin: str
    html: str = ""
    reports: asyncio.Queue[dict[str, Any]] = field(default_factory=asyncio.Queue[dict[str, Any]])

    async def report(self) -> dict[str, Any]:
        """Returns the page's next `report({…})`."""
        async with asyncio.timeout(_REPORT_SECONDS):
            return await self.reports.get()


_PRELUDE = """<!doctype html><meta charset="utf-8"><title>A page of another origin</title><script type="module">
const report = value => fetch("/report", {method: "POST", body: JSON.stringify(value)});
"""


@asynccontextmanager
async def page_origin() -> AsyncGenerator[Page]:
    """Serves a page on a free port: give it its script with `open_page`."""
    application = web.Application()
    runner = web.AppRunner(application, shutdown_timeout=0.1)  # browsers keep spare connections open

    async def show(_request: web.Request) -> web.Response:
        return web.Response(text=page.html, content_type="text/html")

    async def take(request: web.Request) -> web.Response:
        page.reports.put_nowait(await request.json())
        return web.Response(status=204)

    application.add_routes([web.get("/", show), web.post("/report", take)])
    await runner.setup()
    try:
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        host, port = runner.addresses[0][:2]
        page = Page(f"http://{host}:{port}")
        yield page
    finally:
        await runner.cleanup()


@asynccontextmanager
async def open_page(page: Page, script: str, profile: Path) -> AsyncGenerator[None]:
    """Opens the page with a script in a separate Chromium, and stops that."""
    page.html = f"{_PRELUDE}{script}</script>"
    browser = await asyncio.create_subprocess_exec(
        "chromium", "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run",
        "--no-proxy-server", "--disable-background-networking", f"--user-data-dir={profile}", page.origin,
        stdout=DEVNULL, stderr=DEVNULL,
    )  # fmt: skip
    try:
        yield
    finally:
        with contextlib.suppress(ProcessLookupError):
            browser.terminate()
        await browser.wait()
