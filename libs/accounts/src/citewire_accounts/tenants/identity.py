"""API keys, and the organisations and users that they belong to."""

import hashlib
import re
import secrets
from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any, Final, Literal, NamedTuple

from citewire_kit.errors import FailedPrecondition, NotFound
from citewire_kit.postgres import Connection, Pool, read_row, tenant_transaction, transaction
from citewire_kit.queries import load_queries
from citewire_kit.tenant import Plan, Tenant

_KEY = re.compile(r"cw_[A-Za-z0-9_-]{43}")
_PREFIX_CHARS = 11  # `cw_` and 8 characters: 48 of 256 bits, enough to recognise a key, useless to guess it
_MAX_KEYS = 100  # of one user, that work
_SQL = load_queries("citewire_accounts.tenants", "identity.sql")


Scope = Literal["read", "chat", "write", "admin"]

SCOPES: Final[tuple[Scope, ...]] = ("read", "chat", "write", "admin")
"""Scopes of a key: reading and searching; asking; changing; the rights of owners and admins, and keys."""

KeyState = Literal["active", "revoked", "expired", "rotated", "disabled", "suspended"]


@dataclass(frozen=True, slots=True)
class Caller:
    """The caller of a request, with scopes."""

    tenant: Tenant
    scopes: tuple[Scope, ...] = SCOPES
    expires_at: datetime | None = None
    """When what it was sent with expires; None: never."""
    kind: Literal["key", "token", "session"] = "key"
    """The credential: an API key, a provider's token, or a session cookie."""
    limited_groups: bool = False
    """Whether its API key is restricted to named groups."""

    def limited(self) -> Tenant:
        """Returns the tenant with no role above what the scopes need, for the services, which don't know scopes."""
        role = "admin" if "admin" in self.scopes else "editor" if "write" in self.scopes else "reader"
        if role == "admin" or not self.tenant.is_at_least(role):
            return self.tenant
        return replace(self.tenant, roles=(role,))


@dataclass(frozen=True, slots=True, repr=False)
class NewKey:
    """A new key. Its text exists only here; only its hash is stored."""

    text: str
    key_id: str

    @property
    def prefix(self) -> str:
        """The first characters, for recognising it."""
        return self.text[:_PREFIX_CHARS]

    @property
    def hash(self) -> bytes:
        """The stored hash."""
        return hash_key(self.text)

    def __repr__(self) -> str:
        return f"NewKey({self.prefix}…)"


def make_key() -> NewKey:
    """Generates a key of 32 random bytes."""
    return NewKey(text=f"cw_{secrets.token_urlsafe(32)}", key_id=f"key_{secrets.token_hex(8)}")


def is_key(text: str) -> bool:
    """Whether `text` has the form of a key; other texts need no database lookup."""
    return _KEY.fullmatch(text) is not None


def hash_key(text: str) -> bytes:
    """Returns the SHA-256 of a key.

    A slow, salted hash would protect a secret that can be guessed from a leaked table. This one is 256 random bits, so
    a fast hash gives nothing away, can be looked up by index, and costs a request next to nothing.
    """
    return hashlib.sha256(text.encode()).digest()


class KeyOwner(NamedTuple):
    """A key's holder and state."""

    caller: Caller
    state: KeyState


@dataclass(frozen=True, slots=True)
class KeyInfo:
    """A key without its secret."""

    org_id: str
    key_id: str
    user_id: str
    name: str
    prefix: str
    created_at: datetime
    revoked_at: datetime | None
    last_used_at: datetime | None
    scopes: Sequence[Scope]
    expires_at: datetime | None
    """None: never."""
    previous_until: datetime | None
    """Until when the text before the last rotation works; None: it was never rotated."""
    groups: Sequence[str] | None
    """Those that it names; None: those of the organisation's own that its user is in."""


