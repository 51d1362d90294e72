"""Unmodified clients of other APIs: OpenAI's and Anthropic's libraries."""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator, AsyncIterator
from typing import TYPE_CHECKING, Any, cast

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


@pytest.mark.client("openai", "Chat completions, streamed, with annotations and usage")
async def test_openais_client_streams_and_reads_annotations(client: openai.AsyncOpenAI) -> None:
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


@pytest.mark.client("openai", "Chat completions with its stream helper")
async def test_openais_stream_helper_collects_the_same_answer(client: openai.AsyncOpenAI) -> None:
    async with client.chat.completions.stream(model="grounded", messages=MESSAGES) as stream:
        final = await stream.get_final_completion()
    message = final.choices[0].message
    assert message.content is not None
    assert message.content.startswith("By 12 %[ref:1].")
    assert final.choices[0].finish_reason == "stop"


@pytest.mark.client("openai", "Chat completions, whole, with typed annotations")
async def test_openais_client_reads_a_whole_answer_with_typed_annotations(client: openai.AsyncOpenAI) -> None:
    answer = await client.chat.completions.create(model="grounded", messages=MESSAGES)
    annotations = answer.choices[0].message.annotations
    assert annotations is not None
    cited = annotations[0].url_citation
    assert (cited.start_index, cited.end_index, cited.url) == (7, 14, "https://example.org/report")


@pytest.mark.client("openai", "A broken stream raises its error and is never a short answer")
async def test_a_broken_stream_is_an_error_in_openais_client(gateway: Gateway, client: openai.AsyncOpenAI) -> None:
    async def breaks(_: generator_pb2.GenerateRequest) -> AsyncGenerator[generator_pb2.GenerateResponse, None]:
        yield started((1, 0))
        yield delta("By")
        raise Unavailable("the model provider went away", reason="PROVIDER_UNAVAILABLE")

    gateway.fakes.generator.script = breaks
    stream = await client.chat.completions.create(model="grounded", messages=MESSAGES, stream=True)
    with pytest.raises(openai.APIError, match="the model provider went away"):
        async for _ in stream:
            pass


@pytest.mark.client("openai", "An unknown model raises its `NotFoundError`")
async def test_an_unknown_model_is_not_found_in_openais_client(client: openai.AsyncOpenAI) -> None:
    with pytest.raises(openai.NotFoundError, match="gpt-99"):
        await client.chat.completions.create(model="gpt-99", messages=MESSAGES)


@pytest.mark.client("openai", "Embeddings, in base64")
async def test_openais_client_embeds_in_its_preferred_format(client: openai.AsyncOpenAI) -> None:
    embeddings = await client.embeddings.create(model="", input=["a"])  # it asks for base64 by itself
    assert embeddings.data[0].embedding == [0.5] * 4


@pytest.mark.client("openai", "Models")
async def test_openais_client_lists_models(client: openai.AsyncOpenAI) -> None:
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


@pytest.mark.client("anthropic", "Messages, streamed, with citations")
async def test_anthropics_client_collects_blocks_with_citations(claude: anthropic.AsyncAnthropic) -> None:
    async with claude.messages.stream(model="grounded", max_tokens=100, messages=MESSAGES) as stream:
        events = [event.type async for event in stream]
        final = await stream.get_final_message()
    assert events[0] == "message_start"
    assert events[-1] == "message_stop"
    assert {"text", "citation", "content_block_stop"} <= set(events)
    _is_cited(final)


@pytest.mark.client("anthropic", "Messages, whole, with citations and a system prompt")
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


@pytest.mark.client("anthropic", "The same with `client.beta`")
async def test_anthropics_beta_client_is_answered(claude: anthropic.AsyncAnthropic) -> None:
    beta: Any = claude.beta
    final = await beta.messages.create(model="grounded", max_tokens=100, messages=MESSAGES)
    assert final.content[0].citations[0].cited_text == "Revenue grew by 12 %."
    async with beta.messages.stream(model="grounded", max_tokens=100, messages=MESSAGES) as stream:
        assert (await stream.get_final_message()).stop_reason == "end_turn"
    assert (await beta.messages.count_tokens(model="grounded", messages=MESSAGES)).input_tokens == 10
    assert (await beta.models.retrieve("grounded")).id == "grounded"
    assert [model.id async for model in beta.models.list(limit=1)]


