"""Aligns a sentence with a passage: where its tokens are, and which units of the passage hold most of them."""

from collections.abc import Container
from dataclasses import dataclass, replace
from itertools import pairwise

from citewire_verify.passages import PassageIndex
from citewire_verify.text.sentences import UnitKind
from citewire_verify.tokens import SentenceTokens, Token

MAX_QUOTE = 3
"""Maximum number of sentences in a quote."""
_GAIN = 0.1
"""Share of the sentence's weight that a further sentence has to add to a quote."""
_ADJACENT = 4
"""Maximum number of tokens in the passage between two neighbours of the sentence."""
_ADJACENT_SCORE = 0.3


@dataclass(frozen=True, slots=True)
class Alignment:
    """A sentence aligned with a passage. Lists are parallel to `content`; positions are indices of passage tokens."""

    sentence: SentenceTokens
    passage: PassageIndex
    content: list[Token]
    """The sentence's content tokens."""
    positions: list[list[int]]
    certainty: list[float]
    """How certain it is that the tokens match, 0–1."""
    units: list[set[int]]
    """The passage's units that contain the token."""
    adjacent: list[bool]
    """Whether the token and the next one are near each other somewhere in the passage; one fewer than tokens."""
    matched: set[int]
    """All positions."""
    quote: range
    """The units that support the sentence best; empty if none contains any of its tokens."""

    def positions_in(self, units: range, index: int) -> list[int]:
        """Returns a token's positions in some units."""
        return [position for position in self.positions[index] if self.passage.unit_of[position] in units]

    def share(self, indices: Container[int]) -> float:
        """Returns the share of the sentence's weight that some of its tokens have."""
        weights = zip(self.sentence.weights, self.certainty, strict=True)
        covered = sum(weight * sure for index, (weight, sure) in enumerate(weights) if index in indices)
        return covered / self.sentence.total

    def coverage(self, units: range) -> float:
        """Returns the share of the sentence's weight that some units cover."""
        inside = set(units)
        return self.share({index for index, held in enumerate(self.units) if not inside.isdisjoint(held)})

    def best_further_unit(self) -> float:
        """Returns the share that one more unit adds to the quote."""
        inside = set(self.quote)
        gains: dict[int, float] = {}
        for index, units in enumerate(self.units):
            if inside.isdisjoint(units):
                for unit in units:
                    gains[unit] = gains.get(unit, 0.0) + self.sentence.weights[index] * self.certainty[index]
        return max(gains.values(), default=0.0) / self.sentence.total

    def is_verbatim(self) -> bool:
        """Whether the passage contains the sentence verbatim, apart from white space."""
        return " ".join(self.sentence.text.casefold().split()).rstrip(".。") in self.passage.flat


def align(sentence: SentenceTokens, passage: PassageIndex) -> Alignment:
    """Finds a sentence's tokens in a passage, and the quote that supports it best."""
    content = [sentence.tokens[index] for index in sentence.content]
    finds = [passage.find(token) for token in content]
    positions = [places for places, _ in finds]
    located = Alignment(
        sentence=sentence,
        passage=passage,
        content=content,
        positions=positions,
        certainty=[sure for _, sure in finds],
        units=[{passage.unit_of[position] for position in places} - {-1} for places in positions],
        adjacent=[_are_adjacent(first, second) for first, second in pairwise(positions)],
        matched={position for places in positions for position in places},
        quote=range(0),
    )
    return replace(located, quote=_find_quote(located))


def _are_adjacent(first: list[int], second: list[int]) -> bool:
    after = set(second)
    return any(position + step in after for position in first for step in range(1, _ADJACENT + 1))


def _find_quote(a: Alignment) -> range:
    """Finds the unit that covers most of the sentence, with neighbouring sentences that each add enough."""
    best = _best_unit(a)
    if best is None:
        return range(0)
    quote, covered = range(best, best + 1), a.coverage(range(best, best + 1))
    while len(quote) < MAX_QUOTE:
        wider = [
            (a.coverage(units), units)
            for units in (range(quote.start - 1, quote.stop), range(quote.start, quote.stop + 1))
            if units.start >= 0 and units.stop <= len(a.passage.units) and _is_running_text(a.passage, units)
        ]
        wider = [(share, units) for share, units in wider if share - covered >= _GAIN]
        if not wider:
            break
        covered, quote = max(wider, key=lambda pair: pair[0])
    return quote


def _best_unit(a: Alignment) -> int | None:
    scores: dict[int, float] = {}
    for index, units in enumerate(a.units):
        weight = a.sentence.weights[index] * a.certainty[index]
        for unit in units:
            scores[unit] = scores.get(unit, 0.0) + weight
    for index, adjacent in enumerate(a.adjacent):
        if adjacent:
            for unit in a.units[index] & a.units[index + 1]:
                scores[unit] += _ADJACENT_SCORE
    quotable = [unit for unit in scores if a.passage.quotable(unit)]
    return max(quotable, key=lambda unit: (scores[unit], -unit), default=None)


def _is_running_text(passage: PassageIndex, units: range) -> bool:
    return all(passage.units[unit].kind is UnitKind.SENTENCE for unit in units)
