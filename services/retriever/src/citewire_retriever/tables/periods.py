"""Periods in questions to tables: whole days, months, quarters, halves and years.

A period must state its year, or the table's dates must leave only one choice: `in March` isn't one for a table that
spans two years.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from itertools import chain
from typing import Final

from citewire_retriever.service.query_filters.spans import MONTHS
from citewire_retriever.service.query_filters.words import load
from citewire_retriever.tables.vocabulary import Lexicon, Token

_QUARTERS: Final = {"q1": 1, "q2": 2, "q3": 3, "q4": 4}
_FIRST_YEAR: Final = 1900
_LAST_YEAR: Final = 2100


@dataclass(frozen=True, slots=True)
class Period:
    """Days."""

    start: date | None
    """The first day; None if open."""
    end: date | None
    """The day after the last; None if open."""
    year: int | None = None
    """The year, if the period is a whole one."""


@dataclass(frozen=True, slots=True)
class Calendar:
    """The context for reading a question's periods."""

    words: Lexicon
    today: date
    first: date | None = None
    """The earliest and latest date of the table's column; None if unknown."""
    last: date | None = None

    def read(self, tokens: Sequence[Token], start: int) -> Iterator[tuple[Period, int]]:
        """The periods that begin here with their modifiers, each with its end."""
        for name in ("since", "before", "after", "until"):
            for at in self._behind(tokens, start, name):
                for period, end in self._period(tokens, at):
                    yield _directed(name, period), end
        for at in self._behind(tokens, start, "from"):
            yield from self._range(tokens, at)
        for at in chain((start,), self._behind(tokens, start, "period_in")):
            yield from self._period(tokens, at)

    def _behind(self, tokens: Sequence[Token], start: int, name: str) -> Iterator[int]:
        """Behind a word of this name, and the articles that follow."""
        for end in self.words.ends(tokens, start, name):
            yield end
            yield from self.words.ends(tokens, end, "article")

    def _range(self, tokens: Sequence[Token], start: int) -> Iterator[tuple[Period, int]]:
        """`January to March 2026`: a year in the second applies to both."""
        for first, middle in chain(self._period(tokens, start), self._month_alone(tokens, start)):
            for at in self._behind(tokens, middle, "to"):
                for second, end in self._period(tokens, at):
                    begin = first.start
                    if isinstance(first, _Month):
                        begin = date(second.start.year, first.month, 1) if second.start else None
                    if begin is not None and second.end is not None and begin < second.end:
                        yield Period(begin, second.end), end

    def _month_alone(self, tokens: Sequence[Token], start: int) -> Iterator[tuple["_Month", int]]:
        month = self._month(tokens, start)
        if month is not None:
            yield _Month(None, None, month=month), start + 1

    def _period(self, tokens: Sequence[Token], start: int) -> Iterator[tuple[Period, int]]:
        if start >= len(tokens):
            return
        token = tokens[start]
        if token.kind == "date":
            day = _day(token.text)
            if day is not None:
                yield _days(day, 1), start + 1
            return
        year = _year(token)
        if year is not None:
            yield _year_of(year), start + 1
        for end in self.words.ends(tokens, start, "year"):
            year = _year(tokens[end]) if end < len(tokens) else None
            if year is not None:
                yield _year_of(year), end + 1
        for name, back in (("today", 0), ("yesterday", 1)):
            for end in self.words.ends(tokens, start, name):
                yield _days(self.today - timedelta(days=back), 1), end
        yield from self._relative(tokens, start)
        yield from self._named_day(tokens, start)
        yield from self._part(tokens, start)

    def _relative(self, tokens: Sequence[Token], start: int) -> Iterator[tuple[Period, int]]:
        """`last year`, `this quarter`."""
        today = self.today
        for name, back in (("this", 0), ("last", 1)):
            for at in self.words.ends(tokens, start, name):
                for end in self.words.ends(tokens, at, "year"):
                    yield _year_of(today.year - back), end
                for unit, length in (("month", 1), ("quarters", 3)):
                    for end in self.words.ends(tokens, at, unit):
                        month = (today.month - 1) // length * length + 1
                        yield _months(today.year, month - back * length, length), end
                for end in self.words.ends(tokens, at, "week"):
                    yield _days(today - timedelta(days=today.weekday() + 7 * back), 7), end

    def _named_day(self, tokens: Sequence[Token], start: int) -> Iterator[tuple[Period, int]]:
        """`3 March 2026`, `3. März 2026`, `March 3, 2026`; always with its year."""
        if start + 3 > len(tokens):
            return
        year = _year(tokens[start + 2])
        for day_at, month_at in ((start, start + 1), (start + 1, start)):
            month, number = self._month(tokens, month_at), _ordinal_day(tokens[day_at])
            if year is not None and month is not None and number is not None:
                try:
                    yield _days(date(year, month, number), 1), start + 3
                except ValueError:
                    return

    def _part(self, tokens: Sequence[Token], start: int) -> Iterator[tuple[Period, int]]:
        """A month, quarter or half, with its year or in the table's only possible year."""
        for month, length, at in self._parts(tokens, start):
            behind = [at, *self.words.ends(tokens, at, "of"), *self.words.ends(tokens, at, "in")]
            dated = [place for place in behind if place < len(tokens) and _year(tokens[place]) is not None]
            for place in dated:
                yield _months(_year(tokens[place]) or 0, month, length), place + 1
            for place in behind:  # "the first quarter of last year", "in March this year"
                for name, back in (("this", 0), ("last", 1)):
                    for unit in self.words.ends(tokens, place, name):
                        for end in self.words.ends(tokens, unit, "year"):
                            dated.append(end)
                            yield _months(self.today.year - back, month, length), end
            only = None if dated else self._only(month, length)
            if only is not None:
                yield only, at

    def _parts(self, tokens: Sequence[Token], start: int) -> Iterator[tuple[int, int, int]]:
        """First month, number of months, and end."""
        key = tokens[start].key
        month = self._month(tokens, start)
        if month is not None:
            yield month, 1, start + 1
        if key in _QUARTERS:
            yield _QUARTERS[key] * 3 - 2, 3, start + 1
        number = self.words.ordinal(key)
        for name, length, most in (("quarter", 3, 4), ("half", 6, 2)):
            if number is not None and number <= most:
                for end in self.words.ends(tokens, start + 1, name):
                    yield (number - 1) * length + 1, length, end

    def _month(self, tokens: Sequence[Token], index: int) -> int | None:
        if index >= len(tokens) or tokens[index].kind != "word":
            return None
        language = load(self.words.language)
        kind, name = language.dates.get((language.stem(tokens[index].key),), ("", ""))
        return MONTHS.index(name) + 1 if kind == "month" else None

    def _only(self, month: int, length: int) -> Period | None:
        if self.first is None or self.last is None or self.last.year - self.first.year > _LAST_YEAR - _FIRST_YEAR:
            return None
        periods = [_months(year, month, length) for year in range(self.first.year, self.last.year + 1)]
        inside = [p for p in periods if p.start and p.end and p.start <= self.last and p.end > self.first]
        return inside[0] if len(inside) == 1 else None


