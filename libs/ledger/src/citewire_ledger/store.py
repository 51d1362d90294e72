"""The statements behind the ledger."""

import datetime
import uuid
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from psycopg import errors

from citewire_kit.errors import ResourceExhausted, Unavailable
from citewire_kit.postgres import Pool, tenant_transaction, transaction
from citewire_kit.queries import load_queries
from citewire_kit.tenant import CallContext, Tenant
from citewire_ledger.model import NANO, NewCall, Settlement

_QUERIES = load_queries("citewire_ledger", "queries.sql")
_SWEPT_AT_ONCE = 200


@dataclass(frozen=True, slots=True)
class LedgerEntry:
    """A call with its tenant and the chat it belongs to."""

    call_id: uuid.UUID
    tenant: Tenant
    context: CallContext
    request_id: str
    new: NewCall


class LedgerStore:
    """Reads and writes rows.

    Args:
        pool: Connections of the role `citewire_ledger`.
        process: Name of the service that makes the calls.
        lease_seconds: After this time without a heartbeat a call counts as lost.
    """

    def __init__(self, pool: Pool, *, process: str, lease_seconds: float) -> None:
        self._pool = pool
        self._process = process
        self._lease = timedelta(seconds=lease_seconds)

    async def open(self, entry: LedgerEntry) -> None:
        """Opens a row and reserves its cost.

        Raises:
            ResourceExhausted: A budget has too little left (`BUDGET_EXCEEDED`).
            Unavailable, DeadlineExceeded: As `tenant_transaction`.
        """
        new = entry.new
        prices = (None,) * 4 if new.price is None else new.price.nano()
        names = ("input_price", "cached_input_price", "cache_write_price", "output_price")
        values = {
            "call": entry.call_id,
            "user": entry.tenant.user_id,
            "key": entry.tenant.key_id,
            "profile": entry.context.profile,
            "exchange": exchange_uuid(entry.context.exchange_id),
            "request": entry.request_id,
            "process": self._process,
            "purpose": new.purpose.value,
            "provider": new.provider,
            "model": new.model,
            "own": new.own,
            "input_tokens": new.input_tokens,
            **dict(zip(names, prices, strict=True)),
            "reserved": new.reserved(),
            "lease": self._lease,
        }
        with _migrated():
            async with tenant_transaction(self._pool, entry.tenant) as connection:
                cursor = await connection.execute(_QUERIES["open_call"], values)
                refusal = await cursor.fetchone()
        if refusal is not None:
            raise _budget_exceeded(refusal)

    async def settle(self, entry: LedgerEntry, settlement: Settlement) -> bool:
        """Settles a row; False if there is none, or it was settled before. May be repeated. Raises as `open`."""
        usage = settlement.usage
        values = {
            "call": entry.call_id,
            "state": settlement.outcome.value,
            "reason": settlement.reason,
            "finish": usage.finish,
            "input_tokens": max(usage.input_tokens, usage.cached_input_tokens + usage.cache_write_input_tokens),
            "cached_input_tokens": usage.cached_input_tokens,
            "cache_write_tokens": usage.cache_write_input_tokens,
            "output_tokens": usage.output_tokens,
            "estimated": usage.estimated,
        }
        with _migrated():
            async with tenant_transaction(self._pool, entry.tenant) as connection:
                cursor = await connection.execute(_QUERIES["settle_call"], values)
                row = await cursor.fetchone()
        return row is not None and bool(row[0])

    async def beat(self, running: Sequence[tuple[LedgerEntry, int]]) -> None:
        """Extends the leases of running calls and records their tokens so far. Raises as `transaction`."""
        values = {
            "orgs": [entry.tenant.org_id for entry, _ in running],
            "calls": [entry.call_id for entry, _ in running],
            "tokens": [tokens for _, tokens in running],
            "lease": self._lease,
        }
        with _migrated():
            async with transaction(self._pool) as connection:
                await connection.execute(_QUERIES["beat"], values)

    async def sweep(self) -> int:
        """Settles calls whose process died; returns how many. Raises as `transaction`."""
        swept, batch = 0, _SWEPT_AT_ONCE
        while batch == _SWEPT_AT_ONCE:
            with _migrated():
                async with transaction(self._pool) as connection:
                    cursor = await connection.execute(_QUERIES["sweep"], {"most": _SWEPT_AT_ONCE})
                    row = await cursor.fetchone()
            batch = int(row[0]) if row else 0
            swept += batch
        return swept


@contextmanager
def _migrated() -> Generator[None]:
    """Treats a database without our schema as one that isn't available yet."""
    try:
        yield
    except (errors.InvalidSchemaName, errors.UndefinedTable, errors.UndefinedFunction) as exc:
        raise Unavailable(
            "the ledger's database isn't set up yet", reason="DATABASE_UNAVAILABLE", retry_after=1.0
        ) from exc


def _budget_exceeded(row: tuple[Any, ...]) -> ResourceExhausted:
    scope: str
    limit: int
    left: int
    resets_at: datetime.datetime
    scope, limit, left, resets_at = row
    utc = resets_at.astimezone(datetime.UTC)
    wait = (utc - datetime.datetime.now(datetime.UTC)).total_seconds()
    whose = {"org": "organisation's", "user": "user's"}.get(scope, "API key's")
    return ResourceExhausted(
        f"the {whose} budget has too little left for this call; it resets at {utc:%Y-%m-%d %H:%M} UTC",
        reason="BUDGET_EXCEEDED",
        metadata={
            "budget": scope,
            "limit_usd": usd(limit),
            "left_usd": usd(max(left, 0)),
            "resets_at": f"{utc:%Y-%m-%dT%H:%M:%SZ}",
        },
        retry_after=max(1.0, wait),
    )


def exchange_uuid(text: str) -> uuid.UUID | None:
    """Reads the id of an exchange; None if it isn't a UUID, because that is no reason to reject the call."""
    try:
        return uuid.UUID(text)
    except ValueError:
        return None


def usd(nano: int) -> str:
    """Writes nano-USD as USD, without trailing zeros: 1_500_000_000 is `1.5`."""
    whole, part = divmod(nano, NANO)
    return f"{whole}.{part:09d}".rstrip("0").rstrip(".")
