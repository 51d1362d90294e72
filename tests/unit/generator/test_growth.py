"""Every reader and verification step does linear work on any answer of a model: counted, not timed."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from citewire_generator.history import without_markers
from citewire_generator.model import NOT_FOUND_SENTENCE, Message, Role
from citewire_generator.not_found import NotFoundGate
from citewire_generator.packing import defuse
from citewire_generator.reflection.reading import read_assessment, read_condensed, read_decision, read_passage
from citewire_generator.suggestions import read_questions
from citewire_verify import MarkerFilter, MarkerStyle, Passage, verify
from citewire_verify.passages import PassageIndex
from citewire_verify.segment import Segmenter
from citewire_verify.tokens import tokenise_sentence
from steps import count_steps

SHORT, LONG = 2_000, 8_000
MOST = 8
"""The largest growth in steps for four times the text; quadratic work takes sixteen times as many."""
LEAST = 20 * SHORT
"""The number of steps below which growth means nothing."""
PIECE = 7
PASSAGES = [Passage("Refunds take 14 days. The cat sat on the mat.")]

Reader = Callable[[str], object]


def in_pieces(text: str, size: int) -> list[str]:
    return [text[start : start + size] for start in range(0, len(text), size)]


def filter_markers(text: str, style: MarkerStyle, size: int, *, remove_invalid: bool = False) -> str:
    markers = MarkerFilter(style, 3, bare=True, remove_invalid=remove_invalid)
    return "".join(map(markers.feed, in_pieces(text, size))) + markers.finish()


def segment(text: str, size: int) -> None:
    markers, segmenter = MarkerFilter(MarkerStyle.REF, 3), Segmenter()
    for piece in in_pieces(text, size):
        segmenter.feed(markers.feed(piece), markers.take_markers())
    segmenter.feed(markers.finish(), markers.take_markers())
    segmenter.finish()


def gate(text: str) -> str:
    not_found = NotFoundGate(NOT_FOUND_SENTENCE)
    return "".join(map(not_found.feed, in_pieces(text, PIECE))) + not_found.finish()


READERS: dict[str, Reader] = {
    "remove": lambda text: filter_markers(text, MarkerStyle.REMOVE, PIECE),
    "remove whole": lambda text: filter_markers(text, MarkerStyle.REMOVE, LONG),
    "ref": lambda text: filter_markers(text, MarkerStyle.REF, PIECE, remove_invalid=True),
    "segment": lambda text: segment(text, PIECE),
    "segment whole": lambda text: segment(text, LONG),
    "gate": gate,
    "questions after the sentence": lambda text: gate(NOT_FOUND_SENTENCE + text),
    "verify": lambda text: verify(text, PASSAGES, markers=MarkerStyle.REF),
    "sentence": tokenise_sentence,
    "passage": lambda text: PassageIndex(Passage(text)),
    "questions": lambda text: read_questions(text, 3),
    "judgements": lambda text: (read_decision(text), read_assessment(text), read_condensed(text), read_passage(text)),
    "history": lambda text: without_markers(Message(Role.ASSISTANT, text)),
    "packing": defuse,
}
UNITS = [
    ". ", "....x ", "It is 5 [ref:1]. ", "[", "[1] ", "[source: ", "(see ", "**[1", "`", "$a ", "\\[", "\n", "- a\n",
    "| a. ", '{"a": ', "[ [1] ",
]  # fmt: skip
MORE_UNITS = [
    *UNITS,
    "a. ",
    "```\n",
    "語。",
    "not ",
    "12",
    "“",
    "](http://x.y) ",
    "Dr. ",
    "<",
    "…",
    "\t",
    "_",
    "?",
    "1:2.",
]


def assert_linear(reader: Reader, unit: str) -> None:
    long = count_steps(lambda: reader((unit * LONG)[:LONG]))
    if long <= MOST * LEAST:
        return
    short = count_steps(lambda: reader((unit * SHORT)[:SHORT]))
    assert long <= MOST * short, f"{short:,} steps for {SHORT:,} characters, {long:,} for {LONG:,}"


@pytest.mark.parametrize("name", READERS)
def test_work_is_linear_in_a_hostile_answer(name: str) -> None:
    for unit in UNITS:
        assert_linear(READERS[name], unit)


@settings(max_examples=4, deadline=None)
@given(st.lists(st.sampled_from(MORE_UNITS), min_size=2, max_size=4))
def test_work_is_linear_in_any_mixture(units: list[str]) -> None:
    for name in ("remove", "segment whole", "questions after the sentence"):
        assert_linear(READERS[name], "".join(units))


def test_the_counter_detects_quadratic_work() -> None:
    def quadratic(text: str) -> None:
        for start in range(0, len(text), 100):
            without_markers(Message(Role.ASSISTANT, text[start:]))

    with pytest.raises(AssertionError, match="steps for"):
        assert_linear(quadratic, "a. ")
