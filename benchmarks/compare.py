"""Compares this working tree with earlier commits: is anything slower by more than 3 %, or another limit?

Each tree has its own environment, and the same driver (this one's) measures the processes of each tree in
turns: bases and head, forwards and backwards. For each measure, it prints the median of the pairs' ratios
with its 95 % interval; a ratio above 1 means that head is worse. The measure is missed if the whole interval
lies beyond the limit, held if it lies entirely within, and undecided otherwise.

- *relay*: CPU time of generator and gateway per relayed token, with 20 streams and saturated. All trees' processes
  run in a pair and are measured in turns. Tokens of the 20 streams come at fixed moments: otherwise chance would
  determine how many wake the processes at the same time, on which half of the figure depends.
- *first_token*: milliseconds from a chat's request to its first token, through the same two processes, also in turns.
- *search*: `Search` calls per second over gRPC, eight at a time, on 12,000 chunks in an unrestricted Postgres,
  and their CPU time (retriever, Postgres), which is more informative on a shared machine.
- *ingest*: milliseconds and CPU time (worker, embedder, Postgres) per document, until all documents can be searched.
- *startup*: seconds from the start of `citewire up` (`make up`) on a new data folder until it reports that it is ready.

`--slow-down 1.10` slows head's processes down by 10 %, to show that each measure detects it.

Usage: python -m benchmarks.compare --base COMMIT [COMMIT …] [--pairs 10] [--only relay,search] [--limit 1.05]
[--slow-down 1.10]

`--only` takes these groups or single measures: `--only "relay 20"`.

On a shared machine, `--patience 0` skips the wait until it is idle.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Collection, Generator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.ingest_cost import cpu_seconds_of_children, ingest_backend, starting_stack
from benchmarks.ratios import Verdict, median_ratio
from benchmarks.relay import RATE, set_pace
from benchmarks.relay_citewire import RelayBackend, relay_backend, running_relay
from benchmarks.relay_load import measure_first_token, run_load, tokens_for
from benchmarks.relay_systems import log_folder, plain_environment, upstream
from benchmarks.search_ways import WARM_UP_SECONDS, run_way
from benchmarks.slow_down import burning, paused, paused_often
from benchmarks.tables import describe_machine, format_table

ROOT = Path(__file__).resolve().parent.parent
LIMIT = 1.03
WINDOW_SECONDS = 4.0
"""Duration of a measurement with 20 streams."""
WINDOWS = 2
"""Number of measurements of each tree in a pair, in turns."""
SATURATED_SECONDS = 2.0
STREAMS = 20
SATURATING_STREAMS = 300
ENDLESS_TOKENS = 10_000
"""Tokens of streams that are cut after the window: opening 300 chats takes one core several seconds."""
FIRST_TOKEN_REQUESTS = 20
FIRST_TOKEN_WINDOWS = 10
"""Number of such measurements of each tree in a pair; with one of 40 requests, ratios scattered twice as widely."""
SEARCH_CHUNKS = 12_000
SEARCH_SECONDS = 2.0
IDLE_SHARE = 0.05
"""Maximum share of the machine's CPU time that others may use when a measurement begins."""
MEASURES = {
    "relay 20": "relay, 20 streams: CPU µs per token",
    "relay saturated": "relay, saturated: CPU µs per token",
    "first_token": "time to first token: ms",
    "search": "Search: ms per call (8 at a time)",
    "search cpu": "Search: CPU ms per call",
    "ingest": "ingest: ms per document",
    "ingest cpu": "ingest: CPU ms per document",
    "startup": "start-up until ready: s",
}
"""Costs: less is better."""

# Runs in any tree, with that tree's own benchmarks: keeps a loaded database, and restarts the retriever for each line.
_SEARCH_BACKEND = """
import json, sys
from benchmarks.search_data import loaded
from benchmarks.search_ways import retriever
with loaded(int(sys.argv[1])) as data:
    orgs = [org for org, size in data.sizes.items() if size >= 200]
    print("=", json.dumps({"orgs": orgs, "dsn": data.dsn("citewire_corpus")}), flush=True)
    while sys.stdin.readline():
        with retriever(data) as port:
            print("=", json.dumps({"port": port}), flush=True)
            sys.stdin.readline()
        print("=", json.dumps({"ended": port}), flush=True)
"""


@dataclass(frozen=True, slots=True)
class Tree:
    """A checked-out tree with an environment in `.venv`; `slow_down` slows its processes down."""

    root: Path
    slow_down: float = 1.0

    @property
    def python(self) -> Path:
        """The interpreter of its environment."""
        return self.root / ".venv" / "bin" / "python"


