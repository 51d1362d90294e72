"""Sentences, words and questions in several languages."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from citewire_generator.extraction.questions import AnswerKind, holds_kind, is_negated, read_question
from citewire_generator.suggestion_phrases import language_code
from citewire_generator.suggestions import question_about
from citewire_verify.text.languages import detect_language
from citewire_verify.text.sentences import MAX_UNIT, UnitKind, looks_like_code, split_units
from citewire_verify.text.terms import content_keys, stem, terms


def units(text: str, *, code: bool = False) -> list[str]:
    return [text[unit.start : unit.end] for unit in split_units(text, code=code)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "Dr. Smith came to the U.S. in 1999. He paid $3.50 for it. It cost approx. 5 EUR.",
            ["Dr. Smith came to the U.S. in 1999.", "He paid $3.50 for it.", "It cost approx. 5 EUR."],
        ),
        ("J. R. R. Tolkien wrote it! Did he? Yes.", ["J. R. R. Tolkien wrote it!", "Did he?", "Yes."]),
        ("See e.g. Fig. 3 and No. 7 for it. Done.", ["See e.g. Fig. 3 and No. 7 for it.", "Done."]),
        ("He left at 5 p.m. The end.", ["He left at 5 p.m.", "The end."]),
        ("“Stop.” He stopped.", ["“Stop.”", "He stopped."]),
        ("Version 2.0.1 is out. Use it.", ["Version 2.0.1 is out.", "Use it."]),
        ("中文句子。第二句！还有吗？", ["中文句子。", "第二句！", "还有吗？"]),
        ("यह पहला है। यह दूसरा है।", ["यह पहला है।", "यह दूसरा है।"]),
        (
            "Das gilt z.B. für Abs. 2 der Verordnung. Es ist so.",
            ["Das gilt z.B. für Abs. 2 der Verordnung.", "Es ist so."],
        ),
        ("wrapped over\ntwo lines. Second one\nhere.", ["wrapped over\ntwo lines.", "Second one\nhere."]),
        ("- one item\n- two. With two.", ["one item", "two.", "With two."]),
        ("1. First step\n2. Second step", ["1. First step", "2. Second step"]),
        ("", []),
        ("   \n\n ", []),
        ("No end", ["No end"]),
    ],
)
def test_sentences(text: str, expected: list[str]) -> None:
    assert units(text) == expected


def test_headings_rows_and_fences_stand_alone() -> None:
    text = "# Title\n\nText one. Two.\n\n| a | b |\n|---|---|\n| 1 | 2 |\n\n```py\nx = 1\n\ny = 2\n```\nAfter."
    results = [(unit.kind, text[unit.start : unit.end]) for unit in split_units(text)]
    assert results == [
        (UnitKind.HEADING, "# Title"),
        (UnitKind.SENTENCE, "Text one."),
        (UnitKind.SENTENCE, "Two."),
        (UnitKind.ROW, "| a | b |"),
        (UnitKind.ROW, "| 1 | 2 |"),
        (UnitKind.CODE, "```py\nx = 1\n\ny = 2\n```"),
        (UnitKind.SENTENCE, "After."),
    ]


@pytest.mark.parametrize("text", ["name: Ann\nrole: Head of Support\ncity: Lyon", "name: Ann; role: Head; city: Lyon"])
def test_a_row_of_pairs_is_one_unit(text: str) -> None:
    assert [unit.kind for unit in split_units(text)] == [UnitKind.ROW]
    assert units(text) == [text]


def test_code_is_cut_at_blank_lines() -> None:
    text = "\n".join(["def f():", *["    a = 1"] * 7, "", *["    b = 2"] * 9])
    assert [part.count("\n") + 1 for part in units(text, code=True)] == [9, 9]
    assert units("x = 1\ny = 2\n", code=True) == ["x = 1\ny = 2"]


def test_code_is_distinguished_from_prose() -> None:
    assert looks_like_code("def f(a):\n    return a + 1\n\nclass X:\n    pass")
    assert not looks_like_code("This is a text.\nIt has lines, and (brackets).\nThat is all.")


@given(st.text(max_size=400))
def test_units_are_in_order_disjoint_and_leave_out_only_space_and_decoration(text: str) -> None:
    end = 0
    for unit in split_units(text):
        assert end <= unit.start < unit.end <= len(text)
        assert unit.end - unit.start <= MAX_UNIT
        assert text[unit.start : unit.end].strip() == text[unit.start : unit.end]
        end = unit.end


def test_a_long_unit_is_divided() -> None:
    text = "word, " * 1000
    parts = units(text)
    assert max(map(len, parts)) <= MAX_UNIT
    assert "".join(part.replace(" ", "") for part in parts) == text.replace(" ", "")


def test_terms_of_names_numbers_and_stop_words() -> None:
    results = {term.key: term for term in terms("The city of Lyon has 522,250 people.")}
    assert results["the"].stop
    assert results["lyon"].name
    assert not results["citi"].name
    assert results["522250"].number


@pytest.mark.parametrize(
    ("text", "other"),
    [
        ("refunds", "refund"), ("cities", "city"), ("shipping", "shipped"), ("founded", "founder"),
        ("establishment", "established"), ("Café", "cafe"), ("1,200", "1200"), ("3.50", "3.5"),
        ("maxConnectionAge", "max connection age"), ("max_connection_age", "max connection age"),
    ],
)  # fmt: skip
def test_forms_of_a_word_have_the_same_term(text: str, other: str) -> None:
    assert content_keys(text) == content_keys(other)


@pytest.mark.parametrize(("text", "other"), [("Mars", "Marsh"), ("1.200", "1200"), ("press", "pressure")])
def test_other_words_have_other_terms(text: str, other: str) -> None:
    assert content_keys(text) != content_keys(other)


def test_scripts_without_spaces_are_compared_by_pairs() -> None:
    assert content_keys("東京都") == {"東京", "京都"}
    assert content_keys("서울은") & content_keys("서울에서")


def test_stems_are_never_empty() -> None:
    for word in ("ing", "sing", "ed", "bed", "ies", "s", "as", "eded", "ally", "tion", "nation"):
        assert stem(word)


@pytest.mark.parametrize(
    ("question", "kind"),
    [
        ("When was it founded?", AnswerKind.TIME),
        ("In what year did it end?", AnswerKind.TIME),
        ("How many plans are there?", AnswerKind.NUMBER),
        ("What percentage is that?", AnswerKind.NUMBER),
        ("Who wrote it?", AnswerKind.PERSON),
        ("Where is the office?", AnswerKind.PLACE),
        ("Why did it fail?", AnswerKind.REASON),
        ("What is a refund?", AnswerKind.ANY),
        ("Wann wurde es gegründet?", AnswerKind.TIME),
        ("¿Cuántos planes hay?", AnswerKind.NUMBER),
        ("Qui a écrit ce livre ?", AnswerKind.PERSON),
    ],
)
def test_kind_of_answer(question: str, kind: AnswerKind) -> None:
    assert read_question(question).kind is kind


@pytest.mark.parametrize(
    ("question", "text", "holds"),
    [
        ("When was it founded?", "It was founded in 1998.", True),
        ("When did it end in 1998?", "It ended in 1998.", False),
        ("How many plans are there?", "There are three plans.", True),
        ("How many plans are there?", "There are plans.", False),
        ("Who wrote it?", "It was written by Ann Miller.", True),
        ("Who wrote it?", "It was written long ago.", False),
    ],
)
def test_whether_a_text_contains_the_kind(question: str, text: str, holds: bool) -> None:
    asked = read_question(question)
    assert holds_kind(asked.kind, asked, text, terms(text)) is holds


def test_negation() -> None:
    assert is_negated("What isn't covered?")
    assert is_negated("Was ist nicht dabei?")
    assert not is_negated("What is the note about?")


def test_a_question_of_stop_words_keeps_them() -> None:
    assert read_question("What is it?").keys == ("what", "is", "it")
    assert read_question("?!").keys == ()


def test_languages() -> None:
    assert language_code("English") == "en"
    assert language_code("Español") == "es"
    assert language_code("pt-BR") == "pt"
    assert language_code("français") == "fr"
    assert language_code("Русский") == "ru"
    assert language_code("中文") == "zh"
    assert language_code("日本語 (ja-JP)") == "ja"
    assert language_code("Klingon") is None
    assert detect_language("Die Lieferung dauert drei Tage und ist kostenlos, wenn der Wert hoch ist.") == "de"
    assert detect_language("The delivery takes three days.") == "en"
    assert detect_language("") == "en"


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("我这周保存了什么？", "zh"),
        ("总结本周的AI文章", "zh"),
        ("今週は何を保存しましたか？", "ja"),
        ("「AI」に関する記事を要約して", "ja"),
        ("レストラン一覧", "ja"),
        ("Что я сохранил?", "ru"),
        ("Τι αποθήκευσα;", "el"),
        ("ماذا حفظت؟", "ar"),
        ("मैंने क्या सहेजा?", "hi"),
        ("이번 주에 무엇을 저장했나요?", "ko"),
        ("The kanji 本 means book, and 書 means to write in this dictionary.", "en"),
        ("Das Wort „книга“ ist das russische Wort für Buch und wird oft gebraucht.", "de"),
        ("¿Qué guardé ayer?", "es"),
        ("2025 – 42 %", "en"),
    ],
)
def test_scripts_identify_languages(text: str, code: str) -> None:
    assert detect_language(text) == code
    assert question_about("Refunds", "", "xx") == "What is said about Refunds?"
