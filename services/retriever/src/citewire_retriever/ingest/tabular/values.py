"""A column's type, decided by most cells: numbers, percentages, amounts, dates or booleans; otherwise texts.

Nothing is guessed from a single cell: a column's cells together decide the decimal sign and whether a date's day or
month comes first, and cells that don't fit aren't values of the column.
"""

import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from decimal import Context, Decimal, InvalidOperation
from typing import Final

from citewire.retriever.v1 import table_pb2 as pb

from citewire_retriever.ingest.parsers.workbook import Typed
from citewire_retriever.ingest.tabular.dates import date_readers, read_iso

Value = Decimal | datetime | bool | str


@dataclass(frozen=True, slots=True)
class Cell:
    """A cell that isn't empty."""

    text: str
    """Displayed text, on one line."""
    typed: Typed | None = None
    """The value stored in the file."""
    reached: bool = False
    """Whether it is merged with the one above it."""


CellLike = str | Cell
"""A cell as plain text if it has no other properties; empty for an empty cell."""


@dataclass(frozen=True, slots=True)
class Notation:
    """What a table's numbers tell about those that may be read in two ways."""

    comma: bool | None = None
    """Whether the comma is the decimal sign; None if unknown."""
    sure: bool = False
    """Whether there is a number like 0.5 or 1,234.5, not only ones like 12.30, which may be a time or a chapter."""


MOST_DIGITS: Final = 38
"""Most digits of a number for exact computation."""

_MAJORITY: Final = 0.5
_MOST_CHARS: Final = 60
_CURRENCY: Final = r"[$€£¥₹₽₺₩₪฿]|[A-Z]{2,3}\$|(?:EUR|USD|GBP|CHF|JPY|SEK|NOK|DKK|PLN|CZK|HUF|CAD|AUD|CNY|INR|BRL)"
_NUMBER: Final = re.compile(
    rf"(?P<outside>{_CURRENCY}(?=\s*\())?\s*(?P<open>\()?\s*(?P<sign>[-+−–])?\s*(?P<before>{_CURRENCY})?\s*"
    rf"(?P<inner>[-+−–])?\s*(?P<digits>\d[\d.,'’ \u00a0\u202f]*|[.,]\d+)(?:(?<=[.,])[-−–—])?\s*(?P<percent>%)?\s*"
    rf"(?P<after>{_CURRENCY})?\s*(?P<trailing>[-−])?\s*(?P<close>\))?"
)
_GROUPED: Final = re.compile(r"\d{1,3}(?:([.,'’ \u00a0\u202f])\d{3})(?:\1\d{3})*|\d{1,2}(?:,\d{2})+,\d{3}")
"""Matches digits in groups of three, or as in India (`1,23,456`)."""
_AMOUNT: Final = re.compile(r"(?!=)\W*(?:[^\W\d_]{1,10}\W*)?\d[\d\W_]*(?:[^\W\d_]{1,10}\W*)?|[-+]?\d[\d.,]*E[-+]?\d+")
"""Matches a cell that states a number, perhaps with a unit or marks beside it (`1.2k`, `500 g`, `1,250*`)."""
_SPACES: Final = re.compile(r"['’ \u00a0\u202f]")
_BOOLEANS: Final = {"true": True, "yes": True, "ja": True, "wahr": True, "false": False, "no": False, "nein": False,
                    "falsch": False}  # fmt: skip
_DIGIT: Final = re.compile("[1-9]")
"""Matches what a cell contains if it may be a date; `0000-00-00` isn't one."""
_LEADING_ZERO: Final = re.compile(r"0[\d\s'’]*\d")
"""Matches a code, whether it is stored as a text or as a number with a format like `00000`."""
_EXACT: Final = Context(prec=100)


