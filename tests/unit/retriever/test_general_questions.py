"""Questions that only say what to do with the documents."""

from __future__ import annotations

import pytest

from citewire_retriever.service.general_questions import is_general


@pytest.mark.parametrize(
    "question",
    [
        "Summarize this document.",
        "What is this about?",
        "What are the key takeaways?",
        "List the main findings in five bullet points",
        "And why?",
        "TL;DR",
        "Fasse das Dokument kurz zusammen",
        "Worum geht es in diesem Text?",
        "Nenne die fünf wichtigsten Punkte",
        "Quels sont les points principaux ?",
        "Résume ce document",
        "¿De qué trata este documento?",
        "Qual é o tema principal?",
        "Riassumi questo documento in tre punti",
        "Vat dit document samen",
        "总结一下这篇文章",
        "この文書を要約してください",
    ],
)
def test_general_questions_are_recognised(question: str) -> None:
    assert is_general(question)


@pytest.mark.parametrize(
    "question",
    [
        "Explain quantum chromodynamics",
        "What did the Normans do?",
        "Summarize the treaty of Lisbon",
        "Wer gewann das Endspiel?",
        "¿Quién ganó la final?",
        "量子色动力学是什么？",
        "量子力学とは何ですか",
        "Что это?",
        "42",
        "",
        "?!",
    ],
)
def test_other_questions_are_not_general(question: str) -> None:
    assert not is_general(question)
