"""The words of a sentence or passage as they are compared: what is a name, what a number, what is denied."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum, auto

from citewire_generator.text.languages import detect_language
from citewire_generator.text.terms import Term, normalise, stem, terms
from citewire_generator.verification.numbers import Quantity, find_numbers, month_named, month_value
from citewire_generator.verification.vocabulary import (
    AFTER_THEIR_VERB,
    LANGUAGE_NEGATORS,
    NEGATED_FORMS,
    NEGATORS,
    NOT_NEGATING_AFTER,
    OPENERS,
    PREFIXES,
    SOFT_NEGATORS,
    TRANSPARENT,
    TRANSPARENT_FORMS,
)


class WordKind(Enum):
    """What a word is, as far as its form tells."""

    STOP = auto()
    PLAIN = auto()
    NAME = auto()
    NUMBER = auto()


@dataclass(slots=True)
class Word:
    """A word, or a number of several words."""

    key: str
    normal: str
    start: int
    end: int
    kind: WordKind
    capital: bool = False
    unspaced: bool = False
    caseless: bool = False
    """Whether its script has no capitals."""
    quantity: Quantity | None = None
    denied: int = 0
    """How many negators it is in the scope of."""
    head: bool = False
    """Whether it is what the negator says no to: the first word after it."""
    turned: bool = False
    """Whether it is a form that denies its base: `impossible`."""
    subject: bool = False
    """Whether it begins its sentence and may be a name for all that its capital tells."""
    clause: int = 0
    """Number of the clause, by its punctuation."""


SCOPE = 3
"""Words with a topic that a negator reaches."""
_SAMPLE = 600
"""Code points that tell a text's language."""
_DOTTED = re.compile(r"(?<![\w.])(?:[A-Z]\.){2,6}")
_ENGLISH = frozenset(
    {"the", "a", "an", "of", "in", "and", "is", "was", "are", "were", "to", "by", "that", "for", "with"}
)
_BREAK = re.compile(r"[,;:.!?()\[\]…。！？、，—–\n]")
_KATAKANA = re.compile(r"[\u30a1-\u30fa\u30fc]{3,}")
_UNSPACED = re.compile(r"[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af]")
_UNSPACED_NO = re.compile(r"[不没沒無无未非莫勿]|ない|なかった|ません|ず、|않|없|아니|못|ไม่|မ")
_NOT_NO = re.compile(
    r"不仅|不僅|不但|不同|不断|不斷|非常|無線|无线|未来|未來|不足|少なくない|かもしれない|なければならない|में"
)
_TITLE_SHARE = 0.7
_CAPITAL_MONTHS = frozenset({"en", "de"})
"""Languages that write months with a capital."""
_DATE_GAP = re.compile(r"[\s.,]*(?:of|the|de|del|do|d[iu])?[\s.,]*", re.IGNORECASE)
"""What may stand between a month and its day or year."""


def read_words(text: str) -> list[Word]:
    """Takes a text apart."""
    text = _joined(text)
    language = detect_language(text[:_SAMPLE])
    quantities = find_numbers(text, language)
    found: list[Word] = []
    at = 0
    for term in terms(text):
        while at < len(quantities) and quantities[at].end <= term.start:
            at += 1
        if at < len(quantities) and quantities[at].start <= term.start < quantities[at].end:
            one = quantities[at]
            if not found or found[-1].quantity is not one:
                normal = normalise(text[one.start : one.end])
                found.append(Word(normal, normal, one.start, one.end, WordKind.NUMBER, quantity=one))
            continue
        found.append(_word(text, term))
    english = language == "en" and any(word.normal in _ENGLISH for word in found)
    _mark_names(text, found, german=language == "de", english=english)
    _mark_months(text, found, language)
    _mark_denied(text, found, language)
    return found


def _joined(text: str) -> str:
    """Initials of an acronym without their points, in as many characters: `U.S.` is `US` and two spaces."""
    if "." not in text:
        return text
    return _DOTTED.sub(lambda match: match.group().replace(".", "").ljust(len(match.group())), text)


def _word(text: str, term: Term) -> Word:
    raw = text[term.start : term.end]
    normal = normalise(raw)
    kind = WordKind.NAME if term.name and len(raw) > 1 else WordKind.PLAIN
    if term.stop or normal in NEGATORS:
        kind = WordKind.STOP
    capital = raw[0].isupper()
    if raw.isascii():
        base = NEGATED_FORMS.get(normal)
        if base is None:
            return Word(term.key, normal, term.start, term.end, kind, capital)
        return Word(stem(base), normal, term.start, term.end, kind, capital, turned=True)
    caseless = not capital and raw[0] == raw[0].upper()
    unspaced = caseless and _UNSPACED.match(raw) is not None
    return Word(term.key, normal, term.start, term.end, kind, capital, unspaced, caseless)


