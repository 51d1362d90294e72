"""Names and numbers of a sentence that a passage doesn't have, or has another of in the same place.

Where a sentence's words stand around a name or number as they do in the passage, but around another one, the passage
contradicts the sentence, even if the sentence's own name or number is elsewhere in the passage.
"""

import re

from citewire_verify.align import Alignment
from citewire_verify.forms import TokenKind
from citewire_verify.tokens import Token

SAME_SUBJECT = 0.6
"""Share of a sentence's weight from which the passage is about the same thing."""
SAME_STATEMENT = 0.85
"""Share of what a sentence says beside a name from which a quote with another name there contradicts it.

Below it the quote says something else of that other name: of 41 names of WiCE's training claims that a page has, but
has another of beside the same words, people call 33 supported. Two names exchanged in a sentence that is otherwise as
in the passage lie above it (`python -m benchmarks.verdicts`).
"""
BETWEEN = 6
"""Maximum number of tokens between two neighbours of a name or number."""
_BESIDE = 3
"""Maximum number of tokens between a name or number and its only neighbour."""
_LINE = 5
"""Maximum number of tokens next to a name that are compared between sentence and passage."""
_MOST_POSITIONS = 400
"""Maximum number of positions of a token that are checked."""
_RUN = re.compile(r"[\u30a1-\u30fa\u30fc\u3400-\u4dbf\u4e00-\u9fff\U00020000-\U0002ffff]{2,}")
_RUN_BEFORE = re.compile(r"[\u30a1-\u30fa\u30fc\u3400-\u4dbf\u4e00-\u9fff\U00020000-\U0002ffff]+$")
_RUN_GAP = 8
"""Maximum number of characters between two neighbours of a run of characters."""


def find_covered(a: Alignment) -> dict[int, float]:
    """Returns the content tokens that the passage or its headings contain, with their certainty."""
    return {
        index: a.certainty[index] or 1.0
        for index, token in enumerate(a.content)
        if a.positions[index] or a.passage.in_headings(token)
    }


def find_missing(a: Alignment, covered: dict[int, float]) -> dict[int, str]:
    """Returns names and numbers that the passage and its headings don't contain, as the sentence writes them."""
    missing: dict[int, str] = {}
    weights = a.sentence.weights
    share = sum(weights[index] for index in covered)
    for index, token in enumerate(a.content):
        if index in covered or token.is_vague:
            continue
        # The first word may be a name. If the passage has most of what is said about it, it belongs to something else.
        subject = token.maybe_name and share >= SAME_SUBJECT * (a.sentence.total - weights[index])
        if subject or token.kind in {TokenKind.NAME, TokenKind.NUMBER}:
            missing[index] = _written(a, index)
    for name in a.sentence.katakana:
        if name.casefold() not in a.passage.folded:
            missing[-1 - len(missing)] = name
    return missing


def find_replaced(a: Alignment) -> tuple[dict[int, str], dict[int, str]]:
    """Finds names and numbers for which the passage has others between the same words.

    Returns:
        Replaced names and numbers; and names whose parts occur in the passage only as parts of other names. Both by
        content token, as the sentence writes them.
    """
    replaced: dict[int, str] = {}
    torn: dict[int, str] = {}
    for index, token in enumerate(a.content):
        named = token.kind in {TokenKind.NAME, TokenKind.NUMBER} or _may_be_name(a, index)
        if not named or token.is_vague:
            continue
        # If little else is the same, a different name beside the same words belongs to a different statement.
        known = token.kind is TokenKind.NAME and bool(a.positions[index])
        same = not known or _share_of_rest(a, index) >= SAME_STATEMENT
        if known and same and _is_torn(a, index):
            torn[index] = _written(a, index)
        least = SAME_STATEMENT if known else SAME_SUBJECT
        if (same and _is_replaced(a, index, a.quote)) or _is_said_of_another(a, index, least):
            replaced[index] = _written(a, index)
    if a.sentence.unspaced:
        replaced |= {-1 - number: run for number, run in enumerate(_replaced_runs(a))}
    return replaced, torn


def _share_of_rest(a: Alignment, index: int) -> float:
    """Share of the sentence without a name, by weight, that the quote covers."""
    name, weights, quote = _name_of(a, index), a.sentence.weights, set(a.quote)
    rest = [other for other in range(len(a.content)) if other not in name and not _only_introduces(a, other)]
    held = sum(weights[other] * a.certainty[other] for other in rest if not quote.isdisjoint(a.units[other]))
    return held / (sum(weights[other] for other in rest) or 1.0)


def _only_introduces(a: Alignment, index: int) -> bool:
    """Whether a word is alone before the sentence's first comma, as in `In short, …`."""
    alone = index == 0 and len(a.content) > 1 and a.sentence.clauses[1] != a.sentence.clauses[0]
    return alone and a.content[0].kind is TokenKind.PLAIN


