"""If a client leaves before it is answered, the work for it ends within a second in every service."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any

from gateway_fake_servers import Fakes, running_fakes
from gateway_process import Gateway, running_gateway

if TYPE_CHECKING:
    from databases import Database

SECONDS = 1.0


class Stuck:
    """A service's call that doesn't end by itself."""

    def __init__(self) -> None:
        self.begun, self.cancelled = asyncio.Event(), asyncio.Event()

    async def __call__(self, _: object) -> Any:  # noqa: ANN401 # it never answers
        self.begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            self.cancelled.set()


REQUESTS = [
    ("POST", "/v1/search", {"query": "revenue"}, "retriever", "search"),
    ("GET", "/v1/documents", None, "corpus", "list_documents"),
    ("DELETE", "/v1/documents/7", None, "corpus", "delete_document"),
    ("POST", "/v1/documents", {"type": "article", "title": "T", "content": "c"}, "corpus", "put_document"),
]


async def send(gateway: Gateway, method: str, path: str, body: object) -> asyncio.StreamWriter:
    """Sends a whole request over a socket of its own."""
    data = b"" if body is None else json.dumps(body).encode()
    _, writer = await asyncio.open_connection("127.0.0.1", gateway.server.port)
    head = f"{method} {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    writer.write(f"{head}Content-Length: {len(data)}\r\n\r\n".encode() + data)
    await writer.drain()
    return writer


async def test_a_request_ends_when_its_client_has_left(database: Database) -> None:
    fakes = Fakes()
    calls = [Stuck() for _ in REQUESTS]
    for stuck, (_, _, _, service, call) in zip(calls, REQUESTS, strict=True):
        setattr(getattr(fakes, service), call, stuck)
    async with running_fakes(fakes), running_gateway(database, fakes) as gateway:
        for stuck, (method, path, body, _, _) in zip(calls, REQUESTS, strict=True):
            for leave in ("close", "abort"):
                writer = await send(gateway, method, path, body)
                async with asyncio.timeout(10):
                    await stuck.begun.wait()
                getattr(writer.transport, leave)()
                async with asyncio.timeout(SECONDS):
                    await stuck.cancelled.wait()
                stuck.begun.clear()
                stuck.cancelled.clear()
        await gateway.services.trail.flush()
        events = (await gateway.http.get("/v1/admin/audit")).json()["events"]
        assert [(event["outcome"], event["reason"]) for event in events] == [("failed", "CANCELLED")] * 8
        # The server is well, and others are served.
        assert (await gateway.http.get("/v1/limits")).status_code == 200