def _mark_names(text: str, found: list[Word], *, german: bool, english: bool) -> None:
    """Decides which capitals are names': not all of a title's, no German nouns; of a sentence's first words, some."""
    plain = [word for word in found if word.kind is not WordKind.NUMBER and not word.unspaced and word.normal.isalpha()]
    content = [word for word in plain if word.kind is not WordKind.STOP]
    titled = len(content) >= 4 and sum(word.capital for word in content) >= _TITLE_SHARE * len(content)
    titled = titled and all(word.capital for word in plain if len(word.normal) > 4)
    for index, word in enumerate(found):
        if word.kind not in {WordKind.NAME, WordKind.PLAIN} or not word.capital:
            continue
        raw = text[word.start : word.end]
        if raw.isupper() and len(raw) > 1 and not titled:
            word.kind = WordKind.NAME
            continue
        following = found[index + 1] if index + 1 < len(found) else None
        beside = following is not None and following.capital and following.kind is not WordKind.STOP
        beside = beside and following is not None and not text[word.end : following.start].strip(" -.&'’")
        before = found[index - 1] if index else None
        beside = beside or (
            before is not None and before.kind is WordKind.NAME and not text[before.end : word.start].strip(" -.&'’")
        )
        if titled or (month_value(word.normal) is not None and not german):
            word.kind = WordKind.PLAIN
        elif german:
            word.kind = WordKind.NAME if beside else WordKind.PLAIN
        elif word.kind is WordKind.PLAIN and word.normal not in OPENERS:
            # The capital of a sentence's start: a name if another one follows; else it may be one.
            comma = text[word.end : word.end + 1] == ","
            word.kind = WordKind.NAME if beside else WordKind.PLAIN
            word.subject = (
                english and not (beside or comma or word.normal.endswith(("ly", "ing", "ed"))) and len(raw) > 2
            )


def _mark_months(text: str, found: list[Word], language: str) -> None:
    """Makes numbers of months' names: beside a day or a year; where they are written with a capital, also alone."""
    for index, word in enumerate(found):
        month = None if word.quantity is not None else month_value(word.normal)
        if month is None or not (word.capital or language not in _CAPITAL_MONTHS):
            continue
        dated = any(
            0 <= other < len(found)
            and found[other].quantity is not None
            and _DATE_GAP.fullmatch(text[min(word.end, found[other].end) : max(word.start, found[other].start)])
            for other in (index - 1, index + 1, index - 2, index + 2)
        )
        if not dated:
            around = [found[other] for other in (index - 1, index + 1) if 0 <= other < len(found)]
            named = any(one.kind is WordKind.NAME or one.subject for one in around)
            inside = index > 0 and not _BREAK.search(text, found[index - 1].end, word.start)
            if named or not inside or language not in _CAPITAL_MONTHS or len(word.normal) < 3:
                continue
        word.kind, word.quantity = WordKind.NUMBER, month_named(word.start, word.end, month)
        word.subject = False


def _mark_denied(text: str, found: list[Word], language: str) -> None:
    negators = NEGATORS | LANGUAGE_NEGATORS.get(language, frozenset())
    reach: list[int] = []
    head = False
    clause = 0
    previous = 0
    last: Word | None = None
    for index, word in enumerate(found):
        if _BREAK.search(text, previous, word.start):
            if head and last is not None and last.clause == clause:
                last.denied, last.head = last.denied + 1, True
            clause += 1
            reach, head = [], False
        previous = word.end
        word.clause = clause
        if _is_negator(text, found, index, negators):
            if word.normal in AFTER_THEIR_VERB and last is not None and last.clause == clause and not last.denied:
                last.denied, last.head = 1, True
            reach, head = [*reach[:2], SCOPE], True
        elif word.normal in NOT_NEGATING_AFTER and head:
            reach, head = [], False
        elif word.kind is not WordKind.STOP:
            if reach:
                word.denied, word.head = len(reach), head
                reach, head = [left - 1 for left in reach if left > 1], head and word.normal in TRANSPARENT
            if word.turned:
                word.denied, word.head = word.denied + 1, True
                reach, head = [*reach[:2], SCOPE], word.normal in TRANSPARENT_FORMS
            last = word
    if head and last is not None and last.clause == clause:
        last.denied, last.head = last.denied + 1, True


def _is_negator(text: str, found: list[Word], index: int, negators: frozenset[str]) -> bool:
    word = found[index]
    if word.normal == "t":
        return text[max(word.start - 2, 0) : word.start].lower() in {"n'", "n’"}
    if word.normal not in negators:
        return False
    # `No. 5`, `non-profit`
    return not (word.normal in {"no", "non"} and text[word.end : word.end + 1] in {".", "-"})


def denies(text: str) -> bool:
    """Whether a text of a script without spaces says no somewhere."""
    return _UNSPACED_NO.search(_NOT_NO.sub("", text)) is not None


def softly_denied(words: Iterable[Word], others: Iterable[Word]) -> bool:
    """Whether words say no without a negator, where others don't: `failed to`, `impossible` for `not possible`."""
    plain = {word.normal for word in others}
    for word in words:
        if word.normal in SOFT_NEGATORS and word.normal not in plain:
            return True
        for prefix in PREFIXES:
            if word.normal.startswith(prefix) and word.normal[len(prefix) :] in plain:
                return True
    return False


def katakana(text: str) -> list[tuple[int, int]]:
    """Spans of foreign names and words in Japanese."""
    return [match.span() for match in _KATAKANA.finditer(text)]