@dataclass(frozen=True, slots=True)
class _Month(Period):
    """A month with its year stated later."""

    month: int = 1


def _directed(name: str, period: Period) -> Period:
    match name:
        case "since":
            return Period(period.start, None)
        case "before":
            return Period(None, period.start)
        case "after":
            return Period(period.end, None)
        case _:
            return Period(None, period.end)


def _year(token: Token) -> int | None:
    if token.kind != "number" or len(token.text) != 4 or not token.text.isdecimal():
        return None
    year = int(token.text)
    return year if _FIRST_YEAR <= year <= _LAST_YEAR else None


def _ordinal_day(token: Token) -> int | None:
    digits = token.key.removesuffix("st").removesuffix("nd").removesuffix("rd").removesuffix("th")
    return int(digits) if digits.isdecimal() and len(digits) <= 2 else None


def _day(text: str) -> date | None:
    parts = [int(part) for part in text.replace("-", ".").split(".")]
    year, month, day = parts if parts[0] > 31 else parts[::-1]
    try:
        return date(year, month, day)
    except ValueError:
        return None


def _days(first: date, count: int) -> Period:
    return Period(first, first + timedelta(days=count))


def _year_of(year: int) -> Period:
    return Period(date(year, 1, 1), date(year + 1, 1, 1), year)


def _months(year: int, month: int, count: int) -> Period:
    """Months of a year; a month below 1 is in the year before."""
    first = year * 12 + month - 1
    last = first + count
    return Period(date(first // 12, first % 12 + 1, 1), date(last // 12, last % 12 + 1, 1))
