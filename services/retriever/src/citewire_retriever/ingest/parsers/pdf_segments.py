"""A PDF page's text as segments: adjacent text on a line, separated from its neighbours.

A segment's position is given in a frame in which the text runs from left to right and lines follow downwards, however
the page or its text is rotated.
"""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import pi
from typing import Final

from citewire_retriever.ingest.boxes import Box
from citewire_retriever.ingest.parsers.pairs import one_line
from citewire_retriever.ingest.parsers.pdf_direction import RIGHT_TO_LEFT, reading_order, with_paired_brackets
from citewire_retriever.ingest.parsers.pdf_spacing import gaps_in_words
from citewire_retriever.ingest.parsers.pdfium import HYPHEN, PageText

FRAGMENT = re.compile(rf"[^\r\n{HYPHEN}]+{HYPHEN}?")
LIGATURES = str.maketrans(
    {"\ufb00": "ff", "\ufb01": "fi", "\ufb02": "fl", "\ufb03": "ffi", "\ufb04": "ffl", "\ufb05": "st", "\ufb06": "st",
     "\uf0b7": "•", "\uf0a7": "▪", "\u00ad": "", "\ufffe": "", "\uffff": "", "\u00a0": " "}
)  # fmt: skip
_CONTROL: Final = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]")
_LEADERS: Final = re.compile(r"(?:[.·…_]\s?){5,}")
_BEFORE_MARK: Final = re.compile(
    r"(?<=[\u0e01-\u0eff]) (?=[\u0e31\u0e33-\u0e3a\u0e47-\u0e4e\u0eb1\u0eb3-\u0ebc\u0ec8-\u0ece])"
)
"""White space before a Thai or Lao vowel or tone mark, which belongs to the letter before: Word writes it before am."""
_WORD: Final = re.compile(r"\S+")
_BOLD: Final = re.compile(r"bold|black|heavy|demi|medi$|^(?:[A-Z]{6}\+)?(?:CMBX|SFBX|SFSX|LMRoman\d*-Bold)", re.I)
_BOLD_WEIGHT: Final = 600
_WIDE: Final = 0.9
"""Gap between two words, in heights of the font, from which they are separate segments."""
_WIDE_NUMBERS: Final = 0.6
"""The same if one of them is a number."""


@dataclass(slots=True)
class Segment:
    """Adjacent text on a line."""

    text: str
    """Its text; ends in HYPHEN if its last word continues on the next line."""
    left: float
    """Its left edge, in points."""
    right: float
    """Its right edge."""
    top: float
    """Its upper edge; y grows upwards."""
    bottom: float
    """Its lower edge."""
    size: float
    """Size of its font."""
    bold: bool
    """Whether it starts and ends in a bold font."""
    spans: tuple[tuple[int, int], ...]
    """Its characters on the page: start, and end (exclusive)."""


@dataclass(frozen=True, slots=True)
class PageSegments:
    """A page's segments, in the order of its content."""

    segments: list[Segment]
    """Segments in the direction of most of the text."""
    turned: list[Segment]
    """The others; their positions are in the same frame, but say little about their order."""
    is_upright: bool
    """Whether the text is vertical, as Chinese and Japanese may be: positions then don't show lines."""


def normalise(text: str) -> str:
    """Text without ligatures, private-use and control characters and rows of dots; white space as single spaces."""
    hyphen = HYPHEN if text.endswith(HYPHEN) else ""
    text = _BEFORE_MARK.sub("", _CONTROL.sub("", text.translate(LIGATURES)))
    return one_line(_LEADERS.sub(" … ", text)) + hyphen


def read_segments(page: PageText) -> PageSegments:
    """Reads a page's segments."""
    fragments = [match for match in FRAGMENT.finditer(page.characters) if match.group().strip(f"{HYPHEN} \t")]
    turns = [_quarters(page, match) for match in fragments]
    weights: Counter[int] = Counter()
    for match, turn in zip(fragments, turns, strict=True):
        weights[turn] += match.end() - match.start()
    usual = weights.most_common(1)[0][0] if weights else 0
    segments: list[Segment] = []
    turned: list[Segment] = []
    for match, turn in zip(fragments, turns, strict=True):
        (segments if turn == usual else turned).extend(_segments(page, match, usual))
    return PageSegments(segments, turned, _runs_down(segments))


def _quarters(page: PageText, match: re.Match[str]) -> int:
    """A fragment's rotation in quarter turns, counterclockwise."""
    first = match.start() + len(match.group()) - len(match.group().lstrip())
    return round(page.angle(first) / (pi / 2)) % 4


def _segments(page: PageText, match: re.Match[str], turn: int) -> Iterator[Segment]:
    raw, start = match.group(), match.start()
    words = [(start + word.start(), start + word.end()) for word in _WORD.finditer(raw.rstrip(HYPHEN))]
    if page.is_filled_in:
        words = [part for word in words for part in _lines_of(page, *word)]
    if not words:
        return
    size = page.font_size(words[0][0])
    first = words[0][0]
    columns: dict[int, int] = {}
    dropped: set[int] = set()
    if RIGHT_TO_LEFT.search(raw):
        columns = _columns_of(page, words, size, turn)
    elif not page.is_filled_in:
        places, widest = gaps_in_words(
            raw, size, lambda place: _edges(page, start + place, turn), lambda place: page.is_typed(start + place)
        )
        dropped = {start + place for place in places}
        size += widest / _WIDE  # words are further apart where their letters are
    for before, after in zip(words, [*words[1:], None], strict=True):
        if after is not None and columns.get(before[0], before) == columns.get(after[0], after):
            continue
        if after is not None and before[1] in dropped:
            continue
        if after is not None and not _stands_apart(page, before, after, size, turn):
            continue
        end = before[1] if after is not None else match.end()
        segment = _segment(page, first, before[1], end, turn, dropped)
        if segment is not None:
            yield segment
        first = after[0] if after is not None else first


