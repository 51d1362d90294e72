"""Rows of a PDF page as paragraphs and headings.

A PDF has no paragraphs, only positioned characters. Lines are grouped by size, weight and distance.
"""

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import median

from citewire_retriever.ingest.parsers.pdf_order import Row
from citewire_retriever.ingest.parsers.pdf_segments import normalise
from citewire_retriever.ingest.parsers.pdfium import HYPHEN

_BULLET = re.compile(r"[•▪◦‣●■–*]\s|\(?(?:\d{1,3}|[a-z]|[ivx]{1,5})[.)]\s")
NUMBERED = re.compile(r"(?:(?:[A-Z]|\d{1,2})(?:\.\d{1,2}){0,4}\.?|[IVX]{1,5}\.)\s+\S")
_SENTENCE_END = re.compile(r"[.!?:;][\"'”’)\]]*$")
_MAX_HEADING = 120
_MAX_TITLE = 200
"""Most characters of a heading directly above a table, which may name a company, a statement and its unit."""
_LABELLED = re.compile(r"\w{3,12} (?:\d{1,3}(?:\.\d{1,2})*[A-Za-z]?|[IVX]{1,5})(?:[.:)]? [-–—]|[.:)])\s*\w")
"""A word and a number before a heading's own words: Item 3. Properties, Note 2 – Leases."""
_MOST_LINES = 3
_APART = 1.3
"""Distance of two lines' tops, as a multiple of the usual one, above which a new paragraph starts."""


@dataclass(slots=True)
class Line:
    """A line of text."""

    text: str
    """Its text; ends in HYPHEN if its last word continues on the next line."""
    left: float
    """Its left edge, in points."""
    right: float
    """Its right edge."""
    top: float
    """Its upper edge, measured from the bottom of the page."""
    size: float
    """Height of its font."""
    bold: bool
    """Whether it starts and ends in a bold font."""


@dataclass(frozen=True, slots=True)
class Paragraph:
    """Lines that belong together; level is 0 for text, else the heading level from `Style`."""

    lines: tuple[Line, ...]
    heading: bool = False


def line_of(row: Row) -> Line:
    """A row as a line of text."""
    text = " ".join(segment.text.rstrip(HYPHEN) for segment in row)
    return Line(
        text=normalise(f"{text}{HYPHEN}" if row[-1].text.endswith(HYPHEN) else text),
        left=min(segment.left for segment in row),
        right=max(segment.right for segment in row),
        top=max(segment.top for segment in row),
        size=max(segment.size for segment in row),
        bold=all(segment.bold for segment in row),
    )


@dataclass(frozen=True, slots=True)
class Style:
    """A document's typical style."""

    size: float
    """Font height of most of the text."""
    leading: float
    """Distance between the tops of two of its lines."""


def usual_style(pages: Sequence[Sequence[Line]]) -> Style:
    """The style of most of the text in a document."""
    sizes: Counter[float] = Counter()
    for lines in pages:
        for line in lines:
            sizes[round(line.size, 1)] += len(line.text)
    size = sizes.most_common(1)[0][0] if sizes else 10.0
    gaps = [
        above.top - below.top
        for lines in pages
        for above, below in pairwise(lines)
        if abs(above.size - size) < 0.5 and 0.5 * size < above.top - below.top < 2.5 * size
    ]
    return Style(size, median(gaps) if gaps else 1.2 * size)


def group(lines: Sequence[Line], style: Style, *, above_table: bool = False) -> list[Paragraph]:
    """Lines as paragraphs and headings, in order. The last one is a heading only if a table follows."""
    groups: list[list[Line]] = []
    right = 0.0  # how far right the last group's lines reach
    for line in lines:
        if groups and not _starts_new(groups[-1], right, line, style):
            groups[-1].append(line)
            right = max(right, line.right)
        else:
            groups.append([line])
            right = line.right
    return [
        Paragraph(tuple(each), heading=_is_heading(each, index, groups, style, above_table=above_table))
        for index, each in enumerate(groups)
    ]


def _starts_new(lines: list[Line], right: float, line: Line, style: Style) -> bool:
    before = lines[-1]
    if before.text.endswith(HYPHEN):
        return False
    drop = before.top - line.top
    leading = style.leading * max(before.size, 0.5) / max(style.size, 0.5)
    if abs(before.size - line.size) > 0.08 * style.size or before.bold != line.bold:
        # Superscripts and formulas change size within a line; a new size at a line's start begins a paragraph.
        return abs(drop) > 0.6 * max(before.size, line.size)
    if drop < -style.size:  # the next column: the sentence may continue there
        return bool(_SENTENCE_END.search(before.text)) or not line.text[:1].islower()
    if drop > _APART * leading:
        return True
    if _BULLET.match(line.text) or (line.bold and _LABELLED.match(line.text)):
        return True
    indented = line.left > before.left + 0.8 * style.size and len(lines) > 1 and before.left <= lines[0].left + 1
    short = before.right < right - 3 * style.size
    return bool(_SENTENCE_END.search(before.text)) and (indented or (short and len(lines) > 1))


def _is_heading(lines: list[Line], index: int, groups: list[list[Line]], style: Style, *, above_table: bool) -> bool:
    """Whether a paragraph is a heading: short, and either larger than the text or bold and separate."""
    text = " ".join(line.text for line in lines)
    letters = sum(char.isalpha() for char in text)
    last = index == len(groups) - 1
    if len(lines) > _MOST_LINES or len(text) > (_MAX_TITLE if last and above_table else _MAX_HEADING):
        return False
    if letters < 3 or letters < 0.5 * len(text.replace(" ", "")):
        return False
    labelled = bool(_LABELLED.match(text))
    if (text[-1] in ".,;" and not labelled) or text[0].islower() or (last and not above_table):
        return False
    ratio = min(line.size for line in lines) / max(style.size, 0.1)
    bold = all(line.bold for line in lines)
    if ratio >= 1.15 or (bold and ratio >= 1.05):
        return True
    if not bold or ratio < 0.97:
        return False
    if last or labelled:
        return True
    follower = groups[index + 1][0]
    if follower.bold:
        return False
    above = groups[index - 1][-1].top - lines[0].top if index else float("inf")
    stands_alone = above > _APART * style.leading or above < 0
    left = min(line.left for line in lines)
    is_centred = all(abs(_middle(line) - _middle(follower)) <= style.size for line in lines)
    return bool(NUMBERED.match(text)) or (stands_alone and (left <= follower.left + style.size or is_centred))


def _middle(line: Line) -> float:
    return (line.left + line.right) / 2
