"""Dates as people write them, in English and German."""

import re
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
_MONTHS_OF_YEAR: Final = 12
_MOST_CHARS: Final = 60


def date_readers(texts: Sequence[str]) -> list[Callable[[str], datetime | None]]:
    """The functions that read a column's dates; the texts decide whether the day or the month comes first."""
    readers: list[Callable[[str], datetime | None]] = [read_iso, _named, lambda text: _short(text, dotted=True)]
    parts = [match.groups() for text in texts if (match := _SHORT.fullmatch(text[:_MOST_CHARS])) and match[2] != "."]
    if _may_begin_with_years([(int(first), int(second), last) for first, _, second, last, *_ in parts]):
        return readers
    firsts = any(int(first) > _MONTHS_OF_YEAR for first, *_ in parts)
    seconds = any(int(second) > _MONTHS_OF_YEAR for _, _, second, *_ in parts)
    if firsts is not seconds:
        readers.append(lambda text: _short(text, day_first=firsts))
    return readers


def _may_begin_with_years(dates: Sequence[tuple[int, int, str]]) -> bool:
    """Whether dates like 24-12-31 may have the day last: it takes at least as many values as the year."""
    if not all(len(last) == 2 and 1 <= int(last) <= 31 and second <= _MONTHS_OF_YEAR for _, second, last in dates):
        return False
    return len({first for first, _, _ in dates}) <= len({last for _, _, last in dates}) > 0


def read_iso(text: str) -> datetime | None:
    """A date or moment as in ISO 8601."""
    match = _ISO.fullmatch(text[:_MOST_CHARS])
    return None if match is None else _moment(*match.groups(default="0"))


def _short(text: str, *, day_first: bool = True, dotted: bool = False) -> datetime | None:
    """A short date; one with dots always begins with the day."""
    match = _SHORT.fullmatch(text[:_MOST_CHARS])
    if match is None or (match[2] == ".") is not dotted:
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
