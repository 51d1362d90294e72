"""Organisations and their users: who there is, their roles and plans."""

from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple

from citewire_kit.errors import FailedPrecondition, NotFound, PermissionDenied
from citewire_kit.postgres import Connection, Pool, tenant_transaction, transaction
from citewire_kit.queries import fetch_row, fetch_rows, load_queries
from citewire_kit.tenant import Plan, Role, Tenant, is_token

_SQL = load_queries("citewire_accounts.tenants", "members.sql")


@dataclass(frozen=True, slots=True)
class Organisation:
    """An organisation with its plan."""

    org_id: str
    plan: Plan
    created_at: datetime
    users: int
    keys: int
    """API keys that aren't revoked."""
    suspended_at: datetime | None
    """Since when nobody of it may call; None: they may."""
    audit_days: int | None
    """For how long its audit trail is kept; None: as long as the server keeps those without a policy."""


@dataclass(frozen=True, slots=True)
class Member:
    """A user of an organisation."""

    user_id: str
    roles: tuple[str, ...]
    created_at: datetime
    disabled_at: datetime | None
    """Since when the user may not act; None: the user may."""
    keys: int
    """API keys that aren't revoked."""

    @property
    def role(self) -> Role:
        """The highest of the user's roles; a reader's where none is known."""
        tenant = Tenant("", self.user_id, "free", self.roles)
        if tenant.is_at_least("admin"):
            return "owner" if tenant.is_at_least("owner") else "admin"
        return "editor" if tenant.is_at_least("editor") else "reader"


class Groups(NamedTuple):
    """A user's groups."""

    own: Sequence[str]
    """Groups of the organisation's own."""
    provider: Sequence[str]
    """Groups as last reported by the identity provider."""


