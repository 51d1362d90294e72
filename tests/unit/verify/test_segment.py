"""Reading an answer while it is sent: sentences, their spans, and their markers."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from citewire_verify import MarkerFilter, MarkerStyle, Sentence
from citewire_verify.segment import MAX_SENTENCE, Segmenter, SentenceKind


def read(pieces: Iterable[str], style: MarkerStyle = MarkerStyle.REF, packed: int = 9) -> tuple[str, list[Sentence]]:
    """Returns the answer as it is sent, and its sentences."""
    markers, reader = MarkerFilter(style, packed), Segmenter()
    sent, sentences = "", list[Sentence]()
    for piece in pieces:
        if text := markers.feed(piece):
            sent += text
            sentences += reader.feed(text, markers.take_markers())
    if text := markers.finish():
        sent += text
        sentences += reader.feed(text, markers.take_markers())
    return sent, sentences + reader.finish()


def cited_sentences(text: str, style: MarkerStyle = MarkerStyle.REF) -> list[tuple[str, tuple[int, ...]]]:
    sent, sentences = read([text], style)
    return [(sent[entry.start : entry.end], entry.numbers) for entry in sentences]


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        ("Refunds take 14 days. [ref:1]", [("Refunds take 14 days.", (1,))]),
        ("Refunds take 14 days [ref:1].", [("Refunds take 14 days", (1,))]),
        ("Refunds take 14 days.[ref:1] It is free.[ref:2]", [("Refunds take 14 days.", (1,)), ("It is free.", (2,))]),
        ("One is so. Two is so. [ref:1]", [("One is so.", ()), ("Two is so.", (1,))]),
        ("One [ref:1], and two [ref:2] are so.", [("One [ref:1], and two [ref:2] are so.", (1, 2))]),
        ("One is so. [ref:2][ref:1][ref:2] Two.", [("One is so.", (2, 1)), ("Two.", ())]),
        ("One is so. [ref:1], [ref:2]. Two is so.", [("One is so.", (1, 2)), ("Two is so.", ())]),
        (
            "One is so ([ref:1]). Two is so. ([ref:2]) Three.",
            [("One is so", (1,)), ("Two is so.", (2,)), ("Three.", ())],
        ),
        ("One is so. [ref:99] Two.", [("One is so.", ()), ("Two.", ())]),
        ("One is so. [ref:1] says that it is.", [("One is so.", ()), ("says that it is.", (1,))]),
        ("It is 3.5 m by Dr. Smith of the U.S. Navy. [ref:3]", [("It is 3.5 m by Dr. Smith of the U.S. Navy.", (3,))]),
        ("東京は大きい。[ref:1]次の文です。[ref:2]", [("東京は大きい。", (1,)), ("次の文です。", (2,))]),
        ("यह बड़ा है। [ref:1] वह छोटा है।", [("यह बड़ा है।", (1,)), ("वह छोटा है।", ())]),
        ("هل هذا صحيح؟ نعم [ref:1].", [("هل هذا صحيح؟", ()), ("نعم", (1,))]),
        ("> Quoted text. [ref:1]", [("Quoted text.", (1,))]),
        ("Is it? [ref:1] Yes!", [("Is it?", (1,)), ("Yes!", ())]),
        ("[ref:1] Leading.", [("Leading.", (1,))]),
        ("First.\n\n[ref:1] Leading.", [("First.", ()), ("Leading.", (1,))]),
        ("First.\n[ref:1]\n\nSecond.", [("First.", (1,)), ("Second.", ())]),
        ("First.\r\n\r\nSecond. [ref:1]\r\n", [("First.", ()), ("Second.", (1,))]),
    ],
)
def test_markers_belong_to_the_sentence_before_them(answer: str, expected: list[tuple[str, tuple[int, ...]]]) -> None:
    assert cited_sentences(answer) == expected


@pytest.mark.parametrize(
    ("answer", "complete"),
    [
        ("One is so. [ref:1]", ["One is so."]),
        ("One is so [ref:1].", ["One is so"]),
        ("One is so ([ref:1]).", ["One is so"]),
        ("One is so [ref:1]. Two is", ["One is so"]),
        ("東京は大きい。[ref:1]", ["東京は大きい。"]),
        ("One is so [ref:1]", []),
        ("As [ref:1] says, it is 3.", []),
        ("One is so.", []),
        ("[ref:1] One is so.", []),
        ("| One | so [ref:1]", []),
        ("", []),
    ],
)
def test_only_complete_sentences_of_an_interrupted_answer_are_read(answer: str, complete: list[str]) -> None:
    markers, reader = MarkerFilter(MarkerStyle.REF, 9), Segmenter()
    sent = markers.feed(answer) + markers.abort()
    result = reader.feed(sent, markers.take_markers()) + reader.finish(broken=True)
    assert [sent[entry.start : entry.end] for entry in result] == complete


def test_the_source_style_is_read_too() -> None:
    assert cited_sentences("One is so. [SOURCE 2] Two [source 1, p. 4].", MarkerStyle.SOURCE) == [
        ("One is so.", (2,)),
        ("Two", (1,)),
    ]


def test_lists_tables_headings_and_code() -> None:
    answer = (
        "Here is what I found:\n\n## Refunds\n**Terms**\n- They take 14 days. [ref:1]\n- Shipping [ref:2]\n"
        "1. First. Second.\n\n"
        "| a | b |\n|---|---|\n| 1. | 2 [ref:3] |\n\n```py\nx = 1. \ny = z[ref:1]\n```\n[ref:4]\nDone."
    )
    sent, sentences = read([answer])
    assert [(entry.kind, sent[entry.start : entry.end], entry.numbers) for entry in sentences] == [
        (SentenceKind.TEXT, "Here is what I found:", ()),
        (SentenceKind.HEADING, "## Refunds", ()),
        (SentenceKind.HEADING, "**Terms**", ()),
        (SentenceKind.ITEM, "They take 14 days.", (1,)),
        (SentenceKind.ITEM, "Shipping", (2,)),
        (SentenceKind.ITEM, "First.", ()),
        (SentenceKind.TEXT, "Second.", ()),
        (SentenceKind.ROW, "| a | b |", ()),
        (SentenceKind.ROW, "| 1. | 2", (3,)),
        (SentenceKind.CODE, "```py\nx = 1. \ny = z[ref:1]\n```", (4,)),
        (SentenceKind.TEXT, "Done.", ()),
    ]


def test_a_wrapped_line_continues_in_the_next() -> None:
    first = "A line without an end that is quite long, so that it was wrapped here"
    assert cited_sentences(f"{first}\nand goes on. [ref:1]") == [(f"{first}\nand goes on.", (1,))]
    assert cited_sentences("Short line\nAnother line [ref:1]") == [("Short line", ()), ("Another line", (1,))]


def test_a_sentence_is_returned_as_soon_as_the_next_word_arrives() -> None:
    reader = Segmenter()
    assert reader.feed("Refunds take 14 days. ", []) == []
    [sentence] = reader.feed("It ", [])
    assert (sentence.start, sentence.end) == (0, 21)


def test_a_sentence_without_an_end_is_cut() -> None:
    sent, sentences = read(["word " * 1000])
    assert len(sentences) > 1
    assert all(element.end - element.start <= MAX_SENTENCE for element in sentences)
    assert "".join(sent[entry.start : entry.end] for entry in sentences).replace(" ", "") == "word" * 1000


@pytest.mark.parametrize(
    "unit", ["a. ", "A. ", ".", "[ref:1] ", "[", "\n", "```\n", "| a ", "x", "。", "1. ", "(", "- ", "**"]
)
def test_hostile_text_takes_linear_time(unit: str) -> None:
    def seconds(size: int) -> float:
        text = unit * (size // len(unit))
        started = time.process_time()
        read([text[at : at + 4] for at in range(0, len(text), 4)])
        return time.process_time() - started

    seconds(1000)
    assert min(seconds(40_000) for _ in range(2)) < 24 * max(min(seconds(5_000) for _ in range(3)), 0.004)


PIECES = (
    "Refunds take 14 days", "Dr. Smith", "It is so", "東京は大きい", "naïve e\u0301", "👩‍👩‍👧", "e.g. this", "U.S.",
    "3.5",
    "``", "```", ". ", ".", "? ", "。", "!\n", "\n", "\r\n", "\n\n", " ", "- ", "1. ", "| a | b |\n", "## ", "**", "(",
    ")", ", ", ":", "\u2028", "[ref:1]", "[ref:2]", " [ref:3]", "[SOURCE 1]", "[ref:1, 2]", "[ref:77]", "[", "]", "[re",
    "states that",
)  # fmt: skip
PARTS = st.sampled_from(PIECES)


def chunks(text: str, sizes: Sequence[int]) -> list[str]:
    pieces: list[str] = []
    at = number = 0
    while at < len(text):
        size = sizes[number % len(sizes)]
        pieces.append(text[at : at + size])
        at, number = at + size, number + 1
    return pieces


@given(st.lists(PARTS | st.text(max_size=6), max_size=40).map("".join), st.lists(st.integers(1, 30), min_size=1))
@settings(max_examples=400, deadline=None)
def test_sentences_are_the_same_however_the_answer_is_cut(answer: str, sizes: list[int]) -> None:
    sent, whole = read([answer])
    again, sentences = read(chunks(answer, sizes))
    assert again == sent
    assert sentences == whole
    end = 0
    for entry in whole:
        assert end <= entry.start < entry.end <= len(sent)
        assert len(entry.text) == entry.end - entry.start
        assert not sent[entry.start : entry.end][0].isspace()
        assert not sent[entry.start : entry.end][-1].isspace()
        end = entry.end


@given(st.lists(st.sampled_from("abc"), min_size=1, max_size=8), st.lists(st.integers(1, 9), min_size=1))
def test_every_marker_reaches_a_sentence(letters: list[str], sizes: list[int]) -> None:
    answer = " ".join(f"Sentence {letter} is here. [ref:{place % 9 + 1}]" for place, letter in enumerate(letters))
    _, sentences = read(chunks(answer, sizes))
    assert [entry.numbers for entry in sentences] == [(place % 9 + 1,) for place in range(len(letters))]
