"""Documents in Postgres."""

import json
import re
from collections.abc import AsyncGenerator, Mapping, Sequence
from typing import Any, Final, LiteralString

import psycopg
from citewire.retriever.v1.corpus_pb2 import Document, ErasedDocument, WatchDocumentResponse
from psycopg import sql

from citewire_kit.errors import FailedPrecondition, invalid_field
from citewire_kit.nodes import repeated
from citewire_kit.postgres import Connection, Pool, tenant_transaction
from citewire_kit.queries import fetch_rows
from citewire_kit.tenant import Tenant
from citewire_kit.transaction_settings import is_spread
from citewire_kit.user_rows import UserRow, UserTables, user_rows
from citewire_retriever.errors import access_missing
from citewire_retriever.model import MAX_ERASED, VALIDITY, Changes, DocumentCursor, DocumentQuery, JsonObject
from citewire_retriever.store import rows
from citewire_retriever.store.collections import hold_collection
from citewire_retriever.store.filter_sql import Parameters, filter_condition, valid_condition
from citewire_retriever.store.jobs import (
    change_documents,
    delete_documents,
    queue_enrichment,
    queue_ingest,
    tell_watchers,
)
from citewire_retriever.store.storage import PostgresStorage

_SQL: Final = rows.queries("documents")
_CONTENT: Final = rows.queries("content")
_DELETE_SECONDS: Final = 120.0
"""A document of 100,000 chunks takes seconds to delete, as each chunk's vector must be found and removed."""


_NAMED: Final = "t.subject = 'user:' || %(user)s"
_USERS: Final = UserTables(
    schema="corpus",
    columns=("owner", "user_id"),
    conditions={
        "versions": "EXISTS (SELECT FROM corpus.documents d"
        " WHERE d.org_id = %(org)s AND d.document_id = t.document_id AND d.owner = %(user)s)",
        "collection_grants": _NAMED,
        "access_readers": _NAMED,
    },
    left_out=frozenset({"document_values"}),  # counts of labels, derived from the documents
)

_AT_ONCE: Final = 50
"""Documents that one transaction of an erasure deletes."""


