"""Looks in a passage for what a sentence says: the best quote, what is covered, and what is otherwise there.

Words are compared by stems, names by their parts and initials, numbers by value and unit. Where a sentence's words
stand around a name or number as they do in the passage, but around another one, that is a contradiction, even if the
sentence's own name or number is elsewhere in the passage. So is a word that is denied on one side only, or whose
opposite is there.
All work is linear in the passage's words; each word of the sentence is looked for at a bounded number of places.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

from citewire_generator.text.sentences import UnitKind
from citewire_generator.verification.claims import Claim
from citewire_generator.verification.passages import PassageIndex
from citewire_generator.verification.unspaced import replaced_runs
from citewire_generator.verification.vocabulary import OPPOSITES
from citewire_generator.verification.words import Word, WordKind, denies, softly_denied

FEATURES = (
    "cover",  # share of the sentence's words in the quote, by weight
    "cover_two",  # the same with one more unit of the passage
    "cover_all",  # the same with the whole passage and its headings
    "pairs",  # share of neighbouring words that are near one another in the passage
    "names",  # share of the sentence's names that are nowhere in the passage
    "numbers",  # share of its numbers that are nowhere there
    "replaced",  # 1 if a name or number stands where the passage has another
    "denied",  # 1 if something is denied on one side only
    "opposite",  # 1 if the passage has the opposite of a word
)
MAX_QUOTE = 3
"""Sentences of a quote."""
_GAIN = 0.1
"""Share of the sentence's words that a further sentence has to add to a quote."""
_NEAR = 4
_FIRST = 2
_SAID = 0.6
"""Share of a sentence's words that makes the passage speak of the same."""
_BETWEEN = 6
"""Words between two anchors, at most."""
_BESIDE = 3
"""The same beside one anchor."""


@dataclass(slots=True)
class Evidence:
    """What a passage says about a sentence."""

    start: int = 0
    """The quote's span in the passage's text."""
    end: int = 0
    features: tuple[float, ...] = (0.0,) * len(FEATURES)
    covered: dict[int, float] = field(default_factory=dict[int, float])
    """Items of the sentence that are in the passage, and how surely."""
    missing: dict[int, str] = field(default_factory=dict[int, str])
    """Items, names or numbers, that aren't, as they are written."""
    replaced: dict[int, str] = field(default_factory=dict[int, str])
    """Items where the passage has another."""
    near: list[bool] = field(default_factory=list[bool])
    """Of each item, whether it and the next one are near each other in the passage."""
    turned: list[str] = field(default_factory=list[str])
    """Words that are denied on one side only, or whose opposite is there."""

    @property
    def mismatches(self) -> list[str]:
        """Everything that isn't as the sentence says, as written there, each once."""
        return list(dict.fromkeys([*self.missing.values(), *self.replaced.values(), *self.turned]))


