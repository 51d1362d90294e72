"""Organisations stay at work while their cluster grows, is rebalanced, moves and isolates them, and loses nodes.

`--seed` determines the order of events. Everything acknowledged is there in the end, and the only requests that fail
are those of a killed node's organisations while it is away. `make faults` runs it for 20 minutes.
"""

from __future__ import annotations

import asyncio
import os
import sys
import time
from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager, suppress
from pathlib import Path

import psycopg
import pytest

from callers import keyed_environment
from citewire_kit.tenant import Tenant
from citewire_retriever.citus.changes import add_node, move, rebalance
from citewire_retriever.citus.cluster import Cluster, ClusterError
from cluster_load import Absence, Load
from embedded_postgres import EmbeddedPostgres
from fake_embedding import FakeModel
from faulty_cluster import DATABASE, FaultyCluster, FaultyNode, accepts, start_faulty_cluster, start_faulty_node
from ingest_harness import WINDOW, embedder_address
from proof_scale import PrintTable, ProofScale
from retriever_process import Caller, running_retriever
from waiting import wait_until

ORGS = tuple(f"org{number}" for number in range(8))
NODES_MOST = 4
CONNECTIONS = 24
"""Enough that no call waits for a free one: such waits would come from a busy machine, not from the cluster."""
BACK_SECONDS = 8.0
"""A killed node's organisations must be served this long after it accepts connections again: services check every
second, and the rest is for a busy machine."""
ACT_SECONDS = 300
"""For each operation on the cluster: one that never ends fails the test instead of blocking it."""
REBALANCE_SECONDS = 600
"""A rebalance is many consecutive moves, and Citus waits before it retries a failed one."""
END_SECONDS = 300
TASKS = """
SELECT status, command, retry_count, not_before, message FROM pg_dist_background_task
WHERE status NOT IN ('done', 'unscheduled') ORDER BY task_id
"""
ACTIVITY = """
SELECT pid, pg_blocking_pids(pid), backend_type, state, wait_event_type, wait_event,
       round(extract(epoch FROM now() - xact_start), 1),
       regexp_replace(left(query, 160), '\\s+', ' ', 'g')
FROM pg_stat_activity
WHERE pid <> pg_backend_pid() AND backend_type <> 'io worker'
  AND (state IS DISTINCT FROM 'idle' OR xact_start IS NOT NULL)
ORDER BY xact_start NULLS LAST
"""
ENVIRONMENT = {
    "CITEWIRE_WORKER_LEASE_SECONDS": "10",
    "CITEWIRE_WORKER_POLL_SECONDS": "0.5",
    "CITEWIRE_WORKER_RETRY_SECONDS_MAX": "2",
    "CITEWIRE_WORKER_METRICS_PORT": "0",
    "CITEWIRE_WORKER_CONFINEMENT": "available",
    "CITEWIRE_WORKER_OCR_PROGRAM": "off",
    "CITEWIRE_WORKER_CHUNK_TOKENS": "24",
    "CITEWIRE_WORKER_OVERLAP_TOKENS": "8",
}


def describe(server: EmbeddedPostgres) -> list[str]:
    """Lists what a server's sessions do and wait for."""
    with psycopg.connect(server.dsn(database=DATABASE)) as connection:
        return [" | ".join(map(str, row)) for row in connection.execute(ACTIVITY).fetchall()]


