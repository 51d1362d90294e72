"""The words of questions to tables: tokens, a language's phrases, and equivalence of word forms."""

import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import cache
from importlib import resources
from typing import Any, Final, cast

from citewire_retriever.service.query_filters.words import fold

LANGUAGES: Final = ("en", "de")

_TOKEN: Final = re.compile(
    r"(?P<date>(?<![\w.])(?:\d{4}-\d{1,2}-\d{1,2}|\d{1,2}\.\s?\d{1,2}\.\s?\d{4})(?![\w-]))"
    r"|(?P<number>(?<!\w)\d+(?:[.,]\d+)*(?!\w))"
    r"|(?P<word>\w+)|(?P<symbol>[<>]=?|=|[^\s\w])"
)
_SILENT: Final = frozenset("?!.,:;\"'’“”„‚‘«»()")
_HYPHEN: Final = "-"
_GROUPED: Final[Mapping[str, re.Pattern[str]]] = {
    "en": re.compile(r"\d+(?:\.\d+)?|\d{1,3}(?:,\d{3})+(?:\.\d+)?"),
    "de": re.compile(r"\d+(?:,\d+)?|\d{1,3}(?:\.\d{3})+(?:,\d+)?"),
}
_ENDINGS: Final[Mapping[str, frozenset[str]]] = {
    "en": frozenset({"", "s", "es"}),
    "de": frozenset({"", "e", "n", "en", "er", "ern", "es", "s", "em", "in", "innen"}),
}
_SHORTEST: Final = 3
"""Fewest letters that two forms of a word share."""


@dataclass(frozen=True, slots=True)
class Token:
    """A word, number, date or sign of a question."""

    text: str
    key: str
    """Folded."""
    kind: str
    """`word`, `number`, `date` or `symbol`."""


def tokenise(text: str) -> list[Token]:
    """Tokenises a text, without meaningless punctuation."""
    tokens: list[Token] = []
    for match in _TOKEN.finditer(text):
        word, kind = match.group(), match.lastgroup or ""
        if kind == "symbol" and (word in _SILENT or (word == _HYPHEN and _joins(text, match.start()))):
            continue
        if kind == "word" and "_" in word:
            tokens += [Token(part, fold(part), kind) for part in word.split("_") if part]
        else:
            tokens.append(Token(word, fold(word), kind))
    return tokens


def _joins(text: str, at: int) -> bool:
    """Whether a hyphen joins two words."""
    return 0 < at < len(text) - 1 and text[at - 1].isalpha() and text[at + 1].isalnum()


def read_number(text: str, language: str) -> Decimal | None:
    """A number in a language's notation; None if another language would read a different one."""
    if not _GROUPED[language].fullmatch(text):
        return None
    if language == "de":
        text = text.replace(".", "").replace(",", ".")
    return Decimal(text.replace(",", ""))


def same_word(first: str, second: str, language: str) -> bool:
    """Whether two folded words differ only in inflection, like `order` and `orders`."""
    if first == second:
        return True
    shared = 0
    for letter, other in zip(first, second, strict=False):
        if letter != other:
            break
        shared += 1
    rests = {first[shared:], second[shared:]}
    if shared < _SHORTEST:
        return False
    # One must be the other with an ending: `Zahlen` and `Zahlungen` share a stem but aren't the same word.
    return ("" in rests and rests <= _ENDINGS[language]) or (language == "en" and rests == {"y", "ies"})


@dataclass(frozen=True, slots=True)
class Lexicon:
    """A language's phrases."""

    language: str
    phrases: Mapping[str, Mapping[str, tuple[tuple[str, ...], ...]]]
    """By name, then by first word, the longest first."""

    def ends(self, tokens: Sequence[Token], start: int, name: str) -> Iterator[int]:
        """The ends of phrases of a name that begin here."""
        if start < len(tokens):
            for phrase in self.phrases[name].get(tokens[start].key, ()):
                end = start + len(phrase)
                if tuple(token.key for token in tokens[start:end]) == phrase:
                    yield end

    def has(self, key: str, name: str) -> bool:
        """Whether a word belongs to a name."""
        return (key,) in self.phrases[name].get(key, ())

    def ordinal(self, key: str) -> int | None:
        """The ordinal that a word denotes, 1 to 4."""
        for number, forms in enumerate(_table()[self.language]["ordinals"].split(), start=1):
            if key in forms.split("|") or key in {str(number), f"{number}st", f"{number}nd", f"{number}rd"}:
                return number
        return None

    def prefixes(self, name: str) -> list[str]:
        """Prefixes of compounds of a name; none if the language has no such."""
        return cast("str", _table()[self.language].get(name, "")).split()


@cache
def load_words(language: str) -> Lexicon:
    """Loads a language's phrases."""
    phrases: dict[str, dict[str, tuple[tuple[str, ...], ...]]] = {"verb_end": {}}
    for name, text in _table()[language].items():
        by_first: dict[str, list[tuple[str, ...]]] = {}
        for phrase in cast("str", text).split():
            words = tuple(token.key for token in tokenise(phrase))
            by_first.setdefault(words[0], []).append(words)
        phrases[name] = {first: tuple(sorted(group, key=len, reverse=True)) for first, group in by_first.items()}
    return Lexicon(language, phrases)


def answer_words(language: str) -> Mapping[str, str]:
    """The phrases for answers in a language."""
    return cast("Mapping[str, str]", _table()["answers"][language])


@cache
def header_words(name: str) -> frozenset[str]:
    """A set of header words, named as in `words.toml`."""
    return frozenset(cast("str", _table()["headers"][name]).split())


@cache
def concepts() -> tuple[tuple[str, ...], ...]:
    """Groups of words that mean the same."""
    return tuple(tuple(group.split()) for group in cast("list[str]", _table()["headers"]["concepts"]))


def currency_of(key: str) -> str | None:
    """The sign of a currency that a word or sign names."""
    table = cast("dict[str, str]", _table()["headers"]["currencies"])
    return next((sign for sign, words in table.items() if key in words.split()), None)


@cache
def concept_of(word: str) -> int | None:
    """The group of words that one belongs to, in any form."""
    for index, group in enumerate(concepts()):
        if any(same_word(word, member, language) for member in group for language in LANGUAGES):
            return index
    return None


@cache
def _table() -> dict[str, Any]:
    return tomllib.loads(resources.files(__package__ or __name__).joinpath("words.toml").read_text("utf-8"))