class SearchBackend:
    """A tree's loaded database; measures a retriever on it."""

    def __init__(self, process: asyncio.subprocess.Process, slow_down: float) -> None:
        """Takes the process that runs `_SEARCH_BACKEND`."""
        self._process = process
        self._slow_down = slow_down
        self._database: dict[str, Any] = {}

    async def loaded(self) -> None:
        """Waits until the chunks are in the database."""
        self._database = await self._read()

    async def measure(self) -> dict[str, float]:
        """Starts the retriever, searches for a few seconds, and stops it."""
        assert self._process.stdin is not None
        self._process.stdin.write(b"start\n")
        port = (await self._read())["port"]
        orgs, dsn = self._database["orgs"], self._database["dsn"]
        spent = cpu_seconds_of_children(self._process.pid)
        with paused(self._process.pid, self._slow_down):
            rate = await asyncio.to_thread(run_way, "gRPC", orgs, SEARCH_SECONDS, dsn=dsn, port=port)
        spent = cpu_seconds_of_children(self._process.pid) - spent
        self._process.stdin.write(b"stop\n")
        await self._read()  # it has ended; otherwise its shutdown would be measured with the next tree
        searches = rate.per_second * (SEARCH_SECONDS + WARM_UP_SECONDS)
        return {"search": 1000 / rate.per_second, "search cpu": 1000 * spent / searches}

    async def _read(self) -> dict[str, Any]:
        """The next line meant for this process; migrations write their log to the same stream."""
        assert self._process.stdout is not None
        async for line in self._process.stdout:
            if line.startswith(b"= "):
                return json.loads(line[2:])
        raise RuntimeError("the retriever, or its database, has ended")


@contextlib.asynccontextmanager
async def search_backend(tree: Tree, logs: Path) -> AsyncGenerator[SearchBackend]:
    """Loads a tree's database and keeps it while the block runs."""
    with burning(tree.slow_down) as burnt, (logs / "search.log").open("ab") as errors:
        process = await asyncio.create_subprocess_exec(
            *(tree.python, "-c", _SEARCH_BACKEND, str(SEARCH_CHUNKS)),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=errors,
            env=plain_environment() | burnt,
            cwd=tree.root,
        )
        try:
            backend = SearchBackend(process, tree.slow_down)
            await backend.loaded()
            yield backend
        finally:
            assert process.stdin is not None
            process.stdin.close()
            await process.wait()


async def measure_relays(
    trees: Sequence[Tree], backends: Mapping[Tree, RelayBackend], *, core: int, only: Collection[str], patience: float
) -> dict[Tree, dict[str, float]]:
    """Starts all trees' generators and gateways on one core; measures the first token and CPU per token in turns."""
    costs: dict[Tree, dict[str, float]] = {tree: {} for tree in trees}
    url = backends[trees[0]].upstream_url
    async with contextlib.AsyncExitStack() as stack:
        relays = {
            tree: await stack.enter_async_context(running_relay(backends[tree], core=core, slow_down=tree.slow_down))
            for tree in trees
        }

        async def cost(tree: Tree, **load: Any) -> float:  # noqa: ANN401 # of `run_load`
            await machine_idle(patience)
            relay = relays[tree]
            measured = await run_load(relay.target, rate=RATE, core=core, cpu_seconds=relay.cpu_seconds, **load)
            return measured.cpu_us_per_token

        await set_pace(url, tokens=3, rate=1000)
        for tree in trees:
            await measure_first_token(relays[tree].target, requests=10)  # warm-up
        if "first_token" in only:
            waits: dict[Tree, list[float]] = {tree: [] for tree in trees}
            for tree in alternating(trees, FIRST_TOKEN_WINDOWS):
                with paused_often(relays[tree].pids, tree.slow_down):
                    measured = await measure_first_token(relays[tree].target, requests=FIRST_TOKEN_REQUESTS)
                waits[tree] += [wait.whole for wait in measured]
            for tree in trees:
                costs[tree]["first_token"] = statistics.median(waits[tree])
        if "relay 20" in only:
            await set_pace(url, tokens=tokens_for(WINDOW_SECONDS, RATE), rate=RATE, phases=STREAMS)
            windows: dict[Tree, list[float]] = {tree: [] for tree in trees}
            for tree in alternating(trees, WINDOWS):
                windows[tree].append(await cost(tree, streams=STREAMS, window=WINDOW_SECONDS))
            for tree in trees:
                costs[tree]["relay 20"] = statistics.mean(windows[tree])
        if "relay saturated" in only:
            await set_pace(url, tokens=ENDLESS_TOKENS, rate=RATE)
            saturating = {"streams": SATURATING_STREAMS, "window": SATURATED_SECONDS, "settle": None, "patience": 0}
            for tree in trees:
                costs[tree]["relay saturated"] = await cost(tree, **saturating)
    return costs


