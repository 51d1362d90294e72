"""Reads questions in English and German as queries of a table, only by rules.

A question is a query only if one reading uses all of its words and no other reading yields a different query, as a
wrong number is worse than none.
"""

from collections.abc import Iterator
from dataclasses import replace
from datetime import date
from typing import Final

from citewire.retriever.v1 import table_pb2 as pb

from citewire_retriever.service.query_filters.words import load
from citewire_retriever.tables.columns import NUMBERS, Names, Table
from citewire_retriever.tables.conditions import Conditions, Tail, TooManyReadingsError
from citewire_retriever.tables.targets import Computation, Target, query_of
from citewire_retriever.tables.vocabulary import LANGUAGES, Lexicon, Token, load_words, tokenise

LONGEST_QUESTION: Final = 300
"""Most characters of a question that is read."""
_MOST_TOKENS: Final = 40
_MOST_TOP: Final = 100

_FUNCTIONS: Final = {
    "sum": pb.TABLE_FUNCTION_SUM,
    "avg": pb.TABLE_FUNCTION_AVG,
    "min": pb.TABLE_FUNCTION_MIN,
    "max": pb.TABLE_FUNCTION_MAX,
    "median": pb.TABLE_FUNCTION_MEDIAN,
}
_COMPUTED: Final = (
    *("much", "count", "distinct", "most", "fewest", "top", "largest"),
    *(form for name in _FUNCTIONS for form in (name, f"{name}_of")),
)
"""Phrases for computations."""
_OF_DATES: Final = {"earliest": pb.TABLE_FUNCTION_MIN, "latest": pb.TABLE_FUNCTION_MAX}


def read_question(question: str, table: Table, today: date) -> tuple[pb.TableQuery, str] | None:
    """Returns a question's query of a table, and its language; None if there is no query or several.

    Args:
        question: In English or German.
        table: Its columns and names.
        today: The date that "last year" is relative to.
    """
    tokens = tokenise(question[: LONGEST_QUESTION + 1])
    if len(question) > LONGEST_QUESTION or not 0 < len(tokens) <= _MOST_TOKENS:
        return None
    queries: dict[bytes, tuple[pb.TableQuery, str]] = {}
    try:
        for language in LANGUAGES:
            for query in _Reader(tokens, table, load_words(language), today).queries():
                queries.setdefault(query.SerializeToString(deterministic=True), (query, language))
                if len(queries) > 1:
                    return None
    except TooManyReadingsError:
        return None
    return next(iter(queries.values()), None)


def may_ask(question: str, table: Table) -> bool:
    """Whether a question refers to something in a table, so that reading the table's values is worthwhile."""
    tokens = tokenise(question[: LONGEST_QUESTION + 1])
    if len(question) > LONGEST_QUESTION or len(tokens) > _MOST_TOKENS:
        return False
    readers = [Names(table, tokens, load_words(language)) for language in LANGUAGES]
    return any(
        any(names.columns(at, nouns=True)) or any(names.rows(at)) for names in readers for at in range(len(tokens))
    )


def asks_to_compute(question: str) -> str | None:
    """The language in which a question asks for a computation; None if it doesn't."""
    tokens = tokenise(question[: LONGEST_QUESTION + 1])
    if len(question) > LONGEST_QUESTION:
        return None
    for language in LANGUAGES:
        words = load_words(language)
        prefixes = tuple(prefix for name in _FUNCTIONS for prefix in words.prefixes(f"{name}_prefix"))
        for start, token in enumerate(tokens):
            computes = any(any(words.ends(tokens, start, name)) for name in _COMPUTED)
            if computes or (prefixes and token.key.startswith(prefixes)):
                return language
    return None


def preload() -> None:
    """Loads all words, for a process that can't open files later."""
    for language in LANGUAGES:
        load_words(language)
        load(language)


