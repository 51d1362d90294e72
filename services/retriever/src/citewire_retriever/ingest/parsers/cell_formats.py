"""Numbers and dates of cells as a spreadsheet shows them, by their number format (ECMA-376 part 1, 18.8.30 and 31).

Formats that depend on the reader's country (14 and 22, the short date) are written as ISO 8601, which all read alike.
Month and weekday names are English; colours and fill characters are left out.
"""

import re
from collections.abc import Sequence
from datetime import datetime, timedelta
from decimal import ROUND_HALF_UP, Context, Decimal
from fractions import Fraction
from functools import lru_cache
from typing import Final, Literal

BUILT_IN: Final = {
    0: "General", 1: "0", 2: "0.00", 3: "#,##0", 4: "#,##0.00", 5: '"$"#,##0', 6: '"$"#,##0', 7: '"$"#,##0.00',
    8: '"$"#,##0.00', 9: "0%", 10: "0.00%", 11: "0.00E+00", 12: "# ?/?", 13: "# ??/??", 14: "yyyy-mm-dd",
    15: "d-mmm-yy", 16: "d-mmm", 17: "mmm-yy", 18: "h:mm AM/PM", 19: "h:mm:ss AM/PM", 20: "h:mm", 21: "h:mm:ss",
    22: "yyyy-mm-dd h:mm", 37: "#,##0;(#,##0)", 38: "#,##0;(#,##0)", 39: "#,##0.00;(#,##0.00)",
    40: "#,##0.00;(#,##0.00)", 41: "#,##0;(#,##0)", 42: '"$"#,##0;("$"#,##0)', 43: "#,##0.00;(#,##0.00)",
    44: '"$"#,##0.00;("$"#,##0.00)', 45: "mm:ss", 46: "[h]:mm:ss", 47: "mm:ss.0", 48: "##0.0E+0", 49: "@",
    **dict.fromkeys((*range(27, 37), *range(50, 59)), "yyyy-mm-dd"),
}  # fmt: skip
"""By number; unlisted ones from 27 on are East Asian dates."""

_MOST_CHARS: Final = 255
_TOKEN: Final = re.compile(
    r'"(?P<quoted>[^"]*)"?|\\(?P<escaped>.)|[_*].|\[\$(?P<currency>[^\]-]*)[^\]]*\]|\[(?P<elapsed>h+|m+|s+)\]'
    r"|\[(?P<condition>[<>=]+-?[\d.]+)\]|\[[^\]]*\]|(?P<general>General)|(?P<half>AM/PM|A/P)"
    r"|(?P<power>E[+-])|(?P<date>y+|m+|d+|h+|s+|\.0+(?=[^0#?]*$))|(?P<sign>.)",
    re.I | re.S,
)
_EPOCH: Final = datetime(1899, 12, 30)  # noqa: DTZ001 - a sheet's dates have no zone
_DAYS_1904: Final = 1462
_LAST_DAY: Final = 2_958_466
_TRAILING_COMMAS: Final = re.compile(r",(?=[^0#?]*$)")
_EXACT: Final = Context(prec=700)
_CONDITIONS: Final = re.compile(r"([<>=]+)(-?[\d.]+)")

_CURRENCY: Final = re.compile(r"[$€£¥₹₽₺₩₪฿]|\b(?:EUR|USD|GBP|CHF|JPY|SEK|NOK|DKK|PLN|CZK|HUF|CAD|AUD|CNY|INR|BRL)\b")

Token = tuple[str, str]
"""Kind and text of a token."""


def show(value: float, code: str, *, from_1904: bool = False) -> str:
    """A number in a format, or in the general one if that isn't possible (a date before 1900)."""
    sections = _sections(code[:_MOST_CHARS])
    tokens, is_absolute = _section(sections, value)
    number = abs(value) if is_absolute else value
    if _is_date(tokens):
        days = value + (_DAYS_1904 if from_1904 else 0)
        return _show_date(days, tokens) if 0 <= days < _LAST_DAY else general(value)
    return _show_number(number, tokens).strip()


