"""A list of saved documents as the extractive provider's answer: each with its marker, latest first."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from citewire.generator.v1 import generator_pb2 as pb

from citewire_generator.extraction.weights import load_weights
from citewire_generator.model import NOT_FOUND_SENTENCE
from citewire_generator.packing import Budget, pack
from citewire_generator.providers.extractive import quote
from citewire_verify import MarkerStyle, Passage, Verdict, verify
from generator_calls import make_passage, make_policy

START = datetime(2026, 11, 16, 9, 0, tzinfo=UTC)
ITEMS = (
    make_passage(1, 1, "Thin crust from a wood oven in Kreuzberg. Open late.", title="Pizzeria Sole", similarity=0.1),
    make_passage(2, 2, "# Trattoria Luna\n\nHandmade pasta near the station [ref:7].", title="Trattoria Luna"),
    make_passage(3, 2, "A second part of it.", title="Trattoria Luna"),
    make_passage(4, 3, "麺が自慢の店です。駅から三分。", title="ラーメン一番", similarity=0.02),
)


def ask(question: str, topic: str = "", max_items: int = 50, **policy: object) -> str:
    for number, item in enumerate(ITEMS):
        item.saved_at.FromDatetime(START + timedelta(days=number))
    ITEMS[0].tags[:] = ["pizza"]
    packed = pack(ITEMS, pb.CONTEXT_FORMAT_NUMBERED, Budget()).citations
    listing = pb.ItemListing(topic=topic, max_items=max_items)
    fields = {"marker_style": pb.MARKER_STYLE_REF, **policy}
    return quote(question, packed, make_policy(**fields), load_weights(), listing).text  # type: ignore[arg-type] # fields of many types


def test_each_document_is_an_answer() -> None:
    lines = ask("What did I save this week?").splitlines()
    assert lines == [
        "- ラーメン一番: 麺が自慢の店です。 [ref:4]",
        "- Trattoria Luna: Handmade pasta near the station (ref:7). [ref:2]",
        "- Pizzeria Sole: Thin crust from a wood oven in Kreuzberg. [ref:1]",
    ]
    assert ask("What's new?", max_items=1).splitlines() == lines[:1]
    assert "[ref" not in ask("What's new?", marker_style=pb.MARKER_STYLE_REMOVE)


def test_a_topic_chooses_among_them() -> None:
    assert ask("What did I save about pizzas?", topic="pizzas").splitlines() == [
        "- Pizzeria Sole: Thin crust from a wood oven in Kreuzberg. [ref:1]"
    ]
    assert ask("What did I save about quantum computers?", topic="quantum computers").startswith(NOT_FOUND_SENTENCE)


def test_listed_documents_are_supported_by_their_citations() -> None:
    passages = [Passage(item.text, headings=item.title) for item in ITEMS]
    verified = verify(ask("What did I save this week?"), passages, markers=MarkerStyle.REF).citations
    assert [citation.number for citation in verified] == [4, 2, 1]
    assert Verdict.UNSUPPORTED not in {citation.verdict for citation in verified}
    assert verified[-1].verdict is Verdict.SUPPORTED
