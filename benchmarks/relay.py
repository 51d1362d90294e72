"""The cost of relaying a token: generator + gateway compared with LiteLLM's proxy and a direct read.

One fake upstream, one reader, one core for the measured system and another for everything else. All figures
come from one run on one machine; only their ratios are meaningful elsewhere.

- *CPU per token*: user and system time of the system's processes, divided by the tokens received. Saturated, it is only
  an upper bound (`≤`) if the system kept up: a relay that is behind sends several tokens at once, which costs less.
- *Streams held*: the highest number at which tokens arrive at the upstream's pace (≥ 97 %) and p95 relay latency is
  ≤ 100 ms. A number counts as held if one of two tries holds it.
- *Relay latency*: from the moment when the upstream wrote a token, stamped in the token, to its arrival at the reader.
- *Time to first token added*: median over single requests, minus the median of the direct read. Citewire finds passages
  before it relays: *by the hops* counts from the moment they were found, *whole request* from the request.

Usage: python -m benchmarks.relay [--window SECONDS] [--only litellm|citewire]
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import os
import statistics
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Literal

import aiohttp

from benchmarks.relay_citewire import citewire
from benchmarks.relay_load import HELD_THROUGHPUT, FirstToken, Load, Target, measure_first_token, run_load, tokens_for
from benchmarks.relay_systems import litellm, log_folder, upstream
from benchmarks.tables import describe_machine, format_table
from benchmarks.upstream import UpstreamSettings

RATE = 50.0
FIRST_TOKEN_REQUESTS = 50
WARM_UP_REQUESTS = 10
TRIES = 2
QUIET = 0.1
"""Maximum share of the system's core used by others; the kernel's own work for the sockets is a few per cent."""
QUESTION = "What does the paced upstream say?"
OPENAI_BODY: dict[str, object] = {
    "model": "paced",
    "messages": [{"role": "user", "content": QUESTION}],
    "stream": True,
}


@dataclass(frozen=True, slots=True)
class System:
    """A measured system: its name, its target, the CPU time of its processes, and its loads."""

    name: str
    target: Target
    cpu_seconds: Callable[[], float]
    steps: Sequence[int]
    """Numbers of streams, ascending; the measurement ends at the first that isn't held."""
    saturating: int
    """A number of streams beyond its capacity."""


@dataclass(slots=True)
class Result:
    """The measurements of one system."""

    name: str
    loads: dict[int, Load] = field(default_factory=dict[int, Load])
    held: int = 0
    held_all: bool = False
    """Whether every step was held, so that `held` is only a lower bound."""
    saturated: Load | None = None
    first_token: list[FirstToken] = field(default_factory=list[FirstToken])


class Bench:
    """One run: the upstream, the window, and the results so far."""

    def __init__(self, upstream_url: str, window: float, core: int) -> None:
        self._upstream_url = upstream_url
        self._window = window
        self._core = core
        self.others: list[float] = []
        """Share of the core used by anything else, per run."""

    async def measure(self, system: System) -> Result:
        """Measures time to first token, then rising numbers of streams, then saturation."""
        result = Result(system.name)
        await set_pace(self._upstream_url, UpstreamSettings(rate=1000, tokens=3))
        await measure_first_token(system.target, requests=WARM_UP_REQUESTS)
        result.first_token = await measure_first_token(system.target, requests=FIRST_TOKEN_REQUESTS)
        await set_pace(self._upstream_url, UpstreamSettings(rate=RATE, tokens=tokens_for(self._window, RATE)))
        for streams in system.steps:
            load = await self._best_of(system, streams)
            result.loads[streams] = load
            if not load.held:
                break
            result.held = streams
            result.held_all = streams == system.steps[-1]
        result.saturated = await self._run(system, system.saturating)
        return result

    async def _best_of(self, system: System, streams: int) -> Load:
        load = await self._run(system, streams)
        for _ in range(TRIES - 1):
            if load.held:
                break
            again = await self._run(system, streams)
            load = again if again.held or again.p95_ms < load.p95_ms else load
        return load

    async def _run(self, system: System, streams: int) -> Load:
        load = await run_load(
            system.target,
            streams=streams,
            rate=RATE,
            window=self._window,
            core=self._core,
            cpu_seconds=system.cpu_seconds,
        )
        self.others.append(load.others)
        print(
            f"  {system.name}: {streams} streams, {load.throughput:.1%}, p50 {load.p50_ms:.1f} ms, "
            f"p95 {load.p95_ms:.1f} ms, {load.cpu_us_per_token:.0f} µs CPU per token, {load.core:.0%} of the core"
            f"{f', others took {load.others:.0%}' if load.others > QUIET else ''}"
            f"{f', {load.failed} failed' if load.failed else ''}",
            flush=True,
        )
        await self._upstream_is_idle()
        return load

    async def _upstream_is_idle(self) -> None:
        """Waits until cut streams have ended at the upstream, so that they don't affect the next run."""
        async with asyncio.timeout(60), aiohttp.ClientSession() as session:
            while True:
                async with session.get(f"{self._upstream_url}/stats") as response:
                    if (await response.json())["open_streams"] == 0:
                        return
                await asyncio.sleep(0.1)


async def set_pace(upstream_url: str, settings: UpstreamSettings) -> None:
    """Sets the pace of the upstream's later streams."""
    async with (
        aiohttp.ClientSession() as session,
        session.patch(f"{upstream_url}/settings", json=asdict(settings)) as response,
    ):
        response.raise_for_status()


