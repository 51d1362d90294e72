"""Clients that know nothing of us: OpenAI's library and Anthropic's."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator
from typing import TYPE_CHECKING, Any

import anthropic
import openai
import pytest
from citewire.generator.v1 import generator_pb2

from citewire_kit.errors import Unavailable
from gateway_fake_servers import running_fakes
from gateway_fakes import completed, delta, result, started
from gateway_process import Gateway, running_gateway

if TYPE_CHECKING:
    from databases import Database

MESSAGES: list[Any] = [{"role": "user", "content": "How much did it grow?"}]


@pytest.fixture
async def gateway(database: Database) -> AsyncIterator[Gateway]:
    async with running_fakes() as fakes, running_gateway(database, fakes) as running:
        fakes.retriever.results = [result(1, url="https://example.org/report")]
        fakes.generator.script = _cites
        yield running


@pytest.fixture
async def client(gateway: Gateway) -> AsyncIterator[openai.AsyncOpenAI]:
    async with openai.AsyncOpenAI(base_url=f"{gateway.url}/v1", api_key="none is asked for", max_retries=0) as made:
        yield made


async def _cites(_: generator_pb2.GenerateRequest) -> AsyncGenerator[generator_pb2.GenerateResponse, None]:
    yield started((1, 0))
    yield delta("By 12 %", "[ref:1]", ".")
    yield completed(cited_numbers=[1])


async def test_it_streams_and_reads_annotations(client: openai.AsyncOpenAI) -> None:
    text, usage = "", None
    annotations: list[Any] = []
    stream = await client.chat.completions.create(
        model="grounded", messages=MESSAGES, stream=True, stream_options={"include_usage": True}
    )
    async for chunk in stream:
        usage = chunk.usage or usage
        for choice in chunk.choices:
            text += choice.delta.content or ""
            annotations += (choice.delta.model_extra or {}).get("annotations", [])
    assert text == "By 12 %[ref:1].\n\nSources:\n- [1] [report.pdf](https://example.org/report)"
    assert [annotation["url_citation"]["url"] for annotation in annotations] == ["https://example.org/report"]
    assert usage is not None
    assert usage.total_tokens == 120


async def test_its_stream_helper_gathers_the_same(client: openai.AsyncOpenAI) -> None:
    async with client.chat.completions.stream(model="grounded", messages=MESSAGES) as stream:
        final = await stream.get_final_completion()
    message = final.choices[0].message
    assert message.content is not None
    assert message.content.startswith("By 12 %[ref:1].")
    assert final.choices[0].finish_reason == "stop"


async def test_it_reads_a_whole_answer_with_typed_annotations(client: openai.AsyncOpenAI) -> None:
    answer = await client.chat.completions.create(model="grounded", messages=MESSAGES)
    annotations = answer.choices[0].message.annotations
    assert annotations is not None
    cited = annotations[0].url_citation
    assert (cited.start_index, cited.end_index, cited.url) == (7, 14, "https://example.org/report")


async def test_a_stream_that_breaks_is_an_error_to_it(gateway: Gateway, client: openai.AsyncOpenAI) -> None:
    async def breaks(_: generator_pb2.GenerateRequest) -> AsyncGenerator[generator_pb2.GenerateResponse, None]:
        yield started((1, 0))
        yield delta("By")
        raise Unavailable("the model provider went away", reason="PROVIDER_UNAVAILABLE")

    gateway.fakes.generator.script = breaks
    stream = await client.chat.completions.create(model="grounded", messages=MESSAGES, stream=True)
    with pytest.raises(openai.APIError, match="the model provider went away"):
        async for _ in stream:
            pass


async def test_an_unknown_model_is_not_found_to_it(client: openai.AsyncOpenAI) -> None:
    with pytest.raises(openai.NotFoundError, match="gpt-99"):
        await client.chat.completions.create(model="gpt-99", messages=MESSAGES)


async def test_it_embeds_in_the_format_that_it_prefers(client: openai.AsyncOpenAI) -> None:
    embeddings = await client.embeddings.create(model="", input=["a"])  # it asks for base64 by itself
    assert embeddings.data[0].embedding == [0.5] * 4


async def test_it_lists_models(client: openai.AsyncOpenAI) -> None:
    assert "grounded" in [model.id async for model in client.models.list()]


async def _verifies(_: generator_pb2.GenerateRequest) -> AsyncGenerator[generator_pb2.GenerateResponse, None]:
    yield started((1, 0))
    yield delta("Revenue grew", " by 12 %.")
    verified = generator_pb2.VerifiedCitation(
        sentence=generator_pb2.AnswerSpan(start=0, end=21),
        number=1,
        quote="Revenue grew by 12 %.",
        quote_start=0,
        quote_end=21,
        verdict=generator_pb2.VERDICT_SUPPORTED,
        sentence_verdict=generator_pb2.VERDICT_SUPPORTED,
    )
    yield generator_pb2.GenerateResponse(verified_citation=verified)
    yield delta(" Nobody", " knows why.")
    yield completed(cited_numbers=[1])


@pytest.fixture
async def claude(gateway: Gateway) -> AsyncIterator[anthropic.AsyncAnthropic]:
    gateway.fakes.retriever.results = [result(1, verbatim=True, char_start=40)]
    gateway.fakes.generator.script = _verifies
    url = f"{gateway.url}/anthropic"
    async with anthropic.AsyncAnthropic(base_url=url, api_key="none is asked for", max_retries=0) as made:
        yield made


async def test_anthropics_client_gathers_blocks_with_citations(claude: anthropic.AsyncAnthropic) -> None:
    async with claude.messages.stream(model="grounded", max_tokens=100, messages=MESSAGES) as stream:
        events = [event.type async for event in stream]
        final = await stream.get_final_message()
    assert events[0] == "message_start"
    assert events[-1] == "message_stop"
    assert {"text", "citation", "content_block_stop"} <= set(events)
    _is_cited(final)


async def test_anthropics_client_reads_a_whole_answer(claude: anthropic.AsyncAnthropic, gateway: Gateway) -> None:
    system: list[Any] = [{"type": "text", "text": "Be brief.", "cache_control": {"type": "ephemeral"}}]
    final = await claude.messages.create(model="grounded", max_tokens=100, messages=MESSAGES, system=system)
    _is_cited(final)
    assert final.usage.output_tokens == 20
    request = gateway.fakes.generator.requests[-1]
    assert request.policy.marker_style == generator_pb2.MARKER_STYLE_REMOVE
    assert request.policy.instructions == "Be brief."
    assert request.max_completion_tokens == 100


def _is_cited(message: anthropic.types.Message) -> None:
    first, second = message.content
    assert isinstance(first, anthropic.types.TextBlock)
    assert isinstance(second, anthropic.types.TextBlock)
    assert (first.text, second.text, second.citations) == ("Revenue grew by 12 %.", " Nobody knows why.", None)
    assert first.citations is not None
    (cited,) = first.citations
    assert isinstance(cited, anthropic.types.CitationCharLocation)
    assert (cited.cited_text, cited.start_char_index, cited.end_char_index) == ("Revenue grew by 12 %.", 40, 61)
    assert (cited.document_index, cited.document_title, cited.file_id) == (0, "report.pdf", "7")
    assert message.stop_reason == "end_turn"


async def test_an_answer_goes_back_to_us_as_anthropics_client_keeps_it(
    claude: anthropic.AsyncAnthropic, gateway: Gateway
) -> None:
    final = await claude.messages.create(model="grounded", max_tokens=100, messages=MESSAGES)
    again: list[Any] = [*MESSAGES, final.to_param(), {"role": "user", "content": "Why?"}]
    await claude.messages.create(model="grounded", max_tokens=100, messages=again)
    assert gateway.fakes.generator.requests[-1].question


async def test_anthropics_client_gets_errors_of_its_own_kinds(
    claude: anthropic.AsyncAnthropic, gateway: Gateway
) -> None:
    with pytest.raises(anthropic.NotFoundError, match="gpt-99"):
        await claude.messages.create(model="gpt-99", max_tokens=100, messages=MESSAGES)
    tool: Any = {"name": "weather", "input_schema": {"type": "object"}}
    with pytest.raises(anthropic.UnprocessableEntityError, match="tools"):
        await claude.messages.create(model="grounded", max_tokens=100, messages=MESSAGES, tools=[tool])

    async def breaks(_: generator_pb2.GenerateRequest) -> AsyncGenerator[generator_pb2.GenerateResponse, None]:
        yield started((1, 0))
        yield delta("Revenue")
        raise Unavailable("the model provider went away", reason="PROVIDER_UNAVAILABLE")

    gateway.fakes.generator.script = breaks
    with pytest.raises(anthropic.APIStatusError, match="the model provider went away"):
        async with claude.messages.stream(model="grounded", max_tokens=100, messages=MESSAGES) as stream:
            await stream.get_final_message()
