"""Upgrades from an earlier commit's images to today's under load: first migrations, every pod, later migrations."""

import time

from deploy.rehearsal import report
from deploy.rehearsal.build import CURRENT_TAG
from deploy.rehearsal.cluster import Cluster
from deploy.rehearsal.faults import LONG, ROLL_HEADINGS, nothing_failed, roll_all, settled, under_load
from deploy.rehearsal.load import Load
from deploy.rehearsal.report import Goal

HEADINGS = ROLL_HEADINGS
_APPLIED = """
SELECT 'corpus ' || file FROM corpus.schema_migrations UNION ALL
SELECT 'chat ' || file FROM chat.schema_migrations UNION ALL
SELECT 'ledger ' || file FROM ledger.schema_migrations
"""


async def upgrade(cluster: Cluster) -> tuple[list[list[object]], list[Goal]]:
    """Upgrades the cluster, which runs the earlier images."""
    rows: list[list[object]] = []
    async with under_load(cluster, "upgrade", pace=LONG) as load:
        cluster.tag = CURRENT_TAG
        rows.append(await _migrate(cluster, load, "pre"))
        # The earlier image determines how soon callers find a new pod, so only the streams are a goal here.
        rolled, (streams, _) = await roll_all(cluster, load)
        rows += rolled
        rows.append(await _migrate(cluster, load, "post"))
    return rows, [nothing_failed("upgrade under load", load.asked), streams]


async def _migrate(cluster: Cluster, load: Load, phase: str) -> list[object]:
    """Runs a phase's jobs; returns a row with the applied migrations."""
    began = time.monotonic()
    before = await _applied(cluster)
    await cluster.migrate(phase)
    await settled(load)
    new = sorted(await _applied(cluster) - before)
    during = [asked for asked in load.asked if asked.began > began]
    what = f"migrations, {phase}: {', '.join(new) or 'none'}"
    return [what, "", "", "", "", time.monotonic() - began, len(during), len(report.failed(during))]


async def _applied(cluster: Cluster) -> set[str]:
    """The migration files that the database has applied."""
    return set((await cluster.psql(_APPLIED)).splitlines())