class IdentityStore:
    """Reads and writes API keys and their holders."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    async def find(self, key_hash: bytes) -> KeyOwner | None:
        """Returns whom a key belongs to, or None."""
        row = await read_row(self._pool, _SQL["find_key"], {"hash": key_hash})
        if row is None:
            return None
        org, user, plan, roles, key_id, scopes, expires_at, state, groups, limited_groups = row
        tenant = Tenant(org, user, plan or "free", tuple(roles), key_id, tuple(groups))
        return KeyOwner(Caller(tenant, tuple(scopes), expires_at, limited_groups=limited_groups), state)

    async def touch(self, used: Mapping[bytes, datetime]) -> None:
        """Records when keys, by hash, were last used."""
        async with transaction(self._pool) as connection:
            await connection.execute(_SQL["touch"], {"hashes": list(used), "times": list(used.values())})

    async def ensure_user(self, org_id: str, user_id: str, plan: Plan | None) -> Plan:
        """Creates the organisation and the user if they don't exist, and sets the organisation's plan to `plan`.

        Args:
            org_id: The organisation.
            user_id: The user; the first of an organisation becomes its owner.
            plan: The plan wanted; None keeps the present one, and is `pro` for a new organisation.

        Returns:
            The plan that the organisation is on.
        """
        names = {"org": org_id, "user": user_id}
        async with tenant_transaction(self._pool, _inside(org_id, user_id)) as connection:
            # Of two that create the same organisation, the second waits here for the first.
            await connection.execute(_SQL["add_org"], names)
            row = await (await connection.execute(_SQL["current_plan"], names)).fetchone()
            new_plan: Plan = plan or (row[0] if row else "pro")
            if row is None or row[0] != new_plan:
                await connection.execute(_SQL["add_plan"], {**names, "plan": new_plan})
            await connection.execute(_SQL["add_user"], names)
        return new_plan

    async def roles_of(self, org_id: str, user_id: str) -> tuple[str, ...] | None:
        """Returns a user's roles; None if there is no such user."""
        async with tenant_transaction(self._pool, _inside(org_id, user_id)) as connection:
            names = {"org": org_id, "user": user_id}
            row = await (await connection.execute(_SQL["user_roles"], names)).fetchone()
        return None if row is None else tuple(row[0])

    async def add_key(
        self,
        org_id: str,
        user_id: str,
        name: str,
        key: NewKey,
        *,
        scopes: Sequence[Scope] = SCOPES,
        expires_at: datetime | None = None,
        groups: Sequence[str] | None = None,
        by: Tenant | None = None,
    ) -> KeyInfo:
        """Keeps a new key of an existing user.

        Args:
            org_id: The organisation.
            user_id: Whose it is.
            name: What it is for.
            key: The key.
            scopes: What it may be used for.
            expires_at: When it stops working; None: never.
            groups: Those that it has as long as who makes it has them; None: those of the organisation's own that its
                user is in.
            by: Who makes it; None: the operator.

        Raises:
            FailedPrecondition: The user has as many keys as one may.
        """
        values = {"org": org_id, "user": user_id, "name": name, "scopes": list(scopes), "expires_at": expires_at}
        values |= {"key_id": key.key_id, "hash": key.hash, "prefix": key.prefix}
        values |= {"groups": None if groups is None else list(groups)}
        values |= {"maker": by.user_id if by else None, "with_key": by.key_id if by else ""}
        async with tenant_transaction(self._pool, _inside(org_id, user_id)) as connection:
            count = await (await connection.execute(_SQL["count_keys"], values)).fetchone()
            if count is not None and count[0] >= _MAX_KEYS:
                raise FailedPrecondition(
                    f"{user_id} already has {_MAX_KEYS} valid API keys, the maximum: revoke one", reason="WRONG_STATE"
                )
            row = await (await connection.execute(_SQL["add_key"], values)).fetchone()
        return _key_in_row(row)

    async def list_keys(self, org_id: str | None, user_id: str | None = None) -> list[KeyInfo]:
        """Lists keys, oldest first.

        Args:
            org_id: Their organisation; None is all, which only the schema's owner can see.
            user_id: Their user; None is all of the organisation.
        """
        async with self._within(org_id) as connection:
            rows = await connection.execute(_SQL["list_keys"], {"org": org_id, "user": user_id})
            return [KeyInfo(*row) for row in await rows.fetchall()]

    async def find_key(self, org_id: str | None, name: str, user_id: str | None = None) -> KeyInfo:
        """Returns a key, named by its id or its prefix.

        Args:
            org_id: Its organisation; None looks in all, which only the owner can.
            name: Id or prefix.
            user_id: Its user; None looks at all of the organisation.

        Raises:
            NotFound: There is no such key.
            FailedPrecondition: The prefix fits several keys.
        """
        async with self._within(org_id) as connection:
            values = {"org": org_id, "user": user_id, "named": name}
            rows = await (await connection.execute(_SQL["find_keys"], values)).fetchall()
        if not rows:
            raise NotFound(f"there is no API key {name!r}", reason="API_KEY_NOT_FOUND")
        if len(rows) > 1:
            raise FailedPrecondition(f"{name!r} matches several keys: give the id of one", reason="WRONG_STATE")
        return KeyInfo(*rows[0])

    async def revoke_key(self, org_id: str | None, name: str, user_id: str | None = None) -> KeyInfo:
        """Revokes a key, named as in `find_key`. It stops working with the next request.

        Raises:
            NotFound: There is no such key.
            FailedPrecondition: The prefix fits several keys.
        """
        key = await self.find_key(org_id, name, user_id)
        async with self._within(org_id) as connection:
            values = {"org": key.org_id, "key_id": key.key_id}
            return _key_in_row(await (await connection.execute(_SQL["revoke_key"], values)).fetchone())

    async def rotate_key(
        self, key: KeyInfo, new: NewKey, overlap: timedelta, expires_at: datetime | None = None
    ) -> KeyInfo:
        """Gives a key a new text under its old id, so that budgets and usage continue.

        Args:
            key: The key.
            new: Where the new text is; its id counts for nothing.
            overlap: How long the previous secret still works.
            expires_at: The new expiry; None keeps the present one.

        Raises:
            FailedPrecondition: It was revoked, or has expired.
        """
        values = {"org": key.org_id, "key_id": key.key_id, "overlap": overlap, "expires_at": expires_at}
        values |= {"hash": new.hash, "prefix": new.prefix}
        async with self._within(key.org_id) as connection:
            row = await (await connection.execute(_SQL["rotate_key"], values)).fetchone()
        if row is None:
            raise FailedPrecondition(f"{key.key_id} was revoked or has expired: make a new key", reason="WRONG_STATE")
        return KeyInfo(*row)

    def _within(self, org_id: str | None) -> AbstractAsyncContextManager[Connection]:
        return transaction(self._pool) if org_id is None else tenant_transaction(self._pool, _inside(org_id, "-"))


def _key_in_row(row: tuple[Any, ...] | None) -> KeyInfo:
    if row is None:
        raise RuntimeError("a statement with RETURNING returned nothing")
    return KeyInfo(*row)


def _inside(org_id: str, user_id: str) -> Tenant:
    return Tenant(org_id, user_id, "free")
