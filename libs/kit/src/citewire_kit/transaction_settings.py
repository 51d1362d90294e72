"""The settings at the start of a transaction: its tenant, its limits, and the planning of its statements."""

import weakref
from collections.abc import Mapping
from functools import cache
from typing import Any, Final, LiteralString, NamedTuple

from psycopg import AsyncConnection, sql

from citewire_kit.tenant import Tenant


class Resolved(NamedTuple):
    """A setting that the database computes when a transaction's tenant is set."""

    name: LiteralString
    expression: LiteralString
    """Expression for its value as text."""

    on_nodes: LiteralString = ""
    """The same for a distributed database, if it differs there."""


BEGIN: Final = {False: b"BEGIN", True: b"BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"}
"""How a transaction begins, by whether it is a snapshot."""

_SETTER: Final = "citewire.set_local"
"""A distributed database has this function of names and values (text arrays), which changes settings on all nodes.
`set_config` doesn't."""
_HAS_NODES: Final = """
SELECT coalesce(has_function_privilege(to_regprocedure('citewire.node_of(text)'), 'EXECUTE'), false)
"""
_VALUE: Final = "$VALUE$"
"""Stands for a value in a text that is split there."""
_spread: Final[weakref.WeakSet[AsyncConnection[Any]]] = weakref.WeakSet()


async def find_nodes(connection: AsyncConnection[Any]) -> None:
    """Stores whether the database of a new connection is distributed.

    It isn't for roles of schemas that may share the coordinator, but whose tables stay there: chat's and the ledger's.
    """
    row = await (await connection.execute(_HAS_NODES)).fetchone()
    if row is not None and row[0]:
        _spread.add(connection)


def is_spread(connection: AsyncConnection[Any]) -> bool:
    """Whether the connection's database is distributed, and therefore lacks some triggers and keys."""
    return connection in _spread


def plans(*, once: bool) -> str:
    """Returns the `plan_cache_mode` of a transaction.

    Args:
        once: Plan a statement once per connection, whatever its values: for statements with one good plan, because
            planning can take longer than they do. Otherwise they are planned for the actual values: a generic plan
            uses the vector index even for tenants with few rows, which are found faster, and completely, without it.
    """
    return "force_generic_plan" if once else "force_custom_plan"


def settings_of(
    tenant: Tenant | None, statement_seconds: float, *, plan_once: bool = False, spread: bool = False
) -> dict[str, str]:
    """Returns the settings of a transaction: its tenant, the maximum duration of statements, and how they are planned.

    In a distributed database, a generic plan couldn't determine the node.
    """
    whose = {} if tenant is None else _caller(tenant)
    timeout = f"{max(1, int(statement_seconds * 1000))}ms"
    return {"statement_timeout": timeout, "plan_cache_mode": plans(once=plan_once and not spread), **whose}


def _caller(tenant: Tenant) -> dict[str, str]:
    """The settings that policies use. Group names are printable, so line breaks can separate them."""
    return {
        "citewire.org_id": tenant.org_id,
        "citewire.user_id": tenant.user_id,
        "citewire.role": tenant.role,
        "citewire.groups": "\n".join(tenant.groups),
    }


def begin(
    connection: AsyncConnection[Any], settings: Mapping[str, str], resolved: Resolved | None, *, snapshot: bool
) -> bytes:
    """BEGIN and all settings of the transaction, in one round trip."""
    first, *others = _around_values(tuple(settings), resolved, snapshot=snapshot, spread=is_spread(connection))
    # Every call to a database begins with this, and composing it of objects takes several times as long.
    values = (sql.Literal(value).as_bytes(connection) for value in settings.values())
    return first + b"".join(value + text for value, text in zip(values, others, strict=True))


@cache
def _around_values(
    names: tuple[str, ...], resolved: Resolved | None, *, snapshot: bool, spread: bool
) -> tuple[bytes, ...]:
    """The text of `begin` before, between and after the values."""
    given: dict[str, sql.Composable] = dict.fromkeys(names, sql.SQL(_VALUE))
    settings = (statement.as_bytes() for statement in _statements(given, resolved, spread=spread))
    whole = b"; ".join([BEGIN[snapshot], *settings])
    return tuple(whole.split(_VALUE.encode()))


def set_all(connection: AsyncConnection[Any], names: tuple[str, ...], resolved: Resolved | None) -> tuple[bytes, ...]:
    """Statements that set these values for the transaction; each is a parameter, by name, of the first statement."""
    return _set_all(names, resolved, spread=is_spread(connection))


@cache
def _set_all(names: tuple[str, ...], resolved: Resolved | None, *, spread: bool) -> tuple[bytes, ...]:
    given = {name: sql.Placeholder(name) for name in names}
    return tuple(statement.as_bytes() for statement in _statements(given, resolved, spread=spread))


def _statements(given: Mapping[str, sql.Composable], resolved: Resolved | None, *, spread: bool) -> list[sql.Composed]:
    if spread:
        # In two statements: within one, a node could begin with the second.
        lookups = {} if resolved is None else {resolved.name: sql.SQL(resolved.on_nodes or resolved.expression)}
        return [_spread_call(values) for values in (given, lookups) if values]
    call = _calls(given)
    if resolved is None:
        return [call]
    # It is computed from other settings, which must be made first.
    lookup = _calls({resolved.name: sql.SQL(resolved.expression)})
    return [sql.SQL("WITH given AS MATERIALIZED ({}) {} FROM given").format(call, lookup)]


def _calls(values: Mapping[str, sql.Composable]) -> sql.Composed:
    calls = [sql.SQL("set_config({}, {}, true)").format(sql.Literal(key), value) for key, value in values.items()]
    return sql.SQL("SELECT {}").format(sql.SQL(", ").join(calls))


def _spread_call(values: Mapping[str, sql.Composable]) -> sql.Composed:
    names = sql.SQL(", ").join(map(sql.Literal, values))
    given = sql.SQL(", ").join(sql.SQL("{}::text").format(value) for value in values.values())
    function = sql.Identifier(*_SETTER.split("."))
    return sql.SQL("SELECT {}(ARRAY[{}], ARRAY[{}])").format(function, names, given)
