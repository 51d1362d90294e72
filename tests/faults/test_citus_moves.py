"""Interrupts moves and isolations of a writing organisation: commands, sessions and servers end at each step.

Repeated once everything is back, each one succeeds, nothing acknowledged is lost, no temporary object remains, and
other organisations keep working meanwhile.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections import Counter
from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from time import monotonic, sleep

import psycopg
import pytest

from citewire_kit.nodes import break_off as drop_connection
from citewire_retriever.citus.changes import move
from citewire_retriever.citus.cluster import SQL, Cluster, NodeAddress
from cluster_writer import Writer
from faulty_cluster import DATABASE, FaultyCluster, FaultyNode, accepts, start_faulty_cluster
from proof_scale import PrintTable, ProofScale
from waiting import wait_until

STEPS = (
    "Setting Up",
    "Copying Data",
    "Catching Up",
    "Creating Constraints",
    "Final Catchup",
    "Creating Foreign Keys",
    "Completing",
)
"""A move's steps, by Citus's names. Some last milliseconds, and are missed now and then."""
BREAKS = ("command killed", "session ended", "target killed", "source killed", "target frozen", "coordinator killed")
CAUGHT_UP = "have caught up with the source LSN"
ISOLATION_STEPS = {
    "its shards are made": ("creating child shards", 1),
    "publication, slot and subscription are made": ("creating replication artifacts", 1),
    "rows are copied": ("performing copy", 1),
    "changes are copied": ("replicating changes", 1),
    "keys and indexes are made": (CAUGHT_UP, 1),
    "writers are held": (CAUGHT_UP, 2),
    "the old shards are given up": ("marking deferred cleanup", 1),
    "foreign keys are made": ("creating foreign key constraints", 1),
}
"""An isolation's steps: the message in the coordinator's log when each begins, and how often it is there by then."""
ISOLATION_BREAKS = (
    "command killed",
    "session ended",
    "source killed",
    "source frozen",
    "other killed",
    "coordinator killed",
)
ENDED_THE_NODE = ("keys and indexes are made", "session ended")
"""Without our commands, Citus cleans up after this interruption while the objects are still written to."""
FROZEN_SECONDS = 3.0
END_SECONDS = 180.0
"""An isolation alone took 50 s of it with a load of 20."""
PAUSE_SECONDS = 5.0
"""The longest wait of an organisation that neither moves nor is on a node that is away."""
LEFT = r"""
    SELECT 'slot ' || slot_name FROM pg_replication_slots
    UNION ALL SELECT 'subscription ' || subname FROM pg_subscription
    UNION ALL SELECT 'publication ' || pubname FROM pg_publication
    UNION ALL SELECT 'event trigger ' || evtname FROM pg_event_trigger WHERE evtname ~ '^citewire'
    UNION ALL SELECT 'table ' || relname FROM pg_class
    WHERE relnamespace = 'corpus'::regnamespace AND relkind = 'r' AND relname ~ '_\d{6,}$'
      AND NOT relation_is_a_known_shard(oid)
    UNION ALL SELECT 'identity of ' || relname FROM pg_class
    WHERE relnamespace = 'corpus'::regnamespace AND relkind = 'r' AND relreplident <> 'd'
"""
"""Temporary objects of a shard copy, and shards that the cluster doesn't know."""
NOT_ALONE = """
    SELECT s.logicalrelid::text FROM pg_dist_partition p
    JOIN pg_dist_shard s ON s.shardid = get_shard_id_for_distribution_column(p.logicalrelid, %(org)s::text)
    WHERE p.partmethod = 'h' AND s.shardminvalue <> s.shardmaxvalue
"""
"""Tables in which an organisation shares its shard."""
CRASHED = "was terminated by signal 11"


@pytest.fixture(scope="module")
def cluster(citus_archive: Path) -> Iterator[FaultyCluster]:
    with start_faulty_cluster(citus_archive) as cluster:
        yield cluster


