"""More replicas of gateway and generator at the same load: all get their share, and nothing fails."""

import asyncio
import time
from collections import Counter
from collections.abc import Mapping

from deploy.rehearsal import report
from deploy.rehearsal.cluster import Cluster
from deploy.rehearsal.faults import handled, show, slowest, takes_traffic
from deploy.rehearsal.load import Kind, Load
from deploy.rehearsal.report import Goal, at_most
from deploy.rehearsal.specs import Service

RATES: Mapping[Kind, float] = {"native": 8.0, "simple": 2.0, "search": 2.0}
PACE = {"rate": 40.0, "tokens": 24, "first_delay": 0.1}
"""A stream takes 0.7 s: enough chats for significant shares, without saturating the machine."""
STEPS = (1, 2, 4)
SCALED: tuple[Service, ...] = ("generator", "gateway")
WINDOW_SECONDS = 40.0
MOST_SPREAD = 0.2
HEADINGS = (
    "gateways",
    "generators",
    "requests",
    "failed",
    "of each gateway",
    "of each generator",
    "farthest from even",
    "new generator used after, s",
    "new gateway used after, s",
    "first token p50, ms",
)


async def scale(cluster: Cluster) -> tuple[list[list[object]], list[Goal]]:
    """Tests one, two and four replicas."""
    await cluster.pace(**PACE)
    rows: list[list[object]] = []
    goals: list[Goal] = []
    load = Load(cluster.balancer.url, f"scale-{time.monotonic_ns()}", cluster.headers)
    async with load.steady(RATES):
        for replicas in STEPS:
            traffic: dict[Service, float | None] = {}
            for service in SCALED:
                missing = replicas - len(cluster.pods[service])
                pods = await asyncio.gather(*(cluster.start_pod(service) for _ in range(missing)))
                times = await asyncio.gather(*(takes_traffic(cluster, pod) for pod in pods))
                traffic[service] = slowest(times)
            began = time.monotonic()
            before = {pod.container.name: await handled(cluster, pod) for pod in cluster.pods["generator"]}
            await asyncio.sleep(WINDOW_SECONDS)
            after = {pod.container.name: await handled(cluster, pod) for pod in cluster.pods["generator"]}
            ended = time.monotonic()
            asked = [each for each in load.asked if began < each.began <= ended]
            gateways = Counter({pod.url: 0 for pod in cluster.pods["gateway"]})
            gateways.update(each.base for each in asked)
            generators = {name: after[name] - before[name] for name in after}
            farthest = max(report.spread(gateways), report.spread(generators))
            tokens = [each.first_token - each.began for each in asked if each.first_token is not None]
            bad = [each for each in report.failed(load.asked) if each.ended is not None and each.ended > began]
            show(bad)
            rows.append([len(gateways), len(generators), len(asked), len(bad), _parts(gateways), _parts(generators),
                         f"{farthest:.0%}", *(traffic[name] for name in SCALED),
                         round(report.percentile(tokens, 50) * 1000)])  # fmt: skip
            goals.append(at_most(f"{replicas} replicas: farthest from even", MOST_SPREAD * 100, farthest * 100, " %"))
            goals += [at_most(f"{replicas} replicas: a new {name} takes traffic after", 10, traffic[name], " s")
                      for name in SCALED if replicas > 1]  # fmt: skip
    bad = report.failed(load.asked)
    show(bad)
    goals.append(Goal("scaled out: failed requests", "0", f"{len(bad)} of {len(load.asked)}", not bad))
    return rows, goals


def _parts(counts: Mapping[str, float]) -> str:
    return " ".join(f"{value:.0f}" for value in counts.values())
