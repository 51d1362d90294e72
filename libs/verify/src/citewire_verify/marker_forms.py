"""The content of a marker's brackets: numbers, words that name a source, and their possible beginnings."""

import re
from collections.abc import Sequence, Set
from dataclasses import dataclass
from typing import Final

from citewire_verify.text.source_words import AND_PREFIXES, AND_WORDS, NAMING_PREFIXES, NAMING_WORDS, SOURCE_WORDS
from citewire_verify.text.terms import normalise

MAX_RANGE: Final = 50
"""Maximum width of a range; of a wider one, only the ends count."""
MAX_WORD: Final = 24
"""Longest word that is looked up, in code points."""
PLAUSIBLE: Final = 99
"""Highest bracketed number that counts as a marker if there are fewer passages: others are years and codes."""

LETTERS: Final = (
    r"(?:[^\W\d_]|[\u0300-\u036f\u0610-\u061a\u064b-\u065f\u0670\u0900-\u0903\u093a-\u094f\u0b82-\u0bcd\u0e31-\u0e4e])"
)
"""A letter, or a mark that belongs to the previous one."""
_WORD = re.compile(rf"[ \t]{{0,3}}(?P<word>{LETTERS}{{1,{MAX_WORD}}}+)(?P<rest>.*+)", re.DOTALL)
_OPEN_WORD = re.compile(rf"[ \t]{{0,3}}(?P<word>{LETTERS}{{0,{MAX_WORD}}}+)")
_BETWEEN = r"[ \t\u00a0]{0,3}[:#=.№]?[ \t\u00a0]{0,3}"
_FIRST = re.compile(rf"[ \t^]{{0,3}}(?P<word>{LETTERS}{{1,{MAX_WORD}}}+{_BETWEEN})?(?P<number>\d++)\^?")
_NEXT = re.compile(
    rf"[ \t]{{0,3}}(?P<mark>[,;&/、،؛]?)[ \t]{{0,3}}(?:(?P<and>{LETTERS}{{1,{MAX_WORD}}}+){_BETWEEN})?"
    rf"(?:(?P<word>{LETTERS}{{1,{MAX_WORD}}}+){_BETWEEN})?\^?(?P<number>\d++)\^?"
)
_RANGE = re.compile(
    rf"[ \t]{{0,3}}[–—-][ \t]{{0,3}}(?:(?P<word>{LETTERS}{{1,{MAX_WORD}}}+){_BETWEEN})?(?P<number>\d++)"
)
_WIDE: Final = {0x3000: " ", **{code: chr(code - 0xFEE0) for code in range(0xFF01, 0xFF5F)}}
_MAX_DIGITS = 9
_FILE = re.compile(r"\.\w{2,5}\b|\d|†")
_NAMES = ":=#"
_BARE_SO_FAR = re.compile(rf"[ \t]{{0,3}}\^?\d(?:[\d \t,;&/、،؛–—^-]|{LETTERS})*+(?P<payload>†.*)?", re.DOTALL)
_RUN_OF_LETTERS = re.compile(rf"{LETTERS}++")
_START_SO_FAR = re.compile(r"[ \t]{0,3}\^?")
_NUMBER_SO_FAR = re.compile(r"[ \t\u00a0]{0,3}[:#=.№：]?[ \t\u00a0]{0,3}(?:\d.*)?", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Content:
    """The content of a marker."""

    numbers: Sequence[int]
    """Numbers in order; empty if it names a source in another way."""
    rest: str = ""
    """The text after the numbers."""
    word: str = ""
    """The normalised word that identifies it as a marker; `†` for `1†source`; empty for numbers alone."""


def narrow(text: str) -> str:
    """Replaces full-width forms by plain ones."""
    return text if text.isascii() else text.translate(_WIDE)


def read_numbers(inner: str, *, worded: bool, words: Set[str] = NAMING_WORDS) -> tuple[list[int], str]:
    """Reads the numbers that a marker refers to, and what follows them; no numbers if it isn't a marker with some.

    Args:
        inner: The text between the brackets: `ref:1, 2`, `SOURCE 1-3`, `1; 2`, `1†source`.
        worded: Whether it starts with a word. Then a little text may follow the numbers (`SOURCE 1, p. 4`); a bare
            list is nothing but numbers of up to three digits.
        words: The words that name a source, normalised.
    """
    inner = narrow(inner)
    match = _FIRST.match(inner)
    if match is None or bool(match.group("word")) is not worded or not _names(match, words):
        return [], ""
    numbers: list[int] = []
    end = 0
    while match is not None and _continues(match, words):
        first, end = match.group("number"), match.end()
        to = _RANGE.match(inner, end)
        to = to if to and _names(to, words) else None
        last, end = (to.group("number"), to.end()) if to else (first, end)
        if not worded and max(len(first), len(last)) > 3:
            return [], ""
        numbers += _spread(int(first[:_MAX_DIGITS]), int(last[:_MAX_DIGITS]))
        match = _NEXT.match(inner, end)
    rest = inner[end:].strip()
    read = not rest or rest[0] == "†" or (worded and rest[0] in ",:;§|(–-")
    return (numbers, rest) if read else ([], "")


def read_content(inner: str, *, source: bool) -> Content | None:
    """Reads the text between brackets; None if it isn't a marker.

    Args:
        inner: The text between the brackets.
        source: Whether a source's name without a number is a marker too: `Source: a.pdf`.
    """
    inner = narrow(inner)
    numbers, rest = read_numbers(inner, worded=False)
    if numbers:
        return Content(numbers, rest, "†" if rest[:1] == "†" else "")
    numbers, rest = read_numbers(inner, worded=True)
    if numbers:
        return Content(numbers, rest, _first_word(inner))
    return Content((), word=_first_word(inner)) if source and names_source(inner) else None


def may_become_content(inner: str, *, source: bool) -> bool:
    """Whether the text after an opening bracket may still become something that `read_content` reads.

    Args:
        inner: The text so far.
        source: See `read_content`.
    """
    inner = narrow(inner)
    if _START_SO_FAR.fullmatch(inner):
        return True
    if numbers := _BARE_SO_FAR.fullmatch(inner):
        return numbers.group("payload") is not None or _only_and(inner)
    match = _OPEN_WORD.match(inner)
    word = normalise(match.group("word")) if match else ""
    if match is None or not word:
        return False
    rest = inner[match.end() :]
    if not rest:
        return word in NAMING_PREFIXES
    return word in NAMING_WORDS and (source or _NUMBER_SO_FAR.fullmatch(rest) is not None)


def _only_and(inner: str) -> bool:
    """Whether the words between numbers are `and`, or the last may become it."""
    words = [normalise(word) for word in _RUN_OF_LETTERS.findall(inner)]
    return set(words[:-1]) <= AND_WORDS and (not words or words[-1] in AND_PREFIXES)


def names_source(inner: str) -> bool:
    """`Source: x`, `Source`, `Source report.pdf`, `Document: a.md`; but not `source code`."""
    match = _WORD.fullmatch(inner.strip(" ^"))
    if match is None:
        return False
    word, rest = normalise(match.group("word")), match.group("rest").strip()
    named = rest[:1] in _NAMES and bool(rest)
    if word in SOURCE_WORDS:
        return not rest or named or _FILE.search(rest) is not None
    return word in NAMING_WORDS and named and _FILE.search(rest) is not None


def _first_word(inner: str) -> str:
    match = _OPEN_WORD.match(inner.lstrip(" ^"))
    return normalise(match.group("word")) if match else ""


def _names(match: re.Match[str], words: Set[str]) -> bool:
    word = match.group("word")
    return not word or normalise(word.rstrip(" \t\u00a0:#=.№")) in words


def _continues(match: re.Match[str], words: Set[str]) -> bool:
    """Whether a further number belongs to the list: after a separator or `and`, with at most a word naming a source."""
    groups = match.groupdict()
    if "mark" not in groups:
        return True
    joined = groups["and"]
    if joined and normalise(joined) not in AND_WORDS:
        # The first word may name the source: `ref:1, ref:2`.
        return not groups["word"] and normalise(joined) in words
    return _names(match, words) and bool(joined or groups["mark"] or groups["word"] or match.group()[:1] in " \t")


def _spread(first: int, last: int) -> list[int]:
    if last < first or last - first > MAX_RANGE:
        return [first, last]
    return list(range(first, last + 1))
