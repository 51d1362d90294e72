"""A table as questions see it: the columns, rows or values that words of a question refer to."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import date
from functools import cached_property
from typing import Final

from citewire.retriever.v1 import table_pb2 as pb

from citewire_retriever.service.query_filters.words import load
from citewire_retriever.tables.vocabulary import (
    LANGUAGES,
    Lexicon,
    Token,
    concept_of,
    header_words,
    same_word,
    tokenise,
)

NUMBERS: Final = frozenset({pb.TABLE_TYPE_NUMBER, pb.TABLE_TYPE_CURRENCY})
_LONGEST: Final = 8
"""Lexicon of a header or a value that a question names."""
_BRACKETS: Final = re.compile(r"[(\[{][^)\]}]*[)\]}]")


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table."""

    name: str
    type: int
    """A TableType."""
    values: tuple[str, ...] = ()
    """A text column's values, or the most frequent ones."""
    unique: bool = False
    """Whether every row has a different value."""
    first: date | None = None
    """A date column's earliest and latest dates."""
    last: date | None = None
    currency: str = ""


@dataclass(frozen=True)
class Table:
    """A table that may answer questions."""

    columns: tuple[Column, ...]
    names: tuple[str, ...] = ()
    """Its names, from sheet and document, which tell what its rows are (`Orders`)."""

    @cached_property
    def headers(self) -> tuple["Header", ...]:
        """The columns' headers, analysed."""
        return tuple(Header.read(column) for column in self.columns)

    @cached_property
    def has_unread_dates(self) -> bool:
        """Whether a column of dates, by its name, isn't one: then a period may be meant of that one."""
        return any(
            column.type != pb.TABLE_TYPE_DATE and any(word == "date" or word.endswith("datum") for word in header.words)
            for column, header in zip(self.columns, self.headers, strict=True)
        )

    @cached_property
    def row_nouns(self) -> tuple[str, ...]:
        """Words that may denote a row: the only meaningful word of each name."""
        nouns: list[str] = []
        for name in self.names:
            words = [token.key for token in tokenise(name) if token.kind == "word" and token.key.isalpha()]
            words = [word for word in words if word not in header_words("collective")]
            nouns += words if len(words) == 1 else []
        return tuple(nouns)

    @cached_property
    def values(self) -> tuple[tuple[tuple[tuple[str, ...], str], ...], ...]:
        """Each column's values with their words."""
        return tuple(
            tuple((tuple(token.key for token in tokenise(value)), value) for value in column.values)
            for column in self.columns
        )


@dataclass(frozen=True, slots=True)
class Header:
    """The meaning of a column's name."""

    words: tuple[str, ...]
    """Folded, without units."""
    named: tuple[str, ...]
    """Without words for a name, a key or a date; empty if there are none."""
    is_key: bool
    """Whether its values are identifiers: order numbers, postcodes, years."""
    is_flow: bool
    """Whether its values are summed when rows are combined."""
    is_amount: bool
    """Whether asking for it means its sum."""
    is_person: bool
    is_moment: bool
    """Whether its date is when the row's event happened."""
    is_member: bool
    """Whether it holds names of people, which may not be unique."""

    @classmethod
    def read(cls, column: Column) -> "Header":
        """Reads a column's name."""
        bare = _BRACKETS.sub(" ", column.name)
        words = tuple(token.key for token in tokenise(bare) if token.kind != "symbol")
        while len(words) > 1 and words[-1] in header_words("units"):
            words = words[:-1]
        numeric = column.type in NUMBERS
        is_key = any(word in header_words("keys") for word in words) or any(
            word.endswith(("nummer", "nr")) for word in words
        )
        is_rate = any(word in header_words("rates") for word in words)
        is_flow = numeric and not is_key and not is_rate and any(_any_form(word, "flows") for word in words)
        is_amount = is_flow or (
            numeric and not is_key and not is_rate and any(_any_form(word, "amounts") for word in words)
        )
        person = any(_any_form(word, "persons") for word in words)
        named = _named(words, column.type)
        member = any(_any_form(word, "members") for word in named or words)
        moment = column.type == pb.TABLE_TYPE_DATE and all(word in header_words("moments") for word in named or words)
        return cls(words, named, is_key, is_flow, is_amount, person, moment, member)


def _any_form(word: str, name: str) -> bool:
    """Whether a header's word, or the end of it as a compound, is one of these."""
    return any(same_word(word, known, language) for known in header_words(name) for language in LANGUAGES)


