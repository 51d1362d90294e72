"""The text inside boxes on a PDF's page according to pdfminer.six, a library that shares no code with pdfium."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any

from pdfminer.converter import PDFPageAggregator
from pdfminer.layout import LTChar
from pdfminer.pdfdocument import PDFDocument
from pdfminer.pdfinterp import PDFPageInterpreter, PDFResourceManager
from pdfminer.pdfpage import PDFPage
from pdfminer.pdfparser import PDFParser

from citewire_retriever.ingest.boxes import Box

_TOLERANCE = 0.5


def text_inside(path: Path, number: int, boxes: Iterable[Box]) -> str:
    """The characters of a page, from 1, whose middle is in a box; boxes count from the page's upper left corner."""
    shown = list(boxes)
    inside = (char for x, y, char in _characters(path, number) if any(_holds(box, x, y) for box in shown))
    return "".join(inside)


def alphanumerics(text: str) -> str:
    """Only letters and digits, normalised: libraries differ in white space, hyphens and ligatures."""
    return "".join(char for char in unicodedata.normalize("NFKC", text) if char.isalnum())


def _holds(box: Box, x: float, y: float) -> bool:
    across = box.left - _TOLERANCE <= x <= box.right + _TOLERANCE
    return across and box.top - _TOLERANCE <= y <= box.bottom + _TOLERANCE


@lru_cache(maxsize=256)
def _characters(path: Path, number: int) -> list[tuple[float, float, str]]:
    """The middle of each character as the page is shown, and the character."""
    with path.open("rb") as file:
        page = list(PDFPage.create_pages(PDFDocument(PDFParser(file))))[number - 1]
        manager = PDFResourceManager()
        device = PDFPageAggregator(manager, laparams=None)
        PDFPageInterpreter(manager, device).process_page(page)
        layout: Any = device.get_result()
    left, top = _crop(page)
    return [
        ((char.x0 + char.x1) / 2 - left, layout.height - (char.y0 + char.y1) / 2 - top, char.get_text())
        for char in _walk(layout)
    ]


def _crop(page: PDFPage) -> tuple[float, float]:
    """The crop on the left and at the top of the displayed page; pdfminer rotates but doesn't crop."""
    media, crop = page.mediabox, page.cropbox
    left, bottom, right, top = (abs(edge - cut) for edge, cut in zip(media, crop, strict=True))
    return {0: (left, top), 90: (bottom, left), 180: (right, bottom), 270: (top, right)}[page.rotate]


def _walk(parent: Any) -> Iterator[LTChar]:  # noqa: ANN401 # pdfminer's tree is untyped
    for child in parent:
        if isinstance(child, LTChar):
            yield child
        elif hasattr(child, "__iter__"):
            yield from _walk(child)
