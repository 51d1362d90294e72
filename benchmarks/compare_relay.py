"""The relays of several trees, for `benchmarks.compare`: time to first token, and CPU time per token or read."""

from __future__ import annotations

import asyncio
import contextlib
import os
import statistics
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.compare_trees import Costs, Measure, Tree, alternating, machine_idle, on_cores
from benchmarks.relay import RATE, set_pace
from benchmarks.relay_citewire import Relay, RelayBackend, relay_backend, running_relay
from benchmarks.relay_load import Load, OpenStreams, measure_first_token, open_streams
from benchmarks.relay_systems import upstream
from benchmarks.slow_down import paused_often, stopped
from benchmarks.upstream import UpstreamSettings

ENDLESS_TOKENS = 2_000
"""Tokens of streams that are cut when they have been measured."""


@dataclass(frozen=True, slots=True)
class Streams:
    """Streams whose tokens are counted: each tree's own, all open at once, in short windows in turns.

    Processes are slower for seconds at a time on a shared machine; in turns, that affects all trees alike.
    """

    count: int
    pace: UpstreamSettings
    cost: Callable[[Load], float]
    windows: int
    """Number of measurements of each tree; there are two such rounds in a pair."""
    seconds: float
    """Duration of each."""
    catch_up_seconds: float
    """For the tokens that arrived while a tree's processes were stopped."""


MEASURED_STREAMS = {
    # Moments are fixed: otherwise chance determines how many tokens wake the processes at the same time.
    "relay 20": Streams(
        count=20,
        pace=UpstreamSettings(rate=RATE, tokens=ENDLESS_TOKENS, phases=20),
        cost=lambda load: load.cpu_us_per_token,
        windows=6,
        seconds=1.0,
        catch_up_seconds=0.3,
    ),
    # A relay that is behind sends several tokens of a stream at once, which costs less. So it uses the whole core and
    # keeps up, and its CPU time per token is the same whatever a token costs; a slower one sends more tokens at once.
    "relay saturated": Streams(
        count=300,
        # The delay is for opening all streams, which takes much longer beside running ones.
        pace=UpstreamSettings(rate=RATE, tokens=ENDLESS_TOKENS, phases=300, first_delay=5.0),
        cost=lambda load: load.cpu_us_per_read,
        windows=5,
        seconds=1.0,
        catch_up_seconds=0.5,
    ),
}
FIRST_TOKEN_REQUESTS = 20
FIRST_TOKEN_WINDOWS = 10
"""Number of such measurements of each tree in a pair; with one of 40 requests, ratios scattered twice as widely."""


async def open_relays(
    stack: contextlib.AsyncExitStack, trees: Sequence[Tree], logs: Path, only: Collection[str], patience: float
) -> Measure:
    """Starts the upstream, and what the trees' relays depend on; `stack` stops them."""
    core, *others = sorted(os.sched_getaffinity(0))
    with on_cores(others):
        url = await stack.enter_async_context(upstream(core=others[0], rate=RATE, logs=logs))
        backends = {
            tree: await stack.enter_async_context(
                relay_backend(tree.root, tree.python, core=others[-1], upstream_url=url, logs=logs)
            )
            for tree in trees
        }

    async def measure(order: Sequence[Tree]) -> Mapping[Tree, Costs]:
        with on_cores(others):
            return await measure_relays(order, backends, core=core, only=only, patience=patience)

    return measure


async def measure_relays(
    trees: Sequence[Tree], backends: Mapping[Tree, RelayBackend], *, core: int, only: Collection[str], patience: float
) -> dict[Tree, Costs]:
    """Starts all trees' generators and gateways on one core, and measures them in turns."""
    costs: dict[Tree, Costs] = {tree: {} for tree in trees}
    url = backends[trees[0]].upstream_url
    async with contextlib.AsyncExitStack() as stack:
        relays: dict[Tree, Relay] = {}
        for tree in trees:
            burn = max(tree.slow_down_of(name, only) for name in MEASURED_STREAMS)
            relay = running_relay(backends[tree], core=core, slow_down=burn)
            relays[tree] = await stack.enter_async_context(relay)
        await set_pace(url, UpstreamSettings(rate=1000, tokens=3))
        for tree in trees:
            await measure_first_token(relays[tree].target, requests=10)  # warm-up
        if "first_token" in only:
            for tree, milliseconds in (await _first_tokens(relays)).items():
                costs[tree]["first_token"] = milliseconds
        for name, streams in MEASURED_STREAMS.items():
            if name in only:
                await set_pace(url, streams.pace)
                await machine_idle(patience)
                for tree, microseconds in (await _mean_costs(relays, streams, core)).items():
                    costs[tree][name] = microseconds
    return costs


async def _first_tokens(relays: Mapping[Tree, Relay]) -> dict[Tree, float]:
    """Median of the milliseconds to the first token."""
    waits: dict[Tree, list[float]] = {tree: [] for tree in relays}
    for tree in alternating(list(relays), FIRST_TOKEN_WINDOWS):
        with paused_often(relays[tree].pids, tree.slow_down):
            measured = await measure_first_token(relays[tree].target, requests=FIRST_TOKEN_REQUESTS)
        waits[tree] += [wait.whole for wait in measured]
    return {tree: statistics.median(values) for tree, values in waits.items()}


async def _mean_costs(relays: Mapping[Tree, Relay], streams: Streams, core: int) -> dict[Tree, float]:
    """Mean of the costs.

    The tree whose streams are opened first may have an advantage, or a disadvantage: each is the first as often.
    """
    costs: dict[Tree, list[float]] = {tree: [] for tree in relays}
    for order in (list(relays), list(relays)[::-1]):
        for tree, values in (await _costs_in_turns(order, relays, streams, core)).items():
            costs[tree] += values
    return {tree: statistics.mean(values) for tree, values in costs.items()}


async def _costs_in_turns(
    order: Sequence[Tree], relays: Mapping[Tree, Relay], streams: Streams, core: int
) -> dict[Tree, list[float]]:
    """Opens all trees' streams and measures; one relay runs at a time, so that each has the core to itself."""

    def others(running: Tree) -> list[int]:
        return [pid for tree, relay in relays.items() if tree != running for pid in relay.pids]

    costs: dict[Tree, list[float]] = {tree: [] for tree in order}
    async with contextlib.AsyncExitStack() as stack:
        opened: dict[Tree, OpenStreams] = {}
        for tree in order:
            with stopped(others(tree)):
                opened[tree] = await stack.enter_async_context(open_streams(relays[tree].target, streams.count))
                await opened[tree].first_tokens()
        for tree in alternating(order, streams.windows):
            with stopped(others(tree)):
                await asyncio.sleep(streams.catch_up_seconds)
                load = await opened[tree].measure(
                    rate=streams.pace.rate, window=streams.seconds, core=core, cpu_seconds=relays[tree].cpu_seconds
                )
            opened[tree].check_open()
            costs[tree].append(streams.cost(load))
    return costs