def _named(words: tuple[str, ...], kind: int) -> tuple[str, ...]:
    """`customer` of `Customer name`, `kunden` of `Kundennummer`, `order` of `Order date`."""
    if kind == pb.TABLE_TYPE_DATE:
        rest = tuple(word for word in words if word not in header_words("date_words"))
    else:
        rest = tuple(word for word in words if word not in header_words("key_suffixes"))
    if len(rest) < len(words):
        return rest
    for suffix in sorted(header_words("joined_suffixes")):
        if len(words) == 1 and words[0].endswith(suffix) and len(words[0]) > len(suffix) + 2:
            return (words[0].removesuffix(suffix),)
    return ()


class Names:
    """Finds what a question's words refer to in a table."""

    def __init__(self, table: Table, tokens: Sequence[Token], words: Lexicon) -> None:
        """Takes a table, a question, and the words of the question's language."""
        self._table = table
        self._tokens = tokens
        self._words = words

    def columns(self, start: int, *, nouns: bool = False) -> Iterator[tuple[int, int]]:
        """Columns with their whole names starting here, each with the end of its name.

        An exact match rules out columns with merely similar names.

        Args:
            start: Index of the first token.
            nouns: Whether `customer` may name `Customer name` or `Customer no.`.
        """
        for length in range(min(_LONGEST, len(self._tokens) - start), 0, -1):
            keys = [token.key for token in self._tokens[start : start + length]]
            exact = [index for index, header in enumerate(self._table.headers) if self._same(keys, header.words)]
            similar = [index for index, header in enumerate(self._table.headers) if _alike(keys, header.words)]
            named = [
                index
                for index, header in enumerate(self._table.headers)
                if nouns and header.named and (self._same(keys, header.named) or _alike(keys, header.named))
            ]
            yield from ((index, start + length) for index in exact or sorted({*similar, *named}))

    def dated(self, start: int) -> Iterator[tuple[int, int]]:
        """Date columns referred to by a verb or noun: `Order date` by `ordered`."""
        stem = load(self._words.language).stem
        for index, header in enumerate(self._table.headers):
            if self._table.columns[index].type != pb.TABLE_TYPE_DATE or start >= len(self._tokens):
                continue
            parts = header.named or header.words
            if len(parts) == 1 and stem(self._tokens[start].key) == stem(parts[0]):
                yield index, start + 1

    def values(self, start: int, *, adjective: bool = False) -> Iterator[tuple[int, str, int]]:
        """Values of text columns starting here: column, value, and end.

        Args:
            start: Index of the first token.
            adjective: Whether it may be declined.
        """
        for index, column in enumerate(self._table.columns):
            if column.type != pb.TABLE_TYPE_TEXT:
                continue
            exact: list[tuple[str, int]] = []
            similar: list[tuple[str, int]] = []
            for words, value in self._table.values[index]:
                end = start + len(words)
                keys = tuple(token.key for token in self._tokens[start:end])
                if not words or len(keys) < len(words):
                    continue
                if keys == words:
                    exact.append((value, end))
                elif keys[:-1] == words[:-1] and self._form_of(keys[-1], words[-1], adjective=adjective):
                    similar.append((value, end))
            for value, end in exact or similar:
                yield index, value, end

    def rows(self, start: int) -> Iterator[int]:
        """The ends of a noun for the table's rows."""
        if start >= len(self._tokens):
            return
        yield from self._words.ends(self._tokens, start, "rows")
        key = self._tokens[start].key
        # Without an identifying column, one student may be in several rows of `Students`.
        keyed = any(column.unique for column in self._table.columns)
        if (
            keyed
            and self._tokens[start].kind == "word"
            and any(
                same_word(key, noun, self._words.language) or _alike([key], (noun,)) for noun in self._table.row_nouns
            )
        ):
            yield start + 1

    def _form_of(self, key: str, word: str, *, adjective: bool) -> bool:
        if len(word) < 4 or not word.isalpha():
            return False
        if self._words.language == "de":
            return adjective and key in {word + ending for ending in ("e", "en", "er", "es", "em")}
        return key in {word + "s", word + "es"} and not adjective

    def _same(self, keys: Sequence[str], words: tuple[str, ...]) -> bool:
        language = self._words.language
        return len(keys) == len(words) and all(map(lambda key, word: same_word(key, word, language), keys, words))


def _alike(keys: Sequence[str], words: tuple[str, ...]) -> bool:
    """Whether words mean the same, one by one, in any language."""
    if len(keys) != len(words):
        return False
    for key, word in zip(keys, words, strict=True):
        concept = concept_of(key)
        if key != word and (concept is None or concept != concept_of(word)):
            return False
    return True
