"""Callers of the gateway in a separate process, so that their work isn't counted as the gateway's.

`python -m benchmarks.callers URL REQUEST --connections 24` reads an API key from its standard input, says `ready`,
sends requests of one kind without pause until the input ends, and prints their results.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import json
import sys
import time
import uuid
from collections import Counter, deque
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

NO_ANSWER = 599
"""The status recorded for a request whose connection broke."""

_numbers = itertools.count()
_BOUNDARY = uuid.uuid4().hex


@dataclass(frozen=True, slots=True)
class Answer:
    """A response."""

    status: int
    body: bytes

    def json(self) -> dict[str, Any]:
        """Its body as JSON."""
        return json.loads(self.body)


class Client:
    """One organisation's client: HTTP over persistent connections, with minimal overhead."""

    def __init__(self, url: str, key: str) -> None:
        self.url = url
        self.key = key
        self.statuses: Counter[int] = Counter()
        """Statuses of POST requests, and of other requests that failed."""
        self._address = urlsplit(url)
        self._idle: deque[tuple[asyncio.StreamReader, asyncio.StreamWriter]] = deque()

    async def post(self, path: str, body: bytes, content_type: str = "application/json") -> Answer:
        """Sends a request and counts its response."""
        answer = await self._send("POST", path, body, content_type)
        self.statuses[answer.status] += 1
        return answer

    async def get(self, path: str) -> Answer:
        """Sends a GET request."""
        return await self._send("GET", path, b"", "")

    def close(self) -> None:
        """Closes the idle connections."""
        while self._idle:
            self._idle.pop()[1].close()

    async def _send(self, method: str, path: str, body: bytes, content_type: str) -> Answer:
        """Sends over a persistent connection, or over another one if the server has just closed it."""
        head = (
            f"{method} {path} HTTP/1.1\r\nHost: {self._address.netloc}\r\nAuthorization: Bearer {self.key}\r\n"
            f"Content-Type: {content_type}\r\nContent-Length: {len(body)}\r\n\r\n"
        ).encode()
        while self._idle:
            with suppress(asyncio.IncompleteReadError, ConnectionError):
                return await self._exchange(self._idle.pop(), head + body)
        return await self._exchange(
            await asyncio.open_connection(self._address.hostname, self._address.port), head + body
        )

    async def _exchange(self, connection: tuple[asyncio.StreamReader, asyncio.StreamWriter], request: bytes) -> Answer:
        reader, writer = connection
        try:
            writer.write(request)
            lines = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").lower().split("\r\n")
            length = next(int(line.partition(":")[2]) for line in lines if line.startswith("content-length:"))
            answer = Answer(int(lines[0].split(" ")[1]), await reader.readexactly(length))
        except BaseException:
            writer.close()
            raise
        if "connection: close" in lines:
            writer.close()
        else:
            self._idle.append(connection)
        return answer


Request = Callable[[Client], Awaitable[object]]


async def search(client: Client) -> Answer:
    """A search that no cache can answer."""
    return await client.post("/v1/search", json.dumps({"query": f"how high was the tide on day {_number()}?"}).encode())


async def chat(client: Client) -> None:
    """A question with a complete, unstreamed answer."""
    question = {"question": f"how high was the tide on day {_number()}?", "stream": False}
    await client.post("/v1/chat", json.dumps(question).encode())


async def embed_one(client: Client) -> None:
    """The vector of one text."""
    await _embed(client, [text_of(20)])


async def embed_many(client: Client) -> None:
    """The vectors of many texts."""
    await _embed(client, [text_of(40) for _ in range(64)])


async def upload(client: Client) -> None:
    """A small file, awaited until it can be searched."""
    await _upload(client, "note.md", text_of(60).encode(), wait=True)


async def upload_more(client: Client) -> None:
    """A file that isn't awaited: the next one follows immediately."""
    await _upload(client, "bulk.md", text_of(600).encode(), wait=False)


async def upload_hostile(client: Client) -> None:
    """Files that take long to read, or long to embed."""
    nested = b"<table><tr><td>" * 4000 + b"x" + b"</td></tr></table>" * 4000
    await _upload(client, "nested.html", nested, wait=False)
    await _upload(client, "long.txt", "\n\n".join(text_of(90) for _ in range(2000)).encode(), wait=False)
    await asyncio.sleep(5)


REQUESTS: dict[str, Request] = {
    request.__name__: request for request in (search, chat, embed_one, embed_many, upload, upload_more, upload_hostile)
}


def text_of(words: int) -> str:
    """A text that differs from all others."""
    number = _number()
    return " ".join(f"word{(number * 7919 + place * 104729) % 50021}" for place in range(words))


def _number() -> int:
    """A number that is unique across all processes of one measurement."""
    return int(_BOUNDARY[:8], 16) + next(_numbers)


