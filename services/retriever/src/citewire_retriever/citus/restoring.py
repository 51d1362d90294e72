"""A point to which all nodes of a cluster can be restored together, and what a restored cluster must be told."""

import asyncio
import re
import time
from collections.abc import AsyncGenerator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import Any, Final

import psycopg
from psycopg import sql
from psycopg.conninfo import make_conninfo

from citewire_retriever.citus.cluster import (
    SQL,
    Cluster,
    ClusterError,
    Connection,
    Node,
    NodeAddress,
    connect,
    describe_error,
)

_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,62}")
_QUIET: Final = (
    "citus.recover_2pc_interval",
    "citus.defer_shard_delete_interval",
    "citus.background_task_queue_interval",
)
"""Settings for what a coordinator does to its nodes periodically; -1 means never."""
_RESTORING: Final = (*_QUIET, "restore_command", "recovery_target_name", "recovery_target_action")
"""Settings that `restore.sh` writes to `postgresql.auto.conf`."""
_POLL_SECONDS: Final = 0.2
_TRIES: Final = 20
_AGAIN_SECONDS: Final = 0.5


@dataclass(frozen=True, slots=True)
class RestorePoint:
    """A point in every server's log, with the archived files that contain it."""

    name: str
    pause: float
    """Seconds for which writers waited."""
    files: Mapping[str, str]
    """The last log file that a restore to this point reads, by server."""


async def make_restore_point(
    cluster: Cluster, name: str, others: Mapping[str, str], *, wait_seconds: float = 300
) -> RestorePoint:
    """Creates a point to which all nodes can be restored, and waits until it is in their archives.

    It includes everything acknowledged before this was called, and nothing that begins after it returns. A transaction
    on a node and in the coordinator's queue is included completely or not at all.

    Args:
        cluster: The cluster.
        name: The point's name, as for `recovery_target_name`; must not have been used before.
        others: Connection strings of other Postgres servers by name, such as that of the conversations. They get the
            point first, so that documents to which they refer are in the cluster's.
        wait_seconds: Maximum wait for the archives, for running moves of shards, and for another command.

    Raises:
        ClusterError: The name is invalid, a server doesn't archive its log or can't be reached, or an archive doesn't
            receive it.
    """
    if not _NAME.fullmatch(name):
        raise ClusterError(
            f"{name!r} isn't a valid name of a restore point: up to 63 letters, digits, '.', '_' and '-'"
        )
    async with cluster.alone(wait_seconds=wait_seconds), _servers(cluster, await cluster.nodes(), others) as servers:
        for server, connection in servers.items():
            await _require_archive(server, connection)
        await _wait_for_moves(cluster, wait_seconds)
        for server in others:
            await _ask(server, servers[server], "restore_point_of_one", {"name": name})
        pause = await _make(cluster, name)
        files = {server: await _finish_file(server, connection) for server, connection in servers.items()}
        deadline = time.monotonic() + wait_seconds
        for server, connection in servers.items():
            await _wait_for_archive(server, connection, files[server], deadline)
    return RestorePoint(name, pause, files)


async def readdress(cluster: Cluster, addresses: Mapping[NodeAddress, NodeAddress]) -> int:
    """Updates the node addresses of a restored cluster, and ends prepared transactions on the nodes.

    Until then its coordinator has the addresses of the nodes that were backed up, which may be running. It must have
    been started with settings that prevent changes to them (`restore.sh` does that), which are reset at the end.

    Args:
        cluster: The restored coordinator.
        addresses: Each node's address at the time of the backup, and now. Unchanged ones may be left out.

    Returns:
        The number of prepared transactions that were ended.

    Raises:
        ClusterError: A node isn't restored yet, is a different one, or can't be reached.
    """
    nodes = await cluster.nodes()
    known = {node.address for node in nodes}
    for old, new in addresses.items():
        if old not in known and new not in known:  # in a repeated run, some are already updated
            raise ClusterError(f"{old} isn't a node of this cluster: {', '.join(str(node.address) for node in nodes)}")
    await _require_quiet(cluster)
    moved = {node: addresses.get(node.address, node.address) for node in nodes}
    async with AsyncExitStack() as stack:
        connections: list[Connection] = []
        for node, address in moved.items():
            connections.append(await stack.enter_async_context(await _connect_to(cluster, address)))
            await _require_restored(connections[-1], node, address)
        async with cluster.connection.transaction():
            for node, address in moved.items():
                at = {"node_id": node.node_id, "host": address.host, "port": address.port}
                await cluster.rows("readdress_node", at)
        await cluster.rows("sync_nodes")
        ended = (await cluster.rows("end_prepared"))[0][0]
        for connection in reversed(connections):  # the coordinator last
            await _forget_restoring(connection)
    return int(ended)


