"""Backs up a cluster during writes and restores it to one point, beside the original, which keeps running."""

from __future__ import annotations

import asyncio
import shutil
import time
from collections.abc import AsyncGenerator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import psycopg
import pytest
from psycopg import sql

from citewire_kit.migrate import migrate
from citewire_kit.tenant import Tenant
from citewire_retriever.citus.cluster import Cluster, ClusterError, NodeAddress
from citewire_retriever.citus.restoring import make_restore_point, readdress
from citewire_retriever.citus.status import read_status
from citus_backup import archiving_cluster, restored_servers
from databases import Database
from ingest_harness import ACME, IngestHarness
from tests.integration.test_citus_cluster import ORGS, fill, search
from waiting import BUSY_SECONDS, wait_until

if TYPE_CHECKING:
    from pathlib import Path

    from citus_backup import Backup
    from embedded_postgres import EmbeddedPostgres
    from proof_scale import PrintTable, ProofScale

LABEL, POINT = "20261124T020000Z", "20261124T020000Z"
WRITERS = (ACME, Tenant("other", "bob", "free"), Tenant("third", "eve", "free"), Tenant("fourth", "max", "free"))
WHO_WRITES = [tenant.org_id for tenant in WRITERS]
"""They have nothing in the database at first."""


@pytest.fixture(scope="module")
def backup(citus_archive: Path) -> Iterator[Backup]:
    with archiving_cluster(citus_archive) as archiving:
        yield archiving


@pytest.fixture(scope="module")
def library(backup: Backup) -> Database:
    """A database of a cluster that archives its log."""
    backup.cluster.create_database("library")
    database = Database("library", backup.cluster.coordinator)
    asyncio.run(
        migrate(database.owner_dsn, schema="corpus", package="citewire_retriever", on_nodes="citus/distribute.sql")
    )
    fill(database.owner_dsn)
    return database


@dataclass
class Uploads:
    """Documents that organisations upload one after another, as services do, with their start and end times."""

    began: dict[int, float] = field(default_factory=dict[int, float])
    acknowledged: dict[int, float] = field(default_factory=dict[int, float])
    longest: float = 0.0

    @asynccontextmanager
    async def running(self, harness: IngestHarness) -> AsyncGenerator[None]:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(self._upload(harness, tenant)) for tenant in WRITERS]
            try:
                yield
            finally:
                for task in tasks:
                    task.cancel()

    async def _upload(self, harness: IngestHarness, tenant: Tenant) -> None:
        while True:
            began = time.monotonic()
            # An upload that is cancelled at the end counts neither as acknowledged nor as never begun.
            document_id = await harness.upload("a.txt", f"text of {tenant.org_id} at {began}", tenant=tenant)
            now = time.monotonic()
            self.began[document_id], self.acknowledged[document_id] = began, now
            self.longest = max(self.longest, now - began)

    async def wait_for_more(self, count: int) -> None:
        """Waits until `count` more were acknowledged."""
        enough = len(self.acknowledged) + count
        await wait_until(lambda: len(self.acknowledged) >= enough, seconds=60)


def hash_organisations(dsn: str) -> Mapping[tuple[str, str], tuple[int, int]]:
    """Returns the number of rows and a hash over them, by organisation and distributed table."""
    hashes: dict[tuple[str, str], tuple[int, int]] = {}
    with psycopg.connect(dsn) as connection:
        tables = connection.execute(
            "SELECT table_name::text FROM citus_tables WHERE citus_table_type = 'distributed' ORDER BY 1"
        ).fetchall()
        assert len(tables) > 20
        for (table,) in tables:
            query = sql.SQL(
                "SELECT org_id, count(*), sum(hashtextextended(t::text, 0)) FROM {} t GROUP BY org_id"
            ).format(sql.Identifier(*table.split(".")))
            for org, rows, value in connection.execute(query).fetchall():
                hashes[org, table] = (rows, int(value))
    return hashes


def quiet_hashes(hashes: Mapping[tuple[str, str], tuple[int, int]]) -> dict[tuple[str, str], tuple[int, int]]:
    return {key: value for key, value in hashes.items() if key[0] not in WHO_WRITES}


def documents(dsn: str) -> set[int]:
    with psycopg.connect(dsn) as connection:
        query = "SELECT document_id FROM corpus.documents WHERE org_id = ANY (%s)"
        return {row[0] for row in connection.execute(query, (WHO_WRITES,)).fetchall()}


def queued_documents(dsn: str) -> set[int]:
    with psycopg.connect(dsn) as connection:
        return {row[0] for row in connection.execute("SELECT document_id FROM corpus.ingest_jobs").fetchall()}