async def _embed(client: Client, texts: list[str]) -> None:
    await client.post("/v1/embeddings", json.dumps({"model": "all-MiniLM-L6-v2", "input": texts}).encode())


async def _upload(client: Client, name: str, data: bytes, *, wait: bool) -> None:
    head = f'--{_BOUNDARY}\r\nContent-Disposition: form-data; name="file"; filename="{name}"\r\n\r\n'
    body = head.encode() + data + f"\r\n--{_BOUNDARY}--\r\n".encode()
    answer = await client.post("/v1/documents", body, f"multipart/form-data; boundary={_BOUNDARY}")
    if answer.status != 202:
        await asyncio.sleep(0.05)
        return
    document = answer.json()
    path = f"/v1/documents/{document['id']}"
    while wait and document["status"] not in ("ready", "failed"):
        await asyncio.sleep(0.02)
        answer = await client.get(path)
        if answer.status == 200:
            document = answer.json()
        else:
            client.statuses[answer.status] += 1


@asynccontextmanager
async def sending_requests(client: Client, request: Request, connections: int) -> AsyncGenerator[None]:
    """Sends requests without pause over a number of connections."""

    async def go_on() -> None:
        while True:
            try:
                await request(client)
            except (OSError, asyncio.IncompleteReadError):
                await asyncio.sleep(0.01)

    async with _running([go_on() for _ in range(connections)]):
        yield


@asynccontextmanager
async def dripping_uploads(client: Client, uploads: int) -> AsyncGenerator[None]:
    """Endless uploads; they reconnect when cut off."""
    address = urlsplit(client.url)
    head = (
        f"POST /v1/documents HTTP/1.1\r\nHost: {address.netloc}\r\nAuthorization: Bearer {client.key}\r\n"
        "Content-Type: multipart/form-data; boundary=b\r\nContent-Length: 1000000\r\n\r\n"
        '--b\r\nContent-Disposition: form-data; name="file"; filename="a.md"\r\n\r\n'
    ).encode()

    async def drip() -> None:
        while True:
            with suppress(OSError):
                _, writer = await asyncio.open_connection(address.hostname, address.port)
                try:
                    writer.write(head)
                    while not writer.is_closing():
                        writer.write(b"x")
                        await writer.drain()
                        await asyncio.sleep(0.2)
                finally:
                    writer.close()

    async with _running([drip() for _ in range(uploads)]):
        yield


@asynccontextmanager
async def _running(works: list[Coroutine[Any, Any, None]]) -> AsyncGenerator[None]:
    tasks = [asyncio.create_task(work) for work in works]
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        ended = await asyncio.gather(*tasks, return_exceptions=True)
    for error in ended:
        if isinstance(error, Exception):  # a caller that failed causes no load, so the measurement is worthless
            raise error


@dataclass(slots=True)
class Callers:
    """The results of a process of callers."""

    statuses: Counter[int]
    cpu_seconds: float = 0.0


@asynccontextmanager
async def running_callers(
    client: Client, request: Request, connections: int, *, drips: int = 0, settle: float = 1.0
) -> AsyncGenerator[Callers]:
    """Runs callers in a process during the block; their results are available after it.

    Args:
        client: The client whose key it uses; its responses aren't counted there.
        request: One of REQUESTS.
        connections: Number of connections.
        drips: Number of additional slow uploads.
        settle: Seconds from its first request until the block begins.
    """
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "benchmarks.callers", client.url, request.__name__),
        *(f"--connections={connections}", f"--drips={drips}"),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    done = Callers(Counter())
    try:
        process.stdin.write(f"{client.key}\n".encode())
        await process.stdout.readline()
        await asyncio.sleep(settle)
        yield done
    finally:
        process.stdin.close()
        output = await process.stdout.read()
        await process.wait()
    if process.returncode:
        raise RuntimeError("the callers' process has failed")
    result = json.loads(output)
    done.statuses.update({int(status): count for status, count in result["statuses"].items()})
    done.cpu_seconds = result["cpu_seconds"]


async def _main(url: str, request: Request, connections: int, drips: int) -> None:
    loop = asyncio.get_running_loop()
    client = Client(url, sys.stdin.readline().strip())
    async with dripping_uploads(client, drips), sending_requests(client, request, connections):
        print("ready", flush=True)
        await loop.run_in_executor(None, sys.stdin.read)
    print(json.dumps({"statuses": client.statuses, "cpu_seconds": time.process_time()}))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("url")
    parser.add_argument("request", choices=REQUESTS)
    parser.add_argument("--connections", type=int, default=1)
    parser.add_argument("--drips", type=int, default=0, help="additional uploads that never end")
    options = parser.parse_args()
    asyncio.run(_main(options.url, REQUESTS[options.request], options.connections, options.drips))
