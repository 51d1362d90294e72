"""Verified citations on their way from the generator to a client, a stored message and the metrics."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any, TypeVar

import pytest
from citewire.common.v1 import place_pb2
from citewire.generator.v1 import generator_pb2
from citewire.retriever.v1 import retriever_pb2
from google.protobuf.message import Message
from prometheus_client import REGISTRY

from citewire_dialects.events import (
    Citation,
    Citations,
    Done,
    Event,
    Outcome,
    Tokens,
    UncitedSentence,
    Usage,
    VerifiedCitation,
)
from citewire_dialects.native import JsonAnswer, NativeDialect
from citewire_dialects.openai_chat import OpenAiAnswer
from citewire_dialects.profile import EventType, Profile
from citewire_dialects.self_rag import SelfRagDialect
from citewire_dialects.simple import SimpleDialect
from citewire_dialects.ui_message import UiMessageDialect
from citewire_gateway.profiles.builtin import DOCUMENTS, GROUNDED, LIBRARY, SELF_RAG, SIMPLE, SOURCES
from citewire_kit.errors import Internal
from gateway_fakes import completed, delta, started
from pipeline_harness import PipelineHarness, usage

M = TypeVar("M", bound=Message)
TEXT = "It opened in 1999.\nIt has 🙂 five rooms."
CHUNK = retriever_pb2.Chunk(
    chunk_id=7,
    document_id=3,
    version=2,
    text=TEXT,
    title="House",
    file_name="house.md",
    place=place_pb2.Place(page=4, start_line=10, end_line=11),
    char_start=100,
    char_end=139,
    verbatim=True,
)
RESULT = retriever_pb2.SearchResult(chunk=CHUNK, rank_score=0.5, score=0.5)
QUOTE = "It has 🙂 five rooms."
START = TEXT.index(QUOTE)


def span(start: int, end: int) -> generator_pb2.AnswerSpan:
    return generator_pb2.AnswerSpan(start=start, end=end)


VERIFIED = generator_pb2.VerifiedCitation(
    sentence=span(0, 21),
    number=1,
    quote=QUOTE,
    quote_start=START,
    quote_end=len(TEXT),
    support=0.91234567,
    verdict=generator_pb2.VERDICT_SUPPORTED,
    sentence_verdict=generator_pb2.VERDICT_PARTIAL,
    mismatches=["1999"],
)
EVENT = VerifiedCitation(VERIFIED, CHUNK)


def with_fields(message: M, **fields: Any) -> M:  # noqa: ANN401 # of the message
    """Returns a message with some fields changed."""
    copy = type(message)(**fields)
    merged = type(message)()
    merged.CopyFrom(message)
    for name in fields:
        merged.ClearField(name)
    merged.MergeFrom(copy)
    return merged


JSON = {
    "index": 1,
    "sentence": {"start": 0, "end": 21},
    "chunk_id": 7,
    "document_id": 3,
    "version": 2,
    "page_number": 4,
    "start_line": 11,
    "document_start": 119,
    "document_end": 139,
    "quote": QUOTE,
    "quote_start": 19,
    "quote_end": 39,
    "support": 0.9123,
    "verdict": "supported",
    "sentence_verdict": "partial",
    "mismatches": ["1999"],
}


def supported_count(profile: str) -> float:
    labels = {"verdict": "supported", "profile": profile}
    return REGISTRY.get_sample_value("citewire_citations_total", labels) or 0.0


def data_of(frame: bytes) -> object:
    return json.loads(frame.decode().split("data: ", 1)[1])


async def run(
    profile: Profile, verified: generator_pb2.VerifiedCitation, *uncited: generator_pb2.AnswerSpan
) -> tuple[PipelineHarness, list[Event]]:
    harness = PipelineHarness()
    harness.messages = [
        started((1, 0)),
        delta("It has rooms [ref:1]."),
        generator_pb2.GenerateResponse(verified_citation=verified),
        *(
            generator_pb2.GenerateResponse(uncited_sentence=generator_pb2.UncitedSentence(sentence=sentence))
            for sentence in uncited
        ),
        completed(usage=usage(1, 2), cited_numbers=[1]),
    ]
    return harness, await harness.events(profile)


def test_a_quote_is_placed_in_the_document() -> None:
    assert TEXT[VERIFIED.quote_start : VERIFIED.quote_end] == QUOTE
    assert (EVENT.document_start, EVENT.document_end, EVENT.place) == (119, 139, place_pb2.Place(page=4, start_line=11))


def test_without_a_quote_there_is_no_place_of_a_quote() -> None:
    without = with_fields(VERIFIED, quote="", quote_start=0, quote_end=0)
    assert VerifiedCitation(without, CHUNK).document_start is None


def test_a_chunk_that_differs_from_the_documents_text_gives_no_span() -> None:
    assert VerifiedCitation(VERIFIED, with_fields(CHUNK, verbatim=False)).document_end is None


def test_a_quote_has_its_own_line_if_the_chunk_is_the_documents_text() -> None:
    later = place_pb2.Place(start_line=18, end_line=19)
    assert VerifiedCitation(VERIFIED, with_fields(CHUNK, place=later)).place.start_line == 19
    rows = with_fields(CHUNK, place=place_pb2.Place(start_line=10, end_line=19), verbatim=False)
    assert VerifiedCitation(VERIFIED, rows).place.start_line == 10
    assert not VerifiedCitation(VERIFIED, with_fields(CHUNK, place=place_pb2.Place(page=4))).place.HasField(
        "start_line"
    )


def test_a_quote_above_a_definition_has_its_own_line() -> None:
    # The first line of a chunk of code is that of its definition, which a comment may precede.
    text = "# Doubles a number.\n# It never fails.\ndef double(x):\n    return 2 * x\n"
    code = with_fields(CHUNK, text=text, place=place_pb2.Place(start_line=12, end_line=13))
    quote = "# It never fails."
    start = text.index(quote)
    verified = with_fields(VERIFIED, quote=quote, quote_start=start, quote_end=start + len(quote))
    assert VerifiedCitation(verified, code).place.start_line == 11


def test_a_quote_has_the_place_of_its_part() -> None:
    places = [(0, "[3].opened", 7), (START, "[4].rooms", 9)]
    parts = [
        retriever_pb2.TextPlace(start=start, place=place_pb2.Place(record_path=path, start_line=line, end_line=line))
        for start, path, line in places
    ]
    chunk = with_fields(CHUNK, place=place_pb2.Place(record_path="[3:5]", start_line=7, end_line=9), places=parts)
    assert VerifiedCitation(VERIFIED, chunk).place == place_pb2.Place(record_path="[4].rooms", start_line=9)
    first = with_fields(VERIFIED, quote_start=START - 5)
    assert VerifiedCitation(first, chunk).place.record_path == "[3].opened"
    alone = with_fields(CHUNK, place=place_pb2.Place(record_path="[3]", start_line=7, end_line=9))
    assert VerifiedCitation(VERIFIED, alone).place == place_pb2.Place(record_path="[3]", start_line=7)


@pytest.mark.parametrize("profile", [SOURCES, SELF_RAG, LIBRARY, GROUNDED, DOCUMENTS])
def test_profiles_with_stored_conversations_request_verification(profile: Profile) -> None:
    assert profile.answer.verify_citations
    assert EventType.CITATION in profile.events | profile.optional_events


def test_uncited_sentences_are_flagged_if_every_claim_must_be_cited() -> None:
    flagging = [profile.name for profile in (DOCUMENTS, SOURCES, SELF_RAG, LIBRARY, SIMPLE, GROUNDED)
                if profile.answer.flag_uncited]  # fmt: skip
    assert flagging == ["grounded"]
    assert EventType.UNCITED in GROUNDED.events


async def test_events_follow_the_text_and_are_stored_and_counted() -> None:
    before = supported_count("grounded")
    harness, events = await run(GROUNDED, VERIFIED, span(21, 30))
    kinds = [type(event) for event in events]
    assert kinds[kinds.index(Tokens) :][:3] == [Tokens, VerifiedCitation, UncitedSentence]
    event = next(event for event in events if isinstance(event, VerifiedCitation))
    assert (event.verified.quote, event.verified.sentence) == (QUOTE, span(0, 21))
    details = harness.records.closings[0].details
    assert details["verified"][0]["quote"] == QUOTE
    assert details["uncited"] == [{"sentence": {"start": 21, "end": 30}}]
    assert supported_count("grounded") == before + 1


async def test_tenants_own_profiles_are_counted_together() -> None:
    before = supported_count("own")
    await run(replace(GROUNDED, name="a-tenants-own"), VERIFIED)
    assert supported_count("own") == before + 1


async def test_a_verdict_on_a_passage_that_was_not_packed_is_a_defect() -> None:
    with pytest.raises(Internal):
        await run(GROUNDED, with_fields(VERIFIED, number=2))


def test_the_native_dialect_and_the_ui_stream_show_them_if_the_profile_says_so() -> None:
    shown = NativeDialect(GROUNDED.events).encode(EVENT)
    assert shown.startswith(b"event: citation\nid: 1\n")
    assert data_of(shown) == JSON
    assert NativeDialect(DOCUMENTS.events).encode(EVENT) == b""
    opted_in = NativeDialect(DOCUMENTS.events | {EventType.CITATION})
    assert data_of(opted_in.encode(EVENT)) == JSON
    part = UiMessageDialect(GROUNDED.events, "m").encode(EVENT)
    assert json.loads(part.decode().split("\n\n")[2].removeprefix("data: ")) == {"type": "data-citation", "data": JSON}
    assert data_of(NativeDialect(GROUNDED.events).encode(UncitedSentence(span(1, 2)))) == {
        "sentence": {"start": 1, "end": 2}
    }


def test_dialects_without_verified_citations_leave_them_out() -> None:
    for event in (EVENT, UncitedSentence(span(1, 2))):
        assert SelfRagDialect().encode(event) == b""
        assert SimpleDialect().encode(event) == b""


def answer_body(answer: JsonAnswer | OpenAiAnswer) -> dict[str, Any]:
    for event in (
        Citations((Citation(1, RESULT),)),
        Tokens(("It has rooms [ref:1].",)),
        EVENT,
        UncitedSentence(span(1, 2)),
        Usage(1, 2, 3),
        Done(Outcome("c", "e", "grounded", cited=(1,))),
    ):
        answer.add(event)
    return answer.body().members()


def test_an_answer_in_one_piece_contains_verified_citations() -> None:
    body = answer_body(JsonAnswer(GROUNDED.events))
    assert body["verified"] == [JSON]
    assert body["uncited"] == [{"sentence": {"start": 1, "end": 2}}]
    assert not {"verified", "uncited"} & set(answer_body(JsonAnswer(DOCUMENTS.events)))


def test_an_openai_annotation_has_its_verdict() -> None:
    body = answer_body(OpenAiAnswer("id", "m", lambda citation: f"/{citation.index}"))
    (annotation,) = body["choices"][0]["message"]["annotations"]
    assert annotation["citewire"] == JSON
    assert annotation["url_citation"]["start_index"] == 13


def _annotated(answer: str, *sentences: str, cited: tuple[int, ...] = (1,)) -> list[tuple[str, str | None]]:
    """Each annotation's text, and the sentence of its verdict."""
    dialect = OpenAiAnswer("id", "m", lambda citation: f"/{citation.index}")
    dialect.add(Citations((Citation(1, RESULT), Citation(2, RESULT))))
    dialect.add(Tokens((answer,)))
    for sentence in sentences:
        start = answer.index(sentence)
        dialect.add(VerifiedCitation(with_fields(VERIFIED, sentence=span(start, start + len(sentence))), CHUNK))
    dialect.add(Done(Outcome("c", "e", "grounded", cited=cited)))
    annotations: list[tuple[str, str | None]] = []
    for annotation in dialect.body().members()["choices"][0]["message"]["annotations"]:
        place, verified = annotation["url_citation"], annotation.get("citewire")
        sentence = verified and verified["sentence"]
        text = answer[sentence["start"] : sentence["end"]] if sentence else None
        annotations.append((answer[place["start_index"] : place["end_index"]], text))
    return annotations


