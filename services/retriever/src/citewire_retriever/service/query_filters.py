"""A filter from the words of a question: tags, category, kind of entity, and when something was saved.

Only what a question says outright is taken, because a filter that it didn't mean hides its answer: `#rust`,
`tagged "to read"`, `in the category recipes`, `entity type person`, `saved last week`. A year alone is no date of
saving: "revenue in 2024" asks about the content.
"""

import re
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta

from citewire.retriever.v1 import filter_pb2 as pb
from citewire.retriever.v1.retriever_pb2 import QueryFilter
from google.protobuf.struct_pb2 import Value

_WORD = r"""(?:"(?P<{0}_quoted>[^"\n]{{1,64}})"|(?P<{0}>[\w][\w./+-]{{0,63}}))"""
_HASHTAG = re.compile(r"(?<![\w#&/])#(?P<tag>[^\W\d_][\w-]{1,63})")
_TAGGED = re.compile(r"\b(?:tagged(?: with| as)?|with the tag|tag:)\s+" + _WORD.format("tag"), re.IGNORECASE)
_CATEGORY = re.compile(r"\b(?:in |of |from )?(?:the )?category[: ]\s*" + _WORD.format("category"), re.IGNORECASE)
_ENTITY = re.compile(r"\bentity[ _-]?type[: ]\s*" + _WORD.format("entity"), re.IGNORECASE)
_SAVED = re.compile(
    r"\b(?:saved|added|bookmarked|captured|collected|uploaded|stored)\b(?P<when>[^.?!;,\n]{1,60})", re.IGNORECASE
)
_MONTHS: Mapping[str, int] = {
    name: number
    for number, names in enumerate(
        (
            "january jan", "february feb", "march mar", "april apr", "may", "june jun", "july jul", "august aug",
            "september sep sept", "october oct", "november nov", "december dec",
        ),
        1,
    )
    for name in names.split()
}  # fmt: skip
_MONTH = "|".join(_MONTHS)
_NUMBERS: Mapping[str, int] = {"a": 1, "an": 1, "one": 1, "two": 2, "three": 3, "four": 4, "five": 5, "six": 6}
_UNITS: Mapping[str, int] = {"hour": 0, "day": 1, "week": 7, "month": 30, "year": 365}

Span = tuple[datetime | None, datetime | None]
"""From (included) and until (left out)."""


def derive_filter(question: str, now: datetime) -> QueryFilter | None:
    """Returns the filter that a question speaks of; None if it speaks of none.

    Args:
        question: The question.
        now: What "last week" counts from; days begin at midnight UTC.
    """
    conditions: list[pb.Filter] = []
    phrases: list[str] = []
    for pattern, name, field, operator in (
        (_HASHTAG, "tag", "tags", pb.OPERATOR_CONTAINS),
        (_TAGGED, "tag", "tags", pb.OPERATOR_CONTAINS),
        (_CATEGORY, "category", "metadata.category", pb.OPERATOR_EQ),
        (_ENTITY, "entity", "metadata.entity_type", pb.OPERATOR_EQ),
    ):
        for match in pattern.finditer(question):
            value = (match.groupdict().get(f"{name}_quoted") or match[name]).rstrip(".-/+")
            conditions.append(_comparison(field, operator, value))
            phrases.append(f"{field.removeprefix('metadata.').replace('_', ' ')} {value}")
    saved = _SAVED.search(question)
    if saved is not None and (span := _span(saved["when"].lower(), now.astimezone(UTC))) is not None:
        conditions += _between(span)
        phrases.append(saved[0].strip())
    if not conditions:
        return None
    condition = conditions[0] if len(conditions) == 1 else pb.Filter(all=pb.FilterList(filters=conditions))
    return QueryFilter(filter=condition, phrases=phrases)


def _comparison(field: str, operator: pb.Operator, value: str) -> pb.Filter:
    return pb.Filter(comparison=pb.Comparison(field=field, op=operator, value=Value(string_value=value)))


