"""The headings above a chunk's text."""

from __future__ import annotations

import pytest

from citewire_retriever.headings import heading, headings_of, named
from citewire_retriever.ingest.chunk_rows import weighed_terms
from citewire_retriever.lexical import weigh_chunk
from citewire_retriever.store.vectors import sparse_vector


@pytest.mark.parametrize(
    ("title", "file_name", "expected"),
    [
        ("UNITED STATES SECURITIES AND EXCHANGE COMMISSION", "AMAZON_2017_10K.pdf", "AMAZON 2017 10K: "),
        ("Annual report", "Harbour Works – 2024.PDF", "Harbour Works 2024: "),
        ("Jahresbericht", "übersicht.docx", "übersicht: "),
        ("Travel policy", "travel-policy.md", ""),
        ("Report", "0001558370-19-000470.pdf", ""),
        ("scan.v2.pdf", "scan.v2.pdf", ""),
        ("An article", "", ""),
    ],
)
def test_words_of_the_file_name_that_the_title_lacks_come_before_it(title: str, file_name: str, expected: str) -> None:
    assert named(title, file_name) == f"{expected}{title}"


def test_a_very_long_name_is_shortened() -> None:
    assert len(named("Title", f"{'word ' * 500}.txt")) < 100


@pytest.mark.parametrize(
    ("title", "section", "expected"),
    [
        ("Travel policy", "Travel policy > Hotels", "Travel policy\nHotels"),
        ("travel 2024: Policy", "Policy > Hotels", "travel 2024: Policy\nHotels"),
        ("travel 2024: Policy", "Hotels > icy", "travel 2024: Policy\nHotels > icy"),
        ("Policy", "Policy", "Policy"),
    ],
)
def test_the_title_is_above_a_text_only_once(title: str, section: str, expected: str) -> None:
    assert heading(title, section) == expected


def test_a_chunks_terms_distinguish_its_headings_from_the_title() -> None:
    header = heading("Report 2018", "Statements > Cash flows")
    assert headings_of(header) == "Statements > Cash flows"
    assert headings_of(heading("Report 2018", "")) == ""
    weights = weigh_chunk(f"{header}\nProceeds", "Statements > Cash flows")
    assert weighed_terms(header, "Proceeds") == sparse_vector(weights).to_text()
    assert weights != weigh_chunk(f"{header}\nProceeds")
