"""Citation and uncited events during an answer."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import fields

import pytest
from citewire.generator.v1 import generator_pb2 as pb
from prometheus_client import REGISTRY

from citewire_generator.model import NOT_FOUND_SENTENCE, Event
from citewire_generator.providers.base import ChatProvider
from citewire_generator.providers.extractive import Extractive
from citewire_generator.registry import Registry
from citewire_generator.service import Generator
from citewire_generator.verification import MAX_RESULTS, verify_answer
from citewire_kit.errors import Unavailable
from citewire_verify import VerifiedCitation, verifier
from citewire_verify.segment import Segmenter
from generator_calls import make_passage, make_policy, make_request
from scripted_chat import ScriptedChat

PASSAGES = (
    make_passage(1, 1, "Refunds take 14 days. They go to the card.", title="Terms", similarity=0.7),
    make_passage(2, 1, "Shipping is free above 50 EUR.", title="Terms", similarity=0.4),
)
POLICY = make_policy(marker_style=pb.MARKER_STYLE_REF, verify_citations=True, flag_uncited=True)


async def run(provider: ChatProvider, policy: pb.AnswerPolicy = POLICY) -> list[Event]:
    request = make_request("How long do refunds take?", PASSAGES, policy=policy)
    return [event async for event in Generator(Registry([provider])).generate(*request)]


def results(events: Sequence[Event]) -> list[pb.VerifiedCitation | pb.UncitedSentence]:
    return [event for event in events if isinstance(event, pb.VerifiedCitation | pb.UncitedSentence)]


def failures(cause: str = "fault") -> float:
    return REGISTRY.get_sample_value("citewire_generator_verification_failures_total", {"cause": cause}) or 0.0


async def test_events_come_right_after_the_text_that_completes_their_sentence() -> None:
    script = ("Refunds take 14 days. ", "[ref:1] ", "They ", "take 20 days at sea. ", "Shipping costs 90 EUR [ref:2].")
    events = await run(ScriptedChat(*script))
    assert [type(event).__name__ for event in events] == [
        "Started", "TextDelta", "TextDelta", "TextDelta", "VerifiedCitation", "TextDelta", "TextDelta",
        "UncitedSentence", "VerifiedCitation", "Completed",
    ]  # fmt: skip
    first, uncited, last = results(events)
    assert isinstance(first, pb.VerifiedCitation)
    assert isinstance(last, pb.VerifiedCitation)
    assert (first.sentence.start, first.sentence.end, first.number, first.verdict) == (0, 21, 1, pb.VERDICT_SUPPORTED)
    assert (first.quote, first.quote_start, first.quote_end) == ("Refunds take 14 days.", 0, 21)
    text = "".join(text for event in events if isinstance(event, pb.TextDelta) for text in event.texts)
    assert text[uncited.sentence.start : uncited.sentence.end] == "They take 20 days at sea."
    assert text[last.sentence.start : last.sentence.end] == "Shipping costs 90 EUR"
    assert list(last.mismatches) == ["90"]
    assert last.verdict != pb.VERDICT_SUPPORTED


def test_every_field_of_a_verified_citation_has_its_place_in_the_message() -> None:
    of_message = set(pb.VerifiedCitation.DESCRIPTOR.fields_by_name)
    of_verifier = {field.name for field in fields(VerifiedCitation)}
    assert of_verifier - of_message == {"start", "end"}  # which are its sentence
    assert of_message - of_verifier == {"sentence", "pointer"}


async def run_until_it_breaks(*sent: str) -> list[Event]:
    """The events before the error of a provider that fails after this text."""
    error = Unavailable("gone", reason="PROVIDER_UNAVAILABLE", retry_after=1)
    request = make_request("How long do refunds take?", PASSAGES, policy=POLICY)
    answer = Generator(Registry([ScriptedChat(*sent, error)])).generate(*request)
    events: list[Event] = []
    try:
        async for event in answer:
            events.append(event)  # noqa: PERF401 # the events before the error are needed
    except Unavailable as raised:
        assert raised is error  # noqa: PT017 # the events are checked too
        return events
    raise AssertionError("the provider's error is missing")


@pytest.mark.parametrize("last", ["Shipping costs 90 EUR [ref:2].", "Shipping costs 90 EUR. [ref:2]"])
async def test_complete_sentences_are_verified_before_the_providers_error(last: str) -> None:
    first, second = results(await run_until_it_breaks("Refunds take 14 days [ref:1]. ", last))
    assert isinstance(first, pb.VerifiedCitation)
    assert isinstance(second, pb.VerifiedCitation)
    assert (first.number, first.verdict) == (1, pb.VERDICT_SUPPORTED)
    assert (second.number, list(second.mismatches)) == (2, ["90"])


async def test_an_incomplete_sentence_has_no_verdict() -> None:
    events = await run_until_it_breaks("Refunds [ref:1] take 14")
    assert results(events) == []
    assert "".join(text for event in events if isinstance(event, pb.TextDelta) for text in event.texts)


async def test_a_quoting_provider_is_verified_too() -> None:
    [citation] = results(await run(Extractive()))
    assert isinstance(citation, pb.VerifiedCitation)
    assert (citation.verdict, citation.sentence_verdict) == (pb.VERDICT_SUPPORTED, pb.VERDICT_SUPPORTED)


@pytest.mark.parametrize(
    "policy",
    [
        make_policy(marker_style=pb.MARKER_STYLE_REF),
        make_policy(marker_style=pb.MARKER_STYLE_NONE),
        make_policy(marker_style=pb.MARKER_STYLE_REMOVE),
    ],
)
async def test_nothing_is_verified_unless_requested(policy: pb.AnswerPolicy) -> None:
    assert results(await run(ScriptedChat("Refunds take 14 days. [ref:1] It is so."), policy)) == []


@pytest.mark.parametrize("style", [pb.MARKER_STYLE_NONE, pb.MARKER_STYLE_REMOVE])
async def test_without_markers_a_sentence_cites_what_supports_it_best(style: pb.MarkerStyle) -> None:
    policy = make_policy(marker_style=style, verify_citations=True, flag_uncited=True)
    events = await run(ScriptedChat("Shipping is free above 50 EUR. Zebras live in Africa."), policy)
    citation, uncited = results(events)
    assert isinstance(citation, pb.VerifiedCitation)
    assert (citation.number, citation.verdict, citation.quote) == (2, pb.VERDICT_SUPPORTED, PASSAGES[1].text)
    assert (uncited.sentence.start, type(uncited)) == (31, pb.UncitedSentence)


async def test_each_kind_of_event_can_be_requested_alone() -> None:
    answer = "Refunds take 14 days. [ref:1] Shipping takes three weeks."
    cited = make_policy(marker_style=pb.MARKER_STYLE_REF, verify_citations=True)
    uncited = make_policy(marker_style=pb.MARKER_STYLE_REF, flag_uncited=True)
    assert [type(event) for event in results(await run(ScriptedChat(answer), cited))] == [pb.VerifiedCitation]
    assert [type(event) for event in results(await run(ScriptedChat(answer), uncited))] == [pb.UncitedSentence]


async def test_nothing_is_flagged_if_nothing_was_found() -> None:
    answer = f"{NOT_FOUND_SENTENCE} Zebras are striped horses of Africa."
    assert results(await run(ScriptedChat(answer))) == []


async def test_every_cited_passage_has_its_event() -> None:
    events = results(await run(ScriptedChat("Refunds take 14 days and shipping is free above 50 EUR. [ref:1, 2]")))
    assert [event.number for event in events if isinstance(event, pb.VerifiedCitation)] == [1, 2]
    assert {event.sentence_verdict for event in events if isinstance(event, pb.VerifiedCitation)} == {
        pb.VERDICT_SUPPORTED
    }


async def test_an_answer_from_general_knowledge_cites_nothing() -> None:
    policy = make_policy(
        marker_style=pb.MARKER_STYLE_REF, grounding=pb.GROUNDING_OPEN, verify_citations=True, flag_uncited=True
    )
    request = make_request("How long do refunds take?", (), policy=policy)
    events = [event async for event in Generator(Registry([Extractive()])).generate(*request)]
    assert results(events) == []


async def test_a_fault_affects_one_sentence_and_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise ValueError("a fault")

    before = failures()
    monkeypatch.setattr(verifier, "compare", fail)
    events = await run(ScriptedChat("Refunds take 14 days. [ref:1] ", "Shipping takes three weeks."))
    unverified, uncited = results(events)
    assert isinstance(unverified, pb.VerifiedCitation)
    assert (unverified.number, unverified.sentence.start, unverified.sentence.end) == (1, 0, 21)
    assert (unverified.verdict, unverified.sentence_verdict) == (pb.VERDICT_UNVERIFIED, pb.VERDICT_UNVERIFIED)
    assert isinstance(uncited, pb.UncitedSentence)
    assert isinstance(events[-1], pb.Completed)
    assert failures() == before + 1


async def test_a_fault_of_the_reader_ends_the_verification_and_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise ValueError("a fault")

    before = failures()
    monkeypatch.setattr(Segmenter, "feed", fail)
    events = await run(ScriptedChat("Refunds take 14 days. [ref:1] ", "Shipping takes three weeks."))
    [unverified] = results(events)
    assert isinstance(unverified, pb.VerifiedCitation)
    assert (unverified.number, unverified.verdict) == (1, pb.VERDICT_UNVERIFIED)
    assert isinstance(events[-1], pb.Completed)
    assert failures() == before + 1


@pytest.mark.parametrize("amount", ["24:4.5", "1:2.3.4", "24:4.5.6", "12:30:15,5.1"])
async def test_times_with_further_separators_are_verified(amount: str) -> None:
    before = failures()
    passage = make_passage(1, 1, f"The run took {amount} and refunds take 14 days.", title="Terms")
    request = make_request("How long?", (passage,), policy=POLICY)
    provider = ScriptedChat(f"Refunds take 14 days and the run took {amount}. [ref:1]")
    events = [event async for event in Generator(Registry([provider])).generate(*request)]
    [citation] = results(events)
    assert isinstance(citation, pb.VerifiedCitation)
    assert citation.verdict == pb.VERDICT_SUPPORTED
    assert failures() == before


async def test_an_answer_of_many_short_sentences_has_a_limit_of_verified_citations() -> None:
    before = failures("limit")
    events = await run(ScriptedChat("It is so. [ref:1] " * 2_000))
    *verified, rest = results(events)
    assert len(verified) == MAX_RESULTS
    assert isinstance(rest, pb.VerifiedCitation)
    assert (rest.verdict, rest.sentence.start) == (pb.VERDICT_UNVERIFIED, 18 * MAX_RESULTS)
    assert isinstance(events[-1], pb.Completed)
    assert failures("limit") == before + 1


async def test_a_whole_answer_has_unverified_citations_if_verification_fails(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fail(*_: object) -> None:
        raise ValueError("a fault")

    before = failures()
    monkeypatch.setattr(verifier, "compare", fail)
    request = pb.VerifyRequest(answer="Refunds take 14 days [ref:1].", passages=PASSAGES)
    request.marker_style = pb.MARKER_STYLE_REF
    response = await verify_answer(request)
    assert [citation.verdict for citation in response.verified_citations] == [pb.VERDICT_UNVERIFIED]
    assert failures() == before + 1


async def test_text_is_not_held_back_for_verification() -> None:
    gate = asyncio.Event()
    provider = ScriptedChat("Refunds take 14 days. [ref:1]", " ", gate, "It is so.")
    request = make_request("How long do refunds take?", PASSAGES, policy=POLICY)
    answer = Generator(Registry([provider])).generate(*request)
    shown = ""
    async for event in answer:
        if isinstance(event, pb.TextDelta):
            shown += "".join(event.texts)
        if shown.endswith("[ref:1] "):
            break
    gate.set()
    rest = [event async for event in answer]
    assert [type(event) for event in results(rest)] == [pb.VerifiedCitation, pb.UncitedSentence] or len(
        results(rest)
    ) == 1


async def test_a_long_passage_is_read_outside_the_loop() -> None:
    filler = "Zebras live in Africa and eat grass all day long. " * 600
    passage = make_passage(1, 1, f"{filler}Refunds take 14 days.", title="Terms")
    request = make_request("How long?", (passage,), policy=POLICY)
    provider = ScriptedChat("Refunds take 14 days. [ref:1]")
    events = [event async for event in Generator(Registry([provider])).generate(*request)]
    [citation] = results(events)
    assert isinstance(citation, pb.VerifiedCitation)
    assert citation.quote == "Refunds take 14 days."
    assert passage.text[citation.quote_start : citation.quote_end] == citation.quote
