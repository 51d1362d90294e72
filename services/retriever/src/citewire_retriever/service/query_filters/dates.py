"""Dates of saving in a question's words: spans of days in the caller's time zone.

`words.py` identifies phrases, `spans.py` turns them into days. A phrase is a date only if the language marks it as one
(`in March`, `March 2025`), as a wrong filter hides documents.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime, tzinfo
from typing import Final

from citewire_retriever.service.query_filters.spans import MOST, Calendar, DateSpan, Direction, directed
from citewire_retriever.service.query_filters.tokens import Tokens
from citewire_retriever.service.query_filters.unspaced_dates import find_unspaced

_YEAR: Final = re.compile(r"(?:19|20)\d{2}")


def find_dates(tokens: Tokens, now: datetime, zone: tzinfo) -> list[DateSpan]:
    """Finds the spans that a question names, and marks their words as used.

    Args:
        tokens: The question.
        now: The current time, with a time zone.
        zone: The zone in which days begin.
    """
    local = now.astimezone(zone)
    calendar = Calendar(local)
    finder = find_unspaced if tokens.language.stemmer is None else _find_spaced
    spans = _join_ranges(tokens, list(finder(tokens, calendar)))
    for span in spans:
        for token in tokens.tokens:
            if token.start < span.last and token.end > span.first:
                token.consumed = True
    return [replace(span, start=_utc(span.start, zone), end=_utc(span.end, zone)) for span in spans]


def _join_ranges(tokens: Tokens, spans: list[DateSpan]) -> list[DateSpan]:
    """`between March and May 2025`, `from Monday to Wednesday`: two spans with only a joining word between."""
    joined: list[DateSpan] = []
    for span in spans:
        if joined:
            before = joined[-1]
            between = [token for token in tokens.tokens if before.last <= token.start and token.end <= span.first]
            gap = tokens.text[before.last : span.first].strip()
            dash = not between and gap in {"-", "–", "—", "~", "〜", "至", "到"}
            word = len(between) == 1 and bool({"until"} & between[0].classes)
            if (dash or word) and before.start is not None and span.end is not None:
                start = before.start
                if (
                    span.start is not None and start > span.start
                ):  # "between March and May 2025": the year applies to both
                    start = start.replace(year=span.start.year)
                joined[-1] = replace(before, last=span.last, start=start, end=span.end, year_alone=False)
                continue
        joined.append(span)
    return joined


def _utc(moment: datetime | None, zone: tzinfo) -> datetime | None:
    return None if moment is None else moment.replace(tzinfo=zone).astimezone(UTC)


@dataclass(frozen=True, slots=True)
class _Phrase:
    """A date's phrase from a first token to a second one (exclusive)."""

    first: int
    last: int
    span: tuple[datetime | None, datetime | None]
    needs_preposition: bool = False
    year_alone: bool = False
    relative: bool = False


def _find_spaced(tokens: Tokens, calendar: Calendar) -> Iterator[DateSpan]:
    index = 0
    while index < len(tokens):
        phrase = _phrase(tokens, index, calendar)
        if phrase is None:
            index += 1
            continue
        first, last, direction = _direction(tokens, phrase)
        index = max(last, index + 1)
        if phrase.needs_preposition and direction is None:
            continue
        start, end = directed(direction or "in", phrase.span)
        yield DateSpan(
            tokens[first].start,
            tokens[last - 1].end,
            start,
            end,
            year_alone=phrase.year_alone,
            relative=phrase.relative,
        )


def _phrase(tokens: Tokens, index: int, calendar: Calendar) -> _Phrase | None:
    """The date that begins here."""
    for read in (_read_figures, _read_count, _read_moment, _read_determined, _read_month, _read_weekday, _read_year):
        phrase = read(tokens, index, calendar)
        if phrase is not None:
            return phrase
    return None


def _kind(tokens: Tokens, index: int, kind: str) -> str | None:
    """The token's meaning in a date, if it is of this kind."""
    if index >= len(tokens):
        return None
    dated = tokens[index].dated
    return dated[1] if dated is not None and dated[0] == kind else None


def _is(tokens: Tokens, index: int, name: str) -> bool:
    return 0 <= index < len(tokens) and name in tokens[index].classes


def _read_figures(tokens: Tokens, index: int, calendar: Calendar) -> _Phrase | None:
    figures = _kind(tokens, index, "figures")
    if figures is None:
        return None
    order = "YMD" if _YEAR.match(figures) else tokens.language.date_order
    span = calendar.read(figures.replace(" ", ""), order)
    return None if span is None else _Phrase(index, index + 1, span)


def _read_count(tokens: Tokens, index: int, calendar: Calendar) -> _Phrase | None:
    """`last 3 days`, `3 derniers jours`, `past week`, `three weeks ago`, `vor drei Tagen`, `hace 2 meses`."""
    window = range(index, min(index + 5, len(tokens)))
    number = next((place for place in window if _kind(tokens, place, "number") is not None), None)
    unit = next((place for place in window if _kind(tokens, place, "unit") is not None), None)
    past = next((place for place in window if _is(tokens, place, "past")), None)
    if unit is None:
        return None
    name = _kind(tokens, unit, "unit") or ""
    if number is not None:
        count = int(_kind(tokens, number, "number") or 0)
        if past is not None and {number, unit, past} == set(range(index, index + 3)):
            span = calendar.last(count, name)
            return None if span is None else _Phrase(index, index + 3, span, relative=True)
        ago = _ago(tokens, index, number, unit)
        if ago is not None and 0 < count <= MOST[name]:
            span = calendar.read(f"{count} {name} ago")
            return None if span is None else _Phrase(*ago, span, relative=True)
        return None
    # `the past week` and `in the last week`, which aren't last week; elsewhere one word means both.
    rolling = not _is(tokens, index, "last") or (index > 0 and tokens[index - 1].key == "the")
    if past == index and unit == index + 1 and (rolling or name == "hour"):
        span = calendar.last(1, name)
        return None if span is None else _Phrase(index, index + 2, span, relative=True)
    return None


