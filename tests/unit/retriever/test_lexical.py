"""The terms of lexical search."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from citewire_retriever.lexical import (
    DIMENSIONS,
    MAX_QUESTION_TERMS,
    count_question,
    term_number,
    terms,
    weigh_chunk,
)
from citewire_retriever.stemming import guess
from citewire_retriever.store.vectors import sparse_vector


@pytest.mark.parametrize(
    ("text", "other"),
    [
        ("The vaccine", "the VACCINES"),
        ("naïve café", "naive cafe"),
        ("Ｆｕｌｌ ｗｉｄｔｈ", "full width"),
        ("the dog's bone", "the dogs bones"),
        ("the dog’s bone", "the dog bone"),
        ("los libros de la biblioteca que son", "el libro de las bibliotecas que es"),
        ("русские книги", "русская книга"),
        ("الكِتَاب", "الكتاب"),
        ("snake_case", "snake case"),
    ],
)
def test_equivalent_texts_have_the_same_terms(text: str, other: str) -> None:
    stop = {"el", "la", "los", "las", "es", "son"}
    assert [term for term in terms(text) if term not in stop] == [term for term in terms(other) if term not in stop]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("日本語の文章", ["日本", "本語", "語の", "の文", "文章"]),
        ("水", ["水"]),
        ("iPhone15発売", ["iphone15", "発売"]),
        ("हिन्दी में", 2),
        ("ภาษาไทย", ["ภา", "าษ", "ษา", "าไ", "ไท", "ทย"]),
        ("COVID-19, 3.5 %", ["covid", "19", "3", "5"]),
        ("", []),
        (" …!?", []),
    ],
)
def test_scripts_with_and_without_spaces(text: str, expected: list[str] | int) -> None:
    if isinstance(expected, int):
        assert len(terms(text)) == expected  # vowel signs don't cut a word
    else:
        assert terms(text) == expected


def test_the_language_is_recognised_by_function_words() -> None:
    assert guess(["who", "was", "the", "founder", "of", "it"]) == "english"
    assert guess(["cuantos", "puntos", "dejaron", "escapar", "en", "defensa", "los", "panthers"]) == "spanish"
    assert guess(["wie", "viele", "punkte", "hat", "er", "in", "dem", "spiel"]) == "german"
    assert guess(["panthers", "2015"]) == "english"


def test_weights_grow_with_frequency_and_shrink_with_length() -> None:
    number = term_number("measl")
    once, twice = weigh_chunk("measles here")[number], weigh_chunk("measles measles here")[number]
    assert 0 < weigh_chunk("measles " + "here " * 500)[number] < once < twice < 1


def test_words_of_headings_count_twice() -> None:
    text = "Report 2018\nConsolidated cash flows\nProceeds of the year"
    plain, weights = weigh_chunk(text), weigh_chunk(text, "Consolidated cash flows")
    more = {number for number in weights if weights[number] > plain[number]}
    assert more == {term_number(term) for term in ("consolid", "cash", "flow")}
    assert weights == plain | {number: weigh_chunk("cash cash" + " word" * 7)[term_number("cash")] for number in more}


def test_a_very_long_question_is_bounded() -> None:
    asked = count_question(" ".join(f"w{number}" for number in range(1000)) + " w0")
    assert (len(asked), asked[term_number("w0")]) == (MAX_QUESTION_TERMS, 2)


@given(st.text(max_size=200))
def test_any_text_gives_terms_that_the_database_accepts(text: str) -> None:
    weights = weigh_chunk(text, text[:50])
    assert all(1 <= number <= DIMENSIONS and 0 < weight < 1 for number, weight in weights.items())
    assert set(count_question(text)) == set(weights)
    written = sparse_vector(weights)
    assert written.dimensions() == DIMENSIONS
    assert [index + 1 for index in written.indices()] == sorted(weights)


def test_a_fiscal_year_is_found_by_its_number() -> None:
    assert {"fy2024", "2024"} <= set(terms("capital expenditure in FY2024"))
    assert "10" not in terms("10K")
    assert terms("q3") == ["q3"]
