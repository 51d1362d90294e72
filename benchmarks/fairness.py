"""Whether one organisation can slow another down: each entry point is flooded in turn while another's p95 is measured.

The whole stack runs as started by `citewire up`, with keys. A quiet organisation sends one request at a time, in turns
with a well-behaved busy neighbour (one request at a time without pause) and with a flood (many
connections without pause, and other attacks), each in a separate process. The requirement: the
ratio of the quiet one's p95s is at most 1.5, and none of its requests fails. The ratio is the median of those of
several pairs, as judged by `benchmarks.ratios`: other load on the machine affects both sides of a pair. The table also
has the ratio of the p95s over the whole time of each side.

`python -m benchmarks.fairness --minutes 5` measures each side of each entry point for five minutes, in turns: one hour
in all. `--pairs 6 --seconds 10` takes two minutes per entry point. Each row is printed once it is measured, and all
rows at the end, even if a run is stopped early.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import math
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import httpx
import psycopg

from benchmarks.callers import (
    NO_ANSWER,
    Callers,
    Client,
    Request,
    chat,
    embed_many,
    embed_one,
    running_callers,
    search,
    upload,
    upload_hostile,
    upload_more,
)
from benchmarks.ratios import Verdict, median_ratio
from benchmarks.tables import describe_machine, format_table
from local_stack import LocalStack, local_stack

CONNECTIONS = 24
DRIPPING = 16
LIMIT = 1.5
PAUSE_SECONDS = 0.05
PATIENCE_SECONDS = 60.0
HEADINGS = (
    *("flooded", "p95 beside a neighbour, ms", "beside a flood, ms", "ratio over all", "of pairs", "95 % interval"),
    *("failed", "measured", "the flood's requests", "refused", "its callers' cores"),
)
ORGANISATIONS = ("quiet", "neighbour", "flood")


@dataclass(frozen=True, slots=True)
class Entrance:
    """The flood, and the quiet organisation's requests during it."""

    name: str
    request: Request
    flood: Request
    connections: int = CONNECTIONS
    drips: int = 0


ENTRANCES = (
    Entrance("uploads", upload, upload_more, drips=DRIPPING),
    Entrance("searches", search, search),
    Entrance("chats", chat, chat),
    Entrance("embeddings", embed_one, embed_many),
    Entrance("a hostile file", upload, upload_hostile, connections=2),
)


async def times_of(client: Client, request: Request, seconds: float) -> list[float]:
    """Milliseconds of each of a series of requests."""
    times: list[float] = []
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        began = time.perf_counter()
        try:
            async with asyncio.timeout(PATIENCE_SECONDS):
                await request(client)
        except (OSError, asyncio.IncompleteReadError):
            client.statuses[NO_ANSWER] += 1
        else:
            times.append((time.perf_counter() - began) * 1000)
        await asyncio.sleep(PAUSE_SECONDS)
    return times


def is_idle(stack: LocalStack) -> bool:
    """Whether the gateway makes no calls: it continues requests whose callers have disconnected."""
    return _metric(stack, "gateway", "citewire_grpc_client_in_flight") == 0


def has_no_jobs(stack: LocalStack) -> bool:
    """Whether the worker is idle: it may still work on a job that no longer exists."""
    return _metric(stack, "worker", "citewire_ingest_jobs_running") == 0


def _metric(stack: LocalStack, name: str, series: str) -> float | None:
    """A process's metric; None while it is too busy to respond."""
    with suppress(httpx.HTTPError):
        return stack.metric(name, series)
    return None


async def settle_flood(stack: LocalStack) -> None:
    """Removes the jobs of the last flood, and waits until nothing works on them any more."""
    await asyncio.to_thread(stack.wait, lambda: is_idle(stack) or None, "the last flood isn't done", seconds=120)
    async with await psycopg.AsyncConnection.connect(stack.dsn(), autocommit=True) as connection:
        # A worker drops a deleted job at its next batch or its next lease renewal.
        await connection.execute("DELETE FROM corpus.ingest_jobs WHERE org_id = 'flood'")
    await asyncio.to_thread(stack.wait, lambda: has_no_jobs(stack) or None, "the last flood's jobs aren't left")


