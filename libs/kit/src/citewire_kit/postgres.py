"""Connections to Postgres, and the one function that sets the tenant of a transaction."""

import asyncio
import select
import time
import weakref
from collections.abc import AsyncGenerator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from typing import Any, Final

import psycopg
from psycopg import AsyncConnection, AsyncCursor
from psycopg.pq import PipelineStatus
from psycopg_pool import AsyncConnectionPool

from citewire_kit import pool_metrics
from citewire_kit.deadline import remaining
from citewire_kit.errors import DeadlineExceeded, Unavailable
from citewire_kit.fair import FairShares
from citewire_kit.nodes import NodeGuard, NodeUse
from citewire_kit.postgres_checks import check_dsn
from citewire_kit.postgres_errors import translated
from citewire_kit.queries import Query
from citewire_kit.tenant import Tenant
from citewire_kit.transaction_settings import BEGIN, Resolved, begin, find_nodes, is_spread, set_all, settings_of

Connection = AsyncConnection[tuple[Any, ...]]
Pool = AsyncConnectionPool[Connection]

STATEMENT_SECONDS: Final = 30.0
"""Maximum duration of one statement; less if the running call has less time left."""

CHECKOUT_SECONDS: Final = 3.0
"""Maximum wait for a free connection: long enough for a short restart, shorter than callers' timeouts."""

ANSWER_SECONDS: Final = 0.3
"""Reserved for reporting that the database is unavailable before the caller's own deadline."""

_shares: weakref.WeakKeyDictionary[Pool, FairShares] = weakref.WeakKeyDictionary()
_resolved: weakref.WeakKeyDictionary[Pool, "Resolved"] = weakref.WeakKeyDictionary()
_guards: weakref.WeakKeyDictionary[Pool, NodeGuard] = weakref.WeakKeyDictionary()


class _GuardedPool(AsyncConnectionPool[Connection]):
    """A pool that tracks the nodes of its database, if that is distributed."""

    async def close(self, timeout: float = 5.0) -> None:
        guard = _guards.pop(self, None)
        if guard is not None:
            await guard.close()
        await super().close(timeout)


def guard_of(pool: Pool) -> NodeGuard | None:
    """Returns the nodes of a pool's database; None if it isn't distributed, or nobody has connected yet."""
    return _guards.get(pool)


async def open_pool(
    dsn: str,
    *,
    direct_dsn: str | None = None,
    min_size: int = 1,
    max_size: int = 8,
    name: str,
    checkout_seconds: float = CHECKOUT_SECONDS,
    resolved: Resolved | None = None,
) -> Pool:
    """Opens a pool of autocommit connections.

    The pool connects in the background and retries, so it reaches a database that is still starting or returns; until
    then calls fail with `DATABASE_UNAVAILABLE`.

    Args:
        dsn: libpq connection string with the process's role.
        direct_dsn: One that no pooler stands behind, for probing nodes; None if `dsn` is.
        min_size: Minimum number of connections.
        max_size: Maximum number of connections.
        name: Shown as `application_name`.
        checkout_seconds: Maximum wait for a free connection.
        resolved: Set in each tenant's transaction, after the tenant.

    Raises:
        StartupError: The connection string is malformed.
    """
    check_dsn(dsn, name)
    if direct_dsn is not None:
        check_dsn(direct_dsn, name)

    async def configure(connection: Connection) -> None:
        await find_nodes(connection)
        if is_spread(connection):
            if pool not in _guards:
                _guards[pool] = _make_guard(pool, direct_dsn or dsn)
        elif (guard := _guards.pop(pool, None)) is not None:
            await guard.retire()  # the connection string leads to one Postgres again

    pool: Pool = _GuardedPool(
        dsn,
        connection_class=AsyncConnection,
        kwargs={
            "autocommit": True,
            "application_name": name,
            "connect_timeout": 5,
            "keepalives_idle": 10,
            "keepalives_interval": 3,
            "keepalives_count": 3,
        },
        min_size=min_size,
        max_size=max_size,
        name=name,
        timeout=checkout_seconds,
        reconnect_timeout=5,  # afterwards the next checkout starts over, instead of waiting for a growing backoff
        max_lifetime=30 * 60,
        configure=configure,
        open=False,
    )
    if resolved is not None:
        _resolved[pool] = resolved
    await pool.open()
    pool_metrics.watch(pool)
    return pool