def alternating(trees: Sequence[Tree], rounds: int) -> list[Tree]:
    """The order of a pair's measurements: forwards and backwards in turns."""
    return [tree for number in range(rounds) for tree in (trees[::-1] if number % 2 else trees)]


async def measure_startup(tree: Tree) -> dict[str, float]:
    """Starts a tree's whole stack on a new data folder, and stops it when it is ready."""
    async with starting_stack(tree.python, tree.root) as stack:
        began = time.perf_counter()
        with paused(stack.pid, tree.slow_down):
            await stack.ready()
            return {"startup": time.perf_counter() - began}


async def machine_idle(patience: float) -> None:
    """Waits until the machine's cores are idle for half a second, but at most this many seconds.

    Work left over from one measure (closing sockets, writing pages) would count against the next tree.
    """
    deadline = time.monotonic() + patience
    while time.monotonic() < deadline:
        before = _cpu_ticks()
        await asyncio.sleep(0.5)
        busy, whole = (late - early for early, late in zip(before, _cpu_ticks(), strict=True))
        if busy <= IDLE_SHARE * whole:
            return


def _cpu_ticks() -> tuple[int, int]:
    """Busy ticks of the machine's cores, and all ticks, since its start."""
    user, nice, system, idle, wait, *others = map(int, Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:9])
    busy = user + nice + system + sum(others)
    return busy, busy + idle + wait


Costs = dict[str, float]
Measure = Callable[[Sequence[Tree]], Awaitable[Mapping[Tree, Costs]]]
"""Measures the trees in the order given."""


def in_turns(measures: Mapping[Tree, Callable[[], Awaitable[Costs]]], patience: float) -> Measure:
    """Measures one tree after another, each while the machine is idle."""

    async def measure(trees: Sequence[Tree]) -> Mapping[Tree, Costs]:
        by_tree: dict[Tree, Costs] = {}
        for tree in trees:
            await machine_idle(patience)
            by_tree[tree] = await measures[tree]()
        return by_tree

    return measure


async def compare(
    bases: Sequence[Tree], head: Tree, *, pairs: int, only: Collection[str], patience: float
) -> dict[Tree, dict[str, list[tuple[float, float]]]]:
    """Measures the trees in turns.

    Returns:
        For each base, the pairs of costs of base and head by measure.
    """
    trees = (*bases, head)
    costs: dict[Tree, dict[str, list[tuple[float, float]]]] = {base: {} for base in bases}
    async with contextlib.AsyncExitStack() as stack:
        measures = await open_measures(stack, trees, only, patience)
        for number in range(pairs):
            for measure in measures:
                by_tree = await measure(trees if number % 2 == 0 else trees[::-1])
                for name, cost in by_tree[head].items():
                    values = ", ".join(f"{by_tree[tree][name]:.4g}" for tree in trees)
                    print(f"  pair {number + 1}: {MEASURES[name]}: {values}", flush=True)
                    for base in bases:
                        costs[base].setdefault(name, []).append((by_tree[base][name], cost))
    return costs


async def open_measures(
    stack: contextlib.AsyncExitStack, trees: Sequence[Tree], only: Collection[str], patience: float
) -> list[Measure]:
    """Starts the processes that the measures of the trees need; `stack` stops them."""
    core, *others = sorted(os.sched_getaffinity(0))
    logs = stack.enter_context(log_folder())
    measures: list[Measure] = []
    if {"relay 20", "relay saturated", "first_token"} & set(only):
        with _cores(others):
            url = await stack.enter_async_context(upstream(core=others[0], rate=RATE, logs=logs))
            backends = {
                tree: await stack.enter_async_context(
                    relay_backend(tree.root, tree.python, core=others[-1], upstream_url=url, logs=logs)
                )
                for tree in trees
            }

        async def relay(order: Sequence[Tree]) -> Mapping[Tree, Costs]:
            with _cores(others):
                return await measure_relays(order, backends, core=core, only=only, patience=patience)

        measures.append(relay)
    if "search" in only or "search cpu" in only:
        searches = {tree: await stack.enter_async_context(search_backend(tree, logs)) for tree in trees}
        measures.append(in_turns({tree: searches[tree].measure for tree in trees}, patience))
    if "ingest" in only or "ingest cpu" in only:
        stacks = {
            tree: await stack.enter_async_context(ingest_backend(tree.python, tree.root, slow_down=tree.slow_down))
            for tree in trees
        }
        measures.append(in_turns({tree: stacks[tree].measure for tree in trees}, patience))
    if "startup" in only:
        for tree in trees:  # compiles the modules of a new tree and fills the machine's caches
            await measure_startup(tree)
        measures.append(in_turns({tree: partial(measure_startup, tree) for tree in trees}, patience))
    return measures


