"""Citation and uncited events over a real gRPC server."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from contextlib import AsyncExitStack, aclosing, asynccontextmanager

import pytest
from citewire.generator.v1 import generator_pb2 as pb
from citewire.generator.v1.generator_pb2_grpc import GeneratorServiceStub

from citewire_generator.app import start
from citewire_generator.providers.base import ChatProvider
from citewire_generator.settings import GeneratorSettings
from citewire_kit import client
from citewire_kit.channel import open_channel
from scripted_chat import ScriptedChat

PASSAGES = [
    pb.Passage(chunk_id=1, document_id=1, text="Refunds take 14 days 👍. They go to the card.", file_name="terms.md"),
    pb.Passage(chunk_id=2, document_id=1, text="Shipping is free above 50 EUR.", file_name="terms.md"),
]


@asynccontextmanager
async def serve(providers: Sequence[ChatProvider] | None = None) -> AsyncGenerator[GeneratorServiceStub]:
    async with AsyncExitStack() as stack:
        settings = GeneratorSettings(port=0, metrics_port=0, auth="off", leave_seconds=0, drain_seconds=1)
        server = await start(stack, settings, providers)
        stack.push_async_callback(server.drain_and_stop)
        channel = open_channel(f"127.0.0.1:{server.port}", streams=True)
        stack.push_async_callback(channel.close)
        yield GeneratorServiceStub(channel)


async def ask(stub: GeneratorServiceStub, **policy: object) -> list[pb.GenerateResponse]:
    request = pb.GenerateRequest(
        question="How long do refunds take?",
        passages=PASSAGES,
        policy=pb.AnswerPolicy(**({"marker_style": pb.MARKER_STYLE_REF} | policy)),  # pyright: ignore[reportArgumentType] # fields of several types
    )
    async with aclosing(client.stream(stub.Generate, request, timeout=20)) as events:
        return [event async for event in events]


def kinds(events: Sequence[pb.GenerateResponse]) -> list[str]:
    return [str(event.WhichOneof("event")) for event in events]


async def test_a_models_answer_is_verified_sentence_by_sentence() -> None:
    model = ScriptedChat(
        "Refunds take 14 days 👍. [SOURCE 1]", " Shipping costs 90 EUR [ref:2], says page 4. ", "It arrives by ship."
    )
    async with serve([model]) as stub:
        events = await ask(stub, verify_citations=True, flag_uncited=True)
    text = "".join(text for event in events for text in event.delta.texts)
    assert text == "Refunds take 14 days 👍. [ref:1] Shipping costs 90 EUR [ref:2], says page 4. It arrives by ship."
    first, second = [event.verified_citation for event in events if event.HasField("verified_citation")]
    assert text[first.sentence.start : first.sentence.end] == "Refunds take 14 days 👍."
    assert text[second.sentence.start : second.sentence.end] == "Shipping costs 90 EUR [ref:2], says page 4."
    assert (first.number, second.number) == (1, 2)
    assert (first.verdict, first.sentence_verdict) == (pb.VERDICT_SUPPORTED, pb.VERDICT_SUPPORTED)
    assert second.verdict in {pb.VERDICT_PARTIAL, pb.VERDICT_UNSUPPORTED}
    assert "90" in second.mismatches
    assert 0 <= second.support < first.support <= 1
    for citation, passage in zip((first, second), PASSAGES, strict=True):
        assert citation.quote
        assert citation.quote == passage.text[citation.quote_start : citation.quote_end]
    [uncited] = [event.uncited_sentence for event in events if event.HasField("uncited_sentence")]
    assert text[uncited.sentence.start : uncited.sentence.end] == "It arrives by ship."
    # Each event follows the text that completes its sentence, and all precede the end.
    assert kinds(events)[-1] == "completed"
    shown = 0
    for event in events:
        shown += sum(map(len, event.delta.texts))
        span = (
            event.verified_citation.sentence if event.HasField("verified_citation") else event.uncited_sentence.sentence
        )
        assert span.end <= shown


async def test_a_quoted_answer_is_supported_by_what_it_quotes() -> None:
    async with serve() as stub:
        passages = await ask(stub, verify_citations=True, flag_uncited=True)
    assert kinds(passages)[-2:] == ["verified_citation", "completed"]
    [citation] = [event.verified_citation for event in passages if event.HasField("verified_citation")]
    assert citation.verdict == pb.VERDICT_SUPPORTED
    assert citation.quote.startswith("Refunds take 14 days 👍.")
    assert not citation.mismatches


@pytest.mark.parametrize("style", [pb.MARKER_STYLE_REF, pb.MARKER_STYLE_SOURCE])
async def test_without_a_marker_style_nothing_is_verified(style: pb.MarkerStyle) -> None:
    async with serve([ScriptedChat("Refunds take 14 days. [ref:1] It is so here.")]) as stub:
        events = await ask(stub, marker_style=style)
    assert {"verified_citation", "uncited_sentence"}.isdisjoint(kinds(events))
