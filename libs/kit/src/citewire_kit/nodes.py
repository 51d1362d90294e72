"""Nodes of a database that is spread over several: one that doesn't answer takes away only what it holds.

The coordinator goes on while a node is frozen or cut off, and so a pool's connections to it would all come to wait
for that node. Here each node's organisations have no more than a share of the pool, a node is asked once something has
waited for it too long, and while it doesn't answer its organisations are refused at once.
"""

import asyncio
import os
import re
import socket
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Set
from contextlib import AbstractContextManager, asynccontextmanager, suppress
from dataclasses import dataclass
from functools import wraps
from typing import Any, Final, ParamSpec, TypeVar

import psycopg
from psycopg import AsyncConnection

from citewire_kit.errors import Unavailable
from citewire_kit.fair import FairShares
from citewire_kit.tasks import end
from citewire_kit.telemetry import get_logger

log = get_logger(__name__)

SHARE: Final = 0.75
"""Share of a pool's connections for one node's organisations; the rest stays available for others."""

SUSPECT_SECONDS: Final = 1.0
"""Duration of a transaction after which its node is probed."""

ANSWER_SECONDS: Final = 4.0
"""A node that hasn't answered a trivial query within this time counts as unreachable: a busy one takes much less.
Transactions waiting for it are then aborted, so after SUSPECT_SECONDS more at most."""

_WATCH_SECONDS: Final = 4.0
"""Longest interval at which the node of a transaction that goes on is probed."""
AGAIN_SECONDS: Final = 1.0
"""Pause between probes of an unreachable node, in addition to their time limit."""

_KNOWN_SECONDS: Final = 60.0
"""How long an organisation's node is cached. After a move, the old node's share is used until then."""

_MOST_KNOWN: Final = 20_000
_CONNECT_SECONDS: Final = 5
_NODE_OF: Final = "SELECT citewire.node_of(%s)"
_NODES_OF: Final = "SELECT org, citewire.node_of(org) FROM unnest(%s::text[]) AS org"
_ASK: Final = "SELECT citewire.ask_node(%s)"
_SILENT: Final = "SELECT citewire.silent_nodes()"
_LIMIT: Final = (
    "SELECT set_config('citus.node_connection_timeout', %(limit)s, true),"
    " set_config('statement_timeout', %(limit)s, true)"
)
_LOST = re.compile(r"connection|remote node|(?:prepare|commit) transaction|could not find valid entry for shard")
"""The last is said of shards that were moved or split between a statement's plan and what it asks on a node."""
_CHANGED = re.compile(r"could not find valid entry for shard|shard for the given value does not|distributed deadlock")
"""Messages to statements that waited for the end of a split, and to one that a move waits for and that waits for it."""
_CHANGE_PAUSES: Final = (0.05, 0.2, 0.5)
"""Seconds before a transaction that met one is repeated: nodes learn of the new shards in turn, without notice."""
_ENDED: Final = "postmaster was shut down"
"""Citus's message if the coordinator is killed while it waits for a node."""

Connection = AsyncConnection[tuple[Any, ...]]
_P = ParamSpec("_P")
_T = TypeVar("_T")


class ShardsChanged(Unavailable):
    """The shards of a transaction were split or moved while it waited for them. Nothing of it was done."""


def met_change(error: psycopg.Error) -> bool:
    """Whether an error is Citus's message that shards were split, or that a deadlock was ended."""
    return error.sqlstate in ("XX000", "40001", "40P01") and bool(_CHANGED.search(error.diag.message_primary or ""))


def repeated(act: Callable[_P, Awaitable[_T]]) -> Callable[_P, Coroutine[Any, Any, _T]]:
    """Makes a function, which is one transaction, start over when it meets a split or move of its shards."""

    @wraps(act)
    async def run(*args: _P.args, **kwargs: _P.kwargs) -> _T:
        for pause in _CHANGE_PAUSES:
            try:
                return await act(*args, **kwargs)
            except ShardsChanged:
                log.info("transaction_repeated", after=pause)
                await asyncio.sleep(pause)
        return await act(*args, **kwargs)

    return run


