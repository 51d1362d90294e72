"""Judgements without a language model: on the safe side, and marked as such."""

import time

import pytest

from citewire_generator.model import NOT_FOUND_SENTENCE, Message, Role
from citewire_generator.reflection.heuristics import assess, condense, decide, hypothesise
from generator_calls import make_passage

PASSAGES = (
    make_passage(1, 1, "Refunds take 14 days after the parcel has come back.", title="Terms"),
    make_passage(2, 1, "Shipping is free above 50 EUR.", title="Terms"),
)


@pytest.mark.parametrize(
    "message",
    [
        "Hi", "hello!", "Hey there", "Good morning", "Thanks a lot!", "thank you very much for your help",
        "Bye 👋", "👍", "...",
        "How are you?", "What's up?", "who are you", "What can you do?", "Hi, how are you doing today?",
        "Guten Morgen", "Vielen Dank!", "Wie geht's?", "Bonjour", "Merci beaucoup", "¡Hola!", "Buenos días",
        "¿Qué tal?",
        "Ciao", "Obrigado!", "Goedemorgen", "你好！", "こんにちは", "안녕하세요", "2 + 2 = ?", "What is 3 * (4.5 - 1)?",
    ],
)  # fmt: skip
def test_small_talk_and_arithmetic_need_no_retrieval(message: str) -> None:
    decision = decide(message)
    assert not decision.needs_retrieval
    assert decision.heuristic
    assert not decision.fallback
    assert decision.reason.startswith("Heuristic, without a language model: ")


@pytest.mark.parametrize(
    "message",
    [
        "How long do refunds take?", "What about that?", "good refund policies", "Hi, what did I save about Rust?",
        "thank you notes", "ok computer review", "Hello World in Go", "Wie lange dauert eine Erstattung?",
        "¿Qué dice el artículo?", "你好世界是什么意思", "RFC 9457", "404", "2024", "2024-11-21", "3/4", "10.5.3",
        "+49 170 1234",
        "what is the morning routine",
        "who are you citing in the note on Kubernetes", "No refunds?", "そのリポジトリは？",
    ],
)  # fmt: skip
def test_anything_else_needs_retrieval(message: str) -> None:
    decision = decide(message)
    assert decision.needs_retrieval
    assert decision.heuristic
    assert decision.reason == "Heuristic, without a language model: the message may be about saved content."


def test_long_messages_take_no_time() -> None:
    started = time.process_time()
    for message in ("1" + " " * 32_000 + "a", "hi " * 10_000, "what is" + " " * 32_000 + "x1", "(" * 32_000 + "1a"):
        decide(message)
    assert time.process_time() - started < 1


@pytest.mark.parametrize(
    ("answer", "supported", "utility"),
    [
        ("Refunds take 14 days after the parcel has come back. [ref:1]", True, 0.83),
        ("Refunds take 14 days. [SOURCE 1]\n\nShipping is free above 50 EUR. [SOURCE 2]", True, 0.83),
        ("Refunds take 14 days, and the moon consists of green cheese.", False, 0.83),
        ("Bananas ripen faster beside apples.", False, 0.5),
        (NOT_FOUND_SENTENCE, True, 0.0),
        (f"{NOT_FOUND_SENTENCE}\n\n- Is shipping free?", True, 0.0),
        ("[ref:1]", True, 0.0),
    ],
)
def test_an_answer_is_supported_by_the_words_of_a_passage(answer: str, supported: bool, utility: float) -> None:
    result = assess("How long do refunds take?", answer, PASSAGES)
    assert (result.supported, result.utility, result.heuristic, result.fallback) == (supported, utility, True, False)


def test_without_passages_a_claim_is_not_supported() -> None:
    assert not assess("How long do refunds take?", "Refunds take 14 days.", ()).supported


def history(*contents: str) -> list[Message]:
    return [Message(Role.USER if turn % 2 == 0 else Role.ASSISTANT, text) for turn, text in enumerate(contents)]


@pytest.mark.parametrize(
    ("question", "expected"),
    [
        ("And how long do they take?", "And how long do they take? (Refunds)"),
        ("Why?", "Why? (Refunds)"),
        ("Is shipping free in Norway?", "Is shipping free in Norway?"),
        ("How do returns differ from that?", "How do returns differ from that? (Refunds)"),
        ("What is VAT?", "What is VAT?"),
    ],
)
def test_a_follow_up_takes_over_the_topic(question: str, expected: str) -> None:
    rewritten = condense(question, history("How do Refunds work?", "They take 14 days."))
    assert rewritten.text == expected
    assert rewritten.heuristic
    assert not rewritten.fallback


def test_a_follow_up_of_a_follow_up_goes_back_to_the_topic() -> None:
    earlier = history("How do Refunds work?", "They take 14 days.", "Why?", "The bank needs them.")
    assert condense("And abroad?", earlier).text == "And abroad? (Refunds)"


def test_there_is_no_hypothetical_passage_without_a_model() -> None:
    rewritten = hypothesise("How long do refunds take?")
    assert (rewritten.text, rewritten.fallback, rewritten.heuristic) == ("How long do refunds take?", True, True)
