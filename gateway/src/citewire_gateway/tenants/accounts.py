"""Usage and budgets as the API speaks of them. Money is whole nano-USD (10^-9 USD) inside."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date, datetime
from enum import StrEnum

NANO = 1_000_000_000
"""Nano-USD in one USD."""

MAX_LIMIT_USD = 1_000_000_000.0


class Group(StrEnum):
    """What usage is divided by. `model` goes with its provider; days are UTC."""

    ORG = "org"
    USER = "user"
    DAY = "day"
    MODEL = "model"
    PROFILE = "profile"
    PURPOSE = "purpose"


class Source(StrEnum):
    """What is counted: calls to providers, or chats."""

    CALLS = "calls"
    EXCHANGES = "exchanges"


@dataclass(frozen=True, slots=True)
class UsageQuery:
    """What is asked for.

    Attributes:
        start: The first moment.
        end: The moment after the last.
        group_by: What rows are divided by; empty gives one row.
        user_id: Only this user's; None: everyone's.
    """

    start: datetime
    end: datetime
    group_by: tuple[Group, ...]
    source: Source = Source.CALLS
    user_id: str | None = None


@dataclass(frozen=True, slots=True)
class UsageRow:
    """One group and its figures, each under its name."""

    group: Mapping[str, str | date | None]
    figures: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Usage:
    """Rows in the order of their groups, and the sum of all."""

    rows: tuple[UsageRow, ...]
    total: Mapping[str, int]


class Period(StrEnum):
    """How long a budget lasts, in UTC."""

    DAY = "day"
    MONTH = "month"


@dataclass(frozen=True, slots=True)
class Budget:
    """A budget as it is now.

    Attributes:
        key_id: The API key's that it is for; "" is the organisation's, which all its keys share.
        spent_nano: Settled in this period.
        reserved_nano: What open calls may cost at most.
        left_nano: What is left of the limit; below zero where the limit was lowered.
    """

    key_id: str
    period: Period
    limit_nano: int
    spent_nano: int
    reserved_nano: int
    left_nano: int
    period_start: datetime
    resets_at: datetime
    updated_by: str
    updated_at: datetime


def to_nano(usd: float) -> int:
    """Returns USD as whole nano-USD."""
    return round(usd * NANO)


def to_usd(nano: int) -> float:
    """Returns nano-USD as USD: exact to the nano-USD up to nine million USD."""
    return nano / NANO