async def test_everything_before_the_point_is_restored_and_nothing_after_it(
    backup: Backup, library: Database, proof: ProofScale, print_table: PrintTable
) -> None:
    count = proof.pick(scaled_down=20, full=500)
    uploads = Uploads()
    quiet = quiet_hashes(hash_organisations(library.owner_dsn))
    expected = await search(library.dsn("citewire_corpus"))
    assert {org for org, _ in quiet} == set(ORGS)
    async with IngestHarness.open(library) as harness, uploads.running(harness):
        await uploads.wait_for_more(count)
        await asyncio.to_thread(backup.take, LABEL)
        await uploads.wait_for_more(count)
        async with Cluster.open(library.owner_dsn, print) as cluster:
            called = time.monotonic()
            point = await make_restore_point(cluster, POINT, {})
            returned = time.monotonic()
        await uploads.wait_for_more(count)
        with psycopg.connect(library.owner_dsn) as connection:
            connection.execute("DELETE FROM corpus.documents WHERE org_id = %s", (ORGS[0],))
    before = {document for document, at in uploads.acknowledged.items() if at < called}
    after = {document for document, at in uploads.began.items() if at > returned}
    assert len(before) >= 2 * count
    assert len(after) >= count - len(WRITERS)  # each may have been in the middle of one at the point
    now = hash_organisations(library.owner_dsn)
    began = time.monotonic()
    with restored_servers(backup, LABEL, POINT) as servers:
        restored = await connect_restored(servers, backup)
        took = time.monotonic() - began
        there = documents(restored.owner_dsn)
        assert before <= there
        assert not there & after
        # Each document has its job: the nodes and the coordinator's queue are of the same point.
        assert queued_documents(restored.owner_dsn) == there
        assert quiet_hashes(hash_organisations(restored.owner_dsn)) == quiet
        assert await search(restored.dsn("citewire_corpus")) == expected
        async with IngestHarness.open(restored) as harness:
            assert await harness.worker.claim("ingest", worker="test", lease_seconds=60) is not None
            assert await harness.upload("b.txt", "text") not in there
    # The restored servers still had the original servers' names, but changed nothing there.
    assert hash_organisations(library.owner_dsn) == now
    print_table(
        "A cluster restored to one point, backed up while four organisations upload",
        (
            "before the point",
            "lost",
            "after it",
            "of them restored",
            "writers waited, s",
            "longest upload, s",
            "restored in, s",
        ),
        [
            (
                str(len(before)),
                "0",
                str(len(after)),
                "0",
                f"{point.pause:.2f}",
                f"{uploads.longest:.2f}",
                f"{took:.1f}",
            )
        ],
    )


async def connect_restored(servers: Sequence[EmbeddedPostgres], backup: Backup) -> Database:
    """Waits until each restored server accepts writes, and gives the coordinator their addresses."""
    for server in servers:

        def takes_writes(server: EmbeddedPostgres = server) -> bool:
            with psycopg.connect(server.dsn()) as connection:
                return connection.execute("SELECT pg_is_in_recovery()").fetchone() == (False,)

        await wait_until(takes_writes)
    database = Database("library", servers[0])
    addresses = {
        NodeAddress(str(old.socket_dir), 5432): NodeAddress(str(new.socket_dir), 5432)
        for old, new in zip(backup.cluster.servers, servers, strict=True)
    }
    async with Cluster.open(database.owner_dsn, print) as cluster:
        swapped = dict(zip(addresses, [*addresses.values()][::-1], strict=True))
        with pytest.raises(ClusterError, match="is group"):
            await readdress(cluster, swapped)
        await readdress(cluster, addresses)
        assert {node.address for node in await cluster.nodes()} == set(addresses.values())
    for server in servers:
        with psycopg.connect(server.dsn(database="library")) as connection:
            known = connection.execute("SELECT DISTINCT nodename FROM pg_dist_node").fetchall()
            assert {row[0] for row in known} == {str(current.socket_dir) for current in servers}
            interval = connection.execute("SELECT current_setting('citus.recover_2pc_interval')").fetchone()
            assert interval != ("-1",)
    return database


