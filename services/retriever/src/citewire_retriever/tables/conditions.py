"""Conditions and groups in questions to tables: `in North`, `with a salary over 5000`, `since March`, `per region`."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from typing import Final

from citewire.retriever.v1 import table_pb2 as pb

from citewire_retriever.service.query_filters.words import load
from citewire_retriever.tables.columns import NUMBERS, Names, Table
from citewire_retriever.tables.periods import Calendar, Period
from citewire_retriever.tables.vocabulary import Lexicon, Token, currency_of, read_number

_MOST_READINGS: Final = 1_000
"""Most positions at which the rest of a question is read; real questions take fewer than a hundred."""
_COMPARISONS: Final = {
    "gt": pb.TABLE_OPERATOR_GT,
    "ge": pb.TABLE_OPERATOR_GE,
    "lt": pb.TABLE_OPERATOR_LT,
    "le": pb.TABLE_OPERATOR_LE,
}
_PARTS: Final = {
    "month": (pb.DATE_PART_YEAR_MONTH,),
    "quarters": (pb.DATE_PART_YEAR, pb.DATE_PART_QUARTER),
    "year": (pb.DATE_PART_YEAR,),
}


@dataclass(frozen=True, slots=True)
class Tail:
    """Conditions and groups."""

    filters: tuple[pb.TableFilter, ...] = ()
    groups: tuple[pb.TableGroup, ...] = ()
    columns: tuple[str, ...] = ()
    """The columns of the conditions and groups, each of which may be used once."""
    ratio: bool = False
    """Whether `per` may mean a division."""

    def joined(self, other: "Tail") -> "Tail":
        """Both."""
        return Tail(
            self.filters + other.filters,
            self.groups + other.groups,
            self.columns + other.columns,
            self.ratio or other.ratio,
        )

    def fits(self, other: "Tail") -> bool:
        """Whether they use different columns."""
        return self.joined(other).consistent

    @property
    def consistent(self) -> bool:
        """Whether no column is used twice."""
        return len(self.columns) == len(set(self.columns))


class TooManyReadingsError(Exception):
    """A question has too many readings to try them all."""


class Conditions:
    """Reads conditions and groups of one question in one language."""

    def __init__(self, tokens: Sequence[Token], table: Table, words: Lexicon, names: Names, today: date) -> None:
        """Takes the question, the table, the language's words, their references, and today's date."""
        self._tokens = tokens
        self._table = table
        self._words = words
        self._names = names
        self._today = today
        self._readings = 0
        self._dates = [index for index, column in enumerate(table.columns) if column.type == pb.TABLE_TYPE_DATE]
        only = self._dates[0] if len(self._dates) == 1 and not table.has_unread_dates else None
        self._moment = only if only is not None and table.headers[only].is_moment else None

    def tails(self, start: int) -> Iterator[Tail]:
        """All readings of the rest of the question.

        Raises:
            TooManyReadingsError: There are too many.
        """
        self.count_reading()
        if start == len(self._tokens):
            yield Tail()
        for tail, end in self._tail(start):
            for more in self.tails(end):
                if tail.fits(more):
                    yield tail.joined(more)

    def count_reading(self) -> None:
        """Counts a place at which the rest is read.

        Raises:
            TooManyReadingsError: There were too many.
        """
        self._readings += 1
        if self._readings > _MOST_READINGS:
            raise TooManyReadingsError

    def condition(self, start: int) -> Iterator[tuple[Tail, int]]:
        """A condition."""
        yield from self._dated(start)
        yield from self._valued(start)

    def adjective(self, start: int) -> Iterator[tuple[Tail, int]]:
        """A value before its noun, or a boolean column."""
        for index, value, end in self._names.values(start, adjective=True):
            yield self._equal(index, (value,)), end
        yield from self._flag(start)

    def count(self, start: int) -> int | None:
        """An integer, in digits or as a word."""
        if start >= len(self._tokens):
            return None
        token = self._tokens[start]
        if token.kind == "number":
            return int(token.text) if token.text.isdecimal() and len(token.text) <= 3 else None
        kind, number = load(self._words.language).dates.get((load(self._words.language).stem(token.key),), ("", ""))
        return int(number) if kind == "number" else None

    def groups_of(self, unit: str) -> list[pb.TableGroup]:
        """Groups by a unit of time; none if the column isn't clear."""
        if self._moment is None:
            return []
        name = self._table.columns[self._moment].name
        return [pb.TableGroup(column=name, part=part) for part in _PARTS[unit]]

    def _tail(self, start: int) -> Iterator[tuple[Tail, int]]:
        for end in self._words.ends(self._tokens, start, "there"):
            yield Tail(), end
        yield from self.condition(start)
        yield from self._compared(start)
        yield from self._said_of(start)
        yield from self._grouped(start)
        for at in self._words.ends(self._tokens, start, "and"):
            for first in self._articles(at):
                yield from self.condition(first)
                yield from self._compared(first)

    def _dated(self, start: int) -> Iterator[tuple[Tail, int]]:
        """A period, for the only date column or one named before or after it."""
        named = list(self._named_dates(start))
        for index, at in named:
            yield from self._periods(index, at)
        for index in self._dates:
            for tail, end in self._periods(index, start):
                if index == self._moment:
                    yield tail, end
                yield from ((tail, last) for other, last in self._names.dated(end) if other == index)
        yield from self._of_year_column(start)

    def _named_dates(self, start: int) -> Iterator[tuple[int, int]]:
        """`with an order date`, `ordered`."""
        yield from self._names.dated(start)
        for at in self._words.ends(self._tokens, start, "is"):  # "were hired in 2024"
            yield from self._names.dated(at)
        for at in self._words.ends(self._tokens, start, "with"):
            for first in self._articles(at):
                for index, end in self._names.columns(first):
                    if index in self._dates:
                        yield index, end
                        yield from ((index, last) for last in self._words.ends(self._tokens, end, "is"))

    def _periods(self, index: int, start: int) -> Iterator[tuple[Tail, int]]:
        column = self._table.columns[index]
        calendar = Calendar(self._words, self._today, column.first, column.last)
        for period, end in calendar.read(self._tokens, start):
            yield _within(column.name, period), end

    def _of_year_column(self, start: int) -> Iterator[tuple[Tail, int]]:
        """`in 2026` if the table has a column of years."""
        for index, column in enumerate(self._table.columns):
            header = self._table.headers[index]
            if column.type not in NUMBERS or not set(header.words) <= {"year", "jahr"}:
                continue
            for period, end in Calendar(self._words, self._today).read(self._tokens, start):
                if period.year is not None:
                    condition = _filter(column.name, pb.TABLE_OPERATOR_EQ, str(period.year))
                    yield Tail((condition,), columns=(column.name,)), end

    def _valued(self, start: int) -> Iterator[tuple[Tail, int]]:
        """`in North`, `in the region North`, `where the status is open`, `are open`, `from Berlin or Bonn`."""
        for name in ("in", "with", "of"):
            for at in self._words.ends(self._tokens, start, name):
                for first in self._articles(at):
                    yield from self._value_of(first, bare=name == "in")
        for at in self._words.ends(self._tokens, start, "is"):
            for index, value, end in self._names.values(at):
                yield from self._or_more(index, (value,), end)
            yield from self._flag(at)
        yield from self._value_of(start, bare=False)

    def _value_of(self, start: int, *, bare: bool) -> Iterator[tuple[Tail, int]]:
        """A value with its column's name before or after it, or alone."""
        for index, value, end in self._names.values(start):
            if bare:
                yield from self._or_more(index, (value,), end)
            for other, last in self._names.columns(end):
                if other == index:
                    yield self._equal(index, (value,)), last
        for index, at in self._names.columns(start):
            for first in (at, *self._words.ends(self._tokens, at, "is")):
                for other, value, end in self._names.values(first):
                    if other == index:
                        yield from self._or_more(index, (value,), end)

    def _or_more(self, index: int, values: tuple[str, ...], start: int) -> Iterator[tuple[Tail, int]]:
        """The values so far, or more of the same column after `or`."""
        yield self._equal(index, values), start
        for at in self._words.ends(self._tokens, start, "or"):
            for first in (at, *self._words.ends(self._tokens, at, "in")):
                for other, value, end in self._names.values(first):
                    if other == index and value not in values:
                        yield from self._or_more(index, (*values, value), end)

    def _equal(self, index: int, values: tuple[str, ...]) -> Tail:
        name = self._table.columns[index].name
        operator = pb.TABLE_OPERATOR_EQ if len(values) == 1 else pb.TABLE_OPERATOR_IN
        return Tail((_filter(name, operator, *values),), columns=(name,))

    def _flag(self, start: int) -> Iterator[tuple[Tail, int]]:
        """A boolean column that must be true."""
        for index, end in self._names.columns(start):
            column = self._table.columns[index]
            if column.type == pb.TABLE_TYPE_BOOLEAN:
                yield Tail((_filter(column.name, pb.TABLE_OPERATOR_EQ, "true"),), columns=(column.name,)), end

    def _compared(self, start: int) -> Iterator[tuple[Tail, int]]:
        """`with a salary over 5000`, `where amount > 100`, `deren Gehalt unter 5000 liegt`, `price between 5 and 9`."""
        for at in (start, *self._words.ends(self._tokens, start, "with")):
            for first in self._articles(at):
                for index, end in self._names.columns(first):
                    column = self._table.columns[index]
                    if column.type in NUMBERS or column.type == pb.TABLE_TYPE_PERCENT:
                        for tail, last in self._comparison(index, end):
                            yield tail, last
                            yield from ((tail, place) for place in self._words.ends(self._tokens, last, "verb_end"))

    def _comparison(self, index: int, start: int) -> Iterator[tuple[Tail, int]]:
        name = self._table.columns[index].name
        starts = [start]
        for other in ("is", "of"):
            starts += self._words.ends(self._tokens, start, other)
        starts += [start + 1] if self._key(start) == "von" and self._words.language == "de" else []
        for at in dict.fromkeys(starts):
            for word, operator in _COMPARISONS.items():
                for first in self._words.ends(self._tokens, at, word):
                    for value, end in self._number(index, first):
                        yield Tail((_filter(name, operator, value),), columns=(name,)), end
            for first in self._words.ends(self._tokens, at, "between"):
                for low, middle in self._number(index, first):
                    for second in self._words.ends(self._tokens, middle, "and"):
                        for high, end in self._number(index, second):
                            least = _filter(name, pb.TABLE_OPERATOR_GE, low)
                            most = _filter(name, pb.TABLE_OPERATOR_LE, high)
                            yield Tail((least, most), columns=(name,)), end
            if at > start:  # "with a price of 5"
                for value, end in self._number(index, at):
                    yield Tail((_filter(name, pb.TABLE_OPERATOR_EQ, value),), columns=(name,)), end

    def _number(self, index: int, start: int) -> Iterator[tuple[str, int]]:
        """A number for a column, with its currency or percent sign."""
        column = self._table.columns[index]
        signs = [currency_of(self._key(start))]
        at = start + 1 if signs[0] is not None else start
        if at >= len(self._tokens) or self._tokens[at].kind != "number":
            return
        number = read_number(self._tokens[at].text, self._words.language)
        end = at + 1
        if number is None:
            return
        if self._key(end) in {"%", "percent", "prozent"}:
            if column.type == pb.TABLE_TYPE_PERCENT:
                yield f"{_plain(number)}%", end + 1
            return
        if signs[0] is None and (sign := currency_of(self._key(end))) is not None:
            signs.append(sign)
            end += 1
        if column.type == pb.TABLE_TYPE_PERCENT or not self._currency_fits(index, [sign for sign in signs if sign]):
            return
        yield _plain(number), end

    def _currency_fits(self, index: int, signs: list[str]) -> bool:
        column = self._table.columns[index]
        return not signs or (bool(column.currency) and currency_of(column.currency.casefold()) == signs[0])

    def _said_of(self, start: int) -> Iterator[tuple[Tail, int]]:
        """`does the Sales department have`, `hat die Abteilung Vertrieb`."""
        for at in self._words.ends(self._tokens, start, "does"):
            for first in self._articles(at):
                for tail, end in self._value_of(first, bare=True):
                    if self._words.language == "de":
                        yield tail, end
                    yield from ((tail, last) for last in self._words.ends(self._tokens, end, "have"))

    def _grouped(self, start: int) -> Iterator[tuple[Tail, int]]:
        """`per region`, `je Monat`, `by order date and region` isn't."""
        for at in self._words.ends(self._tokens, start, "per"):
            ratio = at in self._words.ends(self._tokens, start, "ratio")
            for index, end in self._names.columns(at, nouns=True):
                column = self._table.columns[index]
                if column.type in {pb.TABLE_TYPE_TEXT, pb.TABLE_TYPE_BOOLEAN} or self._table.headers[index].is_key:
                    yield Tail(groups=(pb.TableGroup(column=column.name),), columns=(column.name,), ratio=ratio), end
            for unit in _PARTS:
                for end in self._words.ends(self._tokens, at, unit):
                    groups = self.groups_of(unit)
                    if groups:
                        yield Tail(groups=tuple(groups), ratio=ratio), end

    def _articles(self, start: int) -> Iterator[int]:
        yield start
        yield from self._words.ends(self._tokens, start, "article")

    def _key(self, index: int) -> str:
        return self._tokens[index].key if index < len(self._tokens) else ""


def _within(column: str, period: Period) -> Tail:
    filters: list[pb.TableFilter] = []
    if period.start is not None:
        filters.append(_filter(column, pb.TABLE_OPERATOR_GE, period.start.isoformat()))
    if period.end is not None:
        filters.append(_filter(column, pb.TABLE_OPERATOR_LT, period.end.isoformat()))
    return Tail(tuple(filters), columns=(column,))


def _filter(column: str, operator: pb.TableOperator, *values: str) -> pb.TableFilter:
    return pb.TableFilter(column=column, op=operator, values=values)


def _plain(number: Decimal) -> str:
    return format(number, "f")
