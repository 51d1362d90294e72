"""Sessions in the database, and the people who sign in."""

import hashlib
import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from citewire_accounts.people.claims import Person
from citewire_accounts.people.issuers import Issuer
from citewire_kit.errors import PermissionDenied
from citewire_kit.postgres import Connection, Pool, tenant_statement, tenant_transaction, transaction
from citewire_kit.queries import load_queries
from citewire_kit.telemetry import get_logger
from citewire_kit.tenant import MAX_GROUPS, Tenant

LEASE = timedelta(seconds=15)
"""Longest time that a gateway may take to query the provider."""

OVERLAP = timedelta(seconds=15)
"""How long a replaced cookie still works once the new one has been seen."""

_LOST_AFTER = timedelta(minutes=1)
"""Time after which an unseen new cookie counts as lost."""

_SWEEP_MOST = 1000
_SQL = load_queries("citewire_accounts.people", "sessions.sql")

log = get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Session:
    """A person who signed in with a browser."""

    tenant: Tenant
    session_id: str
    issuer: str
    """The provider's name in the settings."""
    sealed_tokens: bytes
    fresh_seconds: float
    """Seconds for which groups and roles are valid without querying the provider; negative if expired."""
    expires_at: datetime


class SessionStore:
    """Reads and writes sessions; any gateway can serve any of them."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    async def find(self, cookie: str) -> Session | None:
        """Returns the session of a cookie; None if there is none or it has expired.

        A replaced cookie counts as stolen after its overlap, and ends the session (as with refresh
        tokens, RFC 9700 section 4.14.2). Groups are those that the provider named and the organisation's own, as
        they are now.

        Raises:
            PermissionDenied: Reason `CLAIM_INVALID`: they are too many together.
        """
        async with transaction(self._pool) as connection:
            row = await (await connection.execute(_SQL["find_session"], {"hash": _hash(cookie)})).fetchone()
        if row is None:
            return None
        org, user, plan, roles, groups, session_id, issuer, tokens, fresh, expires_at, state = row
        tenant = Tenant(org, user, plan or "free", tuple(roles), groups=_bounded(groups))
        session = Session(tenant, session_id, issuer, bytes(tokens), fresh, expires_at)
        if state == "outdated":
            log.warning("session_cookie_reused", session_id=session_id, org=org, user=user)
            await self.delete(session)
            return None
        if state == "new":
            values = {**_key(session), "hash": _hash(cookie), "overlap": OVERLAP}
            await tenant_statement(self._pool, tenant, _SQL["begin_overlap"], values)
        return session

    async def replace(self, session: Session, cookie: str) -> str | None:
        """Gives a session a new cookie.

        Returns:
            The new one, which exists only there; None if another request has just replaced it.
        """
        new = secrets.token_urlsafe(32)
        values = {**_key(session), "hash": _hash(cookie), "new_hash": _hash(new), "lost_after": _LOST_AFTER}
        replaced = await tenant_statement(self._pool, session.tenant, _SQL["replace_cookie"], values)
        return None if await replaced.fetchone() is None else new

    async def make_known(self, person: Person, issuer: Issuer) -> Tenant:
        """Creates the organisation and the user if they don't exist, with the roles and the plan from the claims.

        Raises:
            PermissionDenied: The user is disabled (`USER_DISABLED`), the organisation is suspended
                (`ORGANISATION_SUSPENDED`), or there are too many groups (`CLAIM_INVALID`).
        """
        async with tenant_transaction(self._pool, _inside(person)) as connection:
            return await _put_person(connection, person, issuer)

    async def add(
        self, person: Person, issuer: Issuer, sealed_tokens: bytes, fresh: timedelta, lifetime: timedelta
    ) -> str:
        """Begins a session, and returns its cookie, which exists only there. Raises as `make_known`."""
        cookie = secrets.token_urlsafe(32)
        values = {"org": person.org_id, "user": person.user_id, "issuer": issuer.name, "groups": list(person.groups)}
        values |= {"session": f"session_{secrets.token_hex(8)}", "hash": _hash(cookie), "tokens": sealed_tokens}
        async with tenant_transaction(self._pool, _inside(person)) as connection:
            await _put_person(connection, person, issuer)
            await connection.execute(_SQL["add_session"], {**values, "fresh": fresh, "lifetime": lifetime})
        return cookie

    async def lease(self, session: Session) -> tuple[bytes, float] | None:
        """Takes the lease for querying the provider; None while another gateway or request has it.

        Returns:
            The sealed tokens and `fresh_seconds` as they are now.
        """
        values = {**_key(session), "lease": LEASE}
        row = await (await tenant_statement(self._pool, session.tenant, _SQL["lease_session"], values)).fetchone()
        return None if row is None else (bytes(row[0]), row[1])

    async def renew(
        self, session: Session, person: Person, issuer: Issuer, sealed_tokens: bytes, fresh: timedelta
    ) -> None:
        """Stores the provider's answer, and ends the lease. Raises as `make_known`."""
        values = {**_key(session), "groups": list(person.groups), "tokens": sealed_tokens, "fresh": fresh}
        async with tenant_transaction(self._pool, session.tenant) as connection:
            await _put_person(connection, person, issuer)
            await connection.execute(_SQL["renew_session"], values)

    async def release(self, session: Session) -> None:
        """Ends the lease without changes."""
        await self._do("release_session", session)

    async def delete(self, session: Session) -> None:
        """Ends a session."""
        await self._do("delete_session", session)

    async def sweep(self) -> None:
        """Deletes expired sessions."""
        async with transaction(self._pool) as connection:
            await connection.execute(_SQL["sweep_sessions"], {"most": _SWEEP_MOST})

    async def _do(self, statement: str, session: Session) -> None:
        await tenant_statement(self._pool, session.tenant, _SQL[statement], _key(session))


