"""From a name to a profile: one of ours, or one that the tenant made of one of ours."""

import re
from dataclasses import replace

from citewire_gateway.profiles.builtin import PROFILES, find_profile
from citewire_gateway.profiles.changes import Changes, apply_changes
from citewire_gateway.profiles.model import Profile
from citewire_gateway.profiles.store import ProfileStore, StoredProfile
from citewire_kit.errors import AlreadyExists, NotFound, invalid_field
from citewire_kit.tenant import Tenant

_NAME = re.compile(r"[a-z][a-z0-9_-]{0,63}\Z")
_MOST = 100
"""Profiles of one organisation."""


class Profiles:
    """Finds and keeps profiles."""

    def __init__(self, store: ProfileStore) -> None:
        self._store = store

    async def find(self, tenant: Tenant, name: str) -> Profile:
        """Returns the profile of that name; `name@3` is version 3 of a tenant's own.

        Raises:
            NotFound: There is none (`PROFILE_NOT_FOUND`); metadata `profiles` lists those there are.
        """
        if name in PROFILES:
            return PROFILES[name]
        own, _, version = name.partition("@")
        stored = None
        if _NAME.match(own) and (not version or (version.isdecimal() and len(version) < 9)):
            stored = await self._store.get(tenant, own, int(version) if version else None)
        if stored is None:
            names = [*PROFILES, *(profile.name for profile in await self._store.list(tenant))]
            raise _unknown(name, names)
        return build_profile(stored)

    async def list(self, tenant: Tenant) -> list[tuple[Profile, StoredProfile | None]]:
        """Returns ours, then the tenant's own."""
        ours: list[tuple[Profile, StoredProfile | None]] = [(profile, None) for profile in PROFILES.values()]
        return ours + [(build_profile(stored), stored) for stored in await self._store.list(tenant)]

    async def put(self, tenant: Tenant, name: str, base: str, description: str, changes: Changes) -> StoredProfile:
        """Keeps a profile under a name, as a further version if there is one.

        Raises:
            InvalidArgument: The name, the base or a change isn't possible.
            AlreadyExists: The name is one of ours.
        """
        if name in PROFILES:
            raise AlreadyExists(f"{name} is a profile of the server's: choose another name", reason="PROFILE_EXISTS")
        if not _NAME.match(name):
            raise invalid_field("name", "must be 1-64 of a-z, 0-9, - and _, beginning with a letter")
        if base not in PROFILES:
            raise invalid_field("base", f"must be one of {', '.join(PROFILES)}")
        apply_changes(PROFILES[base], changes, "changes")
        known = {profile.name for profile in await self._store.list(tenant)}
        if name not in known and len(known) >= _MOST:
            raise invalid_field("name", f"must be one of the present ones: there are {_MOST}, and no more fit")
        return await self._store.put(tenant, name, base, description, changes)

    async def delete(self, tenant: Tenant, name: str) -> None:
        """Deletes a tenant's profile. Raises `NotFound`."""
        if not await self._store.delete(tenant, name):
            raise _unknown(name, [profile.name for profile in await self._store.list(tenant)])


def build_profile(stored: StoredProfile) -> Profile:
    """Returns the profile that a stored one is."""
    base = find_profile(stored.base)
    profile = apply_changes(base, stored.changes, "changes")
    return replace(profile, name=stored.name, description=stored.description or base.description)


def _unknown(name: str, names: list[str]) -> NotFound:
    known = ", ".join(names) or "none"
    return NotFound(
        f"there is no profile {name[:64]!r}; there are: {known}",
        reason="PROFILE_NOT_FOUND",
        metadata={"profiles": known[:1000]},
    )