async def test_a_point_waits_for_transactions_between_a_node_and_the_queue(backup: Backup, library: Database) -> None:
    """Such a transaction commits on the node first: a point in between would have the document without its job."""
    async with IngestHarness.open(library) as harness, Cluster.open(library.owner_dsn, print) as cluster:
        async with (
            await psycopg.AsyncConnection.connect(library.owner_dsn) as connection,
            connection.transaction(),
        ):
            await connection.execute(
                "INSERT INTO corpus.ingest_jobs (org_id, document_id, version, kind, user_id, plan)"
                " VALUES ('acme', 1, 1, 'sweep', 'ann', 'pro')"
            )
            making = asyncio.create_task(make_restore_point(cluster, "between", {}))
            waits = "SELECT 1 FROM pg_locks WHERE NOT granted AND relation = 'corpus.ingest_jobs'::regclass"

            async def is_waiting() -> bool:
                return bool(await harness.rows(waits))

            await wait_until(is_waiting)
            # While waiting, it lets others continue.
            async with asyncio.timeout(BUSY_SECONDS):
                await harness.upload("c.txt", "text")
            assert not making.done()
        assert (await making).name == "between"


async def test_a_point_that_could_not_be_restored_is_refused(backup: Backup, library: Database) -> None:
    worker = backup.cluster.workers[1]
    with psycopg.connect(worker.dsn()) as connection:
        working = connection.execute("SELECT current_setting('archive_command')").fetchone()
    assert working is not None

    def archive(command: str) -> None:
        worker.execute(sql.SQL("ALTER SYSTEM SET archive_command = {}").format(command))
        worker.execute(sql.SQL("SELECT pg_reload_conf()"))

    async with Cluster.open(library.owner_dsn, print) as cluster:
        for name in ("", "a b", "x" * 64):
            with pytest.raises(ClusterError, match="isn't a valid name of a restore point"):
                await make_restore_point(cluster, name, {})
        with pytest.raises(ClusterError, match=r"citus\.recover_2pc_interval.* must be -1"):
            await readdress(cluster, {})
        with pytest.raises(ClusterError, match="/nowhere:5432 isn't a node of this cluster"):
            await readdress(cluster, {NodeAddress("/nowhere", 5432): NodeAddress("/elsewhere", 5432)})
        try:
            archive("")
            await wait_for_archives(cluster, ["on", "on", "off"])
            with pytest.raises(ClusterError, match=f"{worker.socket_dir}:5432 doesn't archive its log"):
                await make_restore_point(cluster, "p", {})
            # A full or unreachable archive is reported, as the point can't be restored yet.
            archive("false")
            late = f"{worker.socket_dir}:5432: the point exists, but the required"
            with pytest.raises(ClusterError, match=late):
                await make_restore_point(cluster, "late", {}, wait_seconds=2)
            await wait_for_archives(cluster, ["on", "on", "fails"])
        finally:
            archive(working[0])
        assert (await make_restore_point(cluster, "on-time", {})).pause < BUSY_SECONDS


async def wait_for_archives(cluster: Cluster, expected: list[str]) -> None:
    """Waits until the nodes' status shows these archives: a session sees a changed setting at its next query."""

    async def has_changed() -> bool:
        return [node.archive for node in (await read_status(cluster)).nodes] == expected

    await wait_until(has_changed)


def test_old_base_backups_are_deleted_with_their_log(backup: Backup, library: Database) -> None:
    assert library.name == "library"
    if not (backup.folder / "coordinator" / "base" / LABEL).exists():  # the test above may have made it
        backup.take(LABEL)
    assert [path.name for path in (backup.folder / "whole").iterdir()] == [LABEL]
    # One that failed on the last node is no backup, and its successor doesn't push a whole one out.
    for name in ("coordinator", "worker-0"):
        shutil.copytree(backup.folder / name / "base" / LABEL, backup.folder / name / "base" / "20261125T020000Z")
    (backup.folder / "worker-1" / "base" / ".part.20261125T020000Z").mkdir()
    backup.take("20261125T120000Z")
    for name, _ in backup.named():
        bases = sorted(path.name for path in (backup.folder / name / "base").iterdir())
        assert bases == [LABEL, "20261125T120000Z"]
    backup.take("20261126T020000Z", keep=1)
    assert [path.name for path in (backup.folder / "whole").iterdir()] == ["20261126T020000Z"]
    for name, _ in backup.named():
        folder = backup.folder / name
        assert [path.name for path in (folder / "base").iterdir()] == ["20261126T020000Z"]
        stated = (folder / "base" / "20261126T020000Z" / "backup_label").read_text()
        log = sorted(path.name for path in (folder / "wal").iterdir() if len(path.name) == 24)
        assert f"(file {log[0]})" in stated.splitlines()[0]
        assert log[0] > f"{1:08X}{0:08X}{1:08X}"  # each server's log began there