class MemberStore:
    """Reads and changes organisations and users, each under its organisation."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    async def organisations(self) -> list[Organisation]:
        """Returns all organisations; for the schema's owner, as nobody else sees them."""
        async with transaction(self._pool) as connection:
            return [Organisation(**row) for row in await fetch_rows(connection, _SQL["list_organisations"])]

    async def organisation(self, org_id: str) -> Organisation:
        """Returns an organisation.

        Raises:
            NotFound: There is none of that id.
        """
        row = None
        if is_token(org_id):
            async with tenant_transaction(self._pool, _inside(org_id)) as connection:
                row = await fetch_row(connection, _SQL["get_organisation"], {"org": org_id})
        if row is None:
            raise NotFound(f"there is no organisation {org_id[:128]!r}", reason="ORGANISATION_NOT_FOUND")
        return Organisation(**row)

    async def create_organisation(self, org_id: str, plan: Plan, owner: str | None) -> Organisation:
        """Creates an organisation.

        Args:
            org_id: Its id.
            plan: The plan that it is on.
            owner: A user who owns it, and may then sign in; None: the first user created.

        Raises:
            FailedPrecondition: It exists, or is being erased (reason `WRONG_STATE`).
        """
        names = {"org": org_id, "plan": plan, "user": owner, "roles": ["owner"]}
        async with tenant_transaction(self._pool, _inside(org_id)) as connection:
            if await fetch_row(connection, _SQL["is_being_erased"], names) is not None:
                raise FailedPrecondition(f"{org_id} is being erased: wait until it is done", reason="WRONG_STATE")
            if await fetch_row(connection, _SQL["add_organisation"], names) is None:
                raise FailedPrecondition(f"the organisation {org_id} already exists", reason="WRONG_STATE")
            await connection.execute(_SQL["add_plan"], names)
            if owner is not None:
                await connection.execute(_SQL["add_member"], names)
        return await self.organisation(org_id)

    async def set_suspended(self, org_id: str, *, suspended: bool) -> Organisation:
        """Suspends an organisation from the next request of its keys and sessions on, or lets its users call again.

        Tokens of identity providers count within 30 seconds. What is stored stays.

        Raises:
            NotFound: There is none of that id.
        """
        async with tenant_transaction(self._pool, _inside(org_id)) as connection:
            await connection.execute(_SQL["set_suspended"], {"org": org_id, "suspended": suspended})
        return await self.organisation(org_id)

    async def set_plan(self, org_id: str, plan: Plan) -> Organisation:
        """Changes an organisation's plan, effective from its next request.

        Raises:
            NotFound: There is none of that id.
        """
        before = await self.organisation(org_id)
        if before.plan != plan:
            async with tenant_transaction(self._pool, _inside(org_id)) as connection:
                await connection.execute(_SQL["add_plan"], {"org": org_id, "plan": plan})
        return await self.organisation(org_id)

    async def set_audit_days(self, org_id: str, days: int) -> Organisation:
        """Sets the days for which an organisation's audit trail is kept, at least 30.

        Raises:
            NotFound: There is no organisation of that id.
        """
        await self.organisation(org_id)
        async with tenant_transaction(self._pool, _inside(org_id)) as connection:
            await connection.execute(_SQL["set_audit_days"], {"org": org_id, "days": days})
        return await self.organisation(org_id)

    async def members(self, org_id: str) -> list[Member]:
        """Returns an organisation's users, by their ids."""
        async with tenant_transaction(self._pool, _inside(org_id)) as connection:
            return [_member(row) for row in await fetch_rows(connection, _SQL["list_members"], {"org": org_id})]

    async def member(self, org_id: str, user_id: str) -> tuple[Member, Groups]:
        """Returns a user with the groups that are known of it.

        Raises:
            NotFound: There is no such user.
        """
        names = {"org": org_id, "user": user_id}
        async with tenant_transaction(self._pool, _inside(org_id)) as connection:
            member = await _get(connection, names)
            groups = await fetch_row(connection, _SQL["groups_of"], names)
        return member, Groups((), ()) if groups is None else Groups(groups["groups"], groups["provider_groups"])

    async def add(self, org_id: str, user_id: str, role: Role, *, by: Tenant | None) -> Member:
        """Creates a user, who may sign in or get keys later.

        Args:
            org_id: The organisation.
            user_id: The user, as the identity provider will name it.
            role: Its role, unless the provider names another.
            by: Who does it, who can give only what they have; None: the operator.

        Raises:
            NotFound: There is no such organisation.
            PermissionDenied: It gives a role above that of who does it.
            FailedPrecondition: The user exists.
        """
        await self.organisation(org_id)
        if by is not None and not by.is_at_least(role):
            raise _above()
        names = {"org": org_id, "user": user_id}
        async with tenant_transaction(self._pool, _inside(org_id)) as connection:
            if await fetch_row(connection, _SQL["add_member"], {**names, "roles": [role]}) is None:
                raise FailedPrecondition(f"{user_id} is already a user of the organisation", reason="WRONG_STATE")
            return await _get(connection, names)

    async def set_role(self, org_id: str, user_id: str, role: Role, *, by: Tenant | None) -> Member:
        """Replaces a user's roles by one, from the user's next request on.

        Args:
            org_id: The organisation.
            user_id: Whose role it is.
            role: The new one.
            by: Who does it, who can give and take only what they have; None: the operator.

        Raises:
            NotFound: There is no such user.
            PermissionDenied: It takes or gives a role above that of who does it.
            FailedPrecondition: The organisation would be left without an owner.
        """
        async with self._changing(org_id, user_id, by, stays_owner=role == "owner") as (connection, names):
            if by is not None and not by.is_at_least(role):
                raise _above()
            await connection.execute(_SQL["set_roles"], {**names, "roles": [role]})
            return await _get(connection, names)

    async def set_disabled(self, org_id: str, user_id: str, *, disabled: bool, by: Tenant | None) -> Member:
        """Enables or disables a user: with keys from the next request on, with a provider's token within 30 seconds.

        Sessions of a user who is disabled end, also when the user is enabled again.

        Args:
            org_id: The organisation.
            user_id: The user.
            disabled: Whether it may not.
            by: Who does it; None: the operator.

        Raises:
            NotFound: There is no such user.
            PermissionDenied: The user has a role above that of who does it.
            FailedPrecondition: The organisation would be left without an owner who may act.
        """
        async with self._changing(org_id, user_id, by, stays_owner=not disabled) as (connection, names):
            await connection.execute(_SQL["set_disabled"], {**names, "disabled": disabled})
            if disabled:  # a sign-in that began before has the user's row, and its session is seen here
                await connection.execute(_SQL["end_sessions"], names)
            return await _get(connection, names)

    @asynccontextmanager
    async def _changing(
        self, org_id: str, user_id: str, by: Tenant | None, *, stays_owner: bool
    ) -> AsyncGenerator[tuple[Connection, dict[str, str]], None]:
        """Checks that a user may be changed, in the transaction that does."""
        names = {"org": org_id, "user": user_id}
        async with tenant_transaction(self._pool, _inside(org_id)) as connection:
            # Concurrent role changes in the same organisation wait here: two owners can't remove each other.
            owners = {row["user_id"] for row in await fetch_rows(connection, _SQL["lock_owners"], names)}
            before = await _get(connection, names)
            if by is not None and not by.is_at_least(before.role):
                raise _above()
            if owners == {user_id} and not stays_owner:
                raise FailedPrecondition(f"{user_id} is the organisation's last owner", reason="WRONG_STATE")
            yield connection, names


async def _get(connection: Connection, names: Mapping[str, str]) -> Member:
    row = await fetch_row(connection, _SQL["get_member"], names)
    if row is None:
        raise NotFound(f"there is no user {names['user']} in the organisation", reason="ROUTE_NOT_FOUND")
    return _member(row)


def _member(row: Mapping[str, Any]) -> Member:
    return Member(row["user_id"], tuple(row["roles"]), row["created_at"], row["disabled_at"], row["keys"])


def _above() -> PermissionDenied:
    return PermissionDenied("nobody can grant or revoke a role above their own", reason="PERMISSION_DENIED")


def _inside(org_id: str) -> Tenant:
    return Tenant(org_id, "-", "free")
