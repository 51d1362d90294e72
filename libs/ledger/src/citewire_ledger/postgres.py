"""The ledger in Postgres.

A call's row is opened before the block and settled after it, in a task of its own that the caller's cancellation
doesn't reach. While the database is away, settlements wait in memory and are retried. If the process dies first, the
sweeper of another process, or of its successor, settles the row by what the last heartbeat recorded.
"""

import asyncio
import contextvars
from collections.abc import AsyncGenerator, Coroutine
from contextlib import asynccontextmanager
from typing import Any, Final

from citewire_kit.errors import CitewireError
from citewire_kit.ids import uuid7
from citewire_kit.postgres import open_pool
from citewire_kit.postgres_checks import check_dsn, require_schema
from citewire_kit.tasks import end
from citewire_kit.telemetry import get_logger
from citewire_kit.tenant import current_call_context, current_request_id, current_tenant, use_request_id
from citewire_ledger import metrics
from citewire_ledger.ledger import Ledger, LedgerCall
from citewire_ledger.model import CallUsage, Outcome, Settlement
from citewire_ledger.store import LedgerEntry, LedgerStore

log = get_logger(__name__)

LEASE_SECONDS: Final = 30.0
"""After this time without a heartbeat a call counts as lost. A sweep runs every third of it."""

SETTLE_WAIT_SECONDS: Final = 0.5
"""How long an answer waits for its settlement; after that it is sent, and the settlement is retried."""

CLOSE_SECONDS: Final = 5.0
"""How long the end of the process waits for settlements; another process's sweeper settles the rest."""

_ADVICE: Final = "run `python -m citewire_ledger migrate` on the database of CITEWIRE_LEDGER_DSN first"
_RETRY_SECONDS: Final = (0.2, 0.5, 1.0, 2.0, 5.0)
_POOL: Final = 8


@asynccontextmanager
async def open_ledger(
    dsn: str, *, process: str, lease_seconds: float = LEASE_SECONDS, max_connections: int = _POOL
) -> AsyncGenerator["PostgresLedger"]:
    """Opens the ledger of a process, with its heartbeats and its sweeper. Closing waits for settlements.

    Calls are refused until the database can be reached. One that can be reached must have been migrated.

    Args:
        dsn: Connection string of the role `citewire_ledger`.
        process: Name of the service.
        lease_seconds: See `LEASE_SECONDS`.
        max_connections: Maximum number of connections.

    Raises:
        StartupError: The connection string is malformed, or the database has no such role or no schema `ledger`.
    """
    name = f"citewire-ledger-{process}"
    check_dsn(dsn, name)
    await require_schema(dsn, "ledger", advice=_ADVICE)
    pool = await open_pool(dsn, max_size=max_connections, name=name)
    ledger = PostgresLedger(LedgerStore(pool, process=process, lease_seconds=lease_seconds))
    maintenance = asyncio.create_task(ledger.maintain(lease_seconds / 3), name="ledger-maintenance")
    try:
        yield ledger
    finally:
        await end(maintenance)
        await ledger.settle_all(CLOSE_SECONDS)
        await pool.close()


