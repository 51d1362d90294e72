"""Whether one organisation can slow another down: each entrance is flooded in turn, and another's p95 is measured.

The whole stack runs as `citewire up` starts it, with keys. A quiet organisation asks again and again, one request at a
time, in turns beside a well-behaved busy neighbour (the same, one at a time without pause) and beside a flood (many
connections without pause, and what else an attacker would send). What should be true: the ratio of the quiet one's
p95s is at most 1.5, and none of its requests fails.

`python -m benchmarks.fairness` takes 5 minutes for each entrance; `--seconds 20` is a quick look.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import json
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

import httpx

from benchmarks.tables import describe_machine, format_table
from local_stack import LocalStack, local_stack

CONNECTIONS = 24
DRIPPING = 16
SLICES = 4
LIMIT = 1.5
PAUSE_SECONDS = 0.05
ORGANISATIONS = ("quiet", "neighbour", "flood")

_numbers = itertools.count()


@dataclass(slots=True)
class Client:
    """One organisation's way in."""

    http: httpx.AsyncClient
    key: str
    statuses: Counter[int] = field(default_factory=Counter[int])

    async def post(self, path: str, **content: object) -> httpx.Response:
        """Sends a request, and counts its answer."""
        response = await self.http.post(path, **content)  # pyright: ignore[reportArgumentType] # httpx's own names
        self.statuses[response.status_code] += 1
        return response


Request = Callable[[Client], Awaitable[None]]


async def search(client: Client) -> None:
    """A search that no cache answers."""
    await client.post("/v1/search", json={"query": f"how high was the tide on day {next(_numbers)}?"})


async def chat(client: Client) -> None:
    """A question, answered in one piece."""
    question = f"how high was the tide on day {next(_numbers)}?"
    await client.post("/v1/chat", json={"question": question, "stream": False})


async def embed_one(client: Client) -> None:
    """The vector of one text."""
    await client.post("/v1/embeddings", json={"model": "all-MiniLM-L6-v2", "input": [text_of(20)]})


async def embed_many(client: Client) -> None:
    """The vectors of many."""
    await client.post("/v1/embeddings", json={"model": "all-MiniLM-L6-v2", "input": [text_of(40) for _ in range(64)]})


async def upload(client: Client) -> None:
    """A small file, until it can be searched."""
    await _upload(client, "note.md", text_of(60).encode(), wait=True)


async def upload_more(client: Client) -> None:
    """A file that isn't waited for: the next follows at once."""
    await _upload(client, "bulk.md", text_of(600).encode(), wait=False)


async def upload_hostile(client: Client) -> None:
    """Files that take long to read, or long to embed."""
    nested = b"<table><tr><td>" * 4000 + b"x" + b"</td></tr></table>" * 4000
    await _upload(client, "nested.html", nested, wait=False)
    await _upload(client, "long.txt", "\n\n".join(text_of(90) for _ in range(2000)).encode(), wait=False)
    await asyncio.sleep(5)


async def _upload(client: Client, name: str, data: bytes, *, wait: bool) -> None:
    response = await client.post("/v1/documents", files={"file": (name, data)})
    if response.status_code != 202:
        await asyncio.sleep(0.05)
        return
    document = response.json()
    while wait and document["status"] not in ("ready", "failed"):
        await asyncio.sleep(0.02)
        document = (await client.http.get(f"/v1/documents/{document['id']}")).json()


def text_of(words: int) -> str:
    """A text unlike every other."""
    number = next(_numbers)
    return " ".join(f"word{(number * 7919 + place * 104729) % 50021}" for place in range(words))


@dataclass(frozen=True, slots=True)
class Entrance:
    """What is flooded, and what the quiet organisation does meanwhile."""

    name: str
    request: Request
    flood: Request
    drips: bool = False


ENTRANCES = (
    Entrance("uploads", upload, upload_more, drips=True),
    Entrance("searches", search, search),
    Entrance("chats", chat, chat),
    Entrance("embeddings", embed_one, embed_many),
    Entrance("a hostile file", upload, upload_hostile),
)


@asynccontextmanager
async def busy(client: Client, request: Request, connections: int) -> AsyncGenerator[None]:
    """Sends requests without pause, on so many connections."""

    async def go_on() -> None:
        while True:
            with suppress(httpx.HTTPError):
                await request(client)

    tasks = [asyncio.create_task(go_on()) for _ in range(connections)]
    try:
        await asyncio.sleep(0.5)
        yield
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


