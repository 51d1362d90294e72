"""The few parts of pypdfium2 that are used, with types, since it ships none and calls C through ctypes."""

import ctypes
import re
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import import_module
from math import hypot
from mmap import mmap
from typing import Any

from citewire_retriever.ingest.boxes import Box

_pdfium: Any = import_module("pypdfium2")
_raw: Any = import_module("pypdfium2.raw")

_HUNDREDTHS = 100
_MOST_ANNOTATIONS = 10_000
_SHOWING = frozenset({_raw.FPDF_ANNOT_WIDGET, _raw.FPDF_ANNOT_FREETEXT, _raw.FPDF_ANNOT_STAMP})
"""Annotations that show text."""
_NONE = "\ufffe"
"""Stands for a character that isn't known, or that the one before it includes."""
_SURROGATE = re.compile("[\ud800-\udfff]")
_PAIR = re.compile("[\ud800-\udbff][\udc00-\udfff]")
_UNPAIRED = dict.fromkeys(range(0xD800, 0xE000), _NONE)
_UNSAID = re.compile("[\x00\ufffe]")
HYPHEN = "\x02"
"""pdfium's character for a hyphen at a line's end, which replaces both the hyphen and the line end."""


class PdfError(Exception):
    """A file, or a page of it, that pdfium can't read."""


class PdfPasswordError(PdfError):
    """A file that needs a password."""


@dataclass(frozen=True, slots=True)
class Bookmark:
    """An entry of a file's outline."""

    title: str
    """Its text."""
    level: int
    """Its depth, from 0."""
    page: int
    """Index of the page that it leads to, from 0."""