async def _forget_restoring(connection: Connection) -> None:
    """Resets the settings for restoring a server."""
    for setting in _RESTORING:
        await connection.execute(sql.SQL("ALTER SYSTEM RESET {}").format(sql.Identifier(*setting.split("."))))
    await connection.execute(SQL["reload"])


@asynccontextmanager
async def _servers(
    cluster: Cluster, nodes: list[Node], others: Mapping[str, str]
) -> AsyncGenerator[dict[str, Connection], None]:
    """Connections to all servers by name, separate from the cluster's own, which stays free for other work."""
    async with AsyncExitStack() as stack:
        servers: dict[str, Connection] = {}
        for name, dsn in others.items():
            servers[name] = await stack.enter_async_context(await connect(dsn, f"the Postgres of {name}"))
        for node in nodes:
            opening = connect(cluster.dsn, "the coordinator") if node.group == 0 else _connect_to(cluster, node.address)
            servers[str(node.address)] = await stack.enter_async_context(await opening)
        yield servers


async def _connect_to(cluster: Cluster, address: NodeAddress) -> Connection:
    dsn = make_conninfo(cluster.dsn, host=address.host, hostaddr="", port=address.port)
    return await connect(dsn, f"the node {address}")


async def _ask(
    server: str, connection: Connection, name: str, values: Mapping[str, Any] | None = None
) -> tuple[Any, ...]:
    try:
        row = await (await connection.execute(SQL[name], values)).fetchone()
    except psycopg.Error as exc:
        raise ClusterError(f"{server}: {describe_error(exc)}") from exc
    return row or ()


async def _require_archive(server: str, connection: Connection) -> None:
    mode, how = await _ask(server, connection, "archive")
    if mode == "off" or not how:
        raise ClusterError(
            f"{server} doesn't archive its log: a point there can't be restored. Set archive_mode = on and"
            " archive_command, and restart the server"
        )


async def _wait_for_moves(cluster: Cluster, wait_seconds: float) -> None:
    """Waits for moves, because an incomplete copy would be restored with a subscription to its source."""
    deadline = time.monotonic() + wait_seconds
    while (await cluster.rows("moving"))[0][0]:
        if time.monotonic() > deadline:
            raise ClusterError(
                "no restore point can be created while shards are being moved: try again when `cluster status` shows "
                "no move"
            )
        await asyncio.sleep(_POLL_SECONDS)


async def _make(cluster: Cluster, name: str) -> float:
    """Creates the point while writes to the coordinator's tables are blocked; returns how long writers waited.

    A transaction commits on its node first, then on the coordinator: the lock waits until none is in between.
    """
    for _ in range(_TRIES):
        began = time.monotonic()
        try:
            async with cluster.connection.transaction():
                await cluster.connection.execute(SQL["give_way"])
                await cluster.connection.execute(SQL["stop_queue"])
                await cluster.connection.execute(SQL["restore_point"], {"name": name})
        except psycopg.errors.LockNotAvailable:
            await asyncio.sleep(_AGAIN_SECONDS)
        except psycopg.Error as exc:
            # A server stops at the first point with a name, so one that exists on only some nodes must not be reused.
            raise ClusterError(f"{describe_error(exc)}. Use another name when you try again") from exc
        else:
            return time.monotonic() - began
    raise ClusterError("the queue never becomes free: a transaction that wrote to it doesn't end")


async def _finish_file(server: str, connection: Connection) -> str:
    """Ends the log file with the point, so that it is archived now; returns its name."""
    await _ask(server, connection, "write_to_log")  # without new data, the next statement would do nothing
    return (await _ask(server, connection, "finish_file"))[0]


async def _wait_for_archive(server: str, connection: Connection, file: str, deadline: float) -> None:
    while True:
        last, failure = await _ask(server, connection, "archived")
        if last is not None and last >= file:
            return
        if time.monotonic() > deadline:
            why = f"its archive_command fails for {failure}" if failure else f"the last file in it is {last}"
            raise ClusterError(f"{server}: the point exists, but the required {file} isn't in its archive: {why}")
        await asyncio.sleep(_POLL_SECONDS)


async def _require_quiet(cluster: Cluster) -> None:
    """Raises ClusterError if the coordinator might already be changing the nodes that were backed up."""
    loud = [row[0] for row in await cluster.rows("loud_settings", {"names": list(_QUIET)})]
    if loud:
        raise ClusterError(
            f"{', '.join(loud)} must be -1 while a restored coordinator still knows the nodes that were backed up:"
            " it would end their transactions. Restore with deploy/k8s/components/postgres-citus/scripts/restore.sh;"
            " a cluster that was told its addresses needs nothing"
        )


async def _require_restored(connection: Connection, node: Node, address: NodeAddress) -> None:
    recovering, group = await _ask(str(address), connection, "restored")
    if recovering:
        raise ClusterError(f"{address} is still being restored: wait until it accepts writes")
    if group != node.group:
        raise ClusterError(f"{address} is group {group} of its cluster, but {node.address} was group {node.group}")