@pytest.mark.parametrize(
    ("answer", "sentences", "expected"),
    [
        ("[ref:1] It opened. It closed [ref:1].", ("It opened.", "It closed"), ["It opened.", "It closed"]),
        ("It opened [ref:1].\n- [ref:1] It closed", ("It opened", "It closed"), ["It opened", "It closed"]),
        ("It opened. [ref:2][ref:1] It closed.", ("It opened.",), ["It opened."]),
        ("It opened (see [ref:1]) late.", ("It opened (see [ref:1]) late.",), ["It opened (see [ref:1]) late."]),
        ("It opened [ref:1]. Nothing else. Alone [ref:1].", ("It opened",), ["It opened", None]),
        ("```\na[ref:1]\n```\nIt opened [ref:1].", ("It opened",), ["It opened"]),
        ("Write `a[ref:1]`. It opened [ref:1].", ("It opened",), ["It opened"]),
    ],
)
def test_an_openai_annotation_covers_its_own_sentence(
    answer: str, sentences: tuple[str, ...], expected: list[str | None]
) -> None:
    assert _annotated(answer, *sentences) == [("[ref:1]", text) for text in expected]


def test_openai_annotations_without_markers_cover_the_verified_sentences() -> None:
    answer = "It opened. It closed."
    assert _annotated(answer, "It closed.", cited=()) == [("It closed.", "It closed.")]
    assert _annotated(answer, cited=()) == [(answer, None), (answer, None)]
