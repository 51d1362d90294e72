"""Clients that know nothing of us: OpenAI's library streams, reads annotations, embeds and lists models."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator
from typing import TYPE_CHECKING, Any

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