def _written(a: Alignment, index: int) -> str:
    """A name as a whole, a number with its percent sign."""
    text, names = a.sentence.text, a.sentence.names
    if a.content[index].kind is TokenKind.NUMBER:
        return text[a.content[index].start : a.content[index].end]
    members = [token for token, name in zip(a.content, names, strict=True) if name == names[index]]
    return text[members[0].start : members[-1].end]


def _may_be_name(a: Alignment, index: int) -> bool:
    """Whether a token that doesn't look like a name may be one: a sentence's first, or in a script without capitals."""
    token = a.content[index]
    if a.positions[index] or a.passage.in_headings(token):
        return False
    return token.maybe_name or (token.caseless and not token.unspaced and len(token.normal) > 2)


def _is_torn(a: Alignment, index: int) -> bool:
    """Whether the passage has two words of one name, but never near each other: they are parts of other names."""
    names, tokens = a.sentence.names, a.passage.tokens
    if index + 1 == len(names) or names[index] != names[index + 1] or a.adjacent[index]:
        return False
    first, second = a.positions[index], a.positions[index + 1]
    after = any(at + 1 < len(tokens) and tokens[at + 1].kind is TokenKind.NAME for at in first)
    before = any(at and tokens[at - 1].kind is TokenKind.NAME for at in second)
    return bool(first) and bool(second) and (after or before)


def _name_of(a: Alignment, index: int) -> range:
    """The content tokens of the name that a token is part of; a number is alone."""
    names = a.sentence.names
    if a.content[index].kind is not TokenKind.NAME:
        return range(index, index + 1)
    last = index
    while last + 1 < len(names) and names[last + 1] == names[index]:
        last += 1
    return range(names[index], last + 1)


def _is_said_of_another(a: Alignment, index: int, least: float) -> bool:
    """Whether the unit with the rest of the sentence, at least this share of it, has another name or number there.

    A name has much weight, so a wrong one may move the quote to a unit that contains it legitimately.
    """
    name, weights = _name_of(a, index), a.sentence.weights
    rest = [other for other in range(len(a.content)) if other not in name]
    held: dict[int, float] = {}
    for other in rest:
        for unit in a.units[other]:
            held[unit] = held.get(unit, 0.0) + weights[other] * a.certainty[other]
    own = {unit for part in name for unit in a.units[part]}
    if not own or not held:
        return False
    best = max(held, key=lambda unit: (held[unit], -unit))
    if best in own or best in a.quote or held[best] < least * sum(weights[other] for other in rest):
        return False
    return _is_replaced(a, index, range(best, best + 1))


def _is_replaced(a: Alignment, index: int, units: range) -> bool:
    """Whether units have another name or number between the tokens that surround one in the sentence."""
    token, name = a.content[index], _name_of(a, index)
    own = {position for part in name for position in a.positions[part]}
    before, after = name.start - 1, name.stop
    left = a.positions_in(units, before) if before >= 0 else []
    right = a.positions_in(units, after) if after < len(a.content) else []
    if token.kind is TokenKind.NUMBER and _is_in_date(a, index, own):
        return False
    in_line = token.kind is not TokenKind.PLAIN and _is_replaced_in_line(a, name, own, token, units)
    if in_line or (left and right):
        return in_line or _has_other_between(a, left, right, own, token)
    if token.kind is TokenKind.PLAIN and token.caseless:
        return False
    if left and a.sentence.clauses[before] == a.sentence.clauses[name.start]:
        return _has_other_beside(a, left, 1, own, token)
    if right and a.sentence.clauses[after] == a.sentence.clauses[name.stop - 1]:
        return _has_other_beside(a, right, -1, own, token)
    return False


def _is_in_date(a: Alignment, index: int, own: set[int]) -> bool:
    """Whether a number is part of a date in digits that the passage writes with the month's name."""
    tokens = a.passage.tokens
    for beside in (index - 1, index + 1):
        if not 0 <= beside < len(a.content) or a.content[beside].quantity is None or a.content[beside].is_month:
            continue
        for position in a.positions[beside]:
            around = range(position - _BESIDE + 1, position + _BESIDE)
            inside = range(max(around.start, 0), min(around.stop, len(tokens)))
            if own.intersection(around) and any(tokens[at].is_month for at in inside):
                return True
    return False


