"""Tenant providers, as they are kept in Postgres, and the model route that a request takes through them.

Names are in plain text here, keys and addresses are ciphertext.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum
from typing import Any

from citewire.common.v1 import common_pb2
from citewire.generator.v1 import generator_pb2
from google.protobuf import json_format
from psycopg.types.json import Jsonb

from citewire_kit.enums import EnumMap
from citewire_kit.errors import FieldViolation, InvalidArgument, invalid_field
from citewire_kit.postgres import Connection, Pool, tenant_statement, tenant_transaction, transaction
from citewire_kit.queries import load_queries
from citewire_kit.tenant import Tenant

_SQL = load_queries("citewire_accounts.tenants", "providers.sql")

DEFAULT_NAME = "default"
MOST_SAVED = 20
"""Chains of one owner and type."""

ORG = ""
"""The `user_id` of what is the organisation's."""


class ProviderType(StrEnum):
    """The purpose of a provider."""

    CHAT = "chat"
    EMBEDDING = "embedding"
    RERANK = "rerank"


PROVIDER_TYPES = EnumMap(ProviderType, common_pb2.ProviderType)
CHAT_NEEDS = frozenset({ProviderType.CHAT, ProviderType.EMBEDDING})
"""The purposes for which a chat needs a provider."""


@dataclass(frozen=True, slots=True)
class ProviderEntry:
    """One row: a provider, or in a chain of fallbacks a model of the operator's."""

    user_id: str
    """The owner; "" is the organisation."""
    type: ProviderType
    position: int
    """0 is asked first."""
    model: str
    """Its name."""
    ref: common_pb2.ProviderRef | None = None
    """None for a model of the operator's."""
    test: common_pb2.ProviderTest | None = None
    """How the test call went when it was saved."""
    updated_at: datetime | None = None
    has_key: bool = False
    """Whether a key is sealed in it."""
    has_api_base: bool = False
    """Whether an address is."""
    name: str = ""
    """What the owner calls the chain."""
    active: bool = True
    """Whether it is the one that counts, of all that its owner saved for the type."""


@dataclass(frozen=True, slots=True)
class ProviderEntries:
    """All that a user sees: their own and the organisation's, and whether the organisation demands its own."""

    entries: tuple[ProviderEntry, ...] = ()
    require_own: bool = False

    def chain(self, type_: ProviderType, user_id: str) -> tuple[ProviderEntry, ...]:
        """Returns the active entries of one owner and type, first the one that is asked first."""
        chain = [entry for entry in self.entries if entry.type is type_ and entry.user_id == user_id and entry.active]
        return tuple(sorted(chain, key=lambda entry: entry.position))

    def chains(self) -> list[tuple[ProviderEntry, ...]]:
        """Returns all that are saved, those that aren't active too."""
        chains: dict[tuple[str, ...], list[ProviderEntry]] = {}
        for entry in self.entries:
            chains.setdefault((entry.type, entry.user_id, entry.name), []).append(entry)
        return [tuple(sorted(chain, key=lambda entry: entry.position)) for chain in chains.values()]

    def effective(self, type_: ProviderType, user_id: str) -> tuple[ProviderEntry, ...]:
        """Returns what counts for a user: their own, or else the organisation's."""
        return self.chain(type_, user_id) or self.chain(type_, ORG)


@dataclass(frozen=True, slots=True)
class ModelRoute:
    """The providers that a request's calls take; None is the operator's."""

    chat: common_pb2.ProviderRef | None = None
    fallbacks: tuple[generator_pb2.Fallback, ...] = ()
    """Fallbacks of the chat provider."""
    embedding: common_pb2.ProviderRef | None = None
    rerank: common_pb2.ProviderRef | None = None
    require_own: bool = False
    """Whether the operator's may not be used in place of what is missing."""


OPERATOR_ROUTE = ModelRoute()
"""All of the operator's."""


def model_route(
    providers: ProviderEntries, user_id: str, needed: Collection[ProviderType], offered: Collection[ProviderType]
) -> ModelRoute:
    """Returns the route of a request: the user's own providers, else the organisation's, else the operator's.

    Args:
        providers: What the user sees.
        user_id: Who asks.
        needed: The types that the request needs.
        offered: The types for which the operator has a provider that tenants may use.

    Raises:
        InvalidArgument: A needed type has neither an own provider nor one of the operator's that may be used
            (reason `PROVIDER_MISSING`); every missing type is named.
    """
    chains = {type_: providers.effective(type_, user_id) for type_ in ProviderType}
    first = {type_: chain[0].ref if chain else None for type_, chain in chains.items()}
    missing = [
        type_
        for type_ in ProviderType
        if type_ in needed and first[type_] is None and (providers.require_own or type_ not in offered)
    ]
    if missing:
        raise _missing(missing, demanded=providers.require_own)
    return ModelRoute(
        chat=first[ProviderType.CHAT],
        # Where only own providers may be used, a model of the operator's takes over from nobody.
        fallbacks=tuple(
            generator_pb2.Fallback(model=entry.model)
            if entry.ref is None
            else generator_pb2.Fallback(provider=entry.ref)
            for entry in chains[ProviderType.CHAT][1:]
            if entry.ref is not None or not providers.require_own
        ),
        embedding=first[ProviderType.EMBEDDING],
        rerank=first[ProviderType.RERANK],
        require_own=providers.require_own,
    )