class PageText:
    """The characters of one page, in the order of its content. Indices count them from 0."""

    def __init__(self, page: Any, *, is_filled_in: bool = False) -> None:  # noqa: ANN401 - pypdfium2 is untyped
        self.is_filled_in = is_filled_in
        """Whether form fields were flattened into the page's text, whose lines may then run together."""
        self._page = page
        self._text: Any = page.get_textpage()
        self._rect: Any = _raw.FS_RECTF()
        self._rect_pointer = ctypes.byref(self._rect)
        self.characters = self._read()
        self._area = _area_of(page)

    def box(self, index: int) -> Box | None:
        """A character's box over the height of its font; None where it has none."""
        rect = _raw.FS_RECTF()
        if not _raw.FPDFText_GetLooseCharBox(self._text, index, ctypes.byref(rect)):
            return None
        if rect.right <= rect.left and rect.top <= rect.bottom:
            return None
        return Box(float(rect.left), float(rect.bottom), float(rect.right), float(rect.top))

    def is_shown(self, box: Box) -> bool:
        """Whether a box is at least partly within the cropped page; printers' marks outside aren't visible."""
        area = self._area
        across = box.right > area.left and box.left < area.right
        return across and box.top > area.bottom and box.bottom < area.top

    def ends(self, index: int) -> tuple[float, float] | None:
        """A character's left and right edge in the file; None if it has no box."""
        rect = self._rect
        if not _raw.FPDFText_GetLooseCharBox(self._text, index, self._rect_pointer):
            return None
        return float(rect.left), float(rect.right)

    def is_typed(self, index: int) -> bool:
        """Whether a character is in the file; the library adds spaces and line ends where it sees a gap."""
        return int(_raw.FPDFText_IsGenerated(self._text, index)) == 0

    def font_size(self, index: int) -> float:
        """A character's size in points; 0 if unknown."""
        matrix = _raw.FS_MATRIX()
        if not _raw.FPDFText_GetMatrix(self._text, index, ctypes.byref(matrix)):
            return 0.0
        return float(_raw.FPDFText_GetFontSize(self._text, index)) * hypot(matrix.c, matrix.d)

    def angle(self, index: int) -> float:
        """A character's rotation in the file, in radians, counterclockwise."""
        return -float(_raw.FPDFText_GetCharAngle(self._text, index))  # the library counts clockwise

    def font_name(self, index: int) -> str:
        """The name of a character's font; empty if it is unknown."""
        buffer = ctypes.create_string_buffer(128)
        flags = ctypes.c_int()
        length = int(_raw.FPDFText_GetFontInfo(self._text, index, buffer, len(buffer), ctypes.byref(flags)))
        return buffer.value.decode("utf-8", errors="replace") if 0 < length <= len(buffer) else ""

    def font_weight(self, index: int) -> int:
        """The weight of a character's font, 400 for regular and 700 for bold; -1 if unknown."""
        return int(_raw.FPDFText_GetFontWeight(self._text, index))

    def size(self) -> tuple[float, float]:
        """Width and height of the page as displayed, cropped and rotated, in points."""
        width, height = self._page.get_size()
        return float(width), float(height)

    def shown(self, box: Box) -> Box:
        """A box on the displayed page, from its upper left corner, so `top` is less than `bottom`."""
        width, height = self.size()
        corners = [self._to_shown(width, height, x, y) for x in (box.left, box.right) for y in (box.bottom, box.top)]
        across, down = [x for x, _ in corners], [y for _, y in corners]
        return Box(left=min(across), bottom=max(down), right=max(across), top=min(down))

    def _to_shown(self, width: float, height: float, x: float, y: float) -> tuple[float, float]:
        """Measured on a page drawn so large that the library's whole pixels are hundredths of a point."""
        across, down = ctypes.c_int(), ctypes.c_int()
        sizes = round(width * _HUNDREDTHS), round(height * _HUNDREDTHS)
        _raw.FPDF_PageToDevice(self._page, 0, 0, *sizes, 0, x, y, ctypes.byref(across), ctypes.byref(down))
        return across.value / _HUNDREDTHS, down.value / _HUNDREDTHS

    def close(self) -> None:
        """Frees the page, and its text with it."""
        self._page.close()

    def _read(self) -> str:
        """One code point per character, so that indices match."""
        count = int(self._text.count_chars())
        buffer = (ctypes.c_ushort * (count + 1))()
        written = int(_raw.FPDFText_GetText(self._text, 0, count, buffer))
        text = bytes(buffer)[: 2 * (written - 1)].decode("utf-16-le", errors="surrogatepass")
        if len(text) != count or _SURROGATE.search(text):
            return _PAIR.sub(_paired, "".join(map(self._character, range(count)))).translate(_UNPAIRED)
        # The text as a whole doesn't identify some characters, such as a hyphen at a line's end.
        return _UNSAID.sub(lambda match: self._character(match.start()), text)

    def _character(self, index: int) -> str:
        code = int(_raw.FPDFText_GetUnicode(self._text, index))
        return chr(code) if 0 < code < 0x110000 else _NONE


def _paired(pair: re.Match[str]) -> str:
    """The code point of two surrogates, each of which the library counts as a character, and nothing in the second."""
    return pair.group().encode("utf-16-le", errors="surrogatepass").decode("utf-16-le") + _NONE


def _shows_annotations(page: Any) -> bool:  # noqa: ANN401 - pypdfium2 is untyped
    """Whether a page has form fields or text annotations."""
    for index in range(min(int(_raw.FPDFPage_GetAnnotCount(page)), _MOST_ANNOTATIONS)):
        annotation = _raw.FPDFPage_GetAnnot(page, index)
        if annotation:
            kind = int(_raw.FPDFAnnot_GetSubtype(annotation))
            _raw.FPDFPage_CloseAnnot(annotation)
            if kind in _SHOWING:
                return True
    return False


def _area_of(page: Any) -> Box:  # noqa: ANN401 - pypdfium2 is untyped
    """The visible box of a page, in its own units; also where the page inherits its boxes."""
    left, bottom, right, top = map(float, page.get_bbox())
    if left >= right or bottom >= top:  # a crop box beside the page, which readers ignore
        left, bottom, right, top = map(float, page.get_mediabox())
    return Box(left=left, bottom=bottom, right=right, top=top)


