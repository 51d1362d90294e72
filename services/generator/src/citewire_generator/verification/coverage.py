"""Which part of a sentence is in a passage, and which of its units hold most of it."""

from collections.abc import Callable

from citewire_generator.text.sentences import UnitKind
from citewire_generator.verification.claims import Claim
from citewire_generator.verification.passages import PassageIndex

MAX_QUOTE = 3
"""Sentences of a quote."""
_GAIN = 0.1
"""Share of the sentence's words that a further sentence has to add to a quote."""
_NEAR = 4
"""Words between two neighbours of a sentence, at most, that are neighbours in the passage too."""


class Coverage:
    """One sentence in one passage."""

    def __init__(self, claim: Claim, index: PassageIndex) -> None:
        self.claim, self.index = claim, index
        self.items = [claim.words[item] for item in claim.items]
        found = [index.find(word) for word in self.items]
        self.places = [places for places, _ in found]
        self.sure = [sure for _, sure in found]
        self.units = [{index.unit_of[place] for place in places} - {-1} for places in self.places]
        self.total = claim.total or 1.0
        self.matched = {spot for places in self.places for spot in places}
        self.window = range(0)
        self.near: list[bool] = self._pairs()

    def _pairs(self) -> list[bool]:
        """Whether each item and the next one stand near each other somewhere in the passage."""
        near: list[bool] = []
        for one, other in zip(self.places, self.places[1:], strict=False):
            there = set(other)
            near.append(any(place + step in there for place in one for step in range(1, _NEAR + 1)))
        return near

    def _best_unit(self) -> int | None:
        scores: dict[int, float] = {}
        for place, units in enumerate(self.units):
            weight = self.claim.weights[place] * self.sure[place]
            for unit in units:
                scores[unit] = scores.get(unit, 0.0) + weight
        for place, near in enumerate(self.near):
            if near:
                for unit in self.units[place] & self.units[place + 1]:
                    scores[unit] += 0.3
        quotable = [unit for unit in scores if self.index.quotable(unit)]
        if not quotable:
            return None
        return max(quotable, key=lambda unit: (scores[unit], -unit))

    def _cover(self, units: range) -> float:
        inside = set(units)
        return self._weight(lambda place: not inside.isdisjoint(self.units[place]))

    def _weight(self, is_in: Callable[[int], bool]) -> float:
        claim = self.claim
        covered = sum(claim.weights[i] * self.sure[i] for i in range(len(self.items)) if is_in(i))
        return covered / self.total

    def _widen(self, best: int) -> range:
        """Adds neighbouring sentences to a quote, each only if it adds enough."""
        chosen = range(best, best + 1)
        while len(chosen) < MAX_QUOTE:
            now = self._cover(chosen)
            wider = [
                range(start, stop)
                for start, stop in ((chosen.start - 1, chosen.stop), (chosen.start, chosen.stop + 1))
                if start >= 0 and stop <= len(self.index.units) and self._is_running_text(range(start, stop))
            ]
            gains = [(self._cover(one) - now, one) for one in wider]
            gains = [(gain, one) for gain, one in gains if gain >= _GAIN]
            if not gains:
                break
            chosen = max(gains, key=lambda pair: pair[0])[1]
        return chosen

    def _is_running_text(self, units: range) -> bool:
        return all(self.index.units[unit].kind is UnitKind.SENTENCE for unit in units)

    def _second(self, cover: float) -> float:
        """Coverage of the quote and one more unit."""
        inside = set(self.window)
        gains: dict[int, float] = {}
        for place, units in enumerate(self.units):
            if inside.isdisjoint(units):
                for unit in units:
                    gains[unit] = gains.get(unit, 0.0) + self.claim.weights[place] * self.sure[place]
        return cover + max(gains.values(), default=0.0) / self.total

    # What isn't as the sentence says.

    def _spots_in_window(self, place: int) -> list[int]:
        inside = set(self.window)
        return [spot for spot in self.places[place] if self.index.unit_of[spot] in inside]
