"""Changes that a sentence makes to a unit that it nearly repeats, and bounds that differ."""

from collections.abc import Container, Sequence
from dataclasses import dataclass, field, replace

from citewire_verify.align import Alignment
from citewire_verify.difference import Difference, Gap, find_difference, same
from citewire_verify.forms import TokenKind
from citewire_verify.operators import Operator, OperatorKind, differ, find_operators, unspaced_values
from citewire_verify.tokens import Token
from citewire_verify.vocabulary import ALL_NEGATORS, OPPOSITES, SOFT_NEGATORS, SYNONYMS

_WEIGHTY = {
    OperatorKind.FREQUENCY: frozenset[str](),
    OperatorKind.MODALITY: frozenset({"must"}),
    OperatorKind.QUANTIFIER: frozenset({"all", "few", "only"}),
    OperatorKind.CONDITION: frozenset({"unless"}),
}
"""Values that change the meaning if the unit has none of their kind; any frequency does."""
_BEFORE_NUMBER = 2
"""Maximum number of tokens between a bound and its number."""
_AFTER_NUMBER = 3
"""Maximum number of tokens between a number and a bound that follows it, as in Hindi."""
_PASSIVE = frozenset(["by", "von", "par", "por", "da", "dal", "dalla", "door"])
_MOST_POSITIONS = 4
"""Maximum number of occurrences of a number whose bounds are checked."""
_MOST_NEW = 2
"""Maximum number of content words of its own in a changed quotation; with more, it is a rewording."""
_LONG_GAP = 3
"""Number of content words in a gap from which it is a rewording rather than one changed word."""


@dataclass(slots=True)
class Changes:
    """The words of a sentence that differ from its passage."""

    contradicted: list[str] = field(default_factory=list[str])
    """Words that differ from the passage's."""
    unsaid: list[str] = field(default_factory=list[str])
    """Words that the passage doesn't contain."""


@dataclass(frozen=True, slots=True)
class _Quotation:
    """A sentence compared with the unit that it repeats, with the operators of both."""

    a: Alignment
    difference: Difference
    ours: list[Operator]
    theirs: list[Operator]
    """The unit's operators; their indices are positions."""

    def settled(self) -> tuple[set[int], set[int]]:
        """Tokens of the operators that both have, in whatever wording: `daily` and `every day`."""
        values = {(o.kind, o.value) for o in self.ours} & {(o.kind, o.value) for o in self.theirs}
        return (
            {at for o in self.ours if (o.kind, o.value) in values for at in range(o.start, o.end)},
            {at for o in self.theirs if (o.kind, o.value) in values for at in range(o.start, o.end)},
        )

    def without_settled(self) -> list[Gap]:
        """The gaps without those tokens."""
        ours, theirs = self.settled()
        return [
            Gap([i for i in gap.sentence if i not in ours], [j for j in gap.passage if j not in theirs], gap.outer)
            for gap in self.difference.gaps
        ]


def find_changes(a: Alignment) -> Changes:
    """Returns what a sentence changes in the unit that it repeats, including the bounds of its numbers."""
    changes = Changes()
    if a.sentence.unspaced:
        _compare_unspaced(a, changes)
        return changes
    operators = find_operators(a.sentence.tokens)
    _compare_bounds(a, operators, changes)
    difference = find_difference(a)
    if difference is None:
        return changes
    unit = a.passage.positions_of(difference.unit)
    first = unit.start
    inside = find_operators(a.passage.tokens[first : unit.stop])
    theirs = [replace(operator, start=operator.start + first, end=operator.end + first) for operator in inside]
    quotation = _Quotation(a, difference, operators, theirs)
    _compare_operators(quotation, changes)
    _find_swaps(a, difference, changes)
    _compare_gaps(a, difference, quotation.without_settled(), changes)
    return changes