class _Search:
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

    def run(self) -> Evidence:
        evidence = Evidence(near=self.near)
        if not self.items or not self.index.units:
            return evidence
        best = self._best_unit()
        if best is None:
            self._find_missing(evidence)
            evidence.features = self._features(evidence, 0.0, 0.0)
            return evidence
        self.window = self._widen(best)
        cover = self._cover(self.window)
        second = self._second(cover)
        units = self.index.units
        evidence.start, evidence.end = units[self.window[0]].start, units[self.window[-1]].end
        self._find_missing(evidence)
        verbatim = self._is_verbatim()
        if not verbatim:
            self._find_replaced(evidence)
            if self.claim.unspaced:
                self._find_unspaced(evidence)
        # Inside a sentence that is there word for word nothing is turned; only what stands before it can do that.
        self._find_denied(evidence, self.items[:_FIRST] if verbatim else self.items)
        denied = bool(evidence.turned)
        opposite = not verbatim and self._find_opposites(evidence)
        evidence.features = self._features(evidence, cover, second, denied=denied, opposite=opposite)
        return evidence

    # What is covered, and by which units.

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

    def _find_missing(self, evidence: Evidence) -> None:
        """Names and numbers that are neither in the passage nor in its headings."""
        for place, word in enumerate(self.items):
            known = bool(self.places[place]) or self.index.in_headings(word)
            if known:
                evidence.covered[place] = self.sure[place] or 1.0
        covered = sum(self.claim.weights[place] for place in evidence.covered)
        for place, word in enumerate(self.items):
            named = word.kind in {WordKind.NAME, WordKind.NUMBER}
            # The first word may be a name; it is one of another if most of what is said of it is there.
            named = named or (word.subject and covered >= _SAID * (self.total - self.claim.weights[place]))
            if place in evidence.covered or not named:
                continue
            if _is_vague(word):
                continue
            evidence.missing[place] = self._written(place)
        for name in self.claim.foreign:
            if name.casefold() not in self.index.folded:
                evidence.missing[-1 - len(evidence.missing)] = name

    def _written(self, place: int) -> str:
        """A name whole, a number with its percent sign."""
        word = self.items[place]
        if word.kind is WordKind.NUMBER:
            return self.claim.text[word.start : word.end]
        group = self.claim.groups[place]
        members = [one for one, other in zip(self.items, self.claim.groups, strict=True) if other == group]
        return self.claim.text[members[0].start : members[-1].end]

    def _find_replaced(self, evidence: Evidence) -> None:
        """Names and numbers where, between the same words, the passage has others."""
        for place, word in enumerate(self.items):
            unnamed = word.kind not in {WordKind.NAME, WordKind.NUMBER} and not self._may_be_name(place, word)
            if unnamed or _is_vague(word):
                continue
            if self._is_replaced(place, word):
                evidence.replaced[place] = self._written(place)

    def _is_verbatim(self) -> bool:
        """Whether the passage has the sentence word for word, white space aside."""
        said = " ".join(self.claim.text.casefold().split()).rstrip(".。")
        return said in self.index.flat

    def _find_unspaced(self, evidence: Evidence) -> None:
        words = self.index.words
        pairs = [
            (word.start, word.end, [(words[spot].start, words[spot].end) for spot in self._spots_in_window(place)])
            for place, word in enumerate(self.items)
        ]
        for number, run in enumerate(replaced_runs(self.claim.text, pairs, self.index.text)):
            evidence.replaced[-1 - number] = run

    def _may_be_name(self, place: int, word: Word) -> bool:
        """Whether a word without a name's form may be one: a sentence's first, or of a script without capitals."""
        if self.places[place] or self.index.in_headings(word):
            return False
        return word.subject or (word.caseless and not word.unspaced and len(word.normal) > 2)

    def _is_replaced(self, place: int, word: Word) -> bool:
        """Whether the quote has another name or number between the words that stand around one in the sentence."""
        groups = self.claim.groups
        first = groups[place] if word.kind is WordKind.NAME else place
        last = place
        while word.kind is WordKind.NAME and last + 1 < len(groups) and groups[last + 1] == first:
            last += 1
        own = {spot for one in range(first, last + 1) for spot in self.places[one]}
        left = self._anchors(first - 1, first)
        right = self._anchors(last + 1, last)
        if left and right:
            return self._other_between(left, right, own, word)
        if word.kind is WordKind.PLAIN and word.caseless:
            return False
        return self._other_beside(left or right, 1 if left else -1, own, word)

    def _anchors(self, place: int, beside: int) -> list[int]:
        """Where in the quote a neighbour of a name or number is; nowhere if it is in another clause."""
        if not 0 <= place < len(self.items) or self.items[place].clause != self.items[beside].clause:
            return []
        return self._spots_in_window(place)

    def _other_between(self, left: list[int], right: list[int], own: set[int], word: Word) -> bool:
        units, other = self.index.unit_of, False
        for start in left:
            for end in right:
                if 1 < end - start <= _BETWEEN and units[start] == units[end]:
                    between = range(start + 1, end)
                    if not own.isdisjoint(between):
                        return False
                    other = other or any(self._is_other(spot, word) for spot in between)
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

    def _is_other(self, spot: int, word: Word) -> bool:
        """Whether a word of the passage is of a sentence's word's kind, and none of the sentence's."""
        there = self.index.words[spot]
        if spot in self.matched:
            return False
        if word.kind is WordKind.PLAIN:
            return there.kind is WordKind.NAME or there.subject or (there.caseless and there.kind is WordKind.PLAIN)
        if there.kind is not word.kind and not (there.subject and word.kind is WordKind.NAME):
            return False
        if there.quantity is None or word.quantity is None:
            return True
        return there.quantity.word == word.quantity.word and not _is_vague(there)

    def _find_denied(self, evidence: Evidence, items: list[Word]) -> None:
        index, claim = self.index, self.claim
        if claim.unspaced:
            quote = index.text[evidence.start : evidence.end]
            if (
                self._cover(self.window) >= _SAID
                and len(items) == len(self.items)
                and denies(claim.text) != denies(quote)
            ):
                evidence.turned.append(claim.text[:40])
            return
        for place, word in enumerate(items):
            spots = self._spots_in_window(place)
            if not spots:
                continue
            item = claim.items[place]
            here = claim.words[max(item - 6, 0) : item + 5]
            there = [one for spot in spots for one in index.words[max(spot - 6, 0) : spot + 5]]
            if word.head and word.kind is not WordKind.NUMBER:
                same = any(index.words[spot].denied % 2 == word.denied % 2 for spot in spots)
                if not same and not softly_denied(there, here):
                    evidence.turned.append(self._with_negator(place))
                continue
            denied = all(index.words[spot].head and index.words[spot].denied % 2 != word.denied % 2 for spot in spots)
            if denied and not softly_denied(here, there) and self._anchored(place, spots):
                evidence.turned.append(claim.text[word.start : word.end])

    def _spots_in_window(self, place: int) -> list[int]:
        inside = set(self.window)
        return [spot for spot in self.places[place] if self.index.unit_of[spot] in inside]

    def _anchored(self, place: int, spots: list[int]) -> bool:
        """Whether a neighbour of the sentence's word is near it in the passage too."""
        for step in (-1, 1):
            if 0 <= place + step < len(self.items):
                beside = self.places[place + step]
                if any(0 < (there - spot) * step <= _BETWEEN for spot in spots for there in beside):
                    return True
        return False

    def _with_negator(self, place: int) -> str:
        """The word with what stands before it, up to the negator."""
        words, item = self.claim.words, self.claim.items[place]
        start = max(item - 2, 0)
        return " ".join(self.claim.text[words[start].start : words[item].end].split())

    def _find_opposites(self, evidence: Evidence) -> bool:
        """Words of the sentence that the passage doesn't have, with their opposites near the same words."""
        index, claim = self.index, self.claim
        inside = set(self.window)
        matched = self.matched
        found = False
        for number, word in enumerate(claim.words):
            others = OPPOSITES.get(word.normal)
            if others is None or any(index.unit_of[spot] in inside for spot in index.normals.get(word.normal, ())):
                continue
            spots = [spot for other in others for spot in index.normals.get(other, ()) if index.unit_of[spot] in inside]
            for spot in spots:
                before = not matched.isdisjoint(range(spot - 3, spot))
                after = not matched.isdisjoint(range(spot + 1, spot + 4))
                denied = word.denied or index.words[spot].denied or _negated_before(claim.words, number)
                if before and after and not denied:
                    evidence.turned.append(claim.text[word.start : word.end])
                    found = True
                    break
        return found

    def _features(
        self, evidence: Evidence, cover: float, second: float, *, denied: bool = False, opposite: bool = False
    ) -> tuple[float, ...]:
        claim = self.claim
        everywhere = sum(claim.weights[place] * sure for place, sure in evidence.covered.items()) / self.total
        titled = (
            sum(claim.weights[place] for place in evidence.covered if not self.places[place]) / self.total
        )  # what headings alone say
        pairs = sum(self.near) / len(self.near) if self.near else everywhere
        return (
            min(cover, 1.0),
            min(second + titled, 1.0),
            min(everywhere, 1.0),
            pairs,
            missing_share(claim, evidence, WordKind.NAME),
            missing_share(claim, evidence, WordKind.NUMBER),
            float(bool(evidence.replaced)),
            float(denied),
            float(opposite),
        )


def examine(claim: Claim, index: PassageIndex) -> Evidence:
    """Looks in a passage for what a sentence says."""
    return _Search(claim, index).run()


def missing_share(claim: Claim, evidence: Evidence, kind: WordKind) -> float:
    """Share of a sentence's names, or numbers, that are missing."""
    of_kind = {place for place, item in enumerate(claim.items) if claim.words[item].kind is kind}
    return len(evidence.missing.keys() & of_kind) / len(of_kind) if of_kind else 0.0


def _is_vague(word: Word) -> bool:
    """Whether a number is said so often without being one that its absence tells nothing: one, first, both."""
    one = word.quantity
    return one is not None and one.word and one.values[0] <= 2 and not one.unit


def _negated_before(words: list[Word], number: int) -> bool:
    return any(
        word.normal in {"not", "no", "t", "never", "kein", "nicht"} for word in words[max(number - 2, 0) : number]
    )
