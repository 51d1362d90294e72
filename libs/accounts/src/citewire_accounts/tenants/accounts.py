"""Usage and budgets: the ledger as the gateway reads it. Money is whole nano-USD (10^-9 USD) inside."""

from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any, NamedTuple
from uuid import UUID

import psycopg
from psycopg.rows import dict_row

from citewire_kit.errors import FailedPrecondition, NotFound, Unavailable, invalid_field
from citewire_kit.postgres import STATEMENT_SECONDS, Connection, Pool, tenant_transaction
from citewire_kit.queries import load_queries
from citewire_kit.telemetry import get_logger
from citewire_kit.tenant import Tenant

log = get_logger(__name__)

NANO = 1_000_000_000
"""Nano-USD in one USD."""

MAX_LIMIT_USD = 1_000_000_000.0
MAX_ROWS = 10_000
"""Most rows of one answer."""

_FORGET_SECONDS = 300.0
_SQL = load_queries("citewire_accounts.tenants", "accounts.sql")


class Group(StrEnum):
    """Groupings of usage. `model` includes its provider; days are UTC."""

    ORG = "org"
    USER = "user"
    KEY = "key"
    DAY = "day"
    MODEL = "model"
    PROFILE = "profile"
    PURPOSE = "purpose"


class UsageSource(StrEnum):
    """The source: calls to providers, or chats."""

    CALLS = "calls"
    EXCHANGES = "exchanges"


@dataclass(frozen=True, slots=True)
class UsageQuery:
    """A query for usage."""

    start: datetime
    """The first moment."""
    end: datetime
    """The moment after the last."""
    group_by: tuple[Group, ...]
    source: UsageSource = UsageSource.CALLS
    user_id: str | None = None
    """Only this user's; None: everyone's."""
    key_id: str | None = None
    """Only of this API key; None: of all. Exchanges have none."""


@dataclass(frozen=True, slots=True)
class Usage:
    """Usage in the order of the groups; names of money amounts end in `_nano`."""

    rows: Sequence[Mapping[str, Any]]
    """One for each group: the group's names, then its figures."""
    total: Mapping[str, int]
    """The sums of all figures."""


class Period(StrEnum):
    """A budget's period, in UTC."""

    DAY = "day"
    MONTH = "month"


class BudgetOwner(NamedTuple):
    """A budget's owner: an API key, a user or, with neither, the organisation."""

    key_id: str = ""
    user_id: str = ""

    def __str__(self) -> str:
        if self.key_id:
            return f"the key {self.key_id}"
        return f"the user {self.user_id}" if self.user_id else "the organisation"


@dataclass(frozen=True, slots=True)
class Budget:
    """A budget with its current state."""

    key_id: str
    """The API key's that it is for; "": not a key's."""
    user_id: str
    """The user's that it is for; "": not a user's. With neither it is the organisation's, which all share."""
    period: Period
    limit_nano: int
    spent_nano: int
    """Settled in this period."""
    reserved_nano: int
    """Maximum cost of open calls."""
    left_nano: int
    """The rest of the limit; negative if the limit was lowered."""
    period_start: datetime
    resets_at: datetime
    updated_by: str
    updated_at: datetime


@dataclass(frozen=True, slots=True)
class Cost:
    """The cost of a chat's calls to providers so far."""

    calls: int
    """Number of settled calls."""
    nano: int | None
    """Nano-USD, by the catalogue; None if a call's price isn't known."""


_GROUP_COLUMNS = frozenset({"org", "user", "key", "day", "provider", "model", "profile", "purpose"})


def group_columns(group_by: Sequence[Group]) -> tuple[str, ...]:
    """Returns the names of the columns that a row's group has, in the order that was asked for."""
    return tuple(
        name for group in group_by for name in (("provider", "model") if group is Group.MODEL else (group.value,))
    )


