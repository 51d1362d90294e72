"""The operator's commands on a real cluster: adding nodes, rebalancing and moving organisations during writes."""

from __future__ import annotations

import asyncio
import json
import os
import random
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING

import psycopg
import pytest
from psycopg import sql

from citewire_retriever.citus import changes, cluster
from citewire_retriever.citus.changes import add_node, move, rebalance
from citewire_retriever.citus.cluster import Cluster, ClusterError, NodeAddress, parse_address
from citewire_retriever.citus.restoring import make_restore_point
from citewire_retriever.citus.status import ClusterStatus, read_status
from citus_cluster import start_citus_node, temporary_database
from cluster_writer import Writer
from tests.integration.test_citus_cluster import ORGS, SHARDS, count_shards, fill, search
from waiting import wait_until

if TYPE_CHECKING:
    from citus_cluster import CitusCluster
    from databases import Database
    from embedded_postgres import EmbeddedPostgres
    from proof_scale import PrintTable, ProofScale

PORT = 5432
DEADLOCK = (
    "DO $$ BEGIN RAISE EXCEPTION 'canceling the transaction since it was involved in a distributed deadlock'"
    " USING ERRCODE = '40P01'; END $$"
)
"""What Citus reports, in place of a statement."""
MOVE_SECONDS = 100
"""A busy machine needs a tenth of it; a move that doesn't catch up goes on for hours."""


@pytest.fixture(scope="module")
def cluster_database(citus_cluster: CitusCluster, citus_template: str) -> Iterator[Database]:
    """A database shared by all tests of this file, in their order; each leaves the cluster intact."""
    for database in temporary_database(citus_cluster, citus_template):
        fill(database.owner_dsn)
        yield database


@pytest.fixture(scope="module")
def spare(citus_cluster: CitusCluster, citus_template: str, cluster_database: Database) -> Iterator[EmbeddedPostgres]:
    """A server that can become a node, with an empty database."""
    with start_citus_node(citus_cluster.archive) as server:
        server.create_database(cluster_database.name)
        server.create_database(citus_template)  # the catalogue of a copied database still names its template
        yield server


def address(server: EmbeddedPostgres) -> NodeAddress:
    return NodeAddress(str(server.socket_dir), PORT)


async def status(database: Database) -> ClusterStatus:
    async with Cluster.open(database.owner_dsn, print) as cluster:
        return await read_status(cluster)


async def node_of(database: Database, org: str) -> str:
    return next(current.node for current in (await status(database)).largest if current.organisation == org)


async def test_problems_with_the_cluster_are_named(
    plain_database: Database, cluster_database: Database, citus_cluster: CitusCluster, spare: EmbeddedPostgres
) -> None:
    worker = citus_cluster.workers[0].dsn(database=cluster_database.name)
    for dsn, why in (
        (plain_database.owner_dsn, "without the Citus extension"),
        (worker, "worker node"),
        (citus_cluster.coordinator.dsn(), "without the Citus extension"),
        ("postgresql://postgres@/x?host=/nowhere", "can't be reached"),
    ):
        with pytest.raises(ClusterError, match=why):
            async with Cluster.open(dsn, print):
                pass
    async with Cluster.open(cluster_database.owner_dsn, print) as cluster:
        with pytest.raises(ClusterError, match="node /nowhere:5432 can't be reached"):
            await add_node(cluster, NodeAddress("/nowhere", PORT))
        with pytest.raises(ClusterError, match="is not a node with shards"):
            await move(cluster, ORGS[0], address(spare), together=False)
        with pytest.raises(ClusterError, match="is not a node with shards"):
            await move(cluster, ORGS[0], address(citus_cluster.coordinator), together=False)
        with pytest.raises(ClusterError, match="no organisation 'nobody'"):
            await move(cluster, "nobody", address(citus_cluster.workers[0]), together=False)


