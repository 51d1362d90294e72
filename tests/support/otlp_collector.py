"""An OTLP endpoint on a separate thread, with the received spans."""

from __future__ import annotations

import threading
from collections.abc import Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import grpc
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)
from opentelemetry.proto.common.v1.common_pb2 import AnyValue
from opentelemetry.proto.trace.v1.trace_pb2 import Span

_SERVICE = "opentelemetry.proto.collector.trace.v1.TraceService"


@dataclass(frozen=True)
class ExportedSpan:
    """A span, and the process that exported it."""

    service: str
    span: Span = field(repr=False)

    @property
    def name(self) -> str:
        return self.span.name

    @property
    def attributes(self) -> dict[str, str | int | float | bool | list[str]]:
        return {attribute.key: _value(attribute.value) for attribute in self.span.attributes}


class Collector:
    """The spans received so far."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._got: dict[bytes, ExportedSpan] = {}
        self.endpoint = ""

    def export(self, request: ExportTraceServiceRequest, _context: object) -> ExportTraceServiceResponse:
        with self._lock:
            for resource in request.resource_spans:
                names = [a.value.string_value for a in resource.resource.attributes if a.key == "service.name"]
                for scope in resource.scope_spans:
                    # By id, because a batch is sent again if its response was late.
                    self._got.update((span.span_id, ExportedSpan(names[0], span)) for span in scope.spans)
        return ExportTraceServiceResponse()

    @property
    def spans(self) -> list[ExportedSpan]:
        """All spans, in the order of their arrival."""
        with self._lock:
            return list(self._got.values())

    def trace(self, trace_id: str) -> list[ExportedSpan]:
        """The spans of one trace, by its hexadecimal id."""
        return [entry for entry in self.spans if entry.span.trace_id.hex() == trace_id]


@contextmanager
def otlp_collector() -> Generator[Collector]:
    """Serves OTLP over gRPC until the block ends."""
    collector = Collector()
    handler: Any = grpc.unary_unary_rpc_method_handler(
        collector.export,
        request_deserializer=ExportTraceServiceRequest.FromString,
        response_serializer=ExportTraceServiceResponse.SerializeToString,
    )
    server = grpc.server(ThreadPoolExecutor(4))
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(_SERVICE, {"Export": handler}),))
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    collector.endpoint = f"http://127.0.0.1:{port}"
    try:
        yield collector
    finally:
        server.stop(None).wait()


def _value(value: AnyValue) -> str | int | float | bool | list[str]:
    kind = value.WhichOneof("value")
    if kind == "array_value":
        return [entry.string_value for entry in value.array_value.values]
    return getattr(value, kind or "string_value")
