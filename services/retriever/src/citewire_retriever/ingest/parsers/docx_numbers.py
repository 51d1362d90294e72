"""The numbers that Word shows before list items and headings: they are counted, and stand nowhere in the text."""

import re
from dataclasses import dataclass, field
from typing import Final

from citewire_retriever.ingest.parsers.docx_styles import Styles
from citewire_retriever.ingest.parsers.docx_text import children, find, value
from citewire_retriever.ingest.parsers.lxml_facade import Element
from citewire_retriever.ingest.parsers.package import attribute, local

_LEVELS: Final = 9
_MOST: Final = 100_000
_PLACE: Final = re.compile(r"%([1-9])")
_ROMAN: Final = (
    (1000, "m"), (900, "cm"), (500, "d"), (400, "cd"), (100, "c"), (90, "xc"), (50, "l"), (40, "xl"), (10, "x"),
    (9, "ix"), (5, "v"), (4, "iv"), (1, "i"),
)  # fmt: skip


@dataclass(slots=True)
class _Level:
    start: int = 1
    format: str = "decimal"
    text: str = ""
    decimal_only: bool = False


@dataclass(slots=True)
class _List:
    """A list's levels and their counters; lists with the same abstract definition share them."""

    levels: dict[int, _Level] = field(default_factory=dict[int, _Level])
    counts: dict[int, int] = field(default_factory=dict[int, int])


class Numbers:
    """Counts the numbers of a document."""

    def __init__(self, root: Element | None, styles: Styles) -> None:
        self._styles = styles
        abstract = {
            attribute(each, "abstractNumId"): _List(_levels(each))
            for each in children(root)
            if local(each.tag) == "abstractNum"
        }
        self._lists: dict[str, tuple[_List, dict[int, int]]] = {}
        for each in children(root):
            base = abstract.get(value(find(each, "abstractNumId")))
            if local(each.tag) == "num" and base is not None:
                self._lists[attribute(each, "numId")] = (base, _restarts(each))
        self._begun: set[tuple[str, int]] = set()

    def next(self, paragraph: Element) -> str:
        """A paragraph's prefix: its number, ``-`` for a bullet, nothing if it isn't in a list."""
        properties = find(paragraph, "pPr")
        style_id = value(find(properties, "pStyle"))
        own, inherited = find(properties, "numPr"), self._styles.named(style_id).numbering
        list_id = value(find(own, "numId")) or value(find(inherited, "numId"))
        listed = self._lists.get(list_id)
        if listed is None:
            return ""
        numbers, restarts = listed
        level = _small(value(find(own, "ilvl")) or value(find(inherited, "ilvl")), 0)
        if level not in numbers.levels:
            return ""
        if level in restarts and (list_id, level) not in self._begun:
            self._begun.add((list_id, level))
            numbers.counts[level] = restarts[level] - 1
        rule = numbers.levels[level]
        numbers.counts[level] = numbers.counts.get(level, rule.start - 1) + 1
        for deeper in range(level + 1, _LEVELS):
            numbers.counts.pop(deeper, None)
        if rule.format == "bullet":
            return "-"
        return "" if rule.format == "none" else _PLACE.sub(lambda match: _count(numbers, rule, match), rule.text)


def _count(numbers: _List, rule: _Level, match: re.Match[str]) -> str:
    index = int(match.group(1)) - 1
    level = numbers.levels.get(index)
    if level is None:
        return ""
    return _written(numbers.counts.get(index, level.start), "decimal" if rule.decimal_only else level.format)


def _written(count: int, form: str) -> str:
    if form in {"lowerLetter", "upperLetter"} and 0 < count < _MOST:
        letters = chr(ord("a") + (count - 1) % 26) * min((count - 1) // 26 + 1, 20)
        return letters.upper() if form == "upperLetter" else letters
    if form in {"lowerRoman", "upperRoman"} and 0 < count < 5000:
        roman, left = "", count
        for size, letters in _ROMAN:
            roman += letters * (left // size)
            left %= size
        return roman.upper() if form == "upperRoman" else roman
    return f"{count:02}" if form == "decimalZero" else str(count)


def _levels(abstract: Element) -> dict[int, _Level]:
    levels: dict[int, _Level] = {}
    for each in children(abstract):
        if local(each.tag) == "lvl":
            levels[_small(attribute(each, "ilvl"), 0)] = _Level(
                start=_small(value(find(each, "start")), 1),
                format=value(find(each, "numFmt"), "decimal"),
                text=value(find(each, "lvlText"))[:50],
                decimal_only=find(each, "isLgl") is not None,
            )
    return levels


def _restarts(number: Element) -> dict[int, int]:
    """The numbers at which a list restarts, by level."""
    results: dict[int, int] = {}
    for each in children(number):
        start = find(each, "startOverride")
        if start is not None:
            results[_small(attribute(each, "ilvl"), 0)] = _small(value(start), 1)
    return results


def _small(text: str, default: int) -> int:
    return int(text) if text.isdecimal() and text.isascii() and len(text) < 6 else default
