"""The not-found sentence: exact, paraphrased, partial; text is held back only while it could become that sentence."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from citewire_generator.model import NOT_FOUND_SENTENCE
from citewire_generator.not_found import MAX_HELD, MAX_LINE, NotFoundGate

PARAPHRASES = [
    "I couldn't find this information in the provided documents.",
    "I could not find this information in the uploaded documents!",
    "I cannot find this information in the uploaded documents [1].",
    "I can’t find anything about that in your files.",
    "I'm sorry, but I could not find any information about the warranty in the documents.",
    "Unfortunately, the context does not specify when it was founded.",
    "Based on the provided documents, there is no information about the price.",
    "According to the passages, this is not mentioned.",
    "The provided documents do not contain information about the CEO's salary.",
    "The documents don't mention a deadline.",
    "The passages provided do not mention it.",
    "The text does not explicitly state who won.",
    "There is no information in the documents.",
    "There is not enough information to answer this question.",
    "No information about this was found.",
    "This information is not available in the uploaded documents.",
    "The answer is not in the provided passages.",
    "None of the documents mention the budget.",
    "I was unable to find this in the sources.",
    "I am not able to determine this from the documents.",
    "I don't have enough information to answer.",
    "It is not mentioned in the documents.",
    "The requested information could not be found.",
    "**I could not find this information in the uploaded documents**",
    "“I could not find this information in the uploaded documents.”",
    "Ich konnte diese Information in den Dokumenten nicht finden.",
    "Je n'ai pas trouvé cette information dans les documents.",
    "No he encontrado esta información en los documentos.",
]
ANSWERS = [
    "The documents describe three plans.",
    "The documents do not require a signature.",
    "The document does not contain the price, but the appendix lists 5 EUR.",
    "I could not find the exact date, but the report mentions 2019.",
    "The information is public since 2019.",
    "The text of the treaty was signed in 1919.",
    "The section does not apply to minors.",
    "The company did not find any evidence of fraud.",
    "The contract contains no warranty clause.",
    "There is no information security officer in the team.",
    "There are no exceptions.",
    "No information was leaked according to the report.",
    "In the documents, the price is 5 EUR.",
    "Based on the provided context, the CEO is Ann.",
    "It is not allowed to smoke.",
    "I think the answer is 5.",
    "No.",
    "No",
    "The",
    "Nicht länger als 30 Tage.",
]


def run(text: str, size: int = 1) -> tuple[str, NotFoundGate, int]:
    """Feeds a text in pieces; returns the output, the gate, and the longest beginning that was held."""
    gate = NotFoundGate(NOT_FOUND_SENTENCE)
    shown, held = "", 0
    for start in range(0, len(text), size):
        shown += gate.feed(text[start : start + size])
        if not shown:
            held = min(start + size, len(text))
    return shown + gate.finish(), gate, held


@pytest.mark.parametrize("text", PARAPHRASES)
@pytest.mark.parametrize("size", [1, 4, 1000])
def test_a_paraphrase_is_replaced(text: str, size: int) -> None:
    shown, gate, _ = run(text, size)
    assert gate.not_found
    assert shown == NOT_FOUND_SENTENCE


@pytest.mark.parametrize("text", ANSWERS)
@pytest.mark.parametrize("size", [1, 4, 1000])
def test_an_answer_stays(text: str, size: int) -> None:
    shown, gate, held = run(text, size)
    assert not gate.not_found
    assert shown == text
    assert held <= MAX_HELD


@pytest.mark.parametrize("text", ["Paris is the capital.", "12.5 EUR", "- zebra", "Yes, since 2019.", "漢字です。"])
def test_an_ordinary_beginning_is_not_held(text: str) -> None:
    assert NotFoundGate(NOT_FOUND_SENTENCE).feed(text[:3]) == text[:3]


def test_an_answer_about_documents_is_held_only_while_it_may_be_a_paraphrase() -> None:
    gate = NotFoundGate(NOT_FOUND_SENTENCE)
    assert gate.feed("The documents ") == ""
    assert gate.feed("de") == "The documents de"
    assert gate.feed("scribe it.") == "scribe it."


def test_the_exact_sentence_is_shown_with_its_last_character() -> None:
    gate = NotFoundGate(NOT_FOUND_SENTENCE)
    assert gate.feed(NOT_FOUND_SENTENCE[:-1]) == ""
    assert gate.feed(".") == NOT_FOUND_SENTENCE
    assert gate.feed("\n\n- What is X?") == ""
    assert gate.feed("\n") == "\n\n- What is X?"
    assert gate.suggested_questions == 1


def test_only_questions_stay_after_the_sentence() -> None:
    shown, gate, _ = run("I couldn't find that in the documents. You could ask: What is X? Who is Y?")
    assert shown == f"{NOT_FOUND_SENTENCE}\n\n- What is X?\n- Who is Y?"
    assert gate.suggested_questions == 2


def test_a_tenants_own_sentence_is_recognised() -> None:
    sentence = "Dazu steht in den Unterlagen nichts."
    gate = NotFoundGate(sentence)
    assert gate.feed("Dazu steht in den Unterlagen nichts. ") + gate.finish() == sentence
    assert gate.not_found
    gate = NotFoundGate(sentence)
    assert gate.feed("The documents do not mention it.") + gate.finish() == sentence


def test_a_long_beginning_is_released() -> None:
    text = "The documents do not mention " + "the very long thing that was asked for " * 8
    shown, gate, held = run(text)
    assert shown == text
    assert not gate.not_found
    assert held <= MAX_HELD + 1


def test_quotations_are_not_taken_for_paraphrases() -> None:
    gate = NotFoundGate(NOT_FOUND_SENTENCE, paraphrases=False)
    text = "There is no information about the treasure in the ship's log."
    assert gate.feed(text) + gate.finish() == text
    assert not gate.not_found
    exact = NotFoundGate(NOT_FOUND_SENTENCE, paraphrases=False)
    assert exact.feed(NOT_FOUND_SENTENCE) == NOT_FOUND_SENTENCE
    assert exact.not_found


@given(st.sampled_from([*PARAPHRASES, *ANSWERS]), st.text(max_size=30), st.lists(st.integers(1, 9), min_size=1))
def test_cuts_make_no_difference(start: str, rest: str, sizes: list[int]) -> None:
    text = f"{start} {rest}"
    whole, reference, _ = run(text, len(text))
    gate = NotFoundGate(NOT_FOUND_SENTENCE)
    shown, turn, at = "", 0, 0
    while at < len(text):
        size = sizes[turn % len(sizes)]
        shown += gate.feed(text[at : at + size])
        at, turn = at + size, turn + 1
    assert shown + gate.finish() == whole
    assert gate.not_found == reference.not_found


@pytest.mark.parametrize(
    ("rest", "questions"),
    [
        ("", []),
        ("\n\n- What is X?\n- Who is Y?\n", ["What is X?", "Who is Y?"]),
        ("\n\nWould you like one of these?\n1. What is X?\n2) Who is Y?", ["What is X?", "Who is Y?"]),
        (" What is X? Who is Y? And Z?", ["What is X?", "Who is Y?", "And Z?"]),
        ("\n- no question\n- one?", ["one?"]),
        ("\n• 何ですか？\n• 誰ですか？", ["何ですか？", "誰ですか？"]),
        (" However, page 3 gives 62 EUR [1]. Meals are free.", []),
        ("\n\nThe documents are about meals.\n\nYou could ask:\n- **What is X?**\n\nI hope so!", ["What is X?"]),
        ("\n- What does Dr. Smith say? He says much.\n- Who?\n- Who?\n- Why?\n- When?", [
            "What does Dr. Smith say?", "Who?", "Why?",
        ]),
        (" Möchten Sie mehr wissen? Shall I look elsewhere?", []),
        (" Sie könnten fragen: Was kostet ein Essen? Wer zahlt?", ["Was kostet ein Essen?", "Wer zahlt?"]),
        (" x" * (MAX_LINE // 2 + 10) + " Who?\n- Why?", ["Why?"]),
    ],
)  # fmt: skip
def test_prose_after_the_sentence_is_dropped_up_to_the_questions(rest: str, questions: list[str]) -> None:
    text = NOT_FOUND_SENTENCE + rest
    expected = NOT_FOUND_SENTENCE + ("\n" if questions else "") + "".join(f"\n- {question}" for question in questions)
    for offset in range(min(len(text), 300) + 1):
        gate = NotFoundGate(NOT_FOUND_SENTENCE)
        assert gate.feed(text[:offset]) + gate.feed(text[offset:]) + gate.finish() == expected
        assert gate.suggested_questions == len(questions)
    shown, gate, _ = run(text)
    assert shown == expected


@pytest.mark.parametrize(
    ("sentence", "written"),
    [
        ("Dazu steht in den Unterlagen nichts.", "Dazu steht nichts in den Unterlagen."),
        ("Tut mir leid! Dazu habe ich nichts gefunden.", "Tut mir leid! Dazu habe ich nichts gefunden."),
        ("文档中没有找到相关信息。", "文档中没有找到相关信息。"),
        ("資料にはこの情報が見つかりませんでした。", "**資料にはこの情報が見つかりませんでした。**"),
        ("Ни один документ на это не отвечает.", "На это не отвечает ни один документ."),
    ],
)
@pytest.mark.parametrize("size", [1, 5, 1000])
def test_a_tenants_own_sentence_is_sent_exactly(sentence: str, written: str, size: int) -> None:
    gate = NotFoundGate(sentence)
    text = f"{written} More of it.\n- Why?"
    shown = "".join(gate.feed(text[start : start + size]) for start in range(0, len(text), size)) + gate.finish()
    assert shown == f"{sentence}\n\n- Why?"
    assert gate.not_found


def test_a_sentence_of_500_characters_is_recognised() -> None:
    sentence = "Dazu steht hier nichts, " * 20 + "leider."
    gate = NotFoundGate(sentence)
    assert "".join(map(gate.feed, sentence + " Mehr dazu.")) + gate.finish() == sentence
