"""Tokens of a sentence that only the sentence or only the passage negates, and opposites that the passage has."""

from collections.abc import Sequence

from citewire_verify.align import Alignment
from citewire_verify.conflicts import BETWEEN, SAME_SUBJECT
from citewire_verify.forms import TokenKind
from citewire_verify.tokens import Token, negates_softly, negates_unspaced
from citewire_verify.vocabulary import OPPOSITES

_FIRST = 2
"""Maximum length in tokens of a sentence found verbatim, which something before it may negate."""
_AROUND = 4
"""Number of tokens around a word that show whether its opposite is in its place."""


def find_negated(a: Alignment, *, verbatim: bool) -> list[str]:
    """Returns the words negated on one side only, as the sentence writes them.

    Args:
        a: A sentence aligned with a passage.
        verbatim: Whether the passage contains the sentence verbatim, so that only what precedes it can negate it.
    """
    content = a.content[:_FIRST] if verbatim else a.content
    if a.sentence.unspaced:
        quote = a.passage.text[a.passage.units[a.quote[0]].start : a.passage.units[a.quote[-1]].end]
        whole = len(content) == len(a.content) and a.coverage(a.quote) >= SAME_SUBJECT
        differs = whole and negates_unspaced(a.sentence.text) != negates_unspaced(quote)
        return [a.sentence.text[:40]] if differs else []
    negated: list[str] = []
    for index, token in enumerate(content):
        positions = a.positions_in(a.quote, index)
        if len(positions) > 1:
            # The passage may contain a word twice and negate it once: its neighbours decide which occurrence counts.
            positions = [at for at in positions if _is_by_neighbours(a, index, at)] or positions
        if not positions or token.kind is TokenKind.NUMBER:
            continue
        there = [a.passage.tokens[position] for position in positions]
        if token.negated_directly:
            if all(other.negated % 2 != token.negated % 2 for other in there) and not negates_softly(
                _passage_around(a, positions), _sentence_around(a, index)
            ):
                negated.append(_with_negator(a, index))
        elif all(other.negated_directly and other.negated % 2 != token.negated % 2 for other in there) and (
            not negates_softly(_sentence_around(a, index), _passage_around(a, positions))
            and _has_near_neighbour(a, index, positions)
        ):
            negated.append(a.sentence.text[token.start : token.end])
    return negated


def find_opposites(a: Alignment) -> list[str]:
    """Returns words of the sentence for which the quote has the opposite near the same words instead."""
    passage, tokens = a.passage, a.sentence.tokens
    stated = {token.normal for token in tokens}
    opposed: list[str] = []
    for index, token in enumerate(tokens):
        opposites = OPPOSITES.get(token.normal)
        if opposites is None or _in_quote(a, token.normal):
            continue
        for position in (position for other in opposites - stated for position in _in_quote(a, other)):
            negated = token.negated or passage.tokens[position].negated or _negated_before(tokens, index)
            if not negated and _is_in_place_of(a, index, position):
                opposed.append(a.sentence.text[token.start : token.end])
                break
    return opposed


def _in_quote(a: Alignment, normal: str) -> list[int]:
    return [at for at in a.passage.normals.get(normal, ()) if a.passage.unit_of[at] in a.quote]


def _sentence_around(a: Alignment, index: int) -> list[Token]:
    at = a.sentence.content[index]
    return a.sentence.tokens[max(at - 6, 0) : at + 5]


def _passage_around(a: Alignment, positions: list[int]) -> list[Token]:
    return [token for at in positions for token in a.passage.tokens[max(at - 6, 0) : at + 5]]


def _has_near_neighbour(a: Alignment, index: int, positions: list[int]) -> bool:
    """Whether a neighbour of the sentence's token is near it in the passage too."""
    return any(_is_near(a, index, step, position) for step in (-1, 1) for position in positions)


def _is_by_neighbours(a: Alignment, index: int, position: int) -> bool:
    """Whether the tokens on both sides of a sentence's token, if there are any, are near it in the passage."""
    sides = [step for step in (-1, 1) if 0 <= index + step < len(a.content)]
    return all(_is_near(a, index, step, position) for step in sides)


def _is_near(a: Alignment, index: int, step: int, position: int) -> bool:
    """Whether a token's neighbour in a direction is near `position` in the passage, in the same direction."""
    if not 0 <= index + step < len(a.content):
        return False
    return any(0 < (there - position) * step <= BETWEEN for there in a.positions[index + step])


def _with_negator(a: Alignment, index: int) -> str:
    """The token with the text before it, up to the negator."""
    tokens, at = a.sentence.tokens, a.sentence.content[index]
    return " ".join(a.sentence.text[tokens[max(at - 2, 0)].start : tokens[at].end].split())


def _is_in_place_of(a: Alignment, index: int, position: int) -> bool:
    """Whether an opposite in the passage has the same tokens around it as the word in the sentence."""
    content = a.sentence.content
    left = content[0] >= index or not a.matched.isdisjoint(range(position - _AROUND, position))
    right = content[-1] <= index or not a.matched.isdisjoint(range(position + 1, position + _AROUND + 1))
    return left and right


def _negated_before(tokens: Sequence[Token], index: int) -> bool:
    before = {token.normal for token in tokens[max(index - 2, 0) : index]}
    return not before.isdisjoint(("not", "no", "t", "never", "kein", "nicht"))
