"""The ledger in Postgres.

A call's row is opened before the block and settled after it by a task of its own, which no cancellation of the caller
reaches. While the database is away, settlements wait for it in memory and are tried again; if the process dies first,
the sweeper of another one, or of its successor, settles the row by what the last heartbeat noted.
"""

import asyncio
import contextvars
from collections.abc import AsyncGenerator, Coroutine
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Final

from citewire_kit.errors import CitewireError
from citewire_kit.ids import uuid7
from citewire_kit.postgres import open_pool
from citewire_kit.tasks import end
from citewire_kit.telemetry import get_logger
from citewire_kit.tenant import current_call_context, current_request_id, current_tenant, use_request_id
from citewire_ledger import metrics
from citewire_ledger.ledger import Ledger, LedgerCall, Settlement
from citewire_ledger.model import NewCall, Outcome, Spent
from citewire_ledger.store import Entry, LedgerStore

log = get_logger(__name__)

LEASE_SECONDS: Final = 30.0
"""After which a call that nobody prolongs counts as lost. With a sweep each third of it, all are settled in 40 s."""

SETTLE_WAIT_SECONDS: Final = 0.5
"""How long an answer waits for its settlement: then it goes on without, and the settlement is tried on."""

CLOSE_SECONDS: Final = 5.0
"""How long the process's end waits for settlements; the sweeper of another one has the rest."""

_RETRY_SECONDS: Final = (0.2, 0.5, 1.0, 2.0, 5.0)
_POOL: Final = 8


@asynccontextmanager
async def open_ledger(
    dsn: str, *, process: str, lease_seconds: float = LEASE_SECONDS, max_connections: int = _POOL
) -> AsyncGenerator["PostgresLedger"]:
    """Opens the ledger for a process, and keeps it: heartbeats, sweeping. Closing waits for settlements.

    The database is found whenever it comes; until then calls are refused.

    Args:
        dsn: Connection string of the role `citewire_ledger`.
        process: Name of the service.
        lease_seconds: See `LEASE_SECONDS`.
        max_connections: Connections at most.

    Raises:
        StartupError: The connection string is malformed.
    """
    pool = await open_pool(dsn, max_size=max_connections, name=f"citewire-ledger-{process}")
    ledger = PostgresLedger(LedgerStore(pool, process=process, lease_seconds=lease_seconds))
    keeping = asyncio.create_task(ledger.keep(lease_seconds / 3), name="ledger-keeper")
    try:
        yield ledger
    finally:
        await end(keeping)
        await ledger.settle_all(CLOSE_SECONDS)
        await pool.close()


@dataclass(slots=True)
class _Running:
    """A call that has no settlement in the database yet."""

    entry: Entry
    call: LedgerCall = field(default_factory=LedgerCall)


class PostgresLedger(Ledger):
    """Keeps rows in the schema `ledger`.

    Args:
        store: Its statements.
    """

    def __init__(self, store: LedgerStore) -> None:
        self._store = store
        self._entries: dict[int, _Running] = {}
        self._settling: set[asyncio.Task[None]] = set()

    @asynccontextmanager
    async def call(self, new: NewCall) -> AsyncGenerator[LedgerCall]:
        """See `Ledger.call`. The tenant, and what the call is a part of, are the context's."""
        entry = Entry(uuid7(), current_tenant(), current_call_context(), current_request_id(), new)
        running = _Running(entry)
        await self._open(running)
        error: BaseException | None = None
        try:
            yield running.call
        except BaseException as exc:
            error = exc
            raise
        finally:
            settlement = running.call.settlement(new, error)
            metrics.count(new, settlement)
            settling = self._settle_later(running, settlement)
            if not isinstance(error, (asyncio.CancelledError, GeneratorExit)):
                # Not the task itself: who is cancelled while waiting leaves it running.
                await asyncio.wait({settling}, timeout=SETTLE_WAIT_SECONDS)

    async def keep(self, every_seconds: float) -> None:
        """Prolongs leases and settles what dead processes left, until it is cancelled."""
        while True:
            await asyncio.sleep(every_seconds)
            await self._once(self._beat(), "ledger_heartbeat_failed")
            await self._once(self._sweep(), "ledger_sweep_failed")

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

    async def _open(self, running: _Running) -> None:
        """Opens the row. A caller that is cancelled meanwhile leaves none open: no call is made."""
        opening = asyncio.create_task(self._store.open(running.entry), name="ledger-open")
        self._entries[id(running)] = running
        try:
            await asyncio.shield(opening)
        except CitewireError as exc:
            if exc.reason == "BUDGET_EXCEEDED":
                del self._entries[id(running)]
                metrics.REFUSED.labels(exc.metadata["budget"]).inc()
                log.info("budget_exceeded", purpose=running.entry.new.purpose.value, **exc.metadata)
            else:
                # The answer may be what was lost, and not the row.
                self._settle_later(running, _unmade(Outcome.FAILED, exc.reason))
            raise
        except BaseException as exc:
            left = isinstance(exc, asyncio.CancelledError)
            unmade = (
                _unmade(Outcome.CANCELLED, Outcome.CANCELLED) if left else _unmade(Outcome.FAILED, type(exc).__name__)
            )
            self._settle_later(running, unmade, after=opening)
            raise

    def _settle_later(
        self, running: _Running, settlement: Settlement, after: asyncio.Task[None] | None = None
    ) -> asyncio.Task[None]:
        """Settles in a task of its own, and in a context of its own: the caller's deadline isn't the settlement's."""
        task = asyncio.create_task(
            self._settle(running, settlement, after), name="ledger-settle", context=contextvars.Context()
        )
        self._settling.add(task)
        metrics.UNSETTLED.inc()
        task.add_done_callback(self._settled)
        return task

    def _settled(self, task: asyncio.Task[None]) -> None:
        self._settling.discard(task)
        metrics.UNSETTLED.dec()

    async def _settle(self, running: _Running, settlement: Settlement, after: asyncio.Task[None] | None) -> None:
        try:
            if after is not None:
                await asyncio.wait({after})
                if not after.cancelled() and after.exception() is not None and not _unknown(after.exception()):
                    return
            with use_request_id(running.entry.request_id):
                await self._write(running.entry, settlement)
        finally:
            self._entries.pop(id(running), None)

    async def _write(self, entry: Entry, settlement: Settlement) -> None:
        """Writes a settlement, again and again while the database is away; the lease is prolonged meanwhile."""
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
        running = [(one.entry, one.call.output_tokens) for one in self._entries.values()]
        if running:
            await self._store.beat(running)

    async def _sweep(self) -> None:
        swept = await self._store.sweep()
        if swept:
            metrics.ORPHANS.inc(swept)
            log.warning("ledger_orphans_settled", calls=swept)

    async def _once(self, work: Coroutine[Any, Any, None], event: str) -> None:
        try:
            await work
        except CitewireError as exc:
            log.warning(event, reason=exc.reason)
        except Exception:
            log.exception(event)


def _unmade(outcome: Outcome, reason: str) -> Settlement:
    """Settles a row whose call was never made."""
    return Settlement(outcome, reason, Spent(0))


def _unknown(error: BaseException | None) -> bool:
    """Says whether an error of opening leaves it open whether the row is there. A refusal's row isn't."""
    return not (isinstance(error, CitewireError) and error.reason == "BUDGET_EXCEEDED")
