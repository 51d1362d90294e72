"""Traces, from the first caller through two servers to a collector, and what they may contain."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing

import grpc
import pytest
from google.protobuf.wrappers_pb2 import StringValue
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from citewire_kit import client, interceptor_stages
from citewire_kit.errors import NotFound
from citewire_kit.tracing import build_provider
from echo_service import SERVICE, EchoServicer, running_echo_service, text
from otlp_collector import otlp_collector


async def test_one_request_is_one_trace_without_content(monkeypatch: pytest.MonkeyPatch) -> None:
    with otlp_collector() as collector:
        provider = build_provider("test", collector.endpoint)
        tracer = provider.get_tracer("test")
        monkeypatch.setattr(interceptor_stages, "_tracer", tracer)
        monkeypatch.setattr(client, "_tracer", tracer)

        async def fail(_request: StringValue) -> StringValue:
            raise NotFound("no document secret-question", reason="DOCUMENT_NOT_FOUND")

        async with running_echo_service(EchoServicer(unary=fail)) as b:

            async def through(request: StringValue) -> AsyncGenerator[StringValue]:
                yield request
                await client.unary(b.stub.unary, request, timeout=5)

            async with running_echo_service(EchoServicer(server_stream=through)) as a:
                with pytest.raises(NotFound):
                    await _read(client.stream(a.stub.server_stream, text("secret-question"), timeout=5))
        await asyncio.to_thread(provider.shutdown)

    spans = [exported.span for exported in collector.spans]
    assert len({span.trace_id for span in spans}) == 1
    by_id = {span.span_id: span for span in spans}
    chain: list[tuple[str, int]] = []
    (span,) = (span for span in spans if span.span_id not in {other.parent_span_id for other in spans})
    while True:
        chain.append((span.name, span.kind))
        if span.parent_span_id not in by_id:
            break
        span = by_id[span.parent_span_id]
    assert chain == [
        (f"{SERVICE}/Unary", Span.SPAN_KIND_SERVER),
        (f"{SERVICE}/Unary", Span.SPAN_KIND_CLIENT),
        (f"{SERVICE}/ServerStream", Span.SPAN_KIND_SERVER),
        (f"{SERVICE}/ServerStream", Span.SPAN_KIND_CLIENT),
    ]
    for span in spans:
        codes = [attribute.value.int_value for attribute in span.attributes if "status_code" in attribute.key]
        assert codes == [grpc.StatusCode.NOT_FOUND.value[0]]
        assert b"secret-question" not in span.SerializeToString()


async def _read(answers: AsyncGenerator[StringValue]) -> None:
    async with aclosing(answers):
        async for _ in answers:
            pass
