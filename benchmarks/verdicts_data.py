"""False sentences made from real ones, by kind, for `benchmarks.verdicts`.

Each way takes an English sentence that appears verbatim in its passage and returns a changed one, or None if there is
nothing to change. Many of their words are in the verifier's lists too; those in `UNLISTED` aren't.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Sequence

from citewire_verify.vocabulary import OPPOSITES

Change = Callable[[str, random.Random], str | None]

_AUXILIARY = r"is|was|are|were|can|could|will|would|has|have|had|should|must|may|might"
_VERB = re.compile(rf"(?<=\w )({_AUXILIARY}) (?!not\b|never\b|no\b)(?=[a-z\d])")
_PAST = re.compile(
    r"(?<=[a-z] )(?<!\b(?:be|is|as|re|en|ad|ve|ot|or|nd|to|ly) )([a-z]{3,}[^e\W])ed "
    r"(?=(?:the|a|an|his|her|its|their|in|to|by|from|on)\b)"
)
_HELD = re.compile(r"(?<=\w )(is|was|are|were|has|had|did|does|do) not (?=[a-z])|(?<=\w )never (?=[a-z])")
# A count or amount: no year, no part of a date, a name, a list, a range or a longer number, no zero (whose millions are
# zero too), and nothing that is a percentage already.
_AMOUNT = re.compile(
    r"(?<![\w.,:/$£€+-])(?<!(?:No|ol)\. )(?!(?:1[4-9]|20)\d\d\b)(?!0\b)"
    r"\d{1,3}(?:,\d{3})*(?:\.\d+)?(?![\w.,:/%-]*\d)(?!(?:st|nd|rd|th)\b)"
    r"(?= (?!(?:BC|AD|CE|percent|per cent)\b)(?!(?:to|or|and) \d)[a-z])"
)
_BOUND = re.compile(
    r"\b(?:over|above|below|under|least|most|than|about|around|nearly|almost|approximately|to|and|or|between|only|exactly|"
    r"[Cc]hapter|[Pp]age|[Aa]ge|[Aa]rticle|[Ss]ection|Act|[A-Z]\w*) $"
)
_DATE = re.compile(
    r"\b(?:(\d{1,2}) )?(January|February|March|April|June|July|August|September|October|November|December)\b"
    r"(?: (\d{1,2})(?!\d))?"
)
_MONTHS = [
    "January",
    "February",
    "March",
    "April",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
]
PERCENT = re.compile(r"(?<![\w.,])(\d+(?:\.\d+)?)(?: percent|%)")
_ORDINAL = re.compile(r"\b(\d{1,2})(?:st|nd|rd|th)\b")
_RANGE = re.compile(r"(?<![\w.,])(\d{1,3})( to | and |–|-)(\d{1,3})(?![\w.,%-])(?= [a-z])")
_ACTED = re.compile(
    r"(?<![\w.] )(?<!\w)([A-Z][a-z]+(?: [A-Z][a-z]+)?)"
    r"( (?:[a-z]+ed|won|beat|met|led|gave|sold|took|built|wrote|saw|made) "
    r"(?:(?:[a-z]+ ){0,3}))([A-Z][a-z]+(?: [A-Z][a-z]+)?)(?= [a-z]|[.,])"
)
_OPENER = frozenset(
    [
        "The",
        "This",
        "That",
        "These",
        "Those",
        "They",
        "He",
        "She",
        "It",
        "In",
        "On",
        "At",
        "Some",
        "Many",
        "Few",
        "French",
        "Both",
        "His",
        "Her",
        "Its",
    ]
)
_NAME = re.compile(r"(?<=[a-z,;] )[A-Z][a-z]{2,}(?: [A-Z][a-z]{2,})*(?![\w'’])")


def swap(*pairs: str) -> Change:
    """Replaces a word by its counterpart in a pair; a pair written `a>b` works in one direction."""
    table: dict[str, list[str]] = {}
    for pair in pairs:
        old, mark, new = pair.partition(">") if ">" in pair else pair.partition("/")
        table.setdefault(old, []).append(new)
        if mark == "/":
            table.setdefault(new, []).append(old)
    pattern = re.compile(rf"\b(?<!-)({'|'.join(sorted(table, key=len, reverse=True))})\b(?!-)", re.IGNORECASE)

    def change(text: str, draw: random.Random) -> str | None:
        matches = list(pattern.finditer(text))
        if not matches:
            return None
        match = draw.choice(matches)
        new = draw.choice(table[match.group().lower()])
        return text[: match.start()] + _cased(match.group(), new) + text[match.end() :]

    return change


def _cased(old: str, new: str) -> str:
    return new[0].upper() + new[1:] if old[0].isupper() else new


def _after_verb(*words: str) -> Change:
    def change(text: str, draw: random.Random) -> str | None:
        matches = list(_VERB.finditer(text))
        if not matches:
            return None
        match = draw.choice(matches)
        return f"{text[: match.end()]}{draw.choice(words)} {text[match.end() :]}"

    return change


def _contract(text: str, draw: random.Random) -> str | None:
    matches = [match for match in _VERB.finditer(text) if match.group(1) in {"is", "was", "are", "were", "has", "had"}]
    if not matches:
        return None
    match = draw.choice(matches)
    return f"{text[: match.start()]}{match.group(1)}n't {text[match.end() :]}"


def _cannot(text: str, draw: random.Random) -> str | None:
    matches = [match for match in _VERB.finditer(text) if match.group(1) in {"can", "may", "could"}]
    if not matches:
        return None
    match = draw.choice(matches)
    return f"{text[: match.start()]}{draw.choice(['cannot', 'can’t', 'can not'])} {text[match.end() :]}"


def _did_not(text: str, draw: random.Random) -> str | None:
    matches = list(_PAST.finditer(text))
    if not matches:
        return None
    match = draw.choice(matches)
    return (
        f"{text[: match.start()]}{draw.choice(['did not', 'didn’t', 'never'])} {match.group(1)} {text[match.end() :]}"
    )


def _affirm(text: str, draw: random.Random) -> str | None:
    matches = list(_HELD.finditer(text))
    if not matches:
        return None
    match = draw.choice(matches)
    verb = match.group(1)
    return text[: match.start()] + (f"{verb} " if verb else "") + text[match.end() :]


def _amount(write: Callable[[str, random.Random], str | None]) -> Change:
    """Changes a count or amount that has no bound yet."""

    def change(text: str, draw: random.Random) -> str | None:
        matches = [match for match in _AMOUNT.finditer(text) if not _BOUND.search(text[: match.start()])]
        draw.shuffle(matches)
        for match in matches:
            new = write(match.group(), draw)
            if new is not None:
                return text[: match.start()] + new + text[match.end() :]
        return None

    return change


def _before(*words: str) -> Change:
    return _amount(lambda number, draw: f"{draw.choice(words)} {number}")


def _grouped(number: str, draw: random.Random) -> str | None:
    return number + draw.choice([" 000", ",000", "\u202f000", "'000"]) if number.isdigit() and number != "0" else None


def _other_digit(number: str, draw: random.Random) -> str | None:
    place = draw.choice([at for at, char in enumerate(number) if char.isdigit()])
    digit = draw.choice([other for other in "123456789" if other != number[place]])
    return number[:place] + digit + number[place + 1 :]


def _point(number: str, draw: random.Random) -> str | None:
    if not number.isdigit() or number == "0":
        return None
    return draw.choice(["0.", ".", "0,"]) + number


def _other_date(text: str, draw: random.Random) -> str | None:
    matches = list(_DATE.finditer(text))
    if not matches:
        return None
    match = draw.choice(matches)
    day = next((group for group in (1, 3) if match.group(group)), None)
    if day is not None and draw.random() < 0.5:
        new = draw.choice([str(number) for number in range(1, 29) if str(number) not in text])
        return text[: match.start(day)] + new + text[match.end(day) :]
    new = draw.choice([month for month in _MONTHS if month not in text])
    return text[: match.start(2)] + new + text[match.end(2) :]


def _drop_percent(text: str, draw: random.Random) -> str | None:
    matches = list(PERCENT.finditer(text))
    if not matches:
        return None
    match = draw.choice(matches)
    return text[: match.start()] + match.group(1) + draw.choice(["", "‰", " people", " euros"]) + text[match.end() :]


def _other_ordinal(text: str, draw: random.Random) -> str | None:
    matches = list(_ORDINAL.finditer(text))
    if not matches:
        return None
    match = draw.choice(matches)
    number = draw.choice([n for n in range(4, 30) if n not in {21, 22, 23} and str(n) not in text])
    return text[: match.start()] + f"{number}th" + text[match.end() :]


def _other_range(text: str, draw: random.Random) -> str | None:
    matches = list(_RANGE.finditer(text))
    if not matches:
        return None
    match = draw.choice(matches)
    low, mark, high = match.groups()
    if draw.random() < 0.5:
        high = str(int(high) + draw.choice([1, 5, 10, 30]))
    else:
        low = str(max(int(low) - draw.choice([1, 2, 3]), 0))
    return text[: match.start()] + low + mark + high + text[match.end() :] if low != match.group(1) or high else None


def _swap_roles(text: str, draw: random.Random) -> str | None:
    matches = [match for match in _ACTED.finditer(text) if _OPENER.isdisjoint((match.group(1), match.group(3)))]
    if not matches:
        return None
    match = draw.choice(matches)
    return f"{text[: match.start()]}{match.group(3)}{match.group(2)}{match.group(1)}{text[match.end() :]}"


def _swap_names(text: str, draw: random.Random) -> str | None:
    names = [match.group() for match in _NAME.finditer(text) if match.group() not in _MONTHS]
    names = [name for name in dict.fromkeys(names) if text.count(name) == 1]
    pairs = [(a, b) for i, a in enumerate(names) for b in names[i + 1 :] if not set(a.split()) & set(b.split())]
    # Two members of one list may be swapped.
    pairs = [(a, b) for a, b in pairs if re.search(r"[a-z]{4,}", text[text.index(a) + len(a) : text.index(b)])]
    if not pairs:
        return None
    a, b = draw.choice(pairs)
    return text.replace(a, "\0").replace(b, a).replace("\0", b)


_UNIT_PAIRS = (
    "kilometres/miles", "km/miles", "kilometers/miles", "metres/feet", "meters/feet", "feet/yards", "miles/metres",
    "kg/mg", "grams/kilograms", "pounds/ounces", "tonnes/kilograms", "tons/pounds", "hours/minutes", "days/weeks",
    "minutes/seconds", "months/weeks", "years/months", "years/decades", "acres/hectares", "inches/feet",
    "degrees/percent", "litres/gallons", "mg/µg", "dollars/euros", "euros/pounds", "million/billion",
    "thousand/million", "hundred/thousand",
)  # fmt: skip
_UNITS: dict[str, list[str]] = {}
for _pair in _UNIT_PAIRS:
    _first, _, _second = _pair.partition("/")
    _UNITS.setdefault(_first, []).append(_second)
    _UNITS.setdefault(_second, []).append(_first)
_UNIT = re.compile(rf"(?<=\d )(?:{'|'.join(sorted(_UNITS, key=len, reverse=True))})\b")
_CURRENCY = re.compile(r"[$£€](?=\d)")


def _other_unit(text: str, draw: random.Random) -> str | None:
    matches = list(_UNIT.finditer(text))
    if not matches:
        return None
    match = draw.choice(matches)
    return text[: match.start()] + draw.choice(_UNITS[match.group()]) + text[match.end() :]


def _other_currency(text: str, draw: random.Random) -> str | None:
    matches = list(_CURRENCY.finditer(text))
    if not matches:
        return None
    match = draw.choice(matches)
    return text[: match.start()] + draw.choice([mark for mark in "$£€" if mark != match.group()]) + text[match.end() :]


def _except(text: str, draw: random.Random) -> str | None:
    matches = list(re.finditer(r"(?<=[a-z] )(?=(?:in|for|during|on|at) (?:the |its |their )?[a-zA-Z])", text))
    if not matches:
        return None
    at = draw.choice(matches).start()
    return text[:at] + draw.choice(["except ", "but not ", "other than "]) + text[at:]


UNLISTED = (
    "accidental/deliberate", "sacred/secular", "civilian/military", "peaceful/violent", "theoretical/practical",
    "local/global", "industrial/agricultural", "predecessor/successor", "formal/informal", "coastal/inland",
    "scarce/abundant", "fertile/barren", "loyal/rebellious", "welcomed/resented", "founded/dissolved",
    "preserved/destroyed", "united/divided", "gathered/scattered", "independent/subordinate", "tropical/polar",
    "ancestor/descendant", "cause/consequence", "religious/secular", "central/peripheral", "famous/obscure",
    "rejected/embraced", "defended/abandoned", "attacked/protected", "growth/decay", "freedom/captivity",
    "advantage/drawback", "advantages/drawbacks", "wealth/poverty", "war/peace", "creation/destruction",
    "stable/volatile", "direct/roundabout", "individual/collective", "mountainous/flat", "catholic/protestant",
)  # fmt: skip
"""Opposites that aren't in the verifier's lists."""
_OVERLAP = [pair for pair in UNLISTED if pair.split("/")[1] in OPPOSITES.get(pair.split("/")[0], ())]
if _OVERLAP:
    raise ValueError(f"the verifier knows {_OVERLAP}")

PLANTED: dict[str, Sequence[tuple[str, Change]]] = {
    "negation": (
        ("is not", _after_verb("not")),
        ("isn't", _contract),
        ("never", _after_verb("never")),
        ("no longer", _after_verb("no longer")),
        ("cannot", _cannot),
        ("did not", _did_not),
        ("not removed", _affirm),
        ("hardly", _after_verb("hardly", "rarely")),
    ),
    "condition": (
        ("if, unless", swap("if/unless", "when>unless", "while>unless", "until>unless")),
        ("except", _except),
        ("including, excluding", swap("including/excluding", "with/without", "includes/excludes")),
    ),
    "comparison": (
        ("above, over", _before("above", "over", "more than", "at least", "exceeding")),
        ("below, under", _before("below", "under", "fewer than", "less than", "at most", "no more than")),
        (
            "another comparison",
            swap("more than/less than", "at least/at most", "above/below", "no more than>no less than",
                  "fewer than/more than", "higher/lower", "larger/smaller", "up to a>at least a"),
        ),
    ),
    "number": (
        ("digit", _amount(_other_digit)),
        ("500 000", _amount(_grouped)),
        ("500m", _amount(lambda number, draw: number + draw.choice(["m", "k", "bn"]))),
        ("500 million", _amount(lambda number, draw: number + draw.choice([" million", " thousand", " billion"]))),
        ("0.500", _amount(_point)),
        ("-500", _amount(lambda number, draw: draw.choice(["-", "−", "minus "]) + number)),
        ("500 %", _amount(lambda number, draw: number + draw.choice(["%", " %", " percent"]))),
        ("percent removed", _drop_percent),
        ("unit", _other_unit),
        ("currency", _other_currency),
        ("date", _other_date),
        ("ordinal", _other_ordinal),
        (
            "ordinal word",
            swap("first/second", "second/third", "third/fourth", "fifth/sixth", "first/third"),
        ),
        ("range", _other_range),
    ),
    "frequency": (
        (
            "hourly for daily",
            swap("daily/hourly", "daily/weekly", "weekly/monthly", "monthly/yearly", "annual/monthly",
                  "annually/weekly", "yearly/daily", "per year/per month", "per day/per hour", "a year/a week",
                  "every year/every month", "each year/each month", "annual/weekly", "annually/daily"),
        ),
    ),
    "roles": (("A acquired B", _swap_roles), ("names of one sentence", _swap_names)),
    "modality": (
        (
            "may, must",
            swap("may/must", "can/must", "could/must", "should/need not", "might/will", "will/may", "must/should",
                  "required/optional", "shall/may", "would/must"),
        ),
    ),
    "quantifier": (
        (
            "all, some, none",
            swap("all/some", "most/all", "many/all", "some/no", "every/no", "many/few", "both/neither", "several/all",
                  "always/sometimes", "often/always", "usually/never", "only>not only", "each/no", "most/few"),
        ),
    ),
    "antonym": (
        (
            "the opposite",
            swap("before/after", "increase/decrease", "increased/decreased", "largest/smallest", "first/last",
                  "high/low", "north/south", "east/west", "northern/southern", "early/late", "old/new", "won/lost",
                  "rise/fall", "strong/weak", "success/failure", "public/private", "accept/reject", "major/minor",
                  "allowed/forbidden", "begin/end", "began/ended", "positive/negative", "legal/illegal",
                  "same/different",
                  "possible/impossible", "important/unimportant", "simple/complex", "inside/outside", "good/bad",
                  "maximum/minimum", "long/short", "common/rare", "male/female", "import/export", "support/oppose",
                  "wide/narrow", "heavy/light", "dry/wet", "hot/cold", "rich/poor", "fast/slow", "open/closed",
                  "true/false", "urban/rural", "modern/ancient", "native/foreign", "increasing/decreasing",
                  "easy/difficult", "lower/upper", "upper/lower", "beneath/above", "deep/shallow", "thick/thin",
                  "active/passive", "enemy/ally", "victory/defeat", "union/separation", "expensive/cheap",
                  "natural/artificial", "internal/external", "permanent/temporary", "separate/joint"),
        ),
        ("an opposite that no list has", swap(*UNLISTED)),
    ),
}  # fmt: skip
"""The kinds of falsehoods, each with its ways."""
