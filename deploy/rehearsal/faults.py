"""Faults of pods under load: rolled, killed, cut off, paused."""

import asyncio
import time
from collections.abc import AsyncGenerator, Iterable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass

import httpx

from deploy.rehearsal import report
from deploy.rehearsal.cluster import MIN_READY_SECONDS, Cluster, Ended, Pod
from deploy.rehearsal.load import KINDS, Asked, Kind, Load
from deploy.rehearsal.report import Goal, at_most
from deploy.rehearsal.specs import SERVICES, Service

RATES: Mapping[Kind, float] = {"native": 1.0, "simple": 0.5, "search": 3.0, "upload": 0.5}
"""Requests per second, on a schedule."""
MORE: Mapping[Kind, float] = {"native": 2.0, "simple": 1.0, "search": 4.0, "upload": 0.5}
"""The same, with enough streams that every replica always has some."""
PACE = {"rate": 40.0, "tokens": 80, "first_delay": 0.1}
"""A stream takes about two seconds."""
LONG = {"rate": 10.0, "tokens": 120, "first_delay": 0.1}
"""A stream takes twelve."""

BEHIND: tuple[Service, ...] = ("embedder", "retriever", "generator", "gateway")
"""The services that clients or the gateway call."""

PARTITION_SECONDS = 14.0
PAUSE_SECONDS = 22.0
TRAFFIC_SECONDS = 60.0
_SETTLED = {"native": 2, "simple": 1, "search": 6, "upload": 1}
_HANDLED: Mapping[Service, tuple[str, Mapping[str, str]]] = {
    "embedder": ("grpc_server_started_total", {"grpc_service": "citewire."}),
    "retriever": ("grpc_server_started_total", {"grpc_service": "citewire."}),
    "generator": ("grpc_server_started_total", {"grpc_service": "citewire."}),
    "worker": ("grpc_client_started_total", {"grpc_service": "citewire."}),
    "gateway": ("citewire_http_requests_total", {"route": "/v1/"}),
}
"""The series that grows when a pod gets work; probes don't count."""


@asynccontextmanager
async def under_load(
    cluster: Cluster, name: str, rates: Mapping[Kind, float] = RATES, pace: Mapping[str, float] = PACE
) -> AsyncGenerator[Load]:
    """Steady load, once it runs; after the block it waits for running requests."""
    await cluster.pace(**pace)
    load = Load(cluster.balancer.url, f"{name}-{time.monotonic_ns()}", cluster.headers)
    async with load.steady(rates):
        await settled(load)
        yield load


async def settled(load: Load) -> None:
    """Waits until some more requests of each kind are complete: everything works again, or still works."""
    since = time.monotonic()
    await load.until(
        lambda: all(load.completed(kind, since) >= _SETTLED[kind] for kind in KINDS), "the load doesn't go on"
    )


async def handled(cluster: Cluster, pod: Pod) -> float:
    """Number of work items that a pod has done; 0 while it doesn't respond."""
    series, labels = _HANDLED[pod.service]
    try:
        return (await cluster.samples(pod)).total(series, **labels)
    except httpx.HTTPError:
        return 0.0


async def takes_traffic(cluster: Cluster, pod: Pod) -> float | None:
    """Waits until a new pod has done work; returns the time since its readiness, None if it never did."""
    assert pod.ready is not None
    try:
        async with asyncio.timeout(TRAFFIC_SECONDS):
            while await handled(cluster, pod) <= 0:  # noqa: ASYNC110 # nothing announces it
                await asyncio.sleep(0.1)
    except TimeoutError:
        return None
    return max(0.0, time.monotonic() - pod.ready)


@dataclass(frozen=True, slots=True)
class Rolled:
    """The results of replacing a service's pods."""

    new: list[Pod]
    ended: list[Ended]
    traffic: float | None
    """Seconds from readiness until the slowest new pod took traffic; None if one never did."""


async def roll_service(cluster: Cluster, service: Service) -> Rolled:
    """Replaces all pods of a service like a Deployment: starts a new one, stops an old one, starts the next."""
    ending: list[asyncio.Task[Ended]] = []
    watching: list[asyncio.Task[float | None]] = []
    new: list[Pod] = []
    for pod in list(cluster.pods[service]):
        new.append(await cluster.start_pod(service))
        watching.append(asyncio.create_task(takes_traffic(cluster, new[-1])))
        await asyncio.sleep(MIN_READY_SECONDS)
        ending.append(asyncio.create_task(cluster.end_pod(pod)))
    return Rolled(new, await asyncio.gather(*ending), slowest(await asyncio.gather(*watching)))


