"""Compares this working tree with earlier commits: is anything slower by more than 3 %, or another limit?

Each tree has its own environment, and the same driver (this one's) measures the processes of each tree in
turns: bases and head, forwards and backwards. For each measure, it prints the median of the pairs' ratios
with its 95 % interval; a ratio above 1 means that head is worse. The measure is missed if the whole interval
lies beyond the limit, held if it lies entirely within, and undecided otherwise.

- *relay*: CPU time of generator and gateway: with 20 streams per relayed token; saturated per read of the client, which
  brings several tokens. All trees' processes and streams exist in a pair, and are measured in turns.
- *first_token*: milliseconds from a chat's request to its first token, through the same two processes, also in turns.
- *search*: `Search` calls per second over gRPC, eight at a time, on 12,000 chunks in an unrestricted Postgres,
  and their CPU time (retriever, Postgres), which is more informative on a shared machine.
- *ingest*: milliseconds and CPU time (worker, embedder, Postgres) per document, until all documents can be searched.
- *startup*: seconds from the start of `citewire up` (`make up`) on a new data folder until it reports that it is ready.

`--slow-down 1.10` slows head's processes down by 10 %, to show that each measure detects it: Python processes use more
CPU time if a measure of CPU time is asked for, and all processes are paused if one of time is.

Usage: python -m benchmarks.compare --base COMMIT [COMMIT …] [--pairs 10] [--only relay,search] [--limit 1.05]
[--slow-down 1.10]

`--only` takes these groups or single measures: `--only "relay 20"`.

On a shared machine, `--patience 0` skips the wait until it is idle.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import os
import statistics
import sys
import time
from collections.abc import Collection, Mapping, Sequence
from functools import partial

from benchmarks.compare_relay import open_relays
from benchmarks.compare_search import search_backend
from benchmarks.compare_trees import Costs, Measure, Tree, check_out, in_turns
from benchmarks.ingest_cost import ingest_backend, starting_stack
from benchmarks.ratios import Verdict, median_ratio
from benchmarks.relay_systems import ROOT, log_folder
from benchmarks.slow_down import paused
from benchmarks.tables import describe_machine, format_table

LIMIT = 1.03
MEASURES = {
    "relay 20": "relay, 20 streams: CPU µs per token",
    "relay saturated": "relay, saturated: CPU µs per read",
    "first_token": "time to first token: ms",
    "search time": "Search: ms per call (8 at a time)",
    "search cpu": "Search: CPU ms per call",
    "ingest time": "ingest: ms per document",
    "ingest cpu": "ingest: CPU ms per document",
    "startup": "start-up until ready: s",
}
"""Costs: less is better."""


async def measure_startup(tree: Tree) -> Costs:
    """Starts a tree's whole stack on a new data folder, and stops it when it is ready."""
    async with starting_stack(tree.python, tree.root) as stack:
        began = time.perf_counter()
        with paused(stack.pid, tree.slow_down):
            await stack.ready()
            return {"startup": time.perf_counter() - began}


async def compare(
    bases: Sequence[Tree], head: Tree, *, pairs: int, only: Sequence[str], patience: float
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
                for name in sorted(by_tree[head].keys() & set(only), key=only.index):
                    values = ", ".join(f"{by_tree[tree][name]:.4g}" for tree in trees)
                    print(f"  pair {number + 1}: {MEASURES[name]}: {values}", flush=True)
                    for base in bases:
                        costs[base].setdefault(name, []).append((by_tree[base][name], by_tree[head][name]))
    return costs


async def open_measures(
    stack: contextlib.AsyncExitStack, trees: Sequence[Tree], only: Collection[str], patience: float
) -> list[Measure]:
    """Starts the processes that the measures of the trees need; `stack` stops them."""
    logs = stack.enter_context(log_folder())
    measures: list[Measure] = []
    if {"relay 20", "relay saturated", "first_token"} & set(only):
        measures.append(await open_relays(stack, trees, logs, only, patience))
    if "search time" in only or "search cpu" in only:
        searches = {tree: await stack.enter_async_context(search_backend(tree, logs, only)) for tree in trees}
        measures.append(in_turns({tree: searches[tree].measure for tree in trees}, patience))
    if "ingest time" in only or "ingest cpu" in only:
        stacks = {
            tree: await stack.enter_async_context(
                ingest_backend(
                    tree.python,
                    tree.root,
                    burn=tree.slow_down_of("ingest cpu", only),
                    pause=tree.slow_down_of("ingest time", only),
                )
            )
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
