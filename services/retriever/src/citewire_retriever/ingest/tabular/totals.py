"""Recognises rows with totals by their values, as labels alone aren't reliable.

`Total Energies` is a company, `Gesamt` a label, and either may be in the first cell. A row is a total if its numbers
are the sums of the rows above, or if it is labelled only as one and placed where totals are; otherwise it is data. If
the evidence conflicts, the row stays undecided, and so does a last row with any label whose numbers are sums.
"""

import re
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Context, Decimal
from enum import Enum
from itertools import accumulate
from typing import Final

from citewire.retriever.v1 import table_pb2 as pb

from citewire_retriever.ingest.parsers.workbook import Row
from citewire_retriever.ingest.tabular.values import Column, is_number

_WORDS: Final = (
    "(?:grand |sub|sub-|sub )?totals?|sums?|(?:gesamt|zwischen|end|teil)?summe|gesamt|insgesamt|(?:eind|sub)?totaal"
    "|(?:sub)?totale?|totaux|sous-total|total général|total general|somm[ae]|suma|razem|ogółem|(?:total|del)?summa"
    "|(?:gesamt|zwischen)?ergebnis|gesamtbetrag|totalsum|hovedtotal|i alt|yhteensä|celkem|(?:celkový )?součet|összesen"
    "|végösszeg|toplam|итого?|общий итог|всего|разом|σύνολο|kokku|ukupno|jumlah|[σ∑]|합계|총계|合計|合计|总计"
    '|小计|小計|総計|総合計|รวม|tổng(?: cộng)?|סה"כ|المجموع|(?:ال)?إجمالي|सकल योग|कुल(?: योग)?'
)
_TOTAL: Final = re.compile(rf"(?:{_WORDS})\s*[:：]?", re.I)
_MAYBE_TOTAL: Final = re.compile(rf"(?:{_WORDS})\b.*|.*\b(?:{_WORDS})\s*[:：]?", re.I | re.S)
_LABEL_CHARS: Final = 200
_LABEL_CELLS: Final = 3
"""Leading cells that may contain a total's label."""
_FEWEST: Final = 2
"""Fewest rows for a meaningful sum: the sum of one row is its own value."""
_MEANINGFUL_DIGITS: Final = 4
"""Fewest digits of a row's numbers that are hardly sums by chance."""
_MOST_STARTS: Final = 100
_DASHES: Final = frozenset("-–—−")
_ADDED: Final = frozenset({pb.TABLE_TYPE_NUMBER, pb.TABLE_TYPE_CURRENCY})
_EXACT: Final = Context(prec=200)


class Label(Enum):
    """How a row is labelled."""

    ALONE = "alone"
    """Its first cell only says that it is a total, and the others are numbers or empty."""
    BESIDE = "beside"
    """A later cell only says that it is a total."""
    IN_PART = "in part"
    """Its first cell contains such a word among others, or other cells contain words."""
    LAST = "last"
    """It is the table's last row, and labelled as none of the above."""
    NONE = "none"
    """It has numbers, but is empty where other rows have a name."""


class Verdict(Enum):
    """The verdict on a row."""

    TOTAL = "total"
    DATA = "data"
    UNDECIDED = "undecided"


@dataclass(frozen=True, slots=True)
class Candidate:
    """A row that may be a total."""

    index: int
    """Its index among the table's rows, from 0."""
    label: Label
    text: str
    """Its first text."""


def says_total(text: str) -> bool:
    """Whether a text only says that something is a total."""
    return len(text) <= _LABEL_CHARS and _TOTAL.fullmatch(text.strip()) is not None


def label_of(row: Row, first_column: int) -> Label | None:
    """How a row of a table with this first column is labelled as a total; None if it isn't."""
    cells = list(row.cells.items())
    texts = [text for _, text in cells[:_LABEL_CELLS]]
    fitting = sum(column in row.typed or text.strip() in _DASHES or is_number(text) for column, text in cells)
    if says_total(texts[0]):
        return Label.ALONE if fitting == len(cells) - 1 else Label.IN_PART
    if any(map(says_total, texts)):
        return Label.BESIDE
    if _MAYBE_TOTAL.fullmatch(texts[0].strip()[:_LABEL_CHARS]):
        return Label.IN_PART
    return Label.NONE if fitting == len(cells) and first_column not in row.cells else None


