"""Numbers in a text, by their value: digits, words, percent, magnitudes, thousands' marks of several countries."""

import math
import re
import unicodedata
from dataclasses import dataclass

from citewire_verify.text.terms import normalise


@dataclass(frozen=True, slots=True)
class Quantity:
    """A number as it stands in a text."""

    start: int
    end: int
    values: tuple[float, ...]
    """What it may mean: `1.200` is 1.2 or 1,200."""
    percent: bool
    unit: str
    """The unit right after it, by its class and name; empty if none is known."""
    word: bool
    """Whether it is written in letters."""
    digits: int
    """Significant digits."""
    whole: str = ""
    """A number of several parts that counts only as a whole, such as a version or a date: `2.10.3`."""


_SPACES = "\u00a0\u202f\u2009 "
_DIGITS = re.compile(
    rf"(?P<spaced>(?<![\d.,])\d{{1,3}}(?:[{_SPACES}]\d{{3}})+(?![\d]))|(?P<plain>\d+(?:[.,:'’٫٬]\d+)*)"
)
_MAGNITUDES = {
    "k": 1e3, "thousand": 1e3, "tausend": 1e3, "mil": 1e3, "mille": 1e3, "mila": 1e3, "duizend": 1e3,
    "m": 1e6, "mn": 1e6, "mio": 1e6, "million": 1e6, "millions": 1e6, "millionen": 1e6, "millon": 1e6,
    "millones": 1e6, "milione": 1e6, "milioni": 1e6, "milhao": 1e6, "milhoes": 1e6, "miljoen": 1e6,
    "bn": 1e9, "mrd": 1e9, "billion": 1e9, "billions": 1e9, "milliard": 1e9, "milliards": 1e9, "milliarde": 1e9,
    "milliarden": 1e9, "miliardo": 1e9, "miliardi": 1e9, "miljard": 1e9, "trillion": 1e12, "trillions": 1e12,
    "万": 1e4, "萬": 1e4, "億": 1e8, "亿": 1e8, "만": 1e4, "억": 1e8,
}  # fmt: skip
_WIDE_MAGNITUDES = frozenset("万萬億亿만억")
_CAUTIOUS = frozenset({"k", "m", "mil", "mille"})
"""Magnitudes that are other words too, so that the number alone counts as well."""
_AFTER = re.compile(
    r"(?P<ordinal>(?:st|nd|rd|th|º|ª|°)(?!\w))?[ \u00a0\u202f-]{0,2}"
    r"(?P<word>[%٪€$£¥]|°[CFcf](?!\w)|(?:degrees?|deg\.?|°) ?(?:[Cc]elsius|[Ff]ahrenheit|[CF]\b)|km/h|m/s"
    r"|(?:square|cubic|sq\.?) [a-z]{1,12}|[km]?m[²³]|[^\W\d_]{1,14}(?: cent\b| ciento\b)?)?"
)
_CURRENCY = re.compile(r"(?<![A-Za-z])(EUR|USD|GBP|CHF|JPY|[€$£¥])[ \u00a0\u202f]?$")
_MINUS = re.compile(r"(?:(?<![^\s(])[-−–]|\bminus )$", re.IGNORECASE)
_BELOW = re.compile(r"\bbelow (?:zero|freezing)|\bunter null", re.IGNORECASE)
_PERCENT = frozenset(["%", "٪", "percent", "pct", "prozent", "percents", "percentage", "procent", "porcentaje"])
_PERCENT_PAIRS = frozenset({"per cent", "por ciento", "pour cent", "per cento", "por cento"})
_UNITS = {
    name: kind
    for kind, names in {
        "time second": "s sec second sekunde segundo seconde secondo",
        "time minute": "min minute minuto minuut",
        "time hour": "h hr hour stunde hora heure ora uur",
        "time day": "day tag tage tagen dia jour giorno giorni dag dagen",
        "time week": "week woche wochen semana semaine settimana settimane weken",
        "time month": "month monat monate monaten mes mois mese mesi maand maanden",
        "time year": "year yr jahr jahre jahren ano an annee anno anni jaar",
        "time decade": "decade jahrzehnt decada decennie",
        "time century": "century centurie jahrhundert siglo siecle secolo eeuw",
        "length m": "metre meter metro",
        "length km": "km kilometre kilometer kilometro",
        "length cm": "cm centimetre centimeter",
        "length mm": "mm millimetre millimeter",
        "length mi": "mi mile meile milla",
        "length ft": "ft foot feet",
        "length in": "inch inche",
        "mass g": "g gram gramm gramo",
        "mass kg": "kg kilogram kilogramme kilo",
        "mass lb": "lb pound",
        "mass t": "tonne ton",
        "mass mg": "mg milligram milligramme",
        "mass oz": "oz ounce unze onza once",
        "length yd": "yd yard",
        "temperature c": "°c celsius centigrade degree_celsius degrees_celsius degrees_c degree_c °celsius grad",
        "temperature f": "°f fahrenheit degree_fahrenheit degrees_fahrenheit degrees_f degree_f °fahrenheit",
        "speed kmh": "km/h kmh kph",
        "speed mph": "mph",
        "speed ms": "m/s",
        "speed knot": "knot kn",
        "electric v": "volt v",
        "electric a": "amp ampere",
        "electric w": "watt w",
        "electric kw": "kw kilowatt",
        "electric mw": "mw megawatt",
        "electric gw": "gw gigawatt",
        "energy wh": "wh",
        "energy kwh": "kwh",
        "energy mwh": "mwh",
        "energy gwh": "gwh",
        "area ha": "ha hectare hektar hectarea",
        "area acre": "acre",
        "area m2": "m2 sqm square_metre square_meter quadratmeter",
        "area km2": "km2 square_kilometre square_kilometer sq_km quadratkilometer",
        "area ft2": "sqft square_foot square_feet sq_ft",
        "area mi2": "square_mile sq_mi",
        "volume l": "l litre liter litro",
        "volume ml": "ml millilitre milliliter",
        "volume gal": "gallon gal",
        "volume pt": "pint",
        "volume m3": "m3 cubic_metre cubic_meter kubikmeter",
        "data kb": "kb kilobyte",
        "data tb": "tb terabyte",
        "money usd": "dollar usd $",
        "money eur": "euro eur €",
        "money gbp": "gbp £",
        "money jpy": "yen jpy ¥",
        "money chf": "chf franken",
        "data mb": "mb megabyte",
        "data gb": "gb gigabyte",
    }.items()
    for name in (name.replace("_", " ") for name in names.split())
}
"""A unit's class and its name: another name of the same class is another amount."""
MONTH = "date month"
"""The unit of a month's name."""
_FACTORS = {
    "time second": 1.0, "time minute": 60.0, "time hour": 3600.0, "time day": 86400.0, "time week": 604800.0,
    "time month": 2629800.0, "time year": 31557600.0, "time decade": 315576000.0, "time century": 3155760000.0,
    "length mm": 1.0, "length cm": 10.0, "length m": 1000.0, "length km": 1e6,
    "mass mg": 1e-3, "mass g": 1.0, "mass kg": 1e3, "mass t": 1e6,
    "volume ml": 1.0, "volume l": 1e3, "volume m3": 1e6, "area m2": 1.0, "area ha": 1e4, "area km2": 1e6,
}  # fmt: skip


