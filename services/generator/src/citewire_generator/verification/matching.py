"""Looks in a passage for what a sentence says: the best quote, what is covered, and what is otherwise there.

Words are compared by stems, names by their parts and initials, numbers by value and unit. Where a sentence's words
stand around a name or number as they do in the passage, but around another one, that is a contradiction, even if the
sentence's own name or number is elsewhere in the passage. So is a word that is denied on one side only, or whose
opposite is there.
All work is linear in the passage's words; each word of the sentence is looked for at a bounded number of places.
"""

from dataclasses import dataclass, field

from citewire_generator.verification.claims import Claim
from citewire_generator.verification.passages import PassageIndex
from citewire_generator.verification.replacing import BETWEEN, SAID, Replacing, is_vague
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
_FIRST = 2
"""Words of a sentence that is there word for word, that something before it may deny."""


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


class _Search(Replacing):
    """One sentence in one passage, and what it says otherwise."""

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
            named = named or (word.subject and covered >= SAID * (self.total - self.claim.weights[place]))
            if place in evidence.covered or not named:
                continue
            if is_vague(word):
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
            if unnamed or is_vague(word):
                continue
            if word.kind is WordKind.NAME and self._is_torn(place):
                evidence.missing[place] = self._written(place)
            if self._is_replaced(place, word) or self._is_said_of_another(place, word):
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

    def _find_denied(self, evidence: Evidence, items: list[Word]) -> None:
        index, claim = self.index, self.claim
        if claim.unspaced:
            quote = index.text[evidence.start : evidence.end]
            if (
                self._cover(self.window) >= SAID
                and len(items) == len(self.items)
                and denies(claim.text) != denies(quote)
            ):
                evidence.turned.append(claim.text[:40])
            return
        for place, word in enumerate(items):
            spots = self._spots_in_window(place)
            if len(spots) > 1:
                # The passage may have a word twice, and deny it once: where its neighbours are counts.
                spots = [spot for spot in spots if self._is_by_neighbours(place, spot)] or spots
            if not spots or word.kind is WordKind.NUMBER:
                continue
            item = claim.items[place]
            here = claim.words[max(item - 6, 0) : item + 5]
            there = [one for spot in spots for one in index.words[max(spot - 6, 0) : spot + 5]]
            if word.head:
                same = any(index.words[spot].denied % 2 == word.denied % 2 for spot in spots)
                if not same and not softly_denied(there, here):
                    evidence.turned.append(self._with_negator(place))
                continue
            denied = all(index.words[spot].head and index.words[spot].denied % 2 != word.denied % 2 for spot in spots)
            if denied and not softly_denied(here, there) and self._anchored(place, spots):
                evidence.turned.append(claim.text[word.start : word.end])

    def _anchored(self, place: int, spots: list[int]) -> bool:
        """Whether a neighbour of the sentence's word is near it in the passage too."""
        for step in (-1, 1):
            if 0 <= place + step < len(self.items):
                beside = self.places[place + step]
                if any(0 < (there - spot) * step <= BETWEEN for spot in spots for there in beside):
                    return True
        return False

    def _is_by_neighbours(self, place: int, spot: int) -> bool:
        """Whether the sentence's words on both sides of a word, where there are any, are close to it in the passage."""
        for step in (-1, 1):
            beside = place + step
            if 0 <= beside < len(self.items) and not any(
                0 < (there - spot) * step <= BETWEEN for there in self.places[beside]
            ):
                return False
        return True

    def _with_negator(self, place: int) -> str:
        """The word with what stands before it, up to the negator."""
        words, item = self.claim.words, self.claim.items[place]
        start = max(item - 2, 0)
        return " ".join(self.claim.text[words[start].start : words[item].end].split())

    def _find_opposites(self, evidence: Evidence) -> bool:
        """Words of the sentence that the passage doesn't have, with their opposites near the same words."""
        index, claim = self.index, self.claim
        inside = set(self.window)
        said = {word.normal for word in claim.words}
        found = False
        for number, word in enumerate(claim.words):
            others = OPPOSITES.get(word.normal)
            if others is None or any(index.unit_of[spot] in inside for spot in index.normals.get(word.normal, ())):
                continue
            spots = [
                spot
                for other in others - said
                for spot in index.normals.get(other, ())
                if index.unit_of[spot] in inside
            ]
            for spot in spots:
                denied = word.denied or index.words[spot].denied or _negated_before(claim.words, number)
                if not denied and self._is_instead(number, spot):
                    evidence.turned.append(claim.text[word.start : word.end])
                    found = True
                    break
        return found

    def _is_instead(self, number: int, spot: int) -> bool:
        """Whether a word of the passage has the sentence's words around it that stand around one there."""
        items = self.claim.items
        before, after = items[0] < number, items[-1] > number
        left = not self.matched.isdisjoint(range(spot - 4, spot))
        right = not self.matched.isdisjoint(range(spot + 1, spot + 5))
        return (left or not before) and (right or not after)

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


def _negated_before(words: list[Word], number: int) -> bool:
    return any(
        word.normal in {"not", "no", "t", "never", "kein", "nicht"} for word in words[max(number - 2, 0) : number]
    )