def report(costs: Mapping[str, Sequence[tuple[float, float]]], limit: float) -> tuple[str, bool]:
    """The table, and whether no measure is missed."""
    rows: list[list[object]] = []
    missed = False
    for name, pairs in costs.items():
        ratio = median_ratio([head / base for base, head in pairs])
        verdict = ratio.verdict(limit)
        missed |= verdict is Verdict.MISSED
        medians = [float(statistics.median(values)) for values in zip(*pairs, strict=True)]
        interval = f"{ratio.low:.3f}–{ratio.high:.3f}"
        rows.append([MEASURES[name], *medians, f"{ratio.median:.3f}", interval, verdict])
    return format_table(["measure", "base", "head", "head / base", "95 % interval", f"≤ {limit:g}"], rows), not missed


@contextlib.contextmanager
def _cores(cores: Sequence[int]) -> Generator[None]:
    """Pins this process and its new children to these cores."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, cores)
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def check_out(commit: str) -> Path:
    """Creates a worktree of a commit with its own environment unless it exists; returns its folder."""

    def run(*command: str | Path, folder: Path = ROOT) -> str:
        environment = {**plain_environment(), "UV_PYTHON": os.path.realpath(sys.executable)}
        return subprocess.run(
            command, cwd=folder, env=environment, check=True, stdout=subprocess.PIPE, text=True
        ).stdout

    revision = run("git", "rev-parse", "--verify", f"{commit}^{{commit}}").strip()
    folder = ROOT / ".citewire-bench" / f"compare-{revision[:12]}"
    if not folder.exists():
        run("git", "worktree", "add", "--quiet", "--detach", folder, revision)
    run(ROOT / ".uv" / "bin" / "uv", "sync", "--frozen", "--quiet", folder=folder)
    return folder


def main(arguments: Sequence[str]) -> int:
    """Runs the comparison; returns 1 if a measure is missed."""
    groups = ("relay", "first_token", "search", "ingest", "startup")
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--base", required=True, nargs="+", help="the commits to compare with")
    parser.add_argument("--pairs", type=int, default=10, help="alternating pairs; fewer than 6 decide nothing")
    parser.add_argument("--only", default=",".join(groups), help="measures, with commas between (default: all)")
    parser.add_argument("--limit", type=float, default=LIMIT, help="the largest ratio that is held")
    parser.add_argument("--slow-down", type=float, default=1.0, help="make head's processes slower, such as 1.10")
    parser.add_argument("--patience", type=float, default=20.0, help="seconds to wait for an idle machine")
    options = parser.parse_args(arguments)
    asked = options.only.split(",")
    if unknown := set(asked) - {*groups, *MEASURES}:
        parser.error(f"unknown measures: {', '.join(sorted(unknown))}; there are {', '.join((*groups, *MEASURES))}")
    only = [name for name in MEASURES if name in asked or name.split()[0] in asked]
    if not hasattr(os, "sched_setaffinity") or len(os.sched_getaffinity(0)) < 2:
        sys.exit("The comparison needs Linux and two cores: one for the system, one for upstream and reader.")
    bases, head = [Tree(check_out(base)) for base in options.base], Tree(ROOT, options.slow_down)
    names = ", ".join(options.base)
    print(f"{describe_machine()}\nbases: {names}; head: {ROOT.name}; bases and head, in this order:\n", flush=True)
    costs = asyncio.run(compare(bases, head, pairs=options.pairs, only=only, patience=options.patience))
    reports = [report(costs[base], options.limit) for base in bases]
    for name, (table, _) in zip(options.base, reports, strict=True):
        print(f"\nbase: {name}\n\n{table}")
    return 0 if all(held for _, held in reports) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