def _between(span: Span) -> list[pb.Filter]:
    start, end = span
    results: list[pb.Filter] = []
    if start is not None:
        results.append(_comparison("created_at", pb.OPERATOR_GE, _text(start)))
    if end is not None:
        results.append(_comparison("created_at", pb.OPERATOR_LT, _text(end)))
    return results


def _span(when: str, now: datetime) -> Span | None:
    for pattern, read in _READERS:
        match = re.search(pattern, when)
        if match is not None:
            return read(match, now)
    return None


def _day(now: datetime) -> datetime:
    return now.replace(hour=0, minute=0, second=0, microsecond=0)


def _named(match: re.Match[str], now: datetime) -> Span:
    today = _day(now)
    return (today, None) if match[0] == "today" else (today - timedelta(days=1), today)


def _week_or_so(match: re.Match[str], now: datetime) -> Span:
    """`this week`, `last month`: of the calendar."""
    today = _day(now)
    starts = {
        "week": today - timedelta(days=today.weekday()),
        "month": today.replace(day=1),
        "year": today.replace(month=1, day=1),
    }
    start = starts[match["unit"]]
    if match["which"] == "this":
        return start, None
    before = start - timedelta(days=1)
    earlier = {
        "week": start - timedelta(days=7),
        "month": before.replace(day=1),
        "year": before.replace(month=1, day=1),
    }
    return earlier[match["unit"]], start


def _ago(match: re.Match[str], now: datetime) -> Span:
    """`in the last three days`, `in the past hour`: until now."""
    count = match["count"] or "1"
    number = int(count) if count.isdecimal() else _NUMBERS[count]
    unit = match["unit"]
    days = _UNITS[unit] * number
    return (now - timedelta(hours=number), None) if unit == "hour" else (_day(now) - timedelta(days=days), None)


def _dated(match: re.Match[str], now: datetime) -> Span | None:
    """`in March 2025`, `since May`, `before 2024`, `after 2025-03-01`."""
    period = _period(match, now)
    if period is None:
        return None
    start, end = period
    match match["how"]:
        case "since" | "from":
            return start, None
        case "after":
            return end, None
        case "before" | "until":
            return None, start
        case _:
            return start, end


def _period(match: re.Match[str], now: datetime) -> tuple[datetime, datetime] | None:
    try:
        if match["iso"]:
            start = datetime.fromisoformat(match["iso"]).replace(tzinfo=UTC)
            return start, start + timedelta(days=1)
        year = int(match["year"]) if match["year"] else None
        if match["month"] is None:
            return None if year is None else (_first(year, 1), _first(year + 1, 1))
        month = _MONTHS[match["month"]]
        if year is None:  # the latest one that has begun
            year = now.year if month <= now.month else now.year - 1
        return _first(year, month), _first(year + month // 12, month % 12 + 1)
    except ValueError:
        return None


def _first(year: int, month: int) -> datetime:
    return datetime(year, month, 1, tzinfo=UTC)


def _text(moment: datetime) -> str:
    return moment.isoformat().replace("+00:00", "Z")


_COUNT = rf"\d{{1,3}}|(?:{'|'.join(_NUMBERS)})(?= )"
_READERS: tuple[tuple[str, Callable[[re.Match[str], datetime], Span | None]], ...] = (
    (r"\b(?:today|yesterday)\b", _named),
    (
        rf"\b(?:in|within|during|over) the (?:last|past) (?P<count>{_COUNT})? ?(?P<unit>hour|day|week|month|year)s?\b",
        _ago,
    ),
    (r"\b(?P<which>this|last) (?P<unit>week|month|year)\b", _week_or_so),
    (
        r"\b(?P<how>in|on|since|from|after|before|until) "
        rf"(?:(?P<iso>\d{{4}}-\d{{2}}-\d{{2}})|(?:(?P<month>{_MONTH})\b,? ?)?(?P<year>(?:19|20)\d{{2}})?)(?!\w)",
        _dated,
    ),
)
