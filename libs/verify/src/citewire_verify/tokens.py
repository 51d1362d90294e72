"""Tokens of a sentence or a passage as they are compared: which are names, which numbers, which are negated."""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import overload

from citewire_verify.forms import TokenKind, forms_of, number_form
from citewire_verify.marking import MarkedText, mark
from citewire_verify.numbers import MONTH, Quantity, find_numbers
from citewire_verify.text.languages import detect_language
from citewire_verify.text.terms import scan
from citewire_verify.vocabulary import FRAMES, OPENERS, PREFIXES, SOFT_NEGATORS


@dataclass(frozen=True, slots=True)
class Token:
    """A word, or a number of several words."""

    key: str
    """Comparison form: equal for forms of one word."""
    normal: str
    """The word in lower case, without accents."""
    start: int
    end: int
    kind: TokenKind
    capital: bool
    unspaced: bool
    """Whether its script has no spaces between words."""
    caseless: bool
    """Whether its script has no capitals."""
    negative_form: bool
    """Whether it is a form that negates its base: `impossible`."""
    quantity: Quantity | None
    negated: int
    """How many negators have it in their scope."""
    negated_directly: bool
    """Whether it is the first content word after its negator."""
    maybe_name: bool
    """Whether it begins its sentence, so that its capital doesn't show whether it is a name."""

    @property
    def is_month(self) -> bool:
        """Whether it is a month's name."""
        return self.quantity is not None and self.quantity.unit == MONTH

    @property
    def is_vague(self) -> bool:
        """Whether it is a number so common that its absence means nothing: one, first, both."""
        quantity = self.quantity
        return quantity is not None and quantity.word and quantity.values[0] <= 2 and not quantity.unit


class Tokens(Sequence[Token]):
    """The tokens of a text, created on demand, because few of a passage's tokens are needed."""

    def __init__(self, marked: MarkedText) -> None:
        self.marked = marked
        self._made: dict[int, Token] = {}

    def __len__(self) -> int:
        return len(self.marked.forms)

    @overload
    def __getitem__(self, index: int) -> Token: ...
    @overload
    def __getitem__(self, index: slice) -> list[Token]: ...
    def __getitem__(self, index: int | slice) -> Token | list[Token]:
        if isinstance(index, slice):
            return [self[at] for at in range(*index.indices(len(self)))]
        token = self._made.get(index)
        if token is None:
            token = self._made[index] = self._make(index if index >= 0 else len(self) + index)
        return token

    def __iter__(self) -> Iterator[Token]:
        return (self[index] for index in range(len(self)))

    def _make(self, index: int) -> Token:
        marked = self.marked
        form = marked.forms[index]
        negated, directly = marked.negated.get(index, (0, False))
        return Token(
            form.key,
            form.normal,
            marked.starts[index],
            marked.starts[index] + form.length,
            marked.kinds[index],
            form.capital,
            form.unspaced,
            form.caseless,
            form.negative,
            marked.quantities.get(index),
            negated,
            directly,
            index in marked.maybe_names,
        )


@dataclass(frozen=True, slots=True)
class SentenceTokens:
    """A sentence of an answer, prepared for comparison with passages."""

    text: str
    tokens: Tokens
    content: list[int]
    """Indices of the content tokens."""
    weights: list[float]
    """Weights of the content tokens."""
    names: list[int]
    """For each content token, the index (in `content`) of the first token of its name; its own if it isn't in one."""
    clauses: list[int]
    """For each content token, the number of its clause, judging by punctuation."""
    unspaced: bool
    """Whether most of it is in a script without spaces."""
    katakana: list[str]
    """Katakana: foreign names and words in Japanese."""
    total: float
    """Sum of the weights; 1 if there are none."""


