"""Judgements that aren't plain JSON: read where possible, and never guessed."""

import json
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from citewire_generator.reflection.reading import (
    MAX_CONDENSED,
    MAX_PASSAGE,
    MAX_REASON,
    read_assessment,
    read_condensed,
    read_decision,
    read_passage,
)


@pytest.mark.parametrize(
    "text",
    [
        '{"needs_retrieval": false, "reason": "Small talk."}',
        '```json\n{"needs_retrieval": false, "reason": "Small talk."}\n```',
        '```\n{"needs_retrieval": false, "reason": "Small talk."}\n```',
        'Sure! Here it is:\n{"needs_retrieval": false, "reason": "Small talk."}\nI hope {that} helps.',
        '<think>{"needs_retrieval": true, "reason": "Hm."}</think>{"needs_retrieval": false, "reason": "Small talk."}',
        'First: {"needs_retrieval": true} No: {"needs_retrieval": false, "reason": "Small talk."}',
        '{"needs_retrieval": "False", "reason": "Small\\n talk."}',
        '{"a": {"b": 1}} {"reason": "Small talk.", "needs_retrieval": false, "confidence": 0.9}',
        '{broken {"needs_retrieval": false, "reason": "Small talk."}',
    ],
)
def test_a_decision_however_it_is_wrapped(text: str) -> None:
    assert read_decision(text) == (False, "Small talk.")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "No retrieval needed.",
        "{}",
        "[]",
        "null",
        '{"needs_retrieval": 0, "reason": "x"}',
        '{"needs_retrieval": null}',
        '{"needs_retrieval": "maybe"}',
        '{"needs_retrieval": true, "reason": "cut o',
        "{" * 5_000,
        "[" * 5_000 + "{",
    ],
)
def test_an_invalid_decision(text: str) -> None:
    assert read_decision(text) is None


def test_a_reason_is_one_short_line_or_none() -> None:
    assert read_decision('{"needs_retrieval": true}') == (True, "")
    assert read_decision('{"needs_retrieval": true, "reason": ["x"]}') == (True, "")
    decision = read_decision(json.dumps({"needs_retrieval": True, "reason": "word\n" * 500 + "\0"}))
    assert decision is not None
    assert len(decision[1]) <= MAX_REASON
    assert decision[1].startswith("word word")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('{"supported": true, "utility": 0.85}', (True, 0.85)),
        ('```json\n{"supported": false, "utility": 0}\n```', (False, 0.0)),
        ('{"supported": true, "utility": 1}', (True, 1.0)),
        ('{"supported": "yes", "utility": "0.5"}', (True, 0.5)),
        ('{"supported": true, "utility": 1.01}', None),
        ('{"supported": true, "utility": -0.1}', None),
        ('{"supported": true, "utility": 85}', None),
        ('{"supported": true, "utility": true}', None),
        ('{"supported": true, "utility": NaN}', None),
        ('{"supported": true, "utility": 1e999}', None),
        ('{"supported": true}', None),
        ('{"utility": 0.5}', None),
        ('{"supported": 1, "utility": 0.5}', None),
        (f'{{"supported": true, "utility": {"9" * 400}}}', None),
    ],
)
def test_assessments(text: str, expected: tuple[bool, float] | None) -> None:
    assert read_assessment(text) == expected


@given(st.booleans(), st.text(max_size=60), st.text(max_size=40), st.text(max_size=40))
def test_any_prose_around_an_object(needed: bool, reason: str, before: str, after: str) -> None:
    # The text around it contains no object that would count.
    before, after = before.replace("{", "("), after.replace("{", "(")
    decision = read_decision(before + json.dumps({"needs_retrieval": needed, "reason": reason}) + after)
    assert decision is not None
    assert decision[0] is needed


@given(st.text(alphabet='{}[]",:`\\ntruefals0.e ', max_size=200))
def test_garbage_never_fails(text: str) -> None:
    for read in (read_decision, read_assessment, read_condensed, read_passage):
        read(text)


@pytest.mark.parametrize("unit", ["{", '{"a":', "[{", '{"a":1}', "<think>", "```\n", " "])
def test_hostile_text_is_read_in_no_time(unit: str) -> None:
    started = time.process_time()
    for read in (read_decision, read_assessment, read_condensed, read_passage):
        read(unit * (500_000 // len(unit)))
    assert time.process_time() - started < 2


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("How long do refunds take?", "How long do refunds take?"),
        ('"How long do refunds take?"', "How long do refunds take?"),
        ("Standalone question: How long\n do refunds take?", "How long do refunds take?"),
        ("**Question:** How long do refunds take?", "How long do refunds take?"),
        ("```\nHow long do refunds take?\n```", "How long do refunds take?"),
        ("<think>They mean refunds.</think>\n\nHow long do refunds take?", "How long do refunds take?"),
        ("", ""),
        ("  \n", ""),
        ("x" * (MAX_CONDENSED + 1), ""),
    ],
)
def test_condensed_questions(text: str, expected: str) -> None:
    assert read_condensed(text) == expected


def test_passages() -> None:
    assert read_passage("Passage: Refunds take 14 days.\n\nThey are free.") == "Refunds take 14 days.\n\nThey are free."
    assert len(read_passage("word " * 2_000)) <= MAX_PASSAGE
    assert read_passage(" ") == ""
