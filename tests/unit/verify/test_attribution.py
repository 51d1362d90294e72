"""Answers without markers: a sentence counts as citing the passage that supports it best, if one does."""

from __future__ import annotations

import pytest

from citewire_verify import (
    MarkerStyle,
    Passage,
    UncitedSentence,
    Verdict,
    VerifiedCitation,
    Verifier,
    verify,
)

TEXTS = (
    "The lighthouse was built in 1874. It stands on a rock.",
    "The ferry to the island leaves at 7:40 from pier 4, except on Sundays.",
    "Members of the rowing club pay 300 kroner a year.",
)
PASSAGES = {number: Passage(text) for number, text in enumerate(TEXTS, 1)}


def verify_answer(
    answer: str, *, attribute: bool = True, uncited: bool = False, flag: bool = True
) -> list[VerifiedCitation | UncitedSentence]:
    verifier = Verifier(PASSAGES, uncited=uncited, attribute=attribute)
    sentences = verifier.feed(answer) + verifier.finish()
    return [result for sentence in sentences for result in verifier.verify(sentence, uncited=flag)]


@pytest.mark.parametrize("style", [MarkerStyle.REMOVE, MarkerStyle.NONE])
def test_each_sentence_is_given_its_passage(style: MarkerStyle) -> None:
    answer = "The ferry leaves from pier 4 at 7:40. The lighthouse was built in 1874."
    citations = verify(answer, list(PASSAGES.values()), markers=style).citations
    assert [*citations] == verify_answer(answer)
    assert [(citation.number, citation.verdict) for citation in citations] == [
        (2, Verdict.SUPPORTED),
        (1, Verdict.SUPPORTED),
    ]
    for citation in citations:
        assert TEXTS[citation.number - 1][citation.quote_start : citation.quote_end] == citation.quote
        assert citation.sentence_verdict is citation.verdict
    assert answer[citations[1].start : citations[1].end].strip() == "The lighthouse was built in 1874."


def test_an_unsupported_sentence_cites_nothing() -> None:
    assert verify_answer("Whales sing in the bay during the long winter nights.") == []
    flagged = verify_answer("Whales sing in the bay during the long winter nights.", uncited=True)
    assert [type(entry) for entry in flagged] == [UncitedSentence]


def test_a_changed_number_is_not_supported() -> None:
    result = verify_answer("The lighthouse was built in 1847.")
    assert all(isinstance(entry, VerifiedCitation) and entry.verdict is not Verdict.SUPPORTED for entry in result)


def test_questions_and_not_found_answers_cite_nothing() -> None:
    assert verify_answer("When was the lighthouse built in 1874?") == []
    assert verify_answer("The lighthouse was built in 1874.", flag=False) == []


def test_if_there_are_markers_a_sentence_without_one_gets_none() -> None:
    assert verify_answer("The lighthouse was built in 1874.", attribute=False) == []


def test_of_several_rows_the_supporting_one_is_quoted() -> None:
    rows = [f"Name: {name}\nCity: {city}\nAmount: {amount}" for name, city, amount in _SALES]
    (citation,) = verify("The amount of Grün is 62.40. [ref:1]", [Passage("\n\n".join(rows))]).citations
    assert (citation.quote, citation.verdict) == (rows[1], Verdict.SUPPORTED)


_SALES = (("Adler", "Bremen", "71.20"), ("Grün", "Lyon", "62.40"), ("Novak", "Porto", "15.00"))
