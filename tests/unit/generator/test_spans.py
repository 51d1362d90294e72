"""The span of a call: attributes it always has, and those only if content is traced."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import aclosing

import pytest
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from citewire_generator.engine import Engine
from citewire_generator.registry import Registry
from citewire_generator.service import Generator
from citewire_kit import genai
from citewire_kit.errors import CitewireError, Unavailable
from citewire_kit.tracing import capture_content
from generator_calls import make_passage, make_request
from scripted_chat import ScriptedTurns

REQUEST = make_request(
    "What is the secret question?", (make_passage(1, 1, "A secret passage.", title="P", token_count=5),)
)


@pytest.fixture
def exporter(monkeypatch: pytest.MonkeyPatch) -> Iterator[InMemorySpanExporter]:
    exporter, provider = InMemorySpanExporter(), TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    monkeypatch.setattr(genai, "_tracer", provider.get_tracer("test"))
    yield exporter
    capture_content(on=False)
    provider.shutdown()


async def answer(exporter: InMemorySpanExporter, *turn: str | CitewireError) -> ReadableSpan:
    generator = Generator(Registry([ScriptedTurns("one", turn)]), engine=Engine())
    try:
        async with aclosing(generator.generate(*REQUEST)) as events:
            async for _ in events:
                pass
    except CitewireError:
        pass
    return exporter.get_finished_spans()[-1]


async def test_a_span_has_counts_and_no_content(exporter: InMemorySpanExporter) -> None:
    span = await answer(exporter, "A secret answer", " [1].")
    attributes = dict(span.attributes or {})
    assert attributes["gen_ai.operation.name"] == "chat"
    assert attributes["gen_ai.provider.name"] == "one"
    assert attributes["gen_ai.response.finish_reasons"] == ("stop",)
    assert {"gen_ai.request.model", "gen_ai.usage.input_tokens", "gen_ai.usage.output_tokens"} <= attributes.keys()
    assert attributes["gen_ai.request.stream"]
    assert not span.events
    assert "secret" not in span.to_json()


async def test_the_span_of_a_failed_call_names_the_reason(exporter: InMemorySpanExporter) -> None:
    span = await answer(exporter, Unavailable("no secret", reason="PROVIDER_STREAM_BROKEN"))
    assert (span.attributes or {})["error.type"] == "PROVIDER_STREAM_BROKEN"
    assert "secret" not in span.to_json()


async def test_a_span_has_content_on_request(exporter: InMemorySpanExporter) -> None:
    capture_content(on=True)
    span = await answer(exporter, "A secret answer", " [1].")
    attributes = dict(span.attributes or {})
    asked = json.loads(str(attributes["gen_ai.input.messages"]))
    assert asked[-1]["role"] == "user"
    text = json.dumps(asked)
    assert "secret question" in text
    assert "secret passage" in text
    (answered,) = json.loads(str(attributes["gen_ai.output.messages"]))
    assert answered == {"role": "assistant", "parts": [{"type": "text", "content": "A secret answer [1]."}]}
