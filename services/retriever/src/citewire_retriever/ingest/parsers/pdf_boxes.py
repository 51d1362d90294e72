"""Where a text stands on a PDF's pages: a box per line.

The stored text is what a parser made of the page: white space, ligatures, hyphens and rows of dots differ, the order of
all other signs doesn't. So both are compared by those alone, and a text that stands on a page several times is told
apart by what stands around it. It needs no trace of the parser that once read the file.
"""

from collections.abc import Iterator
from itertools import takewhile
from mmap import mmap

from citewire_retriever.ingest.boxes import MOST_BOXES, Box, PageBoxes, SoughtText
from citewire_retriever.ingest.errors import IngestCode, IngestError
from citewire_retriever.ingest.parsers.pdf_layout import FRAGMENT, LIGATURES
from citewire_retriever.ingest.parsers.pdfium import PageText, PdfError, PdfFile

_LEFT_OUT = frozenset("-.·…_\x02\ufffd")
"""Signs that the parser joins, drops or writes otherwise; white space and control characters are left out too."""
_SAME_LINE = 0.5
"""Share of the smaller height by which two boxes of one line overlap."""
_WIDEST_GAP = 8.0
"""Between two boxes of one line, in heights: further apart are columns."""


def find_boxes(data: bytes | mmap, sought: list[SoughtText]) -> list[PageBoxes]:
    """Finds texts on a PDF's pages, in the order asked.

    Raises:
        IngestError: CORRUPT: the file or a page can't be read.
    """
    try:
        file = PdfFile(data)
    except PdfError as error:
        raise IngestError(IngestCode.CORRUPT, "The PDF can't be opened.") from error
    try:
        return [_on_page(file, each) for each in sought]
    finally:
        file.close()


def _on_page(file: PdfFile, sought: SoughtText) -> PageBoxes:
    if not 1 <= sought.page <= len(file):
        raise IngestError(IngestCode.CORRUPT, "The PDF has no such page.")
    try:
        page = file.page_text(sought.page - 1)
    except PdfError as error:
        raise IngestError(IngestCode.CORRUPT, "The page can't be read.") from error
    try:
        width, height = page.size()
        span = _find(page.characters, sought)
        boxes = [] if span is None else list(_lines(page, *span))
        return PageBoxes(width, height, tuple(boxes[:MOST_BOXES]))
    finally:
        page.close()


def _find(characters: str, sought: SoughtText) -> tuple[int, int] | None:
    """The span of a page's characters that is the text sought: of several, the one in the same surroundings."""
    signs, places = _signs(characters)
    sought_signs = _signs(sought.text)[0]
    if not sought_signs:
        return None
    before, after = _signs(sought.before)[0], _signs(sought.after)[0]
    best, most = -1, -1
    at = signs.find(sought_signs)
    while at >= 0:
        end = at + len(sought_signs)
        same = _common(before[::-1], signs[max(0, at - len(before)) : at][::-1])
        same += _common(after, signs[end : end + len(after)])
        if same > most:
            best, most = at, same
        at = signs.find(sought_signs, at + 1)
    return None if best < 0 else (places[best], places[best + len(sought_signs) - 1] + 1)


def _common(text: str, other: str) -> int:
    """How many signs both begin with."""
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(text, other, strict=False)))


def _signs(text: str) -> tuple[str, list[int]]:
    """The signs that stored text and page have in common, and where each stands."""
    signs: list[str] = []
    places: list[int] = []
    for place, char in enumerate(text):
        for sign in char.translate(LIGATURES):
            if sign.isprintable() and not sign.isspace() and sign not in _LEFT_OUT:
                signs.append(sign)
                places.append(place)
    return "".join(signs), places


def _lines(page: PageText, start: int, end: int) -> Iterator[Box]:
    """The boxes of a span of characters: those of one line as one."""
    line: Box | None = None
    for fragment in FRAGMENT.finditer(page.characters, start, end):
        boxes = [box for box in map(page.box, _visible(page, fragment.start(), fragment.end())) if box is not None]
        shown = [page.shown(box) for box in boxes]
        is_upright = bool(shown) and _runs_down(shown[0], shown[-1])
        for box in shown:
            if line is not None and _continues(line, box, is_upright=is_upright):
                line = _around(line, box)
            else:
                if line is not None:
                    yield line
                line = box
    if line is not None:
        yield line


def _visible(page: PageText, start: int, end: int) -> Iterator[int]:
    return (index for index in range(start, end) if not page.characters[index].isspace())


def _runs_down(first: Box, last: Box) -> bool:
    """Whether text runs up or down the page, as on one that is turned."""
    across = abs(first.left + first.right - last.left - last.right)
    return abs(first.top + first.bottom - last.top - last.bottom) > across


def _continues(line: Box, box: Box, *, is_upright: bool) -> bool:
    """Whether a character goes on in the line: it overlaps across the line's direction, and is near along it."""
    beside = (line.top, line.bottom, box.top, box.bottom)
    along = (line.left, line.right, box.left, box.right)
    if is_upright:
        beside, along = along, beside
    size = min(beside[1] - beside[0], beside[3] - beside[2])
    overlap = min(beside[1], beside[3]) - max(beside[0], beside[2])
    gap = max(along[2] - along[1], along[0] - along[3])
    return overlap >= _SAME_LINE * size and gap <= _WIDEST_GAP * max(size, 1.0)


def _around(line: Box, other: Box) -> Box:
    return Box(
        left=min(line.left, other.left),
        bottom=max(line.bottom, other.bottom),
        right=max(line.right, other.right),
        top=min(line.top, other.top),
    )
