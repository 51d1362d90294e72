"""From an earlier commit's images to today's, under load: migrations first, every pod, the migrations after."""

import time

from deploy.rehearsal import report
from deploy.rehearsal.cluster import Cluster
from deploy.rehearsal.faults import roll_service, settled, show, under_load
from deploy.rehearsal.report import Goal, at_most
from deploy.rehearsal.specs import SERVICES

HEADINGS = ("step", "took, s", "requests", "failed", "takes traffic after, s")
CURRENT_TAG = "localhost/citewire/{name}:dev"


async def upgrade(cluster: Cluster) -> tuple[list[list[object]], list[Goal]]:
    """Upgrades the cluster, which runs the earlier images."""
    rows: list[list[object]] = []
    slowest = 0.0
    async with under_load(cluster, "upgrade") as load:

        def note(step: str, began: float, traffic: object = "") -> None:
            during = [asked for asked in load.asked if asked.began > began]
            rows.append([step, time.monotonic() - began, len(during), len(report.failed(during)), traffic])

        cluster.tag = CURRENT_TAG
        began = time.monotonic()
        await cluster.migrate("pre")
        await settled(load)
        note("migrations before", began)
        for service in SERVICES:
            began = time.monotonic()
            times = [took for _, took in await roll_service(cluster, service)]
            slowest = max(slowest, *(time_or_never(took) for took in times))
            await settled(load)
            note(service, began, slowest)
        began = time.monotonic()
        await cluster.migrate("post")
        await settled(load)
        note("migrations after", began)
    bad = report.failed(load.asked)
    show(bad)
    return rows, [
        Goal("upgrade under load: failed requests", "0", f"{len(bad)} of {len(load.asked)}", not bad),
        at_most("a new replica takes traffic after it is ready", 10, slowest, " s"),
    ]


def time_or_never(took: float | None) -> float:
    """None is longer than any time."""
    return float("inf") if took is None else took