@dataclass
class Others:
    """Two organisations, one on each node, that write and don't move."""

    writers: list[Writer]
    homes: list[NodeAddress]
    away: list[tuple[float, float, NodeAddress | None]] = field(
        default_factory=list[tuple[float, float, NodeAddress | None]]
    )
    """When a node was away; None is the coordinator."""

    @staticmethod
    def start(cluster: FaultyCluster, name: str, stack: contextlib.ExitStack) -> Others:
        """Chooses the organisations and starts their writers."""
        orgs = [cluster.organisations(node, 1, name)[0] for node in cluster.nodes]
        others = Others(
            [Writer(cluster.database.dsn("citewire_corpus"), org) for org in orgs],
            [node.address for node in cluster.nodes],
        )
        for writer in others.writers:
            stack.enter_context(writer.running())
        return others

    def check(self) -> float:
        """Checks that no organisation was refused or waited while its node was there; returns the longest pause."""
        longest = 0.0
        for writer, home in zip(self.writers, self.homes, strict=True):
            writer.check()
            assert [why for at, why in writer.refused if not self._excuses(at, 0, home)] == []
            there = [seconds for at, seconds in writer.pauses if not self._excuses(at, seconds, home)]
            longest = max(longest, *there)
        assert longest < PAUSE_SECONDS
        return longest

    def _excuses(self, at: float, seconds: float, node: NodeAddress) -> bool:
        return any(began <= at + seconds and at <= end + 2 and where in (None, node) for began, end, where in self.away)


async def run_move(
    cluster: FaultyCluster, org: str, target: FaultyNode | None, opened: list[Cluster] | None = None
) -> bool:
    """Moves an organisation, or isolates it if there is no target."""
    async with Cluster.open(cluster.database.owner_dsn, lambda _: None) as connected:
        if opened is not None:
            opened.append(connected)
        return await move(connected, org, target.address if target else None, together=False)


async def interrupt(
    cluster: FaultyCluster, how: str, nodes: tuple[FaultyNode, FaultyNode], command: Cluster, others: Others
) -> None:
    """Breaks something and repairs it again."""
    source, target = nodes
    began = monotonic()
    where: NodeAddress | None = None
    if how == "command killed":
        drop_connection(command.connection)
        return
    if how == "session ended":
        with psycopg.connect(cluster.database.owner_dsn, autocommit=True) as connection:
            connection.execute("SELECT pg_terminate_backend(%s::integer)", (command.connection.info.backend_pid,))
        return
    if how == "coordinator killed":
        cluster.coordinator.kill()
        await asyncio.sleep(0.5)
        cluster.coordinator.start()
        await wait_until(lambda: accepts(cluster.coordinator), END_SECONDS)
    else:
        node = source if how.startswith("source") else target
        where = node.address
        if how.endswith("killed"):
            node.server.kill()
            await asyncio.sleep(0.5)
        else:
            node.freeze()
            await asyncio.sleep(FROZEN_SECONDS)
        node.heal()
        await wait_until(lambda: accepts(node.server), END_SECONDS)
    others.away.append((began, monotonic(), where))


def reach(step: str, cluster: FaultyCluster, ended: threading.Event) -> bool:
    """Waits until a move reaches a step; returns False if it ended before."""
    with psycopg.connect(cluster.database.owner_dsn, autocommit=True) as connection:
        while not ended.is_set():
            if any(row[-1] == step for row in connection.execute(SQL["moves"]).fetchall()):
                return True
    return False


def reach_in_log(log: Path, message: str, times: int) -> Callable[[FaultyCluster, threading.Event], bool]:
    """Like `reach`, by new messages in a server's log: Citus doesn't show the steps of an isolation."""
    begins = log.stat().st_size

    def reached(_: FaultyCluster, ended: threading.Event) -> bool:
        with log.open(encoding="utf-8", errors="replace") as lines:
            lines.seek(begins)
            seen = ""
            while not ended.is_set():
                seen += lines.read()
                if seen.count(message) >= times:
                    return True
                sleep(0.002)
        return False

    return reached


