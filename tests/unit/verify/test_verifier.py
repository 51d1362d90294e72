"""A whole answer and one that arrives in pieces are verified alike."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from citewire_verify import (
    MarkerFilter,
    MarkerStyle,
    Passage,
    UncitedSentence,
    Verdict,
    VerifiedCitation,
    Verifier,
    verify,
)

PASSAGES = [
    Passage("Refunds take 14 days. They go to the card.", "Terms"),
    Passage("Shipping is free above 50 EUR. Dr. Smith, who lives in Oslo, pays for it."),
]
SENTENCES = st.sampled_from(
    [
        "Refunds take 14 days [ref:1].", "Refunds take 20 days.[ref:1]", "Shipping isn't free above 50 EUR [ref:2, 1].",
        "Dr. Smith lives in Oslo. [ref:2]", "\n- It is so [ref:9].\n", "# Title\n", "Zebras eat 3.5 kg of grass.",
        "Is it?",
        "| a | Refunds take 14 days | [ref:1] |\n", "```\n[ref:1]\n```\n",
    ]
)  # fmt: skip


@given(st.lists(SENTENCES, max_size=8).map(" ".join), st.lists(st.integers(1, 9), min_size=1, max_size=20))
@settings(max_examples=200, deadline=None)
def test_pieces_give_the_same_as_the_whole(answer: str, sizes: list[int]) -> None:
    markers = MarkerFilter(MarkerStyle.REF, len(PASSAGES), verbatim=True)
    verifier = Verifier(dict(enumerate(PASSAGES, 1)), uncited=True)
    results: list[VerifiedCitation | UncitedSentence] = []
    at = turn = 0
    while at < len(answer):
        piece = markers.feed(answer[at : at + sizes[turn % len(sizes)]])
        at, turn = at + sizes[turn % len(sizes)], turn + 1
        for sentence in verifier.feed(piece, markers.take_markers()):
            results += verifier.verify(sentence)
    for sentence in verifier.feed(markers.finish(), markers.take_markers()) + verifier.finish():
        results += verifier.verify(sentence)
    whole = verify(answer, PASSAGES, markers=MarkerStyle.REF)
    assert [entry for entry in results if isinstance(entry, VerifiedCitation)] == list(whole.citations)
    assert [element for element in results if isinstance(element, UncitedSentence)] == list(whole.uncited)


def test_a_cancelled_verification_ends_after_a_sentence() -> None:
    asked: list[bool] = []

    def cancelled() -> bool:
        asked.append(True)
        return len(asked) > 1

    verification = verify("Refunds take 14 days [1]. Refunds take 20 days [1].", PASSAGES, cancelled=cancelled)
    assert [citation.verdict for citation in verification.citations] == [Verdict.SUPPORTED]