class PostgresDocuments:
    """Documents' metadata and state."""

    def __init__(self, pool: Pool, storage: PostgresStorage, *, store_seconds: float) -> None:
        """Takes the pool of the application's role, and the timeout for copying a version's bytes."""
        self._pool = pool
        self._storage = storage
        self._store_seconds = store_seconds

    @repeated
    async def get(self, tenant: Tenant, document_id: int) -> WatchDocumentResponse | None:
        """Returns a document and its latest version's progress; None if the tenant has no such document."""
        async with tenant_transaction(self._pool, tenant) as connection:
            return await read_document(connection, tenant, document_id)

    @repeated
    async def find(
        self, tenant: Tenant, query: DocumentQuery, after: DocumentCursor | None, limit: int
    ) -> list[Document]:
        """Returns at most `limit` documents, newest first, that come after the cursor."""
        parameters = Parameters()
        conditions = _conditions(query, after, parameters)
        values = {"org_id": tenant.org_id, "limit": limit, **parameters.values}
        async with tenant_transaction(self._pool, tenant) as connection:
            result = await _select(connection, "page_of_documents", values, conditions=conditions)
        return [rows.document_progress(row).document for row in result]

    @repeated
    async def update(self, tenant: Tenant, document_id: int, changes: Changes) -> WatchDocumentResponse | None:
        """Changes a document; a new title creates a new version of ingested content. None: no such document.

        Raises:
            PermissionDenied: The caller may not change it or write to the collection, or would no longer see it.
            ResourceExhausted: The version's copy would exceed the storage limit (reason `STORAGE_FULL`).
        """
        key: dict[str, Any] = {"org_id": tenant.org_id, "document_id": document_id}
        async with tenant_transaction(self._pool, tenant, statement_seconds=self._store_seconds) as connection:
            locked = await lock_document(connection, key)
            if locked is None:
                return None
            title, latest_version, status, _, size_bytes = locked
            collection_id = await hold_collection(connection, tenant, changes.collection)
            access: dict[str, Any] = {
                **key,
                "set_collection": changes.collection is not None,
                "collection_id": collection_id,
            }
            access["access_id"] = await intern_access(connection, access, changes.readers)
            written = await write_document(
                connection,
                _SQL["update_document"],
                {
                    **rows.values_of(changes),
                    **access,
                    "metadata": json_text(changes.metadata),
                    **{bound: changes.validity.get(bound) for bound in VALIDITY},
                    **{f"set_{bound}": bound in changes.validity for bound in VALIDITY},
                },
            )
            if collection_id is not None:
                await queue_enrichment(connection, tenant.org_id, document_id)
            if changes.file_name is not None:
                await connection.execute(_SQL["rename_versions"], {**key, "file_name": changes.file_name})
            # Chunks are embedded with the title. Waiting or failed versions need no copy.
            if written is not None and written[0] != title and status in ("processing", "ready"):
                await _ingest_again(connection, tenant, key, latest_version)
                await self._storage.settle(connection, tenant, document_id, size_bytes)
            await tell_watchers(connection, tenant.org_id, [document_id])
            return await read_document(connection, tenant, document_id)

    @repeated
    async def delete(self, tenant: Tenant, document_id: int) -> bool:
        """Deletes a document with everything that belongs to it; False if there was none.

        Raises:
            PermissionDenied: The caller may not change it.
        """
        async with tenant_transaction(self._pool, tenant, statement_seconds=_DELETE_SECONDS) as connection:
            key = {"org_id": tenant.org_id, "document_id": document_id}
            if not await _is_changeable(connection, key):
                return False
            return await delete_documents(connection, _SQL["delete_document"], key) == 1

    @repeated
    async def erased(self, tenant: Tenant, forget: Sequence[int], after: int) -> list[ErasedDocument]:
        """Forgets some documents' deletions, and returns the next deleted ones, by id.

        The first page also removes accesses without documents, as callers ask hourly for each organisation.
        """
        values = {"org_id": tenant.org_id, "forget": list(forget), "after": after, "limit": MAX_ERASED}
        async with tenant_transaction(self._pool, tenant) as connection:
            if forget:
                await connection.execute(_SQL["forget_erased"], values)
            read = await (await connection.execute(_SQL["erased_documents"], values)).fetchall()
            if not forget and not after:  # last: what the owner's function wrote can't be read before the commit
                await connection.execute(_SQL["sweep_accesses"])
        return [ErasedDocument(document_id=document_id, age=age) for document_id, age in read]

    async def erase_owner(self, tenant: Tenant, user_id: str, successor: str, name: str) -> tuple[int, bool]:
        """Deletes some of a user's documents, or transfers them to the successor; with "" deletes some of everybody's.

        Returns how many, and whether that was all; in that case other data of the user or organisation is deleted too.
        """
        values = {"org_id": tenant.org_id, "user_id": user_id, "successor": successor, "name": name, "most": _AT_ONCE}
        count = await self._erase_owned(tenant, values)
        done = count < _AT_ONCE
        if done:  # here, in case the caller stops before asking again
            await self._forget(tenant, values)
        return count, done

    @repeated
    async def _erase_owned(self, tenant: Tenant, values: Mapping[str, Any]) -> int:
        """Deletes some of the documents, or transfers them if there is a successor; returns how many."""
        async with tenant_transaction(self._pool, tenant, statement_seconds=_DELETE_SECONDS) as connection:
            if values["successor"]:
                return await change_documents(connection, _SQL["give_documents"], values)
            return await delete_documents(connection, _SQL["delete_owned"], values)

    @repeated
    async def _forget(self, tenant: Tenant, values: Mapping[str, Any]) -> None:
        """Deletes a user's or the organisation's other data."""
        async with tenant_transaction(self._pool, tenant, statement_seconds=_DELETE_SECONDS) as connection:
            await connection.execute(_SQL["forget_user" if values["user_id"] else "forget_organisation"], values)

    @repeated
    async def erase_old(self, tenant: Tenant, days: int, *, expired: bool) -> tuple[int, bool]:
        """Deletes some documents with an older last version, or an older end of validity.

        Returns how many, and whether that was all.
        """
        values = {"org_id": tenant.org_id, "days": days, "most": _AT_ONCE}
        async with tenant_transaction(self._pool, tenant, statement_seconds=_DELETE_SECONDS) as connection:
            count = await delete_documents(connection, _SQL["delete_expired" if expired else "delete_old"], values)
        return count, count < _AT_ONCE

    def rows_of_user(self, tenant: Tenant, user_id: str) -> AsyncGenerator[UserRow, None]:
        """Yields every row that names a user, as far as the tenant may see it."""
        return user_rows(self._pool, tenant, _USERS, user_id)

    @repeated
    async def retry(self, tenant: Tenant, document_id: int) -> WatchDocumentResponse | None:
        """Requeues the latest version, or the enrichment of the live one. None: no such document.

        Raises:
            FailedPrecondition: Neither has failed (reason `WRONG_STATE`).
            PermissionDenied: The caller may not change it.
        """
        key: dict[str, Any] = {"org_id": tenant.org_id, "document_id": document_id}
        async with tenant_transaction(self._pool, tenant) as connection:
            locked = await lock_document(connection, key)
            if locked is None:
                return None
            _, version, status, key["live_version"], _ = locked
            key["version"] = version
            if (await connection.execute(_SQL["retry_version"], key)).rowcount == 1:
                await queue_ingest(connection, tenant, document_id, version)
                await connection.execute(_SQL["touch_document"], key)
            elif (await connection.execute(_SQL["retry_enrichment"], key)).rowcount == 1:
                await change_documents(connection, _SQL["forget_enrichment_error"], key)
            else:
                raise FailedPrecondition(
                    f"document {document_id} is {status}: only a failed document or a failed enrichment can be retried",
                    reason="WRONG_STATE",
                    metadata={"status": str(status)},
                )
            return await read_document(connection, tenant, document_id)


