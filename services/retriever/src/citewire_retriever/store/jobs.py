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
"""More than so many jobs of a user in such a time are a bulk: nobody waits for each of them."""

_MANY_JOBS: Final = 32
"""With so many waiting, no worker waits for an organisation's next upload."""


async def queue_ingest(connection: Connection, tenant: Tenant, document_id: int, version: int) -> bool:
    """Queues ingest of a version, in the transaction that made it; the running trace goes on in the worker.

    Returns:
        Whether the organisation stores more than is ingested: the job is part of a bulk, and many wait before it.
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
    """Tells who watches these documents, with the commit, as triggers do where the database isn't spread."""
    if document_ids and is_spread(connection):
        await connection.execute(_SPREAD["tell"], {"org_id": org_id, "document_ids": list(document_ids)})


async def check_backfill(connection: Connection, org_id: str) -> None:
    """Has an organisation looked through at once where the database is spread over nodes; elsewhere triggers do it."""
    if is_spread(connection):
        await connection.execute(_SPREAD["check_backfill"], {"org_id": org_id})


async def queue_enrichment(connection: Connection, org_id: str, document_id: int) -> None:
    """Queues a live version that its collection wants enriched, as a trigger does where the database isn't spread."""
    if not is_spread(connection):
        return
    values: dict[str, Any] = {"org_id": org_id, "document_id": document_id}
    row = await (await connection.execute(_SPREAD["wants_enrichment"], values)).fetchone()
    if row is not None:
        values |= {"version": row[0], "owner": row[1]}
        await connection.execute(_SPREAD["queue_enrichment"], values)


async def change_documents(connection: Connection, statement: LiteralString, values: Mapping[str, Any]) -> int:
    """Changes documents of `org_id` by a statement that says nothing of them, and tells watchers; returns how many."""
    return await _change(connection, statement, values, delete_jobs=False)


async def delete_documents(connection: Connection, statement: LiteralString, values: Mapping[str, Any]) -> int:
    """Deletes documents with their jobs, which no key reaches where the database is spread; returns how many."""
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
