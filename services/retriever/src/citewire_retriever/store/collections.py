"""Collections in Postgres."""

from collections.abc import Sequence
from typing import Any, Final

import psycopg
from citewire.retriever.v1.corpus_pb2 import Access, Collection, Grant

from citewire_kit.enums import enum_number
from citewire_kit.errors import AlreadyExists, FailedPrecondition, Unavailable
from citewire_kit.nodes import repeated
from citewire_kit.postgres import Connection, Pool, tenant_transaction
from citewire_kit.queries import fetch_row, fetch_rows
from citewire_kit.tenant import Tenant
from citewire_retriever.errors import access_missing, collection_not_found
from citewire_retriever.store import rows
from citewire_retriever.store.jobs import check_backfill, delete_documents

_SQL: Final = rows.queries("collections")
_DOCUMENTS: Final = rows.queries("documents")
_DELETE_SECONDS: Final = 300.0


class PostgresCollections:
    """Collections."""

    def __init__(self, pool: Pool) -> None:
        """Takes the pool of the application's role."""
        self._pool = pool

    @repeated
    async def page(self, tenant: Tenant, part: str, after: str | None, limit: int) -> list[Collection]:
        """Returns at most `limit` collections by name, after the given one, whose names contain `part`."""
        async with tenant_transaction(self._pool, tenant) as connection:
            values = {"org_id": tenant.org_id, "part": part, "after": after, "limit": limit}
            return [_message(row) for row in await fetch_rows(connection, _SQL["page_of_collections"], values)]

    @repeated
    async def create(self, tenant: Tenant, name: str, *, enrich: bool) -> Collection:
        """Creates a collection; `enrich` says whether its documents are enriched.

        Raises:
            AlreadyExists: The name is taken, perhaps by one hidden from the caller (reason `COLLECTION_EXISTS`).
            PermissionDenied: The caller may only read.
        """
        if tenant.role == "reader":
            raise access_missing("create collections", "write")
        async with tenant_transaction(self._pool, tenant) as connection:
            values = {"org_id": tenant.org_id, "name": name, "enrich": enrich}
            if (await connection.execute(_SQL["insert_collection"], values)).rowcount != 1:
                raise _taken(name)
            return await _read(connection, tenant, name)

    @repeated
    async def update(self, tenant: Tenant, name: str, new_name: str | None, enrich: bool | None) -> Collection:
        """Changes a collection; None leaves its name, or whether its documents are enriched, as it is.

        Raises:
            NotFound: There is none of that name.
            AlreadyExists: The new name is taken (reason `COLLECTION_EXISTS`).
            PermissionDenied: The caller may not manage it.
        """
        async with tenant_transaction(self._pool, tenant) as connection:
            await _managed(connection, tenant, name)
            values = {"org_id": tenant.org_id, "name": name, "new_name": new_name, "enrich": enrich}
            try:
                updated = await connection.execute(_SQL["update_collection"], values)
            except psycopg.errors.UniqueViolation:
                raise _taken(new_name or name) from None
            if updated.rowcount != 1:
                raise collection_not_found(name)
            if enrich:
                await check_backfill(connection, tenant.org_id)
            return await _read(connection, tenant, new_name or name)

    @repeated
    async def delete(self, tenant: Tenant, name: str, *, force: bool) -> int:
        """Deletes a collection, and returns how many documents were deleted with it.

        Raises:
            NotFound: There is none of that name.
            FailedPrecondition: It holds documents and `force` is false (reason `WRONG_STATE`).
            PermissionDenied: The caller may not manage it, or not delete all documents in it.
        """
        async with tenant_transaction(self._pool, tenant, statement_seconds=_DELETE_SECONDS) as connection:
            await _managed(connection, tenant, name)
            key: dict[str, Any] = {"org_id": tenant.org_id, "name": name}
            row = await (await connection.execute(_SQL["lock_collection"], key)).fetchone()
            if row is None:
                raise collection_not_found(name)
            key["collection_id"] = row[0]
            deleted = 0
            if force:
                deleted = await delete_documents(connection, _DOCUMENTS["delete_documents_of_collection"], key)
            else:
                in_use = await (await connection.execute(_SQL["collection_in_use"], key)).fetchone()
                if in_use is not None and in_use[0]:
                    raise _in_use(name)
            try:
                await connection.execute(_SQL["delete_collection"], key)
            except psycopg.errors.ForeignKeyViolation:
                # Some documents have their own readers, without the caller.
                raise (access_missing("delete all documents in it", "manage") if force else _in_use(name)) from None
            return deleted

    @repeated
    async def grants(self, tenant: Tenant, name: str) -> list[Grant]:
        """Returns a collection's grants; none means that everybody has access.

        Raises:
            NotFound: There is none of that name.
            PermissionDenied: The caller may not manage it.
        """
        async with tenant_transaction(self._pool, tenant) as connection:
            return await _grants(connection, tenant, await _managed(connection, tenant, name))

    @repeated
    async def set_grants(self, tenant: Tenant, name: str, grants: Sequence[tuple[str, str]]) -> list[Grant]:
        """Replaces the grants of a collection by these subjects and accesses. Raises as `grants`."""
        async with tenant_transaction(self._pool, tenant) as connection:
            collection_id = await _managed(connection, tenant, name)
            key = {"org_id": tenant.org_id, "collection_id": collection_id, "name": name}
            # Of two concurrent calls, the second replaces the first one's grants.
            await connection.execute(_SQL["lock_collection"], key)
            await connection.execute(_SQL["delete_grants"], key)
            subjects, accesses = [subject for subject, _ in grants], [access for _, access in grants]
            await connection.execute(_SQL["insert_grants"], {**key, "subjects": subjects, "accesses": accesses})
            return [_grant(subject, access) for subject, access in sorted(grants)]