@pytest.mark.client("anthropic", "An answer sent back as a message, with everything that it contained")
async def test_an_answer_can_be_sent_back_as_anthropics_client_stores_it(
    claude: anthropic.AsyncAnthropic, gateway: Gateway
) -> None:
    final = await claude.messages.create(model="grounded", max_tokens=100, messages=MESSAGES)
    again: list[Any] = [*MESSAGES, final.to_param(), {"role": "user", "content": "Why?"}]
    await claude.messages.create(model="grounded", max_tokens=100, messages=again)
    assert gateway.fakes.generator.requests[-1].question


@pytest.mark.client("anthropic", "Its own error classes, before and within a stream")
async def test_anthropics_client_gets_errors_of_its_own_kinds(
    claude: anthropic.AsyncAnthropic, gateway: Gateway
) -> None:
    with pytest.raises(anthropic.NotFoundError, match="gpt-99"):
        await claude.messages.create(model="gpt-99", max_tokens=100, messages=MESSAGES)

    async def breaks(_: generator_pb2.GenerateRequest) -> AsyncGenerator[generator_pb2.GenerateResponse, None]:
        yield started((1, 0))
        yield delta("Revenue")
        raise Unavailable("the model provider went away", reason="PROVIDER_UNAVAILABLE")

    gateway.fakes.generator.script = breaks
    with pytest.raises(anthropic.APIStatusError, match="the model provider went away"):
        async with claude.messages.stream(model="grounded", max_tokens=100, messages=MESSAGES) as stream:
            await stream.get_final_message()


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param(
            {"n": 2},
            marks=pytest.mark.client(
                "openai", "Chat completions, `n` above 1", refused="n: must be 1 or absent: there is always one answer"
            ),
        ),
        pytest.param(
            {"logprobs": True},
            marks=pytest.mark.client(
                "openai",
                "Chat completions, `logprobs`",
                refused="logprobs: must be false or absent: log probabilities of providers aren't passed on",
            ),
        ),
        pytest.param(
            {"web_search_options": {}},
            marks=pytest.mark.client(
                "openai",
                "Chat completions, `web_search_options`",
                refused="web_search_options: must be null or absent: answers come from documents",
            ),
        ),
        pytest.param(
            {
                "messages": [
                    {
                        "role": "user",
                        "content": [{"type": "input_audio", "input_audio": {"data": "aGk=", "format": "wav"}}],
                    }
                ]
            },
            marks=pytest.mark.client(
                "openai",
                "Chat completions, sound in messages",
                refused="a part of type input_audio can't be read: add it to the library with POST /v1/documents",
            ),
        ),
    ],
)
async def test_openais_unsupported_chat_parameters_are_refused_with_advice(
    client: openai.AsyncOpenAI, changes: dict[str, Any], refusal: str
) -> None:
    asked: dict[str, Any] = {"model": "grounded", "messages": MESSAGES, **changes}
    with pytest.raises(openai.UnprocessableEntityError, match=refusal):
        await client.chat.completions.create(**asked)


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param(
            {"background": True},
            marks=pytest.mark.client(
                "openai",
                "Responses, `background`",
                refused="background: must be false or absent: an answer is streamed, or waited for",
            ),
        ),
        pytest.param(
            {"tools": [{"type": "web_search"}]},
            marks=pytest.mark.client(
                "openai",
                "Responses, `web_search`",
                refused="tools.0.type: must be file_search: answers come from documents",
            ),
        ),
    ],
)
async def test_openais_unsupported_responses_parameters_are_refused_with_advice(
    client: openai.AsyncOpenAI, changes: dict[str, Any], refusal: str
) -> None:
    asked: dict[str, Any] = {"model": "grounded", "input": "How much did it grow?", **changes}
    with pytest.raises(openai.UnprocessableEntityError, match=refusal):
        await client.responses.create(**asked)


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param(
            {"tools": [{"type": "web_search_20260209", "name": "web_search"}]},
            marks=pytest.mark.client(
                "anthropic",
                "Tools that the server runs",
                refused="tools.0.type: must be custom or absent: answers come from documents and from tools that "
                "the caller runs",
            ),
        ),
        pytest.param(
            {"stop_sequences": ["x"]},
            marks=pytest.mark.client(
                "anthropic",
                "`stop_sequences`",
                refused="stop_sequences: must be [] or absent: an answer ends where its model ends it",
            ),
        ),
        pytest.param(
            {"thinking": {"type": "enabled", "budget_tokens": 2000}},
            marks=pytest.mark.client(
                "anthropic",
                "`thinking`",
                refused='thinking: must be {"type": "disabled"} or absent: only the operator can set it',
            ),
        ),
        pytest.param(
            {"output_config": {"format": {"type": "json_schema", "schema": {}}}},
            marks=pytest.mark.client(
                "anthropic",
                "`output_config`",
                refused="output_config: must be {} or absent: an answer is text with citations",
            ),
        ),
        pytest.param(
            {"messages": [*MESSAGES, {"role": "assistant", "content": "{"}]},
            marks=pytest.mark.client(
                "anthropic",
                "An answer begun for the model",
                refused="messages: the last message must be the user's: prefilled answers aren't supported",
            ),
        ),
        pytest.param(
            {
                "messages": [
                    {
                        "role": "user",
                        "content": [
                            {"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": "x"}}
                        ],
                    }
                ]
            },
            marks=pytest.mark.client(
                "anthropic",
                "`document` blocks",
                refused="a block of type document can't be read: send it as search_result, or add it to the library",
            ),
        ),
        pytest.param(
            {
                "messages": [
                    {
                        "role": "user",
                        "content": [{"type": "image", "source": {"type": "url", "url": "https://example.org/a.png"}}],
                    }
                ]
            },
            marks=pytest.mark.client(
                "anthropic",
                "`image` blocks",
                refused="a block of type image can't be read: send images with POST /v1/chat/completions",
            ),
        ),
    ],
)
async def test_anthropics_unsupported_parameters_are_refused_with_advice(
    claude: anthropic.AsyncAnthropic, changes: dict[str, Any], refusal: str
) -> None:
    asked: dict[str, Any] = {"model": "grounded", "max_tokens": 100, "messages": MESSAGES, **changes}
    with pytest.raises(anthropic.UnprocessableEntityError) as caught:
        await claude.messages.create(**asked)
    assert re.search(refusal, str(cast("dict[str, Any]", caught.value.body)["detail"]))