MAX_CONTENT = 160
"""Maximum number of compared content tokens; a longer sentence is judged by its beginning."""
_SAMPLE = 600
"""Code points used to detect a text's language."""
_DOTTED = re.compile(r"(?<![\w.])(?:[A-Z]\.){2,6}")
_KATAKANA = re.compile(r"[\u30a1-\u30fa\u30fc]{3,}")
_UNSPACED_NO = re.compile(r"[不没沒無无未非莫勿]|ない|なかった|ません|ず、|않|없|아니|못|ไม่|မ")
_NOT_NO = re.compile(
    r"不仅|不僅|不但|不同|不断|不斷|非常|無線|无线|未来|未來|不足|少なくない|かもしれない|なければならない|में"
)
_NAME_WEIGHT = 1.5
"""Weight of a name or number; other words have 1."""
_SHORT_WEIGHT = 0.7
"""Weight of a word of three letters or fewer."""
_PAIR_WEIGHT = 0.5
"""Weight of a pair of characters of a script without spaces."""
_FRAME_WEIGHT = 0.2
"""Weight of a word that only introduces the statement: `According to the document, …`, `Furthermore, …`."""
_NAME_GAP = 4
"""Maximum number of code points between two words of one name."""


def tokenise(text: str) -> Tokens:
    """Splits a text into tokens."""
    text = _joined(text)
    language = detect_language(text[:_SAMPLE])
    runs = scan(text)
    marked = MarkedText(text, language)
    forms, starts, kinds, notable = marked.forms, marked.starts, marked.kinds, marked.notable
    numbers = iter(find_numbers(text, language, runs))
    number = next(numbers, None)
    number_start, number_end = (number.start, number.end) if number is not None else (len(text), len(text))
    last: Quantity | None = None
    for readings, run_start, begins in zip(map(forms_of, runs.raws), runs.starts, runs.begins, strict=True):
        for form, offset in readings:
            start = run_start + offset
            while start >= number_end:
                number = next(numbers, None)
                number_start, number_end = (number.start, number.end) if number is not None else (len(text), len(text))
            if start < number_start:
                if form.notable:
                    notable.append(len(forms))
                kinds.append(form.first_kind if begins else form.kind)
                starts.append(start)
                forms.append(form)
            elif number is not None and last is not number:
                last = marked.quantities[len(forms)] = number
                notable.append(len(forms))
                kinds.append(TokenKind.NUMBER)
                starts.append(number_start)
                forms.append(number_form(text[number_start:number_end]))
    mark(marked)
    return Tokens(marked)


def _joined(text: str) -> str:
    """Replaces acronyms with points by the same number of characters: `U.S.` becomes `US` and two spaces."""
    if "." not in text:
        return text
    return _DOTTED.sub(lambda match: match.group().replace(".", "").ljust(len(match.group())), text)


def negates_unspaced(text: str) -> bool:
    """Whether a text in a script without spaces negates something."""
    return _UNSPACED_NO.search(_NOT_NO.sub("", text)) is not None


def negates_softly(tokens: Iterable[Token], others: Iterable[Token]) -> bool:
    """Whether tokens negate without a negator while others don't: `failed to`, `impossible` for `not possible`."""
    plain = {token.normal for token in others}
    for token in tokens:
        if token.normal in SOFT_NEGATORS and token.normal not in plain:
            return True
        for prefix in PREFIXES:
            if token.normal.startswith(prefix) and token.normal[len(prefix) :] in plain:
                return True
    return False


def tokenise_sentence(text: str) -> SentenceTokens:
    """Tokenises a sentence of an answer, with markers blanked, and weights its tokens."""
    tokens = tokenise(text)
    content = [index for index, token in enumerate(tokens) if token.kind is not TokenKind.STOP][:MAX_CONTENT]
    weights = [_weight(tokens[index]) for index in content]
    names: list[int] = []
    for place, index in enumerate(content):
        joined = place > 0 and content[place - 1] == index - 1 and _one_name(text, tokens[index - 1], tokens[index])
        names.append(names[-1] if joined else place)
    clauses = tokens.marked.number_clauses()
    return SentenceTokens(
        text=text,
        tokens=tokens,
        content=content,
        weights=weights,
        names=names,
        clauses=[clauses[index] for index in content],
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
    # A blanked marker is wider than the gap between the words of a name.
    return both and len(between) <= _NAME_GAP and not between.strip(" -.'’&")
