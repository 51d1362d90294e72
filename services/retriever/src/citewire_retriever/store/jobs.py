"""The row that tells the ingest worker what to do."""

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final, LiteralString

from citewire_kit.postgres import Connection
from citewire_kit.tenant import Tenant, current_request_id
from citewire_kit.tracing import inject
from citewire_kit.transaction_settings import is_spread
from citewire_retriever.store import rows

_SQL: Final = rows.queries("content")
_DELETE_JOBS: Final = rows.queries("documents")["delete_jobs"]
_SPREAD: Final = rows.queries("jobs")

_RECENT_JOBS: Final = 5
_RECENT_SECONDS: Final = 10.0
"""More jobs of a user in this time count as a bulk, as nobody waits for each of them."""

_MANY_JOBS: Final = 32
"""With this many waiting, workers don't wait for an organisation's next upload."""


async def queue_ingest(connection: Connection, tenant: Tenant, document_id: int, version: int) -> bool:
    """Queues ingest of a version in the transaction that created it; the current trace continues in the worker.

    Returns:
        Whether the organisation stores more than is ingested: the job is part of a bulk, with many waiting before it.
    """
    carrier: dict[str, str] = {}
    inject(carrier)
    if request_id := current_request_id():
        carrier["x-request-id"] = request_id
    cursor = await connection.execute(
        _SQL["queue_job"],
        {
            "org_id": tenant.org_id,
            "document_id": document_id,
            "version": version,
            "user_id": tenant.user_id,
            "plan": tenant.plan,
            "trace_context": json.dumps(carrier),
            "recent_jobs": _RECENT_JOBS,
            "recent_seconds": _RECENT_SECONDS,
            "many_jobs": _MANY_JOBS,
        },
    )
    row = await cursor.fetchone()
    await tell_watchers(connection, tenant.org_id, [document_id])
    return row is not None and bool(row[0])


async def tell_watchers(connection: Connection, org_id: str, document_ids: Sequence[int]) -> None:
    """Notifies these documents' watchers at the commit, as triggers do if the database isn't distributed."""
    if document_ids and is_spread(connection):
        await connection.execute(_SPREAD["tell"], {"org_id": org_id, "document_ids": list(document_ids)})


async def check_backfill(connection: Connection, org_id: str) -> None:
    """Has an organisation checked at once if the database is distributed over nodes; otherwise triggers do it."""
    if is_spread(connection):
        await connection.execute(_SPREAD["check_backfill"], {"org_id": org_id})


async def queue_enrichment(connection: Connection, org_id: str, document_id: int) -> None:
    """Queues a live version for its collection's enrichment, as a trigger does if the database isn't distributed."""
    if not is_spread(connection):
        return
    values: dict[str, Any] = {"org_id": org_id, "document_id": document_id}
    row = await (await connection.execute(_SPREAD["wants_enrichment"], values)).fetchone()
    if row is not None:
        values |= {"version": row[0], "owner": row[1]}
        await connection.execute(_SPREAD["queue_enrichment"], values)


async def queue_missing(
    connection: Connection, org_id: str, *, document_id: int | None = None, after: float = 0, most: int
) -> int:
    """Queues versions that wait for an ingest but have no job, if the database is distributed; returns how many.

    Args:
        connection: A transaction under the organisation.
        org_id: The organisation.
        document_id: Only this document's.
        after: Only those that are at least so many seconds old: others' jobs may not be committed yet.
        most: Maximum number of waiting versions to look at, the oldest first.
    """
    if not is_spread(connection):
        return 0
    values: dict[str, Any] = {"org_id": org_id, "document_id": document_id, "after": after, "most": most}
    waiting = await (await connection.execute(_SPREAD["without_job"], values)).fetchall()
    if not waiting:
        return 0
    names = ("document_ids", "versions", "owners", "sizes")
    columns = {name: list(column) for name, column in zip(names, zip(*waiting, strict=True), strict=True)}
    return (await connection.execute(_SPREAD["queue_missing"], {"org_id": org_id, **columns})).rowcount


async def change_documents(connection: Connection, statement: LiteralString, values: Mapping[str, Any]) -> int:
    """Changes documents of `org_id` by a statement, and notifies watchers; returns how many."""
    return await _change(connection, statement, values, delete_jobs=False)


async def delete_documents(connection: Connection, statement: LiteralString, values: Mapping[str, Any]) -> int:
    """Deletes documents with their jobs, as foreign keys don't work in a distributed database; returns how many."""
    return await _change(connection, statement, values, delete_jobs=True)


async def _change(
    connection: Connection, statement: LiteralString, values: Mapping[str, Any], *, delete_jobs: bool
) -> int:
    if not is_spread(connection):
        return (await connection.execute(statement, values)).rowcount
    cursor = await connection.execute(statement + "\nRETURNING document_id", values)
    document_ids = [row[0] for row in await cursor.fetchall()]
    if document_ids and delete_jobs:
        await connection.execute(_DELETE_JOBS, {"document_ids": document_ids})
    await tell_watchers(connection, values["org_id"], document_ids)
    return len(document_ids)