def _is_replaced_in_line(a: Alignment, name: range, own: set[int], token: Token, units: range) -> bool:
    """Whether there is another name or number next to the same words as one in the sentence."""
    tokens, content = a.sentence.tokens, a.sentence.content
    start, stop = content[name.start], content[name.stop - 1]
    line_before = tokens[content[name.start - 1] : start] if name.start > 0 else []
    line_after = tokens[stop + 1 : content[name.stop] + 1] if name.stop < len(content) else []
    for line, step in ((line_before, -1), (line_after, 1)):
        if not 0 < len(line) <= _LINE:
            continue
        near = line[-1] if step < 0 else line[0]
        for position in a.passage.normals.get(near.normal, [])[:_MOST_POSITIONS]:
            if _is_line(a, line, position, step, units) and _is_followed_by_other(a, position, -step, own, token):
                return True
    return False


def _is_line(a: Alignment, line: list[Token], position: int, step: int, units: range) -> bool:
    """Whether the passage has these tokens in this order in one unit, next to the name at `position`."""
    start = position - len(line) + 1 if step < 0 else position
    same = a.passage.tokens[max(start, 0) : start + len(line)]
    if [token.normal for token in same] != [token.normal for token in line]:
        return False
    unit = a.passage.unit_of[start]
    return unit == a.passage.unit_of[position] and unit in units


def _is_followed_by_other(a: Alignment, position: int, step: int, own: set[int], token: Token) -> bool:
    """Whether the next token in a direction, in the same unit, is another name or number."""
    units, following = a.passage.unit_of, position + step
    if not 0 <= following < len(units) or any(units[at] == units[following] for at in own):
        return False
    return _is_other(a, following, token) and units[position] == units[following]


def _has_other_between(a: Alignment, left: list[int], right: list[int], own: set[int], token: Token) -> bool:
    units, other = a.passage.unit_of, False
    for start in left:
        for end in right:
            if not 1 < end - start <= BETWEEN or units[start] != units[end]:
                continue
            between = range(start + 1, end)
            if not own.isdisjoint(between):
                return False
            # The two are neighbours in the sentence: what is between them may be another token of it.
            close = len(between) <= _BESIDE
            other = other or any(_is_other(a, position, token, used=close) for position in between)
    return other


def _has_other_beside(a: Alignment, neighbours: list[int], step: int, own: set[int], token: Token) -> bool:
    """The same if the units have only one neighbour: the other name or number must then be adjacent to it."""
    units, other = a.passage.unit_of, False
    for neighbour in neighbours:
        reach = range(neighbour + step, neighbour + step * (_BESIDE + 1), step)
        if any(units[position] == units[neighbour] for position in own):
            return False
        inside = [at for at in reach if 0 <= at < len(units) and units[at] == units[neighbour]]
        other = other or any(_is_other(a, position, token) for position in inside)
    return other


def _is_other(a: Alignment, position: int, token: Token, *, used: bool = False) -> bool:
    """Whether a passage's token has the same kind as a sentence's, and (unless `used`) isn't one of the sentence's."""
    there = a.passage.tokens[position]
    if position in a.matched and not used:
        return False
    if token.kind is TokenKind.PLAIN:
        return there.kind is TokenKind.NAME or there.maybe_name or (there.caseless and there.kind is TokenKind.PLAIN)
    if there.kind is not token.kind and not (there.maybe_name and token.kind is TokenKind.NAME):
        return False
    if there.quantity is None or token.quantity is None:
        return True
    return there.is_month == token.is_month and there.quantity.word == token.quantity.word and not there.is_vague


def _replaced_runs(a: Alignment) -> list[str]:
    """Runs of characters, in scripts without spaces, that the passage replaces between the same characters."""
    text, passage, tokens = a.sentence.text, a.passage.text, a.passage.tokens
    covered = [False] * len(text)
    spans_from: dict[int, list[Token]] = {}
    spans_to: dict[int, list[Token]] = {}
    for index, pair in enumerate(a.content):
        if there := [tokens[position] for position in a.positions_in(a.quote, index)]:
            covered[pair.start : pair.end] = [True] * (pair.end - pair.start)
            spans_from[pair.start] = spans_to[pair.end] = there
    bare = "".join(" " if known else char for char, known in zip(text, covered, strict=True))
    replaced: list[str] = []
    for run in _RUN.finditer(bare):
        left, right = spans_to.get(run.start(), []), spans_from.get(run.end(), [])
        if left and right:
            gaps = [passage[x.end : y.start] for x in left for y in right if 0 < y.start - x.end <= _RUN_GAP]
            other = any(_RUN.search(gap) and run.group() not in gap for gap in gaps)
        else:
            # At a clause's start nothing precedes it: a run right before the same characters is a different one.
            begins = not run.start() or not text[run.start() - 1].isalnum()
            before = [_RUN_BEFORE.search(passage[max(y.start - _RUN_GAP, 0) : y.start]) for y in right if begins]
            other = any(match is not None and len(match.group()) > 1 for match in before)
        if other:
            replaced.append(run.group())
    return replaced
