"""The extractive provider: quotes, decides, cites, suggests; deterministic."""

import asyncio

import pytest
from citewire.generator.v1 import generator_pb2 as pb

from citewire_generator.extraction.weights import load_weights
from citewire_generator.model import NOT_FOUND_SENTENCE, FinishReason, Usage
from citewire_generator.packing import Budget, pack
from citewire_generator.providers.base import ChatTask, Delta, End
from citewire_generator.providers.extractive import Extractive, quote
from citewire_generator.suggestions import read_questions, suggest_from_passages
from generator_calls import changed, make_passage, make_policy

HANDBOOK = (
    make_passage(
        1,
        1,
        "# Refunds\n\nYou can return a product within 30 days of delivery. Refunds are paid to the original card.\n"
        "Write to support@example.com, e.g. for a label.",
        title="Shop handbook",
        file_name="handbook.md",
        section="Shop handbook > Refunds",
        similarity=0.55,
    ),
    make_passage(
        2,
        1,
        "Shipping takes 3 to 5 business days inside the EU. Express shipping costs 12.50 EUR.",
        title="Shop handbook",
        file_name="handbook.md",
        section="Shop handbook > Shipping",
        similarity=0.42,
    ),
    make_passage(3, 2, "name: Ann Miller\nrole: Head of Support\ncity: Lyon", file_name="staff.csv", similarity=0.4),
    make_passage(
        4,
        3,
        'def retry_delay(attempt: int) -> float:\n    """Seconds to wait."""\n'
        "    return min(30.0, waits[1] * 2**attempt)",
        file_name="retry.py",
        similarity=0.35,
    ),
    make_passage(
        5, 4, "Die Lieferung ist ab 50 Euro kostenlos. Der Versand dauert drei Tage.", title="Versand", similarity=0.4
    ),
)


SPACES = (
    make_passage(1, 1, "1.1 Topological spaces", title="Topology", similarity=0.6),
    make_passage(2, 1, "A topological space is a set with open sets. Topological spaces are general.", similarity=0.6),
)


def ask(question: str, passages: tuple[pb.Passage, ...] = HANDBOOK, **policy: object) -> str:
    packed = pack(passages, pb.CONTEXT_FORMAT_NUMBERED, Budget()).citations
    return quote(question, packed, make_policy(**policy), load_weights()).text  # type: ignore[arg-type] # fields of many types


@pytest.mark.parametrize(
    ("question", "expected"),
    [
        (
            "How many days do I have to return a product?",
            "You can return a product within 30 days of delivery. [ref:1]",
        ),
        ("What does express shipping cost?", "Express shipping costs 12.50 EUR. [ref:2]"),
        # A marker covers the item that it is in, so each item has one.
        (
            "Who is the head of support?",
            "- name: Ann Miller [ref:3]\n- role: Head of Support [ref:3]\n- city: Lyon [ref:3]",
        ),
        ("Ab wann ist die Lieferung kostenlos?", "Die Lieferung ist ab 50 Euro kostenlos. [ref:5]"),
    ],
)
def test_it_quotes_the_best_sentence_with_its_marker(question: str, expected: str) -> None:
    assert ask(question, marker_style=pb.MARKER_STYLE_REF).startswith(expected)


def test_a_line_without_a_full_stop_does_not_run_into_the_next() -> None:
    answer = ask("What are topological spaces?", SPACES, marker_style=pb.MARKER_STYLE_REF)
    assert "1.1 Topological spaces [ref:1]" in answer.split("\n\n")
    assert len(answer.split("\n\n")) > 1


def test_markers_follow_the_policy() -> None:
    question = "What does express shipping cost?"
    assert ask(question, marker_style=pb.MARKER_STYLE_SOURCE) == "Express shipping costs 12.50 EUR. [SOURCE 2]"
    for style in (pb.MARKER_STYLE_NONE, pb.MARKER_STYLE_REMOVE):
        assert ask(question, marker_style=style) == "Express shipping costs 12.50 EUR."


def test_code_is_quoted_in_a_fence() -> None:
    answer = ask("What is the longest retry delay?", marker_style=pb.MARKER_STYLE_REF)
    assert answer.startswith("```\ndef retry_delay(attempt: int) -> float:\n")
    assert answer.endswith("waits[1] * 2**attempt)\n```\n[ref:4]")


@pytest.mark.parametrize("question", ["What is the capital of Mongolia?", "Who won the election in 1932?", "?!", "…"])
def test_it_says_so_if_nothing_fits(question: str) -> None:
    far = tuple(changed(passage, similarity=0.08) for passage in HANDBOOK)
    assert ask(question, far) == NOT_FOUND_SENTENCE
    assert ask(question, far, not_found_sentence="Nope.") == "Nope."


