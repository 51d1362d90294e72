"""Marks names, months and negated words by their context."""

import re
from dataclasses import dataclass, field
from itertools import accumulate

from citewire_verify.forms import Form, TokenKind
from citewire_verify.numbers import Quantity, month_named
from citewire_verify.vocabulary import (
    COMPARED_WITH_NO,
    LANGUAGE_NEGATORS,
    NEGATORS,
    NOT_NEGATING_AFTER,
    OPENERS,
    POSTPOSED_NEGATORS,
    TRANSPARENT,
    TRANSPARENT_FORMS,
)

SCOPE = 3
"""Maximum number of content words in a negator's scope."""
_ENGLISH = frozenset(
    {"the", "a", "an", "of", "in", "and", "is", "was", "are", "were", "to", "by", "that", "for", "with"}
)
_BREAK = re.compile(r"[,;:.!?()\[\]…。！？、，—–\n]")
_TITLE_SHARE = 0.7
_NO_NAME = ("ly", "ing", "ed")
"""Endings of a sentence's first word that don't occur in names."""
_NAME_MARKS = " -.&'’"
"""Text that may separate two words of one name."""
_CAPITAL_MONTHS = frozenset({"en", "de"})
"""Languages that capitalise months."""
_DATE_GAP = re.compile(r"[\s.,]*(?:of|the|de|del|do|d[iu])?[\s.,]*", re.IGNORECASE)
"""Text that may separate a month from its day or year."""


@dataclass(slots=True)
class MarkedText:
    """A text's tokens and their marks. Lists are parallel; rare marks are stored by index."""

    text: str
    language: str
    forms: list[Form] = field(default_factory=list[Form])
    starts: list[int] = field(default_factory=list[int])
    kinds: list[TokenKind] = field(default_factory=list[TokenKind])
    notable: list[int] = field(default_factory=list[int])
    """Indices of the numbers, and of the words that have a capital, name a month or negate."""
    quantities: dict[int, Quantity] = field(default_factory=dict[int, Quantity])
    maybe_names: set[int] = field(default_factory=set[int])
    negated: dict[int, tuple[int, bool]] = field(default_factory=dict[int, tuple[int, bool]])
    """How many negators have it in their scope, and whether it is the first content word after one."""

    def end(self, index: int) -> int:
        """Returns where a token ends."""
        return self.starts[index] + self.forms[index].length

    def breaks(self, index: int) -> bool:
        """Whether a clause begins with a token, judging by the punctuation before it."""
        start, previous = self.starts[index], self.end(index - 1) if index else 0
        # A single space, the usual separator, ends nothing.
        return (start != previous + 1 or self.text[previous] != " ") and bool(_BREAK.search(self.text, previous, start))

    def number_clauses(self) -> list[int]:
        """Returns the number of each token's clause."""
        return list(accumulate(int(self.breaks(index)) for index in range(len(self.forms))))


def mark(marked: MarkedText) -> None:
    """Marks names, months and negated words."""
    forms = marked.forms
    _mark_names(marked, [index for index in marked.notable if forms[index].capital])
    _mark_months(marked, [index for index in marked.notable if forms[index].month is not None])
    _Negation(marked).mark([index for index in marked.notable if forms[index].negates])


def _mark_names(marked: MarkedText, capitals: list[int]) -> None:
    """Decides which capitals mark names: not all in titles, not German nouns, and only some at a sentence's start."""
    text, forms, kinds = marked.text, marked.forms, marked.kinds
    german = marked.language == "de"
    english = marked.language == "en" and any(form.normal in _ENGLISH for form in forms)
    titled = _is_title(marked)
    for index in capitals:
        form, start, end = forms[index], marked.starts[index], marked.end(index)
        if kinds[index] is TokenKind.STOP:
            continue
        raw = text[start:end]
        if raw.isupper() and len(raw) > 1 and not titled:
            kinds[index] = TokenKind.NAME
            continue
        beside = _begins_beside(marked, index) or (
            index > 0
            and kinds[index - 1] is TokenKind.NAME
            and not text[marked.end(index - 1) : start].strip(_NAME_MARKS)
        )
        if titled or (form.month is not None and not german):
            kinds[index] = TokenKind.PLAIN
        elif german:
            kinds[index] = TokenKind.NAME if beside else TokenKind.PLAIN
        elif kinds[index] is TokenKind.PLAIN and form.normal not in OPENERS:
            # The capital at a sentence's start is a name if another capital follows; otherwise it may be one.
            if beside:
                kinds[index] = TokenKind.NAME
            elif english and len(raw) > 2 and text[end : end + 1] != "," and not form.normal.endswith(_NO_NAME):
                marked.maybe_names.add(index)


def _begins_beside(marked: MarkedText, index: int) -> bool:
    """Whether a capitalised word follows that may belong to the same name."""
    after = index + 1
    if after == len(marked.forms) or not marked.forms[after].capital or marked.kinds[after] is TokenKind.STOP:
        return False
    return not marked.text[marked.end(index) : marked.starts[after]].strip(_NAME_MARKS)


