"""The audit trail in Postgres: `chat.audit_events` and `chat.audit_blocks`, which are only ever added to."""

import json
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager

from psycopg import errors

from citewire_kit.audit import AuditTrail, running_trail
from citewire_kit.audit_chain import Block
from citewire_kit.audit_events import AuditEvent
from citewire_kit.errors import Unavailable
from citewire_kit.postgres import Pool, open_pool, transaction

_SECONDS = 5.0
"""Maximum duration of writing a block."""

_APPEND = "SELECT chat.append_audit(%(block)s::jsonb, %(events)s::jsonb)"
COLUMNS = (
    "at",
    "org_id",
    "user_id",
    "key_id",
    "issuer",
    "action",
    "objects",
    "outcome",
    "reason",
    "address",
    "agent",
    "request_id",
)
"""Columns of `chat.audit_events`, in the order of an event's fields."""


class AuditStore:
    """Writes blocks."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    async def write(self, block: Block, events: Sequence[AuditEvent]) -> None:
        """Writes a block with its events, all or nothing; an existing block is skipped.

        Raises:
            Unavailable, DeadlineExceeded: As `transaction`.
        """
        header = {
            "process_id": str(block.process_id),
            "process": block.process,
            "seq": block.seq,
            "at": block.at.isoformat(),
            "prev": block.prev.hex(),
            "hash": block.hash.hex(),
            "digests": {org: [digest.events, digest.digest] for org, digest in block.digests.items()},
        }
        rows = [dict(zip(COLUMNS, event.lines(), strict=True)) for event in events]
        try:
            async with transaction(self._pool, statement_seconds=_SECONDS) as connection:
                await connection.execute(
                    _APPEND, {"block": json.dumps(header), "events": json.dumps(rows, ensure_ascii=False)}
                )
        except (errors.InvalidSchemaName, errors.UndefinedFunction, errors.InsufficientPrivilege) as exc:
            raise Unavailable(
                "the audit trail's database isn't set up yet", reason="DATABASE_UNAVAILABLE", retry_after=1.0
            ) from exc


@asynccontextmanager
async def open_trail(dsn: str, *, process: str, required: bool) -> AsyncGenerator[AuditTrail]:
    """Opens the audit trail of a process, on its own connection. Closing it writes the waiting events.

    Args:
        dsn: Connection string of a role that may call `chat.append_audit`.
        process: The process's name.
        required: See `AuditTrail`.

    Raises:
        StartupError: The connection string is malformed.
    """
    pool = await open_pool(dsn, max_size=1, name=f"citewire-audit-{process}")
    try:
        async with running_trail(AuditTrail(AuditStore(pool).write, process=process, required=required)) as trail:
            yield trail
    finally:
        await pool.close()
