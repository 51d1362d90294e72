"""Tenants' profiles in Postgres."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from psycopg.types.json import Jsonb

from citewire_gateway.profiles.changes import Changes, changes_of
from citewire_kit.postgres import Pool, load_queries, tenant_transaction
from citewire_kit.tenant import Tenant

_SQL = load_queries("citewire_gateway.profiles", "profiles.sql")


@dataclass(frozen=True, slots=True)
class StoredProfile:
    """One version of a tenant's profile."""

    name: str
    version: int
    base: str
    description: str
    changes: Changes
    created_at: datetime
    deleted: bool = False


class ProfileStore:
    """Reads and writes them. All methods raise `Unavailable` if the database can't be reached."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    async def put(self, tenant: Tenant, name: str, base: str, description: str, changes: Changes) -> StoredProfile:
        """Writes a new version."""
        values = _names(tenant, name) | {
            "base": base,
            "description": description,
            "changes": Jsonb(changes.given()),
        }
        async with tenant_transaction(self._pool, tenant) as connection:
            await connection.execute(_SQL["take_turns"], values)
            row = await (await connection.execute(_SQL["put"], values)).fetchone()
        if row is None:
            raise RuntimeError("an INSERT returned no row")
        return _profile(row)

    async def get(self, tenant: Tenant, name: str, version: int | None = None) -> StoredProfile | None:
        """Returns the latest version, or a certain one; None if there is none, or if it is deleted."""
        values = _names(tenant, name) | {"version": version}
        async with tenant_transaction(self._pool, tenant) as connection:
            row = await (await connection.execute(_SQL["get"], values)).fetchone()
        found = None if row is None else _profile(row)
        return None if found is None or found.deleted else found

    async def list(self, tenant: Tenant) -> list[StoredProfile]:
        """Returns the latest version of each, by name."""
        async with tenant_transaction(self._pool, tenant) as connection:
            rows = await (await connection.execute(_SQL["list"], _names(tenant, ""))).fetchall()
        return [found for found in map(_profile, rows) if not found.deleted]

    async def delete(self, tenant: Tenant, name: str) -> bool:
        """Deletes a profile; False if there was none. Its versions stay readable for whoever names one."""
        async with tenant_transaction(self._pool, tenant) as connection:
            return (await (await connection.execute(_SQL["delete"], _names(tenant, name))).fetchone()) is not None


def _names(tenant: Tenant, name: str) -> dict[str, Any]:
    return {"org": tenant.org_id, "user": tenant.user_id, "name": name}


def _profile(row: tuple[Any, ...]) -> StoredProfile:
    name, version, base, description, changes, created_at, deleted = row
    return StoredProfile(name, version, base, description, changes_of(changes), created_at, deleted)