def _compare_gaps(a: Alignment, difference: Difference, gaps: list[Gap], changes: Changes) -> None:
    stated = frozenset(token.normal for token in a.sentence.tokens)
    new = sum(_has_topic(a.sentence.tokens[i]) for gap in gaps for i in gap.sentence)
    differs = _negated_otherwise(a, difference, gaps, stated)
    if differs:
        _compare_forms(a, difference, changes)
    for gap in gaps:
        if gap.sentence:
            _compare_gap(a, gap, stated, changes, differs=differs)
            if new <= _MOST_NEW:
                _compare_words(a, gap, difference, changes)
        elif differs and gap.passage and not gap.outer:
            _find_dropped(a, gap, difference, stated, changes)


def _written(a: Alignment, start: int, end: int) -> str:
    tokens = a.sentence.tokens
    return " ".join(a.sentence.text[tokens[start].start : tokens[end - 1].end].split())


def _compare_bounds(a: Alignment, operators: list[Operator], changes: Changes) -> None:
    """Compares bounds such as `at least` and `below` with those of the same number in the passage."""
    tokens = a.sentence.tokens
    place = {token_at: index for index, token_at in enumerate(a.sentence.content)}
    for operator in operators:
        if operator.kind is not OperatorKind.BOUND:
            continue
        number = _number_beside(tokens, operator)
        positions = [] if number is None or number not in place else a.positions_in(a.quote, place[number])
        if number is None or not positions:
            continue
        stated = {value for at in positions[:_MOST_POSITIONS] for value in _bounds_around(a, at)}
        if operator.value in stated or _is_met(a, tokens[number], positions, operator.value):
            continue
        written = _written(a, min(operator.start, number), max(operator.end, number + 1))
        (changes.contradicted if stated else changes.unsaid).append(written)


def _number_beside(tokens: Sequence[Token], operator: Operator) -> int | None:
    """The number to which a bound belongs: the next or the previous one."""
    for at in range(operator.end, min(operator.end + _BEFORE_NUMBER + 1, len(tokens))):
        if tokens[at].quantity is not None:
            return at
    if tokens[operator.start].caseless:
        return next(
            (
                at
                for at in range(operator.start - 1, max(operator.start - _AFTER_NUMBER, -1), -1)
                if tokens[at].quantity
            ),
            None,
        )
    return None


def _bounds_around(a: Alignment, position: int) -> set[str]:
    start = max(position - _BEFORE_NUMBER - 4, 0)
    window = a.passage.tokens[start : position + _AFTER_NUMBER + 3]
    return {
        operator.value
        for operator in find_operators(window)
        if operator.kind is OperatorKind.BOUND and _number_beside(window, operator) == position - start
    }


def _is_met(a: Alignment, token: Token, positions: list[int], value: str) -> bool:
    """Whether the passage's number lies beyond the claimed one: 3,512 is more than 3,500."""
    claimed = token.quantity.values[0] if token.quantity else 0.0
    numbers = [there.values[0] for at in positions if (there := a.passage.tokens[at].quantity) is not None]
    return any(number > claimed if value == "more" else number < claimed for number in numbers)


def _compare_operators(quotation: _Quotation, changes: Changes) -> None:
    """Compares each operator of the sentence with what is in its place in the unit."""
    a, theirs = quotation.a, quotation.theirs
    paired = dict(quotation.difference.pairs)
    positions = a.passage.positions_of(quotation.difference.unit)
    taken = {id(o) for o in theirs if _is_paired(o, quotation.ours, paired)}
    for operator in quotation.ours:
        weighty = _WEIGHTY.get(operator.kind)
        if weighty is None:
            continue
        # Where it would be in the unit: between its neighbours' counterparts.
        start = 1 + next((paired[at] for at in range(operator.start - 1, -1, -1) if at in paired), positions.start - 1)
        following = range(operator.end, len(a.sentence.tokens))
        end = next((paired[at] for at in following if at in paired), positions.stop)
        others = [o for o in theirs if o.kind is operator.kind and o.start < end and o.end > start]
        if any(other.value == operator.value for other in others):
            continue
        if any(id(o) not in taken and differ(o.value, operator.value) for o in others):
            changes.contradicted.append(_written(a, operator.start, operator.end))
        elif not others and (operator.value in weighty or not weighty) and not _has(theirs, operator):
            changes.unsaid.append(_written(a, operator.start, operator.end))