async def hold_collection(connection: Connection, tenant: Tenant, name: str | None) -> int | None:
    """Returns the collection's id, creating it if needed, and protects it from deletion until commit.

    None and the empty name mean no collection.

    Raises:
        PermissionDenied: The caller may not write to it or create it.
        NotFound: It can't be created, as one of that name is hidden from the caller.
        Unavailable: It was deleted meanwhile; the operation can be retried.
    """
    if not name:
        return None
    key: dict[str, Any] = {"org_id": tenant.org_id, "name": name, "enrich": False}
    known: tuple[Any, ...] | None = None
    for _ in range(2):
        known = await (await connection.execute(_SQL["find_collection"], key)).fetchone()
        if known is None:
            if tenant.role == "reader":
                raise access_missing("create collections", "write")
            if (await connection.execute(_SQL["insert_collection"], key)).rowcount != 1:
                continue
        elif known[1] not in ("write", "manage"):
            raise access_missing(f"write to the collection {name!r}", "write")
        row = await (await connection.execute(_SQL["hold_collection"], key)).fetchone()
        if row is not None:
            return int(row[0])
    if known is None:
        raise collection_not_found(name)
    raise Unavailable(f"the collection {name!r} was deleted meanwhile", reason="DATABASE_UNAVAILABLE", retry_after=1)


async def _managed(connection: Connection, tenant: Tenant, name: str) -> int:
    """Returns the id of a collection that the caller may manage."""
    key = {"org_id": tenant.org_id, "name": name}
    row = await (await connection.execute(_SQL["find_collection"], key)).fetchone()
    if row is None:
        raise collection_not_found(name)
    if row[1] != "manage":
        raise access_missing(f"manage the collection {name!r}", "manage")
    return int(row[0])


async def _grants(connection: Connection, tenant: Tenant, collection_id: int) -> list[Grant]:
    key = {"org_id": tenant.org_id, "collection_id": collection_id}
    return [_grant(*row) for row in await (await connection.execute(_SQL["grants"], key)).fetchall()]


def _grant(subject: str, access: str) -> Grant:
    return Grant(subject=subject, access=enum_number(Access, access))


def _message(row: dict[str, Any]) -> Collection:
    row["access"] = enum_number(Access, row["access"])
    return Collection(**row)


async def _read(connection: Connection, tenant: Tenant, name: str) -> Collection:
    row = await fetch_row(connection, _SQL["one_collection"], {"org_id": tenant.org_id, "name": name})
    if row is None:
        raise collection_not_found(name)
    return _message(row)


def _in_use(name: str) -> FailedPrecondition:
    return FailedPrecondition(
        f"the collection {name!r} contains documents: delete or move them, or use force", reason="WRONG_STATE"
    )


def _taken(name: str) -> AlreadyExists:
    return AlreadyExists(
        f"there is already a collection {name!r}", reason="COLLECTION_EXISTS", metadata={"collection": name}
    )
