"""Reads the audit trail: an organisation's events, and all chains for their check."""

import time
import uuid
from collections.abc import AsyncGenerator, AsyncIterator, Iterable
from contextlib import aclosing
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import psycopg
from psycopg import AsyncConnection, IsolationLevel

from citewire_kit.audit import AuditTrail
from citewire_kit.audit_chain import Block, ChainCheck, Head, OrgDigest, Report, cut_object, cuts_of
from citewire_kit.audit_events import Action, AuditEvent, own_event
from citewire_kit.errors import StartupError, Unavailable
from citewire_kit.postgres import Connection, Pool, tenant_transaction, transaction
from citewire_kit.queries import load_queries
from citewire_kit.telemetry import get_logger
from citewire_kit.tenant import Tenant

_SQL = load_queries("citewire_accounts.tenants", "audit.sql")
_ROWS = 1000
_CUT_SECONDS = 3600.0

log = get_logger(__name__)

Position = tuple[datetime, uuid.UUID, int, int]
"""An event's position: time, process, block, ordinal."""


@dataclass(frozen=True, slots=True)
class AuditQuery:
    """Which events are requested."""

    start: datetime
    """The first moment."""
    end: datetime
    """The moment after the last."""
    user_id: str | None = None
    action: str | None = None
    object_name: str | None = None
    """Events that name this object, as `document:17`."""


class AuditReader:
    """Reads organisations' events."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    async def page(
        self, tenant: Tenant, query: AuditQuery, after: Position | None, most: int
    ) -> list[tuple[Position, AuditEvent]]:
        """Returns at most `most` events of the tenant's organisation, oldest first, from after a position on."""
        names = ("after_at", "after_process", "after_seq", "after_ordinal")
        values: dict[str, Any] = {
            "org": tenant.org_id,
            "start": query.start,
            "end": query.end,
            "user": query.user_id,
            "action": query.action,
            "object": query.object_name,
            "most": most,
            **dict(zip(names, after or (None,) * 4, strict=True)),
        }
        async with tenant_transaction(self._pool, tenant) as connection:
            rows = await (await connection.execute(_SQL["list_events"], values)).fetchall()
        return [((row[3], row[0], row[1], row[2]), _event(row[3:])) for row in rows]


class AuditRetention:
    """Removes expired events.

    Args:
        pool: Connections of the role `citewire_chat`.
        trail: Takes the events that say what was removed.
        days: For which organisations without a policy of their own keep events.
    """

    def __init__(self, pool: Pool, trail: AuditTrail, days: int) -> None:
        self._pool = pool
        self._trail = trail
        self._days = days
        self._next = float("-inf")

    async def cut(self) -> None:
        """Removes expired events, at most once an hour. The removal is recorded in the trail first.

        Raises:
            Unavailable, DeadlineExceeded: As `transaction`.
        """
        now = time.monotonic()
        if now < self._next:
            return
        self._next = now + _CUT_SECONDS
        async with transaction(self._pool) as connection:
            due = await (await connection.execute(_SQL["audit_due"], {"days": self._days})).fetchall()
        for org_id, before in due:
            objects = (cut_object(before),)
            self._trail.add(own_event(org_id, Action.AUDIT_CUT, objects))
        await self._trail.flush()
        for org_id, before in due:
            async with transaction(self._pool, statement_seconds=_CUT_SECONDS) as connection:
                cursor = await connection.execute(_SQL["cut_audit"], {"org": org_id, "before": before})
                row = await cursor.fetchone()
            log.info("audit_cut", org=org_id, before=before.isoformat(), events=row[0] if row else 0)


async def check_trail(dsn: str, heads: Iterable[Head] = ()) -> Report:
    """Checks all chains in one snapshot.

    Args:
        dsn: Connection string of the role that owns the schema `chat`: no other sees all events.
        heads: Earlier heads of chains, kept outside the database.

    Raises:
        StartupError: The role doesn't see the chains.
        Unavailable: The database can't be reached.
    """
    try:
        connection = await AsyncConnection.connect(dsn, connect_timeout=10, application_name="citewire-audit")
        async with connection:
            await connection.set_isolation_level(IsolationLevel.REPEATABLE_READ)
            await connection.set_read_only(True)
            return await _check(connection, heads)
    except psycopg.OperationalError as exc:
        raise Unavailable("the database can't be reached", reason="DATABASE_UNAVAILABLE") from exc


async def _check(connection: Connection, heads: Iterable[Head]) -> Report:
    row = await (await connection.execute(_SQL["can_read_all"])).fetchone()
    if row is None or not row[0]:
        raise StartupError(
            "only the owner of the schema `chat` can check the audit trail: no other role sees all of it"
        )
    notices = await connection.execute(_SQL["cut_events"], {"action": Action.AUDIT_CUT})
    checking = ChainCheck(cuts_of(map(_event, await notices.fetchall())), heads)
    async with aclosing(_rows(connection, "all_events")) as rows:
        events = _Events(rows)
        async with aclosing(_rows(connection, "all_blocks")) as blocks:
            async for process_id, process, seq, at, prev, digest, groups in blocks:
                digests = {org: OrgDigest(count, text) for org, (count, text) in groups.items()}
                block = Block(process_id, process, seq, at, prev, digests, digest)
                orphans = await events.before((process_id, seq))
                checking.report.problems += orphans
                checking.add(block, await events.of((process_id, seq)))
        checking.report.problems += await events.before(None)
    return checking.finish()


class _Events:
    """All events in the order of their blocks, taken block by block."""

    def __init__(self, rows: AsyncIterator[tuple[Any, ...]]) -> None:
        self._rows = rows
        self._next: tuple[Any, ...] | None = None

    async def of(self, block: tuple[uuid.UUID, int]) -> list[AuditEvent]:
        """Returns the events of a block."""
        events: list[AuditEvent] = []
        while (row := await self._peek()) is not None and row[:2] == block:
            events.append(_event(row[2:]))
            self._next = None
        return events

    async def before(self, block: tuple[uuid.UUID, int] | None) -> list[str]:
        """Skips the events before a block, or all remaining ones, which belong to no block."""
        orphans: dict[tuple[uuid.UUID, int], int] = {}
        while (row := await self._peek()) is not None and (block is None or row[:2] < block):
            orphans[row[:2]] = orphans.get(row[:2], 0) + 1
            self._next = None
        return [
            f"{process} block {seq}: is missing, and has {count} events" for (process, seq), count in orphans.items()
        ]

    async def _peek(self) -> tuple[Any, ...] | None:
        if self._next is None:
            self._next = await anext(self._rows, None)
        return self._next


async def _rows(connection: Connection, query: str) -> AsyncGenerator[tuple[Any, ...]]:
    async with connection.cursor(name=query) as cursor:
        cursor.itersize = _ROWS
        await cursor.execute(_SQL[query])
        async for row in cursor:
            yield row


def _event(row: tuple[Any, ...]) -> AuditEvent:
    at, org_id, user_id, key_id, issuer, action, objects, *rest = row
    return AuditEvent(at, org_id, user_id, key_id, issuer, action, tuple(objects), *rest)
