"""A passage, indexed so that a sentence's tokens are found in it."""

import re
from bisect import bisect_left
from collections import defaultdict
from dataclasses import dataclass
from functools import cached_property

from citewire_verify.forms import TokenKind
from citewire_verify.numbers import Quantity, agree, base_amounts, month_value, rounds_to
from citewire_verify.text.sentences import Unit, UnitKind, looks_like_code, split_units
from citewire_verify.tokens import Token, tokenise
from citewire_verify.units import unit_named

MAX_READ = 60_000
"""Code points of a passage that are read; the rest is ignored."""
_STEM = 5
"""Minimum number of initial letters that forms of a word share."""
_MOST = 24
"""Maximum number of positions of a token that are checked."""
_MOST_NUMBERS = 400
"""Maximum number of a passage's numbers checked for another way to write an amount."""
_INITIALS = 2
_IN_DATE = re.compile(r"\d[-./]\||\|[-./]\d|\|\s?[月월]")
"""Characters around a part of a date."""


@dataclass(frozen=True, slots=True)
class Passage:
    """A text that an answer cites."""

    text: str
    headings: str = ""
    """Title, section, file name, place: what a sentence takes from them counts as supported, but isn't quoted."""


class PassageIndex:
    """Tokens and units of one passage, with the positions of each token. A position is an index in `tokens`."""

    def __init__(self, passage: Passage) -> None:
        self.text = passage.text[:MAX_READ]
        self.folded = self.text.casefold()
        self.flat = " ".join(self.folded.split())
        """The text with each run of white space replaced by one space."""
        self.units: list[Unit] = split_units(self.text, code=looks_like_code(self.text))
        self.tokens = tokenise(self.text)
        self.unit_of: list[int] = self._units_of()
        """The unit of each token; -1 for none."""
        self.normals: dict[str, list[int]] = defaultdict(list)
        """Positions by spelling."""
        self._keys: dict[str, list[int]] = defaultdict(list)
        self._values: dict[float, list[int]] = defaultdict(list)
        self._numbers: list[int] = []
        self._initials: dict[str, int] = {}
        marked = self.tokens.marked
        for position, form in enumerate(marked.forms):
            self.normals[form.normal].append(position)
        for position, (form, kind) in enumerate(zip(marked.forms, marked.kinds, strict=True)):
            if kind is not TokenKind.STOP and kind is not TokenKind.NUMBER:
                self._keys[form.key].append(position)
        for position in marked.notable:
            form, kind = marked.forms[position], marked.kinds[position]
            quantity = marked.quantities.get(position)
            if quantity is not None:
                self._add_number(position, quantity)
            elif form.month is not None and (kind is not TokenKind.STOP or form.capital):
                self._values[form.month].append(position)
        self._add_initials()
        headings = tokenise(passage.headings)
        self._heading_keys = {token.key for token in headings if token.quantity is None}
        self._heading_values = {value for token in headings if token.quantity for value in token.quantity.values}

    def _add_number(self, position: int, quantity: Quantity) -> None:
        self._numbers.append(position)
        for value in (*quantity.values, *quantity.scaled):
            self._values[value].append(position)

    def _add_initials(self) -> None:
        initials, last = "", -1
        for position in self.tokens.marked.notable:
            form = self.tokens.marked.forms[position]
            if not form.capital:
                continue
            initials = ((initials if position == last + 1 else "") + form.normal[0])[-6:]
            last = position
            for length in range(_INITIALS, len(initials) + 1):
                self._initials.setdefault(initials[-length:], position - length + 1)

    @cached_property
    def _stems(self) -> dict[str, list[int]]:
        """Positions of content words by their beginnings."""
        stems: dict[str, list[int]] = defaultdict(list)
        kinds = self.tokens.marked.kinds
        for normal, positions in self.normals.items():
            if len(normal) > _STEM:
                for at in positions:
                    if kinds[at] is not TokenKind.STOP and kinds[at] is not TokenKind.NUMBER:
                        stems[normal[:_STEM]].append(at)
        for positions in stems.values():
            positions.sort()
        return stems

    def _units_of(self) -> list[int]:
        units = [-1] * len(self.tokens)
        starts = self.tokens.marked.starts
        for index, unit in enumerate(self.units):
            inside = range(bisect_left(starts, unit.start), bisect_left(starts, unit.end))
            units[inside.start : inside.stop] = [index] * len(inside)
        return units

    def positions_of(self, unit: int) -> range:
        """Returns the positions of the tokens in a unit."""
        starts = self.tokens.marked.starts
        return range(bisect_left(starts, self.units[unit].start), bisect_left(starts, self.units[unit].end))

    def find(self, token: Token) -> tuple[list[int], float]:
        """Returns the positions of a sentence's token in the passage, and how certain it is that they match, 0–1."""
        if token.quantity is not None:
            return self._find_number(token, token.quantity), 1.0
        if positions := self._keys.get(token.key) or self.normals.get(token.normal):
            return positions[:_MOST], 1.0
        if len(token.normal) > _STEM and not token.unspaced:
            candidates = self._stems.get(token.normal[:_STEM], ())[:_MOST]
            if alike := [position for position in candidates if _alike(self.tokens[position], token)]:
                return alike, 0.8
        if token.kind is TokenKind.NAME and 1 < len(token.normal) <= 6 and token.normal in self._initials:
            return [self._initials[token.normal]], 0.9
        return [], 0.0

    def in_headings(self, token: Token) -> bool:
        """Whether the headings contain a sentence's token."""
        if token.quantity is not None:
            return not self._heading_values.isdisjoint(token.quantity.values)
        return token.key in self._heading_keys

    def quotable(self, unit: int) -> bool:
        """Whether a unit is meaningful by itself."""
        return self.units[unit].kind is not UnitKind.HEADING

    def _find_number(self, token: Token, claimed: Quantity) -> list[int]:
        values = (*claimed.values, *claimed.scaled)
        positions = [position for value in values for position in self._values.get(value, ())[:_MOST]]
        if token.is_month:
            return sorted(position for position in positions if self._may_be_month(self.tokens[position]))
        if claimed.whole:
            return self._find_parts(claimed, positions)
        fitting = [position for position in positions if self._fits(token, claimed, position)]
        if fitting or claimed.negative:
            return sorted(fitting)
        numbers = [(position, self.tokens[position].quantity) for position in self._numbers[:_MOST_NUMBERS]]
        if amounts := base_amounts(claimed):
            return [position for position, number in numbers if number and _same_amount(amounts, number)][:_MOST]
        if positions:
            return []
        return [
            position
            for position, number in numbers
            if number and any(rounds_to(value, claimed) for value in number.values)
        ][:_MOST]

    def _fits(self, token: Token, claimed: Quantity, position: int) -> bool:
        """Whether a number of the passage with a claimed value counts the same thing."""
        there = self.tokens[position]
        other = there.quantity
        if other is None:
            return True  # a month's name instead of its number
        if not agree(claimed, other) or (claimed.negative and not self._is_negative(there, other)):
            return False
        if claimed.percent and not other.percent:
            return self.unit_of[position] >= 0 and self.units[self.unit_of[position]].kind is UnitKind.ROW
        if other.percent and not claimed.percent:
            return token.is_vague
        unit = claimed.unit
        in_millions = not set(claimed.scaled).isdisjoint(other.values)
        return not unit or bool(other.unit) or in_millions or unit in self._known_units

    @cached_property
    def _known_units(self) -> set[str]:
        """Units named anywhere in the passage, such as in a table's header."""
        named = {unit_named(normal) for normal in self.normals}
        return named | {quantity.unit for quantity in self.tokens.marked.quantities.values()}

    def _is_negative(self, token: Token, number: Quantity) -> bool:
        """Whether a number is negative: with a minus, or in brackets as in accounting."""
        around = self.text[max(token.start - 2, 0) : token.start], self.text[token.end : token.end + 1]
        return number.negative or min(number.values) < 0 or ("(" in around[0] and around[1] == ")")

    def _may_be_month(self, token: Token) -> bool:
        """Whether a token names a month, or is a number that may mean one, as in `2024-05-03` or `5月`."""
        if token.quantity is None or token.is_month:
            return True
        beside = self.text[max(token.start - 2, 0) : token.start] + "|" + self.text[token.end : token.end + 2]
        return bool(token.quantity.whole) or _IN_DATE.search(beside) is not None

    def _find_parts(self, claimed: Quantity, positions: list[int]) -> list[int]:
        """Finds a number that only counts as a whole: unchanged, or for a date, by its parts near one another."""
        numbers = [(position, self.tokens[position].quantity) for position in sorted(set(positions))]
        same = [position for position, number in numbers if number is not None and number.whole == claimed.whole]
        if same:
            return same
        parts = [position for position, number in numbers if number is None or not number.whole]
        values = {value for position in parts for value in self._values_at(position)}
        return parts if values.issuperset(claimed.values) else []

    def _values_at(self, position: int) -> tuple[float, ...]:
        token = self.tokens[position]
        if token.quantity is not None and token.quantity.values:
            return token.quantity.values
        month = month_value(token.normal)
        return () if month is None else (month,)


def _same_amount(amounts: list[float], number: Quantity) -> bool:
    """Whether a number is the same amount in another unit: two weeks, 14 days."""
    others = base_amounts(number)
    return any(abs(amount - other) <= 1e-6 * amount for amount in amounts for other in others)


def _alike(token: Token, other: Token) -> bool:
    """Whether two tokens are forms of one word, judging by their common beginning."""
    shorter, longer = sorted((token.normal, other.normal), key=len)
    common = next((i for i, letter in enumerate(shorter) if letter != longer[i]), len(shorter))
    return common >= 0.65 * len(longer) and len(longer) - len(shorter) <= _STEM
