"""Operators: who runs the installation. They have keys of their own, and belong to no organisation."""

import re
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final, Literal, NamedTuple

from citewire_accounts.tenants.identity import NewKey
from citewire_accounts.tenants.members import Organisation
from citewire_kit.errors import NotFound
from citewire_kit.postgres import Pool, read_row, transaction
from citewire_kit.queries import fetch_row, fetch_rows, load_queries

OperatorScope = Literal["read", "manage"]

OPERATOR_SCOPES: Final[tuple[OperatorScope, ...]] = ("read", "manage")
"""Scopes of an operator's key: reading; changing organisations, their plans and limits."""

_KEY = re.compile(r"cwo_[A-Za-z0-9_-]{43}")
_SQL = load_queries("citewire_accounts.tenants", "operators.sql")


@dataclass(frozen=True, slots=True)
class Operator:
    """The operator who sent a request."""

    key_id: str
    name: str
    """The key's purpose."""
    scopes: tuple[OperatorScope, ...]
    hash: bytes = field(repr=False)
    """The key's hash: the database lists organisations only to callers who have it."""


class OperatorMatch(NamedTuple):
    """An operator's key, and whether it counts."""

    operator: Operator
    state: Literal["active", "revoked", "expired"]


@dataclass(frozen=True, slots=True)
class OperatorKey:
    """An operator's key, without its secret."""

    key_id: str
    name: str
    prefix: str
    scopes: Sequence[OperatorScope]
    created_at: datetime
    expires_at: datetime | None
    """None: never."""
    revoked_at: datetime | None
    last_used_at: datetime | None


def make_operator_key() -> NewKey:
    """Generates a key of 32 random bytes."""
    return NewKey(text=f"cwo_{secrets.token_urlsafe(32)}", key_id=f"opk_{secrets.token_hex(8)}")


def is_operator_key(text: str) -> bool:
    """Whether `text` has the form of an operator's key."""
    return _KEY.fullmatch(text) is not None


class OperatorStore:
    """Reads and writes operators' keys. To make, list and revoke them takes the schema's owner."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    async def find(self, key_hash: bytes) -> OperatorMatch | None:
        """Returns whose key it is, or None."""
        row = await read_row(self._pool, _SQL["find_operator"], {"hash": key_hash})
        if row is None:
            return None
        key_id, name, scopes, _, state = row
        return OperatorMatch(Operator(key_id, name, tuple(scopes), key_hash), state)

    async def touch(self, used: Mapping[bytes, datetime]) -> None:
        """Records when keys, by hash, were last used."""
        async with transaction(self._pool) as connection:
            await connection.execute(_SQL["touch_operator_keys"], {"hashes": list(used), "times": list(used.values())})

    async def organisations(self, operator: Operator, after: str, part: str, most: int) -> list[Organisation]:
        """Returns at most `most` organisations by their ids, from after one on, whose ids hold `part` in any case."""
        values = {"hash": operator.hash, "after": after, "part": part, "most": most}
        async with transaction(self._pool) as connection:
            rows = await fetch_rows(connection, _SQL["organisations_for_operator"], values)
        return [Organisation(**row) for row in rows]

    async def add_key(
        self, name: str, key: NewKey, scopes: Sequence[OperatorScope], expires_at: datetime | None
    ) -> OperatorKey:
        """Keeps a new key."""
        values = {"key_id": key.key_id, "name": name, "hash": key.hash, "prefix": key.prefix}
        async with transaction(self._pool) as connection:
            row = await fetch_row(
                connection, _SQL["add_operator_key"], {**values, "scopes": list(scopes), "expires_at": expires_at}
            )
        if row is None:
            raise RuntimeError("INSERT … RETURNING returned nothing")
        return OperatorKey(**row)

    async def keys(self) -> list[OperatorKey]:
        """Returns all keys, oldest first."""
        async with transaction(self._pool) as connection:
            return [OperatorKey(**row) for row in await fetch_rows(connection, _SQL["list_operator_keys"])]

    async def revoke_key(self, named: str) -> OperatorKey:
        """Revokes a key, named by its id or its prefix. It stops working with the next request.

        Raises:
            NotFound: There is no such key.
        """
        async with transaction(self._pool) as connection:
            row = await fetch_row(connection, _SQL["revoke_operator_key"], {"named": named})
        if row is None:
            raise NotFound(f"there is no operator's key {named!r}", reason="API_KEY_NOT_FOUND")
        return OperatorKey(**row)
