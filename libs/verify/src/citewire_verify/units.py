"""Units, currencies and magnitudes, by their names in several languages, and what they amount to.

Spelled as `terms.normalise` spells them.
"""

import re
from collections.abc import Mapping
from typing import TypeVar

from citewire_verify.text.stop_words import words_of
from citewire_verify.text.terms import normalise

Value = TypeVar("Value", str, float)

_MAGNITUDES = {
    "k": 1e3, "thousand": 1e3, "tausend": 1e3, "mil": 1e3, "mille": 1e3, "mila": 1e3, "duizend": 1e3,
    "m": 1e6, "mn": 1e6, "mio": 1e6, "million": 1e6, "millions": 1e6, "millionen": 1e6, "millon": 1e6,
    "millones": 1e6, "milione": 1e6, "milioni": 1e6, "milhao": 1e6, "milhoes": 1e6, "miljoen": 1e6,
    "bn": 1e9, "mrd": 1e9, "billion": 1e9, "billions": 1e9, "milliard": 1e9, "milliards": 1e9, "milliarde": 1e9,
    "milliarden": 1e9, "miliardo": 1e9, "miliardi": 1e9, "miljard": 1e9, "trillion": 1e12, "trillions": 1e12,
    "тыс": 1e3, "тысяч": 1e3, "миллион": 1e6, "млн": 1e6, "миллиард": 1e9, "млрд": 1e9, "χιλιαδες": 1e3,
    "εκατομμυρι": 1e6, "εκατ": 1e6, "δισεκατομμυρι": 1e9, "ألف": 1e3, "مليون": 1e6, "مليار": 1e9,
    "हजार": 1e3, "लाख": 1e5,
    "करोड़": 1e7, "मिलियन": 1e6,
    "ஆயிரம்": 1e3, "லட்சம்": 1e5, "கோடி": 1e7, "மில்லியன்": 1e6, "հազար": 1e3, "միլիոն": 1e6,
    "միլիարդ": 1e9, "mld": 1e9, "tsd": 1e3, "hundred": 1e2,
    "万": 1e4, "萬": 1e4, "億": 1e8, "亿": 1e8, "만": 1e4, "억": 1e8,
}  # fmt: skip
MAGNITUDES = {normalise(name): value for name, value in _MAGNITUDES.items()}
WIDE_MAGNITUDES = frozenset("万萬億亿만억")
CAUTIOUS = frozenset({"mil", "mille"})
"""Magnitudes that are also other words, so that the number alone counts as well."""
_PERCENT = words_of("""
    % ٪ ％ percent pct prozent percents percentage procent porcentaje процент प्रतिशत சதவீதம் տոկոս
""")
_PERCENT_PAIRS = frozenset(
    {"per cent", "por ciento", "pour cent", "per cento", "por cento", "τοις εκατο", "في المئة", "في المائة"}
)
_UNITS = {
    name: kind
    for kind, names in {
        "time second": "s sec second sekunde segundo seconde secondo",
        "time minute": "min minute minuto minuut минут मिनट دقيقة 分钟 分鐘 분",
        "time hour": "h hr hour stunde stunden hora heure ora uur час घंटे ساعة 小时 小時 時間 시간",
        "time day": "day tag tage tagen dia jour giorno giorni dag dagen день дней дня दिन يوم 天 일",
        "time week": "week woche wochen semana semaine settimana settimane weken недел सप्ताह أسبوع 周 週間 주",
        "time month": (
            "month monat monate monaten mes mois mese mesi maand maanden месяц महीने شهر 个月 ヶ月 か月 カ月 개월"
        ),
        "time year": "year yr jahr jahre jahren ano an annee anno anni jaar год лет वर्ष साल سنة",
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
        "mass ug": "μg mcg ug microgram microgramme",
        "mass ng": "ng nanogram",
        "share permille": "‰ permille promille",
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
        "volume ft3": "cu_ft cubic_foot cubic_feet",
        "volume m3": "m3 cubic_metre cubic_meter kubikmeter",
        "data kb": "kb kilobyte",
        "data tb": "tb terabyte",
        "money usd": "dollar usd $ доллар डॉलर دولار δολαρι 美元 ドル 달러",
        "money eur": "euro eur € евро ευρω यूरो يورو եվրո யூரோ 欧元 歐元 ユーロ 유로",
        "money gbp": "gbp £ sterling",
        "money jpy": "yen jpy ¥ 円 日元",
        "money cny": "yuan cny rmb 元 人民币",
        "money chf": "chf franken",
        "money inr": "rupee inr ₹ रुपये रुपए ரூபாய்",
        "money rub": "ruble rouble rub ₽ рубл",
        "money krw": "won krw ₩ 원",
        "money cent": "cent",
        "data mb": "mb megabyte",
        "data gb": "gb gigabyte",
    }.items()
    for name in (normalise(name.replace("_", " ")) for name in names.split())
}
"""A unit's class and name: another name of the same class is another amount."""
_FACTORS = {
    "mass ng": 1e-9, "mass ug": 1e-6,
    "time second": 1.0, "time minute": 60.0, "time hour": 3600.0, "time day": 86400.0, "time week": 604800.0,
    "time month": 2629800.0, "time year": 31557600.0, "time decade": 315576000.0, "time century": 3155760000.0,
    "length mm": 1.0, "length cm": 10.0, "length m": 1000.0, "length km": 1e6,
    "mass mg": 1e-3, "mass g": 1.0, "mass kg": 1e3, "mass t": 1e6,
    "volume ml": 1.0, "volume l": 1e3, "volume m3": 1e6, "area m2": 1.0, "area ha": 1e4, "area km2": 1e6,
}  # fmt: skip


