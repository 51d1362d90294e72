"""A packed passage, made ready to look for what a sentence says."""

import re
from bisect import bisect_right
from collections import defaultdict

from citewire_generator.model import PackedPassage
from citewire_generator.text.sentences import Unit, UnitKind, looks_like_code, split_units
from citewire_generator.verification.numbers import MONTH, base_amounts, month_value, rounds_to
from citewire_generator.verification.words import Word, WordKind, read_words

MAX_READ = 60_000
"""Code points of a passage that are read; what lies behind supports nothing."""
_STEM = 5
"""Letters that forms of a word have in common at least."""
_MOST = 24
"""Places of a word that are looked at."""
_INITIALS = 2
_IN_DATE = re.compile(r"\d[-./]\||\|[-./]\d|\|\s?[月월]")
"""What stands around a date's part."""


class PassageIndex:
    """Words and units of one passage."""

    def __init__(self, packed: PackedPassage) -> None:
        passage = packed.passage
        self.text = passage.text[: min(packed.chars, MAX_READ)]
        self.folded = self.text.casefold()
        self.flat = " ".join(self.folded.split())
        code = looks_like_code(self.text)
        self.units: list[Unit] = split_units(self.text, code=code)
        self.words: list[Word] = read_words(self.text)
        self.unit_of: list[int] = self._units_of()
        self._places: dict[str, list[int]] = defaultdict(list)
        self._stems: dict[str, list[int]] = defaultdict(list)
        self._values: dict[float, list[int]] = defaultdict(list)
        self._numbers: list[int] = []
        self.normals: dict[str, list[int]] = defaultdict(list)
        initials = ""
        self._initials: dict[str, int] = {}
        for place, word in enumerate(self.words):
            self.normals[word.normal].append(place)
            if word.quantity is not None:
                self._numbers.append(place)
                for value in word.quantity.values:
                    self._values[value].append(place)
            elif word.kind is not WordKind.STOP:
                self._places[word.key].append(place)
                if len(word.normal) > _STEM:
                    self._stems[word.normal[:_STEM]].append(place)
            if word.quantity is None and (word.kind is not WordKind.STOP or word.capital):
                month = month_value(word.normal)
                if month is not None:
                    self._values[month].append(place)
            initials = (initials + word.normal[0])[-6:] if word.capital else ""
            for length in range(_INITIALS, len(initials) + 1):
                self._initials.setdefault(initials[-length:], place - length + 1)
        headings = "\n".join((passage.title, passage.section, passage.file_name, passage.place))
        self.headings = read_words(headings)
        self._heading_keys = {word.key for word in self.headings if word.quantity is None}
        self._heading_values = {
            value for word in self.headings if word.quantity is not None for value in word.quantity.values
        }

    def _units_of(self) -> list[int]:
        """The unit of each word; -1 for a word in none."""
        starts = [unit.start for unit in self.units]
        found: list[int] = []
        for word in self.words:
            index = bisect_right(starts, word.start) - 1
            found.append(index if index >= 0 and word.start < self.units[index].end else -1)
        return found

    def find(self, word: Word) -> tuple[list[int], float]:
        """Where a sentence's word is in the passage, and how surely that is the same word, 0–1."""
        if word.quantity is not None:
            return self._find_number(word), 1.0
        places = self._places.get(word.key)
        if places:
            return places[:_MOST], 1.0
        places = self.normals.get(word.normal)
        if places:
            return places[:_MOST], 1.0
        if len(word.normal) > _STEM and not word.unspaced:
            alike = [
                place for place in self._stems.get(word.normal[:_STEM], ())[:_MOST] if _alike(self.words[place], word)
            ]
            if alike:
                return alike, 0.8
        if word.kind is WordKind.NAME and 1 < len(word.normal) <= 6 and word.normal in self._initials:
            return [self._initials[word.normal]], 0.9
        return [], 0.0

    def in_headings(self, word: Word) -> bool:
        """Whether title, section, file name or place hold a word."""
        if word.quantity is not None:
            return not self._heading_values.isdisjoint(word.quantity.values)
        return word.key in self._heading_keys

    def _find_number(self, word: Word) -> list[int]:
        claimed = word.quantity
        if claimed is None:
            return []
        places = [place for value in claimed.values for place in self._values.get(value, ())[:_MOST]]
        if claimed.unit == MONTH:
            return sorted(place for place in places if self._is_month(self.words[place]))
        if claimed.whole:
            return self._find_parts(word, places)
        fitting = [place for place in places if not _other_unit(word, self.words[place])]
        if fitting:
            return sorted(fitting)
        if amounts := base_amounts(claimed):
            return [place for place in self._numbers[:400] if _same_amount(amounts, self.words[place])][:_MOST]
        if places:
            return []
        return [
            place
            for place in self._numbers[:400]
            if any(rounds_to(value, claimed) for value in _values(self.words[place]))
        ][:_MOST]

    def _is_month(self, word: Word) -> bool:
        """Whether a word names a month, or is a number that may stand for one, as in `2024-05-03` or `5月`."""
        one = word.quantity
        if one is None or one.unit == MONTH:
            return True
        beside = self.text[max(word.start - 2, 0) : word.start] + "|" + self.text[word.end : word.end + 2]
        return bool(one.whole) or _IN_DATE.search(beside) is not None

    def _find_parts(self, word: Word, places: list[int]) -> list[int]:
        """A number that counts only as a whole: as it is, or, for a date, with its parts near one another."""
        claimed = word.quantity
        if claimed is None:
            return []
        found = [(place, self.words[place].quantity) for place in sorted(set(places))]
        same = [place for place, one in found if one is not None and one.whole == claimed.whole]
        if same:
            return same
        parts = [place for place, one in found if one is None or not one.whole]
        held = {value for place in parts for value in self._values_at(place)}
        return parts if held.issuperset(claimed.values) else []

    def _values_at(self, place: int) -> tuple[float, ...]:
        month = month_value(self.words[place].normal)
        return _values(self.words[place]) or (() if month is None else (month,))

    def quotable(self, unit: int) -> bool:
        """Whether a unit says something by itself."""
        return self.units[unit].kind is not UnitKind.HEADING


def _same_amount(amounts: list[float], word: Word) -> bool:
    """Whether a number is another in another unit: two weeks, 14 days."""
    others = base_amounts(word.quantity) if word.quantity is not None else []
    return any(abs(one - other) <= 1e-6 * one for one in amounts for other in others)


def _values(word: Word) -> tuple[float, ...]:
    return word.quantity.values if word.quantity is not None else ()


def _other_unit(one: Word, other: Word) -> bool:
    """Whether two equal numbers count different things of one kind: 14 days, 14 months; 5 %, 5 km."""
    if one.quantity is None or other.quantity is None:
        return False
    a, b = one.quantity, other.quantity
    if a.unit and b.unit:
        return a.unit != b.unit and a.unit.split()[0] == b.unit.split()[0]
    return bool((a.percent and b.unit) or (b.percent and a.unit))


def _alike(one: Word, other: Word) -> bool:
    """Whether two words are forms of one, by their common beginning."""
    a, b = one.normal, other.normal
    common = 0
    for x, y in zip(a, b, strict=False):
        if x != y:
            break
        common += 1
    return common >= 0.65 * max(len(a), len(b)) and abs(len(a) - len(b)) <= _STEM
