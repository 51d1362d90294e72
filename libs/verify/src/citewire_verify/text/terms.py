"""Words of a text as they are compared: normalised, stemmed, with what marks names and numbers."""

import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import accumulate
from typing import NamedTuple

from citewire_verify.text.remember import remembered
from citewire_verify.text.stop_words import STOP_WORDS

# Scripts without spaces between words (and Hangul, whose words carry particles): compared by pairs of characters.
_UNSPACED = (
    "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff"
    "\U00020000-\U0002ffff"
)
# Vowel signs and other marks, which belong to the preceding letter.
_MARKS = "\u0300-\u036f\u0591-\u05c7\u0610-\u061a\u064b-\u065f\u0670\u0900-\u0963\u0966-\u0dff"
_WORD = (
    # ASCII letters first, because they are the most frequent: such a word is read in one step.
    rf"(?:[A-Za-z]++|(?![{_UNSPACED}])[^\W\d_]|[{_MARKS}])+"
)
_RUN = rf"{_WORD}|[{_UNSPACED}]+|\d+(?:[.,]\d+)*"
_TOKEN = re.compile(rf"(?P<word>{_WORD})|(?P<unspaced>[{_UNSPACED}]+)|(?P<number>\d+(?:[.,]\d+)*)")
_RUNS = re.compile(rf"({_RUN})")
_HUMP = re.compile(r"[a-z][A-Z]")
_NEW_SENTENCE = frozenset(".!?:\n•|")
_CAMEL = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
_STRIPPED_MARKS = re.compile("[\u0300-\u036f\u0610-\u061a\u064b-\u065f\u0670]")
_VOWELS = frozenset("aeiouy")


class Term(NamedTuple):
    """One word of a text. A tuple, because creating a frozen dataclass takes four times as long."""

    key: str
    """Comparison form: equal for forms of one word."""
    start: int
    end: int
    stop: bool
    """Whether it is a stop word."""
    name: bool
    """Whether it is written like a name: a capital that doesn't only start the sentence, or an acronym."""
    number: bool


def terms(text: str) -> list[Term]:
    """Splits a text into words, in order."""
    return list(_terms(text))


def content_keys(text: str) -> set[str]:
    """Returns the distinct content words of a text."""
    return {term.key for term in _terms(text) if not term.stop}


def words(text: str) -> list[str]:
    """Returns the words of a text as written, without numbers."""
    return [match.group() for match in _TOKEN.finditer(text) if match.lastgroup != "number"]


@dataclass(frozen=True, slots=True)
class Runs:
    """The runs of a text, in order: words, numbers, text without spaces. Lists are parallel."""

    raws: list[str]
    starts: list[int]
    begins: list[bool]
    """Whether a sentence begins with it."""


def scan(text: str) -> Runs:
    """Splits a text into runs, with few steps per run because passages are long."""
    parts = _RUNS.split(text)  # alternately a separator and a run
    ends = list(accumulate(map(len, parts)))
    begins = list(map(_begins_sentence, parts[:-1:2]))
    if begins:
        begins[0] = True
    return Runs(parts[1::2], ends[:-1:2], begins)


@remembered
def _begins_sentence(between: str) -> bool:
    return not _NEW_SENTENCE.isdisjoint(between)


def kind_of(run: str) -> str:
    """Returns the kind of a run: `word`, `number` or `unspaced`."""
    match = _TOKEN.match(run)
    return (match and match.lastgroup) or "word"


def _terms(text: str) -> Iterator[Term]:
    runs = scan(text)
    for raw, start, begins in zip(runs.raws, runs.starts, runs.begins, strict=True):
        kind = kind_of(raw)
        if kind == "word":
            yield from _word_terms(raw, start, sentence_start=begins)
        elif kind == "unspaced":
            yield from (Term(pair, at, at + len(pair), False, False, False) for pair, at in pairs_of(raw, start))
        else:
            yield Term(number_key(raw), start, start + len(raw), stop=False, name=False, number=True)