def _count(words: str, start: int = 0) -> dict[str, int]:
    """Numbers words one after the other."""
    return {word: value for value, word in enumerate(words.split(), start)}


_ONES = _count(
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen "
    "eighteen nineteen"
)
_TENS = {word: 10 * value for word, value in _count("twenty thirty forty fifty sixty seventy eighty ninety", 2).items()}
_SCALES = {"hundred": 100.0, "thousand": 1e3, "million": 1e6, "billion": 1e9, "trillion": 1e12}
_ORDINALS = _count(
    "first second third fourth fifth sixth seventh eighth ninth tenth eleventh twelfth thirteenth fourteenth fifteenth "
    "sixteenth seventeenth eighteenth nineteenth twentieth",
    1,
)
_MULTIPLES = {"dozen": 12.0, "once": 1.0, "twice": 2.0, "thrice": 3.0, "double": 2.0, "triple": 3.0, "both": 2.0}
_OTHERS = {
    "de": "null eins zwei drei vier funf sechs sieben acht neun zehn elf zwolf",
    "fr": "zero un deux trois quatre cinq six sept huit neuf dix onze douze",
    "es": "cero uno dos tres cuatro cinco seis siete ocho nueve diez once doce",
    "it": "zero uno due tre quattro cinque sei sette otto nove dieci undici dodici",
    "pt": "zero um dois tres quatro cinco seis sete oito nove dez onze doze",
    "nl": "nul een twee drie vier vijf zes zeven acht negen tien elf twaalf",
}
_NUMBER_WORDS = {
    language: {word: float(value) for value, word in enumerate(words.split())} for language, words in _OTHERS.items()
}
_LETTERS = re.compile(r"[^\W\d_]+")
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


