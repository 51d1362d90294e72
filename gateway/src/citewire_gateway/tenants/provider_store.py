"""Tenants' own providers in Postgres."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from psycopg.types.json import Jsonb

from citewire_gateway.tenants.providers import Entry, ProviderRef, ProviderTest, ProviderType, TenantProviders
from citewire_kit.postgres import Pool, load_queries, tenant_transaction, transaction
from citewire_kit.tenant import Tenant

_SQL = load_queries("citewire_gateway.tenants", "providers.sql")


@dataclass(frozen=True, slots=True)
class Place:
    """Where a sealed provider stands, in whichever organisation."""

    org_id: str
    user_id: str
    type: ProviderType
    position: int


class ProviderStore:
    """Reads and writes them. All methods raise `Unavailable` if the database can't be reached."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    async def load(self, tenant: Tenant) -> TenantProviders:
        """Returns the caller's and the caller's organisation's."""
        async with tenant_transaction(self._pool, tenant) as connection:
            found = await connection.execute(_SQL["load"], _names(tenant), binary=True)
            rows = await found.fetchall()
        return TenantProviders(tuple(_entry(row) for row in rows if row[1] is not None), bool(rows[0][0]))

    async def save(self, tenant: Tenant, chain: Sequence[Entry]) -> None:
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

    async def places(self) -> list[Place]:
        """Returns where there is something sealed, over all organisations."""
        async with transaction(self._pool) as connection:
            rows = await (await connection.execute(_SQL["sealed_providers"])).fetchall()
        return [Place(row[0], row[1], ProviderType(row[2]), row[3]) for row in rows]

    async def get(self, place: Place) -> ProviderRef | None:
        """Returns what stands at a place; None if it is gone."""
        tenant = tenant_of(place)
        async with tenant_transaction(self._pool, tenant) as connection:
            row = await (await connection.execute(_SQL["get"], _at(place), binary=True)).fetchone()
        return None if row is None else _entry(row).ref

    async def swap(self, place: Place, old: ProviderRef, new: ProviderRef) -> bool:
        """Puts newly wrapped ciphertext in the place of the old; False if it was saved anew meanwhile."""
        values = {
            **_at(place),
            "old_base": old.sealed_api_base,
            "old_key": old.sealed_key,
            "new_base": new.sealed_api_base,
            "new_key": new.sealed_key,
        }
        async with tenant_transaction(self._pool, tenant_of(place)) as connection:
            return (await connection.execute(_SQL["swap"], values)).rowcount == 1


def tenant_of(place: Place) -> Tenant:
    """Returns the tenant on whose behalf a place is read and sealed again."""
    return Tenant(place.org_id, place.user_id or "-", "free")


def _names(tenant: Tenant) -> dict[str, Any]:
    return {"org": tenant.org_id, "user": tenant.user_id}


def _at(place: Place) -> dict[str, Any]:
    return {"org": place.org_id, "owner": place.user_id, "type": place.type, "position": place.position}


def _values(tenant: Tenant, entry: Entry) -> dict[str, Any]:
    ref = entry.ref
    return _names(tenant) | {
        "owner": entry.user_id,
        "type": entry.type,
        "position": entry.position,
        "provider": ref.provider if ref else "",
        "model": entry.model,
        "dimensions": ref.dimensions if ref else 0,
        "sealed_api_base": ref.sealed_api_base if ref else b"",
        "sealed_key": ref.sealed_key if ref else b"",
        "test": Jsonb(asdict(entry.test)) if entry.test else None,
    }


def _entry(row: Sequence[Any]) -> Entry:
    _, user_id, type_, position, provider, model, dimensions, base, key, test, updated_at = row
    kind = ProviderType(type_)
    ref = ProviderRef(kind, provider, model, user_id, base, key, dimensions) if provider else None
    return Entry(user_id, kind, position, model, ref, _test(test), updated_at)


def _test(value: Mapping[str, Any] | None) -> ProviderTest | None:
    return None if value is None else ProviderTest(**value)
