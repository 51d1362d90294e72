"""Dates in Chinese and Japanese, found in the text itself, which has no spaces."""

import re
from collections.abc import Iterator
from datetime import datetime
from typing import Final

from citewire_retriever.service.query_filters.spans import MONTHS, Calendar, DateSpan, Direction, directed
from citewire_retriever.service.query_filters.tokens import Tokens
from citewire_retriever.service.query_filters.words import Language, fold

_NUMBER = "[0-9０-９一二三四五六七八九十两兩]{1,3}"
_UNIT = "(?P<unit>天|日|周|週|星期|礼拜|禮拜|月|年)"
_FIGURES: Final = {character: value for value, character in enumerate("零一二三四五六七八九")} | {"两": 2, "兩": 2}
_BY_UNIT: Final = {
    "天": "day", "日": "day", "周": "week", "週": "week", "星期": "week", "礼拜": "week", "禮拜": "week", "月": "month",
    "年": "year",
}  # fmt: skip
_BEHIND: Final = r"(?P<behind>以来|以來|以降|以后|以後|之后|之後|之前|以前|より前|から|まで|至今|起|前に|前)?"
_BEFORE: Final = "(?P<before>自从|自從|自|从|從)?"
_ABSOLUTE: Final = re.compile(
    rf"{_BEFORE}(?:(?P<year>(?:19|20)\d{{2}})\s*年(?:度)?)?\s*"
    rf"(?:(?P<month>1[0-2]|0?[1-9]|十[一二]?|[一二三四五六七八九])\s*月(?:份)?(?:(?P<day>{_NUMBER})\s*[日号號])?)?{_BEHIND}"
)
_PAST: Final = re.compile(
    rf"(?:过去的?|過去の?|最近の?|直近の?|ここ|この|近)\s*(?P<count>{_NUMBER})\s*(?:个|個|か|ヶ|カ|ケ)?{_UNIT}(?:間|间)?(?:内|里|裡|以内)?"
)
_AGO_UNSPACED: Final = re.compile(rf"(?P<count>{_NUMBER})\s*(?:个|個|か|ヶ|カ|ケ)?{_UNIT}(?:間|间)?(?:之前|以前|前)")
_DETERMINED: Final = re.compile(
    rf"{_BEFORE}(?:(?P<this>这一?[个個]?|這一?[个個]?|本|当|當|今(?=[周週月年])|この)"
    rf"|(?P<last>上一?[个個]?|先(?=[周週月])|前一[个個]?|去(?=年)|昨(?=年)))(?P<unit>周|週|星期|礼拜|禮拜|月|年){_BEHIND}"
)


def find_unspaced(tokens: Tokens, calendar: Calendar) -> Iterator[DateSpan]:
    """Finds the dates of a question in Chinese or Japanese."""
    text, at = tokens.text, 0
    while at < len(text):
        span = _unspaced_at(tokens.language, text, at, calendar)
        if span is None:
            at += 1
            continue
        yield span
        at = span.last
    for token in tokens.tokens:
        if token.dated is not None and token.dated[0] == "figures":
            read = calendar.read(token.dated[1], "YMD")
            if read is not None:
                yield DateSpan(token.start, token.end, *read)


def _unspaced_at(language: Language, text: str, at: int, calendar: Calendar) -> DateSpan | None:
    if (match := _PAST.match(text, at)) is not None:
        span = calendar.last(_figure(match["count"]), _BY_UNIT[match["unit"]])
        return None if span is None else DateSpan(at, match.end(), *span, relative=True)
    if (match := _AGO_UNSPACED.match(text, at)) is not None:
        read = calendar.read(f"{_figure(match['count'])} {_BY_UNIT[match['unit']]} ago")
        return None if read is None else DateSpan(at, match.end(), *read, relative=True)
    for length in range(min(6, len(text) - at), 1, -1):
        dated = language.dates.get((fold(text[at : at + length]),))
        if dated is not None and dated[0] == "moment":
            read = calendar.read(dated[1])
            behind = re.compile(_BEHIND).match(text, at + length)
            return None if read is None else _directed_unspaced(at, behind, read, relative=True)
    if (match := _DETERMINED.match(text, at)) is not None:
        read = calendar.read(f"{1 if match['last'] else 0} {_BY_UNIT[match['unit']]} ago")
        return None if read is None else _directed_unspaced(at, match, read, relative=True)
    match = _ABSOLUTE.match(text, at)
    if match is None or not (match["year"] or match["month"]) or (at and re.match("[0-9一-十]", text[at - 1])):
        return None
    parts = [
        match["day"] and str(_figure(match["day"])),
        match["month"] and MONTHS[_figure(match["month"]) - 1],
        match["year"],
    ]
    read = calendar.read(" ".join(part for part in parts if part) if match["month"] else f"january {match['year']}")
    if read is not None and not match["month"]:
        read = read[0], read[0].replace(year=read[0].year + 1)
    return None if read is None else _directed_unspaced(at, match, read, year_alone=not match["month"])


def _directed_unspaced(
    at: int,
    match: re.Match[str] | None,
    read: tuple[datetime, datetime],
    *,
    relative: bool = False,
    year_alone: bool = False,
) -> DateSpan | None:
    if match is None:
        return None
    groups = match.groupdict()
    behind = groups.get("behind") or ""
    since = groups.get("before") or behind in {"以来", "以來", "以降", "から", "至今", "起", "以后", "以後"}
    direction: Direction = "in"
    if behind in {"之前", "以前", "より前", "まで", "前に", "前"}:
        direction = "before"
    elif behind in {"之后", "之後"}:
        direction = "after"
    elif since:
        direction = "since"
    return DateSpan(at, match.end(), *directed(direction, read), year_alone=year_alone, relative=relative)


def _figure(text: str) -> int:
    """A number up to 99 in digits or in Chinese."""
    if text.isdecimal():
        return int(text)
    tens, ten, ones = text.rpartition("十")
    if not ten:
        return _FIGURES.get(text, 0)
    return 10 * (_FIGURES.get(tens, 1) if tens else 1) + _FIGURES.get(ones, 0)