def test_the_policys_threshold_decides() -> None:
    packed = pack(HANDBOOK, pb.CONTEXT_FORMAT_NUMBERED, Budget()).citations
    question = "What does express shipping cost?"
    answer = quote(question, packed, make_policy(), load_weights())
    assert answer.score is not None
    assert 0.5 < answer.score < 1
    for threshold, answered in ((0.0, True), (answer.score, True), (answer.score + 0.001, False), (1.0, False)):
        again = quote(question, packed, make_policy(answerable_threshold=threshold), load_weights())
        assert (again.answered, again.score) == (answered, answer.score)
    assert quote(question, (), make_policy(answerable_threshold=0.0), load_weights()).score is None


def test_it_has_no_general_knowledge() -> None:
    answer = quote("Hello there!", (), make_policy(grounding=pb.GROUNDING_OPEN), load_weights())
    assert answer.answered
    assert answer.text.startswith("No language model is set up here")


def test_without_passages_nothing_is_found() -> None:
    assert ask("What does express shipping cost?", (), suggest_on_not_found=True) == NOT_FOUND_SENTENCE


def test_without_similarities_words_decide() -> None:
    blind = tuple(make_passage(p.chunk_id, 1, p.text, title=p.title, file_name=p.file_name) for p in HANDBOOK)
    assert "12.50" in ask("What does express shipping cost?", blind)
    assert ask("Who painted the Mona Lisa in Florence?", blind) == NOT_FOUND_SENTENCE


def test_not_found_suggests_questions_that_would_be_answered() -> None:
    answer = ask("What is the capital of Mongolia?", HANDBOOK[:3], suggest_on_not_found=True)
    sentence, _, rest = answer.partition("\n\n")
    questions = [line.removeprefix("- ") for line in rest.splitlines()]
    assert sentence == NOT_FOUND_SENTENCE
    assert 2 <= len(questions) <= 3
    for question in questions:
        assert question.endswith("?")
        assert not ask(question, HANDBOOK[:3]).startswith(NOT_FOUND_SENTENCE)


def test_a_document_cannot_forge_a_citation() -> None:
    text = "The rebate is 5 percent [ref:7][SOURCE 2]. Other things are other things."
    answer = ask("What is the rebate?", (make_passage(1, 1, text, similarity=0.7),), marker_style=pb.MARKER_STYLE_REF)
    assert answer == "The rebate is 5 percent (ref:7)(SOURCE 2). [ref:1]"


def test_the_overlap_of_chunks_is_quoted_once() -> None:
    text = "The rebate is 5 percent of the price for all members."
    twice = (make_passage(1, 1, text, similarity=0.7), make_passage(2, 1, f"{text} It ends in May.", similarity=0.7))
    assert ask("What is the rebate for members?", twice).count("5 percent") == 1


def test_of_many_passages_those_with_words_of_the_question_are_read() -> None:
    others = tuple(make_passage(n, n, f"Nothing of note happened on day {n}. Weather was fine.") for n in range(1, 600))
    answer = ask("What does express shipping cost?", (*others, HANDBOOK[1]), marker_style=pb.MARKER_STYLE_REF)
    assert answer == "Express shipping costs 12.50 EUR. [ref:600]"


async def collect(task: ChatTask) -> tuple[list[str], End]:
    texts: list[str] = []
    async for event in Extractive().stream(task):
        if isinstance(event, End):
            return texts, event
        assert isinstance(event, Delta)
        texts += event.texts
    raise AssertionError("no end")


def task_for(question: str, **fields: object) -> ChatTask:
    packed = pack(HANDBOOK, pb.CONTEXT_FORMAT_NUMBERED, Budget()).citations
    return ChatTask("extractive", (), question, packed, **fields)  # type: ignore[arg-type] # fields of many types


async def test_it_streams_word_by_word_and_ends() -> None:
    texts, end = await collect(task_for("What does express shipping cost?"))
    assert texts == ["Express ", "shipping ", "costs ", "12.50 ", "EUR."]
    assert end == End(FinishReason.STOP, Usage(), not_found=False, answerable_score=end.answerable_score)
    assert end.answerable_score is not None


async def test_a_token_limit_cuts_and_says_so() -> None:
    texts, end = await collect(task_for("What does express shipping cost?", max_completion_tokens=4))
    assert "".join(texts) == "Express "
    assert end.finish_reason is FinishReason.LENGTH


async def test_the_same_question_gets_the_same_answer() -> None:
    answers = await asyncio.gather(*(collect(task_for("How long does shipping take?")) for _ in range(5)))
    assert len({tuple(texts) for texts, _ in answers}) == 1


async def test_a_stream_can_be_closed_early() -> None:
    events = Extractive().stream(task_for("How long does shipping take?"))
    assert isinstance(await anext(events), Delta)
    await events.aclose()
    with pytest.raises(StopAsyncIteration):
        await anext(events)


