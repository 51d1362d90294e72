"""Where a sentence differs from the unit of a passage that it is nearly word for word.

A sentence that repeats most of a unit in its order is a quotation with changes, and each change counts: what stands in
its gaps is compared with what stands in the unit's. The alignment is the heaviest common subsequence (Hunt and
McIlroy, 1976, with weights), by dynamic programming over at most `MOST_STEPS` pairs of tokens.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from citewire_verify.align import Alignment
from citewire_verify.forms import TokenKind
from citewire_verify.tokens import Token

CLOSE = 0.62
"""Share of a sentence's tokens, by weight, in a unit's order from which the sentence repeats the unit."""
MOST_STEPS = 12_000
"""Maximum number of compared pairs of tokens; longer sentences are judged without their gaps."""
_STOP_WEIGHT = 0.35
"""Weight of a stop word."""


@dataclass(frozen=True, slots=True)
class Gap:
    """The tokens between two that sentence and unit share: in the sentence and in the unit."""

    sentence: list[int]
    """Indices of the sentence's tokens."""
    passage: list[int]
    """Positions of the unit's tokens."""
    outer: bool
    """Whether it is before the first shared token or after the last one, where nothing of the unit is left out."""


@dataclass(frozen=True, slots=True)
class Difference:
    """A sentence aligned with the unit that it repeats."""

    unit: int
    pairs: list[tuple[int, int]]
    """Tokens in both, in the same order: index in the sentence, position in the passage."""
    gaps: list[Gap]


def find_difference(a: Alignment) -> Difference | None:
    """Compares a sentence with the unit of its quote that it repeats; None if it repeats none."""
    best: Difference | None = None
    most = 0.0
    for unit in a.quote:
        positions = a.passage.positions_of(unit)
        tokens = [a.passage.tokens[at] for at in positions]
        if not tokens or len(tokens) * len(a.sentence.tokens) > MOST_STEPS:
            continue
        share, pairs = _align(a.sentence.tokens, tokens)
        if share >= CLOSE and share > most:
            most = share
            best = Difference(unit, [(i, positions[j]) for i, j in pairs], _gaps(a, pairs, positions))
    return best


def _gaps(a: Alignment, pairs: Sequence[tuple[int, int]], positions: Sequence[int]) -> list[Gap]:
    gaps: list[Gap] = []
    last_i = last_j = -1
    for i, j in [*pairs, (len(a.sentence.tokens), len(positions))]:
        if i > last_i + 1 or j > last_j + 1:
            outer = last_j < 0 or i == len(a.sentence.tokens)
            gaps.append(Gap(list(range(last_i + 1, i)), list(positions[last_j + 1 : j]), outer))
        last_i, last_j = i, j
    return gaps


def _weight(token: Token) -> float:
    if token.kind is TokenKind.STOP:
        return _STOP_WEIGHT
    # Verbs say more about the order than names, which may have swapped places.
    return 1.0 if token.kind is TokenKind.PLAIN else 0.9


def same(token: Token, other: Token) -> bool:
    """Whether two tokens are the same word or number."""
    if token.quantity is not None and other.quantity is not None:
        return not set(token.quantity.values).isdisjoint(other.quantity.values)
    return token.key == other.key or token.normal == other.normal


def _align(first: Sequence[Token], second: Sequence[Token]) -> tuple[float, list[tuple[int, int]]]:
    """The heaviest common subsequence: its share of the first sequence's weight, and its pairs."""
    weights = [_weight(token) for token in first]
    for at in range(1, len(first)):
        if first[at].kind is first[at - 1].kind is TokenKind.NAME:
            weights[at] = _STOP_WEIGHT  # a name of several words counts as one
    rows = [[0.0] * (len(second) + 1)]
    equal = [[same(token, other) for other in second] for token in first]
    for weight, matches in zip(weights, equal, strict=True):
        above, row = rows[-1], [0.0]
        for j, match in enumerate(matches):
            best = above[j] + weight if match else 0.0
            row.append(max(best, above[j + 1], row[j]))
        rows.append(row)
    pairs: list[tuple[int, int]] = []
    i, j = len(first), len(second)
    while i and j:
        if equal[i - 1][j - 1] and rows[i][j] == rows[i - 1][j - 1] + weights[i - 1]:
            i, j = i - 1, j - 1
            pairs.append((i, j))
        elif rows[i][j] == rows[i - 1][j]:
            i -= 1
        else:
            j -= 1
    return rows[-1][-1] / (sum(weights) or 1.0), pairs[::-1]
