"""Spans of days, read by dateparser from one English phrase at a time."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final, Literal

from dateparser.date import DateDataParser

Direction = Literal["in", "since", "before", "after"]

MONTHS: Final = (
    *("january", "february", "march", "april", "may", "june"),
    *("july", "august", "september", "october", "november", "december"),
)
MOST: Final[Mapping[str, int]] = {"hour": 8760, "day": 3660, "week": 520, "month": 120, "year": 20}
"""Largest counts that are read as spans."""

_DAYS: Final[Mapping[str, int]] = {"day": 1, "week": 7, "month": 30, "year": 365}


@dataclass(frozen=True, slots=True)
class DateSpan:
    """A span of time that a question names."""

    first: int
    """Its first character in the text, including its preposition."""
    last: int
    """The index after its last character."""
    start: datetime | None
    """Start (inclusive); None if open."""
    end: datetime | None
    """End (exclusive); None if open."""
    year_alone: bool = False
    """Whether it is only a year, which is rarely a date of saving."""
    relative: bool = False
    """Whether it is relative to today."""


@dataclass(frozen=True, slots=True)
class Calendar:
    """Turns phrases into spans of local time without a zone."""

    local: datetime

    @property
    def today(self) -> datetime:
        """The midnight at which the day began."""
        return self.local.replace(tzinfo=None, hour=0, minute=0, second=0, microsecond=0)

    def read(self, phrase: str, date_order: str = "MDY") -> tuple[datetime, datetime] | None:
        """The day, week (from Monday), month or year named by an English phrase or a numeric date."""
        settings: dict[str, Any] = {
            "RELATIVE_BASE": self.local.replace(tzinfo=None),
            "PREFER_DATES_FROM": "past",
            "PREFER_DAY_OF_MONTH": "first",
            "DATE_ORDER": date_order,
        }
        try:
            date = DateDataParser(languages=["en"], settings=settings).get_date_data(phrase)
        except (ValueError, OverflowError):
            return None
        if date.date_obj is None:
            return None
        day = date.date_obj.replace(tzinfo=None, hour=0, minute=0, second=0, microsecond=0)
        return _period(day, date.period)

    def last(self, count: int, unit: str) -> tuple[datetime, None] | None:
        """The last `count` units up to now."""
        if not 0 < count <= MOST[unit]:
            return None
        if unit == "hour":
            return self.local.replace(tzinfo=None) - timedelta(hours=count), None
        return self.today - timedelta(days=_DAYS[unit] * count), None


def _period(day: datetime, period: str | None) -> tuple[datetime, datetime] | None:
    try:
        if period == "week":
            start = day - timedelta(days=day.weekday())
            return start, start + timedelta(days=7)
        if period == "month":
            start = day.replace(day=1)
            return start, (start + timedelta(days=32)).replace(day=1)
        if period == "year":
            start = day.replace(month=1, day=1)
            return start, start.replace(year=start.year + 1)
        return day, day + timedelta(days=1)
    except (ValueError, OverflowError):
        return None


def directed(
    direction: Direction, span: tuple[datetime | None, datetime | None]
) -> tuple[datetime | None, datetime | None]:
    """Returns the span that `since`, `before` or `after` makes of one."""
    start, end = span
    match direction:
        case "since":
            return start, None
        case "before":
            return None, start
        case "after":
            return end, None
        case _:
            return start, end