@dataclass(frozen=True, slots=True)
class Column:
    """A column's values."""

    type: pb.TableType
    values: list[Value | None]
    """One value per row; None if the cell is empty or of another type."""
    skipped: tuple[int, ...] = ()
    """Rows, from 0, with cells of another type."""
    currency: str = ""
    refusal: str = ""
    """Why it can't be used although it looks as if it could."""
    repeats: bool = False
    """Whether merged cells repeat a value in several rows, so values can't be added."""


def read_column(cells: Sequence[CellLike], notation: Notation) -> Column:
    """The values of a column.

    Args:
        cells: One per row; empty texts for empty cells.
        notation: The table's, if the column's own cells don't decide.
    """
    filled = [index for index, cell in enumerate(cells) if cell != ""]
    for kind, read in ((pb.TABLE_TYPE_BOOLEAN, _read_booleans), (pb.TABLE_TYPE_DATE, _read_dates)):
        values = read([cells[index] for index in filled])
        if values is None:
            continue
        column = _column(kind, cells, filled, values)
        unread = next((text for index in column.skipped if _DIGIT.search(text := shown(cells[index]))), None)
        if unread is None:
            return column
        return _texts(cells, f"{unread[:_MOST_CHARS]!r} in it can't be read as a date like the others")
    column = _read_numbers(cells, filled, notation)
    if column is not None and not column.refusal:
        return column
    return _texts(cells, "" if column is None else column.refusal)


def shown(cell: CellLike) -> str:
    """A cell as text."""
    return cell if isinstance(cell, str) else cell.text


def fold(text: str) -> str:
    """A text normalised for comparison: case, and the encoding of accents and spaces, don't matter."""
    return " ".join(unicodedata.normalize("NFKC", text).casefold().split())


def notation_of(columns: Iterable[Sequence[CellLike]]) -> Notation:
    """The notation in which all columns of numbers agree."""
    votes: dict[bool, set[bool]] = {True: set(), False: set()}
    for cells in columns:
        comma = _decimal_comma(cells)
        if comma is None:
            continue
        unread = [cell for cell in cells if _parsed(_untyped(cell), comma=comma)[0] is None]
        if not any(map(_states_number, unread)):  # otherwise they may be versions or addresses
            votes[any(_is_sure(cell) for cell in cells)].add(comma)
    for sure in (True, False):
        if votes[sure]:
            return Notation(votes[sure].pop(), sure) if len(votes[sure]) == 1 else Notation()
    return Notation()


def _decimal_comma(cells: Sequence[CellLike]) -> bool | None:
    """Whether numbers in texts have a decimal comma; None if undecided."""
    votes = Counter(_vote(match["digits"].strip()) for cell in cells if (match := _number(cell)) is not None)
    return None if votes[True] == votes[False] else votes[True] > votes[False]


def _is_sure(cell: CellLike) -> bool:
    """Whether a number's decimal sign can't be anything else."""
    match = _number(cell)
    return match is not None and (
        match["digits"].startswith(("0.", "0,")) or len(re.findall("[.,]", match["digits"])) > 1
    )


def read_value(text: str, kind: pb.TableType) -> Value | None:
    """Converts a query's value, written as in the proto, to a column's type; None if it doesn't fit."""
    text = text.strip()
    if kind == pb.TABLE_TYPE_TEXT:
        return text
    if kind == pb.TABLE_TYPE_BOOLEAN:
        return _BOOLEANS.get(text.casefold())
    if kind == pb.TABLE_TYPE_DATE:
        return read_iso(text)
    percent = text.endswith("%")
    if len(text) > _MOST_CHARS or not re.fullmatch(r"[-+]?(?:\d+(?:\.\d*)?|\.\d+)\s?%?", text):
        return None
    number = Decimal(text.rstrip("% "))
    return number.scaleb(-2, _EXACT) if percent else number


def _column(
    kind: pb.TableType, cells: Sequence[CellLike], filled: list[int], values: Sequence[Decimal | datetime | bool | None]
) -> Column:
    results: list[Value | None] = [None] * len(cells)
    for index, value in zip(filled, values, strict=True):
        results[index] = value
    skipped = tuple(index for index in filled if results[index] is None)
    repeats = any(isinstance(cell, Cell) and cell.reached for cell in cells)
    return Column(kind, results, skipped, repeats=repeats)


