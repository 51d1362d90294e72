"""What a transaction begins with: its tenant, its limits, and how its statements are planned."""

from collections.abc import Mapping
from functools import cache
from typing import LiteralString, NamedTuple

from psycopg import sql

from citewire_kit.tenant import Tenant


class Resolved(NamedTuple):
    """A setting that the database finds itself when a transaction's tenant is set."""

    name: LiteralString
    expression: LiteralString
    """Gives it as text."""


def plans(*, once: bool) -> str:
    """Returns the `plan_cache_mode` of a transaction.

    Args:
        once: Plan a statement once for each connection, whatever its values are: for statements that have one good
            plan, as planning can take longer than they do. Otherwise plans are made for the values at hand: one plan
            for all takes the vector index for tenants whose few rows are found faster, and completely, without it.
    """
    return "force_generic_plan" if once else "force_custom_plan"


def settings_of(tenant: Tenant | None, statement_seconds: float, *, plan_once: bool = False) -> dict[str, str]:
    """Returns the settings of a transaction: whose it is, for how long a statement may run, and how it is planned."""
    whose = {} if tenant is None else _caller(tenant)
    timeout = f"{max(1, int(statement_seconds * 1000))}ms"
    return {"statement_timeout": timeout, "plan_cache_mode": plans(once=plan_once), **whose}


def _caller(tenant: Tenant) -> dict[str, str]:
    """What policies go by. Names of groups are printable, so that a line break separates them."""
    return {
        "citewire.org_id": tenant.org_id,
        "citewire.user_id": tenant.user_id,
        "citewire.role": tenant.role,
        "citewire.groups": "\n".join(tenant.groups),
    }


def begin(settings: Mapping[str, str], resolved: Resolved | None, *, snapshot: bool) -> sql.Composed:
    """BEGIN and all settings of the transaction, in one round trip."""
    begin = sql.SQL("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY" if snapshot else "BEGIN")
    given = _calls({key: sql.Literal(value) for key, value in settings.items()})
    return sql.SQL("{}; {}").format(begin, _with(given, resolved))


@cache
def set_all(names: tuple[str, ...], resolved: Resolved | None) -> bytes:
    """Sets these for the transaction; each value is the parameter of its name."""
    return _with(_calls({name: sql.Placeholder(name) for name in names}), resolved).as_bytes()


def _with(given: sql.Composed, resolved: Resolved | None) -> sql.Composed:
    """Finds a setting by others, which are made before it."""
    if resolved is None:
        return given
    call = _calls({resolved.name: sql.SQL(resolved.expression)})
    return sql.SQL("WITH given AS MATERIALIZED ({}) {} FROM given").format(given, call)


def _calls(values: Mapping[str, sql.Composable]) -> sql.Composed:
    calls = [sql.SQL("set_config({}, {}, true)").format(sql.Literal(key), value) for key, value in values.items()]
    return sql.SQL("SELECT {}").format(sql.SQL(", ").join(calls))
