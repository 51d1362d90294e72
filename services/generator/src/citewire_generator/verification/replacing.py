"""Finds names and numbers of a sentence where the passage, between or beside the same words, has others."""

from citewire_generator.verification.coverage import Coverage
from citewire_generator.verification.numbers import MONTH
from citewire_generator.verification.words import Word, WordKind

SAID = 0.6
"""Share of a sentence's words that makes the passage speak of the same."""
BETWEEN = 6
"""Words between two anchors, at most."""
_BESIDE = 3
"""The same beside one anchor."""
_LINE = 5
"""The same words beside a name in sentence and passage, at most."""
_PLACES = 400
"""Places of a word that are looked at."""


class Replacing(Coverage):
    """One sentence in one passage, and which of its names and numbers stand where the passage has others."""

    def _may_be_name(self, place: int, word: Word) -> bool:
        """Whether a word without a name's form may be one: a sentence's first, or of a script without capitals."""
        if self.places[place] or self.index.in_headings(word):
            return False
        return word.subject or (word.caseless and not word.unspaced and len(word.normal) > 2)

    def _group(self, place: int, word: Word) -> range:
        """The items of the name that a word is part of; a number is alone."""
        groups = self.claim.groups
        if word.kind is not WordKind.NAME:
            return range(place, place + 1)
        last = place
        while last + 1 < len(groups) and groups[last + 1] == groups[place]:
            last += 1
        return range(groups[place], last + 1)

    def _is_said_of_another(self, place: int, word: Word) -> bool:
        """Whether the unit that says the rest of the sentence says it of another name or number.

        A name weighs much, so that a false one may draw the quote to a place where it stands by right.
        """
        group = self._group(place, word)
        weights = self.claim.weights
        rest = [one for one in range(len(self.items)) if one not in group]
        held: dict[int, float] = {}
        for one in rest:
            for unit in self.units[one]:
                held[unit] = held.get(unit, 0.0) + weights[one] * self.sure[one]
        own = {unit for one in group for unit in self.units[one]}
        if not own or not held:
            return False
        best = max(held, key=lambda unit: (held[unit], -unit))
        if best in own or best in self.window or held[best] < SAID * sum(weights[one] for one in rest):
            return False
        window, self.window = self.window, range(best, best + 1)
        try:
            return self._is_replaced(place, word)
        finally:
            self.window = window

    def _is_replaced(self, place: int, word: Word) -> bool:
        """Whether the quote has another name or number between the words that stand around one in the sentence."""
        group = self._group(place, word)
        first, last = group.start, group.stop - 1
        own = {spot for one in group for spot in self.places[one]}
        left, right = self._anchors(first - 1), self._anchors(last + 1)
        if word.kind is WordKind.NUMBER and self._is_in_date(first, own):
            return False
        in_line = word.kind is not WordKind.PLAIN and self._other_in_line(first, last, own, word)
        if in_line or (left and right):
            return in_line or self._other_between(left, right, own, word)
        left = left if self._in_one_clause(first - 1, first) else []
        right = right if self._in_one_clause(last, last + 1) else []
        if word.kind is WordKind.PLAIN and word.caseless:
            return False
        return self._other_beside(left or right, 1 if left else -1, own, word)

    def _is_in_date(self, place: int, own: set[int]) -> bool:
        """Whether a number stands in a date in digits that the passage has with its month's name."""
        words = self.index.words
        for beside in (place - 1, place + 1):
            if (
                not 0 <= beside < len(self.items)
                or self.items[beside].quantity is None
                or _is_month(self.items[beside])
            ):
                continue
            for spot in self.places[beside]:
                near = own.intersection(range(spot - _BESIDE + 1, spot + _BESIDE))
                reach = range(max(spot - _BESIDE + 1, 0), min(spot + _BESIDE, len(words)))
                if near and any(_is_month(words[one]) for one in reach):
                    return True
        return False

    def _other_in_line(self, first: int, last: int, own: set[int], word: Word) -> bool:
        """Whether another name or number stands by the very words that stand beside one in the sentence."""
        claim = self.claim
        start, stop = claim.items[first], claim.items[last]
        for step, at, content in ((-1, start - 1, first - 1), (1, stop + 1, last + 1)):
            edge = claim.items[content] if 0 <= content < len(self.items) else (-1 if step < 0 else len(claim.words))
            line = claim.words[min(at, edge) : max(at, edge) + 1] if 0 <= edge < len(claim.words) else []
            if not 0 < len(line) <= _LINE:
                continue
            near = line[-1] if step < 0 else line[0]
            for spot in self.index.normals.get(near.normal, [])[:_PLACES]:
                if self._is_line(line, spot, step) and self._follows_other(spot - step, -step, own, word):
                    return True
        return False

    def _is_line(self, line: list[Word], spot: int, step: int) -> bool:
        """Whether the passage has these words in this order, the one beside the name at `spot`."""
        words = self.index.words
        start = spot - len(line) + 1 if step < 0 else spot
        same = words[max(start, 0) : start + len(line)]
        if [word.normal for word in same] != [word.normal for word in line]:
            return False
        units = {self.index.unit_of[start], self.index.unit_of[spot]}
        return len(units) == 1 and not units.isdisjoint(self.window)

    def _follows_other(self, spot: int, step: int, own: set[int], word: Word) -> bool:
        words, units = self.index.words, self.index.unit_of
        if not 0 <= spot < len(words) or any(units[one] == units[spot] for one in own):
            return False
        return self._is_other(spot, word) and units[spot - step] == units[spot]

    def _anchors(self, place: int) -> list[int]:
        """Where in the quote a neighbour of a name or number is."""
        return self._spots_in_window(place) if 0 <= place < len(self.items) else []

    def _in_one_clause(self, one: int, other: int) -> bool:
        both = one >= 0 and other < len(self.items)
        return both and self.items[one].clause == self.items[other].clause

    def _is_torn(self, place: int) -> bool:
        """Whether two words of one name are in the passage, but nowhere near each other: they are parts of others."""
        groups = self.claim.groups
        if place + 1 == len(groups) or groups[place] != groups[place + 1] or self.near[place]:
            return False
        words, both = self.index.words, bool(self.places[place]) and bool(self.places[place + 1])
        after = any(spot + 1 < len(words) and words[spot + 1].kind is WordKind.NAME for spot in self.places[place])
        before = any(spot and words[spot - 1].kind is WordKind.NAME for spot in self.places[place + 1])
        return both and (after or before)

    def _other_between(self, left: list[int], right: list[int], own: set[int], word: Word) -> bool:
        units, other = self.index.unit_of, False
        for start in left:
            for end in right:
                if 1 < end - start <= BETWEEN and units[start] == units[end]:
                    between = range(start + 1, end)
                    if not own.isdisjoint(between):
                        return False
                    # The two stand side by side in the sentence: what is right between them is no word of its own.
                    close = len(between) <= _BESIDE
                    other = other or any(self._is_other(spot, word, used=close) for spot in between)
        return other

    def _other_beside(self, anchors: list[int], step: int, own: set[int], word: Word) -> bool:
        """The same where only one neighbour is in the quote: then it has to be right beside it."""
        units, other = self.index.unit_of, False
        for anchor in anchors:
            reach = range(anchor + step, anchor + step * (_BESIDE + 1), step)
            same = [spot for spot in reach if 0 <= spot < len(units) and units[spot] == units[anchor]]
            if any(units[spot] == units[anchor] for spot in own):
                return False
            other = other or any(self._is_other(spot, word) for spot in same)
        return other

    def _is_other(self, spot: int, word: Word, *, used: bool = False) -> bool:
        """Whether a word of the passage is of a sentence's word's kind, and (unless `used`) none of the sentence's."""
        there = self.index.words[spot]
        if spot in self.matched and not used:
            return False
        if word.kind is WordKind.PLAIN:
            return there.kind is WordKind.NAME or there.subject or (there.caseless and there.kind is WordKind.PLAIN)
        if there.kind is not word.kind and not (there.subject and word.kind is WordKind.NAME):
            return False
        if there.quantity is None or word.quantity is None:
            return True
        if _is_month(there) != _is_month(word):
            return False
        return there.quantity.word == word.quantity.word and not is_vague(there)


def is_vague(word: Word) -> bool:
    """Whether a number is said so often without being one that its absence tells nothing: one, first, both."""
    one = word.quantity
    return one is not None and one.word and one.values[0] <= 2 and not one.unit


def _is_month(word: Word) -> bool:
    return word.quantity is not None and word.quantity.unit == MONTH
