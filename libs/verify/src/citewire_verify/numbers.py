"""Numbers in a text, by their value: digits, words, percent, magnitudes, thousands' marks of several countries."""

import math
import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass, replace

from citewire_verify.number_words import read_number_words
from citewire_verify.text.terms import Runs, normalise, scan
from citewire_verify.units import (
    CAUTIOUS,
    MAGNITUDES,
    WIDE_MAGNITUDES,
    contradict,
    currency_before,
    factor_of,
    is_percent,
    magnitude_named,
    unit_named,
)


@dataclass(frozen=True, slots=True)
class Quantity:
    """A number in a text."""

    start: int
    end: int
    values: tuple[float, ...]
    """Possible values: `1.200` is 1.2 or 1,200."""
    percent: bool
    unit: str
    """The unit directly after it, by class and name; empty if none is known."""
    word: bool
    """Whether it is written in letters."""
    digits: int
    """Significant digits."""
    whole: str = ""
    """A number with several parts that only counts as a whole, such as a version or a date: `2.10.3`."""
    negative: bool = False
    """Whether it has a minus sign. Numbers that are negative by words have negative values."""
    scaled: tuple[float, ...] = ()
    """Further possible values without a unit: `500m` is 500 metres or 500 million."""


_SPACES = "\u00a0\u202f\u2009 "
_DIGIT = re.compile(r"[\d.٫]")
_DIGITS = re.compile(
    rf"(?P<spaced>(?<![\d.,])\d{{1,3}}(?:[{_SPACES}]\d{{3}})+(?:[.,]\d{{1,2}})?(?![\d]))"
    r"|(?P<plain>(?:(?<![\w.,])[.٫])?\d+(?:[.,:'’٫٬]\d+)*)"
)
_AFTER = re.compile(
    r"(?P<ordinal>(?:st|nd|rd|th|º|ª|°)(?!\w))?[ \u00a0\u202f-]{0,2}"
    r"(?P<word>[%٪％‰€$£¥₹₽₩]|°[CFcf](?!\w)|(?:degrees?|deg\.?|°) ?(?:[Cc]elsius|[Ff]ahrenheit|[CF]\b)|km/h|m/s"
    r"|(?:square|cubic|sq\.?|cu\.?) [a-z]{1,12}|[km]?m[²³23]\b"
    r"|[^\W\d_]{1,14}(?: cent\b| ciento\b| cento\b| εκατό| المئة| المائة)?)?"
)
_MINUS = re.compile(
    r"(?:(?<![^\s(\[~≈=<>±/⁄])[-−–]|(?<=[-–—])−|(?<=[–—])-|\bminus |\bmoins |\bmenos |\bmeno |\bминус )[€$£¥]?$",
    re.IGNORECASE,
)
_BELOW = re.compile(r"\bbelow (?:zero|freezing)|\bunter null", re.IGNORECASE)
_BETWEEN = re.compile(
    r" ?(?:[-–—~～〜]|(?:to|and|or|bis|und|oder|à|et|ou|a|y|o|e|tot|en|до|и|至|到|から) ?) ?(?=[€$£¥]?\d)"
    r"|, (?=\d)"
)
"""Text between two numbers that share the second one's unit."""
_MILLIONS = "millions"
"""Placeholder for the unit of `500m` if it means 500 million."""
_GAP = 8
"""Maximum number of code points between two numbers of a range."""
MONTH = "date month"
"""Unit of a month's name."""


_MONTHS = {
    name: float(number)
    for number, names in enumerate(
        (
            "january jan januar janvier enero gennaio janeiro januari",
            "february feb februar fevrier febrero febbraio fevereiro februari",
            "march marz mars marzo marco maart",
            "april apr avril abril aprile",
            "may mai mayo maggio maio mei",
            "june jun juni juin junio giugno junho",
            "july jul juli juillet julio luglio julho",
            "august aug aout agosto augustus",
            "september sep sept septembre septiembre settembre setembro",
            "october oct oktober octobre octubre ottobre outubro",
            "november nov novembre noviembre novembro",
            "december dec dezember decembre diciembre dicembre dezembro december",
        ),
        start=1,
    )
    for name in names.split()
}


def find_numbers(text: str, language: str = "en", runs: Runs | None = None) -> list[Quantity]:
    """Finds the numbers of a text, in order. Months' names aren't included: see `month_value`.

    Args:
        text: The text.
        language: The language's code.
        runs: The text's runs from `scan`, if already known.
    """
    quantities = [_quantity(text, match, language) for match in _in_digits(text)]
    _share_units(text, quantities)
    quantities += [_of_words(text, *number) for number in read_number_words(text, runs or scan(text), language)]
    quantities.sort(key=lambda quantity: quantity.start)
    return quantities


