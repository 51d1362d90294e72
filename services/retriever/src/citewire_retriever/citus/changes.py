"""Changes of a cluster: nodes are added, and organisations moved, on Citus's own functions.

Everything may be run again after it was interrupted: what was done is found done. A command that is killed doesn't end
what it has begun: Citus goes on, and the command that is run again waits for that.
"""

import asyncio
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any, Final, NamedTuple

import psycopg
from psycopg.conninfo import make_conninfo

from citewire_retriever.citus.cluster import (
    POLL_SECONDS,
    SQL,
    Cluster,
    ClusterError,
    NodeAddress,
    connect,
    describe_error,
    require_settings,
)

_LEAST_WAIT_SECONDS: Final = 60
"""Wait of `add_node` for another command: the session of a killed one lasts until its server notices."""
_LEFT_OVER_SECONDS: Final = 600
"""A session that builds an index for an interrupted move ends when the index is built."""
_DEADLOCKS: Final = 5
"""How often a move or isolation is repeated after a deadlock."""


async def add_node(cluster: Cluster, address: NodeAddress, *, wait_seconds: float = 0) -> bool:
    """Adds a node; False if it already exists. It gets shards by `rebalance` or `move`.

    Raises:
        ClusterError: It can't be reached, or isn't set up as a node of this cluster.
    """
    await _prepare_node(cluster, address, wait_seconds)
    async with cluster.alone(wait_seconds=max(wait_seconds, _LEAST_WAIT_SECONDS)):
        known = {node.address: node for node in await cluster.nodes()}.get(address)
        at = {"host": address.host, "port": address.port}
        if known is None:
            await cluster.rows("add_node", at)
        elif not known.active:
            await cluster.rows("activate_node", at)
        await cluster.rows("copy_references")
    return known is None


async def move(cluster: Cluster, org: str, to: NodeAddress | None, *, together: bool) -> bool:
    """Gives an organisation its own group of shards, and moves that to a node; False if nothing has to be done.

    Args:
        cluster: The cluster.
        org: The organisation's id.
        to: The node; None for the current one.
        together: Move the existing group of shards, with all organisations in it.

    Raises:
        ClusterError: It can't be done.
    """
    async with cluster.alone():
        target = next((node for node in await cluster.nodes() if node.address == to), None)
        if to is not None and (target is None or not target.takes_shards):
            raise ClusterError(f"{to} is not a node with shards: `cluster status` lists them")
        await cluster.require_nodes()
        place = await _find(cluster, org)
        changed = False
        if not together and not place.alone:
            cluster.say(f"isolating {org} in its own shards")
            await _repeat_deadlocked(cluster, lambda: _isolate(cluster, org))
            changed = True
            place = await _find(cluster, org)
        if to is None or place.address == to:
            return changed
        cluster.say(f"{org} moves from {place.address} to {to}")
        values = {
            "shard": place.shard,
            "from_host": place.address.host,
            "from_port": place.address.port,
            "host": to.host,
            "port": to.port,
        }

        async def move_shards() -> None:
            await _drop_left_over(cluster, values, to)
            await cluster.with_progress(cluster.rows("move", values))

        await _repeat_deadlocked(cluster, move_shards)
        return True


async def _repeat_deadlocked(cluster: Cluster, act: Callable[[], Awaitable[None]]) -> None:
    """Repeats what Citus ended because it and a caller's transaction waited for each other. Nothing of it was done."""
    for _ in range(_DEADLOCKS):
        try:
            await act()
        except ClusterError as exc:
            if not exc.deadlocked:
                raise
        else:
            return
        cluster.say("a deadlock with a caller's transaction was ended; trying again")
        await cluster.connection.execute(SQL["clean_up"])
    await act()


async def _drop_left_over(cluster: Cluster, values: Mapping[str, Any], to: NodeAddress) -> None:
    """Waits until a node has nothing left of an interrupted move of the same shards.

    A session of that move may still hold them: on the node it ends only when it notices that the coordinator's is gone.
    """
    deadline, told = time.monotonic() + _LEFT_OVER_SECONDS, False
    while left := await cluster.rows("left_over", values):
        if time.monotonic() > deadline:
            raise ClusterError(
                f"{to} still has {left[0][0]} of an interrupted move, because a session holds a lock on it: see "
                "pg_locks on that node, and run the command again"
            )
        if told:
            await asyncio.sleep(POLL_SECONDS)
        else:
            cluster.say(f"dropping {len(left)} tables that an interrupted move has left on {to}")
            told = True
        await cluster.connection.execute(SQL["clean_up"])


