"""`python -m deploy.rehearsal [SHOW…]`: starts the images as pods and tests their resilience.

With `--build`, as in `make rehearsal`, it builds them first. It needs root and podman, and reports if one is missing.
"""

import argparse
import asyncio
import sys
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass

from benchmarks.tables import describe_machine, format_table
from deploy.rehearsal import answer, drill, faults, scale, upgrade
from deploy.rehearsal.build import CURRENT_TAG, PREVIOUS_TAG, build
from deploy.rehearsal.cluster import Cluster, running
from deploy.rehearsal.engine import Engine, EngineError
from deploy.rehearsal.library import fill
from deploy.rehearsal.report import GOAL_HEADINGS, Goal
from deploy.rehearsal.specs import SERVICES, Service

_TWO: Mapping[Service, int] = dict.fromkeys(SERVICES, 2)

Rows = list[list[object]]
Run = Callable[[Cluster], Awaitable[tuple[Rows, list[Goal]]]]


@dataclass(frozen=True, slots=True)
class Show:
    """One show: its function, its pods, and the headings of its table."""

    title: str
    run: Run
    headings: Sequence[str]
    replicas: Mapping[Service, int]
    tag: str | None = None


SHOWS: Mapping[str, Show] = {
    "answer": Show("A question, answered by the images", answer.answer, answer.HEADINGS, _TWO),
    "roll": Show("Everything rolled under load", faults.roll, faults.ROLL_HEADINGS, _TWO),
    "kill": Show("Replicas killed", faults.kill, faults.KILL_HEADINGS, _TWO),
    "partition": Show("Replicas cut off", faults.partition, faults.PARTITION_HEADINGS, _TWO),
    "half-open": Show("Replicas paused", faults.half_open, faults.HALF_OPEN_HEADINGS, _TWO),
    "scale": Show("Gateway and generator scaled out", scale.scale, scale.HEADINGS, {"gateway": 1, "generator": 1}),
    "drill": Show("Backup and restore", drill.drill, drill.HEADINGS, {}),
    "upgrade": Show("Upgrade under load", upgrade.upgrade, upgrade.HEADINGS, _TWO, tag=PREVIOUS_TAG),
}


async def rehearse(name: str, engine: Engine, options: argparse.Namespace) -> list[Goal]:
    """Starts the pods of one show, runs it, and prints its table."""
    show = SHOWS[name]
    began = time.monotonic()
    # The version to upgrade from may not sign callers.
    upgraded = {"CITEWIRE_UNSIGNED_CALLERS": "accepted"} if show.tag else {}
    extra = upgraded | dict(part.split("=", 1) for part in options.env)
    async with running(engine, show.tag or options.tag, replicas=show.replicas, extra=extra) as cluster:
        await fill(cluster)
        print(f"\n## {show.title} ({name}; pods were up after {time.monotonic() - began:.0f} s)\n", flush=True)
        try:
            rows, goals = await show.run(cluster)
        except BaseException:
            if options.logs:
                await _print_logs(cluster)
            raise
    print(format_table(show.headings, rows))
    print()
    print(format_table(GOAL_HEADINGS, [goal.row() for goal in goals]), flush=True)
    return goals


async def _main(options: argparse.Namespace) -> int:
    engine = Engine.open()
    shows = options.shows or list(SHOWS)
    if options.build:
        build(shows, commit=options.commit, previous=options.previous)
    print(f"{describe_machine()}; {await engine.podman('--version')}")
    goals: list[Goal] = []
    for name in shows:
        goals += await rehearse(name, engine, options)
    unmet = [goal for goal in goals if not goal.met]
    print(f"\n{len(goals) - len(unmet)} of {len(goals)} goals met")
    return 1 if unmet else 0


async def _print_logs(cluster: Cluster) -> None:
    for service in SERVICES:
        for pod in cluster.pods[service]:
            print(f"--- {pod.container.name}\n{await cluster.engine.logs(pod.container)}", file=sys.stderr)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m deploy.rehearsal", description="The images, run as pods, and what they withstand."
    )
    parser.add_argument("shows", nargs="*", metavar="SHOW", help=f"of: {', '.join(SHOWS)}; all by default")
    parser.add_argument("--tag", default=CURRENT_TAG, help="of the images, with {name} in it (default: %(default)s)")
    parser.add_argument("--env", action="append", default=[], metavar="NAME=VALUE", help="a variable of every service")
    parser.add_argument("--build", action="store_true", help="build the images first")
    parser.add_argument("--commit", help="build the files of this commit instead of the working tree")
    parser.add_argument("--previous", default="HEAD~1", help="commit that `upgrade` comes from (default: %(default)s)")
    parser.add_argument("--logs", action="store_true", help="print the pods' last lines where a show breaks off")
    return parser


def main(arguments: Sequence[str]) -> int:
    """Runs the shows in the arguments; the exit code is 0 if all goals were met."""
    parser = _parser()
    options = parser.parse_args(arguments)
    unknown = [name for name in options.shows if name not in SHOWS]
    if unknown:
        parser.error(f"there is no show {unknown[0]!r}; there are: {', '.join(SHOWS)}")
    try:
        return asyncio.run(_main(options))
    except EngineError as exc:
        print(exc, file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("Broken off; what was started has been removed.", file=sys.stderr)
        return 130


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
