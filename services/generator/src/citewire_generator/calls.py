"""What is measured and accounted of one call to a model: times, a span, what it spent. Whatever its end."""

import asyncio
import time
from collections.abc import Generator
from contextlib import contextmanager

from opentelemetry.trace import SpanKind, Status, StatusCode

from citewire_generator import metrics
from citewire_generator.model import Usage
from citewire_generator.registry import Chosen
from citewire_generator.tokens import estimate_tokens
from citewire_kit.errors import CitewireError
from citewire_kit.metrics import record_operation, record_ttft
from citewire_kit.tracing import get_tracer
from citewire_ledger import LedgerCall, Spent

OPERATION = "chat"

UNBILLED = frozenset(
    {
        "PROVIDER_UNAVAILABLE",
        "PROVIDER_AUTH",
        "PROVIDER_RATE_LIMITED",
        "PROVIDER_REJECTED",
        "PROVIDER_ADDRESS",
        "CONTEXT_TOO_LONG",
    }
)
"""Errors with which a provider takes no prompt: before the first token they cost nothing. A stall or a cut may have."""

_tracer = get_tracer(__name__)


class Call:
    """One call.

    Args:
        chosen: Which model.
        prompt_tokens: Our estimate, for where the provider reports no usage.
        entry: The call's row in the ledger.
    """

    def __init__(self, chosen: Chosen, prompt_tokens: int, entry: LedgerCall) -> None:
        self._provider = chosen.provider.name
        self._model = chosen.model.name
        self._remote = chosen.model.remote
        self._prompt_tokens = prompt_tokens
        self._entry = entry
        self._gaps = metrics.token_gaps(self._provider, self._model)
        self._started = time.monotonic()
        self._last = 0.0
        self._received = 0

    def received(self, texts: tuple[str, ...]) -> None:
        """Notes text; the first is the first token."""
        now = time.monotonic()
        if self._last:
            self._gaps.observe(now - self._last)
        else:
            record_ttft(provider=self._provider, model=self._model, seconds=now - self._started)
        self._last = now
        self._received += sum(map(estimate_tokens, texts)) or 1
        self._entry.progress(self._received)

    def settle(self, reported: Usage | None, finish: str = "") -> Usage:
        """Notes the tokens for the ledger: those that the provider reported, or else our estimate.

        A model in this process spends none.
        """
        usage = reported
        if usage is None:
            prompt = self._prompt_tokens if self._remote else 0
            usage = Usage(prompt, completion_tokens=self._received if self._remote else 0, estimated=self._remote)
        if finish:
            self._entry.spent(
                Spent(
                    input_tokens=usage.prompt_tokens,
                    cached_input_tokens=usage.cached_prompt_tokens,
                    cache_write_input_tokens=usage.cache_write_prompt_tokens,
                    output_tokens=usage.completion_tokens,
                    estimated=usage.estimated,
                    finish=finish,
                )
            )
        return usage

    @contextmanager
    def measured(self) -> Generator[None, None, None]:
        """Measures the block. What a call spent that was left or failed, the ledger estimates."""
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
            if not self._received and error in UNBILLED:
                self._entry.spent(Spent(0))
            raise
        except Exception as exc:
            error = type(exc).__name__
            raise
        finally:
            seconds = time.monotonic() - self._started
            record_operation(
                provider=self._provider, model=self._model, operation=OPERATION, seconds=seconds, error_type=error
            )
            if error:
                span.set_attribute("error.type", error)
                span.set_status(Status(StatusCode.ERROR, error))
            span.end()
