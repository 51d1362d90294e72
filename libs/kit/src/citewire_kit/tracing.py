"""Spans and W3C trace context, with the OpenTelemetry API.

The context travels as `traceparent`/`tracestate` in HTTP headers, gRPC metadata and ingest jobs, whether or not spans
are exported, so that all logs of one request share a trace id. Spans hold names, codes and counts; questions,
passages and answers only if that is enabled (see `genai`).
"""

from collections.abc import Mapping, MutableMapping

from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF, ALWAYS_ON, ParentBased
from opentelemetry.trace import Tracer
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

_PROPAGATOR = TraceContextTextMapPropagator()


class _Content:
    """Whether spans may contain prompts and answers."""

    captured = False


def capture_content(*, on: bool) -> None:
    """Sets, once for the process, whether spans contain prompts and answers. They don't by default."""
    _Content.captured = on


def captures_content() -> bool:
    """Whether spans contain prompts and answers."""
    return _Content.captured


def get_tracer(name: str) -> Tracer:
    """Returns the tracer of the module `name`."""
    return trace.get_tracer(name)


def inject(carrier: MutableMapping[str, str], context: Context | None = None) -> None:
    """Writes the current (or given) trace context into `carrier` as `traceparent` and `tracestate`."""
    _PROPAGATOR.inject(carrier, context)


def extract(carrier: Mapping[str, str]) -> Context:
    """Reads the trace context from `carrier`, which has lower-case keys; an empty context if there is none."""
    return _PROPAGATOR.extract(carrier)


def current_ids() -> tuple[str, str] | None:
    """Returns trace id and span id of the current span as hexadecimal digits, or None."""
    span = trace.get_current_span().get_span_context()
    return (f"{span.trace_id:032x}", f"{span.span_id:016x}") if span.is_valid else None


def build_provider(service: str, otlp_endpoint: str | None) -> TracerProvider:
    """Builds the tracer provider.

    With an endpoint, spans are exported in batches. Without one, new traces aren't recorded (which costs almost
    nothing) but still have ids; a caller's sampling decision is passed on.
    """
    resource = Resource.create({"service.name": service})
    if otlp_endpoint is None:
        return TracerProvider(resource=resource, sampler=ParentBased(ALWAYS_OFF), shutdown_on_exit=False)
    # Imported here: the exporter brings in the synchronous gRPC stack, which processes without export don't need.
    from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter
    from opentelemetry.sdk.trace.export import BatchSpanProcessor

    provider = TracerProvider(resource=resource, sampler=ParentBased(ALWAYS_ON), shutdown_on_exit=False)
    exporter = OTLPSpanExporter(endpoint=otlp_endpoint, insecure=otlp_endpoint.startswith("http://"))
    provider.add_span_processor(BatchSpanProcessor(exporter))
    return provider