def general(value: float) -> str:
    """A number as displayed by a cell without a format."""
    if value == int(value) and abs(value) < 1e11:
        return str(int(value))
    text = f"{value:.10g}"
    if "e" in text and 1e-5 <= abs(value) < 1e11:
        text = f"{Decimal(text):f}"
    mantissa, mark, power = text.partition("e")
    return f"{mantissa}E{power}" if mark else mantissa


@lru_cache(maxsize=1000)
def number_kind(code: str) -> tuple[Literal["number", "percent", "currency", "date", "time"], str]:
    """The kind of numbers with a format, and their currency as displayed. A time has no day."""
    tokens = _sections(code[:_MOST_CHARS])[0]
    if _is_date(tokens):
        has_day = any(kind == "date" and text[0] in "yYdD" for kind, text in tokens)
        return ("date" if has_day else "time"), ""
    if any(kind == "sign" and text == "%" for kind, text in tokens):
        return "percent", ""
    currency = next((text.strip() for kind, text in tokens if kind == "currency" and text.strip()), "") or next(
        (match[0] for kind, text in tokens if kind in {"literal", "sign"} and (match := _CURRENCY.search(text))), ""
    )
    return ("currency", currency) if currency else ("number", "")


def to_moment(days: float, *, from_1904: bool) -> datetime | None:
    """The time for a number of days, to the second; None if it is invalid."""
    days += _DAYS_1904 if from_1904 else 0
    if not 1 <= days < _LAST_DAY:
        return None
    return _EPOCH + timedelta(days=1 if days < 60 else 0, seconds=round(days * 86_400))


def _is_date(tokens: Sequence[Token]) -> bool:
    kinds = {kind for kind, _ in tokens}
    return (
        bool(kinds & {"date", "half", "elapsed"})
        and "general" not in kinds
        and not any(text in "0#" for _, text in tokens)
    )


@lru_cache(maxsize=1000)
def _sections(code: str) -> tuple[tuple[Token, ...], ...]:
    """The format's sections; a date's fraction of seconds is a separate token."""
    sections: list[list[Token]] = [[]]
    for match in _TOKEN.finditer(code):
        kind = match.lastgroup
        if kind is None:
            continue
        text = match.group(kind)
        if kind == "sign" and text == ";":
            sections.append([])
        elif kind in {"quoted", "escaped"}:
            sections[-1].append(("literal", text))
        elif kind == "date" and text[0] == ".":
            seconds = any(each == "date" and word[0] in "sS" for each, word in sections[-1][-1:])
            sections[-1] += [("date", text)] if seconds else [("sign", sign) for sign in text]
        else:
            sections[-1].append((kind, text))
    return tuple(tuple(section) for section in sections)


def _section(sections: Sequence[tuple[Token, ...]], value: float) -> tuple[tuple[Token, ...], bool]:
    """The section for a number, and whether it displays the number without its sign."""
    conditions = [next((text for kind, text in section if kind == "condition"), "") for section in sections]
    if any(conditions):
        for section, condition in zip(sections, conditions, strict=True):
            if not condition or _holds(condition, value):
                return section, False
        return sections[-1], False
    if value < 0 and len(sections) > 1:
        return sections[1], True
    if value == 0 and len(sections) > 2:
        return sections[2], True
    return sections[0], False


def _holds(condition: str, value: float) -> bool:
    match = _CONDITIONS.fullmatch(condition)
    if match is None:
        return False
    try:
        bound = float(match.group(2))
    except ValueError:
        return False
    sign = match.group(1)
    if sign == "<>":
        return value != bound
    return (value < bound and "<" in sign) or (value > bound and ">" in sign) or (value == bound and "=" in sign)


