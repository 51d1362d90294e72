"""Organisations, users and API keys in Postgres."""

from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from datetime import datetime

from citewire_gateway.tenants.keys import NewKey
from citewire_kit.errors import FailedPrecondition, NotFound
from citewire_kit.postgres import Connection, Pool, load_queries, tenant_transaction, transaction
from citewire_kit.tenant import Plan, Tenant

_SQL = load_queries("citewire_gateway.tenants", "identity.sql")


@dataclass(frozen=True, slots=True)
class Found:
    """Whom a key belongs to."""

    tenant: Tenant
    revoked: bool


@dataclass(frozen=True, slots=True)
class KeyInfo:
    """A key as its owner may see it."""

    org_id: str
    key_id: str
    user_id: str
    name: str
    prefix: str
    created_at: datetime
    revoked_at: datetime | None
    last_used_at: datetime | None


class IdentityStore:
    """Reads and writes who may call."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    async def find(self, key_hash: bytes) -> Found | None:
        """Returns whom a key belongs to, or None."""
        async with transaction(self._pool) as connection:
            row = await (await connection.execute(_SQL["authenticate"], {"hash": key_hash})).fetchone()
        if row is None:
            return None
        org, user, plan, roles, revoked, key_id = row
        return Found(Tenant(str(org), str(user), _plan(plan), tuple(roles), str(key_id)), bool(revoked))

    async def touch(self, used: Mapping[bytes, datetime]) -> None:
        """Notes when keys, by hash, were last used."""
        async with transaction(self._pool) as connection:
            await connection.execute(_SQL["touch"], {"hashes": list(used), "times": list(used.values())})

    async def ensure_user(self, org_id: str, user_id: str, plan: Plan | None) -> Plan:
        """Makes the organisation and the user if they don't exist, and puts the organisation on `plan`.

        Args:
            org_id: The organisation.
            user_id: The user; the first of an organisation becomes its owner.
            plan: The plan wanted; None keeps the present one, and is `pro` for a new organisation.

        Returns:
            The plan that the organisation is on.
        """
        names = {"org": org_id, "user": user_id}
        async with tenant_transaction(self._pool, _inside(org_id, user_id)) as connection:
            # The second of two that make the same organisation waits here for the first one's end.
            await connection.execute(_SQL["add_org"], names)
            row = await (await connection.execute(_SQL["current_plan"], names)).fetchone()
            wanted: Plan = plan or (_plan(row[0]) if row else "pro")
            if row is None or row[0] != wanted:
                await connection.execute(_SQL["add_plan"], {**names, "plan": wanted})
            await connection.execute(_SQL["add_user"], names)
        return wanted

    async def add_key(self, org_id: str, user_id: str, name: str, key: NewKey) -> KeyInfo:
        """Keeps a new key of an existing user."""
        values = {"org": org_id, "user": user_id, "name": name}
        values |= {"key_id": key.key_id, "hash": key.hash, "prefix": key.prefix}
        async with tenant_transaction(self._pool, _inside(org_id, user_id)) as connection:
            row = await (await connection.execute(_SQL["add_key"], values)).fetchone()
        if row is None:
            raise RuntimeError("INSERT … RETURNING returned nothing")
        return KeyInfo(org_id, key.key_id, user_id, name, key.prefix, row[0], None, None)

    async def list_keys(self, org_id: str | None) -> list[KeyInfo]:
        """Lists an organisation's keys, oldest first; with None all organisations', which only the owner can see."""
        async with self._within(org_id) as connection:
            rows = await connection.execute(_SQL["list_keys"], {"org": org_id})
            return [KeyInfo(*row) for row in await rows.fetchall()]

    async def revoke_key(self, org_id: str | None, wanted: str) -> KeyInfo:
        """Revokes a key, named by its id or its prefix. It stops working with the next request.

        Args:
            org_id: Its organisation; None looks in all, which only the owner can.
            wanted: Id or prefix.

        Raises:
            NotFound: There is no such key.
            FailedPrecondition: The prefix fits several keys.
        """
        async with self._within(org_id) as connection:
            rows = await (await connection.execute(_SQL["find_keys"], {"org": org_id, "wanted": wanted})).fetchall()
            if not rows:
                raise NotFound(f"there is no API key {wanted!r}", reason="API_KEY_NOT_FOUND")
            if len(rows) > 1:
                raise FailedPrecondition(f"{wanted!r} fits several keys: name one by its id", reason="WRONG_STATE")
            found, key_id = rows[0]
            row = await (await connection.execute(_SQL["revoke_key"], {"org": found, "key_id": key_id})).fetchone()
        if row is None:
            raise RuntimeError("the key vanished inside its own transaction")
        return KeyInfo(*row)

    def _within(self, org_id: str | None) -> AbstractAsyncContextManager[Connection]:
        return transaction(self._pool) if org_id is None else tenant_transaction(self._pool, _inside(org_id, "-"))


def _inside(org_id: str, user_id: str) -> Tenant:
    return Tenant(org_id, user_id, "free")


def _plan(value: object) -> Plan:
    if value == "basic":
        return "basic"
    return "pro" if value == "pro" else "free"