def is_lost_node(error: psycopg.Error) -> bool:
    """Whether an internal error of Citus means that a connection to a node, or to the coordinator, was lost."""
    text = error.diag.message_primary or ""
    return error.sqlstate == "XX000" and (_ENDED in text or bool(_LOST.search(text)))


def break_off(connection: Connection) -> None:
    """Closes a connection in use, so that its user gets an error at once, without waiting for the server."""
    with suppress(OSError, psycopg.Error):
        # A second descriptor of the same socket: the connection's own is closed by its owner.
        shadow = socket.socket(fileno=os.dup(connection.pgconn.socket))
        try:
            shadow.shutdown(socket.SHUT_RDWR)
        finally:
            shadow.close()


@dataclass(slots=True, eq=False)
class NodeUse:
    """A running transaction of an organisation."""

    org_id: str
    node: str
    connection: Connection | None = None
    """Set once it has one."""
    broken: bool = False
    """Whether it was aborted because its node doesn't respond."""
    timer: asyncio.TimerHandle | None = None


class NodeGuard:
    """Tracks the state of a pool's nodes. It uses its own connections, so that it never waits for the pool."""

    def __init__(
        self,
        dsn: str,
        *,
        size: int,
        name: str,
        read: Callable[[str, tuple[str, ...]], Awaitable[tuple[Any, ...] | None]],
        refusal: Callable[[str], Unavailable],
        while_waiting: Callable[[], AbstractContextManager[None]],
    ) -> None:
        """Assumes at first that all nodes are reachable.

        Args:
            dsn: Connection string of the pool's database, past any pooler.
            size: Maximum size of the pool.
            name: The pool's name.
            read: Executes a statement on a connection of the pool, and returns its first row.
            refusal: Creates the error for callers that get no connection in time.
            while_waiting: Entered by each caller that waits for its node's share, for metrics.
        """
        self._dsn = dsn
        self._name = name
        self._most = max(1, int(size * SHARE))
        self._read = read
        self._refusal = refusal
        self._while_waiting = while_waiting
        self._known: dict[str, tuple[str, float]] = {}  # organisations' nodes, and when they were determined
        self._shares: dict[str, FairShares] = {}
        self._uses: set[NodeUse] = set()
        self._away: set[str] = set()
        self._looking: dict[str, asyncio.Task[None]] = {}
        self._looked: dict[str, float] = {}
        self._lookups: dict[str, asyncio.Task[str]] = {}

    @property
    def away(self) -> frozenset[str]:
        """Nodes that don't respond now, as far as this process has noticed."""
        return frozenset(self._away)

    def away_organisations(self) -> list[str]:
        """Recently active organisations whose node doesn't respond."""
        return [org_id for org_id, (node, _) in self._known.items() if node in self._away] if self._away else []

    @asynccontextmanager
    async def admit(self, org_id: str, seconds: float) -> AsyncGenerator[NodeUse]:
        """Holds one of the node's share of connections during the block, which sets the connection.

        Raises:
            Unavailable: The node doesn't respond, or none of its share became free in time.
        """
        until = time.monotonic() + seconds
        node = await self._node_of(org_id)
        self._check(node)
        shares = self._shares.get(node)
        if shares is None:
            shares = FairShares(self._most, self._refusal, while_waiting=self._while_waiting)
            self._shares[node] = shares
        async with shares.hold(org_id, seconds=max(0.0, until - time.monotonic())):
            self._check(node)
            use = NodeUse(org_id, node)
            self._uses.add(use)
            self._watch(use, SUSPECT_SECONDS)
            try:
                yield use
            except Unavailable as error:
                if use.broken:
                    raise _is_away() from error
                if error.__cause__ is not None:  # the driver's error; without one, nothing was sent
                    self._suspect(use)
                raise
            finally:
                self._uses.discard(use)
                if use.timer is not None:
                    use.timer.cancel()

    async def require_all(self) -> None:
        """Checks that all nodes respond, before an operation that needs them all.

        Raises:
            Unavailable: A node doesn't respond.
        """
        silent: list[str] | None = None
        try:
            async with self._connected(2 * ANSWER_SECONDS) as connection, connection.transaction():
                await connection.execute(_LIMIT, {"limit": f"{ANSWER_SECONDS:.0f}s"})
                row = await (await connection.execute(_SILENT)).fetchone()
            silent = None if row is None else row[0]
        except (psycopg.OperationalError, psycopg.InternalError) as exc:
            log.warning("nodes_not_asked", error=str(exc))
        if silent is None or silent:
            log.warning("nodes_silent", nodes=silent)
            raise Unavailable(
                "this needs all nodes of the database, and one doesn't answer",
                reason="DATABASE_UNAVAILABLE",
                retry_after=AGAIN_SECONDS,
            )

    async def retire(self) -> None:
        """Stops probing. Lookups go on: they may wait for the very connection that shows that there are no nodes."""
        await end(*self._looking.values())

    async def close(self) -> None:
        """Stops probing and looking up."""
        await end(*self._looking.values(), *self._lookups.values())

    def _check(self, node: str) -> None:
        if node in self._away:
            raise _is_away()

    async def _node_of(self, org_id: str) -> str:
        """Returns an organisation's node from the cache; read anew, and sooner, if that node is unreachable."""
        known = self._known.get(org_id)
        if known is None:
            return await self._find(org_id)
        node, age = known[0], time.monotonic() - known[1]
        if node in self._away and age >= AGAIN_SECONDS:
            # It may have been moved since, and isn't refused for its former node's sake.
            return await self._find(org_id)
        if age < _KNOWN_SECONDS:
            return node
        self._learn(org_id, node)  # others use the cached value meanwhile
        return await self._find(org_id)

    async def _find(self, org_id: str) -> str:
        """Reads an organisation's node, once for all who ask at the same time."""
        lookup = self._lookups.get(org_id)
        if lookup is None:
            lookup = asyncio.create_task(self._read_node(org_id), name=f"{self._name}-node-of")
            self._lookups[org_id] = lookup
            lookup.add_done_callback(lambda _: self._lookups.pop(org_id, None))
        return await asyncio.shield(lookup)

    async def _read_node(self, org_id: str) -> str:
        row = await self._read(_NODE_OF, (org_id,))
        node = str(row[0]) if row is not None else ""
        self._learn(org_id, node)
        return node

    def _learn(self, org_id: str, node: str) -> None:
        if len(self._known) >= _MOST_KNOWN and org_id not in self._known:
            self._known.clear()
        self._known[org_id] = (node, time.monotonic())

    def _watch(self, use: NodeUse, seconds: float) -> None:
        """Has the node of a long transaction probed, and again, at growing intervals."""

        def is_late() -> None:
            self._suspect(use)
            self._watch(use, min(2 * seconds, _WATCH_SECONDS))

        use.timer = asyncio.get_running_loop().call_later(seconds, is_late)

    def _suspect(self, use: NodeUse) -> None:
        """Has a node probed, unless it is being probed or has just responded."""
        if use.node in self._looking or time.monotonic() - self._looked.get(use.node, -AGAIN_SECONDS) < AGAIN_SECONDS:
            return
        self._look_after(use.node, use.org_id)

    def _look_after(self, node: str, org_id: str) -> None:
        task = asyncio.create_task(self._look(node, org_id), name=f"{self._name}-node")
        self._looking[node] = task
        task.add_done_callback(lambda _: self._looking.pop(node, None))

    async def _look(self, node: str, org_id: str) -> None:
        """Probes a node through one of its organisations, repeatedly while it doesn't respond."""
        while True:
            now_at, answers = await self._ask(org_id)
            if now_at is not None:
                self._learn(org_id, now_at)
            if now_at is not None and now_at != node:
                # It was moved, or its node has a new address: the result is another node's.
                await self._set_away(node, away=False)
                if answers is False and now_at not in self._looking:
                    self._look_after(now_at, org_id)
                return
            if answers is not None:
                await self._set_away(node, away=not answers)
            if node not in self._away:
                self._looked[node] = time.monotonic()
                return
            await asyncio.sleep(AGAIN_SECONDS)

    async def _set_away(self, node: str, *, away: bool) -> None:
        if away == (node in self._away):
            return
        if not away:
            self._away.discard(node)
            log.warning("node_back", node=node, pool=self._name)
            return
        self._away.add(node)
        uses = [use for use in self._uses if use.node == node and use.connection is not None]
        moved = await self._moved_from(node, {use.org_id for use in uses}) if uses else frozenset[str]()
        uses = [use for use in uses if use in self._uses and use.org_id not in moved]
        log.warning("node_away", node=node, pool=self._name, broken_off=len(uses), moved=len(moved))
        for use in uses:
            use.broken = True
            if use.connection is not None:
                break_off(use.connection)

    async def _moved_from(self, node: str, org_ids: Set[str]) -> frozenset[str]:
        """Returns those of the organisations that are on another node by now; none if that can't be determined."""
        try:
            async with self._connected(ANSWER_SECONDS) as connection:
                places = await (await connection.execute(_NODES_OF, (sorted(org_ids),))).fetchall()
        except psycopg.Error as exc:
            log.warning("node_not_asked", error=str(exc), error_type=type(exc).__name__)
            return frozenset()
        for org_id, now_at in places:
            self._learn(org_id, now_at)
        return frozenset(org_id for org_id, now_at in places if now_at != node)

    async def _ask(self, org_id: str) -> tuple[str | None, bool | None]:
        """Determines an organisation's node and sends it a trivial query, on a new connection.

        A previously used connection would be stuck on the coordinator: Citus waits without a limit for a frozen node
        to acknowledge that a statement is cancelled. With a new one, it gives up the attempt to connect.

        Returns:
            The node, and whether it responds; None for what is unknown because the coordinator is unreachable.
        """
        node: str | None = None
        late = False
        try:
            async with await self._connect() as connection:

                def give_up() -> None:
                    nonlocal late
                    late = True
                    break_off(connection)

                limit = asyncio.get_running_loop().call_later(_CONNECT_SECONDS, break_off, connection)
                try:
                    row = await (await connection.execute(_NODE_OF, (org_id,))).fetchone()
                    node = str(row[0]) if row is not None else ""
                    limit.cancel()
                    limit = asyncio.get_running_loop().call_later(ANSWER_SECONDS + 0.5, give_up)
                    try:
                        async with connection.transaction():
                            await connection.execute(_LIMIT, {"limit": f"{ANSWER_SECONDS:.0f}s"})
                            await connection.execute(_ASK, (org_id,))
                    except (psycopg.OperationalError, psycopg.InternalError) as exc:
                        log.info("node_asked", node=node, error=str(exc))
                        return node, False if late or not connection.closed else None
                    return node, True
                finally:
                    limit.cancel()
        except psycopg.Error as exc:
            log.warning("node_not_asked", error=str(exc), error_type=type(exc).__name__)
            return None, None

    @asynccontextmanager
    async def _connected(self, seconds: float) -> AsyncGenerator[Connection]:
        """A connection of its own, broken off after so many seconds."""
        async with await self._connect() as connection:
            limit = asyncio.get_running_loop().call_later(seconds, break_off, connection)
            try:
                yield connection
            finally:
                limit.cancel()

    async def _connect(self) -> Connection:
        return await AsyncConnection.connect(
            self._dsn, autocommit=True, connect_timeout=_CONNECT_SECONDS, application_name=f"{self._name}-node"
        )


def _is_away() -> Unavailable:
    return Unavailable(
        "the part of the database with this organisation can't be reached",
        reason="DATABASE_UNAVAILABLE",
        retry_after=AGAIN_SECONDS,
    )