class _Reader:
    """Reads a question in one language."""

    def __init__(self, tokens: list[Token], table: Table, words: Lexicon, today: date) -> None:
        self._tokens = tokens
        self._table = table
        self._words = words
        self._names = Names(table, tokens, words)
        self._conditions = Conditions(tokens, table, words, self._names, today)

    def queries(self) -> Iterator[pb.TableQuery]:
        """The queries that readings of the whole question make."""
        for start in self._open(0):
            for front, at in self._front(start):
                for target, tail, end in self._target(at):
                    for behind in self._conditions.tails(end):
                        query = query_of(self._table, self._conditions, target, front.joined(tail).joined(behind))
                        if query is not None:
                            yield query

    def _open(self, start: int) -> Iterator[int]:
        yield start
        for end in self._words.ends(self._tokens, start, "open"):
            yield from self._open(end)

    def _front(self, start: int) -> Iterator[tuple[Tail, int]]:
        """Phrases before the question itself: `In March 2026, how many …`."""
        yield Tail(), start
        yield from self._conditions.condition(start)

    def _target(self, start: int) -> Iterator[tuple[Target, Tail, int]]:
        yield from self._count(start)
        yield from self._value(start)
        yield from self._ranked(start)
        yield from self._top(start)

    def _count(self, start: int) -> Iterator[tuple[Target, Tail, int]]:
        """`how many open orders`, `Anzahl der Kunden`, `how many units`."""
        for at in self._all(self._maybe(start, "what"), "maybe_article"):
            for first in self._words.ends(self._tokens, at, "count"):
                for noun in self._all([first], "maybe_article"):
                    for computation, tail, end in self._counted_noun(noun):
                        for behind, last in self._middle(end):
                            yield Target(computation), tail.joined(behind), last

    def _counted_noun(self, start: int) -> Iterator[tuple[Computation, Tail, int]]:
        """Nouns that are counted, with the adjectives before them."""
        for distinct in self._words.ends(self._tokens, start, "distinct"):
            for index, end in self._names.columns(distinct, nouns=True):
                yield Computation(pb.TABLE_FUNCTION_COUNT_DISTINCT, index), Tail(), end
        for tail, noun in self._adjectives(start):
            yield from ((computation, tail, end) for computation, end in self._noun(noun))
            if noun == start:
                for index, end in self._names.columns(noun):
                    if self._table.headers[index].is_flow:
                        yield Computation(pb.TABLE_FUNCTION_SUM, index), tail, end

    def _noun(self, start: int) -> Iterator[tuple[Computation, int]]:
        """The object that a noun counts: the rows, or distinct values of a column."""
        rows = list(self._names.rows(start))
        for index, end in self._names.columns(start, nouns=True):
            column, header = self._table.columns[index], self._table.headers[index]
            if column.type != pb.TABLE_TYPE_TEXT and not header.is_key:
                continue
            if column.unique:
                yield Computation(pb.TABLE_FUNCTION_COUNT), end
            elif header.is_key or not (rows or header.is_member):
                yield Computation(pb.TABLE_FUNCTION_COUNT_DISTINCT, index), end
                rows = [] if header.is_key else rows
            else:  # two rows of `Employees` with one name are two people, or one
                return
        yield from ((Computation(pb.TABLE_FUNCTION_COUNT), end) for end in rows)

    def _adjectives(self, start: int) -> Iterator[tuple[Tail, int]]:
        """Values before a noun: `open orders`, `female employees`, `paid invoices`."""
        self._conditions.count_reading()
        yield Tail(), start
        for tail, end in self._conditions.adjective(start):
            for more, last in self._adjectives(end):
                if tail.fits(more):
                    yield tail.joined(more), last

    def _value(self, start: int) -> Iterator[tuple[Target, Tail, int]]:
        """`what is the total amount of open orders`, `sum of amounts`, `how much revenue`, `Gesamtumsatz`."""
        for asked in self._words.ends(self._tokens, start, "much"):
            for computation, end in self._measure(asked):
                yield from ((Target(computation), tail, last) for tail, last in self._middle(end))
        high = set(self._words.ends(self._tokens, start, "high"))
        for at in self._maybe(start, "what"):
            for middle, after in self._front(at) if at > start else ((Tail(), at),):
                for first in self._all([after], "maybe_article"):
                    computed = [(Target(computation), end) for computation, end in self._computed(first)]
                    bare = at not in high
                    computed += [(Target(computation, bare=bare), end) for computation, end in self._measure(first)]
                    for target, end in computed:
                        for tail, last in self._middle(end):
                            yield target, middle.joined(tail), last

    def _middle(self, start: int) -> Iterator[tuple[Tail, int]]:
        """After a noun: nothing, or its rows (`of all open orders`)."""
        yield Tail(), start
        for of in self._words.ends(self._tokens, start, "of"):
            for at in self._all([of], "maybe_article"):
                for tail, noun in self._adjectives(at):
                    for computation, end in self._noun(noun):
                        if computation.function == pb.TABLE_FUNCTION_COUNT:
                            yield tail, end

    def _computed(self, start: int) -> Iterator[tuple[Computation, int]]:
        """`average salary`, `sum of the amounts`, `latest order date`, `Durchschnittsgehalt`."""
        yield from self._compound(start)
        headers = {end for _, end in self._names.columns(start)}  # `minimum stock`, if a column has this name
        for name, function in _FUNCTIONS.items():
            for at in self._words.ends(self._tokens, start, name):
                yield from (
                    (computation, end) for computation, end in self._of_column(function, at) if end not in headers
                )
            for at in self._words.ends(self._tokens, start, f"{name}_of"):
                for of in self._words.ends(self._tokens, at, "of"):
                    for first in self._all([of], "maybe_article"):
                        yield from self._of_column(function, first)
                if self._words.language == "de":  # "Summe Betrag"
                    yield from self._of_column(function, at)
        for name, function in _OF_DATES.items():
            for at in self._words.ends(self._tokens, start, name):
                for index, end in self._names.columns(at):
                    if self._table.columns[index].type == pb.TABLE_TYPE_DATE:
                        yield Computation(function, index), end

    def _of_column(self, function: int, start: int) -> Iterator[tuple[Computation, int]]:
        for index, end in self._names.columns(start):
            if self._computes(function, index):
                yield Computation(function, index), end

    def _computes(self, function: int, index: int) -> bool:
        column, header = self._table.columns[index], self._table.headers[index]
        if header.is_key:
            return False
        percents = column.type == pb.TABLE_TYPE_PERCENT and function != pb.TABLE_FUNCTION_SUM
        return column.type in NUMBERS or percents

    def _measure(self, start: int) -> Iterator[tuple[Computation, int]]:
        """A column of amounts by itself means their sum."""
        for index, end in self._names.columns(start):
            if self._table.headers[index].is_amount:
                yield Computation(pb.TABLE_FUNCTION_SUM, index), end

    def _compound(self, start: int) -> Iterator[tuple[Computation, int]]:
        """`Gesamtumsatz`: computation and column in one word."""
        if start >= len(self._tokens):
            return
        key = self._tokens[start].key
        for name in ("sum", "avg", "min", "max"):
            for prefix in self._words.prefixes(f"{name}_prefix"):
                if key.startswith(prefix) and len(key) > len(prefix) + 2:
                    rest = [*self._tokens[:start], replace(self._tokens[start], key=key.removeprefix(prefix))]
                    for index, end in Names(self._table, rest, self._words).columns(start):
                        if self._computes(_FUNCTIONS[name], index):
                            yield Computation(_FUNCTIONS[name], index), end

    def _ranked(self, start: int) -> Iterator[tuple[Target, Tail, int]]:
        """`which region has the highest total amount`, `welcher Kunde hat die meisten Bestellungen`."""
        for group, unit, at in self._asked_group(start):
            for front, has in self._front(at):
                for verb in self._words.ends(self._tokens, has, "has"):
                    for middle, first in self._front(verb):
                        for target, adjectives, end in self._extreme(group, unit, first):
                            for tail, last in self._middle(end):
                                yield target, front.joined(middle).joined(adjectives).joined(tail), last

    def _asked_group(self, start: int) -> Iterator[tuple[int | None, str, int]]:
        for at in self._words.ends(self._tokens, start, "which"):
            yield from self._group_noun(at)
        for at in self._words.ends(self._tokens, start, "who"):
            persons = [index for index, header in enumerate(self._table.headers) if header.is_person]
            if len(persons) == 1:
                yield persons[0], "", at

    def _group_noun(self, start: int) -> Iterator[tuple[int | None, str, int]]:
        """A text column, a unit of time, or the rows."""
        named = False
        for index, end in self._names.columns(start, nouns=True):
            if self._table.columns[index].type == pb.TABLE_TYPE_TEXT or self._table.headers[index].is_key:
                named = True
                yield index, "", end
        for unit in ("month", "quarters", "year"):
            for end in self._words.ends(self._tokens, start, unit):
                yield None, unit, end
        if not named:
            yield from ((None, "", end) for end in self._names.rows(start))

    def _extreme(self, group: int | None, unit: str, start: int) -> Iterator[tuple[Target, Tail, int]]:
        """`the most open orders`, `den höchsten Umsatz`."""
        for name, descending in (("most", True), ("fewest", False)):
            for at in self._words.ends(self._tokens, start, name):
                for tail, noun in self._adjectives(at) if group is not None or unit else ():
                    for computation, end in self._noun(noun):
                        if computation.column is None or computation.column != group:
                            yield Target(computation, group, unit, top=1, descending=descending), tail, end
        for at in self._all([start], "maybe_article"):
            for name, descending in (("max", True), ("min", False)):
                for first in self._words.ends(self._tokens, at, name):
                    for target, end in self._by_measure(group, unit, first, top=1, descending=descending):
                        yield target, Tail(), end

    def _by_measure(
        self, group: int | None, unit: str, start: int, *, top: int, descending: bool
    ) -> Iterator[tuple[Target, int]]:
        """The value that ranks groups or rows: a named sum or mean, or a column if each row is a group."""
        rows = not unit and (group is None or self._table.columns[group].unique)
        computed: list[tuple[Computation, int]] = list(self._compound(start))
        for name in ("sum", "avg", "median"):
            for at in self._words.ends(self._tokens, start, name):
                computed += self._of_column(_FUNCTIONS[name], at)
        if not rows:
            computed += [
                (computation, end)
                for computation, end in self._measure(start)
                if computation.column is not None and self._table.headers[computation.column].is_flow
            ]
            yield from ((Target(computation, group, unit, None, top, descending), end) for computation, end in computed)
            return
        for index, end in self._names.columns(start):
            if self._computes(pb.TABLE_FUNCTION_MAX, index):
                yield Target(None, group, "", index, top, descending), end

    def _top(self, start: int) -> Iterator[tuple[Target, Tail, int]]:
        """`top 5 customers by revenue`, `die 3 größten Kunden nach Umsatz`."""
        for count, at in self._counts(start):
            for tail, noun in self._adjectives(at):
                for group, unit, end in self._group_noun(noun):
                    for front, by in self._front(end):
                        for first in self._words.ends(self._tokens, by, "by"):
                            for target, last in self._by_or_count(group, unit, first, count):
                                yield target, tail.joined(front), last

    def _by_or_count(self, group: int | None, unit: str, start: int, top: int) -> Iterator[tuple[Target, int]]:
        for at in self._all([start], "maybe_article"):
            yield from self._by_measure(group, unit, at, top=top, descending=True)
            for behind in self._words.ends(self._tokens, at, "count"):
                for noun in self._all([behind], "maybe_article"):
                    if group is not None or unit:
                        for computation, end in self._noun(noun):
                            yield Target(computation, group, unit, top=top), end

    def _counts(self, start: int) -> Iterator[tuple[int, int]]:
        """The number of top results requested."""
        for at in self._all(self._maybe(start, "what"), "maybe_article"):
            for top in self._words.ends(self._tokens, at, "top"):
                number = self._conditions.count(top)
                if number is not None and 0 < number <= _MOST_TOP:
                    yield number, top + 1
            number = self._conditions.count(at)
            if number is not None and 0 < number <= _MOST_TOP:
                yield from ((number, end) for end in self._words.ends(self._tokens, at + 1, "largest"))

    def _maybe(self, start: int, name: str) -> Iterator[int]:
        """After words of this name, or at their place if absent."""
        yield start
        yield from self._words.ends(self._tokens, start, name)

    def _all(self, starts: Iterator[int] | list[int], name: str) -> Iterator[int]:
        """The same from several positions."""
        for start in starts:
            yield from self._maybe(start, name.removeprefix("maybe_"))
