"""Right-to-left text in PDFs: in the order of reading, wherever it is in the content."""

from __future__ import annotations

import re

import pytest

from citewire_retriever.ingest.boxes import SoughtText
from citewire_retriever.ingest.document import ParseLimits
from citewire_retriever.ingest.parsers.pdf import parse_pdf
from citewire_retriever.ingest.parsers.pdf_boxes import find_boxes
from hard_pdfs import placed_pdf

LINES = [
    ("שלום עולם, זהו מסמך קצר בעברית", "תירבעב רצק ךמסמ והז ,םלוע םולש"),
    ("مرحبا بالعالم في 2024", "2024 يف ملاعلاب ابحرم"),
    ("הסכום הוא $1,250.50 או 30% (כולל מע״מ) עד 12.5.2024", "12.5.2024 דע (מ״עמ ללוכ) 30% וא $1,250.50 אוה םוכסה"),
    ("הספק הראשי, Bank of America Corp. חתם היום על ההסכם", "םכסהה לע םויה םתח Bank of America Corp. ,ישארה קפסה"),
    ("He said שלום לכל עולם and left at once", "He said םלוע לכל םולש and left at once"),
]
"""Texts in the order of reading, and as the page shows them from left to right."""

LEFT = 72
WIDTH = 6
Run = tuple[float, float, str]


def words_of(shown: str) -> list[Run]:
    return [(LEFT + WIDTH * word.start(), 700, word.group()) for word in re.finditer(r"\S+", shown)]


def glyphs_of(shown: str) -> list[Run]:
    return [(LEFT + WIDTH * place, 700, char) for place, char in enumerate(shown) if char != " "]


@pytest.mark.parametrize(("text", "shown"), LINES)
def test_a_line_is_in_the_order_of_reading_however_it_is_written(text: str, shown: str) -> None:
    words, glyphs = words_of(shown), glyphs_of(shown)
    for runs in ([(LEFT, 700, shown)], words, words[::-1], glyphs, glyphs[::-1]):
        assert parse_pdf(placed_pdf(runs), ParseLimits()).text == text
    for runs in (words, words[::-1]):
        assert parse_pdf(placed_pdf(runs, is_leftwards=True), ParseLimits()).text == text


def test_brackets_of_right_to_left_text_open_before_they_close() -> None:
    data = placed_pdf(words_of("הנידמה רקבמ קוחל )4()ב(15 ףיעס"))
    assert parse_pdf(data, ParseLimits()).text == "סעיף 15(ב)(4) לחוק מבקר המדינה"


@pytest.mark.parametrize("quote", ["מסמך קצר", "(קצר) בעברית"])
@pytest.mark.parametrize("is_leftwards", [False, True])
def test_a_quote_is_found_where_its_words_are_shown(quote: str, is_leftwards: bool) -> None:
    shown = "תירבעב (רצק) ךמסמ והז ,םלוע םולש" if "(" in quote else "תירבעב רצק ךמסמ והז ,םלוע םולש"
    data = placed_pdf([(LEFT, 700, shown)], is_leftwards=is_leftwards)

    (match,) = find_boxes(data, [SoughtText(1, quote)])

    (box,) = match.boxes
    first, last = ("תירבעב", "(רצק)") if "(" in quote else ("רצק", "ךמסמ")
    assert box.left == pytest.approx(LEFT + WIDTH * shown.index(first), abs=0.1)
    assert box.right == pytest.approx(LEFT + WIDTH * (shown.index(last) + len(last)), abs=0.1)
    assert box.top < 792 - 700 < box.bottom + 1