def _has(operators: list[Operator], operator: Operator) -> bool:
    return any(other.kind is operator.kind and other.value == operator.value for other in operators)


def _is_paired(operator: Operator, ours: list[Operator], paired: dict[int, int]) -> bool:
    """Whether the sentence has an operator of the unit with the same value in the same place."""
    same_value = [o for o in ours if o.kind is operator.kind and o.value == operator.value]
    return any(operator.start <= paired.get(at, -1) < operator.end for o in same_value for at in range(o.start, o.end))


def _find_swaps(a: Alignment, difference: Difference, changes: Changes) -> None:
    """Finds two words that have swapped places around the verb between them."""
    ours: dict[str, int] = {}
    theirs: dict[str, int] = {}
    for number, gap in enumerate(difference.gaps):
        ours.update({a.sentence.tokens[i].key: number for i in gap.sentence if _has_topic(a.sentence.tokens[i])})
        theirs.update({a.passage.tokens[j].key: number for j in gap.passage if _has_topic(a.passage.tokens[j])})
    moved = [key for key in ours if theirs.get(key, ours[key]) != ours[key]]
    if len(moved) < 2 or _changes_voice(a, difference):
        return
    for number, key in enumerate(moved):
        for other in moved[number + 1 :]:
            crossed = ours[key] == theirs[other] and ours[other] == theirs[key]
            if crossed and _stands_between(a, difference, ours[key], ours[other]):
                token = next(token for token in a.sentence.tokens if token.key == key)
                changes.contradicted.append(a.sentence.text[token.start : token.end])
                return


def _has_topic(token: Token) -> bool:
    return token.kind is not TokenKind.STOP


def _changes_voice(a: Alignment, difference: Difference) -> bool:
    ours = {a.sentence.tokens[i].normal for gap in difference.gaps for i in gap.sentence}
    theirs = {a.passage.tokens[j].normal for gap in difference.gaps for j in gap.passage}
    return _PASSIVE.isdisjoint(ours) != _PASSIVE.isdisjoint(theirs)


def _stands_between(a: Alignment, difference: Difference, gap: int, other: int) -> bool:
    """Whether there is a content word between two gaps, so that they aren't members of a list."""
    first, last = sorted((gap, other))
    start, end = max(difference.gaps[first].sentence), min(difference.gaps[last].sentence)
    return any(start < i < end and _has_topic(a.sentence.tokens[i]) for i, _ in difference.pairs)


def _compare_gap(a: Alignment, gap: Gap, stated: Container[str], changes: Changes, *, differs: bool) -> None:
    ours = [a.sentence.tokens[i] for i in gap.sentence]
    theirs = [a.passage.tokens[j] for j in gap.passage]
    short = max(sum(map(_has_topic, ours)), sum(map(_has_topic, theirs))) <= _LONG_GAP
    negates, negated = _negate(a, gap, stated)
    if differs and negates != negated and (short or negates):
        changes.contradicted.append(_written(a, gap.sentence[0], gap.sentence[-1] + 1))
        return
    there = {token.normal for token in theirs}
    for token in ours:
        if not OPPOSITES.get(token.normal, frozenset()).isdisjoint(there):
            changes.contradicted.append(a.sentence.text[token.start : token.end])


def _negated_otherwise(a: Alignment, difference: Difference, gaps: list[Gap], stated: Container[str]) -> bool:
    """Whether the gaps together, and forms such as `impossible`, negate on one side only."""
    ours = theirs = 0
    for gap in gaps:
        negates, negated = _negate(a, gap, stated)
        ours, theirs = ours + negates, theirs + negated
    for i, j in difference.pairs:
        ours, theirs = ours + a.sentence.tokens[i].negative_form, theirs + a.passage.tokens[j].negative_form
    return ours % 2 != theirs % 2