async def roll_all(cluster: Cluster, load: Load) -> tuple[list[list[object]], list[Goal]]:
    """Replaces every pod, service after service; returns a row for each, and the goals that don't concern failures."""
    rows: list[list[object]] = []
    traffic: list[float | None] = []
    streams = 0
    for service in SERVICES:
        began = time.monotonic()
        rolled = await roll_service(cluster, service)
        await settled(load)
        during = [asked for asked in load.asked if asked.began > began]
        # A worker isn't called: it takes a document if there is one and no other worker was faster.
        traffic += [rolled.traffic] if service != "worker" else []
        drained = sum(ended.streams for ended in rolled.ended)
        streams += drained
        rows.append(
            [
                service,
                len(rolled.new),
                slowest(pod.start_seconds for pod in rolled.new),
                rolled.traffic,
                drained,
                slowest(ended.seconds for ended in rolled.ended),
                len(during),
                len(report.failed(during)),
            ]
        )
    return rows, [
        Goal("streams that pods were sending when they were told to end", "some", str(streams), streams > 0),
        at_most("a new replica takes traffic after it is ready", 10, slowest(traffic), " s"),
    ]


async def roll(cluster: Cluster) -> tuple[list[list[object]], list[Goal]]:
    """Rolls everything under load, with streams longer than the time before a pod's SIGTERM."""
    async with under_load(cluster, "roll", pace=LONG) as load:
        rows, goals = await roll_all(cluster, load)
    return rows, [nothing_failed("rolling restart of everything", load.asked), *goals]


def nothing_failed(what: str, asked: list[Asked]) -> Goal:
    """The goal that every request succeeded, and every stream ended with its last frame."""
    bad = report.failed(asked)
    show(bad)
    return Goal(f"{what}: failed requests", "0", f"{len(bad)} of {len(asked)}", not bad)


ROLL_HEADINGS = (
    "rolled",
    "pods",
    "slowest start, s",
    "takes traffic after, s",
    "streams at SIGTERM",
    "longest end, s",
    "requests",
    "failed",
)


async def kill(cluster: Cluster) -> tuple[list[list[object]], list[Goal]]:
    """Kills one of two replicas of each service under load, twice."""
    rows: list[list[object]] = []
    goals: list[Goal] = []
    async with under_load(cluster, "kill", MORE) as load:
        for service in BEHIND * 2:
            moment = time.monotonic()
            await cluster.kill_pod(cluster.pods[service][0])
            killed = time.monotonic()
            await settled(load)
            bad = [asked for asked in report.failed(load.asked) if (asked.ended or 0) > moment]
            recovered = report.last_failure(report.failed_unary(bad), killed)
            rows.append([service, len(bad), report.kinds(bad), recovered])
            goals.append(at_most(f"{service} killed: unary calls recover after", 1, recovered, " s"))
            await cluster.start_pod(service)
            await settled(load)
    return rows, goals


KILL_HEADINGS = ("killed", "failed", "which", "last unary failure after, s")


async def partition(cluster: Cluster) -> tuple[list[list[object]], list[Goal]]:
    """Cuts one of two replicas off for a while, under load."""
    rows: list[list[object]] = []
    goals: list[Goal] = []
    async with under_load(cluster, "partition") as load:
        for service in BEHIND:
            pod = cluster.pods[service][0]
            moment = time.monotonic()
            await cluster.engine.cut_off(pod.container)
            try:
                await asyncio.sleep(PARTITION_SECONDS)
            finally:
                await cluster.engine.join_again(pod.container)
            await settled(load)
            await asyncio.sleep(6)  # requests hanging since the partition's end have failed by then
            affected = [asked for asked in load.asked if (asked.ended or time.monotonic()) > moment]
            bad = [asked for asked in report.failed(affected) if asked.ended is not None]
            rows.append([service, len(affected), len(bad), report.kinds(bad), report.last_begun(bad, moment)])
            goals.append(at_most(f"{service} cut off for {PARTITION_SECONDS:g} s: failed requests", 10, len(bad)))
            show(bad)
    return rows, goals


PARTITION_HEADINGS = ("cut off", "requests", "failed", "which", "last failed one began after, s")


async def half_open(cluster: Cluster) -> tuple[list[list[object]], list[Goal]]:
    """Pauses one of two replicas: its machine still acknowledges packets, but nothing responds."""
    rows: list[list[object]] = []
    goals: list[Goal] = []
    async with under_load(cluster, "half-open") as load:
        for service in BEHIND:
            pod = cluster.pods[service][0]
            moment = time.monotonic()
            await cluster.engine.podman("pause", pod.container.name)
            try:
                await asyncio.sleep(PAUSE_SECONDS)
            finally:
                await cluster.engine.podman("unpause", pod.container.name)
            await settled(load)
            bad = [asked for asked in report.failed(load.asked) if (asked.ended or 0) > moment]
            detected = report.last_begun([asked for asked in bad if asked.began < moment + PAUSE_SECONDS], moment)
            rows.append([service, len(bad), report.kinds(bad), detected])
            goals.append(at_most(f"{service} half-open: detected after", 15, detected, " s"))
    return rows, goals


HALF_OPEN_HEADINGS = ("paused", "failed", "which", "last failed one began after, s")


def show(bad: list[Asked], most: int = 8) -> None:
    """Prints the failures, for debugging."""
    for asked in bad[:most]:
        print(f"  failed: {asked.request_id} {asked.kind} {asked.end} {asked.status} {asked.tokens} {asked.why[:300]}")


def slowest(times: Iterable[float | None]) -> float | None:
    """The longest of these times; None if one is missing."""
    values = list(times)
    known = [value for value in values if value is not None]
    return max(known, default=0.0) if len(known) == len(values) else None
