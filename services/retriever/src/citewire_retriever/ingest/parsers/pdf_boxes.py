"""Locates a text on a PDF's pages: a box per line.

The stored text differs from the page in white space, ligatures, hyphens and rows of dots, but not in the order of all
other characters. So only those are compared, and repeated texts on a page are distinguished by their surroundings. This
works whichever parser read the file.
"""

from collections.abc import Iterator, Sequence
from itertools import takewhile
from mmap import mmap

from citewire_retriever.ingest.boxes import MOST_BOXES, Box, PageBoxes, SoughtText
from citewire_retriever.ingest.errors import IngestCode, IngestError
from citewire_retriever.ingest.parsers.pdf_order import read_areas
from citewire_retriever.ingest.parsers.pdf_segments import FRAGMENT, LIGATURES, read_segments
from citewire_retriever.ingest.parsers.pdfium import PageText, PdfError, PdfFile

_LEFT_OUT = frozenset("-.·…_\x02\ufffd")
"""Characters that the parser joins, drops or replaces; white space and control characters are ignored too."""
_ALIKE = str.maketrans(")]}", "([{")
"""Brackets, which it may turn."""
_SAME_LINE = 0.5
"""Least overlap of two boxes of one line, as a share of the smaller height."""
_WIDEST_SPACE = 100
"""Most other characters between two sought characters of a line."""
_WIDEST_GAP = 8.0
"""Widest gap between two boxes of one line, in heights; wider ones separate columns."""


def find_boxes(data: bytes | mmap, sought: list[SoughtText]) -> list[PageBoxes]:
    """Finds texts on a PDF's pages, in the order requested.

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
        places = _find(page, sought)
        boxes = list(_lines(page, places))
        return PageBoxes(width, height, tuple(boxes[:MOST_BOXES]))
    finally:
        page.close()


def _find(page: PageText, sought: SoughtText) -> list[int]:
    """The page's characters that match the text sought; of several matches, the one with the same surroundings.

    A text was stored in the page's reading order or, by older versions, in the order of its content.
    """
    segments = (segment for area in read_areas(read_segments(page)) for row in area for segment in row)
    reading = [index for segment in segments for span in segment.spans for index in range(*span)]
    orders: list[Sequence[int]] = [reading, range(len(page.characters))]
    return max((_find_in(page.characters, order, sought) for order in orders), key=lambda result: result[0])[1]


def _find_in(characters: str, order: Sequence[int], sought: SoughtText) -> tuple[int, list[int]]:
    """How much of the surroundings matches (-1: not found), and the characters of the best match."""
    signs, places = _signs(characters, order)
    sought_signs = _signs_of(sought.text)
    if not sought_signs:
        return -1, []
    before, after = _signs_of(sought.before), _signs_of(sought.after)
    best, most = -1, -1
    at = signs.find(sought_signs)
    while at >= 0:
        end = at + len(sought_signs)
        same = _common(before[::-1], signs[max(0, at - len(before)) : at][::-1])
        same += _common(after, signs[end : end + len(after)])
        if same > most:
            best, most = at, same
        at = signs.find(sought_signs, at + 1)
    return (most, places[best : best + len(sought_signs)]) if best >= 0 else (-1, [])


def _common(text: str, other: str) -> int:
    """Length of the common prefix."""
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(text, other, strict=False)))


def _signs_of(text: str) -> str:
    return _signs(text, range(len(text)))[0]


def _signs(text: str, order: Sequence[int]) -> tuple[str, list[int]]:
    """The comparable characters in the given order, and the index of each in the text."""
    signs: list[str] = []
    places: list[int] = []
    for place in order:
        for sign in text[place].translate(LIGATURES).translate(_ALIKE):
            if sign.isprintable() and not sign.isspace() and sign not in _LEFT_OUT:
                signs.append(sign)
                places.append(place)
    return "".join(signs), places


def _lines(page: PageText, places: Sequence[int]) -> Iterator[Box]:
    """The boxes of characters in order, one per line."""
    line: Box | None = None
    for run in _runs(page.characters, places):
        boxes = [box for box in map(page.box, run) if box is not None]
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


def _runs(characters: str, places: Sequence[int]) -> Iterator[list[int]]:
    """Runs of consecutive characters on the page without a line end between them."""
    run: list[int] = []
    for place in places:
        near = run and run[-1] <= place <= run[-1] + _WIDEST_SPACE
        if run and not (near and FRAGMENT.fullmatch(characters, run[-1], place + 1)):
            yield run
            run = []
        run.append(place)
    if run:
        yield run


def _runs_down(first: Box, last: Box) -> bool:
    """Whether text runs up or down the page, as on a rotated one."""
    across = abs(first.left + first.right - last.left - last.right)
    return abs(first.top + first.bottom - last.top - last.bottom) > across


def _continues(line: Box, box: Box, *, is_upright: bool) -> bool:
    """Whether a character continues the line: it overlaps across the line's direction and is near along it."""
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
