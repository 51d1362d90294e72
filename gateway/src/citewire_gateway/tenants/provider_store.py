"""Tenant providers in Postgres."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from citewire.common.v1 import common_pb2
from google.protobuf import json_format
from psycopg.types.json import Jsonb

from citewire_gateway.tenants.providers import PROVIDER_TYPES, ProviderEntries, ProviderEntry, ProviderType
from citewire_kit.postgres import Pool, load_queries, tenant_transaction, transaction
from citewire_kit.tenant import Tenant

_SQL = load_queries("citewire_gateway.tenants", "providers.sql")


@dataclass(frozen=True, slots=True)
class SealedRow:
    """The key of a row that holds something sealed, in whichever organisation."""

    org_id: str
    user_id: str
    type: ProviderType
    position: int


class ProviderStore:
    """Reads and writes them. All methods raise `Unavailable` if the database can't be reached."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    async def load(self, tenant: Tenant) -> ProviderEntries:
        """Returns the caller's and the caller's organisation's."""
        async with tenant_transaction(self._pool, tenant) as connection:
            rows = await (await connection.execute(_SQL["load"], _names(tenant), binary=True)).fetchall()
        return ProviderEntries(tuple(_entry(row) for row in rows if row[1] is not None), bool(rows[0][0]))

    async def save(self, tenant: Tenant, chain: Sequence[ProviderEntry]) -> None:
        """Puts a chain of one owner and type in the place of the one that was there."""
        async with tenant_transaction(self._pool, tenant) as connection:
            for entry in chain:
                await connection.execute(_SQL["save"], _values(tenant, entry))
            after = {**_names(tenant), "owner": chain[0].user_id, "type": chain[0].type, "position": len(chain)}
            await connection.execute(_SQL["cut"], after)

    async def delete(self, tenant: Tenant, user_id: str, type_: ProviderType) -> bool:
        """Deletes an owner's providers of a type; False if there were none."""
        values = {**_names(tenant), "owner": user_id, "type": type_, "position": 0}
        async with tenant_transaction(self._pool, tenant) as connection:
            return (await connection.execute(_SQL["cut"], values)).rowcount > 0

    async def require_own(self, tenant: Tenant, required: bool) -> None:
        """Writes whether the organisation demands its own providers."""
        async with tenant_transaction(self._pool, tenant) as connection:
            await connection.execute(_SQL["require_own"], {**_names(tenant), "require_own": required})

    async def sealed_rows(self) -> list[SealedRow]:
        """Returns the keys of all rows with something sealed, over all organisations."""
        async with transaction(self._pool) as connection:
            rows = await (await connection.execute(_SQL["sealed_providers"])).fetchall()
        return [SealedRow(row[0], row[1], ProviderType(row[2]), row[3]) for row in rows]

    async def get(self, key: SealedRow) -> common_pb2.ProviderRef | None:
        """Returns what a row holds; None if it is gone."""
        async with tenant_transaction(self._pool, tenant_of(key)) as connection:
            row = await (await connection.execute(_SQL["get"], _key(key), binary=True)).fetchone()
        return None if row is None else _entry(row).ref

    async def swap(self, key: SealedRow, old: common_pb2.ProviderRef, new: common_pb2.ProviderRef) -> bool:
        """Puts newly wrapped ciphertext in the place of the old; False if it was saved anew meanwhile."""
        values = {
            **_key(key),
            "old_base": old.sealed_api_base,
            "old_key": old.sealed_key,
            "new_base": new.sealed_api_base,
            "new_key": new.sealed_key,
        }
        async with tenant_transaction(self._pool, tenant_of(key)) as connection:
            return (await connection.execute(_SQL["swap"], values)).rowcount == 1


def tenant_of(row: SealedRow) -> Tenant:
    """Returns the tenant on whose behalf a row is read and sealed again."""
    return Tenant(row.org_id, row.user_id or "-", "free")


def _names(tenant: Tenant) -> dict[str, Any]:
    return {"org": tenant.org_id, "user": tenant.user_id}


def _key(row: SealedRow) -> dict[str, Any]:
    return {"org": row.org_id, "owner": row.user_id, "type": row.type, "position": row.position}


def _values(tenant: Tenant, entry: ProviderEntry) -> dict[str, Any]:
    ref = entry.ref or common_pb2.ProviderRef()
    return _names(tenant) | {
        "owner": entry.user_id,
        "type": entry.type,
        "position": entry.position,
        "provider": ref.provider,
        "model": entry.model,
        "dimensions": ref.dimensions,
        "sealed_api_base": ref.sealed_api_base,
        "sealed_key": ref.sealed_key,
        "test": None if entry.test is None else Jsonb(_test_json(entry.test)),
    }


def _test_json(test: common_pb2.ProviderTest) -> dict[str, Any]:
    return json_format.MessageToDict(test, preserving_proto_field_name=True, always_print_fields_with_no_presence=True)


def _entry(row: Sequence[Any]) -> ProviderEntry:
    _, user_id, type_name, position, provider, model, dimensions, base, key, test_json, updated_at = row
    type_, ref, test = ProviderType(type_name), None, None
    if provider:
        ref = common_pb2.ProviderRef(
            provider=provider,
            model=model,
            sealed_api_base=base,
            sealed_key=key,
            type=PROVIDER_TYPES.to_proto(type_),
            user_id=user_id,
            dimensions=dimensions,
        )
    if test_json is not None:
        test = json_format.ParseDict(test_json, common_pb2.ProviderTest(), ignore_unknown_fields=True)
    return ProviderEntry(user_id, type_, position, model, ref, test, updated_at)