class PdfFile:
    """An open PDF. Files encrypted with an empty user password can be read."""

    def __init__(self, data: bytes | mmap) -> None:
        """Opens a PDF in memory; a mapped file must be private and writable, as ctypes requires."""
        source = data if isinstance(data, bytes) else (ctypes.c_ubyte * len(data)).from_buffer(data)
        try:
            self._document: Any = _pdfium.PdfDocument(source)
        except _pdfium.PdfiumError as error:
            if getattr(error, "err_code", None) == _raw.FPDF_ERR_PASSWORD:
                raise PdfPasswordError from error
            raise PdfError from error
        try:
            # A form may leave drawing its fields' content to the viewer.
            self._document.init_forms()
        except _pdfium.PdfiumError:
            return

    def __len__(self) -> int:
        """The number of pages."""
        return len(self._document)

    def page_text(self, index: int) -> PageText:
        """A page's characters.

        Raises:
            PdfError: The page can't be read.
        """
        try:
            page: Any = self._document[index]
            if not _shows_annotations(page):
                return PageText(page)
            return PageText(self._filled_in(page, index), is_filled_in=True)
        except _pdfium.PdfiumError as error:
            raise PdfError from error

    def _filled_in(self, page: Any, index: int) -> Any:  # noqa: ANN401 - pypdfium2 is untyped
        """A page with the text of its form fields and notes as part of its own text, as a reader sees it."""
        if _raw.FPDFPage_Flatten(page, _raw.FLAT_NORMALDISPLAY) != _raw.FLATTEN_SUCCESS:
            return page
        page.close()
        return self._document[index]

    def picture_share(self, index: int) -> float:
        """The share of a page's area covered by pictures, 0–1; -1 if it is empty or can't be read."""
        try:
            page: Any = self._document[index]
        except _pdfium.PdfiumError:
            return -1.0
        try:
            if int(_raw.FPDFPage_CountObjects(page)) == 0:
                return -1.0
            width, height = page.get_size()
            boxes = [picture.get_bounds() for picture in page.get_objects(filter=[_raw.FPDF_PAGEOBJ_IMAGE])]
            covered = sum((right - left) * (top - bottom) for left, bottom, right, top in boxes)
            return min(1.0, float(covered) / max(1.0, float(width * height)))
        except _pdfium.PdfiumError:
            return 0.0
        finally:
            page.close()

    def draw(self, index: int, scale: float, most: int) -> tuple[tuple[float, float], int, int, bytes]:
        """Draws a page in greyscale: its size in points, width and height in pixels, and one byte per pixel.

        Args:
            index: The page, from 0.
            scale: Pixels per point, fewer if there would be too many.
            most: Most pixels.

        Raises:
            PdfError: The page can't be read.
        """
        try:
            page: Any = self._document[index]
            width, height = map(float, page.get_size())
            scale = min(scale, (most / max(1.0, width * height)) ** 0.5)
            bitmap: Any = page.render(scale=scale, grayscale=True)
        except (_pdfium.PdfiumError, ValueError, OverflowError) as error:
            raise PdfError from error
        rows = memoryview(bitmap.buffer).cast("B")
        across, down, stride = int(bitmap.width), int(bitmap.height), int(bitmap.stride)
        pixels = b"".join(rows[row * stride : row * stride + across] for row in range(down))
        return (width, height), across, down, pixels

    def title(self) -> str:
        """The title in the file's metadata; empty if it has none."""
        return str(self._document.get_metadata_value("Title"))

    def outline(self, limit: int) -> Iterator[Bookmark]:
        """The outline's entries that lead to a page, in order, at most `limit`."""
        for count, entry in enumerate(self._document.get_toc(max_depth=8)):
            if count >= limit:
                return
            target = entry.get_dest()
            page = target.get_index() if target is not None else None
            if isinstance(page, int) and page >= 0:
                yield Bookmark(str(entry.get_title()), int(entry.level), page)

    def close(self) -> None:
        """Closes the file."""
        self._document.close()
