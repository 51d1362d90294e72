"""Which sentences need a citation."""

from __future__ import annotations

import pytest

from citewire_verify.facts import states_facts
from citewire_verify.segment import Sentence, SentenceKind

NOT_FOUND_SENTENCE = "I could not find this information in the uploaded documents."


def is_factual(text: str, kind: SentenceKind = SentenceKind.TEXT) -> bool:
    sentence = Sentence(0, len(text), text, kind, ())
    return states_facts(sentence, frozenset({NOT_FOUND_SENTENCE.casefold()}))


@pytest.mark.parametrize(
    "text",
    [
        "Refunds take 14 days.",
        "**Shipping** is free above 50 EUR",
        "In summary, the tower was built in 1889.",
        "Die Lieferung dauert drei Tage.",
        "La livraison prend trois jours.",
        "El envío tarda tres días.",
        "東京は日本の首都です。",
        "Доставка занимает три дня.",
        "According to the document, refunds take 14 days.",
        "I.M. Pei designed the pyramid.",
        "Information theory was founded by Shannon.",
    ],
)
def test_facts(text: str) -> None:
    assert is_factual(text)


@pytest.mark.parametrize(
    "text",
    [
        NOT_FOUND_SENTENCE,
        "I could not find this in the provided documents.",
        "Hello!",
        "Thank you very much!",
        "Which plan do you have?",
        "ما هي الخطة؟",
        "Here is what the documents say about refunds:",
        "The following options exist:",
        "Here are three steps.",
        "Let me know if you need more details about refunds.",
        "I hope this answers your question about refunds.",
        "If you need more details, ask about refunds.",
        "The provided documents do not mention the price of the plan.",
        "The sources don't say when the tower was built.",
        "Voici les conditions de remboursement :",
        "Yes.",
        "Bitte geben Sie Ihre Bestellnummer an.",
    ],
)
def test_no_facts(text: str) -> None:
    assert not is_factual(text)


def test_headings_code_and_rows() -> None:
    assert not is_factual("## Refunds and their terms", SentenceKind.HEADING)
    assert not is_factual("```\nprice = 14\n```", SentenceKind.CODE)
    assert not is_factual("| plan | price |", SentenceKind.ROW)
    assert is_factual("| Pro | 20 EUR |", SentenceKind.ROW)
    assert is_factual("Refunds take 14 days", SentenceKind.ITEM)