def _in_digits(text: str) -> Iterator[re.Match[str]]:
    """Yields the matches of `_DIGITS`, tried only where one can begin, which is faster."""
    at = _DIGIT.search(text)
    while at is not None:
        match = _DIGITS.match(text, at.start())
        if match is not None:
            yield match
        at = _DIGIT.search(text, at.end() if match is None else match.end())


def _share_units(text: str, quantities: list[Quantity]) -> None:
    """Applies the unit written only with the last number of a range or list to the earlier ones."""
    for at in range(len(quantities) - 2, -1, -1):
        number, following = quantities[at], quantities[at + 1]
        shares = (following.percent or following.unit) and not (number.percent or number.unit)
        if shares and following.start - number.end < _GAP and _BETWEEN.match(text, number.end):
            quantities[at] = replace(number, percent=following.percent, unit=following.unit)


def base_amounts(quantity: Quantity) -> list[float]:
    """The amount of a number with a unit in the smallest unit of its kind; nothing if that isn't known."""
    factor = factor_of(quantity.unit)
    return [value * factor for value in quantity.values] if factor else []


def readings(quantity: Quantity) -> list[tuple[float, str]]:
    """Possible readings of a number: each value with its unit."""
    return [(value, quantity.unit) for value in quantity.values] + [(value, _MILLIONS) for value in quantity.scaled]


def _differ(unit: str, other: str) -> bool:
    if _MILLIONS in {unit, other}:  # `500m` isn't 500 million metres
        return unit.startswith("length") or other.startswith("length")
    return contradict(unit, other)


def agree(number: Quantity, other: Quantity) -> bool:
    """Whether two numbers may mean the same quantity: not 14 days and 14 months, or 5 % and 5 km."""
    if number.percent != other.percent and (number.percent or number.unit) and (other.percent or other.unit):
        return False
    return any(
        value == there and not _differ(unit, other_unit)
        for value, unit in readings(number)
        for there, other_unit in readings(other)
    )


def month_named(start: int, end: int, value: float) -> Quantity:
    """A month's name as a number with its own unit."""
    return Quantity(start, end, (value,), percent=False, unit=MONTH, word=True, digits=1)


def month_value(word: str) -> float | None:
    """A month's number, by its normalised name."""
    return _MONTHS.get(word)


def rounds_to(value: float, claimed: Quantity) -> bool:
    """Whether a claimed number is a rounding of another one, to two or more significant digits."""
    if claimed.word or claimed.digits < 2:
        return False
    for number in claimed.values:
        if number and value and number != value and 0.9 < value / number < 1.1:
            # Halves are rounded up or down.
            step = 10.0 ** (math.floor(math.log10(abs(number))) - claimed.digits + 1)
            rounded = number if abs(value - number) <= step / 2 + 1e-9 * abs(number) else value
            whole = number == round(value) and value != int(value)
            # A year or an exact count isn't rounded.
            if whole or (rounded == number and _trailing_zeros(number, claimed.digits)):
                return True
    return False


def _trailing_zeros(value: float, digits: int) -> bool:
    return value >= 10 ** (digits + 1) or value != int(value)


def _quantity(text: str, match: re.Match[str], language: str) -> Quantity:
    raw = match.group()
    values = _values(raw, spaced=match.lastgroup == "spaced", english=language == "en")
    after = _AFTER.match(text, match.end())
    word = normalise(after.group("word") or "") if after else ""
    attached = after is not None and after.start("word") == match.end()
    end, unit = match.end(), ""
    scaled: tuple[float, ...] = ()
    percent = is_percent(word)
    magnitude = magnitude_named(word) if after and not percent else None
    if after and percent:
        end = after.end()
        again = _AFTER.match(text, end)
        if again and is_percent(normalise(again.group("word") or "")):  # `80 % percent`
            values = _times(values, 0.01)
    elif after and word[:1] in WIDE_MAGNITUDES:
        values, end = _times(values, MAGNITUDES[word[0]]), after.start("word") + 1
        unit = unit_named(word[1:]) if len(word) > 1 else ""
    elif after and word in {"m", "k"}:
        unit = _unit_after(text, after.end()) or currency_before(text, match.start())
        further, last = _magnitude_after(text, after.end()) if attached else (1.0, after.end())
        if word == "k" and not attached:
            unit = ""  # `K` may be anything
        elif unit or last > after.end() or word == "k":
            values, end = _times(values, MAGNITUDES[word] * further), last
        else:
            unit, scaled = "length m", _times(values, 1e6)
    elif after and magnitude is not None:
        larger = _times(values, magnitude)
        values = (*larger, *values) if word in CAUTIOUS else larger
        end = match.end() if word in CAUTIOUS else after.end()
        unit = _unit_after(text, end)
        further, last = _magnitude_after(text, end)
        if last > end:
            values, end = _times(values, further), last
    elif not (attached and word == "s"):
        unit = unit_named(word) if word else ""
    unit = unit or currency_before(text, match.start())
    negative = _is_negative(text, match.start())
    if unit.startswith("temperature"):
        values, negative = _below_zero(text, match, values), False
        end = after.end() if after else end  # `Celsius` isn't a name
    digits = len(re.sub(r"\D", "", raw).lstrip("0").rstrip("0")) or 1
    parts = re.split(r"[.,'’٫٬]", raw)
    # A time in it (`24:4.5.1`) isn't part of a version or a date.
    is_whole = len(parts) > 2 and parts[0].isdecimal() and values[0] == float(parts[0])
    whole = ".".join(parts) if is_whole else ""
    return Quantity(
        match.start(),
        end,
        values,
        percent,
        unit,
        word=False,
        digits=digits,
        whole=whole,
        negative=negative,
        scaled=scaled,
    )