async def read_document(connection: Connection, tenant: Tenant, document_id: int) -> WatchDocumentResponse | None:
    """Returns a document and its latest version's progress, within the tenant's transaction."""
    values = {"org_id": tenant.org_id, "document_id": document_id}
    row = next(iter(await _select(connection, "one_document", values)), None)
    return None if row is None else rows.document_progress(row)


async def _select(
    connection: Connection, which: str, values: Mapping[str, Any], **blanks: sql.Composable
) -> list[dict[str, Any]]:
    """Reads documents with their latest version; if the queue is on another node, its states by a second query."""
    spread = is_spread(connection)
    statement = sql.SQL(_SQL["select_document"] + "\n" + _SQL[which]).format(
        enrichment_state=sql.SQL("NULL::text" if spread else "e.state"),
        enrichment_jobs=sql.SQL("" if spread else _SQL["enrichment_jobs"]),
        **blanks,
    )
    result = await fetch_rows(connection, statement, values)
    if spread and result:
        asked = {"org_id": values["org_id"], "document_ids": [row["document_id"] for row in result]}
        cursor = await connection.execute(_SQL["enrichment_states"], asked)
        states = {(document_id, version): state for document_id, version, state in await cursor.fetchall()}
        for row in result:
            row["enrichment_state"] = states.get((row["document_id"], row["live_version"]))
    return result


async def lock_document(connection: Connection, key: Mapping[str, Any]) -> tuple[Any, ...] | None:
    """Locks a document against other writers.

    Returns:
        Its title, latest version, that one's status, the live version, and the latest one's bytes; None: there is no
        such document.

    Raises:
        PermissionDenied: The caller may not change it.
    """
    if not await _is_changeable(connection, key):
        return None
    return await (await connection.execute(_SQL["lock_document"], key)).fetchone()


