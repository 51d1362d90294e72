"""OpenAI's chat completion stream: from the raw body to texts, finish reason and usage.

Tolerant of what compatible servers leave out or add; never of an end that isn't one: without a finish reason (or
`[DONE]`) a stream is broken, however cleanly its connection was closed.
"""

import json
import re
from collections.abc import Mapping

from citewire_generator.model import FinishReason, Usage
from citewire_kit.errors import CitewireError
from citewire_kit.telemetry import get_logger
from citewire_remote.failures import as_list, as_mapping, from_stream, read_complaint, stream_broken
from citewire_remote.redaction import Redaction
from citewire_remote.sse import SseDecoder

log = get_logger(__name__)

_FINISH = {
    "stop": FinishReason.STOP,
    "eos": FinishReason.STOP,
    "end_turn": FinishReason.STOP,
    "stop_sequence": FinishReason.STOP,
    "tool_calls": FinishReason.STOP,
    "function_call": FinishReason.STOP,
    "length": FinishReason.LENGTH,
    "max_tokens": FinishReason.LENGTH,
    "model_length": FinishReason.LENGTH,
    "content_filter": FinishReason.CONTENT_FILTER,
    "safety": FinishReason.CONTENT_FILTER,
    "recitation": FinishReason.CONTENT_FILTER,
    "refusal": FinishReason.REFUSAL,
}
_SURROGATE = re.compile("[\ud800-\udfff]")
_HIGH_AT_END = re.compile("[\ud800-\udbff]\\Z")
_REASONING = ("reasoning", "reasoning_content", "reasoning_details", "thinking", "tool_calls", "function_call")


class OpenAiStream:
    """Reads one streamed completion.

    Args:
        provider: The provider's name, for errors.
        redact: Keeps its key and address out of the log.
    """

    def __init__(self, provider: str, redact: Redaction | None = None) -> None:
        self._provider = provider
        self._redact = redact or Redaction()
        self._sse = SseDecoder()
        self._finish: FinishReason | None = None
        self._refused = False
        self._high = ""
        self._failure: CitewireError | None = None
        self.done = False
        """Whether `[DONE]` was read."""
        self.usage: Usage | None = None
        """What the provider reported, the last report if there are several."""
        self.progress = 0
        """Events so far that carry text, reasoning or an end; comments and empty ones don't count."""

    @property
    def finished(self) -> bool:
        """Whether the answer's end was read; usage may follow."""
        return self.done or self._finish is not None

    @property
    def finish_reason(self) -> FinishReason:
        """Why the answer ended; STOP if only `[DONE]` said so."""
        if self._refused and self._finish in {None, FinishReason.STOP}:
            return FinishReason.REFUSAL
        return self._finish or FinishReason.STOP

    def feed(self, chunk: bytes) -> list[str]:
        """Takes the next bytes and returns the texts that they complete.

        Texts before an error are returned, and the error is raised by the next call, or by `check`.

        Raises:
            CitewireError: The stream carries an error, or can't be understood.
        """
        self.check()
        texts: list[str] = []
        try:
            for data in self._sse.feed(chunk):
                self._event(data, texts)
        except CitewireError as exc:
            if not texts:
                raise
            self._failure = exc
        return texts

    def check(self) -> None:
        """Raises the error that came after the texts that `feed` returned last, if there was one."""
        if self._failure is not None:
            raise self._failure

    def finish(self) -> list[str]:
        """Notes the end of the body.

        Raises:
            Unavailable: The answer hadn't ended.
        """
        self.check()
        texts: list[str] = []
        for data in self._sse.finish():
            self._event(data, texts)
        if not self.finished:
            raise stream_broken("it ended before the answer did")
        if not self.done:
            log.warning("provider_stream_without_done", provider=self._provider)
        if self._high:
            texts.append("\ufffd")
            self._high = ""
        return texts

    def whole(self, body: bytes) -> list[str]:
        """Reads a completion that a server sent in one piece although a stream was asked for."""
        texts: list[str] = []
        self._event(body, texts)
        if not self.finished:
            raise stream_broken("it isn't a completion")
        self.done = True
        return texts

    def _event(self, data: bytes, texts: list[str]) -> None:
        stripped = data.strip()
        if not stripped or self.done:
            return
        if stripped == b"[DONE]":
            self.done = True
            return
        try:
            event = as_mapping(json.loads(stripped.decode("utf-8")))
        except ValueError as exc:
            raise stream_broken("an event isn't JSON") from exc
        if event.get("error"):
            self._raise(event)
        self._read_usage(event)
        choices = as_list(event.get("choices"))
        if choices:
            self._choice(as_mapping(choices[0]), texts)

    def _choice(self, choice: Mapping[str, object], texts: list[str]) -> None:
        if choice.get("index") not in {0, None}:
            return
        delta = as_mapping(choice.get("delta") or choice.get("message"))
        content = _text(delta.get("content"))
        refusal = delta.get("refusal")
        if isinstance(refusal, str) and refusal:
            self._refused = True
            content += refusal
        if content:
            content = self._whole_characters(content)
            if content:
                texts.append(content)
            self.progress += 1
        elif any(delta.get(name) for name in _REASONING):
            self.progress += 1
        reason = choice.get("finish_reason")
        if isinstance(reason, str) and reason:
            if reason == "error":
                self._raise(choice)
            if reason not in _FINISH:
                log.warning("provider_finish_reason_unknown", provider=self._provider, finish_reason=reason[:40])
            self._finish = _FINISH.get(reason, FinishReason.STOP)
            self.progress += 1

    def _whole_characters(self, text: str) -> str:
        """Joins the halves of a character that a server divided between two events; a lone half is replaced."""
        if not self._high and text.isascii():
            return text
        text = self._high + text
        self._high = ""
        high = _HIGH_AT_END.search(text)
        if high:
            self._high = high.group()
            text = text[: high.start()]
        if _SURROGATE.search(text) is None:
            return text
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")

    def _read_usage(self, event: Mapping[str, object]) -> None:
        usage = as_mapping(event.get("usage")) or as_mapping(as_mapping(event.get("x_groq")).get("usage"))
        if "prompt_tokens" not in usage and "completion_tokens" not in usage:
            return
        details = as_mapping(usage.get("prompt_tokens_details"))
        self.usage = Usage(
            prompt_tokens=_count(usage.get("prompt_tokens")),
            cached_prompt_tokens=_count(details.get("cached_tokens")),
            completion_tokens=_count(usage.get("completion_tokens")),
        )

    def _raise(self, event: Mapping[str, object]) -> None:
        complaint = read_complaint(event)
        log.warning("provider_error_in_stream", provider=self._provider, **complaint.shown(self._redact))
        raise from_stream(complaint, self._provider)


def _text(content: object) -> str:
    """Content is a string, or a list of typed parts."""
    if isinstance(content, str):
        return content
    parts = [as_mapping(part).get("text") for part in as_list(content) if as_mapping(part).get("type") == "text"]
    return "".join(part for part in parts if isinstance(part, str))


def _count(value: object) -> int:
    return value if isinstance(value, int) and value > 0 else 0