def settle(
    candidates: Sequence[Candidate], columns: Sequence[Column], gaps: Sequence[int], count: int
) -> list[Verdict]:
    """The verdict on each candidate.

    Args:
        candidates: In order.
        columns: The table's columns, with the values of all rows, candidates included.
        gaps: Indexes of rows below an empty one, in order.
        count: How many rows there are.
    """
    sums = [_Sums(column) for column in columns if column.type in _ADDED and not column.repeats]
    lasts = _last_ones(candidates, gaps, count)
    verdicts: list[Verdict] = []
    totals: list[int] = []
    for candidate in candidates:
        starts = _starts(candidate.index, gaps, totals)
        matches = [match for each in sums if (match := each.compare(candidate.index, starts, totals)) is not None]
        if candidate.label is Label.LAST and matches and all(each.is_half(candidate.index) for each in sums):
            matches = [_Match.SUM]  # the rows above include the totals of all parts, without a known label
        verdict = _verdict(candidate.label, matches, is_last=candidate.index in lasts)
        if candidate.label is Label.LAST and sum(each.digits(candidate.index) for each in sums) < _MEANINGFUL_DIGITS:
            verdict = Verdict.DATA
        verdicts.append(verdict)
        if verdict is Verdict.TOTAL:
            totals.append(candidate.index)
            for each in sums:
                each.leave_out(candidate.index)
    return verdicts


class _Match(Enum):
    SUM = "the sum of rows above"
    MAYBE = "that of one row, of nothing but zeros, or but for rounding"
    OTHER = "another number"


class _Sums:
    """A column's numbers, and their cumulative sums."""

    def __init__(self, column: Column) -> None:
        self._values = [value if isinstance(value, Decimal) else None for value in column.values]
        self._until = list(accumulate((value or Decimal() for value in self._values), _EXACT.add, initial=Decimal()))
        self._totals = [Decimal()]
        """Cumulative sums of the totals so far."""

    def leave_out(self, index: int) -> None:
        """Counts a row as a total from now on."""
        self._totals.append(_EXACT.add(self._totals[-1], self._values[index] or Decimal()))

    def digits(self, index: int) -> int:
        """How many digits a row's number has, without zeros at its end; none if it has no number."""
        value = self._values[index]
        return 0 if value is None else len(value.normalize(_EXACT).as_tuple().digits)

    def is_half(self, index: int) -> bool:
        """Whether a row's number is half of the sum of those above, or it has none."""
        value = self._values[index]
        above = _EXACT.subtract(self._until[index], self._totals[-1])
        return value is None or _EXACT.multiply(value, Decimal(2)) == above

    def compare(self, index: int, starts: Sequence[int], totals: Sequence[int]) -> _Match | None:
        """How a row's number relates to the sums of the rows from one of the starts; None if it has no number."""
        value = self._values[index]
        if value is None:
            return None
        nearest = _Match.OTHER
        for start in starts:
            inside = bisect_left(totals, start)
            rows = index - start - (len(totals) - inside)
            result = _EXACT.subtract(self._until[index], self._until[start])
            result = _EXACT.subtract(result, _EXACT.subtract(self._totals[-1], self._totals[inside]))
            if result == value and rows >= _FEWEST and value:
                return _Match.SUM
            if rows and abs(_EXACT.subtract(result, value)) <= _rounding(value, rows):
                nearest = _Match.MAYBE
        return nearest


def _rounding(value: Decimal, rows: int) -> Decimal:
    """How far a sum of rounded numbers may differ from the rounded sum; integers must match exactly."""
    exponent = value.as_tuple().exponent
    places = -exponent if isinstance(exponent, int) else 0
    return _EXACT.divide(Decimal(rows + 1).scaleb(-places, _EXACT), Decimal(2)) if places > 0 else Decimal()


def _last_ones(candidates: Sequence[Candidate], gaps: Sequence[int], count: int) -> set[int]:
    """Indexes of candidates followed only by other candidates, up to an empty row or the table's end."""
    lasts: set[int] = set()
    ends = {count, *gaps}
    for candidate in reversed([candidate for candidate in candidates if candidate.label is not Label.LAST]):
        if candidate.index + 1 in ends or candidate.index + 1 in lasts:
            lasts.add(candidate.index)
    return lasts


def _starts(index: int, gaps: Sequence[int], totals: Sequence[int]) -> list[int]:
    """Possible starts of the rows that a total covers: the first row, and those below an empty row or another total."""
    above = gaps[max(0, bisect_right(gaps, index) - _MOST_STARTS) : bisect_right(gaps, index)]
    return sorted({0, *above, *(at + 1 for at in totals[-_MOST_STARTS:])} - {index})


def _verdict(label: Label, matches: Sequence[_Match], *, is_last: bool) -> Verdict:
    sums = bool(matches) and all(match is _Match.SUM for match in matches)
    if label is Label.NONE and not is_last:
        return Verdict.DATA
    if label is Label.LAST:
        return Verdict.UNDECIDED if sums else Verdict.DATA
    if sums or (label is Label.ALONE and is_last):
        return Verdict.TOTAL
    if label in {Label.ALONE, Label.BESIDE}:
        return Verdict.UNDECIDED
    return Verdict.DATA if all(match is _Match.OTHER for match in matches) else Verdict.UNDECIDED