async def _is_changeable(connection: Connection, key: Mapping[str, Any]) -> bool:
    """Returns whether there is such a document visible to the caller.

    Raises:
        PermissionDenied: There is, and the caller may not change it.
    """
    row = await (await connection.execute(_SQL["may_change"], key)).fetchone()
    if row is not None and not row[0]:
        raise access_missing(f"change document {key['document_id']}", "write")
    return row is not None


async def intern_access(connection: Connection, access: Mapping[str, Any], readers: Sequence[str] | None) -> int | None:
    """Returns a document's future access, creating it if needed; None if it has no readers of its own.

    Args:
        connection: In the transaction that will write the document.
        access: `org_id`, `collection_id`; and `document_id` and `set_collection` of a document that exists.
        readers: None for its present ones.
    """
    if access.get("document_id") is None and not readers:
        return None
    name = "intern_first_access" if access.get("document_id") is None else "intern_access"
    values = {**access, "readers": None if readers is None else list(readers)}
    row = await (await connection.execute(_SQL[name], values)).fetchone()
    return None if row is None else row[0]


async def write_document(
    connection: Connection, statement: LiteralString, values: Mapping[str, Any]
) -> tuple[Any, ...] | None:
    """Writes a document's row, and returns the statement's result.

    Raises:
        PermissionDenied: The caller may not, or would no longer see the document.
        InvalidArgument: Its validity would end before it begins.
    """
    try:
        cursor = await connection.execute(statement, values)
    except psycopg.errors.InsufficientPrivilege:
        raise access_missing("save the document, or couldn't see it afterwards", "write") from None
    except psycopg.errors.CheckViolation as exc:
        if not violates(exc, "documents_validity"):
            raise
        raise invalid_field("valid_until", "must be after valid_from") from None
    return await cursor.fetchone() if cursor.description is not None else None


def violates(error: psycopg.Error, constraint: str) -> bool:
    """Whether this constraint was violated; for a shard only the message says so, perhaps with the shard's number."""
    if error.diag.constraint_name is not None:
        return error.diag.constraint_name == constraint
    return re.search(rf'"{constraint}(_\d+)?"', error.diag.message_primary or "") is not None


def json_text(value: JsonObject | None) -> str | None:
    """Writes metadata as JSON, for a parameter with `::jsonb`."""
    return None if value is None else json.dumps(value, ensure_ascii=False, allow_nan=False)


async def _ingest_again(connection: Connection, tenant: Tenant, key: Mapping[str, Any], from_version: int) -> None:
    """Copies the latest version's content as a new one, and queues it."""
    values = {**key, "from_version": from_version, "version": from_version + 1}
    await connection.execute(_CONTENT["next_version"], values)
    await connection.execute(_CONTENT["copy_version"], values)
    await connection.execute(_CONTENT["copy_parts"], values)
    await queue_ingest(connection, tenant, int(key["document_id"]), from_version + 1)


def _conditions(query: DocumentQuery, after: DocumentCursor | None, parameters: Parameters) -> sql.Composable:
    parts = [valid_condition(query.validity, parameters)]
    if query.collection:
        parts.append(sql.SQL("c.name = {}").format(parameters.add(query.collection)))
    if query.type:
        parts.append(sql.SQL("d.type = {}").format(parameters.add(query.type)))
    if query.status:
        parts.append(sql.SQL("v.status = {}").format(parameters.add(query.status)))
    if query.text:
        part = parameters.add(query.text)
        parts.append(sql.SQL("strpos(lower(d.title || E'\\n' || d.file_name), lower({}::text)) > 0").format(part))
    if query.tag:
        parts.append(sql.SQL("{}::text = ANY(d.tags)").format(parameters.add(query.tag)))
    if query.filter is not None:
        parts.append(filter_condition(query.filter, parameters))
    if after is not None:
        parts.append(
            sql.SQL("(d.created_at, d.document_id) < ({}::timestamptz, {}::bigint)").format(
                parameters.add(after.created_at), parameters.add(after.document_id)
            )
        )
    return sql.SQL(" AND ").join(parts)
