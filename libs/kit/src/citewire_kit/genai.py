"""Spans of calls to models and of retrieval, with the attributes of OpenTelemetry's GenAI conventions.

They hold names, counts and codes. Prompts (questions, passages) and answers are recorded only where
`CITEWIRE_TRACE_CONTENT` is `on`; then everyone who can read the traces can read them too.
"""

import json
import time
from collections.abc import Generator, Iterable
from contextlib import contextmanager
from typing import Literal

from opentelemetry.trace import Span, SpanKind, StatusCode

from citewire_kit.errors import CitewireError
from citewire_kit.metrics import record_operation
from citewire_kit.spending import spend_tokens
from citewire_kit.tenant import current_call_context
from citewire_kit.tracing import captures_content, get_tracer

Operation = Literal["chat", "embeddings", "rerank", "retrieval"]

_tracer = get_tracer(__name__)


class ModelSpan:
    """The span of a running call. It isn't made current: an async generator may be closed in another context."""

    def __init__(self, span: Span) -> None:
        self._span = span
        self._start = time.perf_counter()

    def record_usage(
        self, input_tokens: int, output_tokens: int | None = None, *, cache_read: int = 0, cache_written: int = 0
    ) -> None:
        """Records the tokens of the call, also for its caller's limits; cached tokens are part of the input."""
        spend_tokens(input_tokens + (output_tokens or 0))
        self._span.set_attribute("gen_ai.usage.input_tokens", input_tokens)
        if output_tokens is not None:
            self._span.set_attribute("gen_ai.usage.output_tokens", output_tokens)
        if cache_read:
            self._span.set_attribute("gen_ai.usage.cache_read.input_tokens", cache_read)
        if cache_written:
            self._span.set_attribute("gen_ai.usage.cache_creation.input_tokens", cache_written)

    def record_limit(self, max_tokens: int) -> None:
        """Records how many tokens the model may write."""
        self._span.set_attribute("gen_ai.request.max_tokens", max_tokens)

    def record_dimensions(self, dimensions: int) -> None:
        """Records the length of an embedding's vectors."""
        self._span.set_attribute("gen_ai.embeddings.dimension.count", dimensions)

    def record_search(self, query: str, top_k: int) -> None:
        """Records the query of a search; its text only if content is captured."""
        self._span.set_attribute("gen_ai.retrieval.top_k", top_k)
        if self.captures_content:
            self._span.set_attribute("gen_ai.retrieval.query.text", query)

    def record_documents(self, documents: Iterable[tuple[int, float | None]]) -> None:
        """Records the ids and scores of a search's results, if content is captured."""
        if self.captures_content:
            listed = [
                {"id": str(number)} if score is None else {"id": str(number), "score": score}
                for number, score in documents
            ]
            self._span.set_attribute("gen_ai.retrieval.documents", json.dumps(listed))

    def record_finish(self, reason: str) -> None:
        """Records why the model stopped."""
        self._span.set_attribute("gen_ai.response.finish_reasons", [reason])

    def record_first_token(self) -> None:
        """Records the time to the first token of a streamed answer."""
        self._span.set_attribute("gen_ai.request.stream", True)
        self._span.set_attribute("gen_ai.response.time_to_first_chunk", time.perf_counter() - self._start)

    def record_counts(self, **counts: float | str | bool) -> None:
        """Records our own figures as `citewire.<name>`; underscores become dots."""
        for name, value in counts.items():
            self._span.set_attribute(f"citewire.{name.replace('_', '.')}", value)

    @property
    def captures_content(self) -> bool:
        """Whether `record_input` and `record_output` do anything; if not, callers needn't build their arguments."""
        return captures_content() and self._span.is_recording()

    def record_input(self, messages: Iterable[tuple[str, str]]) -> None:
        """Records the prompt as pairs of role and text, if content is captured."""
        self._record_messages("gen_ai.input.messages", messages)

    def record_output(self, text: str) -> None:
        """Records the answer, if content is captured."""
        self._record_messages("gen_ai.output.messages", [("assistant", text)])

    def record_error(self, error_type: str) -> None:
        """Records the class of the error that ended the call, never its message."""
        self._span.set_attribute("error.type", error_type)
        self._span.set_status(StatusCode.ERROR, error_type)

    def _record_messages(self, attribute: str, messages: Iterable[tuple[str, str]]) -> None:
        if self.captures_content:
            parts = [{"role": role, "parts": [{"type": "text", "content": text}]} for role, text in messages]
            self._span.set_attribute(attribute, json.dumps(parts, ensure_ascii=False))


@contextmanager
def model_span(operation: Operation, *, provider: str = "", model: str = "") -> Generator[ModelSpan]:
    """Opens a span around one call of a model, or around a search, which has neither provider nor model.

    An error that leaves the block, a cancellation included, ends the span with its class.
    """
    attributes = {"gen_ai.operation.name": operation}
    if provider:
        attributes["gen_ai.provider.name"] = provider
    if model:
        attributes["gen_ai.request.model"] = model
    if conversation_id := current_call_context().conversation_id:
        attributes["gen_ai.conversation.id"] = conversation_id
    kind = SpanKind.CLIENT if model else SpanKind.INTERNAL
    span = _tracer.start_span(f"{operation} {model}".rstrip(), kind=kind, attributes=attributes)
    call = ModelSpan(span)
    try:
        yield call
    except BaseException as exc:
        call.record_error(_error_type(exc))
        raise
    finally:
        span.end()


@contextmanager
def measured_call(operation: Operation, *, provider: str, model: str) -> Generator[ModelSpan]:
    """Opens a span around one call of a model, and records its duration and result in the metrics."""
    start, error = time.perf_counter(), ""
    try:
        with model_span(operation, provider=provider, model=model) as span:
            yield span
    except BaseException as exc:
        error = _error_type(exc)
        raise
    finally:
        seconds = time.perf_counter() - start
        record_operation(provider=provider, model=model, operation=operation, seconds=seconds, error_type=error)


def _error_type(exc: BaseException) -> str:
    if isinstance(exc, CitewireError):
        return exc.reason
    # CancelledError, or the GeneratorExit of a stream that was closed early.
    return type(exc).__name__ if isinstance(exc, Exception) else "cancelled"
