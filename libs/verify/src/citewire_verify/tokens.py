"""Tokens of a sentence or a passage as they are compared: which are names, which numbers, which are negated."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum, auto
from functools import lru_cache

from citewire_verify.numbers import MONTH, Quantity, find_numbers, month_named, month_value
from citewire_verify.text.languages import detect_language
from citewire_verify.text.terms import normalise, number_key, pairs_of, read_word, scan, stem
from citewire_verify.vocabulary import (
    COMPARED_WITH_NO,
    FRAMES,
    LANGUAGE_NEGATORS,
    NEGATED_FORMS,
    NEGATORS,
    NOT_NEGATING_AFTER,
    OPENERS,
    POSTPOSED_NEGATORS,
    PREFIXES,
    SOFT_NEGATORS,
    TRANSPARENT,
    TRANSPARENT_FORMS,
)


class TokenKind(Enum):
    """What a token is, as far as its form tells."""

    STOP = auto()
    PLAIN = auto()
    NAME = auto()
    NUMBER = auto()


@dataclass(slots=True)
class Token:
    """A word, or a number of several words. It doesn't change once `tokenise` has returned it."""

    key: str
    """What is compared: equal for forms of one word."""
    normal: str
    """The word in lower case, without accents."""
    start: int
    end: int
    kind: TokenKind
    capital: bool = False
    unspaced: bool = False
    """Whether its script has no spaces between words."""
    caseless: bool = False
    """Whether its script has no capitals."""
    negative_form: bool = False
    """Whether it is a form that negates its base: `impossible`."""
    quantity: Quantity | None = None
    negated: int = 0
    """How many negators have it in their scope."""
    negated_directly: bool = False
    """Whether it is the first word with a topic after its negator."""
    maybe_name: bool = False
    """Whether it begins its sentence, so that its capital doesn't tell if it is a name."""
    clause: int = 0
    """Number of the clause, by its punctuation."""

    @property
    def is_month(self) -> bool:
        """Whether it is a month's name."""
        return self.quantity is not None and self.quantity.unit == MONTH

    @property
    def is_vague(self) -> bool:
        """Whether it is a number so common that its absence says nothing: one, first, both."""
        quantity = self.quantity
        return quantity is not None and quantity.word and quantity.values[0] <= 2 and not quantity.unit


@dataclass(frozen=True, slots=True)
class SentenceTokens:
    """A sentence of an answer, ready to be looked for in passages."""

    text: str
    tokens: list[Token]
    content: list[int]
    """Indices of the tokens with a topic."""
    weights: list[float]
    """Of the content tokens."""
    names: list[int]
    """For each content token, the index (in `content`) of the first token of its name; its own if it is in none."""
    unspaced: bool
    """Whether most of it is in a script without spaces."""
    katakana: list[str]
    """Foreign names and words in Japanese."""
    total: float
    """Sum of the weights; 1 if there are none."""


MAX_CONTENT = 160
"""Tokens with a topic that are compared; a longer sentence is judged by its beginning."""
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
_NAME_WEIGHT = 1.5
"""Weight of a name or number; another word has 1."""
_SHORT_WEIGHT = 0.7
"""Weight of a word of three letters or fewer."""
_PAIR_WEIGHT = 0.5
"""Weight of a pair of characters of a script without spaces."""
_FRAME_WEIGHT = 0.2
"""Weight of a word that only introduces what is said: `According to the document, …`, `Furthermore, …`."""
_NAME_GAP = 4
"""Code points between two words of one name, at most."""
_CAPITAL_MONTHS = frozenset({"en", "de"})
"""Languages that write months with a capital."""
_DATE_GAP = re.compile(r"[\s.,]*(?:of|the|de|del|do|d[iu])?[\s.,]*", re.IGNORECASE)
"""What may stand between a month and its day or year."""


def tokenise(text: str) -> list[Token]:
    """Splits a text into tokens."""
    text = _joined(text)
    language = detect_language(text[:_SAMPLE])
    quantities = find_numbers(text, language)
    tokens: list[Token] = []
    numbers = iter(quantities)
    number = next(numbers, None)
    number_start, number_end = (number.start, number.end) if number is not None else (len(text), len(text))
    for kind, raw, run_start, begins in scan(text):
        for form, offset in _forms(kind, raw):
            start = run_start + offset
            while start >= number_end:
                number = next(numbers, None)
                number_start, number_end = (number.start, number.end) if number is not None else (len(text), len(text))
            if number is None or start < number_start:
                tokens.append(
                    Token(
                        form.key,
                        form.normal,
                        start,
                        start + form.length,
                        form.first_kind if begins else form.kind,
                        form.capital,
                        form.unspaced,
                        form.caseless,
                        form.negative,
                    )
                )
            elif not tokens or tokens[-1].quantity is not number:
                normal = normalise(text[number_start:number_end])
                tokens.append(Token(normal, normal, number_start, number_end, TokenKind.NUMBER, quantity=number))
    english = language == "en" and any(word.normal in _ENGLISH for word in tokens)
    _mark_names(text, tokens, german=language == "de", english=english)
    _mark_months(text, tokens, language)
    _mark_negated(text, tokens, language)
    return tokens