async def test_a_connection_lost_at_once_is_reported(
    cluster_database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise the process that watches the cluster would end."""
    ended = {**cluster.SQL, "engine": "SELECT pg_terminate_backend(pg_backend_pid())::text, true"}
    monkeypatch.setattr(cluster, "SQL", ended)
    with pytest.raises(ClusterError, match="terminating connection"):
        async with Cluster.open(cluster_database.owner_dsn, print):
            pass


async def test_a_command_says_what_it_waits_for_and_those_that_nobody_watches_give_up(
    cluster_database: Database, spare: EmbeddedPostgres, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(changes, "_LEAST_WAIT_SECONDS", 0)
    messages: list[str] = []
    async with (
        Cluster.open(cluster_database.owner_dsn, print) as first,
        Cluster.open(cluster_database.owner_dsn, messages.append) as second,
    ):
        async with first.alone():
            await first.connection.execute("SELECT 'a long\nmove'")
            holder = f"session {first.connection.info.backend_pid} on the coordinator"
            who = rf"another command is changing the cluster \({holder}, since 20[-0-9: ]+ UTC: SELECT 'a long move'\)"
            with pytest.raises(ClusterError, match=f"^{who}: run this one again"):
                await make_restore_point(second, "late", {}, wait_seconds=0)
            with pytest.raises(ClusterError, match=who):
                await add_node(second, address(spare))
            assert messages == []
            waiting = asyncio.create_task(move(second, ORGS[0], address(spare), together=False))
            await wait_until(lambda: messages != [], 20)
            assert len(messages) == 1
            assert re.fullmatch(f"{who}; waiting for it", messages[0])
        with pytest.raises(ClusterError, match="is not a node with shards"):  # it has gone on
            await waiting


async def test_a_node_that_would_lose_commits_is_refused(
    citus_cluster: CitusCluster, cluster_database: Database
) -> None:
    """A move doesn't copy commits that aren't flushed."""
    worker = citus_cluster.workers[0]
    worker.execute(
        sql.SQL("ALTER DATABASE {} SET synchronous_commit = off").format(sql.Identifier(cluster_database.name))
    )
    try:
        async with Cluster.open(cluster_database.owner_dsn, print) as cluster:
            with pytest.raises(ClusterError, match="synchronous_commit = off"):
                await rebalance(cluster, "by_disk_size", wait=True)
    finally:
        worker.execute(sql.SQL("ALTER DATABASE {} RESET ALL").format(sql.Identifier(cluster_database.name)))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("db-1.example", NodeAddress("db-1.example", 5432)),
        ("10.0.0.7:6000", NodeAddress("10.0.0.7", 6000)),
        ("[fd00::7]:6000", NodeAddress("fd00::7", 6000)),
        ("fd00::7", NodeAddress("fd00::7", 5432)),
        ("a:b", None),
        ("a:0", None),
        ("a:70000", None),
        (":5432", None),
        ("", None),
    ],
)
def test_addresses_of_nodes(text: str, expected: NodeAddress | None) -> None:
    if expected is not None:
        assert parse_address(text) == expected
        return
    with pytest.raises(ClusterError, match="is not a node"):
        parse_address(text)


async def test_a_node_is_added_and_an_organisation_moves_there_while_it_writes(
    cluster_database: Database, spare: EmbeddedPostgres, print_table: PrintTable
) -> None:
    before = await search(cluster_database.dsn("citewire_corpus"))
    org = ORGS[0]
    writer = Writer(cluster_database.dsn("citewire_corpus"), org)
    messages: list[str] = []
    async with Cluster.open(cluster_database.owner_dsn, messages.append) as cluster:
        assert await add_node(cluster, address(spare))
        assert not await add_node(cluster, address(spare))
        # Rows that were changed or deleted before the copies had a key would keep them from ever catching up.
        with writer.running():
            async with asyncio.timeout(MOVE_SECONDS):
                assert await move(cluster, org, address(spare), together=False)
            assert not await move(cluster, org, address(spare), together=False)
    assert writer.refused == []
    writer.check()
    assert any("in its own shards" in text for text in messages)
    current = await status(cluster_database)
    of_node = {node.node: node for node in current.nodes}[str(address(spare))]
    assert (of_node.shard_groups, of_node.organisations, of_node.answers) == (1, 1, True)
    assert [entry.alone for entry in current.largest if entry.organisation == org] == [True]
    assert current.organisations == len(ORGS)
    assert json.loads(current.to_json())["moves"] == []
    assert await search(cluster_database.dsn("citewire_corpus")) == before
    # A move creates new shards: they isolate organisations as the old ones did.
    with psycopg.connect(
        f"{spare.dsn(database=cluster_database.name)}&options=-c%20citus.override_table_visibility%3Doff"
    ) as node:
        shards = [row[0] for row in node.execute(SHARDS.encode()).fetchall()]
    for role in ("citewire_corpus", "citewire_worker"):
        for tenant in (None, ORGS[1]):
            assert count_shards(spare.dsn(role, cluster_database.name), shards, tenant) > 5
    print_table(
        "An organisation that writes is isolated and moved",
        ("documents saved meanwhile", "longest pause, s"),
        [(str(len(writer.saved)), f"{writer.longest:.2f}")],
    )


def start_command(database: Database, *arguments: str) -> subprocess.Popen[bytes]:
    environment = {**os.environ, "CITEWIRE_RETRIEVER_MIGRATE_DSN": database.owner_dsn}
    command = (sys.executable, "-m", "citewire_retriever", "cluster", *arguments)
    return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE)


async def test_a_killed_command_can_be_repeated(
    citus_cluster: CitusCluster, cluster_database: Database, spare: EmbeddedPostgres
) -> None:
    process = start_command(cluster_database, "move", ORGS[1], "--to", str(address(spare)))
    assert process.stderr is not None
    first = process.stderr.readline()
    assert b"in its own shards" in first
    process.send_signal(signal.SIGKILL)
    process.communicate()
    async with Cluster.open(cluster_database.owner_dsn, print) as cluster:
        assert await move(cluster, ORGS[1], address(spare), together=False)
    assert await node_of(cluster_database, ORGS[1]) == str(address(spare))
    for server in (*citus_cluster.servers, spare):  # and no copy's replica identity is left
        with psycopg.connect(server.dsn(database=cluster_database.name)) as connection:
            left = "SELECT evtname FROM pg_event_trigger WHERE evtname ~ '^citewire'"
            assert connection.execute(left).fetchall() == []


async def test_what_an_interrupted_move_created_after_the_clean_up_is_dropped(
    citus_cluster: CitusCluster, cluster_database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    worker = citus_cluster.workers[0]
    objects = (
        "SELECT 'publication ' || pubname FROM pg_publication"
        " UNION ALL SELECT 'slot ' || slot_name FROM pg_replication_slots WHERE database = current_database()"
        " UNION ALL SELECT 'subscription ' || subname FROM pg_subscription s JOIN pg_database d ON d.oid = s.subdbid"
        " WHERE d.datname = current_database() ORDER BY 1"
    )
    create = (
        "SET citus.enable_ddl_propagation = off",
        "CREATE PUBLICATION ours",
        "CREATE PUBLICATION citus_shard_move_publication_2_10_99999",
        "CREATE PUBLICATION citus_shard_split_publication_2_10_99998",
        "SELECT pg_create_logical_replication_slot('citus_shard_split_slot_2_10_99999', 'pgoutput')",
        "CREATE SUBSCRIPTION citus_shard_move_subscription_2_10_99999 CONNECTION 'host=nowhere'"
        " PUBLICATION citus_shard_move_publication_2_10_99999"
        " WITH (connect = false, slot_name = citus_shard_move_slot_2_10_99999)",
    )
    messages: list[str] = []
    with (
        psycopg.connect(worker.dsn(database=cluster_database.name), autocommit=True) as node,
        psycopg.connect(cluster_database.owner_dsn, autocommit=True) as coordinator,
    ):
        for statement in create:
            node.execute(statement.encode())
        # A move that runs has a record of each object; this one has no session, so that Citus would remove it.
        monkeypatch.setitem(cluster.SQL, "clean_up", "SELECT 1")
        coordinator.execute(
            "INSERT INTO pg_dist_cleanup"
            " (record_id, operation_id, object_type, object_name, node_group_id, policy_type)"
            " SELECT 99998, 99998, 4, 'citus_shard_split_publication_2_10_99998', groupid, 0 FROM pg_dist_node LIMIT 1"
        )
        try:
            for _ in range(2):
                async with Cluster.open(cluster_database.owner_dsn, messages.append) as connected, connected.alone():
                    left = [row[0] for row in node.execute(objects.encode()).fetchall()]
                    assert left == ["publication citus_shard_split_publication_2_10_99998", "publication ours"]
        finally:
            coordinator.execute("DELETE FROM pg_dist_cleanup WHERE operation_id = 99998")
            node.execute("DROP PUBLICATION ours, citus_shard_split_publication_2_10_99998")
    assert re.findall(r"citus_\w+_9999\d", " ".join(messages)) == [
        "citus_shard_move_publication_2_10_99999",
        "citus_shard_move_subscription_2_10_99999",
        "citus_shard_split_slot_2_10_99999",
    ]


async def test_a_move_that_meets_a_deadlock_is_repeated(
    citus_cluster: CitusCluster, cluster_database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    org = ORGS[3]
    here = await node_of(cluster_database, org)
    target = next(address(worker) for worker in citus_cluster.workers if str(address(worker)) != here)
    steps = {name: cluster.SQL[name] for name in ("isolate", "move")}
    messages: list[str] = []

    def say(message: str) -> None:
        """Lets the step that failed succeed."""
        messages.append(message)
        if "deadlock" in message:
            name = next(iter(steps))
            monkeypatch.setitem(cluster.SQL, name, steps.pop(name))

    for name in steps:
        monkeypatch.setitem(cluster.SQL, name, DEADLOCK)
    async with Cluster.open(cluster_database.owner_dsn, say) as connected:
        assert await move(connected, org, target, together=False)
    assert steps == {}, messages
    assert await node_of(cluster_database, org) == str(target)


async def test_a_move_that_keeps_meeting_deadlocks_is_given_up(
    cluster_database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    org = ORGS[4]
    monkeypatch.setitem(cluster.SQL, "isolate", DEADLOCK)
    messages: list[str] = []
    async with Cluster.open(cluster_database.owner_dsn, messages.append) as connected:
        with pytest.raises(ClusterError, match=rf"isolating {org} broke off: .*distributed deadlock.*run the command"):
            await move(connected, org, None, together=False)
    assert len([message for message in messages if "deadlock" in message]) == 5


async def test_an_interrupted_move_can_be_repeated_and_loses_nothing(
    citus_cluster: CitusCluster, cluster_database: Database, proof: ProofScale, print_table: PrintTable
) -> None:
    """Its session is ended at a random moment, as by a restart of the coordinator."""
    choose = random.Random(proof.seed)
    org = ORGS[2]
    writer = Writer(cluster_database.dsn("citewire_corpus"), org)
    broken = 0
    with writer.running():
        for _ in range(proof.pick(scaled_down=1, full=20)):
            here = await node_of(cluster_database, org)
            target = next(address(worker) for worker in citus_cluster.workers if str(address(worker)) != here)
            async with Cluster.open(cluster_database.owner_dsn, print) as cluster:
                moving = asyncio.create_task(move(cluster, org, target, together=False))
                await asyncio.sleep(choose.uniform(0.05, 1.5))
                with psycopg.connect(cluster_database.owner_dsn, autocommit=True) as connection:
                    connection.execute(
                        "SELECT pg_terminate_backend(%s::integer)", (cluster.connection.info.backend_pid,)
                    )
                result = (await asyncio.gather(moving, return_exceptions=True))[0]
                broken += isinstance(result, BaseException)
            async with Cluster.open(cluster_database.owner_dsn, print) as cluster:
                await move(cluster, org, target, together=False)
            assert await node_of(cluster_database, org) == str(target)
    assert broken
    assert writer.refused == []
    writer.check()
    print_table(
        "Moves of an organisation that writes, each broken off and run again",
        ("broken off", "documents saved meanwhile", "lost", "longest pause, s"),
        [(str(broken), str(len(writer.saved)), "0", f"{writer.longest:.2f}")],
    )


async def test_an_unreachable_node_is_reported_and_the_status_still_works(
    citus_cluster: CitusCluster, cluster_database: Database
) -> None:
    worker = citus_cluster.workers[1]
    worker.kill()
    try:
        current = await status(cluster_database)
        away = [node.node for node in current.nodes if not node.answers]
        assert away == [str(address(worker))]
        assert current.skew is None
        assert sum(node.organisations or 0 for node in current.nodes) < len(ORGS)
        assert any("away" in line and away[0] in line for line in current.to_lines())
        async with Cluster.open(cluster_database.owner_dsn, print) as cluster:
            with pytest.raises(ClusterError, match=f"{worker.socket_dir}:5432 doesn't answer"):
                await rebalance(cluster, "by_disk_size", wait=True)
    finally:
        worker.start()
    assert all(node.answers for node in (await status(cluster_database)).nodes)


async def test_commands_wait_for_a_node_that_comes_back(
    citus_cluster: CitusCluster, cluster_database: Database
) -> None:
    worker = citus_cluster.workers[1]
    messages: list[str] = []
    async with Cluster.open(cluster_database.owner_dsn, messages.append, wait_seconds=60) as cluster:
        worker.kill()
        try:
            waiting = asyncio.create_task(cluster.require_nodes())
            await wait_until(lambda: messages == [f"{address(worker)} doesn't answer; waiting for it"], 20)
        finally:
            worker.start()
        await waiting


async def test_shards_are_rebalanced(cluster_database: Database, spare: EmbeddedPostgres) -> None:
    messages: list[str] = []
    async with Cluster.open(cluster_database.owner_dsn, messages.append) as cluster:
        await rebalance(cluster, "by_shard_count", wait=True)
        assert not await rebalance(cluster, "by_shard_count", wait=True)
    current = await status(cluster_database)
    groups = [node.shard_groups for node in current.nodes if not node.coordinator]
    assert max(groups) - min(groups) <= 1
    assert current.rebalance is not None
    assert current.rebalance["state"] == "finished"
    assert current.skew is not None