async def _isolate(cluster: Cluster, org: str) -> None:
    try:
        async with _copies_looked_after(cluster):
            await cluster.with_progress(cluster.rows("isolate", {"org": org}))
    except ClusterError as exc:
        raise ClusterError(
            f"isolating {org} broke off: {exc}. Nothing is lost, and it is served where it was;"
            " run the command again once all nodes answer, which removes what is left",
            deadlocked=exc.deadlocked,
        ) from exc


@asynccontextmanager
async def _copies_looked_after(cluster: Cluster) -> AsyncGenerator[None, None]:
    """Sees to it that copies of shards take changes from the moment they are made, and may be dropped at any moment."""
    for node, done, result in await cluster.rows("look_after_copies"):
        if not done:
            raise ClusterError(f"{node} doesn't let its shards be copied: {result}")
    try:
        yield
    finally:
        if not cluster.connection.closed:
            await cluster.connection.execute(SQL["leave_copies"])


async def rebalance(cluster: Cluster, strategy: str, *, wait: bool) -> bool:
    """Distributes shards evenly over the nodes; False if they already are. A running rebalance is followed.

    Args:
        cluster: The cluster.
        strategy: `by_disk_size` or `by_shard_count`.
        wait: Whether to follow it to its end; the coordinator continues either way.

    Raises:
        ClusterError: It can't be started, or failed.
    """
    async with cluster.alone():
        job = await _job(cluster)
        if job is None or not job.runs:
            await cluster.require_nodes()
            started = (await cluster.rows("start_rebalance", {"strategy": strategy}))[0][0]
            if started is None or (job is not None and started == job.job_id):
                return False
    cluster.say("rebalancing; it continues if this command is stopped")
    if wait:
        await cluster.with_progress(_follow(cluster))
    return True


async def _follow(cluster: Cluster) -> None:
    while (job := await _job(cluster)) is not None and job.runs:  # noqa: ASYNC110 # nothing notifies us
        await asyncio.sleep(POLL_SECONDS)
    if job is not None and job.state != "finished":
        tasks = await cluster.rows("failed_tasks", {"job_id": job.job_id})
        why = "; ".join(f"{command}: {(message or '').strip()}" for command, message in tasks)
        raise ClusterError(
            f"the rebalance is {job.state}; what was moved is moved, run it again for the rest. {why}".strip()
        )


class _Place(NamedTuple):
    shard: int
    alone: bool
    address: NodeAddress


class _Job(NamedTuple):
    job_id: int
    state: str

    @property
    def runs(self) -> bool:
        return self.state in ("scheduled", "running", "failing", "cancelling")


async def _job(cluster: Cluster) -> _Job | None:
    rows = await cluster.rows("rebalance")
    return _Job(rows[0][0], rows[0][1]) if rows else None


async def _find(cluster: Cluster, org: str) -> _Place:
    shard, alone, host, port = (await cluster.rows("organisation", {"org": org}))[0]
    if not await cluster.rows("has_documents", {"org": org}) and not await cluster.rows(
        "has_collections", {"org": org}
    ):
        raise ClusterError(f"no organisation {org!r} has documents or collections here")
    return _Place(shard, alone, NodeAddress(host, port))


async def _prepare_node(cluster: Cluster, address: NodeAddress, wait_seconds: float) -> None:
    """Creates the extension on a new node, which Citus doesn't do, and checks the node's settings."""
    dsn = make_conninfo(cluster.dsn, host=address.host, hostaddr="", port=address.port)
    row = await (await cluster.connection.execute(SQL["engine"])).fetchone()
    version = row[0] if row else None
    async with await connect(dsn, f"the node {address}", wait_seconds=wait_seconds) as connection:
        try:
            await connection.execute("CREATE EXTENSION IF NOT EXISTS citus")
            there = await (await connection.execute(SQL["engine"])).fetchone()
            settings = await (await connection.execute(SQL["node_settings"])).fetchone()
        except psycopg.Error as exc:
            raise ClusterError(f"the node {address} isn't set up for Citus: {describe_error(exc)}") from exc
    if there is None or there[0] != version:
        raise ClusterError(
            f"the node {address} has Citus {there and there[0]}, the coordinator {version}: they must be the same"
        )
    if settings is not None:
        require_settings(str(address), settings[0])
        if not settings[0]["vector"]:
            raise ClusterError(f"the node {address} lacks pgvector: install the version that the coordinator has")
