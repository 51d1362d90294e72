"""From an earlier commit's images to today's, under load: migrations first, every pod, the migrations after."""

import time

from deploy.rehearsal import report
from deploy.rehearsal.build import CURRENT_TAG
from deploy.rehearsal.cluster import Cluster
from deploy.rehearsal.faults import roll_service, settled, show, slowest, under_load
from deploy.rehearsal.report import Goal, at_most
from deploy.rehearsal.specs import SERVICES

HEADINGS = ("step", "took, s", "requests", "failed", "takes traffic after, s")


async def upgrade(cluster: Cluster) -> tuple[list[list[object]], list[Goal]]:
    """Upgrades the cluster, which runs the earlier images."""
    rows: list[list[object]] = []
    traffic: list[float | None] = []
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
            took = slowest(took for _, took in await roll_service(cluster, service))
            traffic += [took] if service != "worker" else []
            await settled(load)
            note(service, began, took)
        began = time.monotonic()
        await cluster.migrate("post")
        await settled(load)
        note("migrations after", began)
    bad = report.failed(load.asked)
    show(bad)
    return rows, [
        Goal("upgrade under load: failed requests", "0", f"{len(bad)} of {len(load.asked)}", not bad),
        at_most("a new replica takes traffic after it is ready", 10, slowest(traffic), " s"),
    ]
