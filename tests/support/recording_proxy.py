"""A proxy between a client and a server on loopback: forwards bytes unchanged, and records the requests."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class RecordedRequest:
    """One request."""

    path: str
    """Its path."""
    headers: dict[str, str]
    """Its headers, names in lower case."""
    body: dict[str, Any]
    """Its JSON."""


@dataclass(slots=True)
class RecordingProxy:
    """The proxy, to which a client connects instead of the server."""

    port: int = 0
    _sent: list[bytearray] = field(default_factory=list[bytearray])

    @property
    def root(self) -> str:
        """Its address without a path."""
        return f"http://127.0.0.1:{self.port}"

    @property
    def requests(self) -> list[RecordedRequest]:
        """The requests so far, connection by connection."""
        return [request for sent in self._sent for request in _requests(bytes(sent))]

    async def join(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, server: int) -> None:
        """Passes one connection on."""
        sent = bytearray()
        self._sent.append(sent)
        inner_reader, inner_writer = await asyncio.open_connection("127.0.0.1", server)
        try:
            await asyncio.gather(_pump(reader, inner_writer, sent), _pump(inner_reader, writer, bytearray()))
        finally:
            inner_writer.close()
            writer.close()


@asynccontextmanager
async def recording_proxy(server: int) -> AsyncGenerator[RecordingProxy]:
    """Runs a proxy before the server at that port, until the block ends."""
    recorder = RecordingProxy()
    tasks: set[asyncio.Task[None]] = set()

    def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        tasks.add(asyncio.create_task(recorder.join(reader, writer, server)))

    listener = await asyncio.start_server(connected, "127.0.0.1", 0)
    try:
        recorder.port = int(listener.sockets[0].getsockname()[1])
        yield recorder
    finally:
        listener.close()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)  # only requests interrupted by the end of the test


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, copy: bytearray) -> None:
    with contextlib.suppress(ConnectionError):
        while data := await reader.read(65_536):
            copy += data
            writer.write(data)
            await writer.drain()
        writer.write_eof()


def _requests(sent: bytes) -> list[RecordedRequest]:
    results: list[RecordedRequest] = []
    while sent:
        head, _, rest = sent.partition(b"\r\n\r\n")
        first, *lines = head.decode("latin-1").split("\r\n")
        pairs = [line.partition(":") for line in lines]
        headers = {name.lower(): value.strip() for name, _, value in pairs}
        length = int(headers.get("content-length", "0"))
        results.append(RecordedRequest(first.split()[1], headers, json.loads(rest[:length] or b"{}")))
        sent = rest[length:]
    return results
