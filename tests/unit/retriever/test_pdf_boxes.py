"""A quote's boxes on a PDF's pages, compared with another library's."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from citewire_retriever.ingest.boxes import MOST_BOXES, PageBoxes, SoughtText
from citewire_retriever.ingest.document import ParsedDocument, ParseLimits
from citewire_retriever.ingest.errors import IngestCode, IngestError
from citewire_retriever.ingest.parsers.pdf import parse_pdf
from citewire_retriever.ingest.parsers.pdf_boxes import find_boxes
from ingest_files import make_pdf, prose_page
from pdf_words import alphanumerics, text_inside

AROUND = 200
LINES = [
    "The allowance abroad is sixty-two euros for each whole day of travel, and half of that is due on the",
    "first.",
]

QUOTE = "sixty-two euros for each whole day of travel, and half of that is due on the first."


def boxes_of(data: bytes, document: ParsedDocument, quote: str, occurrence: int = 0) -> PageBoxes:
    start = [match.start() for match in re.finditer(re.escape(quote), document.text)][occurrence]
    end = start + len(quote)
    page = next(block.place.page for block in document.blocks if block.start <= start < block.end)
    around = document.text[max(0, start - AROUND) : start], document.text[end : end + AROUND]
    (shown,) = find_boxes(data, [SoughtText(page, quote, *around)])
    return shown


@pytest.mark.parametrize("rotation", [0, 90, 180, 270])
@pytest.mark.parametrize("is_cropped", [False, True])
def test_boxes_are_relative_to_the_page_as_shown(tmp_path: Path, rotation: int, is_cropped: bool) -> None:
    crop = b"/CropBox [30 40 500 760]" if rotation in (0, 180) else b"/CropBox [40 30 760 500]"
    page = prose_page("Travel", [LINES, ["Another paragraph follows here."]])
    data = make_pdf([page], rotation=rotation, crop=crop if is_cropped else b"")
    path = tmp_path / "a.pdf"
    path.write_bytes(data)
    (shown,) = find_boxes(data, [SoughtText(1, QUOTE)])
    assert (shown.width, shown.height) == ((470, 720) if is_cropped else (612, 792))
    first, second = shown.boxes
    assert first.right - first.left > 100 > 20 > first.bottom - first.top > 8
    assert second.top >= first.bottom - 2
    assert alphanumerics(text_inside(path, 1, shown.boxes)) == alphanumerics(QUOTE)


def test_vertical_lines_have_a_box_each(tmp_path: Path) -> None:
    data = make_pdf([prose_page("Travel", [LINES])]).replace(b"/Type /Page /", b"/Type /Page /Rotate 270 /")
    path = tmp_path / "a.pdf"
    path.write_bytes(data)
    (shown,) = find_boxes(data, [SoughtText(1, QUOTE)])
    assert len(shown.boxes) == 2
    assert shown.boxes[0].bottom - shown.boxes[0].top > 100 > shown.boxes[0].right - shown.boxes[0].left
    assert alphanumerics(text_inside(path, 1, shown.boxes)) == alphanumerics(QUOTE)


def test_repeated_words_on_a_page_are_distinguished() -> None:
    paragraphs = [["First comes Berlin, where it costs 20 euros."], ["Then Paris, where it costs 20 euros."]]
    data = make_pdf([prose_page("Prices", paragraphs)])
    document = parse_pdf(data, ParseLimits())
    first, second = (boxes_of(data, document, "it costs 20 euros.", occurrence) for occurrence in (0, 1))
    assert first.boxes[0].bottom <= second.boxes[0].top


def test_a_word_cut_at_a_line_end_is_found_in_both_lines() -> None:
    lines = ["The first paragraph has lines that are long enough to be full, so that they run on in a para-", "graph."]
    data = make_pdf([prose_page("Opening", [lines])])
    shown = boxes_of(data, parse_pdf(data, ParseLimits()), "paragraph.")
    assert len(shown.boxes) == 2


def test_a_quote_that_is_not_found_has_no_boxes() -> None:
    data = make_pdf([prose_page("Opening", [["Some text."]])])
    nowhere, empty = find_boxes(data, [SoughtText(1, "Other text"), SoughtText(1, " -\n")])
    assert (nowhere.width, nowhere.boxes, empty.boxes) == (612, (), ())
    for page, broken in ((0, data), (2, data), (1, data[:200])):
        with pytest.raises(IngestError) as caught:
            find_boxes(broken, [SoughtText(page, "Some")])
        assert caught.value.code is IngestCode.CORRUPT


def test_boxes_are_bounded() -> None:
    page = [(20.0 + 50 * (n % 12), 780.0 - 14 * (n // 12), 9.0, "regular", f"w{n}") for n in range(12 * 55)]
    data = make_pdf([page])
    (shown,) = find_boxes(data, [SoughtText(1, " ".join(f"w{n}" for n in range(12 * 55)))])
    assert 50 <= len(shown.boxes) <= MOST_BOXES
