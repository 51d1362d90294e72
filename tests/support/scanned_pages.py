"""Pages as images, drawn from pages of text, so that their words and positions are known."""

from __future__ import annotations

import io
from importlib import import_module
from typing import Any

from PIL import Image

from citewire_retriever.ingest.parsers.scans import draw
from ingest_files import make_pdf, prose_page

LINES = (
    "The annual report was printed in autumn.",
    "Travelling abroad costs sixty euros a day.",
    "Nobody is paid for meals at home.",
    "Receipts are kept for seven years.",
)


def picture(title: str, lines: tuple[str, ...] = LINES) -> Image.Image:
    """A page like one from a scanner."""
    image = draw(make_pdf([prose_page(title, [list(lines)], size=12)]), 1)
    return Image.frombytes("L", (image.width, image.height), image.pixels)


def as_image(image: Image.Image, kind: str, *more: Image.Image) -> bytes:
    """An image file of 300 dots per inch; TIFF may have more pages."""
    data = io.BytesIO()
    if more:
        image.save(data, kind, dpi=(300, 300), save_all=True, append_images=list(more))
    else:
        image.save(data, kind, dpi=(300, 300))
    return data.getvalue()


def scanned_pdf(*images: Image.Image) -> bytes:
    """A PDF of pictures."""
    data = io.BytesIO()
    images[0].save(data, "PDF", resolution=300, save_all=True, append_images=list(images[1:]))
    return data.getvalue()


def joined(*files: bytes) -> bytes:
    """The pages of several PDFs in one."""
    pdfium: Any = import_module("pypdfium2")
    whole = pdfium.PdfDocument.new()
    for file in files:
        whole.import_pages(pdfium.PdfDocument(file))
    data = io.BytesIO()
    whole.save(data)
    return data.getvalue()
