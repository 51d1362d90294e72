"""A backup is taken under load, everything is lost, and the restored database has the same rows."""

import time
from collections.abc import Mapping

from deploy.rehearsal import faults, specs
from deploy.rehearsal.cluster import Cluster
from deploy.rehearsal.load import Kind
from deploy.rehearsal.report import Goal

HEADINGS = ("table", "rows", "hash before", "hash after", "equal")
FILLING: Mapping[Kind, float] = {"native": 2.0, "simple": 1.0, "search": 2.0, "upload": 8.0}
DOCUMENTS = 150
_TABLES = """
SELECT format('%I.%I', n.nspname, c.relname)
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE c.relkind IN ('r', 'p') AND NOT c.relispartition AND n.nspname NOT IN ('pg_catalog', 'information_schema')
ORDER BY 1
"""
_HASH = """
SELECT count(*), coalesce(md5(string_agg(h, '' ORDER BY h)), '-') FROM (SELECT md5(t::text) AS h FROM {table} t) AS rows
"""
_DUMP = "/data/backup"


async def drill(cluster: Cluster) -> tuple[list[list[object]], list[Goal]]:
    """Dumps the database while clients write, drops it, restores it, and asks again."""
    async with faults.under_load(cluster, "drill", FILLING) as load:
        await load.until(lambda: load.completed("upload", 0.0) >= DOCUMENTS, "the library isn't filled")
        began = time.monotonic()
        await cluster.in_postgres(
            "pg_dump", *_as_admin(), "--format=directory", "--jobs=2", f"--file={_DUMP}-load", specs.DATABASE
        )
        took_under_load = time.monotonic() - began
    bad_under_load = [asked for asked in load.asked if asked.end != "complete"]
    for service in specs.SERVICES:
        await cluster.scale(service, 0)
    before = await hashes(cluster)
    began = time.monotonic()
    await cluster.in_postgres(
        "pg_dump", *_as_admin(), "--format=directory", "--jobs=2", f"--file={_DUMP}", specs.DATABASE
    )
    dumped = time.monotonic() - began
    await cluster.psql(f"DROP DATABASE {specs.DATABASE}", database="postgres")
    began = time.monotonic()
    await cluster.in_postgres(
        "pg_restore", *_as_admin(), "--dbname=postgres", "--create", "--jobs=2", "--exit-on-error", _DUMP
    )
    restored = time.monotonic() - began
    after = await hashes(cluster)
    for service in specs.SERVICES:
        await cluster.start_pod(service)
    async with faults.under_load(cluster, "restored") as again:
        await faults.settled(again)
    bad = [asked for asked in again.asked if asked.end != "complete"]
    faults.show(bad)
    rows: list[list[object]] = [
        [table, before[table][0], before[table][1][:12], after.get(table, (0, "–"))[1][:12],
         "yes" if after.get(table) == before[table] else "NO"]
        for table in before
    ]  # fmt: skip
    print(f"dumped in {dumped:.1f} s ({took_under_load:.1f} s under load), restored in {restored:.1f} s\n")
    return rows, [
        Goal("rows' hashes after the restore", f"{len(before)} tables equal",
             f"{sum(after.get(table) == before[table] for table in before)} equal", after == before),
        Goal("a backup under load: failed requests", "0", str(len(bad_under_load)), not bad_under_load),
        Goal("after the restore: failed requests", "0", f"{len(bad)} of {len(again.asked)}", not bad),
    ]  # fmt: skip


async def hashes(cluster: Cluster) -> dict[str, tuple[int, str]]:
    """Number of rows, and a hash over them, for each of our tables; partitions count for their table."""
    tables: dict[str, tuple[int, str]] = {}
    for table in (await cluster.psql(_TABLES)).splitlines():
        count, value = (await cluster.psql(_HASH.format(table=table))).split("|")
        tables[table] = (int(count), value)
    return tables


def _as_admin() -> tuple[str, ...]:
    return ("--host=/tmp", "--username=postgres")
