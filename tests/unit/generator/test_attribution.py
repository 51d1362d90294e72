"""Answers without markers: a sentence counts as citing the passage that supports it best, if one does."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from citewire_generator.model import AnswerPolicy, Citation, MarkerStyle, PackedPassage, Passage, Uncited, Verdict
from citewire_generator.verification.verifier import open_verifier

TEXTS = (
    "The lighthouse was built in 1874. It stands on a rock.",
    "The ferry to the island leaves at 7:40 from pier 4, except on Sundays.",
    "Members of the rowing club pay 300 kroner a year.",
)
PACKED = tuple(
    PackedPassage(number, number - 1, Passage(number, number, text), text) for number, text in enumerate(TEXTS, 1)
)
POLICY = AnswerPolicy(marker_style=MarkerStyle.REMOVE, verify_citations=True)


def said(answer: str, policy: AnswerPolicy = POLICY, *, flag: bool = True) -> list[Citation | Uncited]:
    verifier = open_verifier(policy, PACKED)
    assert verifier is not None
    return asyncio.run(verifier.judge(verifier.read(answer, [], final=True), flag=flag))


@pytest.mark.parametrize("style", [MarkerStyle.REMOVE, MarkerStyle.NONE])
def test_each_sentence_is_given_its_passage(style: MarkerStyle) -> None:
    answer = "The ferry leaves from pier 4 at 7:40. The lighthouse was built in 1874."
    found = said(answer, replace(POLICY, marker_style=style))
    citations = [one for one in found if isinstance(one, Citation)]
    assert [(one.number, one.verdict) for one in citations] == [(2, Verdict.SUPPORTED), (1, Verdict.SUPPORTED)]
    for one in citations:
        assert TEXTS[one.number - 1][one.quote_start : one.quote_end] == one.quote
        assert one.sentence_verdict is one.verdict
    assert answer[citations[1].start : citations[1].end].strip() == "The lighthouse was built in 1874."


def test_what_no_passage_supports_cites_nothing() -> None:
    assert said("Whales sing in the bay during the long winter nights.") == []
    flagged = said("Whales sing in the bay during the long winter nights.", replace(POLICY, flag_uncited=True))
    assert [type(one) for one in flagged] == [Uncited]


def test_a_changed_number_is_not_supported() -> None:
    found = said("The lighthouse was built in 1847.")
    assert all(isinstance(one, Citation) and one.verdict is not Verdict.SUPPORTED for one in found)


def test_questions_and_not_found_answers_cite_nothing() -> None:
    assert said("When was the lighthouse built in 1874?") == []
    assert said("The lighthouse was built in 1874.", flag=False) == []


def test_with_markers_a_sentence_without_one_is_given_none() -> None:
    assert said("The lighthouse was built in 1874.", replace(POLICY, marker_style=MarkerStyle.REF)) == []