@pytest.mark.client("anthropic", "Models: the profiles, page by page")
async def test_anthropics_client_lists_models(claude: anthropic.AsyncAnthropic) -> None:
    every = [model.id async for model in claude.models.list(limit=2)]
    assert every == sorted(every)
    assert {"grounded", "simple"} <= set(every)
    page = await claude.models.list(limit=2, before_id=every[3])
    assert [model.id for model in page.data] == every[1:3]
    assert page.has_more
    model = await claude.models.retrieve("grounded")
    assert (model.id, model.type, model.lifecycle) == ("grounded", "model", "active")
    with pytest.raises(anthropic.NotFoundError, match="gpt-99"):
        await claude.models.retrieve("gpt-99")


@pytest.mark.client("anthropic", "Token counts, estimated without the passages")
async def test_anthropics_client_counts_tokens(claude: anthropic.AsyncAnthropic) -> None:
    short = await claude.messages.count_tokens(model="grounded", messages=MESSAGES)
    assert short.input_tokens == 10  # 21 characters at four per token, plus the message
    longer = await claude.messages.count_tokens(model="grounded", messages=MESSAGES, system="请简短回答。")
    assert longer.input_tokens == 10 + 6 + 4
    assert cast("dict[str, Any]", longer.model_extra)["citewire"] == {"estimated": True, "passages": "not_counted"}
