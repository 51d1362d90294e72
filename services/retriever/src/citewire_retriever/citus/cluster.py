"""A cluster as its operator sees it: its nodes, and the operator's connection to its coordinator."""

import asyncio
import math
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import psycopg
from psycopg import AsyncConnection

from citewire_kit.errors import StartupError
from citewire_kit.queries import load_queries

SQL: Final = load_queries("citewire_retriever.citus", "queries.sql")
_CONNECT_SECONDS: Final = 10
POLL_SECONDS: Final = 1.0
"""Between two looks at what nobody announces."""
_LOCK: Final = 7_205_181_034
"""Advisory lock for changes of the cluster."""

Connection = AsyncConnection[tuple[Any, ...]]
Say = Callable[[str], None]


class ClusterError(StartupError):
    """A request that can't be fulfilled; the message says why and what would help."""

    def __init__(self, message: str, *, deadlocked: bool = False) -> None:
        super().__init__(message)
        self.deadlocked: Final = deadlocked
        """Whether nothing was done because of a deadlock with another transaction, so that it can be repeated."""


class NodeAddress(NamedTuple):
    """A node's address, as reachable from the coordinator and the other nodes."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"{self.host}:{self.port}"


@dataclass(frozen=True, slots=True)
class Node:
    """A server of the cluster, according to the coordinator's catalogue."""

    node_id: int
    address: NodeAddress
    group: int
    """0: the coordinator."""
    active: bool
    takes_shards: bool


def parse_address(text: str) -> NodeAddress:
    """Reads HOST or HOST:PORT (5432 by default); an IPv6 address with a port must be in brackets.

    Raises:
        ClusterError: The port is invalid.
    """
    if text.startswith("["):
        host, _, rest = text[1:].partition("]")
        port = rest.removeprefix(":")
    elif text.count(":") > 1:
        host, port = text, ""
    else:
        host, _, port = text.partition(":")
    if not host or (port and not (port.isdecimal() and 0 < int(port) < 2**16)):
        raise ClusterError(f"{text!r} is not a node: give HOST or HOST:PORT, as reachable from the coordinator")
    return NodeAddress(host, int(port or 5432))


async def connect(dsn: str, what: str, *, wait_seconds: float = 0) -> Connection:
    """Connects as the schema's owner, waiting for a server that doesn't respond yet.

    Raises:
        ClusterError: It can't.
    """
    deadline = time.monotonic() + wait_seconds
    while True:
        try:
            return await AsyncConnection.connect(
                dsn, autocommit=True, connect_timeout=_CONNECT_SECONDS, application_name="citewire cluster"
            )
        except psycopg.Error as exc:
            if time.monotonic() >= deadline:
                raise ClusterError(f"{what} can't be reached: {str(exc).strip()}") from exc
        await asyncio.sleep(POLL_SECONDS)


async def limit_connecting(connection: Connection) -> None:
    """Limits how long this session's statements wait for a connection to a node."""
    await connection.execute(SQL["limit_connecting"], {"limit": f"{_CONNECT_SECONDS}s"})


