"""Where verdicts are put in a streamed answer, however it is cut into pieces and whenever they arrive."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from citewire_cli.verdicts import HELD_CHARACTERS, VerdictText, cited_numbers

PLAIN = "Abroad it is 62 euros, e.g. in Oslo. 在国外是62欧元。Nobody knows why.\n- An item\nEnd"
MARKED = "Abroad it is 62 euros [ref:1]. Hotels cost 145. [ref:2][ref:3]\n\nMore follows."


def citation(text: str, sentence: str, *numbers: int, verdict: str = "supported") -> list[dict[str, Any]]:
    start = text.index(sentence)
    span = {"start": start, "end": start + len(sentence)}
    return [{"index": n, "sentence": span, "verdict": "partial", "sentence_verdict": verdict} for n in numbers]


def show(text: str, cuts: list[int], notes: list[dict[str, Any]], late: int) -> tuple[str, list[str]]:
    """Sends `text` cut at `cuts`; a note comes with the first piece that ends `late` characters after its sentence."""
    shown, pieces, waiting = VerdictText(), list[str](), list(notes)
    edges = sorted({0, len(text), *cuts})
    for begin, end in pairwise(edges):
        pieces.append(shown.feed(text[begin:end]))
        while waiting and waiting[0]["sentence"]["end"] + late <= end:
            shown.verified(waiting.pop(0))
    for note in waiting:
        shown.verified(note)
    pieces.append(shown.end())
    return "".join(pieces), pieces


@given(cuts=st.lists(st.integers(1, len(PLAIN) - 1), max_size=60), late=st.integers(0, 12))
def test_markers_and_verdicts_follow_their_sentences(cuts: list[int], late: int) -> None:
    notes = [
        *citation(PLAIN, "Abroad it is 62 euros, e.g. in Oslo.", 2, 1),
        *citation(PLAIN, "在国外是62欧元。", 1),
        *citation(PLAIN, "- An item", 3, verdict="unsupported"),
    ]
    result, _ = show(PLAIN, cuts, notes, late)
    assert result == (
        "Abroad it is 62 euros, e.g. in Oslo. [2][1] (supported) 在国外是62欧元。 [1] (supported)Nobody knows why.\n"
        "- An item [3] (unsupported)\nEnd"
    )


@given(cuts=st.lists(st.integers(1, len(MARKED) - 1), max_size=60), late=st.integers(0, 12))
def test_markers_of_the_answer_are_not_repeated(cuts: list[int], late: int) -> None:
    notes = citation(MARKED, "Abroad it is 62 euros [ref:1].", 1)
    notes += citation(MARKED, "Hotels cost 145.", 2, 3, verdict="partial")
    result, _ = show(MARKED, cuts, notes, max(late, 17))
    assert result == (
        "Abroad it is 62 euros [ref:1]. (supported) Hotels cost 145. [ref:2][ref:3] (partial)\n\nMore follows."
    )


@pytest.mark.parametrize("text", [PLAIN * 5, "A. " * 200, "x" * 1000])
def test_text_without_verdicts_is_unchanged_and_hardly_delayed(text: str) -> None:
    shown, printed = VerdictText(), ""
    for position, character in enumerate(text, start=1):
        printed += shown.feed(character)
        assert position - len(printed) <= HELD_CHARACTERS
    assert printed + shown.end() == text


def test_a_late_verdict_adds_no_marker() -> None:
    text = "First. " + "word " * HELD_CHARACTERS
    shown = VerdictText()
    printed = shown.feed(text)
    shown.verified(citation(text, "First.", 1)[0])
    assert printed + shown.feed("end") + shown.end() == text + "end"


def test_spans_beyond_the_answer_are_ignored() -> None:
    shown = VerdictText()
    shown.verified({"index": 1, "sentence": {"start": 0, "end": 99}, "verdict": "supported"})
    shown.verified({"index": 1, "verdict": "supported"})
    shown.uncited({"sentence": {"start": 0, "end": 3}})
    assert shown.feed("Yes") + shown.end() == "Yes (no source)"


def test_cited_passages_are_those_of_sentences_and_markers() -> None:
    assert cited_numbers("A [ref:4]. B [SOURCE 2] c[3].", [{"index": 7}, {}]) == {2, 4, 7}