def _joined(text: str) -> str:
    """Initials of an acronym without their points, in as many characters: `U.S.` is `US` and two spaces."""
    if "." not in text:
        return text
    return _DOTTED.sub(lambda match: match.group().replace(".", "").ljust(len(match.group())), text)


@dataclass(frozen=True, slots=True)
class _Form:
    """What a word's spelling tells of a token, wherever it stands."""

    key: str
    """Of its base, where it is a form that negates one."""
    normal: str
    length: int
    kind: TokenKind
    first_kind: TokenKind
    """Where a sentence begins with it: then its capital says nothing."""
    capital: bool
    unspaced: bool
    caseless: bool
    negative: bool


def _forms(kind: str | None, raw: str) -> Iterable[tuple[_Form, int]]:
    """The forms in a run of characters, each with its offset."""
    if kind == "word":
        return _word_forms(raw)
    if kind == "unspaced":
        return ((_pair_form(pair), offset) for pair, offset in pairs_of(raw, 0))
    return ((_form(raw, number_key(raw)), 0),)


@lru_cache(maxsize=65536)
def _word_forms(raw: str) -> tuple[tuple[_Form, int], ...]:
    return tuple(
        (
            _form(
                raw[part.offset : part.offset + part.length],
                part.key,
                stop=part.stop,
                capital=part.capital and part.length > 1,
                acronym=part.acronym,
            ),
            part.offset,
        )
        for part in read_word(raw)
    )


@lru_cache(maxsize=65536)
def _pair_form(pair: str) -> _Form:
    return _form(pair, pair)


def _form(raw: str, key: str, *, stop: bool = False, capital: bool = False, acronym: bool = False) -> _Form:
    normal = normalise(raw)
    base = NEGATED_FORMS.get(normal) if raw.isascii() else None
    upper = raw[0].isupper()
    caseless = not raw.isascii() and not upper and raw[0] == raw[0].upper()
    kind = first_kind = TokenKind.STOP
    if not (stop or normal in NEGATORS):
        kind = TokenKind.NAME if capital else TokenKind.PLAIN
        first_kind = kind if acronym else TokenKind.PLAIN
    return _Form(
        key=stem(base) if base else key,
        normal=normal,
        length=len(raw),
        kind=kind,
        first_kind=first_kind,
        capital=upper,
        unspaced=not base and caseless and _UNSPACED.match(raw) is not None,
        caseless=not base and caseless,
        negative=bool(base),
    )


def _mark_names(text: str, tokens: list[Token], *, german: bool, english: bool) -> None:
    """Decides which capitals are names': not all of a title's, no German nouns; of a sentence's first words, some."""
    plain = [
        word for word in tokens if word.kind is not TokenKind.NUMBER and not word.unspaced and word.normal.isalpha()
    ]
    content = [word for word in plain if word.kind is not TokenKind.STOP]
    titled = len(content) >= 4 and sum(word.capital for word in content) >= _TITLE_SHARE * len(content)
    titled = titled and all(word.capital for word in plain if len(word.normal) > 4)
    for index, word in enumerate(tokens):
        if not word.capital or word.kind is TokenKind.STOP or word.kind is TokenKind.NUMBER:
            continue
        raw = text[word.start : word.end]
        if raw.isupper() and len(raw) > 1 and not titled:
            word.kind = TokenKind.NAME
            continue
        following = tokens[index + 1] if index + 1 < len(tokens) else None
        beside = following is not None and following.capital and following.kind is not TokenKind.STOP
        beside = beside and following is not None and not text[word.end : following.start].strip(" -.&'’")
        before = tokens[index - 1] if index else None
        beside = beside or (
            before is not None and before.kind is TokenKind.NAME and not text[before.end : word.start].strip(" -.&'’")
        )
        if titled or (month_value(word.normal) is not None and not german):
            word.kind = TokenKind.PLAIN
        elif german:
            word.kind = TokenKind.NAME if beside else TokenKind.PLAIN
        elif word.kind is TokenKind.PLAIN and word.normal not in OPENERS:
            # The capital of a sentence's start: a name if another one follows; else it may be one.
            comma = text[word.end : word.end + 1] == ","
            word.kind = TokenKind.NAME if beside else TokenKind.PLAIN
            word.maybe_name = (
                english and not (beside or comma or word.normal.endswith(("ly", "ing", "ed"))) and len(raw) > 2
            )