class Cluster:
    """An open connection to the coordinator."""

    def __init__(self, dsn: str, connection: Connection, say: Say, *, wait_seconds: float = 0) -> None:
        self.dsn: Final = dsn
        self.connection: Final = connection
        self.say: Final = say
        self._wait_seconds = wait_seconds

    @staticmethod
    @asynccontextmanager
    async def open(
        dsn: str, say: Say, *, empty: bool = False, wait_seconds: float = 0
    ) -> AsyncGenerator["Cluster", None]:
        """Connects to the coordinator.

        Args:
            dsn: Connection string of the schema's owner.
            say: Receives messages for the operator.
            empty: Whether it may still lack our tables.
            wait_seconds: Maximum wait for a server that doesn't respond yet.

        Raises:
            ClusterError: It can't be reached, or isn't the coordinator of a cluster with our tables.
        """
        what = "the coordinator (CITEWIRE_RETRIEVER_MIGRATE_DSN)"
        connection = await connect(dsn, what, wait_seconds=wait_seconds)
        async with connection:
            try:
                await require_cluster(connection, empty=empty)
                await limit_connecting(connection)
                yield Cluster(dsn, connection, say, wait_seconds=wait_seconds)
            except psycopg.Error as exc:
                raise ClusterError(describe_error(exc)) from exc

    async def nodes(self) -> list[Node]:
        """All nodes, the coordinator first."""
        rows = await self.rows("nodes")
        return [Node(row[0], NodeAddress(row[1], row[2]), row[3], active=row[4], takes_shards=row[5]) for row in rows]

    async def rows(self, name: str, values: Mapping[str, Any] | None = None) -> list[tuple[Any, ...]]:
        """Executes a named query.

        Raises:
            ClusterError: The cluster reports an error.
        """
        try:
            return await (await self.connection.execute(SQL[name], values)).fetchall()
        except psycopg.Error as exc:
            deadlocked = isinstance(exc, psycopg.errors.DeadlockDetected)
            raise ClusterError(describe_error(exc), deadlocked=deadlocked) from exc

    async def require_nodes(self) -> None:
        """Waits for nodes that don't respond yet.

        Raises:
            ClusterError: A node doesn't respond, or isn't set up for moves by logical replication.
        """
        names = {node.node_id: str(node.address) for node in await self.nodes()}
        deadline = time.monotonic() + self._wait_seconds
        told: set[str] = set()
        while True:
            details = [(names.get(row[0], f"node {row[0]}"), row[1], row[2]) for row in await self.rows("node_details")]
            away = {name: result for name, answers, result in details if not answers}
            if not away or time.monotonic() >= deadline:
                break
            for name in away.keys() - told:
                self.say(f"{name} doesn't answer; waiting for it")
            told |= away.keys()
            await asyncio.sleep(POLL_SECONDS)
        if away:
            name, result = next(iter(away.items()))
            raise ClusterError(f"{name} doesn't answer: nothing is moved while a node is away ({result})")
        for name, _, result in details:
            require_settings(name, result)

    @asynccontextmanager
    async def alone(self, *, wait_seconds: float | None = None) -> AsyncGenerator[None, None]:
        """Waits for other changes of the cluster, such as those of a killed command; cleans up if all nodes answer.

        Args:
            wait_seconds: Maximum wait, for commands that nobody watches; None: a move may take hours, and the operator
                is told what is waited for.

        Raises:
            ClusterError: The other changes took longer.
        """
        deadline = math.inf if wait_seconds is None else time.monotonic() + wait_seconds
        told: list[int] = []
        while not await self._take_lock():
            holders = await self.rows("lock_holders", {"lock": _LOCK})
            other = "; ".join(describe_holder(row) for row in holders) or "it has just ended"
            if time.monotonic() >= deadline:
                raise ClusterError(
                    f"another command is changing the cluster ({other}): run this one again when that has ended"
                )
            sessions = [row[0] for row in holders]
            if holders and sessions != told:  # not for each of its statements
                self.say(f"another command is changing the cluster ({other}); waiting for it")
                told = sessions
            await asyncio.sleep(POLL_SECONDS)
        try:
            # One that is frozen would be waited for once for each thing that is left.
            if all(answers for _, answers, _ in await self.rows("node_details")):
                await self.connection.execute(SQL["clean_up"])
                await self._drop_forgotten()
                await self.connection.execute(SQL["leave_copies"])
            yield
        finally:
            if not self.connection.closed:
                await self.connection.execute("SELECT pg_advisory_unlock(%s)", (_LOCK,))

    async def _drop_forgotten(self) -> None:
        """Drops what was created for an interrupted move after Citus had cleaned up.

        A session on a frozen node still executes what it was sent before. A slot that is left keeps the node's log.
        """
        there = {row[0] for row in await self.rows("copying_objects")}
        # Read afterwards: Citus records an object before it creates it, and never uses a name again.
        if forgotten := sorted(there - {row[0] for row in await self.rows("copying_records")}):
            self.say(f"dropping what an interrupted move has left: {', '.join(forgotten)}")
            for node, why in await self.rows("drop_copying_objects", {"names": forgotten}):
                self.say(f"node {node} still has some of it: {why}")

    async def _take_lock(self) -> bool:
        row = await (await self.connection.execute("SELECT pg_try_advisory_lock(%s)", (_LOCK,))).fetchone()
        return row is not None and bool(row[0])

    async def with_progress(self, act: Awaitable[Any]) -> None:
        """Waits for running moves and splits of shards, and reports their progress."""
        watching = asyncio.create_task(self._watch())
        try:
            await act
        finally:
            watching.cancel()
            await asyncio.gather(watching, return_exceptions=True)

    async def _watch(self) -> None:
        async with await connect(self.dsn, "the coordinator") as connection:
            last = ""
            while True:
                await asyncio.sleep(POLL_SECONDS)
                rows = await (await connection.execute(SQL["moves"])).fetchall()
                text = "; ".join(describe_move(row) for row in rows)
                if text and text != last:
                    self.say(text)
                last = text


def describe_holder(row: tuple[Any, ...]) -> str:
    """Describes a row of the query `lock_holders` in words."""
    pid, since, statement = row
    return f"session {pid} on the coordinator, since {since}: {statement}"


def describe_move(row: tuple[Any, ...]) -> str:
    """Describes a row of the query `moves` in words."""
    operation, source, source_port, target, target_port, tables, size, done, status = row
    share = f", {min(100, 100 * done // size)} % of {size / 2**20:.0f} MiB" if size else ""
    where = f"{source}:{source_port} to {target}:{target_port}"
    return f"{operation}: {tables} tables from {where}{share} ({status})"


async def require_cluster(connection: Connection, *, empty: bool = False) -> None:
    """Raises ClusterError if a database isn't the coordinator of a cluster with our tables, unless it may be empty."""
    row = await (await connection.execute(SQL["engine"])).fetchone()
    version, schema = row or (None, False)
    if version is None:
        raise ClusterError("this database is a single Postgres without the Citus extension (docs/how-to/scaling.md)")
    group, distributed = (
        await (await connection.execute(SQL["place"])).fetchone() or (0, False) if schema else (0, False)
    )
    if group != 0:
        raise ClusterError("this is a worker node: connect to the coordinator")
    if not distributed and not empty:
        raise ClusterError("the tables of corpus aren't distributed: run `python -m citewire_retriever migrate` first")


def require_settings(name: str, details: Mapping[str, Any]) -> None:
    """Raises ClusterError if a node's settings don't allow moves by logical replication that lose nothing."""
    if details["wal_level"] != "logical":
        raise ClusterError(
            f"{name} has wal_level = {details['wal_level']}: shards are moved by logical replication."
            " Set it to logical, and restart the server"
        )
    if details["synchronous_commit"] == "off":
        # A move waits for the log, but copies only what was flushed: 0.24 s of commits were lost in a measurement.
        raise ClusterError(
            f"{name} has synchronous_commit = off: a move would lose the latest commits. Set it to on, and reload"
        )
    if not details["max_prepared_transactions"]:
        raise ClusterError(
            f"{name} has max_prepared_transactions = 0: set it to max_connections, and restart the server"
        )


def describe_error(exc: psycopg.Error) -> str:
    """The database's error message with its details."""
    parts = (exc.diag.message_primary or str(exc).strip(), exc.diag.message_detail, exc.diag.message_hint)
    return ". ".join(part for part in parts if part)
