"""Collections in Postgres."""

from typing import Any, Final

import psycopg
from citewire.retriever.v1.corpus_pb2 import Collection

from citewire_kit.errors import AlreadyExists, FailedPrecondition, Unavailable
from citewire_kit.postgres import Connection, Pool, fetch_row, fetch_rows, tenant_transaction
from citewire_kit.tenant import Tenant
from citewire_retriever.errors import collection_not_found
from citewire_retriever.store import rows

_SQL: Final = rows.queries("collections")
_DOCUMENTS: Final = rows.queries("documents")
_DELETE_SECONDS: Final = 300.0


class PostgresCollections:
    """Collections."""

    def __init__(self, pool: Pool) -> None:
        """Takes the pool of the application's role."""
        self._pool = pool

    async def page(self, tenant: Tenant, part: str, after: str | None, limit: int) -> list[Collection]:
        """Returns at most `limit` collections by name, after the given one, whose names contain `part`."""
        async with tenant_transaction(self._pool, tenant) as connection:
            values = {"org_id": tenant.org_id, "part": part, "after": after, "limit": limit}
            return [Collection(**row) for row in await fetch_rows(connection, _SQL["page_of_collections"], values)]

    async def create(self, tenant: Tenant, name: str, *, enrich: bool) -> Collection:
        """Makes a collection; `enrich` says whether its documents are enriched.

        Raises:
            AlreadyExists: The name is taken (reason `COLLECTION_EXISTS`).
        """
        async with tenant_transaction(self._pool, tenant) as connection:
            values = {"org_id": tenant.org_id, "name": name, "enrich": enrich}
            if (await connection.execute(_SQL["insert_collection"], values)).rowcount != 1:
                raise _taken(name)
            return await _read(connection, tenant, name)

    async def update(self, tenant: Tenant, name: str, new_name: str | None, enrich: bool | None) -> Collection:
        """Changes a collection; None leaves its name, or whether its documents are enriched, as it is.

        Raises:
            NotFound: There is none of that name.
            AlreadyExists: The new name is taken (reason `COLLECTION_EXISTS`).
        """
        async with tenant_transaction(self._pool, tenant) as connection:
            values = {"org_id": tenant.org_id, "name": name, "new_name": new_name, "enrich": enrich}
            try:
                updated = await connection.execute(_SQL["update_collection"], values)
            except psycopg.errors.UniqueViolation:
                raise _taken(new_name or name) from None
            if updated.rowcount != 1:
                raise collection_not_found(name)
            return await _read(connection, tenant, new_name or name)

    async def delete(self, tenant: Tenant, name: str, *, force: bool) -> int:
        """Deletes a collection, and returns how many documents went with it.

        Raises:
            NotFound: There is none of that name.
            FailedPrecondition: It holds documents and `force` is false (reason `WRONG_STATE`).
        """
        async with tenant_transaction(self._pool, tenant, statement_seconds=_DELETE_SECONDS) as connection:
            key: dict[str, Any] = {"org_id": tenant.org_id, "name": name}
            row = await (await connection.execute(_SQL["lock_collection"], key)).fetchone()
            if row is None:
                raise collection_not_found(name)
            key["collection_id"] = row[0]
            deleted = 0
            if force:
                deleted = (await connection.execute(_DOCUMENTS["delete_documents_of_collection"], key)).rowcount
            else:
                in_use = await (await connection.execute(_SQL["collection_in_use"], key)).fetchone()
                if in_use is not None and in_use[0]:
                    raise FailedPrecondition(
                        f"the collection {name!r} holds documents: delete or move them, or force it",
                        reason="WRONG_STATE",
                    )
            await connection.execute(_SQL["delete_collection"], key)
            return deleted


async def hold_collection(connection: Connection, tenant: Tenant, name: str | None) -> int | None:
    """Returns the id of the collection, made if there is none, and keeps it from being deleted until commit.

    None, and the empty name, mean no collection.

    Raises:
        Unavailable: Somebody deleted it in this very moment; the whole may be repeated.
    """
    if not name:
        return None
    key: dict[str, Any] = {"org_id": tenant.org_id, "name": name, "enrich": False}
    for attempt in range(2):
        row = await (await connection.execute(_SQL["hold_collection"], key)).fetchone()
        if row is not None:
            return int(row[0])
        if attempt == 0:
            await connection.execute(_SQL["insert_collection"], key)
    raise Unavailable(
        f"the collection {name!r} was deleted in this moment", reason="DATABASE_UNAVAILABLE", retry_after=1
    )


async def _read(connection: Connection, tenant: Tenant, name: str) -> Collection:
    row = await fetch_row(connection, _SQL["one_collection"], {"org_id": tenant.org_id, "name": name})
    if row is None:
        raise collection_not_found(name)
    return Collection(**row)


def _taken(name: str) -> AlreadyExists:
    return AlreadyExists(
        f"a collection {name!r} exists already", reason="COLLECTION_EXISTS", metadata={"collection": name}
    )
