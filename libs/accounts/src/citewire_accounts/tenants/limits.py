"""Limits that an organisation, its users and its keys have in place of the plan's."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from cachetools import TTLCache

from citewire_kit.errors import NotFound, invalid_field
from citewire_kit.plan_limits import WINDOW_SECONDS, LimitScope, Measure, OwnLimits
from citewire_kit.postgres import Connection, Pool, tenant_transaction
from citewire_kit.queries import fetch_row, fetch_rows, load_queries
from citewire_kit.tenant import Tenant

MEASURES: Final = (*WINDOW_SECONDS, Measure.STREAMS)
"""The measures that can be limited: all that the gateway counts. Stored bytes are the retriever's and the plan's."""

_KNOWN_SECONDS = 30.0
_MAX_KNOWN = 10_000
_SQL = load_queries("citewire_accounts.tenants", "limits.sql")


@dataclass(frozen=True, slots=True)
class Limit:
    """A stored limit."""

    scope: LimitScope
    subject: str
    """The user, or the key's id; "" of the organisation."""
    measure: Measure
    most: int
    updated_by: str
    updated_at: datetime


class LimitSettingStore:
    """Reads and changes limits, each under its organisation."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool
        self._known = TTLCache[tuple[str, str, str], OwnLimits](_MAX_KNOWN, _KNOWN_SECONDS)

    async def of(self, tenant: Tenant) -> OwnLimits:
        """Returns those that a caller has, as they were within 30 seconds."""
        names = (tenant.org_id, tenant.user_id, tenant.key_id)
        known = self._known.get(names)
        if known is not None:
            return known
        values = {"org": tenant.org_id, "user": tenant.user_id, "key": tenant.key_id}
        async with tenant_transaction(self._pool, tenant) as connection:
            rows = await fetch_rows(connection, _SQL["limits_of"], values)
        limits = {(Measure(row["measure"]), LimitScope(row["scope"])): int(row["most"]) for row in rows}
        self._known[names] = limits
        return limits

    async def limits(self, org_id: str) -> list[Limit]:
        """Returns all of an organisation's, by scope, subject and measure."""
        values = {"org": org_id, "scope": None, "subject": None, "measure": None}
        async with tenant_transaction(self._pool, _inside(org_id)) as connection:
            return [_limit(row) for row in await fetch_rows(connection, _SQL["list_limits"], values)]

    async def owner_of(self, org_id: str, key_id: str) -> str:
        """Returns the user of a key.

        Raises:
            InvalidArgument: The organisation has no such key.
        """
        values = {"org": org_id, "subject": key_id}
        async with tenant_transaction(self._pool, _inside(org_id)) as connection:
            row = await fetch_row(connection, _SQL["owner_of_key"], values)
        if row is None:
            raise invalid_field("key_id", "must be an API key of the organisation")
        return str(row["user_id"])

    async def put(self, org_id: str, scope: LimitScope, subject: str, measure: Measure, most: int, *, by: str) -> Limit:
        """Creates or changes a limit, effective within 30 seconds.

        Raises:
            NotFound: There is no such organisation.
            InvalidArgument: The organisation has no such user or key.
        """
        values = {"org": org_id, "scope": scope, "subject": subject, "measure": measure, "most": most, "by": by}
        async with tenant_transaction(self._pool, _inside(org_id)) as connection:
            await _check(connection, scope, values)
            await connection.execute(_SQL["put_limit"], values)
            row = await fetch_row(connection, _SQL["list_limits"], values)
        if row is None:
            raise RuntimeError("the limit vanished inside its own transaction")
        self._known.clear()
        return _limit(row)

    async def delete(self, org_id: str, scope: LimitScope, subject: str, measure: Measure) -> None:
        """Deletes a limit: the plan's counts again.

        Raises:
            NotFound: There is none.
        """
        values = {"org": org_id, "scope": scope, "subject": subject, "measure": measure}
        async with tenant_transaction(self._pool, _inside(org_id)) as connection:
            if await fetch_row(connection, _SQL["delete_limit"], values) is None:
                raise NotFound(f"there is no such limit on {measure}", reason="ROUTE_NOT_FOUND")
        self._known.clear()


async def _check(connection: Connection, scope: LimitScope, values: Mapping[str, Any]) -> None:
    query, field, subject = {
        LimitScope.ORG: ("has_organisation", "", ""),
        LimitScope.USER: ("has_user", "user", "a user"),
        LimitScope.KEY: ("owner_of_key", "key_id", "an API key"),
    }[scope]
    if await fetch_row(connection, _SQL[query], values) is not None:
        return
    if not field:
        raise NotFound(f"there is no organisation {values['org']}", reason="ORGANISATION_NOT_FOUND")
    raise invalid_field(field, f"must be {subject} of the organisation")


def _limit(row: Mapping[str, Any]) -> Limit:
    return Limit(
        LimitScope(row["scope"]),
        row["subject"],
        Measure(row["measure"]),
        row["most"],
        row["updated_by"],
        row["updated_at"],
    )


def _inside(org_id: str) -> Tenant:
    return Tenant(org_id, "-", "free")