def _word_terms(raw: str, start: int, *, sentence_start: bool) -> Iterator[Term]:
    for part in read_word(raw):
        begin = start + part.offset
        named = part.capital and not part.stop and (not sentence_start or part.acronym)
        yield Term(part.key, begin, begin + part.length, part.stop, named, False)


@dataclass(frozen=True, slots=True)
class WordPart:
    """The properties of a word, or of a part of one written `likeThis`, that depend only on its spelling."""

    key: str
    offset: int
    """Offset in the word."""
    length: int
    stop: bool
    capital: bool
    acronym: bool


@remembered
def read_word(raw: str) -> tuple[WordPart, ...]:
    """Returns the parts of a word; cached for all its occurrences."""
    parts = [(m.group(), m.start()) for m in _CAMEL.finditer(raw)] if _is_camel(raw) else [(raw, 0)]
    results: list[WordPart] = []
    for part, offset in parts:
        normal = normalise(part)
        acronym = len(part) > 1 and part.isupper()
        stop = normal in STOP_WORDS and not acronym
        results.append(WordPart(stem(normal), offset, len(part), stop, part[0].isupper(), acronym))
    return tuple(results)


def pairs_of(run: str, start: int) -> Iterator[tuple[str, int]]:
    """Yields overlapping pairs of characters of an unspaced script, each with its start; a single one unchanged."""
    for index in range(max(len(run) - 1, 1)):
        yield run[index : index + 2], start + index


def _is_camel(raw: str) -> bool:
    return raw.isascii() and _HUMP.search(raw) is not None


def number_key(raw: str) -> str:
    """`1,200` and `1200` are the same number, as are `3.50` and `3.5`; `1.200` is different from all."""
    raw = unicodedata.normalize("NFKC", raw)
    if re.fullmatch(r"\d{1,3}(?:,\d{3})+(?:\.\d+)?", raw):
        raw = raw.replace(",", "")
    if re.fullmatch(r"\d+\.\d+", raw):
        raw = raw.rstrip("0").rstrip(".")
    return raw.lstrip("0") or "0"


@remembered
def normalise(word: str) -> str:
    """Normalises a word for comparison: lower case, compatibility forms resolved, Latin letters without accents."""
    if word.isascii():
        return word.lower()
    decomposed = unicodedata.normalize("NFKD", word.casefold())
    return unicodedata.normalize("NFC", _STRIPPED_MARKS.sub("", decomposed))


@remembered
def stem(word: str) -> str:
    """Removes inflectional endings of English words; other words change little.

    Lighter than Porter's, so that `founded` doesn't match `founder` and `foundation`.
    """
    if len(word) < 4 or not word.isascii():
        return word
    word = _plural(word)
    for ending in ("ingly", "edly", "ing", "ed", "ly"):
        base = word.removesuffix(ending)
        if base != word and len(base) >= 3 and not _VOWELS.isdisjoint(base):
            word = _undouble(base)
            break
    for ending in ("ment", "ness", "ful", "ation", "ition", "ion", "er", "or", "ive", "al", "ity"):
        base = word.removesuffix(ending)
        if base != word and len(base) >= 4:
            word = _undouble(base)
            break
    if len(word) > 4 and word[-1] in "ei":
        word = word[:-1]
    return word[:-1] + "i" if len(word) > 3 and word[-1] == "y" and word[-2] not in _VOWELS else word


def _plural(word: str) -> str:
    if word.endswith("ies") and len(word) > 4:
        return word[:-3] + "y"
    if word.endswith(("sses", "shes", "ches", "xes", "zes")):
        return word[:-2]
    if word.endswith("s") and not word.endswith(("ss", "us", "is")):
        return word[:-1]
    return word


def _undouble(word: str) -> str:
    if len(word) > 3 and word[-1] == word[-2] and word[-1] not in "lsz":
        return word[:-1]
    return word