async def measure(
    stack: LocalStack, entrance: Entrance, clients: dict[str, Client], pairs: int, seconds: float
) -> tuple[list[object], bool]:
    """One row: the quiet organisation's p95 beside the neighbour and beside the flood, and the verdict."""
    beside: dict[str, list[list[float]]] = {"neighbour": [], "flood": []}
    flood = Callers(Counter())
    quiet = clients["quiet"]
    quiet.statuses.clear()
    for number in range(pairs):
        for who in ("neighbour", "flood") if number % 2 == 0 else ("flood", "neighbour"):
            await settle_flood(stack)
            calls = (
                running_callers(clients[who], entrance.request, 1)
                if who == "neighbour"
                else running_callers(clients[who], entrance.flood, entrance.connections, drips=entrance.drips)
            )
            async with calls as done:
                beside[who].append(await times_of(quiet, entrance.request, seconds))
            if who == "flood":
                flood.statuses += done.statuses
                flood.cpu_seconds += done.cpu_seconds
        low, high = p95(beside["neighbour"][-1]), p95(beside["flood"][-1])
        print(f"  {entrance.name}: {low:.1f} ms, {high:.1f} ms: {high / low:.2f}", file=sys.stderr, flush=True)
    lows, highs = map(p95, beside["neighbour"]), map(p95, beside["flood"])
    ratio = median_ratio([high / low for low, high in zip(lows, highs, strict=True)])
    failed = sum(count for status, count in quiet.statuses.items() if status >= 400)
    refused = sum(count for status, count in flood.statuses.items() if status >= 400)
    row: list[object] = [
        entrance.name,
        statistics.median(map(p95, beside["neighbour"])),
        statistics.median(map(p95, beside["flood"])),
        f"{overall(beside['flood']) / overall(beside['neighbour']):.2f}",
        f"{ratio.median:.2f}",
        f"{ratio.low:.2f}–{ratio.high:.2f}",
        failed,
        sum(map(len, beside["flood"])),
        flood.statuses.total(),
        refused,
        f"{flood.cpu_seconds / (pairs * seconds):.2f}",
    ]
    return row, ratio.verdict(LIMIT) is not Verdict.MISSED and not failed


def p95(times: Sequence[float]) -> float:
    """The 95th percentile; infinite if nothing was answered."""
    return sorted(times)[min(len(times) - 1, int(len(times) * 0.95))] if times else math.inf


def overall(halves: Sequence[Sequence[float]]) -> float:
    """The 95th percentile over all halves of one side."""
    return p95([duration for half in halves for duration in half])


def make_key(stack: LocalStack, org_id: str) -> str:
    """Creates an API key as an operator would."""
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
    """Creates the organisations, each with a key and twenty documents; yields their clients."""
    made = {org_id: Client(stack.base_url, make_key(stack, org_id)) for org_id in ORGANISATIONS}
    try:
        for client in made.values():
            for _ in range(20):
                await upload(client)
        yield made
    finally:
        for client in made.values():
            client.close()


async def run(stack: LocalStack, names: Sequence[str], pairs: int, seconds: float) -> bool:
    """Measures the entry points, prints the table, and returns whether all requirements are met."""
    rows: list[list[object]] = []
    held = True
    try:
        async with organisations(stack) as clients:
            for entrance in ENTRANCES:
                if entrance.name in names:
                    row, holds = await measure(stack, entrance, clients, pairs, seconds)
                    rows.append(row)
                    held &= holds
                    print(format_table(HEADINGS, [row]), file=sys.stderr, flush=True)
    finally:  # print the results so far, in case the run is stopped
        print(f"{describe_machine()}; each side {pairs * seconds / 60:.1f} minutes, in {pairs} pairs\n")
        print(format_table(HEADINGS, rows), flush=True)
    return held


def main() -> int:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=10, help="fewer than 6 decide nothing")
    lengths = parser.add_mutually_exclusive_group()
    lengths.add_argument(
        "--minutes", type=float, default=5, help="minutes of each side of an entrance, over all its pairs"
    )
    lengths.add_argument("--seconds", type=float, help="seconds of each half of a pair")
    parser.add_argument("--only", nargs="*", default=[entrance.name for entrance in ENTRANCES], help="entrances")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # stops the stack
    seconds = options.seconds or options.minutes * 60 / options.pairs
    environ = {"CITEWIRE_AUTH": "keys", "CITEWIRE_SAMPLE_LIBRARY": "off"}
    with tempfile.TemporaryDirectory() as folder, local_stack(Path(folder), environ=environ) as stack:
        return 0 if asyncio.run(run(stack, options.only, options.pairs, seconds)) else 1


if __name__ == "__main__":
    sys.exit(main())
