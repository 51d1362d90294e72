"""Properties of a word's spelling, independent of context: its comparison form, possible name or negator."""

import re
from dataclasses import dataclass
from enum import Enum, auto

from citewire_verify.numbers import month_value
from citewire_verify.text.remember import remembered
from citewire_verify.text.terms import WordPart, kind_of, normalise, number_key, pairs_of, read_word, stem
from citewire_verify.vocabulary import ALL_NEGATORS, NEGATED_FORMS, NEGATORS

_UNSPACED = re.compile(r"[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af]")
_NEGATING = ALL_NEGATORS | {"t"}


class TokenKind(Enum):
    """The kind of a token, by its form."""

    STOP = auto()
    PLAIN = auto()
    NAME = auto()
    NUMBER = auto()


@dataclass(frozen=True, slots=True)
class Form:
    """The properties of a token from its spelling, independent of its context."""

    key: str
    """Comparison form of its base, if it negates one."""
    normal: str
    length: int
    kind: TokenKind
    first_kind: TokenKind
    """The kind at the start of a sentence, where a capital means nothing."""
    capital: bool = False
    unspaced: bool = False
    caseless: bool = False
    negative: bool = False
    negates: bool = False
    """Whether it may negate the surrounding words, in any language."""
    month: float | None = None
    """The number of the month that it may name."""
    notable: bool = False
    """Whether it has a capital, may name a month or may negate."""


@remembered
def forms_of(raw: str) -> tuple[tuple[Form, int], ...]:
    """Returns the forms in a run of characters, each with its offset: parts of a word `likeThis`, or pairs."""
    kind = kind_of(raw)
    if kind == "word":
        return tuple((_word_form(raw, part), part.offset) for part in read_word(raw))
    if kind == "unspaced":
        return tuple((_pair_form(pair), offset) for pair, offset in pairs_of(raw, 0))
    return ((_form(raw, number_key(raw)), 0),)


@remembered
def number_form(written: str) -> Form:
    """Returns the form of a number, which may have several words."""
    normal = normalise(written)
    return Form(normal, normal, len(written), TokenKind.NUMBER, TokenKind.NUMBER, negates=normal in _NEGATING)


def _word_form(raw: str, part: WordPart) -> Form:
    written = raw[part.offset : part.offset + part.length]
    capital = part.capital and part.length > 1
    return _form(written, part.key, stop=part.stop, capital=capital, acronym=part.acronym)


@remembered
def _pair_form(pair: str) -> Form:
    return _form(pair, pair)


def _form(raw: str, key: str, *, stop: bool = False, capital: bool = False, acronym: bool = False) -> Form:
    normal = normalise(raw)
    base = NEGATED_FORMS.get(normal) if raw.isascii() else None
    upper = raw[0].isupper()
    caseless = not raw.isascii() and not upper and raw[0] == raw[0].upper()
    negates = bool(base) or normal in _NEGATING
    month = month_value(normal)
    kind = first_kind = TokenKind.STOP
    if not (stop or normal in NEGATORS):
        kind = TokenKind.NAME if capital else TokenKind.PLAIN
        first_kind = kind if acronym else TokenKind.PLAIN
    return Form(
        key=stem(base) if base else key,
        normal=normal,
        length=len(raw),
        kind=kind,
        first_kind=first_kind,
        capital=upper,
        unspaced=not base and caseless and _UNSPACED.match(raw) is not None,
        caseless=not base and caseless,
        negative=bool(base),
        negates=negates,
        month=month,
        notable=upper or negates or month is not None,
    )