def _mark_months(text: str, tokens: list[Token], language: str) -> None:
    """Makes numbers of months' names: beside a day or a year; where they are written with a capital, also alone."""
    capitals = language in _CAPITAL_MONTHS
    for index, word in enumerate(tokens):
        if not word.capital and capitals:
            continue
        month = None if word.quantity is not None else month_value(word.normal)
        if month is None:
            continue
        dated = any(
            0 <= other < len(tokens)
            and tokens[other].quantity is not None
            and _DATE_GAP.fullmatch(text[min(word.end, tokens[other].end) : max(word.start, tokens[other].start)])
            for other in (index - 1, index + 1, index - 2, index + 2)
        )
        if not dated:
            around = [tokens[other] for other in (index - 1, index + 1) if 0 <= other < len(tokens)]
            named = any(token.kind is TokenKind.NAME or token.maybe_name for token in around)
            inside = index > 0 and not _BREAK.search(text, tokens[index - 1].end, word.start)
            if named or not inside or language not in _CAPITAL_MONTHS or len(word.normal) < 3:
                continue
        word.kind, word.quantity = TokenKind.NUMBER, month_named(word.start, word.end, month)
        word.maybe_name = False


def _mark_negated(text: str, tokens: list[Token], language: str) -> None:
    negators = NEGATORS | LANGUAGE_NEGATORS.get(language, frozenset())
    reach: list[int] = []
    head = False
    clause = 0
    previous = 0
    last: Token | None = None
    for index, word in enumerate(tokens):
        # A single space, which is what mostly stands between two words, breaks nothing.
        if (word.start != previous + 1 or text[previous] != " ") and _BREAK.search(text, previous, word.start):
            if head and last is not None and last.clause == clause:
                last.negated, last.negated_directly = last.negated + 1, True
            clause += 1
            reach, head = [], False
        previous = word.end
        word.clause = clause
        if (word.normal in negators or word.normal == "t") and _is_negator(text, word):
            if word.normal in POSTPOSED_NEGATORS and last is not None and last.clause == clause and not last.negated:
                last.negated, last.negated_directly = 1, True
            reach, head = [*reach[:2], SCOPE], True
        elif head and (word.normal in NOT_NEGATING_AFTER or _is_bound(tokens, index)):
            reach, head = [], False
        elif word.kind is not TokenKind.STOP:
            if reach:
                word.negated, word.negated_directly = len(reach), head
                reach, head = [left - 1 for left in reach if left > 1], head and word.normal in TRANSPARENT
            if word.negative_form:
                word.negated, word.negated_directly = word.negated + 1, True
                reach, head = [*reach[:2], SCOPE], word.normal in TRANSPARENT_FORMS
            last = word
    if head and last is not None and last.clause == clause:
        last.negated, last.negated_directly = last.negated + 1, True


def _is_bound(tokens: list[Token], index: int) -> bool:
    following = tokens[index + 1].normal if index + 1 < len(tokens) else ""
    return tokens[index].normal in COMPARED_WITH_NO and following == "than"


def _is_negator(text: str, word: Token) -> bool:
    """Whether a word that negates, or the `t` of `n't`, does so where it stands."""
    if word.normal == "t":
        return text[max(word.start - 2, 0) : word.start].lower() in {"n'", "n’"}
    # `No. 5`, `non-profit`
    return not (word.normal in {"no", "non"} and text[word.end : word.end + 1] in {".", "-"})


def negates_unspaced(text: str) -> bool:
    """Whether a text of a script without spaces negates something."""
    return _UNSPACED_NO.search(_NOT_NO.sub("", text)) is not None


def negates_softly(tokens: Iterable[Token], others: Iterable[Token]) -> bool:
    """Whether tokens negate without a negator, where others don't: `failed to`, `impossible` for `not possible`."""
    plain = {token.normal for token in others}
    for token in tokens:
        if token.normal in SOFT_NEGATORS and token.normal not in plain:
            return True
        for prefix in PREFIXES:
            if token.normal.startswith(prefix) and token.normal[len(prefix) :] in plain:
                return True
    return False


def tokenise_sentence(text: str) -> SentenceTokens:
    """Tokenises a sentence of an answer, its markers blanked, and weighs its tokens."""
    tokens = tokenise(text)
    content = [index for index, token in enumerate(tokens) if token.kind is not TokenKind.STOP][:MAX_CONTENT]
    weights = [_weight(tokens[index]) for index in content]
    names: list[int] = []
    for place, index in enumerate(content):
        joined = place > 0 and content[place - 1] == index - 1 and _one_name(text, tokens[index - 1], tokens[index])
        names.append(names[-1] if joined else place)
    return SentenceTokens(
        text=text,
        tokens=tokens,
        content=content,
        weights=weights,
        names=names,
        unspaced=2 * sum(tokens[index].unspaced for index in content) > len(content),
        katakana=_KATAKANA.findall(text),
        total=sum(weights) or 1.0,
    )


def _weight(token: Token) -> float:
    if token.unspaced:
        return _PAIR_WEIGHT
    if token.normal in FRAMES or (token.capital and token.normal in OPENERS):
        return _FRAME_WEIGHT
    if token.kind is TokenKind.PLAIN:
        return _SHORT_WEIGHT if len(token.normal) <= 3 else 1.0
    return _NAME_WEIGHT


def _one_name(text: str, first: Token, second: Token) -> bool:
    both = first.kind is TokenKind.NAME and second.kind is TokenKind.NAME
    between = text[first.end : second.start]
    # A marker that was blanked is wider than what stands between the words of a name.
    return both and len(between) <= _NAME_GAP and not between.strip(" -.'’&")
