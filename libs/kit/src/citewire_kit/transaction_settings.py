"""What a transaction begins with: its tenant, its limits, and how its statements are planned."""

import weakref
from collections.abc import Mapping
from functools import cache
from typing import Any, Final, LiteralString, NamedTuple

from psycopg import AsyncConnection, sql

from citewire_kit.tenant import Tenant


class Resolved(NamedTuple):
    """A setting that the database finds itself when a transaction's tenant is set."""

    name: LiteralString
    expression: LiteralString
    """Gives it as text."""

    on_nodes: LiteralString = ""
    """The same, where the database is spread over nodes, if it says it otherwise there."""


_SETTER: Final = "citewire.set_local"
"""A database that is spread over nodes has this function, of names and values, which are arrays of text: it makes
settings on all nodes, as `set_config` doesn't."""
_spread: Final[weakref.WeakSet[AsyncConnection[Any]]] = weakref.WeakSet()


async def find_nodes(connection: AsyncConnection[Any]) -> None:
    """Remembers whether a new connection's database is spread over nodes."""
    cursor = await connection.execute("SELECT to_regprocedure(%s) IS NOT NULL", (f"{_SETTER}(text[], text[])",))
    row = await cursor.fetchone()
    if row is not None and row[0]:
        _spread.add(connection)


def is_spread(connection: AsyncConnection[Any]) -> bool:
    """Whether the connection's database is spread over nodes, so that some triggers and keys aren't there."""
    return connection in _spread


def plans(*, once: bool) -> str:
    """Returns the `plan_cache_mode` of a transaction.

    Args:
        once: Plan a statement once for each connection, whatever its values are: for statements that have one good
            plan, as planning can take longer than they do. Otherwise plans are made for the values at hand: one plan
            for all takes the vector index for tenants whose few rows are found faster, and completely, without it.
    """
    return "force_generic_plan" if once else "force_custom_plan"


def settings_of(
    tenant: Tenant | None, statement_seconds: float, *, plan_once: bool = False, spread: bool = False
) -> dict[str, str]:
    """Returns the settings of a transaction: whose it is, for how long a statement may run, and how it is planned.

    Where the database is spread over nodes, a plan for all values wouldn't say which node it is for.
    """
    whose = {} if tenant is None else _caller(tenant)
    timeout = f"{max(1, int(statement_seconds * 1000))}ms"
    return {"statement_timeout": timeout, "plan_cache_mode": plans(once=plan_once and not spread), **whose}


def _caller(tenant: Tenant) -> dict[str, str]:
    """What policies go by. Names of groups are printable, so that a line break separates them."""
    return {
        "citewire.org_id": tenant.org_id,
        "citewire.user_id": tenant.user_id,
        "citewire.role": tenant.role,
        "citewire.groups": "\n".join(tenant.groups),
    }


def begin(
    connection: AsyncConnection[Any], settings: Mapping[str, str], resolved: Resolved | None, *, snapshot: bool
) -> sql.Composed:
    """BEGIN and all settings of the transaction, in one round trip."""
    begin = sql.SQL("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY" if snapshot else "BEGIN")
    given = {key: sql.Literal(value) for key, value in settings.items()}
    return sql.SQL("; ").join([begin, *_statements(given, resolved, spread=is_spread(connection))])


def set_all(connection: AsyncConnection[Any], names: tuple[str, ...], resolved: Resolved | None) -> tuple[bytes, ...]:
    """Statements that set these for the transaction; each value is the parameter of its name, in the first of them."""
    return _set_all(names, resolved, spread=is_spread(connection))


@cache
def _set_all(names: tuple[str, ...], resolved: Resolved | None, *, spread: bool) -> tuple[bytes, ...]:
    given = {name: sql.Placeholder(name) for name in names}
    return tuple(statement.as_bytes() for statement in _statements(given, resolved, spread=spread))


def _statements(given: Mapping[str, sql.Composable], resolved: Resolved | None, *, spread: bool) -> list[sql.Composed]:
    if spread:
        # One after the other: within one statement it is a node that would begin with the second.
        lookups = {} if resolved is None else {resolved.name: sql.SQL(resolved.on_nodes or resolved.expression)}
        return [_spread_call(values) for values in (given, lookups) if values]
    call = _calls(given)
    if resolved is None:
        return [call]
    # It is found by other settings, which are made before it.
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