class Operator:
    """Operates and damages the cluster, one act at a time, at random moments."""

    def __init__(self, cluster: FaultyCluster, proof: ProofScale, stack: ExitStack) -> None:
        self._cluster = cluster
        self._chance = proof.random()
        self._stack = stack
        self._acts = [self._isolate, self._kill]
        if proof.full:
            self._acts += [self._add_node, self._rebalance, self._move, self._kill_mover]
        self.counts: Counter[str] = Counter()
        self.longest: dict[str, float] = {}
        """The most seconds that each kind of act took."""
        self.absences: list[Absence] = []
        self._messages = list[str]()
        """Progress messages of the last command."""

    async def work(self, seconds: float, load: Load) -> None:
        """Does every act once in a random order, and repeats that until the time is over; each round is completed."""
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            for act in self._chance.sample(self._acts, len(self._acts)):
                await asyncio.sleep(self._chance.uniform(0.2, 1.5))
                began = time.monotonic()
                done = await self._run_to_end(act)
                self.counts[done] += 1
                self.longest[done] = max(self.longest.get(done, 0.0), time.monotonic() - began)
                await load.all_answered()

    async def _run_to_end(self, act: Callable[[], Awaitable[str]]) -> str:
        self._messages.clear()
        limit = REBALANCE_SECONDS if act == self._rebalance else ACT_SECONDS
        try:
            async with asyncio.timeout(limit):
                return await act()
        except TimeoutError as error:
            with psycopg.connect(self._cluster.database.owner_dsn) as connection:
                tasks = connection.execute(TASKS).fetchall()
            servers = [self._cluster.coordinator, *(node.server for node in self._cluster.nodes)]
            activity = "\n".join(line for server in servers for line in ("", str(server.socket_dir), *describe(server)))
            raise AssertionError(f"not done after {limit} s: {self._messages}; tasks: {tasks}\n{activity}") from error

    def _elsewhere(self, org: str) -> FaultyNode:
        here = self._cluster.node_of(org)
        return self._chance.choice([node for node in self._cluster.nodes if node is not here])

    async def _add_node(self) -> str:
        if len(self._cluster.nodes) >= NODES_MOST:
            return "no node added, as there are enough"
        node = await asyncio.to_thread(self._stack.enter_context, start_faulty_node(self._cluster.archive))
        async with self._open_cluster() as connected:
            await add_node(connected, node.address)
        self._cluster.nodes.append(node)
        return "a node added"

    async def _rebalance(self) -> str:
        async with self._open_cluster() as connected:
            moved = await rebalance(connected, "by_shard_count", wait=True)
        return "shards rebalanced" if moved else "rebalanced, already even"

    async def _move(self) -> str:
        """Also isolates the organisation, unless it is already alone or moves together with others."""
        org, together = self._chance.choice(ORGS), self._chance.random() < 0.3
        target = self._elsewhere(org)
        async with self._open_cluster() as connected:
            await move(connected, org, target.address, together=together)
        assert self._cluster.node_of(org) is target
        return "an organisation moved with all that share its shards" if together else "an organisation moved alone"

    async def _isolate(self) -> str:
        async with self._open_cluster() as connected:
            changed = await move(connected, self._chance.choice(ORGS), None, together=False)
        return "an organisation isolated" if changed else "isolated, already alone"

    async def _kill(self) -> str:
        await self._take_away(self._chance.choice(self._cluster.nodes), set())
        return "a node killed"

    async def _kill_mover(self) -> str:
        """Kills one of the two nodes at a random moment, and repeats the move once it is back."""
        org = self._chance.choice(ORGS)
        source, target = self._cluster.node_of(org), self._elsewhere(org)

        async def run() -> None:
            async with self._open_cluster() as connected:
                await move(connected, org, target.address, together=False)

        moving = asyncio.create_task(run())
        with suppress(TimeoutError):
            async with asyncio.timeout(self._chance.uniform(0.1, 3)):
                await asyncio.shield(moving)
        await self._take_away(self._chance.choice([source, target]), {org})
        with suppress(ClusterError, psycopg.Error):
            await moving
        await run()
        assert self._cluster.node_of(org) is target
        return "a node killed during an organisation's move, which was repeated"

    async def _take_away(self, node: FaultyNode, orgs: set[str]) -> None:
        gone = frozenset(org for org in ORGS if self._cluster.node_of(org) is node) | orgs
        began = time.monotonic()
        node.server.kill()
        await asyncio.sleep(self._chance.uniform(0.2, 5))
        await asyncio.to_thread(node.server.start)
        await wait_until(lambda: accepts(node.server), ACT_SECONDS)
        self.absences.append(Absence(gone, began, time.monotonic() + BACK_SECONDS))

    @asynccontextmanager
    async def _open_cluster(self) -> AsyncGenerator[Cluster]:
        async with Cluster.open(self._cluster.database.owner_dsn, self._messages.append) as connected:
            yield connected