def _times(values: tuple[float, ...], factor: float) -> tuple[float, ...]:
    return tuple(value * factor for value in values)


def _unit_after(text: str, end: int) -> str:
    after = _AFTER.match(text, end)
    word = normalise(after.group("word") or "") if after else ""
    return "length m" if word == "m" else unit_named(word) if word else ""


def _magnitude_after(text: str, end: int) -> tuple[float, int]:
    """The factor of a further magnitude, and its end: `20 million million`."""
    after = _AFTER.match(text, end)
    word = normalise(after.group("word") or "") if after else ""
    factor = None if word in {"", "m"} else magnitude_named(word)
    return (1.0, end) if after is None or factor is None else (factor, after.end())


def _is_negative(text: str, start: int) -> bool:
    """Whether there is a minus before a number or its currency; a dash between two numbers isn't one."""
    match = _MINUS.search(text, max(start - 7, 0), start)
    return match is not None and not text[max(match.start() - 2, 0) : match.start()].rstrip()[-1:].isdigit()


def _below_zero(text: str, match: re.Match[str], values: tuple[float, ...]) -> tuple[float, ...]:
    """The sign of a temperature; elsewhere a dash before a number may mean many things."""
    if _MINUS.search(text, max(match.start() - 7, 0), match.start()):
        return tuple(-value for value in values)
    below = _BELOW.search(text, match.end(), match.end() + 40)
    return tuple(-value for value in values) + values if below else values


def _values(raw: str, *, spaced: bool, english: bool) -> tuple[float, ...]:
    raw = unicodedata.normalize("NFKC", raw).replace("’", "'").replace("٫", ".").replace("٬", ",")
    if spaced:
        return (float("".join(raw.split()).replace(",", ".")),)
    if len(raw) > 40:
        return (float("inf"),)
    if raw[0] == ".":
        if raw[1:].isdecimal():
            return (float(f"0{raw}"),)
        raw = raw[1:]
    digits = re.split(r"[.,:']", raw)
    if len(digits) == 1:
        return (float(raw),)
    values: list[float] = []
    marks = {char for char in raw if char in ".,:'"}
    if ":" in marks:
        return (sum(float(part) / 60**power for power, part in enumerate(digits[:3])),)
    grouped = all(len(part) == 3 for part in digits[1:]) and len(digits[0]) <= 3 and len(marks) == 1
    grouped = grouped and digits[0] != "0"
    if grouped:
        values.append(float("".join(digits)))
    # Nobody writes three zeros after a decimal mark, and in English a comma isn't one.
    plainly = grouped and (set(digits[-1]) == {"0"} or (english and marks == {","}))
    if len(digits) == 2 and marks <= {".", ","} and not plainly:
        values.append(float(f"{digits[0]}.{digits[1]}"))
    elif len(marks) == 2 and len(digits[-1]) != 3:
        values.append(float("".join(digits[:-1]) + "." + digits[-1]))
    if not values:
        values = [float(part) for part in digits]
    return tuple(dict.fromkeys(values))


def _of_words(text: str, start: int, end: int, value: float) -> Quantity:
    after = _AFTER.match(text, end)
    word = normalise(after.group("word") or "") if after else ""
    unit = unit_named(word) if word else ""
    return Quantity(start, end, (value,), is_percent(word), unit, word=True, digits=len(f"{value:g}".rstrip("0")))
