"""Letters that a PDF sets apart: they are words again, and symbols and typed letters aren't."""

from __future__ import annotations

import pytest

from citewire_retriever.ingest.boxes import SoughtText
from citewire_retriever.ingest.document import ParseLimits
from citewire_retriever.ingest.parsers.pdf import parse_pdf
from citewire_retriever.ingest.parsers.pdf_boxes import find_boxes
from hard_pdfs import placed_pdf
from ingest_files import make_pdf

WIDTH = 6


def glyphs_of(text: str, step: float) -> bytes:
    """A line of glyphs this far apart, without its spaces."""
    return placed_pdf([(72 + step * place, 700, char) for place, char in enumerate(text) if char != " "])


def read(data: bytes) -> str:
    return parse_pdf(data, ParseLimits()).text


@pytest.mark.parametrize("step", [8, 8.5, 9, 10, 11])
def test_letters_set_apart_are_words(step: float) -> None:
    assert read(glyphs_of("This is the total due.", step)) == "This is the total due."


@pytest.mark.parametrize(("word", "step"), [("REPORT", 8.5), ("开票通知单", 11), ("目录表", 14)])
def test_letters_of_a_single_word_are_joined_if_their_gap_is_no_space(word: str, step: float) -> None:
    assert read(glyphs_of(word, step)) == (word if len(word) > 3 else " ".join(word))


def test_ideographs_are_joined_up_to_the_dots_and_the_page_number() -> None:
    assert read(glyphs_of("关于作战……１", 11)) == "关于作战 … … １"


@pytest.mark.parametrize(("letters", "step"), [("abcde", 9), ("xyz", 8), ("a b c d e f g h", 5), ("1=2+3", 8.5)])
def test_symbols_stay_apart(letters: str, step: float) -> None:
    assert read(glyphs_of(letters, step)) == " ".join(letters.replace(" ", ""))


@pytest.mark.parametrize("text", ["J R R T K L M Tolkien", "a b c d e f g", "A B C  D E F G H  I J"])
def test_typed_letters_stay_apart(text: str) -> None:
    assert read(make_pdf([[(72, 700, 10, "regular", text)]])) == " ".join(text.split())


def test_a_quote_of_letters_set_apart_is_found() -> None:
    text = "This is the total due."
    (match,) = find_boxes(glyphs_of(text, 9), [SoughtText(1, "the total")])
    (box,) = match.boxes
    assert box.left == pytest.approx(72 + 9 * text.index("the"), abs=0.1)
    assert box.right == pytest.approx(72 + 9 * (text.index("total") + 4) + WIDTH, abs=0.1)