def _negate(a: Alignment, gap: Gap, stated: Container[str]) -> tuple[bool, bool]:
    """Whether a gap negates in the sentence and in the unit; outside the quotation only if it has a counterpart."""
    negates = _negates(a.sentence.text, [a.sentence.tokens[i] for i in gap.sentence], a.passage.normals)
    counts = negates or not gap.outer
    return negates, counts and _negates(a.passage.text, [a.passage.tokens[j] for j in gap.passage], stated)


def _find_dropped(a: Alignment, gap: Gap, difference: Difference, stated: Container[str], changes: Changes) -> None:
    """Finds a `not` that the sentence leaves out, together with at most one other word."""
    theirs = [a.passage.tokens[j] for j in gap.passage]
    if sum(map(_has_topic, theirs)) <= 1 and _negates(a.passage.text, theirs, stated):
        following = next((i for i, j in difference.pairs if j > gap.passage[-1]), None)
        if following is not None:
            changes.contradicted.append(_written(a, following, following + 1))


def _compare_forms(a: Alignment, difference: Difference, changes: Changes) -> None:
    """Finds `known` for `unknown`."""
    for i, j in difference.pairs:
        if a.sentence.tokens[i].negative_form != a.passage.tokens[j].negative_form:
            changes.contradicted.append(_written(a, i, i + 1))


def _negates(text: str, tokens: list[Token], other_side: Container[str]) -> bool:
    """Whether an odd number of tokens negate; a word that only implies negation counts if the other side lacks it."""
    count = 0
    for token in tokens:
        contracted = token.normal == "t" and text[max(token.start - 2, 0) : token.start].lower() in {"n'", "n’"}
        softly = token.normal in SOFT_NEGATORS and token.normal not in other_side
        count += contracted or token.negative_form or token.normal in ALL_NEGATORS or softly
    return count % 2 == 1


def _compare_words(a: Alignment, gap: Gap, difference: Difference, changes: Changes) -> None:
    """Finds a word that replaces another one and isn't in the passage."""
    taken = {j for _, j in difference.pairs}
    ours = [a.sentence.tokens[i] for i in gap.sentence]
    theirs = [a.passage.tokens[j] for j in gap.passage]
    new = [token for token in ours if _has_topic(token) and not any(same(token, other) for other in theirs)]
    old = [token for token in theirs if _has_topic(token) and not any(same(token, other) for other in ours)]
    if not new or not old or max(len(new), len(old)) >= _LONG_GAP:
        return
    for token in new:
        if token.quantity is not None:
            # A number that the sentence also has in its right place says nothing about this one.
            elsewhere = [at for at in a.passage.find(token)[0] if a.passage.unit_of[at] == difference.unit]
            if taken.issuperset(elsewhere) and any(other.quantity is not None for other in old):
                changes.contradicted.append(a.sentence.text[token.start : token.end])
            continue
        positions, sure = a.passage.find(token)
        if (sure and positions) or a.passage.in_headings(token) or any(_mean_one(token, other) for other in old):
            continue
        changes.unsaid.append(a.sentence.text[token.start : token.end])


def _mean_one(token: Token, other: Token) -> bool:
    """Whether two words are known synonyms, or forms of one word."""
    return other.normal in SYNONYMS.get(token.normal, ()) or token.normal[:4] == other.normal[:4]


def _compare_unspaced(a: Alignment, changes: Changes) -> None:
    if not a.quote:
        return
    quote = a.passage.text[a.passage.units[a.quote[0]].start : a.passage.units[a.quote[-1]].end]
    ours, theirs = unspaced_values(a.sentence.text), unspaced_values(quote)
    for kind, values in ours.items():
        stated = theirs.get(kind, set())
        if any(differ(value, other) for value in values - stated for other in stated - values):
            changes.contradicted.append(a.sentence.text[:40])
        elif values - stated and not stated and (kind not in _WEIGHTY or values & _WEIGHTY[kind] or not _WEIGHTY[kind]):
            changes.unsaid.append(a.sentence.text[:40])
