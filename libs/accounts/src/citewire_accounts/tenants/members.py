"""Organisations and their users: who there is, their roles and plans."""

from dataclasses import dataclass
from datetime import datetime

from citewire_kit.errors import FailedPrecondition, NotFound, PermissionDenied
from citewire_kit.postgres import Pool, fetch_row, fetch_rows, load_queries, tenant_transaction, transaction
from citewire_kit.tenant import Plan, Role, Tenant

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


@dataclass(frozen=True, slots=True)
class Member:
    """A user of an organisation."""

    user_id: str
    roles: tuple[str, ...]
    created_at: datetime
    keys: int
    """API keys that aren't revoked."""

    @property
    def role(self) -> Role:
        """The highest of the user's roles; a reader's where none is known."""
        tenant = Tenant("", self.user_id, "free", self.roles)
        if tenant.is_at_least("admin"):
            return "owner" if tenant.is_at_least("owner") else "admin"
        return "editor" if tenant.is_at_least("editor") else "reader"


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
        async with tenant_transaction(self._pool, _inside(org_id)) as connection:
            row = await fetch_row(connection, _SQL["get_organisation"], {"org": org_id})
        if row is None:
            raise NotFound(f"there is no organisation {org_id}", reason="ROUTE_NOT_FOUND")
        return Organisation(**row)

    async def set_plan(self, org_id: str, plan: Plan) -> Organisation:
        """Puts an organisation on a plan, from its next request on.

        Raises:
            NotFound: There is none of that id.
        """
        before = await self.organisation(org_id)
        if before.plan != plan:
            async with tenant_transaction(self._pool, _inside(org_id)) as connection:
                await connection.execute(_SQL["add_plan"], {"org": org_id, "plan": plan})
        return await self.organisation(org_id)

    async def set_audit_days(self, org_id: str, days: int) -> Organisation:
        """Says for how many days an organisation's audit trail is kept; at least 30.

        Raises:
            NotFound: There is no organisation of that id.
        """
        organisation = await self.organisation(org_id)
        async with tenant_transaction(self._pool, _inside(org_id)) as connection:
            await connection.execute(_SQL["set_audit_days"], {"org": org_id, "days": days})
        return organisation

    async def members(self, org_id: str) -> list[Member]:
        """Returns an organisation's users, by their ids."""
        async with tenant_transaction(self._pool, _inside(org_id)) as connection:
            rows = await fetch_rows(connection, _SQL["list_members"], {"org": org_id})
        return [Member(row["user_id"], tuple(row["roles"]), row["created_at"], row["keys"]) for row in rows]

    async def set_role(self, org_id: str, user_id: str, role: Role, *, by: Tenant | None) -> Member:
        """Gives a user a role in place of all before, from the user's next request on.

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
        names = {"org": org_id, "user": user_id}
        async with tenant_transaction(self._pool, _inside(org_id)) as connection:
            # Whoever changes roles of the same organisation meanwhile waits here: two owners can't remove each other.
            owners = {row["user_id"] for row in await fetch_rows(connection, _SQL["lock_owners"], names)}
            row = await fetch_row(connection, _SQL["get_member"], names)
            if row is None:
                raise NotFound(f"there is no user {user_id} in the organisation", reason="ROUTE_NOT_FOUND")
            before = Member(user_id, tuple(row["roles"]), row["created_at"], row["keys"])
            if by is not None and not (by.is_at_least(role) and by.is_at_least(before.role)):
                raise PermissionDenied("nobody can give or take a role above their own", reason="PERMISSION_DENIED")
            if owners == {user_id} and role != "owner":
                raise FailedPrecondition(f"{user_id} is the organisation's last owner", reason="WRONG_STATE")
            await connection.execute(_SQL["set_roles"], {**names, "roles": [role]})
        return Member(user_id, (role,), before.created_at, before.keys)


def _inside(org_id: str) -> Tenant:
    return Tenant(org_id, "-", "free")