def _ago(tokens: Tokens, index: int, number: int, unit: int) -> tuple[int, int] | None:
    """The extent of `N units ago`, if it begins here; `ago` comes before or after."""
    if number == index and unit == index + 1 and _is(tokens, index + 2, "ago"):
        return index, index + 3
    for length in (1, 2, 3):
        if number == index + length and unit == number + 1:
            return (index, unit + 1) if all(_is(tokens, place, "ago") for place in range(index, number)) else None
    return None


def _read_moment(tokens: Tokens, index: int, calendar: Calendar) -> _Phrase | None:
    """`yesterday`, `this week`, as in the language's data."""
    name = _kind(tokens, index, "moment")
    span = None if name is None else calendar.read(name)
    return None if span is None else _Phrase(index, index + tokens[index].length, span, relative=True)


def _read_determined(tokens: Tokens, index: int, calendar: Calendar) -> _Phrase | None:
    """`dieser Woche`, `la semaine dernière`, `last March`: a determiner before or after, in any inflection."""
    behind = index + (2 if _is(tokens, index + 1, "function") else 1)  # an article between, as in Greek
    for determiner, noun in ((index, behind), (index + 1, index)):
        which = next((name for name in ("this", "last") if _is(tokens, determiner, name)), None)
        if which is None:
            continue
        if (unit := _kind(tokens, noun, "unit")) is not None:
            span = calendar.read(f"{1 if which == 'last' else 0} {unit} ago")
        elif (month := _kind(tokens, noun, "month")) is not None:
            span = calendar.read(month)
        elif (weekday := _kind(tokens, noun, "weekday")) is not None:
            span = calendar.read(weekday)
        else:
            continue
        return None if span is None else _Phrase(index, max(determiner, noun) + 1, span, relative=True)
    return None


def _read_month(tokens: Tokens, index: int, calendar: Calendar) -> _Phrase | None:
    """`March`, `March 2025`, `3 March`, `3 de marzo de 2025`, `March 3rd, 2025`, `2025. március`."""
    month_at = index
    day: str | None = None
    year: str | None = None
    if (number := _number(tokens, index)) is not None:
        following = _skip_of(tokens, index + 1)
        if _kind(tokens, following, "month") is None:
            return None
        month_at = following
        if _YEAR.fullmatch(number):
            year = number
        elif 1 <= int(number) <= 31:
            day = number
        else:
            return None
    month = _kind(tokens, month_at, "month")
    if month is None:
        return None
    last = month_at + tokens[month_at].length
    for _ in range(2):
        following = _skip_of(tokens, last)
        number = _number(tokens, following)
        if number is None:
            break
        if year is None and _YEAR.fullmatch(number):
            year = number
        elif day is None and following == last and 1 <= int(number) <= 31:
            day = number
        else:
            break
        last = following + 1
    span = calendar.read(" ".join(part for part in (day, month, year) if part))
    if span is None:
        return None
    certain = day is not None or year is not None or tokens.language.suffixes
    return _Phrase(index, last, span, needs_preposition=not certain)


def _number(tokens: Tokens, index: int) -> str | None:
    """A number in digits, including ordinals (`3rd`)."""
    if index >= len(tokens):
        return None
    match = re.fullmatch(r"(\d{1,4})(?:st|nd|rd|th|er|º|ª)?", tokens[index].key)
    return None if match is None else match[1]


def _skip_of(tokens: Tokens, index: int) -> int:
    return index + 1 if _is(tokens, index, "of") else index


def _read_weekday(tokens: Tokens, index: int, calendar: Calendar) -> _Phrase | None:
    weekday = _kind(tokens, index, "weekday")
    span = None if weekday is None else calendar.read(weekday)
    return None if span is None else _Phrase(index, index + 1, span, needs_preposition=True, relative=True)


def _read_year(tokens: Tokens, index: int, calendar: Calendar) -> _Phrase | None:
    if not _YEAR.fullmatch(tokens[index].key):
        return None
    span = calendar.read(f"january {tokens[index].key}")
    if span is None:
        return None
    year = span[0].replace(month=1), span[0].replace(year=span[0].year + 1)
    return _Phrase(index, index + 1, year, needs_preposition=not tokens.language.suffixes, year_alone=True)


def _direction(tokens: Tokens, phrase: _Phrase) -> tuple[int, int, Direction | None]:
    """The phrase with its modifier: a word before it, ignoring articles, or after it."""
    first = phrase.first
    for _ in range(2):
        before = first - 1
        for name in ("since", "before", "after"):
            if _is(tokens, before, name) and not (name == "before" and _is(tokens, before, "in")):
                return before, phrase.last, _as_direction(name)
        if _is(tokens, before, "in"):
            return before, phrase.last, "in"
        if not (_is(tokens, before, "function") or _is(tokens, before, "of") or _is(tokens, before, "prep")):
            break
        first = before
    for name in ("since", "before", "after"):
        if _is(tokens, phrase.last, name) and not _is(tokens, phrase.last, "prep"):
            return phrase.first, phrase.last + 1, _as_direction(name)
    return phrase.first, phrase.last, None


def _as_direction(name: str) -> Direction:
    return "since" if name == "since" else "before" if name == "before" else "after"
