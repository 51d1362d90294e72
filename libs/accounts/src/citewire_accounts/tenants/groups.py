"""An organisation's own groups, in addition to those of an identity provider."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from citewire_kit.errors import FailedPrecondition, NotFound, invalid_field
from citewire_kit.postgres import Connection, Pool, tenant_transaction
from citewire_kit.queries import fetch_row, fetch_rows, load_queries
from citewire_kit.tenant import MAX_GROUP_CHARS, Tenant

MAX_GROUPS_OF_ORG: Final = 1000
MAX_GROUPS_OF_USER: Final = 100
"""Maximum number of the organisation's own groups: half of the total, so that a provider has room for its own."""

_SQL = load_queries("citewire_accounts.tenants", "groups.sql")


@dataclass(frozen=True, slots=True)
class Group:
    """A group of users."""

    name: str
    created_by: str
    created_at: datetime
    users: int
    """Number of users in it."""


class GroupStore:
    """Reads and changes groups, each under its organisation.

    All methods that name a group raise `NotFound` if there is none of that name.
    """

    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    async def groups(self, org_id: str) -> list[Group]:
        """Returns an organisation's groups, by name."""
        async with tenant_transaction(self._pool, _inside(org_id)) as connection:
            rows = await fetch_rows(connection, _SQL["list_groups"], {"org": org_id, "name": None})
        return [Group(**row) for row in rows]

    async def members(self, org_id: str, name: str) -> list[str]:
        """Returns the users of a group, by their ids."""
        values = {"org": org_id, "name": name}
        async with tenant_transaction(self._pool, _inside(org_id)) as connection:
            await _get(connection, values)
            return [row["user_id"] for row in await fetch_rows(connection, _SQL["list_members"], values)]

    async def add(self, org_id: str, name: str, *, by: str) -> Group:
        """Creates a group without users.

        Args:
            org_id: The organisation.
            name: 1-200 printable characters without slash, none of them a space at either end.
            by: The user who does it.

        Raises:
            InvalidArgument: The name isn't one.
            NotFound: There is no such organisation.
            FailedPrecondition: There is a group of this name, or there are as many as may be.
        """
        if not (0 < len(name) <= MAX_GROUP_CHARS and name.isprintable() and "/" not in name and name == name.strip()):
            raise invalid_field(
                "name", f"must be 1-{MAX_GROUP_CHARS} printable characters, without / and spaces at the ends"
            )
        values = {"org": org_id, "name": name, "by": by}
        async with self._changing(org_id) as connection:
            if await fetch_row(connection, _SQL["has_organisation"], values) is None:
                raise NotFound(f"there is no organisation {org_id}", reason="ROUTE_NOT_FOUND")
            await _check_room(connection, "count_groups", values, MAX_GROUPS_OF_ORG, "the organisation")
            if await fetch_row(connection, _SQL["add_group"], values) is None:
                raise FailedPrecondition(f"there is already a group {name}", reason="WRONG_STATE")
            return await _get(connection, values)

    async def delete(self, org_id: str, name: str) -> None:
        """Deletes a group, effective from the next request. References to its name stay."""
        values = {"org": org_id, "name": name}
        async with self._changing(org_id) as connection:
            if await fetch_row(connection, _SQL["delete_group"], values) is None:
                raise _missing(name)

    async def add_member(self, org_id: str, name: str, user_id: str) -> Group:
        """Adds a user to a group; a second time has no effect.

        Raises:
            NotFound: There is no such group or user.
            FailedPrecondition: The user is in as many groups as may be.
        """
        values = {"org": org_id, "name": name, "user": user_id}
        async with self._changing(org_id) as connection:
            await _get(connection, values)
            if await fetch_row(connection, _SQL["lock_user"], values) is None:
                raise NotFound(f"there is no user {user_id} in the organisation", reason="ROUTE_NOT_FOUND")
            await _check_room(connection, "count_memberships", values, MAX_GROUPS_OF_USER, user_id)
            await connection.execute(_SQL["add_member"], values)
            return await _get(connection, values)

    async def remove_member(self, org_id: str, name: str, user_id: str) -> Group:
        """Takes a user out of a group.

        Raises:
            NotFound: There is no such group, or the user isn't in it.
        """
        values = {"org": org_id, "name": name, "user": user_id}
        async with self._changing(org_id) as connection:
            group = await _get(connection, values)
            if await fetch_row(connection, _SQL["remove_member"], values) is None:
                raise NotFound(f"{user_id} isn't in the group {group.name}", reason="ROUTE_NOT_FOUND")
            return await _get(connection, values)

    @asynccontextmanager
    async def _changing(self, org_id: str) -> AsyncGenerator[Connection, None]:
        async with tenant_transaction(self._pool, _inside(org_id)) as connection:
            await connection.execute(_SQL["take_turn"], {"org": org_id})
            yield connection


async def _get(connection: Connection, values: dict[str, str]) -> Group:
    row = await fetch_row(connection, _SQL["list_groups"], values)
    if row is None:
        raise _missing(values["name"])
    return Group(**row)


async def _check_room(connection: Connection, count: str, values: dict[str, str], most: int, whose: str) -> None:
    row = await fetch_row(connection, _SQL[count], values)
    if row is not None and row["groups"] >= most:
        raise FailedPrecondition(f"{whose} already has the maximum of {most} groups", reason="WRONG_STATE")


def _missing(name: str) -> NotFound:
    return NotFound(f"there is no group {name} in the organisation", reason="ROUTE_NOT_FOUND")


def _inside(org_id: str) -> Tenant:
    return Tenant(org_id, "-", "free")