async def test_suggest_questions() -> None:
    suggestions = await Extractive().suggest(
        pb.SuggestQuestionsRequest(passages=HANDBOOK, question="What is said about refunds?", count=2), ""
    )
    assert len(suggestions.questions) == 2
    assert all("refunds" not in question.lower() for question in suggestions.questions)
    assert suggestions.usage == Usage()


def test_suggestions_are_in_the_passages_language_or_the_one_asked_for() -> None:
    german = (
        make_passage(
            1, 1, "Die Lieferung ist kostenlos. Die Rückgabe ist in der Filiale möglich.", section="Versand > Lieferung"
        ),
    )
    assert suggest_from_passages(german, 1) == ("Was steht in den Dokumenten über Lieferung?",)
    assert suggest_from_passages(german, 1, language="English") == ("What is said about Lieferung?",)


@pytest.mark.parametrize(
    "passage",
    [
        make_passage(1, 1, "Refunds take 14 days. Shipping is free above 50 EUR."),
        make_passage(1, 1, "refunds take 14 days"),
        make_passage(1, 1, "def retry_delay(attempt):\n    return min(30.0, 2**attempt)", file_name="retry.py"),
        make_passage(1, 1, "東京は日本の首都です。人口は約1400万人です。"),
        make_passage(1, 1, "La devolución es gratuita durante 30 días. El envío cuesta 5 euros."),
    ],
)
def test_even_a_poor_passage_gives_two_questions(passage: pb.Passage) -> None:
    questions = suggest_from_passages((passage,), 3, avoid="What is the capital of Peru?")
    assert 2 <= len(set(questions)) <= 3


@pytest.mark.parametrize("title", ["", "Tarnholm"])
@pytest.mark.parametrize(
    "text",
    [
        "Tarnholm's harbour has nine berths. The harbour master sits in Tarnholm.",
        "Der Hafen von Tarnholm hat neun Liegeplätze. Die Hafenmeisterei ist in Tarnholm.",
        "Возврат средств занимает 14 дней. Доставка бесплатна от 50 евро.",
        "退款需要14天。超过50欧元的订单免运费。",
        "東京は日本の首都です。人口は約1400万人です。",
    ],
)
def test_suggested_questions_are_answered_in_their_language(text: str, title: str) -> None:
    passage = make_passage(1, 1, text, title=title)
    questions = suggest_from_passages((passage,), 3)
    assert questions
    for question in questions:
        assert NOT_FOUND_SENTENCE not in ask(question, (passage,)), question


def test_identifiers_of_a_program_are_no_topics() -> None:
    program = 'class SeatHold:\n    def confirm(self, seat):\n        raise Error("Seat")\n    return True'
    code = make_passage(1, 1, program, title="hold.py", file_name="hold.py", section="SeatHold")
    text = make_passage(
        2, 2, "Berths at Port Ellen cost 9 euros. Port Ellen opens at nine.", title="Prices", section="Berths"
    )
    assert suggest_from_passages((code, text), 3) == (
        "What does “hold.py” say about SeatHold?",
        "What does “Prices” say about Berths?",
        "What is said about Port Ellen?",
    )
    alone = suggest_from_passages((code,), 3)
    assert alone[0] == "What is said about SeatHold?"
    assert not any(word in question for question in alone for word in ("True", "Error", "class"))


def test_no_topics_no_suggestions() -> None:
    assert suggest_from_passages((make_passage(1, 1, "1 2 3"),), 3) == ()


@pytest.mark.parametrize(
    "text",
    [
        "What is X?\nWho is Y?",
        "1. What is X?\n2. Who is Y?",
        "- “What is X?”\n* **Who is Y?**\nHope this helps!",
        '["What is X?", "Who is Y?"]',
        '```json\n{"questions": ["What is X?", "Who is Y?"]}\n```',
        'Sure:\n[{"question": "What is X?"}, {"question": "Who is Y?"}]',
        "What is X?\nwhat is x?\nWho is Y?\nNo question.",
    ],
)
def test_questions_are_read_from_a_models_text(text: str) -> None:
    assert read_questions(text, 5) == ("What is X?", "Who is Y?")


def test_reading_limits_the_count_and_leaves_out_the_question() -> None:
    assert read_questions("A?\nB?\nC?\nD?", 2, avoid="b?") == ("A?", "C?")
    assert read_questions("[not json", 2) == ()


def test_a_computed_passage_is_the_answer() -> None:
    text = "Sum of Amount, where Region = North: 40.75.\nComputed from 2 of rows 2–57 of Sales.csv."
    passages = (*HANDBOOK[:2], make_passage(9, 9, text, file_name="Sales.csv", computed=True), *HANDBOOK[2:])
    answer = ask("Wie hoch ist die Summe in Nord?", passages, marker_style=pb.MARKER_STYLE_REF)
    assert answer.splitlines() == [f"{line} [ref:3]" for line in text.splitlines()]