def _segment(page: PageText, first: int, last: int, end: int, turn: int, dropped: set[int]) -> Segment | None:
    """The segment of characters `first` to `end`, the last with a box being before `last`; None if it is invisible."""
    size = page.font_size(first)
    order = [*reading_order(page, first, last, size), *range(last, end)]
    text = "".join(page.characters[index] for index in order if index not in dropped)
    text = normalise(with_paired_brackets(text))
    if not text.strip(HYPHEN):
        return None
    ends = [box for box in (page.box(first), page.box(last - 1)) if box is not None]
    if ends and not any(map(page.is_shown, ends)):
        return None
    boxes = [_turn(box, turn) for box in ends] or [Box(0, 0, 0, 0)]
    left, right = min(box.left for box in boxes), max(box.right for box in boxes)
    top, bottom = max(box.top for box in boxes), min(box.bottom for box in boxes)
    bold = _is_bold(page, first) and _is_bold(page, last - 1)
    return Segment(text, left, right, top, bottom, size or top - bottom, bold, tuple(_spans(order)))


def _edges(page: PageText, index: int, turn: int) -> tuple[float, float] | None:
    box = page.box(index)
    if box is None:
        return None
    turned = _turn(box, turn)
    return turned.left, turned.right


def _spans(order: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Characters in order as spans of consecutive ones."""
    start = 0
    for place in range(1, len(order) + 1):
        if place == len(order) or order[place] != order[place - 1] + 1:
            yield order[start], order[place - 1] + 1
            start = place


def _turn(box: Box, turn: int) -> Box:
    """A box in the frame in which text rotated by this many quarter turns runs to the right."""
    if turn == 1:
        return Box(left=box.bottom, bottom=-box.right, right=box.top, top=-box.left)
    if turn == 2:
        return Box(left=-box.right, bottom=-box.top, right=-box.left, top=-box.bottom)
    if turn == 3:
        return Box(left=-box.top, bottom=box.left, right=-box.bottom, top=box.right)
    return box


def _stands_apart(page: PageText, before: tuple[int, int], after: tuple[int, int], size: float, turn: int) -> bool:
    if turn or page.is_filled_in:
        boxes = page.box(before[1] - 1), page.box(after[0])
        turned = [_turn(box, turn) for box in boxes if box is not None]
        if page.is_filled_in and len(turned) == 2 and not _share_a_line(*turned):
            return True
        gap = turned[1].left - turned[0].right if len(turned) == 2 else 0.0
    else:
        edges = page.ends(before[1] - 1), page.ends(after[0])
        gap = edges[1][0] - edges[0][1] if edges[0] is not None and edges[1] is not None else 0.0
    characters = page.characters
    is_number = characters[before[1] - 1] in "0123456789%)" or characters[after[0]] in "0123456789($€£"
    return gap > (_WIDE_NUMBERS if is_number else _WIDE) * max(size, 1.0)


def _columns_of(page: PageText, words: list[tuple[int, int]], size: float, turn: int) -> dict[int, int]:
    """The number of the column that each word is in, by its first character: words of one have no wide gap between.

    Where text runs in both directions, the word that is read next needn't be the one beside.
    """
    placed: list[tuple[int, float, float, int]] = []
    line, before = 0, None
    for start, end in words:
        boxes = [_turn(box, turn) for box in (page.box(start), page.box(end - 1)) if box is not None]
        if not boxes:
            continue
        line += before is not None and not _share_a_line(before, boxes[0])
        before = boxes[0]
        placed.append((line, min(box.left for box in boxes), max(box.right for box in boxes), start))
    columns: dict[int, int] = {}
    column, edge, line = 0, 0.0, -1
    for row, left, right, start in sorted(placed):
        column += row != line or left - edge > _WIDE * max(size, 1.0)
        edge = max(edge, right) if row == line else right
        line = row
        columns[start] = column
    return columns


def _lines_of(page: PageText, start: int, end: int) -> Iterator[tuple[int, int]]:
    """The parts of a word that are on separate lines, such as those of two fields."""
    first, before = start, page.box(start)
    for index in range(start + 1, end):
        box = page.box(index)
        if before is not None and box is not None and not _share_a_line(before, box):
            yield first, index
            first = index
        before = box or before
    yield first, end


def _share_a_line(before: Box, after: Box) -> bool:
    return before.top > after.bottom and before.bottom < after.top


def _is_bold(page: PageText, index: int) -> bool:
    return page.font_weight(index) >= _BOLD_WEIGHT or bool(_BOLD.search(page.font_name(index)))


def _runs_down(segments: list[Segment]) -> bool:
    """Whether most segments of several characters are taller than wide."""
    several = [segment for segment in segments if len(segment.text) > 2]
    tall = sum(segment.top - segment.bottom > 1.5 * (segment.right - segment.left) for segment in several)
    return 2 * tall > len(several)