async def measure_all(*, window: float, only: str | None) -> list[Result]:
    """Measures the direct read and the systems, one after another."""
    core, *others = sorted(os.sched_getaffinity(0))
    os.sched_setaffinity(0, set(others))
    results: list[Result] = []
    async with contextlib.AsyncExitStack() as stack:
        logs = stack.enter_context(log_folder())
        url = await stack.enter_async_context(upstream(core=others[0], rate=RATE, logs=logs))
        bench = Bench(url, window, core)
        port = int(url.rsplit(":", 1)[1])
        path = "/v1/chat/completions"
        direct = Target("127.0.0.1", port, path, OPENAI_BODY, b"data: [DONE]")
        results.append(await bench.measure(System("direct", direct, lambda: 0.0, (20, 100, 300), 400)))
        if only in {None, "litellm"}:
            async with litellm(core=core, upstream_url=url, logs=logs) as (litellm_port, process):
                target = Target("127.0.0.1", litellm_port, path, OPENAI_BODY, b"data: [DONE]")
                steps = (5, 10, 15, 20, 25, 30, 40, 50)
                results.append(await bench.measure(System("LiteLLM", target, process.cpu_seconds, steps, 60)))
        if only in {None, "citewire"}:
            results.append(await _measure_citewire(bench, core=core, others=others, url=url, logs=logs))
        if (busy := sum(share > QUIET for share in bench.others)) > 0:
            print(f"\nThe machine was not quiet in {busy} of {len(bench.others)} runs: don't quote these figures.")
    return results


async def _measure_citewire(bench: Bench, *, core: int, others: Sequence[int], url: str, logs: Path) -> Result:
    async with citewire(core=core, other_core=others[-1], upstream_url=url, logs=logs) as (target, cpu_seconds):
        steps = (20, 50, 100, 150, 200, 250, 300, 350)
        return await bench.measure(System("Citewire", target, cpu_seconds, steps, 400))


def report(results: Sequence[Result]) -> str:
    """The tables: a row per system, then the ratios beside their targets."""
    direct = _first_token(results[0], "whole")
    rows: list[list[object]] = []
    for result in results:
        at_20, at_100, full = result.loads.get(20), result.loads.get(100), result.saturated
        rows.append(
            [
                result.name,
                _cpu(at_20),
                f"{'≤ ' if full and full.core > 0 and full.throughput >= HELD_THROUGHPUT else ''}{_cpu(full)}",
                f"{'≥ ' if result.held_all else ''}{result.held}",
                _latency(at_20),
                _latency(at_100),
                f"{_first_token(result, 'relay') - direct:.1f} / {_first_token(result, 'whole') - direct:.1f}",
            ]
        )
    headings = [
        "system",
        "CPU µs/token, 20 streams",
        "CPU µs/token, saturated",
        "streams held per core",
        "relay p50 / p95 ms, 20 streams",
        "relay p50 / p95 ms, 100 streams",
        "first token added ms, by the hops / whole request",
    ]
    return f"{format_table(headings, rows)}\n\n{_ratios(results, direct)}"


def _ratios(results: Sequence[Result], direct: float) -> str:
    by_name = {result.name: result for result in results}
    if not {"LiteLLM", "Citewire"} <= by_name.keys():
        return "(no ratios: one of the systems was left out)"
    theirs, ours = by_name["LiteLLM"], by_name["Citewire"]
    rows: list[list[object]] = []
    for name, numerator, denominator, target, at_most in (
        ("CPU per token at 20 streams", _cpu_at(ours, 20), _cpu_at(theirs, 20), 1 / 2, True),
        ("CPU per token, saturated", _cpu_full(ours), _cpu_full(theirs), 1 / 7, True),
        ("streams held per core", float(ours.held), float(theirs.held), 8.0, False),
        (
            "time to first token added by the hops",
            _first_token(ours, "relay") - direct,
            _first_token(theirs, "relay") - direct,
            1 / 4,
            True,
        ),
    ):
        ratio = numerator / denominator if denominator else float("nan")
        met = ratio <= target if at_most else ratio >= target
        rows.append([name, f"{ratio:.3g}", f"{'≤' if at_most else '≥'} {target:.3g}", "met" if met else "missed"])
    return format_table(["Citewire / LiteLLM", "ratio", "target", ""], rows)


def _cpu(load: Load | None) -> str:
    return "–" if load is None or load.cpu_us_per_token == 0 else f"{load.cpu_us_per_token:.0f}"


def _first_token(result: Result, part: Literal["whole", "relay"]) -> float:
    return statistics.median(wait.whole if part == "whole" else wait.relay for wait in result.first_token)


def _latency(load: Load | None) -> str:
    return "–" if load is None else f"{load.p50_ms:.1f} / {load.p95_ms:.1f}"


def _cpu_at(result: Result, streams: int) -> float:
    return result.loads[streams].cpu_us_per_token if streams in result.loads else float("nan")


def _cpu_full(result: Result) -> float:
    return result.saturated.cpu_us_per_token if result.saturated else float("nan")


def main(arguments: Sequence[str]) -> None:
    """Runs the benchmark and prints its tables."""
    parser = argparse.ArgumentParser(description="Relay benchmark: generator + gateway against LiteLLM's proxy.")
    parser.add_argument("--window", type=float, default=5, help="seconds measured per load (default: 5)")
    parser.add_argument("--only", choices=["litellm", "citewire"], help="leave the other system out")
    options = parser.parse_args(arguments)
    if not hasattr(os, "sched_setaffinity") or len(os.sched_getaffinity(0)) < 2:
        sys.exit("The relay benchmark needs Linux and two cores: one for the system, one for upstream and reader.")
    print(f"{describe_machine()}\nupstream: {RATE:.0f} tokens per second and stream; the system has one core\n")
    print("\n" + report(asyncio.run(measure_all(window=options.window, only=options.only))))


if __name__ == "__main__":
    main(sys.argv[1:])
