"""What is measured of one call to a model: time to first token, duration, tokens, a span. Whatever its end."""

import asyncio
import time
from collections.abc import Generator
from contextlib import contextmanager

from opentelemetry.trace import SpanKind, Status, StatusCode

from citewire_generator.model import Message, Usage
from citewire_generator.registry import Chosen
from citewire_generator.tokens import estimate_messages, estimate_tokens
from citewire_kit.errors import CitewireError
from citewire_kit.metrics import TokenType, record_operation, record_tokens, record_ttft
from citewire_kit.tracing import get_tracer

OPERATION = "chat"
_tracer = get_tracer(__name__)


class Call:
    """One call.

    Args:
        chosen: Which model.
        messages: The prompt, for an estimate where the provider reports no usage.
    """

    def __init__(self, chosen: Chosen, messages: tuple[Message, ...]) -> None:
        self._provider = chosen.provider.name
        self._model = chosen.model.name
        self._remote = chosen.model.remote
        self._messages = messages
        self._started = time.monotonic()
        self._received = 0
        self._settled = False

    def received(self, texts: tuple[str, ...]) -> None:
        """Notes text; the first is the first token."""
        if not self._received:
            record_ttft(provider=self._provider, model=self._model, seconds=time.monotonic() - self._started)
        self._received += sum(map(estimate_tokens, texts)) or 1

    def settle(self, reported: Usage | None) -> Usage:
        """Counts the tokens, once: those that the provider reported, or else our estimate.

        A model in this process spends none.
        """
        usage = reported
        if usage is None:
            prompt = estimate_messages(self._messages) if self._remote else 0
            usage = Usage(prompt, completion_tokens=self._received if self._remote else 0, estimated=self._remote)
        self._settled = True
        if self._remote:
            self._record("input", usage.prompt_tokens)
            self._record("output", usage.completion_tokens)
        return usage

    def _record(self, token_type: TokenType, count: int) -> None:
        record_tokens(
            provider=self._provider, model=self._model, operation=OPERATION, token_type=token_type, count=count
        )

    @contextmanager
    def measured(self) -> Generator[None, None, None]:
        """Measures the block. A call that was left or failed after its first token is settled by estimate."""
        # The span isn't made current: a generator may be closed in another context than it was opened in.
        span = _tracer.start_span(
            f"{OPERATION} {self._model}",
            kind=SpanKind.CLIENT,
            attributes={
                "gen_ai.operation.name": OPERATION,
                "gen_ai.provider.name": self._provider,
                "gen_ai.request.model": self._model,
            },
        )
        error = ""
        try:
            yield
        except (asyncio.CancelledError, GeneratorExit):
            error = "cancelled"
            raise
        except CitewireError as exc:
            error = exc.reason
            raise
        except Exception as exc:
            error = type(exc).__name__
            raise
        finally:
            if error and self._received and not self._settled:
                self.settle(None)
            seconds = time.monotonic() - self._started
            record_operation(
                provider=self._provider, model=self._model, operation=OPERATION, seconds=seconds, error_type=error
            )
            if error:
                span.set_attribute("error.type", error)
                span.set_status(Status(StatusCode.ERROR, error))
            span.end()
