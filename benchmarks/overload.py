"""The effect of three times as many searches as can be answered: on answered ones, on rejected ones, and on others.

The whole stack runs as started by `citewire up`, with keys. First it finds the peak: more and more connections without
pause. Then one organisation sends three times as many searches per second, answered or not: first
alone, then while a quiet organisation asks one question at a time, in turns with a well-behaved busy neighbour.
The requirements: searches answered within a caller's patience are at least 90 % of the peak, a rejection
takes at most 50 ms, and the quiet organisation's p95 is at most 1.5 times its p95 beside the neighbour: the median
of the pairs' ratios, as judged by `benchmarks.ratios`.

`python -m benchmarks.overload --seconds 6` takes four minutes. Callers beside the quiet organisation run in a separate
process on the same machine: in one process they would delay each other, which isn't caused by the stack.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import sys
import tempfile
import time
from collections import Counter
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import psutil

from benchmarks.callers import Client, running_callers, search
from benchmarks.fairness import organisations, p95, settle_flood, times_of
from benchmarks.ratios import Verdict, median_ratio
from benchmarks.tables import describe_machine, format_table
from local_stack import LocalStack, local_stack

CONNECTIONS = (2, 4, 8, 16)
TIMES = 3
WAIT_SECONDS = 2.0
"""A caller's patience in seconds; a later answer is worthless."""
MOST_OPEN = 1500
SETTLE_SECONDS = 1.0
"""Duration of a flood before the quiet organisation's times count."""
GOODPUT, REFUSAL_MS, RATIO = 0.9, 50.0, 1.5


@dataclass(slots=True)
class SearchResults:
    """The results of the searches of one phase, in milliseconds."""

    answered: list[float] = field(default_factory=list[float])
    refused: list[float] = field(default_factory=list[float])
    failed: int = 0
    """Server errors other than rejections, and broken connections."""
    errors: Counter[str] = field(default_factory=Counter[str])
    cpu_seconds: float = 0.0
    """CPU seconds of its callers, if they run in a separate process."""

    def add(self, other: SearchResults) -> None:
        """Adds other results."""
        self.answered += other.answered
        self.refused += other.refused
        self.failed += other.failed
        self.errors += other.errors
        self.cpu_seconds += other.cpu_seconds


async def send(client: Client, results: SearchResults) -> None:
    """Sends one search and records its result."""
    began = time.perf_counter()
    try:
        status = (await search(client)).status
    except (OSError, asyncio.IncompleteReadError, ValueError) as error:
        results.failed += 1
        results.errors[repr(error)[:100]] += 1
        return
    took = (time.perf_counter() - began) * 1000
    if status == 200:
        results.answered.append(took)
    elif status in (429, 503):
        results.refused.append(took)
    else:
        results.failed += 1
        results.errors[str(status)] += 1


async def closed_loop(client: Client, connections: int, seconds: float) -> SearchResults:
    """A number of callers, each of which waits for its answer."""
    results, until = SearchResults(), time.monotonic() + seconds

    async def go_on() -> None:
        while time.monotonic() < until:
            await send(client, results)

    await asyncio.gather(*(go_on() for _ in range(connections)))
    return results


async def open_loop(client: Client, rate: float, seconds: float) -> SearchResults:
    """A rate of searches at random moments (Poisson), however many are waiting."""
    results, tasks, random = SearchResults(), set[asyncio.Task[None]](), np.random.default_rng(1)
    moment = time.monotonic()
    until = moment + seconds
    while moment < until:
        moment += random.exponential(1 / rate)
        if (pause := moment - time.monotonic()) > 0:
            await asyncio.sleep(pause)
        if len(tasks) >= MOST_OPEN:
            results.failed += 1
            results.errors["too many open"] += 1
            continue
        task = asyncio.create_task(send(client, results))
        tasks.add(task)
        task.add_done_callback(tasks.discard)
    if tasks:
        await asyncio.wait(tasks, timeout=30)
    return results


@asynccontextmanager
async def running_flood(client: Client, rate: float, seconds: float) -> AsyncGenerator[SearchResults]:
    """An `open_loop` in a separate process, begun a second before the block; its results are available after it."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "benchmarks.overload", f"--seconds={seconds + SETTLE_SECONDS}"),
        *("--flood", client.url, str(rate)),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    results = SearchResults()
    try:
        process.stdin.write(f"{client.key}\n".encode())
        await process.stdout.readline()
        await asyncio.sleep(SETTLE_SECONDS)
        yield results
    finally:
        output = await process.stdout.read()
        await process.wait()
    if process.returncode:
        raise RuntimeError("the flood's process has failed")
    result: dict[str, Any] = json.loads(output)
    errors = Counter[str](result["errors"])
    results.add(SearchResults(result["answered"], result["refused"], result["failed"], errors, result["cpu_seconds"]))


async def flood(url: str, rate: float, seconds: float) -> None:
    """The program that `running_flood` runs."""
    client = Client(url, sys.stdin.readline().strip())
    print("ready", flush=True)
    results = await open_loop(client, rate, seconds)
    results.cpu_seconds = time.process_time()
    print(json.dumps(asdict(results)))


def cpu_of(stack: LocalStack) -> dict[str, float]:
    """CPU seconds so far of each process of the stack, and of this one."""
    used: dict[str, float] = {"callers": time.process_time()}
    for name, pid in stack.pids().items():
        process = psutil.Process(pid)
        times = [member.cpu_times() for member in (process, *process.children(recursive=True))]
        used[name] = sum(cpu.user + cpu.system for cpu in times)
    return used


def spent(before: Mapping[str, float], after: Mapping[str, float], seconds: float) -> list[object]:
    """Cores that each process used."""
    return [after[name] / seconds - before.get(name, 0.0) / seconds for name in sorted(after)]


def goodput(results: SearchResults, seconds: float) -> float:
    """Searches per second answered within the caller's patience."""
    return sum(took <= WAIT_SECONDS * 1000 for took in results.answered) / seconds


