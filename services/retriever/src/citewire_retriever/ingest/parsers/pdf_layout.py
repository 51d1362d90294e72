"""A PDF page's characters as lines, and lines as paragraphs and headings.

A PDF has no paragraphs: only characters at places. Their order is that of the page's content stream, which is the
reading order in nearly all files, also those in columns.
"""

import re
from collections import Counter
from dataclasses import dataclass
from itertools import pairwise
from statistics import median

from citewire_retriever.ingest.boxes import Box
from citewire_retriever.ingest.parsers.pairs import one_line
from citewire_retriever.ingest.parsers.pdfium import HYPHEN, PageText

FRAGMENT = re.compile(rf"[^\r\n{HYPHEN}]+{HYPHEN}?")
_BOLD = re.compile(r"bold|black|heavy|demi|medi$|^(?:[A-Z]{6}\+)?(?:CMBX|SFBX|SFSX|LMRoman\d*-Bold)", re.I)
LIGATURES = str.maketrans(
    {"\ufb00": "ff", "\ufb01": "fi", "\ufb02": "fl", "\ufb03": "ffi", "\ufb04": "ffl", "\ufb05": "st", "\ufb06": "st",
     "\uf0b7": "•", "\uf0a7": "▪", "\u00ad": "", "\ufffe": "", "\uffff": "", "\u00a0": " "}
)  # fmt: skip
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]")
_LEADERS = re.compile(r"(?:[.·…_]\s?){5,}")
_BULLET = re.compile(r"[•▪◦‣●■–*]\s|\(?(?:\d{1,3}|[a-z]|[ivx]{1,5})[.)]\s")
NUMBERED = re.compile(r"(?:(?:[A-Z]|\d{1,2})(?:\.\d{1,2}){0,4}\.?|[IVX]{1,5}\.)\s+\S")
_SENTENCE_END = re.compile(r"[.!?:;][\"'”’)\]]*$")
_MAX_HEADING = 120


@dataclass(slots=True)
class Line:
    """A line of text."""

    text: str
    """Its text; ends in HYPHEN if its last word goes on in the next line."""
    left: float
    """Its left edge, in points."""
    right: float
    """Its right edge."""
    top: float
    """Its upper edge, from the bottom of the page."""
    size: float
    """Height of its font."""
    bold: bool
    """Whether it starts and ends in a bold font."""


@dataclass(frozen=True, slots=True)
class Paragraph:
    """Lines that belong together; level is 0 for text, else that of a heading as `Style` gives it."""

    lines: tuple[Line, ...]
    heading: bool = False


def read_lines(page: PageText) -> list[Line]:
    """A page's lines. Pieces that stand beside each other (a table's cells, superscripts) are one line."""
    lines: list[Line] = []
    for match in FRAGMENT.finditer(page.characters):
        line = _fragment(page, match.start(), match.group())
        if line is None:
            continue
        if lines and _beside(lines[-1], line):
            _join_beside(lines[-1], line)
        else:
            lines.append(line)
    return lines


def normalise(text: str) -> str:
    """Text without ligatures, private signs, control characters and rows of dots; white space as single spaces."""
    hyphen = HYPHEN if text.endswith(HYPHEN) else ""
    text = _CONTROL.sub("", text.translate(LIGATURES))
    return one_line(_LEADERS.sub(" … ", text)) + hyphen


@dataclass(frozen=True, slots=True)
class Style:
    """What is usual in a document."""

    size: float
    """Height of the font that most of the text is set in."""
    leading: float
    """Distance between the tops of two lines of it."""


def usual_style(pages: list[list[Line]]) -> Style:
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


def group(lines: list[Line], style: Style) -> list[Paragraph]:
    """Lines as paragraphs and headings, in order."""
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
        Paragraph(tuple(each), heading=_is_heading(each, index, groups, style)) for index, each in enumerate(groups)
    ]


def _fragment(page: PageText, start: int, raw: str) -> Line | None:
    text = normalise(raw)
    if not text.strip(HYPHEN):
        return None
    stripped = raw.rstrip(HYPHEN)
    first = start + len(stripped) - len(stripped.lstrip())
    last = start + len(stripped.rstrip()) - 1
    left, right = page.box(first), page.box(last)
    box = left or right or Box(0, 0, 0, 0)
    nominal = page.font_size(first)
    size = nominal if nominal > 2 else box.top - box.bottom
    bold = bool(_BOLD.search(page.font_name(first)) and _BOLD.search(page.font_name(last)))
    return Line(text, box.left, (right or box).right, box.top, size, bold)


def _beside(before: Line, after: Line) -> bool:
    """Whether a piece continues a line to the right: about the same height, and no going back."""
    tolerance = 0.5 * max(before.size, after.size)
    return (
        not before.text.endswith(HYPHEN)
        and abs(before.top - after.top) <= tolerance
        and after.left >= before.right - 1.0
        # Columns are set far apart, and the second starts again further up or at the same height as the first.
        and after.left - before.right <= 8 * max(before.size, after.size)
    )


def _join_beside(line: Line, after: Line) -> None:
    glue = "" if after.left - line.right < 0.15 * line.size else " "
    line.text = f"{line.text}{glue}{after.text}"
    line.right = after.right
    line.bold = line.bold and after.bold
    line.size = max(line.size, after.size)


def _starts_new(lines: list[Line], right: float, line: Line, style: Style) -> bool:
    before = lines[-1]
    if before.text.endswith(HYPHEN):
        return False
    drop = before.top - line.top
    leading = style.leading * max(before.size, 0.5) / max(style.size, 0.5)
    if abs(before.size - line.size) > 0.08 * style.size or before.bold != line.bold:
        # Superscripts and formulas change size within a line; a new size that starts a line starts a paragraph.
        return abs(drop) > 0.6 * max(before.size, line.size)
    if drop < -style.size:  # the next column: the sentence may go on there
        return bool(_SENTENCE_END.search(before.text)) or not line.text[:1].islower()
    if drop > 1.3 * leading:
        return True
    if _BULLET.match(line.text):
        return True
    indented = line.left > before.left + 0.8 * style.size and len(lines) > 1 and before.left <= lines[0].left + 1
    short = before.right < right - 3 * style.size
    return bool(_SENTENCE_END.search(before.text)) and (indented or (short and len(lines) > 1))


def _is_heading(lines: list[Line], index: int, groups: list[list[Line]], style: Style) -> bool:
    """Whether a paragraph is a heading: short, and larger than the text, or bold and standing by itself."""
    text = " ".join(line.text for line in lines)
    letters = sum(char.isalpha() for char in text)
    if len(lines) > 3 or len(text) > _MAX_HEADING or letters < 3 or letters < 0.5 * len(text.replace(" ", "")):
        return False
    if text[-1] in ".,;" or text[0].islower() or index == len(groups) - 1:
        return False
    ratio = min(line.size for line in lines) / max(style.size, 0.1)
    bold = all(line.bold for line in lines)
    if ratio >= 1.15 or (bold and ratio >= 1.05):
        return True
    if not bold or ratio < 0.97 or len(lines) > 1:
        return False
    follower = groups[index + 1][0]
    if follower.bold:
        return False
    above = groups[index - 1][-1].top - lines[0].top if index else float("inf")
    stands_alone = (above > 1.4 * style.leading or above < 0) and lines[0].left <= follower.left + style.size
    return bool(NUMBERED.match(text)) or stands_alone
