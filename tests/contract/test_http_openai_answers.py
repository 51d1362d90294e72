"""Answers of a real generator as OpenAI's own client reads them: JSON of strict schemas, quotations, refusals."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import openai
import pytest
from citewire.generator.v1 import generator_pb2 as pb
from pydantic import BaseModel

from citewire_generator import converters
from citewire_generator.providers.base import ChatProvider
from citewire_generator.providers.extractive import Extractive
from citewire_generator.registry import Registry
from citewire_generator.service import Generator
from gateway_fake_servers import running_fakes
from gateway_fakes import result
from gateway_process import running_gateway
from scripted_chat import ScriptedChat
from strict_schemas import strict_schema, value_of

if TYPE_CHECKING:
    from databases import Database
    from proof_scale import PrintTable, ProofScale

MESSAGES: list[Any] = [{"role": "user", "content": "How much did revenue grow?"}]
TOOL: Any = {"type": "function", "function": {"name": "weather"}}
PICTURE: Any = {"type": "image_url", "image_url": {"url": "data:image/png;base64,aGk="}}


class Growth(BaseModel):
    """A model that quotations can fill."""

    answer: str
    sources: list[str]
    judgement: bool | None


@asynccontextmanager
async def client_of(database: Database, *providers: ChatProvider) -> AsyncGenerator[openai.AsyncOpenAI]:
    """A client of a gateway whose generator has these providers, each for one request and the last for all others."""
    left = list(providers)

    async def generate(request: pb.GenerateRequest) -> AsyncGenerator[pb.GenerateResponse, None]:
        history, route = converters.generate_from_proto(request)
        provider = left.pop(0) if len(left) > 1 else left[0]
        async for event in Generator(Registry([provider])).generate(request, history, route):
            yield converters.event_to_proto(event)

    async with running_fakes() as fakes, running_gateway(database, fakes) as gateway:
        fakes.generator.script = generate
        fakes.retriever.results = [result(1, text="Revenue grew by 12 % in 2025. It came to 310 million euros.")]
        async with openai.AsyncOpenAI(base_url=f"{gateway.url}/v1", api_key="none", max_retries=0) as client:
            yield client


def wire_format(schema: dict[str, Any]) -> Any:  # noqa: ANN401 # what the client takes
    return {"type": "json_schema", "json_schema": {"name": "generated", "schema": schema, "strict": True}}


@pytest.mark.client("openai", "Structured output for any strict schema, whole and streamed")
async def test_json_of_any_strict_schema_arrives_whole_and_streamed(
    database: Database, proof: ProofScale, print_table: PrintTable
) -> None:
    count = proof.pick(scaled_down=10, full=200)
    cases: list[tuple[dict[str, Any], object]] = []
    for number in range(count):
        rng = random.Random(f"{proof.seed}/{number}")
        schema = strict_schema(rng)
        cases.append((schema, value_of(rng, schema, schema)))
    models = [ScriptedChat(json.dumps(value, ensure_ascii=False)) for _, value in cases]
    async with client_of(database, *models) as client:
        completions: Any = client.chat.completions
        for number, (schema, value) in enumerate(cases):
            asked: Any = {"model": "grounded", "messages": MESSAGES, "response_format": wire_format(schema)}
            if number % 2:
                async with completions.stream(**asked) as stream:
                    message = (await stream.get_final_completion()).choices[0].message
            else:
                message = (await completions.create(**asked)).choices[0].message
            assert not message.refusal, (proof.seed, number)
            assert json.loads(message.content or "") == value, (proof.seed, number)
    print_table(
        f"Strict schemas by OpenAI's client, seed {proof.seed}", ["schemas", "valid", "refused"], [[count, count, 0]]
    )


@pytest.mark.client("openai", "Structured output without a model, from quotations")
async def test_quotations_fill_a_model_of_the_client(database: Database) -> None:
    async with client_of(database, Extractive()) as client:
        answer = await client.chat.completions.parse(model="grounded", messages=MESSAGES, response_format=Growth)
    message = answer.choices[0].message
    assert message.parsed is not None, message.refusal
    assert "12 %" in message.parsed.answer
    assert message.parsed.judgement is None
    annotations = message.annotations or []
    cited = [annotation.url_citation for annotation in annotations]
    assert any("12 %" in (message.content or "")[place.start_index : place.end_index] for place in cited)
    pointers = [(annotation.model_extra or {})["citewire"]["pointer"] for annotation in annotations]
    assert "/answer" in pointers


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "tools": ({"tools": [TOOL]}, "tools"),
    "images": ({"messages": [{"role": "user", "content": [{"type": "text", "text": "What?"}, PICTURE]}]}, "messages"),
    "top_p": ({"top_p": 0.5}, "top_p"),
    "a schema": ({"response_format": wire_format({"type": "object"})}, "response_format.json_schema.schema"),
    "a name": (
        {"response_format": {"type": "json_schema", "json_schema": {"name": "two words", "schema": {}}}},
        "response_format.json_schema.name",
    ),
    "arguments": (
        {
            "tools": [TOOL],
            "messages": [
                *MESSAGES,
                {
                    "role": "assistant",
                    "tool_calls": [{"id": "a", "type": "function", "function": {"name": "f", "arguments": "x"}}],
                },
                {"role": "tool", "tool_call_id": "a", "content": "x"},
            ],
        },
        "messages",
    ),
}


async def test_quotations_refuse_unsupported_parameters_by_name(database: Database) -> None:
    async with client_of(database, Extractive()) as client:
        for fields, param in REFUSED.values():
            for stream in (False, True):
                asked: Any = {"model": "grounded", "messages": MESSAGES, "stream": stream} | fields
                with pytest.raises((openai.BadRequestError, openai.UnprocessableEntityError)) as caught:
                    await client.chat.completions.create(**asked)
                assert caught.value.param == param
                assert caught.value.type == "invalid_request_error"


async def test_a_client_that_leaves_a_json_answer_stops_its_model(database: Database) -> None:
    model = ScriptedChat('{"a": ', asyncio.Event(), "1}")
    async with client_of(database, model) as client:
        schema = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}
        asked: Any = {"response_format": wire_format(schema | {"additionalProperties": False}), "stream": True}
        completions: Any = client.chat.completions
        async with await completions.create(model="grounded", messages=MESSAGES, **asked) as stream:
            async for _ in stream:
                break
        async with asyncio.timeout(20):
            await model.closed.wait()