def find_numbers(text: str, language: str = "en") -> list[Quantity]:
    """Finds the numbers of a text, in order. Months' names are none: `month_value` tells theirs."""
    quantities = [_quantity(text, match) for match in _DIGITS.finditer(text)]
    quantities += _worded(text, language)
    quantities.sort(key=lambda quantity: quantity.start)
    return quantities


def base_amounts(quantity: Quantity) -> list[float]:
    """What a number with a unit amounts to in the smallest unit of its kind; nothing if that isn't known."""
    factor = _FACTORS.get(quantity.unit)
    return [value * factor for value in quantity.values] if factor else []


def month_named(start: int, end: int, value: float) -> Quantity:
    """A month's name as a number of its own kind."""
    return Quantity(start, end, (value,), percent=False, unit=MONTH, word=True, digits=1)


def month_value(word: str) -> float | None:
    """The number of a month by its normalised name."""
    return _MONTHS.get(word)


def rounds_to(value: float, claimed: Quantity) -> bool:
    """Whether a number was rounded to a claimed one: to two or more significant digits, as people do."""
    if claimed.word or claimed.digits < 2:
        return False
    for number in claimed.values:
        if number and value and number != value and 0.9 < value / number < 1.1:
            # Halves are rounded up or down.
            step = 10.0 ** (math.floor(math.log10(abs(number))) - claimed.digits + 1)
            rounded = number if abs(value - number) <= step / 2 + 1e-9 * abs(number) else value
            whole = number == round(value) and value != int(value)
            # A year or a count given to its last digit isn't a rounded one.
            if whole or (rounded == number and _trailing_zeros(number, claimed.digits)):
                return True
    return False


def _trailing_zeros(value: float, digits: int) -> bool:
    return value >= 10 ** (digits + 1) or value != int(value)


def _quantity(text: str, match: re.Match[str]) -> Quantity:
    raw = match.group()
    values = _values(raw, spaced=match.lastgroup == "spaced")
    after = _AFTER.match(text, match.end())
    word = normalise(after.group("word") or "") if after else ""
    end = match.end()
    percent = word in _PERCENT or word in _PERCENT_PAIRS
    unit = ""
    if after and percent:
        end = after.end()
    elif after and word[:1] in _WIDE_MAGNITUDES:
        values = tuple(value * _MAGNITUDES[word[0]] for value in values)
        end = after.start("word") + 1
    elif after and word in _MAGNITUDES:
        scaled = tuple(value * _MAGNITUDES[word] for value in values)
        values = (*scaled, *values) if word in _CAUTIOUS else scaled
        end = match.end() if word in _CAUTIOUS else after.end()
    else:
        unit = "" if after and after.start("word") == match.end() and len(word) == 1 and word == "s" else _unit(word)
    unit = unit or _currency_before(text, match.start())
    if unit.startswith("temperature"):
        values = _below_zero(text, match, values)
        end = after.end() if after else end  # `Celsius` is no name
    digits = len(re.sub(r"\D", "", raw).lstrip("0").rstrip("0")) or 1
    parts = re.split(r"[.,'’٫٬]", raw)
    # A time in it (`24:4.5.1`) is no part of a version or a date.
    is_whole = len(parts) > 2 and parts[0].isdecimal() and values[0] == float(parts[0])
    whole = ".".join(parts) if is_whole else ""
    return Quantity(match.start(), end, values, percent, unit, word=False, digits=digits, whole=whole)


def _below_zero(text: str, match: re.Match[str], values: tuple[float, ...]) -> tuple[float, ...]:
    """A temperature's sign; elsewhere a dash before a number may mean many things."""
    if _MINUS.search(text, max(match.start() - 7, 0), match.start()):
        return tuple(-value for value in values)
    below = _BELOW.search(text, match.end(), match.end() + 40)
    return tuple(-value for value in values) + values if below else values