@asynccontextmanager
async def tenant_transaction(
    pool: Pool,
    tenant: Tenant,
    *,
    statement_seconds: float = STATEMENT_SECONDS,
    snapshot: bool = False,
    plan_once: bool = False,
) -> AsyncGenerator[Connection, None]:
    """Opens a transaction in which row-level security shows this tenant's rows.

    The settings end with the transaction, so that a connection (or the server of a transaction-mode pooler) never
    carries one tenant's context into another's transaction.

    Args:
        pool: Pool from which the connection is taken.
        tenant: Tenant whose rows are visible.
        statement_seconds: Maximum duration of one statement.
        snapshot: Read-only, with one snapshot for all statements; otherwise each sees what was committed before it.
        plan_once: See `plans`.

    Raises:
        Unavailable: The database can't be reached, or another transaction conflicted; the whole transaction can
            be repeated (reason `DATABASE_UNAVAILABLE`).
        DeadlineExceeded: A statement was cancelled at its time limit, or no time is left.
    """
    async with _transaction(pool, tenant, statement_seconds, snapshot=snapshot, plan_once=plan_once) as connection:
        yield connection


class Batch:
    """A transaction that sends its statements together; see `tenant_batch`."""

    def __init__(self, connection: Connection, pipeline: AsyncExitStack) -> None:
        self.connection: Final = connection
        """In pipeline mode: statements are sent when a result is fetched, or at `finish`."""
        self._pipeline = pipeline

    async def finish(self) -> None:
        """Ends the transaction and waits for all results, which can be fetched afterwards. No statement may follow."""
        await self.connection.execute(b"COMMIT", prepare=False)
        await self._pipeline.aclose()  # sends everything; synchronising before would take another round trip


@asynccontextmanager
async def tenant_batch(
    pool: Pool,
    tenant: Tenant,
    *,
    statement_seconds: float = STATEMENT_SECONDS,
    snapshot: bool = True,
    plan_once: bool = False,
) -> AsyncGenerator[Batch, None]:
    """Opens a transaction that takes one round trip: its beginning, statements and end are sent together.

    If the block ends without `finish`, the transaction is rolled back. Once a statement fails, the rest isn't executed.

    Args:
        pool: Pool from which the connection is taken.
        tenant: Tenant whose rows are visible.
        statement_seconds: Maximum duration of one statement.
        snapshot: See `tenant_transaction`.
        plan_once: See `plans`.

    Raises:
        Unavailable, DeadlineExceeded: As `tenant_transaction`.
    """
    async with _connection_of(pool, tenant) as connection, AsyncExitStack() as stack:
        await stack.enter_async_context(connection.pipeline())
        await connection.execute(BEGIN[snapshot], prepare=False)
        settings = settings_of(tenant, _within(statement_seconds), plan_once=plan_once, spread=is_spread(connection))
        # With parameters, so that the server parses it once per connection.
        first, *others = set_all(connection, tuple(settings), _resolved.get(pool))
        await connection.execute(first, settings)
        for statement in others:
            await connection.execute(statement)
        yield Batch(connection, stack)


async def tenant_statement(
    pool: Pool,
    tenant: Tenant,
    statement: Query,
    values: Mapping[str, Any],
    *,
    plan_once: bool = False,
    binary: bool = False,
) -> AsyncCursor[tuple[Any, ...]]:
    """Executes one statement in a tenant's transaction of its own: one round trip instead of three.

    Args:
        pool: Pool from which the connection is taken.
        tenant: Tenant whose rows are visible.
        statement: The statement, which may write.
        values: Its parameters, by name.
        plan_once: See `plans`.
        binary: Whether its rows come in Postgres's binary format.

    Returns:
        Its cursor, after the commit: rows can still be fetched.

    Raises:
        Unavailable, DeadlineExceeded: As `tenant_transaction`.
    """
    async with tenant_batch(pool, tenant, snapshot=False, plan_once=plan_once) as batch:
        cursor = await batch.connection.execute(statement, values, binary=binary)
        await batch.finish()
    return cursor


@asynccontextmanager
async def autocommit_connection(pool: Pool) -> AsyncGenerator[Connection, None]:
    """Takes a connection from the pool without a transaction: each statement commits on its own.

    For LISTEN and the like; tables are read and written in `tenant_transaction` or `transaction`. A transaction begun
    in the block is committed at its end, and rolled back on an exception. Raises as `tenant_transaction`.
    """
    async with _held_connection(pool, None) as connection:
        yield connection


@asynccontextmanager
async def _held_connection(pool: Pool, use: NodeUse | None) -> AsyncGenerator[Connection, None]:
    with translated():
        connection = await _checkout(pool)
        if use is not None:
            use.connection = connection
        try:
            async with connection:
                yield connection
        except psycopg.errors.ReadOnlySqlTransaction:
            await connection.close()  # another server has taken over, which a new connection finds
            raise
        finally:
            if use is not None:
                use.connection = None  # it will be another caller's
            # Cancelled while entering pipeline mode, psycopg 3.3.9 never leaves it, and its next user fails.
            if connection.pgconn.pipeline_status != PipelineStatus.OFF:
                await connection.close()  # the pool opens another one
            await pool.putconn(connection)