def _show_number(value: float, tokens: Sequence[Token]) -> str:
    if any(kind == "general" for kind, _ in tokens):
        return "".join(general(value) if kind == "general" else _literal(kind, text) for kind, text in tokens)
    signs = "".join(text for kind, text in tokens if kind == "sign")
    if "@" in signs:
        return general(value)
    if not re.search(r"[0#?]", signs):
        return ("-" if value < 0 else "") + "".join(_literal(kind, text) for kind, text in tokens)
    if "?/" in signs or "#/" in signs:
        return _show_fraction(value, signs)
    if any(kind == "power" for kind, _ in tokens):
        return _show_power(value, tokens)
    return _show_plain(value, tokens, signs)


def _show_power(value: float, tokens: Sequence[Token]) -> str:
    """A power of ten; with several places before the point, one that is divisible by their number (``12.3E+3``)."""
    power_at = next(index for index, (kind, _) in enumerate(tokens) if kind == "power")
    before, after = (
        "".join(text for kind, text in part if kind == "sign") for part in (tokens[:power_at], tokens[power_at + 1 :])
    )
    whole, _, decimals = before.partition(".")
    places, least = max(sum(map(whole.count, "0#?")), 1), after.count("0")
    number = Decimal(repr(value))
    step = Decimal(1).scaleb(-sum(map(decimals.count, "0#?")))
    power = number.adjusted() // places * places if number else 0
    mantissa = number.scaleb(-power, _EXACT).quantize(step, ROUND_HALF_UP, _EXACT)
    if mantissa and mantissa.adjusted() >= places:  # rounded up
        power += places
        mantissa = number.scaleb(-power, _EXACT).quantize(step, ROUND_HALF_UP, _EXACT)
    sign = "-" if power < 0 else "+" if tokens[power_at][1].endswith("+") else ""
    return f"{mantissa:f}E{sign}{abs(power):0{least}}"


def _show_plain(value: float, tokens: Sequence[Token], signs: str) -> str:
    """Digits, with their separators and the characters between them."""
    whole, point, fraction = signs.partition(".")
    last = max(whole.rfind(sign) for sign in "0#?")
    thousands = len(_TRAILING_COMMAS.findall(whole)) + len(_TRAILING_COMMAS.findall(fraction))
    scale = 100 ** signs.count("%") / Decimal(1000) ** thousands
    most, least = (len(re.findall(pattern, fraction)) for pattern in (r"[0#?]", r"0"))
    rounded = (Decimal(repr(value)) * scale).quantize(Decimal(1).scaleb(-most), ROUND_HALF_UP, _EXACT)
    digits, _, decimals = f"{abs(rounded):f}".partition(".")
    while len(decimals) > least and decimals.endswith("0"):
        decimals = decimals[:-1]
    digits = digits.lstrip("0").rjust(whole.count("0"), "0")
    pieces = _whole_pieces(tokens, digits, grouped="," in whole[:last])
    text = pieces + (f".{decimals}" if decimals or (point and least) else "") + _behind(tokens)
    return f"-{text}" if rounded < 0 else text


def _whole_pieces(tokens: Sequence[Token], digits: str, *, grouped: bool) -> str:
    """The part before the decimal point, filled from the right; the first place takes all remaining digits."""
    before: list[Token] = []
    for kind, text in tokens:
        if kind == "sign" and text == ".":
            break
        before.append((kind, text))
    places = [index for index, (kind, text) in enumerate(before) if kind == "sign" and text in "0#?"]
    if not places:
        return "".join(_literal(kind, text) for kind, text in before) + digits
    result: list[str] = []
    if grouped:
        digits = re.sub(r"(?<=\d)(?=(?:\d{3})+$)", ",", digits)
        for index, (kind, text) in enumerate(before):
            result.append(digits if index == places[0] else "" if index in places else _literal(kind, text))
        return "".join(result[: places[-1] + 1]) + _literals(before[places[-1] + 1 :])
    for index in range(len(before) - 1, -1, -1):
        kind, text = before[index]
        if index not in places:
            result.append(_literal(kind, text) if index < places[-1] else _literals([(kind, text)]))
        elif index == places[0]:
            result.append(digits)
        else:
            result.append(digits[-1:])
            digits = digits[:-1]
    return "".join(reversed(result))