def _texts(cells: Sequence[CellLike], refusal: str) -> Column:
    return Column(pb.TABLE_TYPE_TEXT, [shown(cell) or None for cell in cells], refusal=refusal)


def _most(values: Sequence[object | None]) -> bool:
    return sum(value is not None for value in values) > _MAJORITY * len(values)


def _read_booleans(cells: Sequence[CellLike]) -> list[bool | None] | None:
    values = [
        cell.typed.raw == "1"
        if isinstance(cell, Cell) and cell.typed is not None and cell.typed.kind == "boolean"
        else _BOOLEANS.get(shown(cell).casefold())
        for cell in cells
    ]
    return values if cells and None not in values else None


def _read_dates(cells: Sequence[CellLike]) -> list[datetime | None] | None:
    readers = date_readers([text for cell in cells if (text := _untyped(cell))])
    values: list[datetime | None] = []
    for cell in cells:
        if isinstance(cell, Cell) and cell.typed is not None:
            values.append(read_iso(cell.typed.raw) if cell.typed.kind == "date" else None)
        else:
            text = shown(cell)
            values.append(next((value for read in readers if (value := read(text)) is not None), None))
    return values if cells and _most(values) else None


def _untyped(cell: CellLike) -> str:
    """A cell's text, unless the file stores a typed value."""
    return cell if isinstance(cell, str) else "" if cell.typed is not None else cell.text


def _read_numbers(cells: Sequence[CellLike], filled: list[int], notation: Notation) -> Column | None:
    """The column as numbers, with a refusal if some can't be computed with; None if it has other values."""
    texts = [cells[index] for index in filled]
    own = _decimal_comma(texts)
    comma = own if own is not None else notation.comma
    values: list[Decimal | None] = []
    percents = 0
    currencies: Counter[str] = Counter()
    for cell in texts:
        value, percent, currency = _read_number(cell, comma=bool(comma))
        values.append(value)
        percents += percent
        if currency:
            currencies[currency] += 1
    if not filled or not _most(values) or any(_LEADING_ZERO.fullmatch(shown(cell)[:_MOST_CHARS]) for cell in texts):
        return None
    numbers = [value for value in values if value is not None]
    kind = pb.TABLE_TYPE_PERCENT if percents else pb.TABLE_TYPE_CURRENCY if currencies else pb.TABLE_TYPE_NUMBER
    column = _column(kind, cells, filled, values)
    currency = next(iter(currencies), "")
    pairs = zip(texts, values, strict=True)
    unread = next((cell for cell, value in pairs if value is None and _states_number(cell)), None)
    refusal = ""
    if 0 < percents < len(numbers):
        refusal = "some of its numbers are percentages, others aren't"
    elif len(currencies) > 1:
        refusal = f"its amounts are in several currencies: {', '.join(sorted(currencies)[:5])}"
    elif own is None and any(_is_ambiguous(cell, notation) for cell in texts):
        refusal = "it isn't clear whether 1.234 in it is more than a thousand or a little more than one"
    elif unread is not None:
        refusal = f"{shown(unread)!r} in it can't be read as a number like the others"
    elif scale_of(numbers) is None:
        refusal = f"it has numbers of more than {MOST_DIGITS} digits"
    return replace(column, currency=currency, refusal=refusal)


def scale_of(numbers: Sequence[Decimal]) -> int | None:
    """Decimal places that fit all numbers; None if the largest would then have too many digits."""
    sizes = [_digits(number) for number in numbers]
    scale = max((behind for _, behind in sizes), default=0)
    return scale if max((before for before, _ in sizes), default=0) + scale <= MOST_DIGITS else None