_ONE_UNIT = frozenset({frozenset({"mass lb", "money gbp"})})
"""Units that share a name."""
_CURRENCY = re.compile(
    r"(?:(?<![A-Za-z])|(?<![A-Za-z])(?:[ACRS]|[A-Z]{2}))(EUR|USD|GBP|CHF|JPY|CNY|INR|RUB|[€$£¥₹₽₩])[ \u00a0\u202f]?$"
)
_STEM = 3
"""Minimum number of initial letters shared by a unit's inflected forms."""


def unit_named(word: str) -> str:
    """The class and name of the unit with this normalised word; "" if it isn't a unit."""
    unit = _UNITS.get(word) or _UNITS.get(word.removesuffix("s")) or _UNITS.get(word.removesuffix("es"), "")
    return unit or _inflected(word, _UNITS) or ""


def magnitude_named(word: str) -> float | None:
    """The factor of a magnitude word; None if it isn't one."""
    return MAGNITUDES.get(word) or _inflected(word, MAGNITUDES)


def is_percent(word: str) -> bool:
    """Whether a normalised word, or pair of words, means percent."""
    return word in _PERCENT or word in _PERCENT_PAIRS or word[:-2] in _PERCENT or word[:-1] in _PERCENT


def _inflected(word: str, table: Mapping[str, Value]) -> Value | None:
    """A word's entry by its beginning: Russian inflects units, and Chinese writes what follows without a space."""
    if word.isascii():
        return None
    least = 1 if "\u3040" <= word[0] <= "\uffef" else _STEM
    return next((table[word[:end]] for end in range(len(word), least - 1, -1) if word[:end] in table), None)


def currency_before(text: str, start: int) -> str:
    """The currency before a number; "" if there is none."""
    match = _CURRENCY.search(text, max(start - 5, 0), start)
    return _UNITS[match.group(1).lower()] if match else ""


def factor_of(unit: str) -> float | None:
    """The size of a unit in the smallest unit of its kind; None if it isn't known."""
    return _FACTORS.get(unit)


def contradict(unit: str, other: str) -> bool:
    """Whether two known units measure different things: days, months; euros, percent."""
    return bool(unit and other and unit != other and frozenset({unit, other}) not in _ONE_UNIT)
