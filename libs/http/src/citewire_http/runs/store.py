"""Stored runs: their events, who reads them, and whether they are wanted."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from psycopg.types.json import Jsonb

from citewire_http.metrics import RUNS
from citewire_kit.errors import Aborted, NotFound
from citewire_kit.postgres import Connection, Pool, tenant_statement, tenant_transaction, transaction
from citewire_kit.queries import load_queries
from citewire_kit.telemetry import get_logger
from citewire_kit.tenant import Tenant

SQL = load_queries("citewire_http.runs", "runs.sql")
_PAGE = 64
"""Batches that a reader gets at once."""

log = get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Batch:
    """Events stored together."""

    first: int
    last: int
    """Numbers of the first and the last event: each event has one, each piece of text too."""
    entries: list[dict[str, Any]]
    """The entries, as written by a `Codec`."""
    codec: int = 0
    """Version of their form."""


@dataclass(frozen=True, slots=True)
class StoredRun:
    """A run with stored events."""

    run_id: UUID
    request_id: str
    shown: Sequence[str]
    """Names of the events shown to its readers."""
    ended: bool


@dataclass(frozen=True, slots=True)
class RunPage:
    """The next batches of a run, and its state."""

    batches: Sequence[Batch]
    more: bool
    """Whether more batches are stored."""
    ended: bool
    """Whether nothing can follow."""
    lost: bool
    """Whether it ended because its gateway is gone."""
    overdue: bool
    """Whether its gateway seems to be gone, because its lease has expired."""


@dataclass(frozen=True, slots=True)
class RunState:
    """A gateway's data about its own run."""

    run_id: UUID
    cancelled: bool
    lost: bool
    """Whether others have declared it lost, because its lease had expired."""
    read_seconds: float | None
    """How long ago a reader was present at any gateway."""


@dataclass(frozen=True, slots=True)
class RunStore:
    """See the module. All methods raise `Unavailable` if the database can't be reached."""

    pool: Pool

    async def append(self, tenant: Tenant, run_id: UUID, batch: Batch) -> bool:
        """Stores a batch; returns false if the run has ended meanwhile."""
        async with tenant_transaction(self.pool, tenant) as connection:
            return await add_batch(connection, tenant, run_id, batch)

    async def find(self, tenant: Tenant, run_id: UUID) -> StoredRun:
        """Returns one of the user's runs.

        Raises:
            NotFound: There is none, or its events aren't stored (`RUN_NOT_FOUND`).
        """
        row = await (await tenant_statement(self.pool, tenant, SQL["find_run"], _names(tenant, run_id))).fetchone()
        if row is None:
            raise no_such_run(run_id)
        return StoredRun(*row)

    async def find_running(self, tenant: Tenant, conversation_id: UUID) -> StoredRun | None:
        """Returns the stored run that is writing the next answer of one of the user's conversations."""
        values = {"org": tenant.org_id, "user": tenant.user_id, "conversation": conversation_id}
        row = await (await tenant_statement(self.pool, tenant, SQL["find_conversation_run"], values)).fetchone()
        return None if row is None else StoredRun(*row)

    async def read(self, tenant: Tenant, run_id: UUID, after: int, *, touch: bool = False) -> RunPage:
        """Returns the next batches of one of the user's runs.

        Args:
            tenant: The run's owner.
            run_id: The run.
            after: Number of the last known event.
            touch: Whether to notify its gateway of a reader.
        """
        values = _names(tenant, run_id) | {"after": after, "limit": _PAGE}
        async with tenant_transaction(self.pool, tenant) as connection:
            if touch:
                await connection.execute(SQL["touch_run"], values)
            rows = await (await connection.execute(SQL["read_run"], values)).fetchall()
        if not rows:
            raise no_such_run(run_id)
        ended, lost, overdue = rows[0][:3]
        batches = [Batch(*row[3:]) for row in rows if row[3] is not None]
        more = len(batches) == _PAGE
        return RunPage(batches, more=more, ended=ended and not more, lost=lost, overdue=overdue)

    async def lose(self, tenant: Tenant, run_id: UUID) -> None:
        """Closes a run whose lease has expired: its gateway is gone, and no other one takes over."""
        lost = await tenant_statement(self.pool, tenant, SQL["lose_run"], _names(tenant, run_id))
        RUNS.labels("lost").inc(lost.rowcount)

    async def cancel(self, tenant: Tenant, run_id: UUID) -> str:
        """Requests one of the user's runs to stop, on any gateway; returns the state of its exchange.

        Raises:
            NotFound: There is none (`RUN_NOT_FOUND`).
        """
        row = await (await tenant_statement(self.pool, tenant, SQL["cancel_run"], _names(tenant, run_id))).fetchone()
        if row is None:
            raise no_such_run(run_id)
        return row[0]

    async def watch(self, runs: Mapping[UUID, str], lease_seconds: float) -> list[RunState]:
        """Renews the leases of a gateway's stored runs; returns those that need action.

        Args:
            runs: The organisation of each.
            lease_seconds: Until they count as lost.
        """
        values = {"orgs": list(runs.values()), "runs": list(runs), "seconds": lease_seconds}
        async with transaction(self.pool) as connection:
            return [RunState(*row) for row in await (await connection.execute(SQL["watch_runs"], values)).fetchall()]

    async def sweep(self, most: int = 1000) -> None:
        """Deletes the events of runs that ended long enough ago."""
        async with transaction(self.pool) as connection:
            row = await (await connection.execute(SQL["sweep_run_events"], {"most": most})).fetchone()
        if row is not None and row[0]:
            log.info("run_events_swept", runs=row[0])


async def add_batch(connection: Connection, tenant: Tenant, run_id: UUID, batch: Batch) -> bool:
    """Stores a batch in a tenant's transaction; returns false if the run has ended."""
    values = _names(tenant, run_id) | {
        "first": batch.first,
        "last": batch.last,
        "codec": batch.codec,
        "payload": Jsonb(batch.entries),
    }
    return await (await connection.execute(SQL["add_run_events"], values)).fetchone() is not None


def no_such_run(run_id: UUID | str) -> NotFound:
    """Returns the error for a run that doesn't exist, is another user's, or isn't stored: they look the same."""
    return NotFound(
        f"there is no run {str(run_id)[:64]}, or its events aren't stored (see grace_seconds and detach)",
        reason="RUN_NOT_FOUND",
    )


def run_lost() -> Aborted:
    """Returns the error for a run whose gateway is gone; no other one takes over."""
    return Aborted("the answer was lost with the server that wrote it: ask again", reason="RUN_LOST")


def _names(tenant: Tenant, run_id: UUID) -> dict[str, Any]:
    return {"org": tenant.org_id, "user": tenant.user_id, "exchange": run_id}