def _missing(types: list[ProviderType], *, demanded: bool) -> InvalidArgument:
    why = "your organisation uses only its own providers" if demanded else "this server has none to offer"
    names = " and ".join(types) if len(types) < 3 else f"{', '.join(types[:-1])} and {types[-1]}"
    return InvalidArgument(
        f"no {names} provider is configured, and {why}: set one with PUT /v1/providers/{types[0]}",
        reason="PROVIDER_MISSING",
        violations=[FieldViolation(type_, f"no {type_} provider is configured") for type_ in types],
        metadata={"types": ",".join(types)},
    )


@dataclass(frozen=True, slots=True)
class SealedRow:
    """The key of a row that holds something sealed, in whichever organisation."""

    org_id: str
    user_id: str
    type: ProviderType
    name: str
    position: int


class ProviderStore:
    """Reads and writes them. All methods raise `Unavailable` if the database can't be reached."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    async def load(self, tenant: Tenant) -> ProviderEntries:
        """Returns the active ones, the caller's and the caller's organisation's."""
        loaded = await tenant_statement(self._pool, tenant, _SQL["load"], _names(tenant), plan_once=True, binary=True)
        return _entries(await loaded.fetchall())

    async def load_all(self, tenant: Tenant) -> ProviderEntries:
        """Returns the same, and those that are saved beside them."""
        async with tenant_transaction(self._pool, tenant) as connection:
            rows = await (await connection.execute(_SQL["load"], _names(tenant), binary=True)).fetchall()
            rows += await (await connection.execute(_SQL["load_saved"], _names(tenant), binary=True)).fetchall()
        return _entries(rows)

    async def save(self, tenant: Tenant, chain: Sequence[ProviderEntry], name: str | None, *, activate: bool) -> str:
        """Saves a chain of one owner and type under a name, in the place of what had that name.

        Args:
            tenant: Who saves it.
            chain: The chain.
            name: None: the active one's, or else `default`.
            activate: Whether it is to be the active one; what has been so stays saved.

        Returns:
            The name.

        Raises:
            InvalidArgument: There are as many as an owner may have of a type.
        """
        owned = _owned(tenant, chain[0].user_id, chain[0].type)
        async with tenant_transaction(self._pool, tenant) as connection:
            active = await _take_turns(connection, owned)
            name = name or active or DEFAULT_NAME
            owned["name"] = name
            saved = {row[0] for row in await (await connection.execute(_SQL["saved_names"], owned)).fetchall()}
            if name != active and name not in saved and len(saved) + (active is not None) >= MOST_SAVED:
                raise invalid_field(
                    "name", f"must be the name of a saved provider: {MOST_SAVED} are saved already, the maximum"
                )
            await connection.execute(_SQL["delete_saved"], owned)
            if name == active:
                await connection.execute(_SQL["delete_active"], owned)
            elif activate and active is not None:
                await connection.execute(_SQL["deactivate"], owned)
            query = _SQL["save" if activate or name == active else "save_inactive"]
            for entry in chain:
                await connection.execute(query, _values(tenant, entry) | {"name": name})
        return name

    async def activate(self, tenant: Tenant, user_id: str, type_: ProviderType, name: str) -> bool:
        """Makes a saved chain the active one; False if there is none of that name."""
        owned = _owned(tenant, user_id, type_, name)
        async with tenant_transaction(self._pool, tenant) as connection:
            if await _take_turns(connection, owned) == name:
                return True
            saved = await (await connection.execute(_SQL["saved_names"], owned)).fetchall()
            if (name,) not in saved:
                return False
            await connection.execute(_SQL["deactivate"], owned)
            await connection.execute(_SQL["activate"], owned)
        return True

    async def note_test(self, tenant: Tenant, entry: ProviderEntry, test: common_pb2.ProviderTest) -> None:
        """Keeps how a test call to a saved provider went; nothing if it was saved anew meanwhile."""
        values = _values(tenant, replace(entry, test=test)) | {"name": entry.name}
        async with tenant_transaction(self._pool, tenant) as connection:
            await connection.execute(_SQL["note_test"], values)
            await connection.execute(_SQL["note_saved_test"], values)

    async def deactivate(self, tenant: Tenant, user_id: str, type_: ProviderType) -> str | None:
        """Saves an owner's active chain of a type beside the others, and returns its name; None if there is none."""
        owned = _owned(tenant, user_id, type_)
        async with tenant_transaction(self._pool, tenant) as connection:
            name = await _take_turns(connection, owned)
            await connection.execute(_SQL["deactivate"], owned)
        return name

    async def delete(self, tenant: Tenant, user_id: str, type_: ProviderType, name: str | None = None) -> bool:
        """Deletes an owner's active chain of a type, or the one of a name; False if there was none."""
        owned = _owned(tenant, user_id, type_, name)
        async with tenant_transaction(self._pool, tenant) as connection:
            await _take_turns(connection, owned)
            deleted = (await connection.execute(_SQL["delete_active"], owned)).rowcount
            return deleted + (await connection.execute(_SQL["delete_saved"], owned)).rowcount > 0

    async def require_own(self, tenant: Tenant, required: bool) -> None:
        """Writes whether the organisation demands its own providers."""
        async with tenant_transaction(self._pool, tenant) as connection:
            await connection.execute(_SQL["require_own"], {**_names(tenant), "require_own": required})

    async def sealed_rows(self) -> list[SealedRow]:
        """Returns the keys of all rows with something sealed, over all organisations."""
        async with transaction(self._pool) as connection:
            rows = await (await connection.execute(_SQL["sealed_rows"])).fetchall()
        return [SealedRow(row[0], row[1], ProviderType(row[2]), row[3], row[4]) for row in rows]

    async def get(self, key: SealedRow) -> common_pb2.ProviderRef | None:
        """Returns what a row holds; None if it is gone."""
        async with tenant_transaction(self._pool, tenant_of(key)) as connection:
            row = await (await connection.execute(_SQL["get"], _key(key), binary=True)).fetchone()
        return None if row is None else _entry(row).ref

    async def swap(self, key: SealedRow, old: common_pb2.ProviderRef, new: common_pb2.ProviderRef) -> bool:
        """Puts newly wrapped ciphertext in the place of the old; False if it was saved anew meanwhile."""
        values = {
            **_key(key),
            "old_base": old.sealed_api_base,
            "old_key": old.sealed_key,
            "new_base": new.sealed_api_base,
            "new_key": new.sealed_key,
        }
        async with tenant_transaction(self._pool, tenant_of(key)) as connection:
            swapped = (await connection.execute(_SQL["swap"], values)).rowcount
            return swapped + (await connection.execute(_SQL["swap_saved"], values)).rowcount == 1