def _digits(number: Decimal) -> tuple[int, int]:
    """The number of digits before and after the decimal point."""
    if not number:
        return 1, 0
    _, digits, exponent = number.as_tuple()
    last = next(index for index, digit in enumerate(reversed(digits)) if digit)
    return max(number.adjusted() + 1, 1), max(-(int(exponent) + last), 0)


def _read_number(cell: CellLike, *, comma: bool) -> tuple[Decimal | None, bool, str]:
    """A cell's number, whether it is a percentage, and its currency."""
    if isinstance(cell, str) or cell.typed is None:
        return _parsed(shown(cell), comma=comma)
    if cell.typed.kind not in {"number", "percent", "currency"}:
        return None, False, ""
    try:
        number = Decimal(cell.typed.raw)
    except InvalidOperation:
        return None, False, ""
    if not number.is_finite():
        return None, False, ""
    return number, cell.typed.kind == "percent", cell.typed.currency


def is_number(text: str) -> bool:
    """Whether a text is a number, with or without a currency or a percent sign."""
    text = text.strip()
    return len(text) <= _MOST_CHARS and _NUMBER.fullmatch(text) is not None


def _number(cell: CellLike) -> re.Match[str] | None:
    text = _untyped(cell)
    return _NUMBER.fullmatch(text) if len(text) <= _MOST_CHARS else None


def _states_number(cell: CellLike) -> bool:
    """Whether a cell that isn't a number of its column is one in another notation, or has a unit."""
    text = _untyped(cell)
    return len(text) <= _MOST_CHARS and _AMOUNT.fullmatch(text) is not None


def _is_ambiguous(cell: CellLike, notation: Notation) -> bool:
    """Whether a number has a single separator that may be the grouping or the decimal sign."""
    match = _number(cell)
    signs = re.findall("[.,]", match["digits"]) if match else []
    if len(signs) != 1 or notation.sure:
        return len(signs) == 1 and notation.comma is None
    return notation.comma is None or (signs[0] == ",") is notation.comma


def _vote(text: str) -> bool | None:
    """Whether a number surely has a decimal comma; None if it has no separator or may just be grouped."""
    points, commas = text.count("."), text.count(",")
    if points and commas:
        return text.rfind(",") > text.rfind(".")
    sign = "." if points else ","
    if points + commas > 1:  # it groups digits, so the other one is the decimal sign
        return sign == "." if _GROUPED.fullmatch(text) else None
    if points + commas == 1:
        behind = len(_SPACES.sub("", text.partition(sign)[2]))
        before = len(text.partition(sign)[0])
        return None if behind == 3 and 1 <= before <= 3 and text[0] != "0" else sign == ","
    return None


def _parsed(cell: str, *, comma: bool) -> tuple[Decimal | None, bool, str]:
    """A text's number, whether it is a percentage, and its currency; no number if it has another decimal sign."""
    match = _number(cell)
    currencies = [match[name] for name in ("outside", "before", "after") if match and match[name]]
    if match is None or bool(match["open"]) != bool(match["close"]) or len(currencies) > 1:
        return None, False, ""
    text = match["digits"].strip()
    whole, point, fraction = text.partition("," if comma else ".")
    if fraction and not fraction.isdecimal():
        return None, False, ""
    if whole and not whole.isdecimal() and _GROUPED.fullmatch(whole) is None:
        return None, False, ""
    plain = re.sub(r"\D", "", whole)
    if not (plain + fraction).isascii():
        return None, False, ""
    number = Decimal(f"{plain or '0'}.{fraction or '0'}" if point else plain)
    signs = [match[name] for name in ("sign", "inner", "trailing") if match[name]]
    if len(signs) + bool(match["open"]) > 1:
        return None, False, ""
    negative = bool(match["open"]) or any(sign in "-−–" for sign in signs)
    percent = bool(match["percent"])
    number = -number if negative else number
    return (number.scaleb(-2, _EXACT) if percent else number), percent, next(iter(currencies), "")