async def _put_person(connection: Connection, person: Person, issuer: Issuer) -> Tenant:
    roles: Sequence[str] | None = None if person.roles is None else list(person.roles)
    values: dict[str, object] = {"org": person.org_id, "user": person.user_id}
    values |= {"plan": person.plan, "default_plan": issuer.plan}
    await connection.execute(_SQL["add_org"], values)
    await connection.execute(_SQL["put_plan"], values)
    values |= {"roles": roles, "default_roles": [issuer.default_role], "groups": list(person.groups)}
    row = await (await connection.execute(_SQL["put_user"], values)).fetchone()
    if row is None:
        raise RuntimeError("INSERT … RETURNING returned nothing")
    present_roles, plan, is_disabled, is_suspended, own_groups = row
    if is_suspended:
        raise suspended(person.org_id)
    if is_disabled:
        raise disabled(person.user_id)
    groups = _bounded(tuple(dict.fromkeys((*person.groups, *own_groups))))
    return Tenant(person.org_id, person.user_id, plan or issuer.plan, tuple(present_roles), groups=groups)


def disabled(user_id: str) -> PermissionDenied:
    """Returns the error for a user whom the organisation has disabled."""
    return PermissionDenied(f"{user_id} is disabled in the organisation", reason="USER_DISABLED")


def suspended(org_id: str) -> PermissionDenied:
    """Returns the error for all members of a suspended organisation."""
    return PermissionDenied(
        f"the organisation {org_id} is suspended: ask the server's operator", reason="ORGANISATION_SUSPENDED"
    )


def _bounded(groups: Sequence[str]) -> tuple[str, ...]:
    if len(groups) > MAX_GROUPS:
        raise PermissionDenied(
            f"the identity provider and the organisation name {len(groups)} groups of this user, and at most "
            f"{MAX_GROUPS} may be named: let them name fewer",
            reason="CLAIM_INVALID",
            metadata={"claim": "groups"},
        )
    return tuple(groups)


def _hash(cookie: str) -> bytes:
    """As with API keys, 256 random bits need no slow hash."""
    return hashlib.sha256(cookie.encode()).digest()


def _key(session: Session) -> dict[str, str]:
    return {"org": session.tenant.org_id, "session": session.session_id}


def _inside(person: Person) -> Tenant:
    return Tenant(person.org_id, person.user_id, "free")