def _currency_before(text: str, start: int) -> str:
    match = _CURRENCY.search(text, max(start - 5, 0), start)
    return _UNITS[match.group(1).lower()] if match else ""


def _unit(word: str) -> str:
    return _UNITS.get(word) or _UNITS.get(word.removesuffix("s")) or _UNITS.get(word.removesuffix("es"), "")


def _values(raw: str, *, spaced: bool) -> tuple[float, ...]:
    raw = unicodedata.normalize("NFKC", raw).replace("’", "'").replace("٫", ".").replace("٬", ",")
    if spaced:
        parts = raw.split()
        return float("".join(parts)), float(parts[0])
    digits = re.split(r"[.,:']", raw)
    if len(raw) > 40:
        return (float("inf"),)
    if len(digits) == 1:
        return (float(raw),)
    values: list[float] = []
    marks = {char for char in raw if char in ".,:'"}
    if ":" in marks:
        return (sum(float(part) / 60**power for power, part in enumerate(digits[:3])),)
    if all(len(part) == 3 for part in digits[1:]) and len(digits[0]) <= 3 and len(marks) == 1:
        values.append(float("".join(digits)))
    if len(digits) == 2 and marks <= {".", ","}:
        values.append(float(f"{digits[0]}.{digits[1]}"))
    elif len(marks) == 2 and len(digits[-1]) != 3:
        values.append(float("".join(digits[:-1]) + "." + digits[-1]))
    if not values:
        values = [float(part) for part in digits]
    return tuple(dict.fromkeys(values))


def _worded(text: str, language: str) -> list[Quantity]:
    """Numbers in words: English with compounds, small ones of some other languages."""
    others = _NUMBER_WORDS.get(language, {})
    quantities: list[Quantity] = []
    tokens = [(match.group(), match.start(), match.end()) for match in _LETTERS.finditer(text)]
    index = 0
    while index < len(tokens):
        word = normalise(tokens[index][0])
        if word in _ONES or word in _TENS or word in _SCALES:
            count, value = _compound(text, tokens, index)
            if value is not None:
                quantities.append(_of_words(text, tokens[index][1], tokens[index + count - 1][2], value))
            index += max(count, 1)
            continue
        value = _ORDINALS.get(word) or _MULTIPLES.get(word)
        if value is not None:
            quantities.append(_of_words(text, tokens[index][1], tokens[index][2], float(value)))
        elif others.get(word, 0.0) > 1:
            quantities.append(_of_words(text, tokens[index][1], tokens[index][2], others[word]))
        index += 1
    return quantities


def _compound(text: str, tokens: list[tuple[str, int, int]], index: int) -> tuple[int, float | None]:
    """Reads `two hundred and fifty thousand`; how many words, and the value (None: a scale alone, `millions of`)."""
    total = current = 0.0
    count = 0
    used = False
    last = ""
    for raw, start, _ in tokens[index : index + 12]:
        word = normalise(raw)
        if count and text[tokens[index + count - 1][2] : start].strip(" -\u2010\u2011"):
            break
        if word in _ONES:
            if last == "one" or (last == "ten" and not 0 < _ONES[word] < 10):
                break
            current += _ONES[word]
            last = "one"
        elif word in _TENS:
            if last in {"one", "ten"}:
                break
            current += _TENS[word]
            last = "ten"
        elif word in _ORDINALS and last == "ten" and _ORDINALS[word] < 10:
            return count + 1, total + current + _ORDINALS[word]
        elif word == "hundred" and used:
            current = max(current, 1) * 100
            last = "scale"
        elif word in _SCALES and used:
            total += max(current, 1) * _SCALES[word]
            current = 0.0
            last = "scale"
        elif word == "and" and last == "scale":
            following = normalise(tokens[index + count + 1][0]) if index + count + 1 < len(tokens) else ""
            if following not in _ONES and following not in _TENS:
                break
        else:
            break
        used = True
        count += 1
    return (count, total + current) if used else (1, None)


def _of_words(text: str, start: int, end: int, value: float) -> Quantity:
    after = _AFTER.match(text, end)
    word = normalise(after.group("word") or "") if after else ""
    percent = word in _PERCENT or word in _PERCENT_PAIRS
    return Quantity(start, end, (value,), percent, _unit(word), word=True, digits=len(f"{value:g}".rstrip("0")))