@dataclass(slots=True)
class QuietTimes:
    """The quiet organisation's times in milliseconds, beside the neighbour and beside the flood, by pair."""

    neighbour: list[list[float]] = field(default_factory=list[list[float]])
    flood: list[list[float]] = field(default_factory=list[list[float]])
    results: SearchResults = field(default_factory=SearchResults)


async def in_turns(
    stack: LocalStack, clients: Mapping[str, Client], rate: float, pairs: int, seconds: float
) -> QuietTimes:
    """Measures the quiet organisation beside its neighbour and beside a flood with this rate of searches."""
    times, quiet = QuietTimes(), clients["quiet"]
    for number in range(pairs):
        for flooded in (False, True) if number % 2 == 0 else (True, False):
            await settle_flood(stack)
            if flooded:
                async with running_flood(clients["flood"], rate, seconds) as results:
                    times.flood.append(await times_of(quiet, search, seconds))
                times.results.add(results)
            else:
                async with running_callers(clients["neighbour"], search, 1):
                    times.neighbour.append(await times_of(quiet, search, seconds))
        low, high = p95(times.neighbour[-1]), p95(times.flood[-1])
        print(f"  {low:.1f} ms, {high:.1f} ms: {high / low:.2f}", file=sys.stderr, flush=True)
    return times


async def run(stack: LocalStack, clients: Mapping[str, Client], pairs: int, seconds: float) -> bool:
    """Measures, prints the tables, and returns whether all requirements are met."""
    rates: dict[int, float] = {}
    cores: list[list[object]] = []
    for connections in CONNECTIONS:
        await closed_loop(clients["flood"], connections, seconds / 10)
        began = cpu_of(stack)
        rates[connections] = goodput(await closed_loop(clients["flood"], connections, seconds), seconds)
        cores = [spent(began, cpu_of(stack), seconds)]
    peak = max(rates.values())
    began, lasted = cpu_of(stack), seconds + SETTLE_SECONDS
    async with running_flood(clients["flood"], TIMES * peak, seconds) as alone:
        pass  # it stops by itself
    cores.append(spent(began, {**cpu_of(stack), "callers": began["callers"] + alone.cpu_seconds}, lasted))
    times = await in_turns(stack, clients, TIMES * peak, pairs, seconds)
    results = times.results
    ratio = median_ratio([p95(high) / p95(low) for low, high in zip(times.neighbour, times.flood, strict=True)])
    share = goodput(alone, lasted) / peak
    asked = sum(map(len, times.flood)) / (pairs * seconds)
    together = (goodput(results, pairs * lasted) + asked) / peak
    refusal = p95(alone.refused) if alone.refused else 0.0
    failed = sum(count for status, count in clients["quiet"].statuses.items() if status >= 400)
    print(f"{describe_machine()}\n")
    print(
        format_table(["connections", "searches a second"], [[connections, rate] for connections, rate in rates.items()])
    )
    print(f"\n{TIMES} times the peak, {TIMES * peak:.0f} a second; {pairs} pairs of {seconds:.0f} s each:\n")
    rows: Sequence[Sequence[object]] = [
        ["answered in time, of the peak", share, f"≥ {GOODPUT}"],
        ["the same, the quiet one's included, while it asks", together, ""],
        ["its answers then, ms (median)", statistics.median(results.answered or [0.0]), ""],
        ["refused", len(alone.refused), ""],
        ["p95 of a refusal, ms", refusal, f"≤ {REFUSAL_MS:.0f}"],
        ["failed otherwise", alone.failed + results.failed, "0"],
        ["the quiet one's p95 beside a neighbour, ms (median)", statistics.median(map(p95, times.neighbour)), ""],
        ["beside the flood, ms (median)", statistics.median(map(p95, times.flood)), ""],
        ["ratio", f"{ratio.median:.2f} ({ratio.low:.2f}–{ratio.high:.2f})", f"≤ {RATIO}: {ratio.verdict(RATIO)}"],
        ["of the quiet one's requests failed", failed, "0"],
    ]
    print(format_table(["", "measured", "wanted"], rows))
    print("\nCores used:\n")
    labels = [f"{max(CONNECTIONS)} connections", f"{TIMES} times the peak"]
    print(format_table(["", *sorted(began)], [[label, *row] for label, row in zip(labels, cores, strict=True)]))
    errors = alone.errors + results.errors
    if errors:
        print(f"\nfailed: {dict(errors.most_common(5))}")
    held = share >= GOODPUT and refusal <= REFUSAL_MS and ratio.verdict(RATIO) is not Verdict.MISSED
    return held and not failed and not alone.failed + results.failed


async def measure(stack: LocalStack, pairs: int, seconds: float) -> bool:
    """Creates the organisations and runs the benchmark."""
    async with organisations(stack) as clients:
        return await run(stack, clients, pairs, seconds)


def main() -> int:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=20, help="for each phase, and each half of a pair")
    parser.add_argument("--pairs", type=int, default=10, help="fewer than 6 decide nothing")
    parser.add_argument("--flood", nargs=2, metavar=("URL", "RATE"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.flood:
        asyncio.run(flood(options.flood[0], float(options.flood[1]), options.seconds))
        return 0
    with (
        tempfile.TemporaryDirectory() as folder,
        local_stack(Path(folder), environ={"CITEWIRE_AUTH": "keys", "CITEWIRE_SAMPLE_LIBRARY": "off"}) as stack,
    ):
        return 0 if asyncio.run(measure(stack, options.pairs, options.seconds)) else 1


if __name__ == "__main__":
    sys.exit(main())
