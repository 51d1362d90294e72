"""An HTTP server at the byte level, for bad behaviour: stalls, cuts, resets, nonsense."""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
import struct
from collections.abc import AsyncGenerator, Awaitable, Callable
from dataclasses import dataclass
from typing import cast


@dataclass(frozen=True, slots=True)
class RawRequest:
    """A client's request."""

    path: str
    headers: dict[str, str]
    body: dict[str, object]


class Exchange:
    """One request, and the means to answer it."""

    def __init__(self, request: RawRequest, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.request = request
        self._reader = reader
        self._writer = writer

    async def head(self, status: int = 200, kind: str = "text/event-stream", **headers: str) -> None:
        """Sends the status line and headers; the body ends with the connection."""
        lines = [f"HTTP/1.1 {status} X", f"Content-Type: {kind}", "Connection: close"]
        lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
        await self.send(("\r\n".join(lines) + "\r\n\r\n").encode())

    async def send(self, data: bytes) -> None:
        """Sends bytes as they are."""
        self._writer.write(data)
        await self._writer.drain()

    async def delta(self, content: str | None = None, reason: str | None = None) -> None:
        """Sends one event of a completion."""
        await self.send(delta_event(content, reason))

    async def gone(self) -> None:
        """Waits until the client has closed its side."""
        with contextlib.suppress(ConnectionError):
            while await self._reader.read(65_536):
                pass

    def reset(self) -> None:
        """Drops the connection with a TCP reset."""
        raw = cast("socket.socket", self._writer.get_extra_info("socket"))
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self._writer.transport.abort()


Behaviour = Callable[[Exchange], Awaitable[None]]


class RawUpstream:
    """Serves one behaviour; assign another to `behave` between requests."""

    def __init__(self, behave: Behaviour) -> None:
        self.behave = behave
        self.requests: list[RawRequest] = []

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncGenerator[str]:
        """Serves until the block ends; yields the base URL, which ends in `/v1`."""
        handlers: set[asyncio.Task[None]] = set()

        async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            task = asyncio.current_task()
            if task is not None:
                handlers.add(task)
                task.add_done_callback(handlers.discard)
            try:
                request = await _read(reader)
                self.requests.append(request)
                await self.behave(Exchange(request, reader, writer))
            except (ConnectionError, asyncio.IncompleteReadError):
                pass  # the client disconnected; tests check this elsewhere
            finally:
                writer.close()

        server = await asyncio.start_server(handle, "127.0.0.1", 0)
        try:
            port = server.sockets[0].getsockname()[1]
            yield f"http://127.0.0.1:{port}/v1"
        finally:
            server.close()
            for task in list(handlers):
                task.cancel()
            await asyncio.gather(*handlers, return_exceptions=True)


def delta_event(content: str | None = None, reason: str | None = None) -> bytes:
    """One event of a streamed completion."""
    choice = {"index": 0, "delta": {} if content is None else {"content": content}, "finish_reason": reason}
    return b"data: " + json.dumps({"choices": [choice]}).encode() + b"\n\n"


def usage_event(prompt: int, completion: int) -> bytes:
    """The last event of a stream with usage, which has no choices."""
    usage = {"prompt_tokens": prompt, "completion_tokens": completion}
    return b"data: " + json.dumps({"choices": [], "usage": usage}).encode() + b"\n\n"


DONE = b"data: [DONE]\n\n"


async def _read(reader: asyncio.StreamReader) -> RawRequest:
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in head[1:] if line)}
    body = await reader.readexactly(int(headers.get("content-length", "0")))
    return RawRequest(head[0].split(" ")[1], headers, json.loads(body) if body else {})
