"""Words of a language used in questions about saved documents.

They come from `words.toml`; the names of days and months from dateparser, whose data covers every language here.
"""

import importlib
import re
import tomllib
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from importlib import resources
from typing import Any, Final, Protocol, cast

import Stemmer

from citewire_retriever.service.query_filters.spans import MONTHS

UNSPACED: Final = "\u3040-\u30ff\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff々"
"""Kana and Han, written without spaces."""
ENGLISH: Final = "en"

_KANA: Final = re.compile("[\u3040-\u309f\u30a1-\u30fa]")
_HAN: Final = re.compile(f"[{UNSPACED}]")
_BY_SCRIPT: Final = {
    "ARABIC": "ar",
    "ARMENIAN": "hy",
    "CYRILLIC": "ru",
    "DEVANAGARI": "hi",
    "GREEK": "el",
    "TAMIL": "ta",
}
_ACCENTS: Final = re.compile("[\u0300-\u036f\u0591-\u05c7\u0640\u064b-\u0655\u0670]")
_LETTERS: Final = str.maketrans({"ı": "i", "ł": "l", "ø": "o", "đ": "d", "æ": "ae", "œ": "oe"})
_WORD: Final = re.compile(r"(?:[^\W_]|[\u0300-\u036f\u0900-\u0903\u093a-\u094f\u0962\u0963\u0b80-\u0bff])+")
_WEEKDAYS: Final = ["monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday"]
_UNITS: Final = ("hour", "day", "week", "month", "year")
_INFLECTED: Final = frozenset(
    {"items", "article", "repository", "tag", "category", "collection", "entity_type", "tagged"}
    | {"new", "this", "last", "past", "all"}
)
"""Classes that count in any inflection; for verbs and pronouns, each form has a different meaning."""
_AGO: Final = re.compile(r"\d day ago|[0-3] (?:week|month|year) ago")

DateWord = tuple[str, str]
"""Kind (`month`, `weekday`, `unit`, `moment`, `number`) and English form: `march`, `1 week ago`."""


class _Stems(Protocol):
    def stemWord(self, word: str) -> str:  # noqa: N802 # the library's name
        """Returns the word's stem."""
        ...


@dataclass(frozen=True, slots=True, eq=False)
class Language:
    """A language's words."""

    code: str
    phrases: Mapping[tuple[str, ...], frozenset[str]]
    """Classes of words and phrases, named as in `words.toml`, that must match exactly."""
    stemmed: Mapping[tuple[str, ...], frozenset[str]]
    """The same for those that match in any inflection."""
    dates: Mapping[tuple[str, ...], DateWord]
    date_order: str
    """Its order of numeric dates: `DMY`, `MDY` or `YMD`."""
    suffixes: bool
    """Whether it uses endings instead of prepositions, so that a month alone is a date."""
    stemmer: _Stems | None
    """None for a language without spaces."""
    longest: int
    """Number of words of the longest phrase."""

    def stem(self, key: str) -> str:
        """Returns the stem of a folded word."""
        return key if self.stemmer is None else self.stemmer.stemWord(key)


@lru_cache(maxsize=8192)
def fold(text: str) -> str:
    """Returns a text normalised for comparison: lower case, without compatibility forms and accents."""
    text = _ACCENTS.sub("", unicodedata.normalize("NFKD", text.casefold()))
    return unicodedata.normalize("NFC", text).translate(_LETTERS)


def split_words(text: str) -> list[str]:
    """Returns the folded words of a text."""
    return _WORD.findall(fold(text))


def word_spans(text: str) -> list[tuple[int, int]]:
    """Returns the start and end of each word of a text."""
    return [match.span() for match in _WORD.finditer(text)]


def candidates(text: str) -> list[Language]:
    """Returns the languages that a text may be in, by its script; English first if possible."""
    if _KANA.search(text):
        return [load("ja")]
    if _HAN.search(text):
        return [load("zh"), load("ja")]
    for character in text:
        code = _of_script(character) if character > "\u024f" else ""
        if code:
            return [load(code)]
    return [load(code) for code in _latin()]


@cache
def load(code: str) -> Language:
    """Returns a language's words."""
    table = cast("dict[str, Any]", _tables()[code])
    stemmer = _stemmer(table["stemmer"]) if "stemmer" in table else None
    info = cast("dict[str, Any]", importlib.import_module(f"dateparser.data.date_translation_data.{code}").info)

    def stems(phrase: str) -> tuple[str, ...]:
        if stemmer is None:
            return (fold(phrase),)
        return tuple(stemmer.stemWord(word) for word in split_words(phrase))

    phrases: dict[tuple[str, ...], set[str]] = {}
    stemmed: dict[tuple[str, ...], set[str]] = {}
    for name, words in table.items():
        if name in ("stemmer", "suffixes", "numbers", *_UNITS):
            continue
        for word in cast("str", words).split():
            phrase = word.replace("_", " ")
            phrases.setdefault(tuple(split_words(phrase)) if stemmer else (fold(phrase),), set()).add(name)
            if name in _INFLECTED:
                stemmed.setdefault(stems(phrase), set()).add(name)
    dates = {stems(word): value for word, value in _date_words(info)}
    for pair in cast("str", table.get("numbers", "")).split():
        word, _, number = pair.partition(":")
        dates.setdefault(stems(word), ("number", number))
    for unit in _UNITS:
        dates.update((stems(word), ("unit", unit)) for word in cast("str", table.get(unit, "")).split())
    dates.pop((), None)
    return Language(
        code=code,
        phrases={phrase: frozenset(names) for phrase, names in phrases.items() if phrase},
        stemmed={phrase: frozenset(names) for phrase, names in stemmed.items() if phrase},
        dates=dates,
        date_order=cast("str", info.get("date_order") or "DMY"),
        suffixes=bool(table.get("suffixes", stemmer is None)),
        stemmer=stemmer,
        longest=max(map(len, [*phrases, *dates])),
    )


def load_all() -> None:
    """Loads every language, which takes half a second, so that no question waits for it."""
    for code in _tables():
        load(code)


def _date_words(info: Mapping[str, Any]) -> Iterable[tuple[str, DateWord]]:
    for kind, names in (("month", MONTHS), ("weekday", _WEEKDAYS)):
        for name in names:
            yield from ((word, (kind, name)) for word in _spelled(info.get(name, ()), info["name"] == ENGLISH))
    for name in _UNITS:
        yield from (
            (word, ("unit", name)) for word in info.get(name, ()) if len(word) > 2
        )  # `a` is the French year's sign
    for name, words in info.get("relative-type", {}).items():
        if _AGO.fullmatch(name):
            yield from ((word, ("moment", name)) for word in words)


def _spelled(words: Sequence[str], english: bool) -> Iterable[str]:
    """Leaves out abbreviations, which often have other meanings (`mar` is the sea in Spanish)."""
    longest = max(map(len, words), default=0)
    return (word for word in words if len(word) >= (3 if english else min(4, longest)) and not word.isupper())


@cache
def _tables() -> dict[str, Any]:
    return tomllib.loads(resources.files(__package__ or __name__).joinpath("words.toml").read_text("utf-8"))


@cache
def _latin() -> tuple[str, ...]:
    others = {*_BY_SCRIPT.values(), "zh", "ja"}
    return tuple(code for code in _tables() if code not in others)


@lru_cache(maxsize=4096)
def _of_script(character: str) -> str:
    return _BY_SCRIPT.get(unicodedata.name(character, "").partition(" ")[0], "")


def _stemmer(name: str) -> _Stems:
    return cast("_Stems", cast("Any", Stemmer).Stemmer(name))