def _literals(tokens: Sequence[Token]) -> str:
    return "".join(_literal(kind, text) for kind, text in tokens)


def _behind(tokens: Sequence[Token]) -> str:
    """The text after the decimals."""
    signs = [index for index, (kind, text) in enumerate(tokens) if kind == "sign" and text in "0#?."]
    points = [index for index, (kind, text) in enumerate(tokens) if kind == "sign" and text == "."]
    return "".join(_literal(kind, text) for kind, text in tokens[signs[-1] + 1 :]) if points and signs else ""


def _literal(kind: str, text: str) -> str:
    return (
        text if kind in {"literal", "currency"} or (kind == "sign" and text not in "0#?,@.") or kind == "date" else ""
    )


def _show_fraction(value: float, signs: str) -> str:
    most = 10 ** min(max(signs.rpartition("/")[2].count("?") + signs.rpartition("/")[2].count("#"), 1), 3) - 1
    fraction = Fraction(abs(value)).limit_denominator(most)
    whole, rest = divmod(fraction.numerator, fraction.denominator)
    parts = [str(whole)] if whole or not rest else []
    parts += [f"{rest}/{fraction.denominator}"] if rest else []
    return ("-" if value < 0 else "") + " ".join(parts)


def _show_date(days: float, tokens: Sequence[Token]) -> str:
    # Spreadsheets count a nonexistent 29 February 1900, so days before it are shifted by one.
    digits = max((len(text) - 1 for kind, text in tokens if kind == "date" and text[0] == "."), default=0)
    step = 10**-digits
    seconds = round(days * 86_400 / step) * step
    moment = _EPOCH + timedelta(seconds=seconds) + timedelta(days=1 if days < 60 else 0)
    half_day = any(kind == "half" for kind, _ in tokens)
    parts: list[str] = []
    for index, (kind, text) in enumerate(tokens):
        if kind == "elapsed":
            unit = {"h": 3600, "m": 60, "s": 1}[text[0].lower()]
            parts.append(f"{int(seconds // unit):0{len(text)}}")
        elif kind == "half":
            parts.append(("AM" if moment.hour < 12 else "PM") if len(text) > 3 else "AP"[moment.hour >= 12])
        elif kind == "date" and text[0] == ".":
            parts.append(f"{moment.microsecond / 1e6:.{digits}f}"[1:])
        elif kind == "date":
            parts.append(_unit(text.lower(), moment, half_day=half_day, minutes=_is_minute(tokens, index)))
        elif kind in {"literal", "currency", "sign"} and text != "@":
            parts.append(text)
    return "".join(parts).strip()


def _is_minute(tokens: Sequence[Token], index: int) -> bool:
    """Whether an ``m`` means minutes: after hours, or before seconds."""
    units = [(at, text[0].lower()) for at, (kind, text) in enumerate(tokens) if kind in {"date", "elapsed"}]
    place = next(number for number, (at, _) in enumerate(units) if at == index)
    before = units[place - 1][1] if place else ""
    after = units[place + 1][1] if place + 1 < len(units) else ""
    return before == "h" or after == "s"


def _unit(text: str, moment: datetime, *, half_day: bool, minutes: bool) -> str:
    size, letter = len(text), text[0]
    if letter == "y":
        return f"{moment.year:04}" if size > 2 else f"{moment.year % 100:02}"
    if letter == "m" and not minutes and size > 2:
        name = moment.strftime("%B")
        return {3: name[:3], 5: name[0]}.get(size, name)
    if letter == "d" and size > 2:
        return moment.strftime("%a" if size == 3 else "%A")
    hour = (moment.hour + 11) % 12 + 1 if half_day else moment.hour
    count = {"m": moment.minute if minutes else moment.month, "d": moment.day, "h": hour, "s": moment.second}[letter]
    return f"{count:0{min(size, 2)}}"
