"""Finds pages that are pictures and draws them for text recognition.

Hostile pictures are decoded here, in a confined process; the recognition program only gets raw pixels.
"""

import io
import struct
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from mmap import mmap
from typing import Final

from PIL import Image, ImageOps, ImageSequence

from citewire_retriever.ingest.document import Format, ParsedDocument
from citewire_retriever.ingest.errors import IngestCode, IngestError
from citewire_retriever.ingest.parsers.package import bytes_file
from citewire_retriever.ingest.parsers.pdfium import PdfError, PdfFile

MOST_PIXELS: Final = 20_000_000
"""Most pixels of a drawn page: A3 at 300 dots per inch."""
_MOST_DECODED: Final = 64_000_000
"""Most pixels of a stored picture, at four bytes each."""
_MOST_FRAMES: Final = 10_000
_FORMATS: Final = ("PNG", "JPEG", "TIFF", "WEBP")
_DOTS: Final = 300
"""Dots per inch, as recommended by Tesseract's authors."""
_FEWEST_DOTS, _MOST_DOTS = 36, 4800
_POINTS: Final = 72
_FEW_SIGNS: Final = 25
"""Most letters and digits of separate text on a scanned page, such as a stamp or page number."""

Image.MAX_IMAGE_PIXELS = None  # replaced by our own limit, which raises an error rather than a warning


@dataclass(frozen=True, slots=True)
class PageImage:
    """A page in greyscale."""

    width: int
    """Pixels."""
    height: int
    points: tuple[float, float]
    """Displayed width and height, in points."""
    pixels: bytes
    """One byte per pixel, row by row."""


def find_scans(data: bytes | mmap, document: ParsedDocument) -> list[int]:
    """The pages of a PDF that are pictures, from 1: little or no text, but something is drawn."""
    if document.format is not Format.PDF:
        return []
    signs = [0] * (1 + (document.pages or 0))
    for block in document.blocks:
        if 0 < block.place.page < len(signs):
            signs[block.place.page] += sum(map(str.isalnum, document.text[block.start : block.end]))
    bare = [page for page in range(1, len(signs)) if signs[page] < _FEW_SIGNS]
    return _drawn(data, bare) if bare else []


def all_scans(data: bytes | mmap) -> tuple[int, list[int]]:
    """The number of pages of a file without text, and those, from 1, that may show text."""
    if b"%PDF-" not in data[:1024]:
        count = count_frames(data) if is_image(data) else 0
        return count, list(range(1, count + 1))
    file = _opened(data)
    try:
        count = len(file)
    finally:
        file.close()
    return count, _drawn(data, list(range(1, count + 1)))


def is_image(data: bytes | mmap) -> bool:
    """Whether a file starts like a supported picture format."""
    head = data[:12]
    return head.startswith((b"\x89PNG\r\n\x1a\n", b"\xff\xd8\xff", b"II*\x00", b"MM\x00*")) or (
        head[:4] == b"RIFF" and head[8:] == b"WEBP"
    )


def count_frames(data: bytes | mmap) -> int:
    """The pages of a picture.

    Raises:
        IngestError: CORRUPT; TOO_LARGE if it has too many pixels or pages.
    """
    with _picture(data) as picture:
        count = getattr(picture, "n_frames", 1)
    if count > _MOST_FRAMES:
        raise IngestError(IngestCode.TOO_LARGE, f"The image has more than {_MOST_FRAMES:,} pages: split it.")
    return count


def draw(data: bytes | mmap, page: int) -> PageImage:
    """Draws a page, from 1: a PDF's at 300 dots per inch, a picture's at its own size, scaled down if too large.

    Raises:
        IngestError: CORRUPT, TOO_LARGE.
    """
    if b"%PDF-" in data[:1024]:
        return _draw_page(data, page)
    with _picture(data) as picture, _explained():
        frame = picture if page == 1 else ImageSequence.Iterator(picture)[page - 1]
        _check_size(frame)
        dots = float(frame.info.get("dpi", (_DOTS, _DOTS))[0])
        grey = ImageOps.exif_transpose(frame).convert("L")
        scale = (MOST_PIXELS / (grey.width * grey.height)) ** 0.5
        if scale < 1:
            grey = grey.resize((int(grey.width * scale), int(grey.height * scale)))
        dots = min(scale, 1.0) * (dots if _FEWEST_DOTS <= dots <= _MOST_DOTS else _DOTS)
        points = (grey.width * _POINTS / dots, grey.height * _POINTS / dots)
        return PageImage(grey.width, grey.height, points, grey.tobytes())


def preload_images() -> None:
    """Loads what drawing needs, for processes that can no longer open files."""
    for name in _FORMATS:
        data = io.BytesIO()
        Image.new("RGB", (8, 8)).save(data, name)
        draw(data.getvalue(), 1)
    from citewire_retriever.ingest.parsers.samples import FILES

    draw(FILES["a.pdf"], 1)


def _drawn(data: bytes | mmap, pages: list[int]) -> list[int]:
    """The pages on which something is drawn; on pages with text, even unread, a picture must cover most of the page."""
    file = _opened(data)
    try:
        return [page for page in pages if file.picture_share(page - 1) >= (0.5 if _has_text(file, page) else 0.0)]
    finally:
        file.close()


def _has_text(file: PdfFile, page: int) -> bool:
    try:
        text = file.page_text(page - 1)
    except PdfError:
        return False
    try:
        return any(map(str.isalnum, text.characters))
    finally:
        text.close()


def _draw_page(data: bytes | mmap, page: int) -> PageImage:
    file = _opened(data)
    try:
        points, width, height, pixels = file.draw(page - 1, _DOTS / _POINTS, MOST_PIXELS)
    except PdfError as error:
        raise IngestError(IngestCode.CORRUPT, "The page can't be drawn.") from error
    finally:
        file.close()
    return PageImage(width, height, points, pixels)


def _opened(data: bytes | mmap) -> PdfFile:
    try:
        return PdfFile(data)
    except PdfError as error:
        raise IngestError(IngestCode.CORRUPT, "The PDF can't be opened.") from error


def _picture(data: bytes | mmap) -> Image.Image:
    with _explained():
        picture = Image.open(bytes_file(data), formats=_FORMATS)
        _check_size(picture)
        return picture


def _check_size(picture: Image.Image) -> None:
    """Checks the size in the header, before any pixel is decoded."""
    if picture.width * picture.height > _MOST_DECODED:
        raise IngestError(
            IngestCode.TOO_LARGE,
            f"The image has more than {_MOST_DECODED // 1_000_000} million pixels: make it smaller.",
        )


@contextmanager
def _explained() -> Generator[None]:
    """Turns all errors of broken pictures into a clear one."""
    try:
        yield
    except (OSError, ValueError, SyntaxError, EOFError, IndexError, TypeError, KeyError, struct.error) as error:
        raise IngestError(IngestCode.CORRUPT, "The image is damaged or cut off: save it again.") from error
