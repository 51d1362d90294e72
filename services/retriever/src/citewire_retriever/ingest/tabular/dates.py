"""Dates as people write them, in English and German."""

import re
from collections import Counter
from collections.abc import Callable, Sequence
from datetime import date, datetime
from typing import Final

_ISO: Final = re.compile(r"(\d{4})[-/](\d{1,2})[-/](\d{1,2})(?:[T ](\d{1,2}):(\d{2})(?::(\d{2})(?:\.0+)?)?)?Z?")
_SHORT: Final = re.compile(r"(\d{1,2})([./-])(\d{1,2})\2(\d{4}|\d{2})(?:,? (\d{1,2}):(\d{2})(?::(\d{2}))?)?")
_NAMED: Final = re.compile(
    r"(?:(\d{1,2})(?:st|nd|rd|th)?\.? )?([^\W\d_]{3,9})\.?(?: (\d{1,2})(?:st|nd|rd|th)?,?)?,? (\d{4})"
)
_MONTHS: Final = {
    name: number
    for number, names in enumerate(
        (
            ("jan", "january", "januar", "jänner"),
            ("feb", "february", "februar"),
            ("mar", "march", "märz", "mär", "mrz"),
            ("apr", "april"),
            ("may", "mai"),
            ("jun", "june", "juni"),
            ("jul", "july", "juli"),
            ("aug", "august"),
            ("sep", "sept", "september"),
            ("oct", "october", "okt", "oktober"),
            ("nov", "november"),
            ("dec", "december", "dez", "dezember"),
        ),
        start=1,
    )
    for name in names
}
_CENTURY: Final = 70
_MOST_CHARS: Final = 60


def date_readers(texts: Sequence[str]) -> list[Callable[[str], datetime | None]]:
    """The functions that read a column's dates; the texts decide whether the day or the month comes first."""
    readers: list[Callable[[str], datetime | None]] = [read_iso, _named]
    votes = Counter(order for text in texts for order in _orders(text))
    if votes["day"] and not votes["month"]:
        readers.append(lambda text: _short(text, day_first=True))
    elif votes["month"] and not votes["day"]:
        readers.append(lambda text: _short(text, day_first=False))
    return readers


def _orders(text: str) -> list[str]:
    """The order of day and month that a short date implies; with dots the day comes first."""
    match = _SHORT.fullmatch(text[:_MOST_CHARS])
    if match is None:
        return []
    if match[2] == "." or int(match[1]) > 12:
        return ["day"]
    return ["month"] if int(match[3]) > 12 else []


def read_iso(text: str) -> datetime | None:
    """A date or moment as in ISO 8601."""
    match = _ISO.fullmatch(text[:_MOST_CHARS])
    return None if match is None else _moment(*match.groups(default="0"))


def _short(text: str, *, day_first: bool) -> datetime | None:
    match = _SHORT.fullmatch(text[:_MOST_CHARS])
    if match is None:
        return None
    first, _, second, year, *time = match.groups(default="0")
    day, month = (first, second) if day_first else (second, first)
    if len(year) == 2:
        year = f"{20 if int(year) < _CENTURY else 19}{year}"
    return _moment(year, month, day, *time)


def _named(text: str) -> datetime | None:
    match = _NAMED.fullmatch(text[:_MOST_CHARS])
    if match is None or (match[1] is None) == (match[3] is None):
        return None
    month = _MONTHS.get(match[2].casefold())
    return None if month is None else _moment(match[4], str(month), match[1] or match[3])


def _moment(year: str, month: str, day: str, hour: str = "0", minute: str = "0", second: str = "0") -> datetime | None:
    try:
        return datetime(int(year), int(month), int(day), int(hour), int(minute), int(second))  # noqa: DTZ001 # a sheet's dates have no zone
    except ValueError:
        return None


def as_date(value: datetime) -> str:
    """A moment formatted for an answer: only the date if it is midnight."""
    return date.isoformat(value) if (value.hour, value.minute, value.second) == (0, 0, 0) else value.isoformat()
