"""Spans of calls to models and of retrieval, with the attributes of OpenTelemetry's GenAI conventions.

They hold names, counts and codes. What models are told (questions, passages) and answer is held only where
`CITEWIRE_TRACE_CONTENT` is `on`: then everyone who can read the traces can read that too.
"""

import json
import time
from collections.abc import Generator, Iterable
from contextlib import contextmanager
from typing import Literal

from opentelemetry.trace import Span, SpanKind, StatusCode

from citewire_kit.errors import CitewireError
from citewire_kit.metrics import record_operation
from citewire_kit.tracing import captures_content, get_tracer

Operation = Literal["chat", "embeddings", "rerank", "retrieval"]

_tracer = get_tracer(__name__)


class ModelSpan:
    """A span while the call runs. It isn't made current: an async generator may be closed in another context."""

    def __init__(self, span: Span) -> None:
        self._span = span

    def spent(self, input_tokens: int, output_tokens: int | None = None) -> None:
        """Notes the tokens of the call."""
        self._span.set_attribute("gen_ai.usage.input_tokens", input_tokens)
        if output_tokens is not None:
            self._span.set_attribute("gen_ai.usage.output_tokens", output_tokens)

    def finished(self, reason: str) -> None:
        """Notes why the model stopped."""
        self._span.set_attribute("gen_ai.response.finish_reasons", [reason])

    def first_token(self) -> None:
        """Notes the moment of the first token."""
        self._span.add_event("first token")

    def counted(self, **counts: float | str | bool) -> None:
        """Notes figures of our own, as `citewire.<name>`; an underscore becomes a dot."""
        for name, value in counts.items():
            self._span.set_attribute(f"citewire.{name.replace('_', '.')}", value)

    @property
    def wants_content(self) -> bool:
        """Whether `asked` and `answered` keep anything: what is only for them needn't be made otherwise."""
        return captures_content() and self._span.is_recording()

    def asked(self, messages: Iterable[tuple[str, str]]) -> None:
        """Notes what was asked, as pairs of role and text, where content is captured."""
        self._keep("gen_ai.input.messages", messages)

    def answered(self, text: str) -> None:
        """Notes what was answered, where content is captured."""
        self._keep("gen_ai.output.messages", [("assistant", text)])

    def failed(self, error_type: str) -> None:
        """Notes the class of the error that the call ended with; never its message."""
        self._span.set_attribute("error.type", error_type)
        self._span.set_status(StatusCode.ERROR, error_type)

    def _keep(self, attribute: str, messages: Iterable[tuple[str, str]]) -> None:
        if self.wants_content:
            kept = [{"role": role, "parts": [{"type": "text", "content": text}]} for role, text in messages]
            self._span.set_attribute(attribute, json.dumps(kept, ensure_ascii=False))


@contextmanager
def model_span(operation: Operation, *, provider: str = "", model: str = "") -> Generator[ModelSpan]:
    """Opens a span around one call of a model (or around a search, which has neither provider nor model).

    An error that leaves the block ends the span with its class; a cancellation is one as well.
    """
    attributes = {"gen_ai.operation.name": operation}
    if provider:
        attributes["gen_ai.provider.name"] = provider
    if model:
        attributes["gen_ai.request.model"] = model
    kind = SpanKind.CLIENT if model else SpanKind.INTERNAL
    span = _tracer.start_span(f"{operation} {model}".rstrip(), kind=kind, attributes=attributes)
    found = ModelSpan(span)
    try:
        yield found
    except CitewireError as exc:
        found.failed(exc.reason)
        raise
    except Exception as exc:
        found.failed(type(exc).__name__)
        raise
    except BaseException:  # CancelledError, or GeneratorExit of a stream that nobody reads on
        found.failed("cancelled")
        raise
    finally:
        span.end()


@contextmanager
def measured_call(operation: Operation, *, provider: str, model: str) -> Generator[ModelSpan]:
    """Opens a span around one call of a model, and notes in the metrics how long it took and how it ended."""
    start, error = time.perf_counter(), ""
    try:
        with model_span(operation, provider=provider, model=model) as span:
            yield span
    except CitewireError as exc:
        error = exc.reason
        raise
    except Exception as exc:
        error = type(exc).__name__
        raise
    except BaseException:  # see model_span
        error = "cancelled"
        raise
    finally:
        seconds = time.perf_counter() - start
        record_operation(provider=provider, model=model, operation=operation, seconds=seconds, error_type=error)