@asynccontextmanager
async def transaction(pool: Pool, *, statement_seconds: float = STATEMENT_SECONDS) -> AsyncGenerator[Connection, None]:
    """Opens a transaction without a tenant, for tables without tenants' content. Raises as `tenant_transaction`."""
    async with _transaction(pool, None, statement_seconds) as connection:
        yield connection


async def read_row(pool: Pool, statement: Query, values: Mapping[str, Any]) -> tuple[Any, ...] | None:
    """Executes one statement without a tenant and without a transaction: one round trip instead of three.

    Returns:
        The first row; None if there is none.

    Raises:
        Unavailable, DeadlineExceeded: As `tenant_transaction`.
    """
    try:
        async with asyncio.timeout(_within(STATEMENT_SECONDS)), autocommit_connection(pool) as connection:
            return await (await connection.execute(statement, values)).fetchone()
    except TimeoutError as exc:
        raise DeadlineExceeded("the database took longer than allowed", reason="DEADLINE_EXCEEDED") from exc


async def is_alive(pool: Pool) -> bool:
    """Checks that the database responds.

    Health uses its own pool: a database isn't down because requests wait for a connection. Raises as
    `tenant_transaction`.
    """
    async with autocommit_connection(pool) as connection:
        return await (await connection.execute("SELECT 1")).fetchone() is not None


@asynccontextmanager
async def _transaction(
    pool: Pool, tenant: Tenant | None, statement_seconds: float, *, snapshot: bool = False, plan_once: bool = False
) -> AsyncGenerator[Connection, None]:
    async with _connection_of(pool, tenant) as connection:
        settings = settings_of(tenant, _within(statement_seconds), plan_once=plan_once, spread=is_spread(connection))
        resolved = None if tenant is None else _resolved.get(pool)
        await connection.execute(begin(connection, settings, resolved, snapshot=snapshot), prepare=False)
        yield connection


@asynccontextmanager
async def _connection_of(pool: Pool, tenant: Tenant | None) -> AsyncGenerator[Connection, None]:
    """Takes a connection when it is the tenant's turn: organisations share a pool, however many callers each has."""
    if tenant is None:
        async with autocommit_connection(pool) as connection:
            yield connection
        return
    shares = _shares.get(pool)
    if shares is None:
        waiting = partial(pool_metrics.waiting_in_turn, pool)
        shares = _shares[pool] = FairShares(pool.max_size, _none_free, while_waiting=waiting)
    guard = _guards.get(pool)
    if guard is None:
        async with shares.hold(tenant.org_id, seconds=_patience(pool)), autocommit_connection(pool) as connection:
            yield connection
        return
    until = time.monotonic() + _patience(pool)
    async with (
        guard.admit(tenant.org_id, until - time.monotonic()) as use,
        shares.hold(tenant.org_id, seconds=max(0.0, until - time.monotonic())),
        _held_connection(pool, use) as connection,
    ):
        yield connection


def _make_guard(pool: Pool, dsn: str) -> NodeGuard:
    async def read(statement: str, values: tuple[str, ...]) -> tuple[Any, ...] | None:
        async with autocommit_connection(pool) as connection:
            if not is_spread(connection):
                return None
            return await (await connection.execute(statement.encode(), values)).fetchone()

    return NodeGuard(
        dsn,
        size=pool.max_size,
        name=pool.name,
        read=read,
        refusal=_none_free,
        while_waiting=partial(pool_metrics.waiting_in_turn, pool),
    )


def _none_free(_: str) -> Unavailable:
    return Unavailable("no database connection was free in time", reason="DATABASE_UNAVAILABLE", retry_after=1.0)


def _within(seconds: float) -> float:
    left = remaining()
    if left is None:
        return seconds
    if left <= 0:
        raise DeadlineExceeded("no time was left for the database", reason="DEADLINE_EXCEEDED")
    return min(seconds, left)


def _patience(pool: Pool) -> float:
    """Returns how long a caller waits for a connection."""
    left = _within(pool.timeout + ANSWER_SECONDS)
    return max(left - ANSWER_SECONDS, left / 2)


async def _checkout(pool: Pool) -> Connection:
    """Takes a live connection from the pool.

    The pool's own check costs a round trip each time, and waits longer and longer between the dead connections that a
    restart of the server leaves in the pool. A dead connection's socket is readable; an idle one's isn't.
    """
    until = time.monotonic() + _patience(pool)
    while True:
        connection = await pool.getconn(timeout=until - time.monotonic())
        if not _readable(connection):
            return connection
        try:
            await AsyncConnectionPool.check_connection(connection)
        except psycopg.OperationalError:
            await pool.putconn(connection)  # which replaces it
        except BaseException:
            await pool.putconn(connection)
            raise
        else:
            return connection


def _readable(connection: Connection) -> bool:
    poll = select.poll()
    poll.register(connection.pgconn.socket, select.POLLIN)
    return bool(poll.poll(0))
