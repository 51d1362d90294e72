"""The trees that `benchmarks.compare` compares: each commit is checked out with its own environment."""

from __future__ import annotations

import asyncio
import contextlib
import os
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Collection, Generator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.relay_systems import ROOT, plain_environment

IDLE_SHARE = 0.05
"""Maximum share of the machine's CPU time that others may use when a measurement begins."""


@dataclass(frozen=True, slots=True)
class Tree:
    """A checked-out tree with an environment in `.venv`; `slow_down` slows its processes down."""

    root: Path
    slow_down: float = 1.0

    @property
    def python(self) -> Path:
        """The interpreter of its environment."""
        return self.root / ".venv" / "bin" / "python"

    def slow_down_of(self, measure: str, only: Collection[str]) -> float:
        """How much to slow it down for a measure: not at all unless it is among those asked for."""
        return self.slow_down if measure in only else 1.0


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


def alternating(trees: Sequence[Tree], rounds: int) -> list[Tree]:
    """The order of a pair's measurements: forwards and backwards in turns."""
    return [tree for number in range(rounds) for tree in (trees[::-1] if number % 2 else trees)]


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


@contextlib.contextmanager
def on_cores(cores: Sequence[int]) -> Generator[None]:
    """Pins this process and its new children to these cores."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, cores)
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)
