"""Verify over a real gRPC server: answers that another system wrote."""

from __future__ import annotations

import pytest
from citewire.generator.v1 import generator_pb2 as pb

from citewire_kit import client
from citewire_kit.errors import CitewireError
from generator_server import running_generator

PASSAGES = [
    pb.Passage(text="Refunds take 14 days 👍. They go to the card.", title="Terms"),
    pb.Passage(text="Shipping is free above 50 EUR.", file_name="terms.md"),
]


async def verify(answer: str, style: pb.MarkerStyle = pb.MARKER_STYLE_REF) -> pb.VerifyResponse:
    request = pb.VerifyRequest(answer=answer, passages=PASSAGES, marker_style=style)
    async with running_generator() as running:
        return await client.unary(running.stub.Verify, request, timeout=20)


async def refuse(request: pb.VerifyRequest) -> list[str]:
    """The fields that are refused, with the reason."""
    async with running_generator() as running:
        with pytest.raises(CitewireError) as caught:
            await client.unary(running.stub.Verify, request, timeout=20)
    assert caught.value.reason == "INVALID_FIELD"
    return [f"{violation.field}: {violation.message}" for violation in caught.value.violations]


async def test_each_sentence_has_its_verdicts_quotes_and_offsets() -> None:
    answer = "👍 Refunds take 14 days [ref:1]. Shipping costs 90 EUR [Ref: 2, 1]. It arrives by ship. [ref:9]"
    response = await verify(answer)
    cited = response.verified_citations
    sentences = [answer[element.sentence.start : element.sentence.end] for element in cited]
    assert sentences == ["👍 Refunds take 14 days", "Shipping costs 90 EUR", "Shipping costs 90 EUR"]
    assert [citation.number for citation in cited] == [1, 2, 1]
    assert (cited[0].verdict, cited[0].sentence_verdict) == (pb.VERDICT_SUPPORTED, pb.VERDICT_SUPPORTED)
    assert cited[1].sentence_verdict == cited[2].sentence_verdict != pb.VERDICT_SUPPORTED
    assert list(cited[1].mismatches) == ["90"]
    for entry in cited[:2]:
        assert entry.quote
        assert entry.quote == PASSAGES[entry.number - 1].text[entry.quote_start : entry.quote_end]
    [uncited] = response.uncited_sentences
    assert answer[uncited.sentence.start : uncited.sentence.end] == "It arrives by ship."
    assert (list(response.cited_numbers), response.invalid_markers) == ([1, 2], 1)


@pytest.mark.parametrize(
    "answer",
    [
        "Refunds take 14 days [1]. Shipping is free above 50 EUR [2].",
        "Refunds take 14 days.[^1] Shipping is free above 50 EUR【2†terms.md】.",
        "Refunds take 14 days [1](https://example.org/a). Shipping is free above 50 EUR [ref:2].",
        "| rule | source |\n|---|---|\n| Refunds take 14 days | [1] |\n\nShipping is free above 50 EUR [2].",
    ],
)
async def test_numbers_in_brackets_are_read_as_other_systems_write_them(answer: str) -> None:
    response = await verify(answer, pb.MARKER_STYLE_NUMBER)
    assert [verified_citation.number for verified_citation in response.verified_citations] == [1, 2]
    assert {verified_citation.verdict for verified_citation in response.verified_citations} == {pb.VERDICT_SUPPORTED}
    assert not response.uncited_sentences


@pytest.mark.parametrize("style", [pb.MARKER_STYLE_UNSPECIFIED, pb.MARKER_STYLE_NONE, pb.MARKER_STYLE_REMOVE])
async def test_without_markers_a_sentence_cites_what_supports_it_best(style: pb.MarkerStyle) -> None:
    answer = "Shipping is free above 50 EUR. Zebras live in Africa and eat grass."
    if style == pb.MARKER_STYLE_REMOVE:
        answer = answer.replace("EUR", "EUR [ref:1]")
    response = await verify(answer, style)
    [citation] = response.verified_citations
    assert (citation.number, citation.verdict, citation.quote) == (2, pb.VERDICT_SUPPORTED, PASSAGES[1].text)
    [uncited] = response.uncited_sentences
    assert answer[uncited.sentence.start : uncited.sentence.end] == "Zebras live in Africa and eat grass."
    assert not response.cited_numbers


async def test_brackets_in_code_are_no_markers() -> None:
    response = await verify("`a[1]` is the second cell, as refunds take 14 days [1].", pb.MARKER_STYLE_NUMBER)
    assert [verified_citation.number for verified_citation in response.verified_citations] == [1]
    assert response.invalid_markers == 0


async def test_wrong_fields_are_named() -> None:
    assert await refuse(pb.VerifyRequest(answer=" \n")) == [
        "answer: must contain more than white space",
        "passages: must contain at least one passage",
    ]
    long = pb.VerifyRequest(answer="a" * 131_073, passages=[pb.Passage(text=" "), pb.Passage(text="ok", url="\0")])
    assert await refuse(long) == [
        "answer: must be at most 131,072 bytes of UTF-8",
        "passages[0].text: must contain more than white space",
        "passages[1].url: must not contain NUL characters",
    ]
    many = pb.VerifyRequest(answer="ok", passages=[pb.Passage(text="ok")] * 1001, marker_style=99)  # pyright: ignore[reportArgumentType] # not a value
    assert await refuse(many) == ["passages: must be at most 1000", "marker_style: isn't a value of its enum"]
    large = pb.VerifyRequest(answer="ok", passages=[pb.Passage(text="é" * 1_100_000)] * 2)
    assert await refuse(large) == ["passages: must be at most 4,194,304 bytes of UTF-8 in all"]


async def test_generate_refuses_the_style_that_only_verify_reads() -> None:
    request = pb.GenerateRequest(
        question="How long?", passages=[], policy=pb.AnswerPolicy(marker_style=pb.MARKER_STYLE_NUMBER)
    )
    async with running_generator() as running:
        with pytest.raises(CitewireError) as caught:
            await running.events(request)
    assert [violation.field for violation in caught.value.violations] == ["policy.marker_style"]
