"""Spans of calls to models: the conventions' attributes, and content only on request."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import get_args

import pytest
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.semconv._incubating.attributes import gen_ai_attributes
from opentelemetry.trace import SpanKind, StatusCode
from prometheus_client import REGISTRY

from citewire_kit import genai
from citewire_kit.errors import Unavailable
from citewire_kit.genai import Operation, measured_call, model_span
from citewire_kit.metrics import init_model
from citewire_kit.tenant import CallContext, use_call_context
from citewire_kit.tracing import capture_content


@pytest.fixture
def exporter(monkeypatch: pytest.MonkeyPatch) -> Iterator[InMemorySpanExporter]:
    exporter, provider = InMemorySpanExporter(), TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    monkeypatch.setattr(genai, "_tracer", provider.get_tracer("test"))
    yield exporter
    capture_content(on=False)
    provider.shutdown()


def only_span(exporter: InMemorySpanExporter) -> ReadableSpan:
    (span,) = exporter.get_finished_spans()
    return span


def call_a_model() -> None:
    with model_span("chat", provider="openai", model="gpt") as span:
        span.record_input([("user", "a secret question")])
        span.record_first_token()
        span.record_output("a secret answer")
        span.record_usage(12, 3, cache_read=8, cache_written=2)
        span.record_limit(90)
        span.record_finish("stop")
        span.record_counts(retrieval_passages=5)


def test_the_attributes_of_a_call(exporter: InMemorySpanExporter) -> None:
    call_a_model()
    span = only_span(exporter)
    assert (span.name, span.kind) == ("chat gpt", SpanKind.CLIENT)
    attributes = dict(span.attributes or {})
    waited = attributes.pop("gen_ai.response.time_to_first_chunk")
    assert isinstance(waited, float)
    assert 0 <= waited <= ((span.end_time or 0) - (span.start_time or 0)) / 1e9
    assert attributes == {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "openai",
        "gen_ai.request.model": "gpt",
        "gen_ai.usage.input_tokens": 12,
        "gen_ai.usage.output_tokens": 3,
        "gen_ai.usage.cache_read.input_tokens": 8,
        "gen_ai.usage.cache_creation.input_tokens": 2,
        "gen_ai.request.max_tokens": 90,
        "gen_ai.request.stream": True,
        "gen_ai.response.finish_reasons": ("stop",),
        "citewire.retrieval.passages": 5,
    }
    assert not span.events


def test_content_is_recorded_on_request(exporter: InMemorySpanExporter) -> None:
    capture_content(on=True)
    call_a_model()
    attributes = only_span(exporter).attributes or {}
    asked = json.loads(str(attributes["gen_ai.input.messages"]))
    assert asked == [{"role": "user", "parts": [{"type": "text", "content": "a secret question"}]}]
    assert "a secret answer" in str(attributes["gen_ai.output.messages"])


@pytest.mark.parametrize("operation", get_args(Operation))
def test_every_call_of_a_chat_has_its_conversation(exporter: InMemorySpanExporter, operation: Operation) -> None:
    with use_call_context(CallContext("grounded", "e", "c7")), model_span(operation, provider="p", model="m"):
        pass
    assert (only_span(exporter).attributes or {})["gen_ai.conversation.id"] == "c7"


def test_names_are_those_of_the_conventions() -> None:
    known = {str(value) for name, value in vars(gen_ai_attributes).items() if name.startswith("GEN_AI_")}
    # In a newer release of the conventions than the package's.
    known.add("gen_ai.retrieval.top_k")
    used = set(re.findall(r'"(gen_ai\.[a-z_.]+)"', Path(genai.__file__).read_text()))
    assert len(used) > 15
    assert used <= known
    names = gen_ai_attributes.GenAiOperationNameValues  # pyright: ignore[reportDeprecated] # moved, but still in the package
    operations = {value.value for value in names}
    assert set(get_args(Operation)) - operations == {"rerank"}, "not in the conventions"


@pytest.mark.parametrize("content", [False, True])
def test_a_searchs_content_is_recorded_only_on_request(exporter: InMemorySpanExporter, *, content: bool) -> None:
    capture_content(on=content)
    with model_span("retrieval") as span:
        span.record_search("a secret question", 5)
        span.record_documents([(7, 0.5), (8, None)])
    attributes = dict(only_span(exporter).attributes or {})
    assert (attributes["gen_ai.operation.name"], attributes["gen_ai.retrieval.top_k"]) == ("retrieval", 5)
    assert attributes.get("gen_ai.retrieval.query.text") == ("a secret question" if content else None)
    documents = json.loads(str(attributes.get("gen_ai.retrieval.documents", "[]")))
    assert documents == ([{"id": "7", "score": 0.5}, {"id": "8"}] if content else [])


ERRORS = pytest.mark.parametrize(
    ("error", "kind"),
    [
        (Unavailable("no secret", reason="PROVIDER_UNAVAILABLE"), "PROVIDER_UNAVAILABLE"),
        (KeyError("secret"), "KeyError"),
        (asyncio.CancelledError(), "cancelled"),
    ],
)


@ERRORS
def test_an_error_is_its_class(exporter: InMemorySpanExporter, error: BaseException, kind: str) -> None:
    with pytest.raises(type(error)), model_span("retrieval"):
        raise error
    span = only_span(exporter)
    assert (span.name, span.kind) == ("retrieval", SpanKind.INTERNAL)
    assert (span.attributes or {})["error.type"] == kind
    assert span.status.status_code is StatusCode.ERROR
    assert "secret" not in span.to_json()


def calls_measured(model: str, error_type: str) -> float | None:
    labels = {
        "gen_ai_provider_name": "openai",
        "gen_ai_request_model": model,
        "gen_ai_operation_name": "rerank",
        "error_type": error_type,
    }
    return REGISTRY.get_sample_value("gen_ai_client_operation_duration_seconds_count", labels)


def test_a_call_is_measured(exporter: InMemorySpanExporter) -> None:
    init_model(provider="openai", model="measured", operation="rerank")
    with measured_call("rerank", provider="openai", model="measured") as span:
        span.record_usage(7)
    assert (only_span(exporter).attributes or {})["gen_ai.usage.input_tokens"] == 7
    assert calls_measured("measured", "") == 1


@ERRORS
def test_a_call_that_fails_is_measured_as_such(exporter: InMemorySpanExporter, error: BaseException, kind: str) -> None:
    init_model(provider="openai", model=f"measured-{kind}", operation="rerank")
    with pytest.raises(type(error)), measured_call("rerank", provider="openai", model=f"measured-{kind}"):
        raise error
    assert (only_span(exporter).attributes or {})["error.type"] == kind
    assert calls_measured(f"measured-{kind}", kind) == 1
    assert calls_measured(f"measured-{kind}", "") == 0
