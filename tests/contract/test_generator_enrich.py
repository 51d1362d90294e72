"""Enrich over a real gRPC server: with and without a model, unreadable answers, failures, refusals."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from citewire.generator.v1 import generator_pb2 as pb

from citewire_kit import client
from citewire_kit.errors import CitewireError, Code, InvalidArgument, Unavailable
from generator_server import running_generator
from scripted_chat import ScriptedChat

FIELDS = [
    pb.ENRICHMENT_FIELD_SUMMARY,
    pb.ENRICHMENT_FIELD_ENTITY_TYPE,
    pb.ENRICHMENT_FIELD_CATEGORY,
    pb.ENRICHMENT_FIELD_TAGS,
]
REQUEST = pb.EnrichRequest(text="Da Enzo: fish by the harbour.", title="Da Enzo", fields=FIELDS)
ANSWER = {
    "summary": "Fish by the harbour.",
    "entity_type": "restaurant",
    "category": "food",
    "tags": ["fish", "harbour"],
}


async def test_a_models_description() -> None:
    model = ScriptedChat(f"<think>{{}}</think>\n```json\n{json.dumps(ANSWER)}\n```")
    async with running_generator([model]) as running:
        response = await client.unary(running.stub.Enrich, REQUEST, timeout=5)
    assert response == pb.EnrichResponse(
        **ANSWER,  # pyright: ignore[reportArgumentType] # of several types
        usage=pb.TokenUsage(prompt_tokens=11, cached_prompt_tokens=2, completion_tokens=7),
        provider="scripted",
        model="parrot",
    )
    (task,) = model.tasks
    assert task.temperature == 0
    assert "Da Enzo: fish by the harbour." in task.messages[1].content


async def test_without_a_language_model_nothing_is_filled() -> None:
    async with running_generator() as running:
        response = await client.unary(running.stub.Enrich, REQUEST, timeout=5)
    assert response == pb.EnrichResponse(no_model=True, usage=pb.TokenUsage())


@pytest.mark.parametrize("reply", ["I'd rather not.", '{"verdict": "fine"}', "[1, 2]", "{" * 70_000])
async def test_an_unreadable_answer(reply: str) -> None:
    async with running_generator([ScriptedChat(reply)]) as running:
        response = await client.unary(running.stub.Enrich, REQUEST, timeout=5)
    assert response.unreadable
    assert response.usage.prompt_tokens == 11
    expected = pb.EnrichResponse(usage=response.usage, unreadable=True, provider="scripted", model="parrot")
    assert response == expected


async def test_a_failing_model_is_an_error_that_says_why() -> None:
    broken = ScriptedChat(Unavailable("away", reason="PROVIDER_UNAVAILABLE"))
    async with running_generator([broken]) as running:
        with pytest.raises(CitewireError) as caught:
            await client.unary(running.stub.Enrich, REQUEST, timeout=5)
    assert caught.value.reason == "PROVIDER_UNAVAILABLE"


async def test_a_stuck_model_is_abandoned_in_time() -> None:
    stuck = ScriptedChat(asyncio.Event())
    async with running_generator([stuck], enrich_seconds=0.3, first_token_seconds=60) as running:
        with pytest.raises(CitewireError) as caught:
            await client.unary(running.stub.Enrich, REQUEST, timeout=30)
    assert (caught.value.code, caught.value.reason) == (Code.DEADLINE_EXCEEDED, "PROVIDER_TIMEOUT")
    async with asyncio.timeout(5):
        await stuck.closed.wait()


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"text": " \n"}, "text"),
        ({"text": "x" * 262_145}, "text"),
        ({"text": "a\0b"}, "text"),
        ({"title": "x" * 501}, "title"),
        ({"url": "x" * 2049}, "url"),
        ({"type": "a\nb"}, "type"),
        ({"fields": []}, "fields"),
        ({"fields": [1, 1]}, "fields"),
        ({"fields": [9]}, "fields[0]"),
        ({"fields": [0]}, "fields[0]"),
        ({"labels": pb.KnownLabels(tags=[""])}, "labels.tags"),
        ({"labels": pb.KnownLabels(categories=["x"] * 101)}, "labels.categories"),
        ({"labels": pb.KnownLabels(entity_types=["x" * 129])}, "labels.entity_types"),
        ({"fallbacks": [pb.Fallback()]}, "fallbacks[0]"),
    ],
)
async def test_bad_input_is_named(changes: dict[str, Any], field: str) -> None:
    values: dict[str, Any] = {"text": "x", "fields": FIELDS, **changes}
    async with running_generator() as running:
        with pytest.raises(InvalidArgument) as caught:
            await client.unary(running.stub.Enrich, pb.EnrichRequest(**values), timeout=5)
    assert [violation.field for violation in caught.value.violations] == [field]