class PostgresLedger(Ledger):
    """Keeps rows in the schema `ledger`.

    Args:
        store: Executes its statements.
    """

    def __init__(self, store: LedgerStore) -> None:
        self._store = store
        self._entries: dict[LedgerCall, LedgerEntry] = {}
        """Calls whose settlement isn't in the database yet."""
        self._settling: set[asyncio.Task[None]] = set()

    async def maintain(self, every_seconds: float) -> None:
        """Extends leases and settles the calls of dead processes, until it is cancelled."""
        while True:
            await asyncio.sleep(every_seconds)
            await _logged(self._beat(), "ledger_heartbeat_failed")
            await _logged(self._sweep(), "ledger_sweep_failed")

    async def settle_all(self, seconds: float) -> None:
        """Waits for the settlements that are being written; those that take longer are left to a sweeper."""
        if self._settling:
            await asyncio.wait(self._settling, timeout=seconds)
        left = list(self._settling)
        if left:
            log.warning("ledger_settlements_left", calls=len(left))
        for task in left:
            task.cancel()
        await asyncio.gather(*left, return_exceptions=True)

    async def _open(self, call: LedgerCall) -> None:
        """Opens the row. If the caller is cancelled meanwhile, no row stays open, because no call is made."""
        entry = LedgerEntry(uuid7(), current_tenant(), current_call_context(), current_request_id(), call.new)
        opening = asyncio.create_task(self._store.open(entry), name="ledger-open")
        self._entries[call] = entry
        try:
            await asyncio.shield(opening)
        except CitewireError as exc:
            if exc.reason == "BUDGET_EXCEEDED":
                del self._entries[call]
                metrics.REFUSED.labels(exc.metadata["budget"]).inc()
                log.info("budget_exceeded", purpose=call.new.purpose.value, **exc.metadata)
            else:
                # The response may be lost although the row was written.
                self._settle_later(call, Settlement(Outcome.FAILED, exc.reason, CallUsage(0)))
            raise
        except BaseException as exc:
            cancelled = isinstance(exc, asyncio.CancelledError)
            outcome = Outcome.CANCELLED if cancelled else Outcome.FAILED
            reason = outcome.value if cancelled else type(exc).__name__
            self._settle_later(call, Settlement(outcome, reason, CallUsage(0)), after=opening)
            raise

    async def _close(self, call: LedgerCall, settlement: Settlement) -> None:
        await super()._close(call, settlement)
        task = self._settle_later(call, settlement)
        if settlement.outcome is not Outcome.CANCELLED:
            # Waiting for the task doesn't cancel it if the caller is cancelled.
            await asyncio.wait({task}, timeout=SETTLE_WAIT_SECONDS)

    def _settle_later(
        self, call: LedgerCall, settlement: Settlement, after: asyncio.Task[None] | None = None
    ) -> asyncio.Task[None]:
        """Settles in its own task and context, so that the caller's deadline doesn't limit the settlement."""
        task = asyncio.create_task(
            self._settle(call, settlement, after), name="ledger-settle", context=contextvars.Context()
        )
        self._settling.add(task)
        metrics.UNSETTLED.inc()
        task.add_done_callback(self._settled)
        return task

    def _settled(self, task: asyncio.Task[None]) -> None:
        self._settling.discard(task)
        metrics.UNSETTLED.dec()

    async def _settle(self, call: LedgerCall, settlement: Settlement, after: asyncio.Task[None] | None) -> None:
        entry = self._entries[call]
        try:
            if after is not None:
                await asyncio.wait({after})
                error = None if after.cancelled() else after.exception()
                if isinstance(error, CitewireError) and error.reason == "BUDGET_EXCEEDED":
                    return  # a rejected call has no row; after any other error it may have one
            with use_request_id(entry.request_id):
                await self._write(entry, settlement)
        finally:
            self._entries.pop(call, None)

    async def _write(self, entry: LedgerEntry, settlement: Settlement) -> None:
        """Writes a settlement, and retries while the database is unreachable; heartbeats extend the lease meanwhile."""
        tries = 0
        while True:
            try:
                await self._store.settle(entry, settlement)
            except CitewireError as exc:
                delay = _RETRY_SECONDS[min(tries, len(_RETRY_SECONDS) - 1)]
                tries += 1
                log.warning("ledger_settlement_delayed", reason=exc.reason, tries=tries, seconds=delay)
                await asyncio.sleep(delay)
            except Exception:
                log.exception("ledger_settlement_failed", call=str(entry.call_id))
                return
            else:
                return

    async def _beat(self) -> None:
        running = [(entry, call.output_tokens) for call, entry in self._entries.items()]
        if running:
            await self._store.beat(running)

    async def _sweep(self) -> None:
        swept = await self._store.sweep()
        if swept:
            metrics.ORPHANS.inc(swept)
            log.warning("ledger_orphans_settled", calls=swept)


async def _logged(work: Coroutine[Any, Any, None], event: str) -> None:
    try:
        await work
    except CitewireError as exc:
        log.warning(event, reason=exc.reason)
    except Exception:
        log.exception(event)