class AccountStore:
    """Reads usage, reads and writes budgets.

    All methods raise `Unavailable` if the database can't be reached, and `FailedPrecondition` if it has no ledger.
    """

    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    async def usage(self, tenant: Tenant, query: UsageQuery) -> Usage:
        """Returns usage.

        Raises:
            InvalidArgument: There are more than `MAX_ROWS` groups.
        """
        values = {
            "org": tenant.org_id,
            "by": [group.value for group in query.group_by],
            "start": query.start,
            "end": query.end,
            "only_user": query.user_id,
            "only_key": query.key_id,
            "most": MAX_ROWS + 1,
        }
        async with self._ledger(tenant) as connection:
            cursor = connection.cursor(row_factory=dict_row)
            rows = await (await cursor.execute(_SQL[f"usage_of_{query.source.value}"], values)).fetchall()
        if len(rows) > MAX_ROWS:
            raise invalid_field("group_by", f"gives more than {MAX_ROWS} rows: ask for a shorter time or fewer groups")
        figures = [column.name for column in cursor.description or () if column.name not in _GROUP_COLUMNS]
        names = (*group_columns(query.group_by), *figures)
        total = {name: sum(row[name] for row in rows) for name in figures}
        return Usage([{name: row[name] for name in names} for row in rows], total)

    async def cost_of(self, tenant: Tenant, exchange_id: UUID) -> Cost:
        """Returns a chat's cost so far."""
        async with self._ledger(tenant) as connection:
            values = {"org": tenant.org_id, "exchange": exchange_id}
            row = await (await connection.execute(_SQL["cost_of_exchange"], values)).fetchone()
        return Cost(0, None) if row is None else Cost(*row)

    async def budgets(self, tenant: Tenant) -> list[Budget]:
        """Returns the organisation's budgets, its own first, then those of its users and keys."""
        async with self._ledger(tenant) as connection:
            rows = await (await connection.execute(_SQL["list_budgets"], {"org": tenant.org_id})).fetchall()
        return [_budget(row) for row in rows]

    async def put_budget(self, tenant: Tenant, owner: BudgetOwner, period: Period, limit_nano: int) -> Budget:
        """Creates a budget or changes its limit. A new one includes the period's spending so far.

        Raises:
            InvalidArgument: The organisation has no such key or user.
        """
        values = _names(tenant, owner, period) | {"limit_nano": limit_nano}
        async with self._ledger(tenant) as connection:
            if owner.key_id and await (await connection.execute(_SQL["has_key"], values)).fetchone() is None:
                raise invalid_field("key_id", "must be an API key of this organisation")
            if owner.user_id and await (await connection.execute(_SQL["has_user"], values)).fetchone() is None:
                raise invalid_field("user", "must be a user of the organisation")
            await connection.execute(_SQL["put_budget"], values)
            row = await (await connection.execute(_SQL["get_budget"], values)).fetchone()
        if row is None:
            raise RuntimeError("the budget vanished inside its own transaction")
        return _budget(row)

    async def forget_users(self, tenant: Tenant, user_id: str, successor: str) -> None:
        """Removes a user's name (with "" everybody's) from the ledger; the figures stay.

        Raises:
            Unavailable: The ledger's migrations haven't run yet.
        """
        try:
            async with self._ledger(tenant, statement_seconds=_FORGET_SECONDS) as connection:
                await connection.execute(_SQL["forget_users"], {"user": user_id, "successor": successor})
        except psycopg.errors.UndefinedFunction as exc:
            raise Unavailable("the ledger's migrations haven't run yet", reason="DATABASE_UNAVAILABLE") from exc

    async def delete_budget(self, tenant: Tenant, owner: BudgetOwner, period: Period) -> None:
        """Deletes a budget and its reservations.

        Raises:
            NotFound: There is none.
        """
        async with self._ledger(tenant) as connection:
            done = await connection.execute(_SQL["delete_budget"], _names(tenant, owner, period))
        if done.rowcount == 0:
            raise NotFound(f"there is no budget for {owner} by {period.value}", reason="BUDGET_NOT_FOUND")

    @asynccontextmanager
    async def _ledger(
        self, tenant: Tenant, *, statement_seconds: float = STATEMENT_SECONDS
    ) -> AsyncGenerator[Connection, None]:
        try:
            async with tenant_transaction(self._pool, tenant, statement_seconds=statement_seconds) as connection:
                yield connection
        except (psycopg.errors.InvalidSchemaName, psycopg.errors.UndefinedTable) as exc:
            log.warning("no_ledger", error=str(exc))
            raise FailedPrecondition(
                "this server keeps no ledger: its operator has to run `python -m citewire_ledger migrate`",
                reason="WRONG_STATE",
            ) from exc


def _budget(row: Sequence[Any]) -> Budget:
    key_id, user_id, period, *rest = row
    return Budget(key_id, user_id, Period(period), *rest)


def _names(tenant: Tenant, owner: BudgetOwner, period: Period) -> dict[str, Any]:
    names = {"org": tenant.org_id, "user": tenant.user_id, "period": period.value}
    return names | {"key_id": owner.key_id, "user_id": owner.user_id}


def to_nano(usd: float) -> int:
    """Returns USD as whole nano-USD."""
    return round(usd * NANO)


def to_usd(nano: int) -> float:
    """Returns nano-USD as USD: exact to the nano-USD up to nine million USD."""
    return nano / NANO
