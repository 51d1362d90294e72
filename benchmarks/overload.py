"""What three times as many searches as can be answered do: to those that are answered, to the rest, and to others.

The whole stack runs as `citewire up` starts it, with keys. First the peak: connections without pause, more and more of
them. Then one organisation sends three times as many searches a second, whatever becomes of the ones before: first
alone, then while a quiet organisation asks one question at a time, as it did beside a well-behaved busy neighbour.
What should be true: searches answered within the time that a caller waits are at least 90 % of the peak, a refusal
takes at most 50 ms, and the quiet organisation's p95 is at most 1.5 times what it was.

`python -m benchmarks.overload` takes two minutes; callers are a process of their own, on the same machine.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import psutil

from benchmarks.callers import Client, calling, search
from benchmarks.fairness import organisations, p95, times_of
from benchmarks.tables import describe_machine, format_table
from local_stack import LocalStack, local_stack

CONNECTIONS = (2, 4, 8, 16)
TIMES = 3
WAIT_SECONDS = 2.0
"""What an answer that comes later is worth: nothing."""
MOST_OPEN = 1500
GOODPUT, REFUSAL_MS, RATIO = 0.9, 50.0, 1.5


@dataclass(slots=True)
class Sent:
    """What became of the searches of one phase, in milliseconds."""

    answered: list[float] = field(default_factory=list[float])
    refused: list[float] = field(default_factory=list[float])
    failed: int = 0
    """Server errors other than a refusal, and connections that broke."""
    errors: Counter[str] = field(default_factory=Counter[str])


async def send(client: Client, sent: Sent) -> None:
    """Sends one search and notes what became of it."""
    began = time.perf_counter()
    try:
        status = (await search(client)).status
    except (OSError, asyncio.IncompleteReadError, ValueError) as error:
        sent.failed += 1
        sent.errors[repr(error)[:100]] += 1
        return
    took = (time.perf_counter() - began) * 1000
    if status == 200:
        sent.answered.append(took)
    elif status in (429, 503):
        sent.refused.append(took)
    else:
        sent.failed += 1
        sent.errors[str(status)] += 1


async def closed_loop(client: Client, connections: int, seconds: float) -> Sent:
    """So many callers, each of which waits for its answer."""
    sent, until = Sent(), time.monotonic() + seconds

    async def go_on() -> None:
        while time.monotonic() < until:
            await send(client, sent)

    await asyncio.gather(*(go_on() for _ in range(connections)))
    return sent


async def open_loop(client: Client, rate: float, seconds: float) -> Sent:
    """So many searches a second at random moments (Poisson), whoever waits."""
    sent, tasks, random = Sent(), set[asyncio.Task[None]](), np.random.default_rng(1)
    moment = time.monotonic()
    until = moment + seconds
    while moment < until:
        moment += random.exponential(1 / rate)
        if (pause := moment - time.monotonic()) > 0:
            await asyncio.sleep(pause)
        if len(tasks) >= MOST_OPEN:
            sent.failed += 1
            sent.errors["too many open"] += 1
            continue
        task = asyncio.create_task(send(client, sent))
        tasks.add(task)
        task.add_done_callback(tasks.discard)
    if tasks:
        await asyncio.wait(tasks, timeout=30)
    return sent


def cpu_of(stack: LocalStack) -> dict[str, float]:
    """CPU seconds of each process of the stack until now, and of this one."""
    used: dict[str, float] = {"callers": time.process_time()}
    for name, pid in stack.pids().items():
        process = psutil.Process(pid)
        times = [each.cpu_times() for each in (process, *process.children(recursive=True))]
        used[name] = sum(each.user + each.system for each in times)
    return used


def spent(before: Mapping[str, float], after: Mapping[str, float], seconds: float) -> list[object]:
    """Cores that each process used."""
    return [after[name] / seconds - before.get(name, 0.0) / seconds for name in sorted(after)]


def goodput(sent: Sent, seconds: float) -> float:
    """Searches a second that were answered while their caller still waited."""
    return sum(took <= WAIT_SECONDS * 1000 for took in sent.answered) / seconds


async def run(stack: LocalStack, clients: Mapping[str, Client], seconds: float) -> bool:
    """Measures, prints the tables, and says whether all is as it should be."""
    flood = clients["flood"]
    rates: dict[int, float] = {}
    cores: list[list[object]] = []
    for connections in CONNECTIONS:
        await closed_loop(flood, connections, seconds / 10)
        began = cpu_of(stack)
        rates[connections] = goodput(await closed_loop(flood, connections, seconds), seconds)
        cores = [spent(began, cpu_of(stack), seconds)]
    peak = max(rates.values())
    async with calling(clients["neighbour"], search, 1):
        before = await times_of(clients["quiet"], search, seconds)
    began = cpu_of(stack)
    alone = await open_loop(flood, TIMES * peak, seconds)
    cores.append(spent(began, cpu_of(stack), seconds))
    beside, sent = await asyncio.gather(
        times_of(clients["quiet"], search, seconds), open_loop(flood, TIMES * peak, seconds)
    )
    ratio, share = p95(beside) / p95(before), goodput(alone, seconds) / peak
    together = (goodput(sent, seconds) + len(beside) / seconds) / peak
    refusal = p95(alone.refused) if alone.refused else 0.0
    failed = sum(count for status, count in clients["quiet"].statuses.items() if status >= 400)
    print(f"{describe_machine()}\n")
    print(format_table(["connections", "searches a second"], [[each, rate] for each, rate in rates.items()]))
    print(f"\n{TIMES} times the peak, {TIMES * peak:.0f} a second, for {seconds:.0f} s:\n")
    rows: Sequence[Sequence[object]] = [
        ["answered in time, of the peak", share, f"≥ {GOODPUT}"],
        ["the same, the quiet one's included, while it asks", together, ""],
        ["refused", len(alone.refused), ""],
        ["p95 of a refusal, ms", refusal, f"≤ {REFUSAL_MS:.0f}"],
        ["failed otherwise", alone.failed + sent.failed, "0"],
        ["the quiet one's p95 beside a neighbour, ms", p95(before), ""],
        ["beside the flood, ms", p95(beside), ""],
        ["ratio", ratio, f"≤ {RATIO}"],
        ["of the quiet one's requests failed", failed, "0"],
    ]
    print(format_table(["", "measured", "wanted"], rows))
    print("\nCores used:\n")
    labels = [f"{max(CONNECTIONS)} connections", f"{TIMES} times the peak"]
    print(format_table(["", *sorted(began)], [[label, *row] for label, row in zip(labels, cores, strict=True)]))
    errors = alone.errors + sent.errors
    if errors:
        print(f"\nfailed: {dict(errors.most_common(5))}")
    return (
        share >= GOODPUT and refusal <= REFUSAL_MS and ratio <= RATIO and not failed and not alone.failed + sent.failed
    )


async def measure(stack: LocalStack, seconds: float) -> bool:
    """Makes the organisations, and runs."""
    async with organisations(stack) as clients:
        return await run(stack, clients, seconds)


def main() -> int:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=20, help="for each phase")
    options = parser.parse_args()
    with (
        tempfile.TemporaryDirectory() as folder,
        local_stack(Path(folder), environ={"CITEWIRE_AUTH": "keys", "CITEWIRE_SAMPLE_LIBRARY": "off"}) as stack,
    ):
        return 0 if asyncio.run(measure(stack, options.seconds)) else 1


if __name__ == "__main__":
    sys.exit(main())
