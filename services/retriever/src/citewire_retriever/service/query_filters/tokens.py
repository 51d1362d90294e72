"""A question as tokens, annotated from its language's data."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Final

from citewire_retriever.service.query_filters.words import (
    ENGLISH,
    UNSPACED,
    DateWord,
    Language,
    candidates,
    fold,
    word_spans,
)

_NO_CLASS: Final[frozenset[str]] = frozenset()
_FIGURES: Final = re.compile(
    r"(?<![\w./-])(?:\d{4}-\d{1,2}-\d{1,2}|\d{1,2}\.\s?\d{1,2}\.\s?\d{4}|\d{1,2}/\d{1,2}/\d{4}|\d{4}[./]\d{1,2}[./]\d{1,2})(?![\w/-])"
)
"""A whole date."""
_RUN: Final = re.compile(f"[{UNSPACED}]+|[^{UNSPACED}]+")
_IS_UNSPACED: Final = re.compile(f"[{UNSPACED}]")
_SCRIPTS: Final = re.compile(
    "[\u3040-\u309f]+|[\u30a0-\u30ff\u31f0-\u31ff]+|[\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff々]+"
)
_WEIGHTS: Final = 0.5
"""Weight of a one-letter word in language detection, as most languages have it."""


@dataclass(slots=True)
class Token:
    """A word, a numeric date, or a run of characters of a script without spaces."""

    text: str
    start: int
    end: int
    key: str
    """Folded."""
    stem: str
    classes: frozenset[str] = _NO_CLASS
    dated: DateWord | None = None
    """Its meaning in a date, alone or as the first word of a phrase."""
    length: int = 1
    """Number of words of the date phrase that begins here."""
    consumed: bool = False
    """Whether it belongs to a date or to a value."""

    @property
    def content(self) -> bool:
        """Whether it is a content word."""
        return not self.classes and not self.consumed


@dataclass(frozen=True, slots=True)
class Tokens:
    """A question, tokenised in its language."""

    text: str
    language: Language
    tokens: list[Token] = field(default_factory=list[Token])

    def __getitem__(self, index: int) -> Token:
        return self.tokens[index]

    def __len__(self) -> int:
        return len(self.tokens)

    def any(self, name: str) -> bool:
        """Whether it has a word of this class."""
        return any(name in token.classes for token in self.tokens)

    def between(self, first: int, second: int) -> str:
        """Returns the text between two tokens."""
        return self.text[self.tokens[first].end : self.tokens[second].start]


def tokenise(question: str) -> Tokens:
    """Tokenises a question in the language that knows most of its words."""
    best: Tokens | None = None
    most = -1.0
    for language in candidates(question):
        tokens = Tokens(question, language, _tokens(question, language))
        score = sum(
            1.0 if len(token.key) > 1 or language.stemmer is None else _WEIGHTS
            for token in tokens.tokens
            if token.classes or token.dated is not None
        )
        if score > most or (score == most and language.code == ENGLISH):
            best, most = tokens, score
    if best is None:
        raise ValueError("there is no language")
    return best


def _tokens(question: str, language: Language) -> list[Token]:
    tokens: list[Token] = []
    at = 0
    for match in _FIGURES.finditer(question):
        tokens += _words(question, at, match.start(), language)
        text = match.group()
        tokens.append(Token(text, *match.span(), text, text, dated=("figures", text)))
        at = match.end()
    tokens += _words(question, at, len(question), language)
    if language.stemmer is not None:
        _classify(tokens, language)
    return tokens


def _words(question: str, start: int, end: int, language: Language) -> list[Token]:
    tokens: list[Token] = []
    for run in _RUN.finditer(question, start, end):
        if _IS_UNSPACED.match(run.group()):
            tokens += _unspaced(run.group(), run.start(), language)
            continue
        for first, last in word_spans(run.group()):
            text = run.group()[first:last]
            key = fold(text)
            tokens.append(Token(text, run.start() + first, run.start() + last, key, language.stem(key)))
    return tokens


def _unspaced(run: str, start: int, language: Language) -> list[Token]:
    """Known words, the longest first; the text between them is split where the script changes."""
    tokens: list[Token] = []
    at = unknown = 0

    def flush(until: int) -> None:
        for match in _SCRIPTS.finditer(run, unknown, until):
            text = match.group()
            tokens.append(Token(text, start + match.start(), start + match.end(), text, fold(text)))

    while at < len(run):
        for length in range(min(10, len(run) - at), 0, -1):
            text = run[at : at + length]
            classes = language.phrases.get((fold(text),))
            if classes is not None:
                flush(at)
                tokens.append(Token(text, start + at, start + at + length, text, text, classes))
                at += length
                unknown = at
                break
        else:
            at += 1
    flush(len(run))
    return tokens


def _classify(tokens: Sequence[Token], language: Language) -> None:
    for index, token in enumerate(tokens):
        for length in range(min(language.longest, len(tokens) - index), 0, -1):
            members = tokens[index : index + length]
            if not _adjacent(members):
                continue
            stems = tuple(member.stem for member in members)
            classes = language.phrases.get(tuple(member.key for member in members), _NO_CLASS)
            classes |= language.stemmed.get(stems, _NO_CLASS)
            for member in members:
                member.classes |= classes
            dated = language.dates.get(stems)
            if dated is not None and token.dated is None:
                token.dated, token.length = dated, length
        if token.key.isdecimal() and token.dated is None and len(token.key) <= 4:
            token.dated = ("number", str(int(token.key)))


def _adjacent(tokens: Sequence[Token]) -> bool:
    return all(after.start - before.end <= 2 for before, after in pairwise(tokens))
