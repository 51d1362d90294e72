"""The benchmark of reading PDF pages: its gold standard, which refers to words by number, and its measures."""

import re
from pathlib import Path

import pytest

from benchmarks import pdf_gold
from benchmarks.pdf_gold import checksum, elements, page_words, read_gold
from benchmarks.pdf_scores import Element, f1, read_markdown, score, teds
from citewire_retriever.ingest.parsers.samples import FILES

WORDS = ["Title", "and", "a", "paragraph", "Year", "Sales", "2024", "12", "7"]


def test_a_number_stands_for_the_words_up_to_the_next_number() -> None:
    lines = ["h2 0", "table", "row 4 | 5", "row 6 | 7", "p 1", "omit 8"]

    assert list(elements(lines, WORDS)) == [
        Element("Title", level=2),
        Element(rows=(("Year", "Sales"), ("2024", "12"))),
        Element("and a paragraph"),
    ]


@pytest.mark.parametrize("lines", [["p 1"], ["p 0", "p 0"], ["p 0", "p 9"], ["q 0"], ["p"], ["row 0 | 1"]])
def test_gold_with_words_left_over_or_used_twice_is_refused(lines: list[str]) -> None:
    with pytest.raises(ValueError, match=r"numbers must begin with 0|not a line of a page"):
        list(elements(lines, WORDS))


def test_a_different_reading_by_pdfium_is_detected(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a.pdf").write_bytes(FILES["a.pdf"])
    words = page_words(tmp_path / "a.pdf", 1)
    gold = tmp_path / "gold.txt"
    monkeypatch.setattr(pdf_gold, "GOLD", gold)

    gold.write_text(f"= a.pdf 1, MIT, {len(words)} words, {checksum(words)}\np 0\n", encoding="utf-8")
    assert [page.elements for page in read_gold(tmp_path)] == [(Element(" ".join(words)),)]
    gold.write_text(f"= a.pdf 1, MIT, {len(words)} words, {checksum([*words, words[0]])}\np 0\n", encoding="utf-8")
    with pytest.raises(ValueError, match="the words are others"):
        read_gold(tmp_path)


def test_the_gold_standard_has_thirty_pages_with_licences_and_no_text() -> None:
    text = pdf_gold.GOLD.read_text(encoding="utf-8")
    lines = [line for line in text.splitlines() if line and not line.startswith(("#", "="))]

    heads = re.findall(
        r"^= \S+\.pdf \d+, (CC-BY-SA-4.0|MIT|Apache-2.0|BSD-3-Clause), \d+ words, [0-9a-f]{8}$", text, re.M
    )
    assert len(heads) == 30
    assert all(re.fullmatch(r"(?:h\d|p|omit|table|row)[\d |]*", line) for line in lines)


def test_a_perfectly_read_page_has_the_best_score() -> None:
    table = Element(rows=(("Year", "Sales"), ("2024", "12")))
    page = [Element("Results", level=1), Element("Sales rose in exam\N{SOFT HYPHEN}ples.", level=0), table]
    read = read_markdown(
        "# Results\n\nSales *rose* in exam-\nples.\n\n| Year | Sales |\n| --- | --- |\n| 2024 | 12 |\n"
    )

    result = score(page, read)

    assert (result.recall, result.precision, result.order, result.teds, result.false_tables) == (1, 1, 1, (1.0,), 0)
    assert (f1(result.headings, "both"), f1(result.headings, "level")) == (1, 1)


def test_columns_read_row_by_row_lower_the_order_score_only() -> None:
    page = [Element("a b c d e f")]

    result = score(page, [Element("a d b e c f")])

    assert (result.recall, result.precision) == (1, 1)
    assert result.order == pytest.approx(4 / 6)


def test_missing_words_lower_recall_and_running_heads_precision() -> None:
    result = score([Element("a b c d")], [Element("a b"), Element("page 3")])

    assert (result.recall, result.precision, result.order) == (0.5, 0.5, 1)


def test_tables_are_compared_by_edit_distance() -> None:
    rows = (("Year", "Sales"), ("2024", "12"))  # a tree of seven nodes

    assert teds(rows, rows) == 1
    assert teds(rows, (("Year", "Sales"), ("2024",))) == pytest.approx(6 / 7)
    assert teds(rows, (("Year", "Sales"), ("2024", "13"))) == pytest.approx(6.5 / 7)
    assert teds(rows, (("Year", "Sales"),)) == pytest.approx(4 / 7)


def test_false_and_missed_tables_are_counted() -> None:
    table, text = Element(rows=(("a", "b"), ("c", "d"))), Element("a b c d")

    assert score([text], [table]).false_tables == 1
    assert score([table], [text]).teds == (0.0,)


def test_levels_of_headings_are_compared_relatively() -> None:
    page = [Element("One", level=1), Element("Two", level=2), Element("Three", level=2)]
    deeper = [Element("One", level=3), Element("Two", level=5), Element("Three", level=5)]
    flat = [Element("One", level=1), Element("Two", level=1), Element("Extra", level=1)]

    assert score(page, deeper).headings == {"gold": 3, "read": 3, "both": 3, "level": 3}
    assert score(page, flat).headings == {"gold": 3, "read": 3, "both": 2, "level": 1}
