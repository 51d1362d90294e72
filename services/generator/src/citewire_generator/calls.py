"""Measures and accounts for one model call, whatever its outcome: times, a span, cost."""

import time
from collections.abc import Generator, Iterable
from contextlib import contextmanager
from typing import Final

from citewire_generator import metrics
from citewire_generator.model import Usage
from citewire_generator.registry import ChatModel
from citewire_generator.tokens import estimate_tokens
from citewire_kit.errors import CitewireError
from citewire_kit.genai import ModelSpan, measured_call
from citewire_kit.metrics import record_ttft
from citewire_ledger import CallUsage, LedgerCall

OPERATION: Final = "chat"

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
"""Errors for which a provider processes no prompt: before the first token they cost nothing, unlike a stall."""


class Call:
    """One call.

    Args:
        chat_model: The model.
        prompt_tokens: Our estimate, used if the provider reports no usage.
        entry: The call's row in the ledger.
    """

    def __init__(self, chat_model: ChatModel, prompt_tokens: int, entry: LedgerCall) -> None:
        self._provider = chat_model.provider.name
        self._model = chat_model.model.name
        self._remote = chat_model.model.remote
        self._prompt_tokens = prompt_tokens
        self._entry = entry
        self._gaps = metrics.token_gaps(self._provider, self._model)
        self._started = time.monotonic()
        self._last = 0.0
        self._received = 0
        self._span: ModelSpan | None = None
        self._reply: list[str] | None = None

    @property
    def traces_content(self) -> bool:
        """Whether the trace includes prompt and answer."""
        return self._span is not None and self._span.captures_content

    def asked(self, messages: Iterable[tuple[str, str]]) -> None:
        """Records the prompt, as pairs of role and text, in the trace, and later the answer."""
        if self._span is not None:
            self._span.record_input(messages)
            self._reply = []

    def received(self, texts: tuple[str, ...]) -> None:
        """Records text; the first call marks the first token."""
        now = time.monotonic()
        if self._last:
            self._gaps.observe(now - self._last)
        else:
            record_ttft(provider=self._provider, model=self._model, seconds=now - self._started)
            if self._span is not None:
                self._span.record_first_token()
        if self._reply is not None:
            self._reply.extend(texts)
        self._last = now
        self._received += sum(map(estimate_tokens, texts)) or 1
        self._entry.record_progress(self._received)

    def settle(self, reported: Usage | None, finish: str = "") -> Usage:
        """Records the tokens for the ledger: as reported by the provider, or else our estimate.

        A model in this process uses none.
        """
        usage = reported
        if usage is None:
            prompt = self._prompt_tokens if self._remote else 0
            usage = Usage(prompt, completion_tokens=self._received if self._remote else 0, estimated=self._remote)
        if finish:
            self._entry.record_usage(
                CallUsage(
                    input_tokens=usage.prompt_tokens,
                    cached_input_tokens=usage.cached_prompt_tokens,
                    cache_write_input_tokens=usage.cache_write_prompt_tokens,
                    output_tokens=usage.completion_tokens,
                    estimated=usage.estimated,
                    finish=finish,
                )
            )
        if self._span is not None:
            self._span.record_usage(
                usage.prompt_tokens,
                usage.completion_tokens,
                cache_read=usage.cached_prompt_tokens,
                cache_written=usage.cache_write_prompt_tokens,
            )
            if finish:
                self._span.record_finish(finish)
        return usage

    @contextmanager
    def measured(self) -> Generator[None, None, None]:
        """Measures the block. If a call fails or is cancelled, the ledger estimates its usage."""
        try:
            with measured_call(OPERATION, provider=self._provider, model=self._model) as self._span:
                if self._entry.new.max_output_tokens:
                    self._span.record_limit(self._entry.new.max_output_tokens)
                try:
                    yield
                finally:
                    if self._reply is not None:
                        self._span.record_output("".join(self._reply))
        except CitewireError as exc:
            if not self._received and exc.reason in UNBILLED:
                self._entry.record_usage(CallUsage(0))
            raise