async def move_and_interrupt(
    cluster: FaultyCluster,
    org: str,
    target: FaultyNode | None,
    how: str,
    reached: Callable[[FaultyCluster, threading.Event], bool],
    others: Others,
) -> bool:
    """Begins a move or an isolation, interrupts it at a step, and repeats it; returns whether the step was reached."""
    source = cluster.node_of(org)
    opened: list[Cluster] = []
    moving = asyncio.create_task(run_move(cluster, org, target, opened))
    await wait_until(lambda: bool(opened), END_SECONDS)
    ended = threading.Event()
    moving.add_done_callback(lambda _: ended.set())
    met = await asyncio.to_thread(reached, cluster, ended)
    if met:
        other = target or next(node for node in cluster.nodes if node is not source)
        await interrupt(cluster, how, (source, other), opened[0], others)
    async with asyncio.timeout(END_SECONDS):
        await asyncio.gather(moving, return_exceptions=True)
    async with asyncio.timeout(END_SECONDS):
        await run_move(cluster, org, target)
    assert cluster.node_of(org) is (target or source)
    return met


async def check_nothing_is_left(cluster: FaultyCluster) -> None:
    with psycopg.connect(cluster.database.owner_dsn, autocommit=True) as connection:
        connection.execute(SQL["clean_up"])
        assert connection.execute("SELECT object_name FROM pg_dist_cleanup").fetchall() == []
    for server in (cluster.coordinator, *(node.server for node in cluster.nodes)):
        dsn = f"{server.dsn(database=DATABASE)}&options=-c%20citus.override_table_visibility%3Doff"
        with psycopg.connect(dsn) as connection:
            assert connection.execute(LEFT.encode()).fetchall() == []


@contextlib.contextmanager
def writing(cluster: FaultyCluster, org: str) -> Generator[Writer]:
    writer = Writer(cluster.database.dsn("citewire_corpus"), org)
    with writer.running():
        yield writer
    writer.check()


@pytest.mark.timeout(3600)
async def test_a_move_is_interrupted_at_each_step_and_repeated(
    cluster: FaultyCluster, proof: ProofScale, print_table: PrintTable
) -> None:
    first, second = cluster.nodes
    pairs = [(step, how) for step in STEPS for how in BREAKS]
    if not proof.full:
        pairs = proof.random().sample(pairs, 2)
    met: Counter[str] = Counter()
    org = cluster.organisations(first, 1, "moves-")[0]
    with contextlib.ExitStack() as stack:
        others = Others.start(cluster, "stays-", stack)
        with writing(cluster, org) as writer:
            await wait_until(lambda: bool(writer.deleted), END_SECONDS)
            await run_move(cluster, org, first)  # from now on alone on its shards
            for step, how in pairs:
                target = second if cluster.node_of(org) is first else first
                met[step] += await move_and_interrupt(cluster, org, target, how, partial(reach, step), others)
    longest = others.check()
    await check_nothing_is_left(cluster)
    print_table(
        f"Moves of a writing organisation, interrupted at their steps and repeated, seed {proof.seed}",
        ["what", "figure"],
        [
            *((f"interrupted while {step}", met[step]) for step in STEPS),
            ("documents acknowledged, none lost", len(writer.saved)),
            ("longest pause of others while their node was there, s", f"{longest:.2f}"),
            ("longest pause of the moving one, s", f"{writer.longest:.2f}"),
        ],
    )
    assert met.total() >= len(pairs) // 2, "hardly any move was interrupted at the intended step"


