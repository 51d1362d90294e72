"""Text analysis for lexical search: text → terms → numbers, the same for chunks and questions.

A chunk's terms carry BM25's weight for frequency and length, which never changes; a question's terms are counted, and
combined with the corpus statistics in the database. Length is relative to a constant rather than the corpus average, so
that documents needn't be reweighted when others come or go; measurements showed no loss (ADR 0010).
"""

import hashlib
import re
import unicodedata
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import pairwise
from typing import Final

from citewire_retriever.stemming import stem_words

DIMENSIONS: Final = 1_000_000_000
"""Terms are numbers from 1 to this; two terms in a million share one."""

MAX_QUESTION_TERMS: Final = 256
"""Most distinct terms of a question that are searched, from the start."""

_K1: Final = 1.2
_B: Final = 0.6
_USUAL_LENGTH: Final = 160.0
"""Words of a chunk of average length."""

_UNSPACED: Final = (
    "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7a3\uf900-\ufaff"
    "\U00020000-\U0003ffff"
)
"""Thai, Lao, Burmese, Khmer, kana, Han, and Hangul (with its long words): split into pairs of characters."""

_MARKS: Final = "".join(chr(code) for code in range(0x370, 0x10000) if unicodedata.category(chr(code)) in ("Mn", "Mc"))
_WORD: Final = re.compile(rf"[{_UNSPACED}]+|(?:(?![{_UNSPACED}])[^\W_{_MARKS}][{_MARKS}]*)+")
_ASCII_WORD: Final = re.compile("[0-9a-z]+")
"""The same, four times as fast, for folded ASCII."""
_IS_UNSPACED: Final = re.compile(rf"[{_UNSPACED}]")
_FIRST_UNSPACED: Final = _UNSPACED[0]
_DIGITS: Final = frozenset("0123456789")
_NUMBERED: Final = re.compile(r"(?<=[a-z])[0-9]{4,}$")
"""A long number after letters, as in a fiscal year (FY2024): also a term without the letters."""
_POSSESSIVE: Final = re.compile(r"(?<=\w)['’]s\b")
_DROPPED: Final = re.compile("[\u0300-\u036f\u0591-\u05c7\u0640\u064b-\u0652\u0670]")
"""Accents, Hebrew and Arabic vowel points, Arabic tatweel: people often omit them."""


def terms(text: str) -> list[str]:
    """Returns the text's terms in their order: stems of words, and pairs of characters where words have no spaces."""
    spaced: list[str] = []
    pairs: list[str] = []
    folded = _POSSESSIVE.sub("", _folded(text))
    for word in (_ASCII_WORD if folded.isascii() else _WORD).findall(folded):
        if word[0] >= _FIRST_UNSPACED and _IS_UNSPACED.match(word):
            pairs += _pairs(word)
        else:
            spaced.append(word)
            if word[-1] in _DIGITS:
                pairs += _NUMBERED.findall(word)
    return [*stem_words(spaced), *pairs]


def word_terms(words: Sequence[str]) -> list[tuple[str, ...]]:
    """Returns the terms of each word of a text; the language is detected from the whole text."""
    spaced: list[str] = []
    pieces: list[list[str]] = []
    for word in words:
        pieces.append(_WORD.findall(_folded(word)))
        spaced += [piece for piece in pieces[-1] if not _IS_UNSPACED.match(piece)]
    stems = iter(stem_words(spaced))
    return [
        tuple(term for piece in parts for term in (_pairs(piece) if _IS_UNSPACED.match(piece) else (next(stems),)))
        for parts in pieces
    ]


def weigh_chunk(text: str, headings: str = "") -> dict[int, float]:
    """Returns a chunk's terms with their weights, 0–1 exclusive.

    Args:
        text: The chunk, below its title and its headings.
        headings: Its headings, whose words count twice: they say in few words what it is about.
    """
    result = terms(text)
    norm = _K1 * (1 - _B + _B * len(result) / _USUAL_LENGTH)
    counts = Counter(map(term_number, result))
    # Alone, headings can seem to be in another language: what isn't in the text is no term of it.
    counts.update(number for number in _numbers(headings) if number in counts)
    return {number: count / (count + norm) for number, count in counts.items()}


def count_question(text: str) -> dict[int, int]:
    """Returns a question's terms with their counts; only the first 256 of a very long one."""
    counts = Counter(map(term_number, terms(text)))
    return dict(list(counts.items())[:MAX_QUESTION_TERMS])


@lru_cache(maxsize=256)
def _numbers(headings: str) -> tuple[int, ...]:
    """The terms of headings, as numbers; those of a section stand above many chunks."""
    return tuple(map(term_number, terms(headings)))


@lru_cache(maxsize=65_536)
def term_number(term: str) -> int:
    """Returns a term's number, the same in every process."""
    return int.from_bytes(hashlib.blake2b(term.encode(), digest_size=8).digest()) % DIMENSIONS + 1


def _folded(text: str) -> str:
    if text.isascii():
        return text.lower()
    return unicodedata.normalize("NFC", _DROPPED.sub("", unicodedata.normalize("NFKD", text.casefold())))


def _pairs(run: str) -> Iterator[str]:
    if len(run) == 1:
        yield run
    for first, second in pairwise(run):
        yield first + second
