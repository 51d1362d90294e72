"""Finds profiles by name: built-in ones, and those that tenants derived from them, which are stored in Postgres."""

import re
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from psycopg.types.json import Jsonb

from citewire_dialects.options import apply_changes, check_possible, stored_options
from citewire_dialects.profile import Profile
from citewire_dialects.schemas.profiles import ProfileOptions
from citewire_gateway.profiles.builtin import PROFILES, find_profile, unknown_profile
from citewire_kit.errors import AlreadyExists, invalid_field
from citewire_kit.postgres import Pool, tenant_statement, tenant_transaction
from citewire_kit.queries import load_queries
from citewire_kit.tenant import Tenant

_SQL = load_queries("citewire_gateway.profiles", "profiles.sql")
_NAME = re.compile(r"[a-z][a-z0-9_-]{0,63}\Z")
_MOST = 100
"""Profiles of one organisation."""


@dataclass(frozen=True, slots=True)
class StoredProfile:
    """One version of a tenant's profile."""

    name: str
    version: int
    base: str
    description: str
    changes: ProfileOptions
    created_at: datetime
    deleted: bool = False


class ProfileStore:
    """Reads and writes stored profiles. All methods raise `Unavailable` if the database can't be reached."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    async def put(
        self, tenant: Tenant, name: str, base: str, description: str, changes: ProfileOptions
    ) -> StoredProfile:
        """Writes a new version."""
        values = _names(tenant, name) | {"base": base, "description": description, "changes": Jsonb(changes.given())}
        async with tenant_transaction(self._pool, tenant) as connection:
            await connection.execute(_SQL["take_turns"], values)
            row = await (await connection.execute(_SQL["put"], values)).fetchone()
        if row is None:
            raise RuntimeError("an INSERT returned no row")
        return _profile(row)

    async def get(self, tenant: Tenant, name: str, version: int | None = None) -> StoredProfile | None:
        """Returns the latest or a given version; None if there is none, or if it was deleted."""
        values = _names(tenant, name) | {"version": version}
        row = await (await tenant_statement(self._pool, tenant, _SQL["get"], values)).fetchone()
        stored = None if row is None else _profile(row)
        return None if stored is None or stored.deleted else stored

    async def list(self, tenant: Tenant) -> list[StoredProfile]:
        """Returns the latest version of each profile, by name."""
        rows = await (await tenant_statement(self._pool, tenant, _SQL["list"], _names(tenant, ""))).fetchall()
        return [profile for profile in map(_profile, rows) if not profile.deleted]

    async def delete(self, tenant: Tenant, name: str) -> bool:
        """Deletes a profile; False if there was none. Its versions can still be read explicitly."""
        deleted = await tenant_statement(self._pool, tenant, _SQL["delete"], _names(tenant, name))
        return await deleted.fetchone() is not None


class Profiles:
    """Finds and stores profiles."""

    def __init__(self, store: ProfileStore) -> None:
        self._store = store

    async def find(self, tenant: Tenant, name: str) -> Profile:
        """Returns the profile of that name; `name@3` is version 3 of a tenant's own.

        Raises:
            NotFound: There is none (`PROFILE_NOT_FOUND`); metadata `profiles` lists the existing ones.
        """
        if name in PROFILES:
            return PROFILES[name]
        own, _, version = name.partition("@")
        stored = None
        if _NAME.match(own) and (not version or (version.isdecimal() and len(version) < 9)):
            stored = await self._store.get(tenant, own, int(version) if version else None)
        if stored is None:
            names = [*PROFILES, *(profile.name for profile in await self._store.list(tenant))]
            raise unknown_profile(name, names)
        return build_profile(stored)

    async def list(self, tenant: Tenant) -> list[tuple[Profile, StoredProfile | None]]:
        """Returns the built-in profiles, then the tenant's own."""
        ours: list[tuple[Profile, StoredProfile | None]] = [(profile, None) for profile in PROFILES.values()]
        return ours + [(build_profile(stored), stored) for stored in await self._store.list(tenant)]

    async def put(
        self, tenant: Tenant, name: str, base: str, description: str, changes: ProfileOptions
    ) -> StoredProfile:
        """Stores a profile under a name, as a new version if it exists.

        Raises:
            InvalidArgument: The name, the base or a change is invalid.
            AlreadyExists: The name is that of a built-in profile.
        """
        if name in PROFILES:
            raise AlreadyExists(f"{name} is a built-in profile: choose another name", reason="PROFILE_EXISTS")
        if not _NAME.match(name):
            raise invalid_field("name", "must be 1-64 characters of a-z, 0-9, - and _, beginning with a letter")
        if base not in PROFILES:
            raise invalid_field("base", f"must be one of {', '.join(PROFILES)}")
        check_possible(apply_changes(PROFILES[base], changes, "changes"), "changes")
        known = {profile.name for profile in await self._store.list(tenant)}
        if name not in known and len(known) >= _MOST:
            raise invalid_field(
                "name", f"must be the name of an existing profile: there are already {_MOST}, the maximum"
            )
        return await self._store.put(tenant, name, base, description, changes)

    async def delete(self, tenant: Tenant, name: str) -> None:
        """Deletes a tenant's profile. Raises `NotFound`."""
        if not await self._store.delete(tenant, name):
            raise unknown_profile(name, [profile.name for profile in await self._store.list(tenant)], own=True)


def profile_key(profile: Profile) -> tuple[str, ...]:
    """Returns a profile's sort key: built-in ones in their own order, then tenants' by name."""
    ours = [*PROFILES]
    return ("0", f"{ours.index(profile.name):03}") if profile.name in PROFILES else ("1", profile.name)


def build_profile(stored: StoredProfile) -> Profile:
    """Returns a stored profile as a profile."""
    base = find_profile(stored.base)
    profile = apply_changes(base, stored.changes, "changes")
    return replace(profile, name=stored.name, description=stored.description or base.description)


def _names(tenant: Tenant, name: str) -> dict[str, Any]:
    return {"org": tenant.org_id, "user": tenant.user_id, "name": name}


def _profile(row: tuple[Any, ...]) -> StoredProfile:
    name, version, base, description, changes, created_at, deleted = row
    return StoredProfile(name, version, base, description, stored_options(changes), created_at, deleted)