@pytest.mark.timeout(3600)
async def test_an_isolation_is_interrupted_at_each_step_and_repeated(
    cluster: FaultyCluster, proof: ProofScale, print_table: PrintTable
) -> None:
    """Each time another organisation is isolated, as an isolated one stays isolated."""
    pairs = [(step, how) for step in ISOLATION_STEPS for how in ISOLATION_BREAKS]
    if not proof.full:
        pairs = [ENDED_THE_NODE, proof.random().choice([pair for pair in pairs if pair != ENDED_THE_NODE])]
    met: Counter[str] = Counter()
    saved = 0
    longest = 0.0
    names = [iter(cluster.organisations(node, len(pairs), "alone-")) for node in cluster.nodes]
    with contextlib.ExitStack() as stack:
        others = Others.start(cluster, "waits-", stack)
        for number, (step, how) in enumerate(pairs):
            org = next(names[number % len(names)])
            with writing(cluster, org) as writer:
                await wait_until(lambda writer=writer: bool(writer.deleted), END_SECONDS)
                reached = reach_in_log(cluster.coordinator.log, *ISOLATION_STEPS[step])
                met[step] += await move_and_interrupt(cluster, org, None, how, reached, others)
            with psycopg.connect(cluster.database.owner_dsn) as connection:
                assert connection.execute(NOT_ALONE.encode(), {"org": org}).fetchall() == [], (step, how)
            assert not await run_move(cluster, org, None)  # already isolated; this only removes leftovers
            saved += len(writer.saved)
            longest = max(longest, writer.longest)
    others_longest = others.check()
    await check_nothing_is_left(cluster)
    for server in (cluster.coordinator, *(node.server for node in cluster.nodes)):
        assert CRASHED not in server.log.read_text(encoding="utf-8", errors="replace")
    print_table(
        f"Isolations of writing organisations, interrupted at their steps and repeated, seed {proof.seed}",
        ["what", "figure"],
        [
            *((f"interrupted while {step}", met[step]) for step in ISOLATION_STEPS),
            ("documents acknowledged, none lost", saved),
            ("longest pause of others while their node was there, s", f"{others_longest:.2f}"),
            ("longest pause of the isolated ones, s", f"{longest:.2f}"),
        ],
    )
    assert met.total() >= len(pairs) // 2, "hardly any isolation was interrupted at the intended step"


@pytest.mark.timeout(300)
async def test_a_move_waits_for_a_session_that_locks_an_interrupted_moves_copy(cluster: FaultyCluster) -> None:
    source, target = cluster.nodes
    org = cluster.organisations(source, 1, "held-")[0]
    messages: list[str] = []

    async def go_to(node: FaultyNode) -> None:
        async with Cluster.open(cluster.database.owner_dsn, messages.append) as connected:
            await move(connected, org, node.address, together=False)

    with writing(cluster, org) as writer:
        await wait_until(lambda: bool(writer.deleted), END_SECONDS)
        await go_to(source)  # from now on alone on its shards
        holder = await asyncio.to_thread(interrupt_with_a_session, cluster, org, source, target)
        with holder:
            moving = asyncio.create_task(go_to(target))
            await wait_until(lambda: any("has left on" in text for text in messages), END_SECONDS)
            await asyncio.sleep(2)  # after one, Citus gives up on a locked table
            assert not moving.done()
            holder.rollback()
        async with asyncio.timeout(END_SECONDS):
            await moving
    assert cluster.node_of(org) is target


def interrupt_with_a_session(
    cluster: FaultyCluster, org: str, source: FaultyNode, target: FaultyNode
) -> psycopg.Connection[tuple[object, ...]]:
    """Interrupts a move while its copies are on the target; returns a session there that locks one of them."""
    dsn = f"{target.server.dsn(database=DATABASE)}&options=-c%20citus.override_table_visibility%3Doff"
    with psycopg.connect(cluster.database.owner_dsn, autocommit=True) as connection:
        (shard,) = connection.execute(
            "SELECT get_shard_id_for_distribution_column('corpus.collections', %s::text)", (org,)
        ).fetchone() or (0,)
    copy = f"corpus.collections_{shard}"
    holder = psycopg.connect(dsn)
    values = {
        "shard": shard,
        "from_host": source.address.host,
        "from_port": source.address.port,
        "host": target.address.host,
        "port": target.address.port,
    }
    with psycopg.connect(cluster.database.owner_dsn, autocommit=True) as moving:
        thread = threading.Thread(target=_expect_termination, args=(moving, values))
        thread.start()
        while holder.execute("SELECT to_regclass(%s)", (copy,)).fetchone() == (None,):
            assert thread.is_alive(), "the move ended before its copies were seen"
        holder.execute(f"SELECT FROM {copy} LIMIT 0".encode())  # locks it until the transaction ends
        with psycopg.connect(cluster.database.owner_dsn, autocommit=True) as connection:
            connection.execute("SELECT pg_terminate_backend(%s::integer)", (moving.info.backend_pid,))
        thread.join()
    return holder


def _expect_termination(connection: psycopg.Connection[tuple[object, ...]], values: dict[str, object]) -> None:
    with contextlib.suppress(psycopg.OperationalError):
        connection.execute(SQL["move"], values)