def tenant_of(row: SealedRow) -> Tenant:
    """Returns the tenant on whose behalf a row is read and sealed again."""
    return Tenant(row.org_id, row.user_id or "-", "free")


def _names(tenant: Tenant) -> dict[str, Any]:
    return {"org": tenant.org_id, "user": tenant.user_id}


def _key(row: SealedRow) -> dict[str, Any]:
    names = {"org": row.org_id, "owner": row.user_id, "type": row.type, "name": row.name}
    return names | {"position": row.position}


def _owned(tenant: Tenant, owner: str, type_: ProviderType, name: str | None = None) -> dict[str, Any]:
    return _names(tenant) | {"owner": owner, "type": type_, "name": name}


async def _take_turns(connection: Connection, owned: dict[str, Any]) -> str | None:
    """Waits for concurrent changes of the same owner's providers of a type; returns the active one's name."""
    await connection.execute(_SQL["take_turns"], owned)
    row = await (await connection.execute(_SQL["active_name"], owned)).fetchone()
    return None if row is None else row[0]


def _values(tenant: Tenant, entry: ProviderEntry) -> dict[str, Any]:
    ref = entry.ref or common_pb2.ProviderRef()
    return _names(tenant) | {
        "owner": entry.user_id,
        "type": entry.type,
        "position": entry.position,
        "provider": ref.provider,
        "model": entry.model,
        "dimensions": ref.dimensions,
        "sealed_api_base": ref.sealed_api_base,
        "sealed_key": ref.sealed_key,
        "has_key": entry.has_key,
        "has_api_base": entry.has_api_base,
        "test": None if entry.test is None else Jsonb(_test_json(entry.test)),
    }


def _test_json(test: common_pb2.ProviderTest) -> dict[str, Any]:
    return json_format.MessageToDict(test, preserving_proto_field_name=True, always_print_fields_with_no_presence=True)


def _entries(rows: Sequence[Sequence[Any]]) -> ProviderEntries:
    return ProviderEntries(tuple(_entry(row) for row in rows if row[1] is not None), bool(rows[0][0]))


def _entry(row: Sequence[Any]) -> ProviderEntry:
    _, user_id, type_name, position, provider, model, dimensions, base, key, test_json, updated_at, *rest = row
    has_key, has_api_base, name, active = rest
    type_, ref, test = ProviderType(type_name), None, None
    if provider:
        ref = common_pb2.ProviderRef(
            provider=provider,
            model=model,
            sealed_api_base=base,
            sealed_key=key,
            type=PROVIDER_TYPES.to_proto(type_),
            user_id=user_id,
            dimensions=dimensions,
        )
    if test_json is not None:
        test = json_format.ParseDict(test_json, common_pb2.ProviderTest(), ignore_unknown_fields=True)
    return ProviderEntry(
        user_id, type_, position, model, ref, test, updated_at, bool(has_key), bool(has_api_base), name, active
    )