@asynccontextmanager
async def dripping(url: str, key: str, uploads: int) -> AsyncGenerator[None]:
    """Uploads that never end; who is cut off comes again."""
    address = urlsplit(url)
    head = (
        f"POST /v1/documents HTTP/1.1\r\nHost: {address.netloc}\r\nAuthorization: Bearer {key}\r\n"
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

    tasks = [asyncio.create_task(drip()) for _ in range(uploads)]
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def times_of(client: Client, request: Request, seconds: float) -> list[float]:
    """Milliseconds of one request after another."""
    times: list[float] = []
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        began = time.perf_counter()
        await request(client)
        times.append((time.perf_counter() - began) * 1000)
        await asyncio.sleep(PAUSE_SECONDS)
    return times


async def settled(stack: LocalStack) -> None:
    """Waits until the worker has nothing left of the last flood."""
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline:
        running = await asyncio.to_thread(stack.metric, "worker", "citewire_ingest_jobs_running")
        waiting = await asyncio.to_thread(stack.metric, "worker", "citewire_ingest_queue_depth")
        if not running and not waiting:
            return
        await asyncio.sleep(1)


async def measure(stack: LocalStack, entrance: Entrance, clients: dict[str, Client], seconds: float) -> list[object]:
    """One row: the quiet organisation's p95 beside the neighbour and beside the flood, in turns."""
    beside: dict[str, list[float]] = {"neighbour": [], "flood": []}
    quiet, flood = clients["quiet"], clients["flood"]
    quiet.statuses.clear()
    flood.statuses.clear()
    for number in range(SLICES):
        order = ("neighbour", "flood") if number % 2 == 0 else ("flood", "neighbour")
        for who in order:
            await settled(stack)
            lasting = seconds / SLICES / 2
            if who == "neighbour":
                async with busy(clients[who], entrance.request, 1):
                    beside[who] += await times_of(quiet, entrance.request, lasting)
                continue
            async with (
                dripping(stack.base_url, flood.key, DRIPPING if entrance.drips else 0),
                busy(flood, entrance.flood, CONNECTIONS if entrance.flood is not upload_hostile else 2),
            ):
                beside[who] += await times_of(quiet, entrance.request, lasting)
    low, high = p95(beside["neighbour"]), p95(beside["flood"])
    failed = sum(count for status, count in quiet.statuses.items() if status >= 400)
    refused = sum(count for status, count in flood.statuses.items() if status >= 400)
    answered = sum(flood.statuses.values())
    return [entrance.name, low, high, high / low, failed, len(beside["flood"]), answered, refused]


def p95(times: Sequence[float]) -> float:
    """The 95th percentile."""
    return sorted(times)[min(len(times) - 1, int(len(times) * 0.95))]


def make_key(stack: LocalStack, org_id: str) -> str:
    """Makes an API key as an operator would."""
    command = f"-m citewire_gateway keys create --org {org_id} --user u --plan pro --json"
    done = subprocess.run(  # our own command
        [sys.executable, *command.split()],
        env={"CITEWIRE_GATEWAY_MIGRATE_DSN": stack.environment["CITEWIRE_GATEWAY_MIGRATE_DSN"]},
        capture_output=True,
        check=True,
        text=True,
    )
    return str(json.loads(done.stdout)["key"])


@asynccontextmanager
async def organisations(stack: LocalStack) -> AsyncGenerator[dict[str, Client]]:
    """Makes the organisations, each with a key and twenty documents; yields their clients."""
    async with AsyncExitStack() as clients:
        made: dict[str, Client] = {}
        for org_id in ORGANISATIONS:
            key = make_key(stack, org_id)
            http = httpx.AsyncClient(
                base_url=stack.base_url,
                headers={"Authorization": f"Bearer {key}"},
                limits=httpx.Limits(max_connections=CONNECTIONS + 4),
                timeout=60,
                trust_env=False,
            )
            made[org_id] = Client(await clients.enter_async_context(http), key)
            for _ in range(20):
                await upload(made[org_id])
        yield made


async def run(stack: LocalStack, names: Sequence[str], seconds: float) -> bool:
    """Measures the entrances, prints the table, and says whether all is as it should be."""
    rows: list[list[object]] = []
    async with organisations(stack) as clients:
        for entrance in ENTRANCES:
            if entrance.name in names:
                rows.append(await measure(stack, entrance, clients, seconds))
                print(f"{entrance.name}: {float(str(rows[-1][3])):.2f}", file=sys.stderr)
    headings = ("flooded", "p95 beside a neighbour, ms", "beside a flood, ms", "ratio", "failed")
    print(f"{describe_machine()}\n")
    print(format_table([*headings, "measured", "the flood's requests", "refused"], rows))
    return all(float(str(row[3])) <= LIMIT and row[4] == 0 for row in rows)


def main() -> int:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=600, help="for each entrance, half of it beside the flood")
    parser.add_argument("--only", nargs="*", default=[entrance.name for entrance in ENTRANCES], help="entrances")
    options = parser.parse_args()
    environ = {"CITEWIRE_AUTH": "keys", "CITEWIRE_SAMPLE_LIBRARY": "off", "CITEWIRE_WORKER_MEASURE_SECONDS": "1"}
    with tempfile.TemporaryDirectory() as folder, local_stack(Path(folder), environ=environ) as stack:
        return 0 if asyncio.run(run(stack, options.only, options.seconds)) else 1


if __name__ == "__main__":
    sys.exit(main())