def _is_title(marked: MarkedText) -> bool:
    """Whether nearly every word has a capital, as in a title."""
    # Running text soon has a longer word in lower case, so that no counting is needed.
    words = list(zip(marked.forms, marked.kinds, strict=True))
    if any(not form.capital and len(form.normal) > 4 and _is_word(form, kind) for form, kind in words):
        return False
    content = [form for form, kind in words if kind is not TokenKind.STOP and _is_word(form, kind)]
    return len(content) >= 4 and sum(form.capital for form in content) >= _TITLE_SHARE * len(content)


def _is_word(form: Form, kind: TokenKind) -> bool:
    return kind is not TokenKind.NUMBER and not form.unspaced and form.normal.isalpha()


def _mark_months(marked: MarkedText, months: list[int]) -> None:
    """Turns months' names into numbers: next to a day or a year, and if the language capitalises them, also alone."""
    text, count = marked.text, len(marked.forms)
    capitals = marked.language in _CAPITAL_MONTHS
    for index in months:
        form, start, end = marked.forms[index], marked.starts[index], marked.end(index)
        if form.month is None or (capitals and not form.capital):
            continue
        dated = any(
            other in marked.quantities
            and _DATE_GAP.fullmatch(text[min(end, marked.end(other)) : max(start, marked.starts[other])])
            for other in (index - 1, index + 1, index - 2, index + 2)
        )
        if not dated:
            around = [other for other in (index - 1, index + 1) if 0 <= other < count]
            named = any(marked.kinds[other] is TokenKind.NAME or other in marked.maybe_names for other in around)
            inside = index > 0 and not _BREAK.search(text, marked.end(index - 1), start)
            if named or not inside or not capitals or len(form.normal) < 3:
                continue
        marked.kinds[index] = TokenKind.NUMBER
        marked.quantities[index] = month_named(start, end, form.month)
        marked.maybe_names.discard(index)


class _Negation:
    """Finds negated words, by following each negator to the end of its scope."""

    def __init__(self, marked: MarkedText) -> None:
        self._marked = marked
        self._negators = NEGATORS | LANGUAGE_NEGATORS.get(marked.language, frozenset())
        self._without_topic: set[int] = set()
        """Negators, and words that end their scope."""

    def mark(self, negating: list[int]) -> None:
        """Marks the words negated by the given tokens, in order."""
        following = 0
        for first in negating:
            if first >= following:
                following = self._follow(first)

    def _follow(self, first: int) -> int:
        """Marks a negator's scope; returns the token after it and after the scopes of negators inside it."""
        forms, kinds, negated = self._marked.forms, self._marked.kinds, self._marked.negated
        reach: list[int] = []
        head = False
        last = self._last_before(first)
        for index in range(first, len(forms)):
            if index > first and self._marked.breaks(index):
                if head:
                    self._negate_last(last)
                return index
            normal = forms[index].normal
            if (normal in self._negators or normal == "t") and self._is_negator(index):
                if normal in POSTPOSED_NEGATORS and last is not None and not negated.get(last, (0, False))[0]:
                    negated[last] = 1, True
                reach, head = [*reach[:2], SCOPE], True
                self._without_topic.add(index)
            elif head and (normal in NOT_NEGATING_AFTER or self._is_bound(index)):
                reach, head = [], False
                self._without_topic.add(index)
            elif kinds[index] is not TokenKind.STOP:
                if reach:
                    negated[index] = len(reach), head
                    reach, head = [left - 1 for left in reach if left > 1], head and normal in TRANSPARENT
                if forms[index].negative:
                    negated[index] = negated.get(index, (0, False))[0] + 1, True
                    reach, head = [*reach[:2], SCOPE], normal in TRANSPARENT_FORMS
                last = index
            if not (head or reach):
                return index + 1
        if head:
            self._negate_last(last)
        return len(forms)

    def _negate_last(self, last: int | None) -> None:
        if last is not None:
            self._marked.negated[last] = self._marked.negated.get(last, (0, False))[0] + 1, True

    def _last_before(self, first: int) -> int | None:
        """The last content word before a token in its clause."""
        index = first
        while index > 0 and not self._marked.breaks(index):
            index -= 1
            if self._marked.kinds[index] is not TokenKind.STOP and index not in self._without_topic:
                return index
        return None

    def _is_bound(self, index: int) -> bool:
        forms = self._marked.forms
        following = forms[index + 1].normal if index + 1 < len(forms) else ""
        return forms[index].normal in COMPARED_WITH_NO and following == "than"

    def _is_negator(self, index: int) -> bool:
        """Whether a negator, or the `t` of `n't`, negates in its context."""
        text, start, end = self._marked.text, self._marked.starts[index], self._marked.end(index)
        normal = self._marked.forms[index].normal
        if normal == "t":
            return text[max(start - 2, 0) : start].lower() in {"n'", "n’"}
        # `No. 5`, `non-profit`
        return not (normal in {"no", "non"} and text[end : end + 1] in {".", "-"})