@asynccontextmanager
async def worker_process(cluster: FaultyCluster, embedder: str, log: Path) -> AsyncGenerator[None]:
    environment = {
        **os.environ,
        **ENVIRONMENT,
        **keyed_environment("worker"),
        "CITEWIRE_WORKER_DSN": cluster.database.dsn("citewire_worker"),
        "CITEWIRE_WORKER_EMBEDDER_TARGET": embedder,
    }
    with log.open("wb") as output:
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "citewire_retriever", "worker", env=environment, stdout=output, stderr=output
        )
    try:
        yield
        assert process.returncode is None, f"the worker exited by itself: see {log}"
    finally:
        if process.returncode is None:
            process.terminate()
        await process.wait()


async def until_ingested(cluster: FaultyCluster) -> float:
    """Waits until nothing is left to ingest; returns the seconds that this took."""
    began = time.monotonic()

    def is_done() -> bool:
        with psycopg.connect(cluster.database.owner_dsn) as connection:
            row = connection.execute(
                "SELECT count(*) FROM corpus.ingest_jobs WHERE kind = 'ingest' AND state IN ('queued', 'running')"
            ).fetchone()
        return row == (0,)

    await wait_until(is_done, END_SECONDS)
    return time.monotonic() - began


@pytest.mark.timeout(3600)
async def test_nothing_is_lost_while_a_cluster_changes_under_load(
    citus_archive: Path, proof: ProofScale, print_table: PrintTable, tmp_path: Path
) -> None:
    async with AsyncExitStack() as stack:
        servers = stack.enter_context(ExitStack())
        cluster = await asyncio.to_thread(servers.enter_context, start_faulty_cluster(citus_archive))
        embedder = await stack.enter_async_context(embedder_address(FakeModel(window=WINDOW)))
        running = await stack.enter_async_context(running_retriever(cluster.database, pool_max_size=CONNECTIONS))
        await stack.enter_async_context(worker_process(cluster, embedder, tmp_path / "worker.log"))
        load = Load(running, ORGS, proof.random())
        for org in ORGS:  # so that each has a space to search in
            await Caller(running, Tenant(org, "ann", "pro")).put(content="# First\n\nThe first word.")
        await until_ingested(cluster)
        operator = Operator(cluster, proof, servers)
        began = time.monotonic()
        async with load.running_requests():
            await operator.work(proof.pick(scaled_down=1, full=1200), load)
        whole = time.monotonic() - began
        left = await until_ingested(cluster)
        with psycopg.connect(cluster.database.owner_dsn) as connection:
            for record in load.records.values():
                record.check(connection)
    print_load(load, operator, proof, whole, print_table)
    print_table(
        "What happened to the cluster meanwhile",
        ["what", "how often", "the longest, s"],
        [
            *((what, count, f"{operator.longest[what]:.1f}") for what, count in sorted(operator.counts.items())),
            ("all was ingested after", "", f"{left:.1f}"),
        ],
    )
    absences = [(sorted(absence.orgs), absence.began - began, absence.ended - began) for absence in operator.absences]
    assert [
        (record.org, start - began, end - began, why)
        for record in load.records.values()
        for start, end, why in record.unexcused(operator.absences)
    ] == [], absences
    assert all(record.words and record.answered["search"] for record in load.records.values())


def print_load(load: Load, operator: Operator, proof: ProofScale, seconds: float, print_table: PrintTable) -> None:
    rows: list[tuple[object, ...]] = []
    for org, record in load.records.items():
        pauses = {kind: record.longest_pause(kind, operator.absences) for kind in ("upload", "search")}
        rows.append(
            (
                org,
                *(len(record.answered[kind]) for kind in ("upload", "replace", "delete", "search")),
                len(record.failures),
                *(f"{there:.2f}" for there, _ in pauses.values()),
                f"{max(at_all for _, at_all in pauses.values()):.2f}",
            )
        )
    print_table(
        f"Organisations of a cluster that changes under load, seed {proof.seed}, {seconds:.0f} s",
        [
            "organisation",
            "uploads",
            "replacements",
            "deletions",
            "searches",
            "refused",
            "longest pause between uploads, s",
            "between searches, s",
            "with its node away, s",
        ],
        rows,
    )
    reasons = Counter(why for record in load.records.values() for *_, why in record.failures)
    print_table("Why requests were refused", ["why", "how often"], sorted(reasons.items()))
