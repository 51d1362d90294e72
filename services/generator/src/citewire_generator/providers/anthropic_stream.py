"""Anthropic's message stream: from the raw body to texts, finish reason and usage.

Only `message_stop` is an end: a stream that stops after the reason was said is broken.
"""

from collections.abc import Mapping

from citewire_generator.model import FinishReason, Usage
from citewire_generator.providers.reading import AnswerReader, place_in
from citewire_remote.failures import as_list, as_mapping, count_of
from citewire_remote.redaction import Redaction

_FINISH = {
    "end_turn": FinishReason.STOP,
    "stop_sequence": FinishReason.STOP,
    "tool_use": FinishReason.TOOL_CALLS,
    "pause_turn": FinishReason.STOP,
    "max_tokens": FinishReason.LENGTH,
    "model_context_window_exceeded": FinishReason.LENGTH,
    "refusal": FinishReason.REFUSAL,
}
_INPUTS = ("input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens")


class AnthropicStream(AnswerReader):
    """Reads one streamed message."""

    def __init__(self, provider: str, redact: Redaction | None = None) -> None:
        super().__init__(provider, redact)
        self._counts: dict[str, int] = {}

    def _event(self, event: Mapping[str, object], texts: list[str]) -> None:
        kind = event.get("type")
        if kind == "content_block_delta":
            self._delta(place_in(event, "index"), as_mapping(event.get("delta")), texts)
        elif kind == "content_block_start":
            self._block(place_in(event, "index"), as_mapping(event.get("content_block")), texts)
        elif kind == "message_start":
            self._count(as_mapping(as_mapping(event.get("message")).get("usage")))
        elif kind == "message_delta":
            self._end(as_mapping(event.get("delta")), as_mapping(event.get("usage")))
        elif kind == "message_stop":
            self.done = True
        elif kind == "error" or event.get("error"):
            self._raise(event)

    def _whole(self, answer: Mapping[str, object], texts: list[str]) -> None:
        if answer.get("type") == "error" or answer.get("error"):
            self._raise(answer)
        for index, block in enumerate(as_list(answer.get("content"))):
            self._block(index, as_mapping(block), texts)
        if answer.get("stop_reason"):
            self._end(answer, as_mapping(answer.get("usage")))
            self.done = True

    def _block(self, index: object, block: Mapping[str, object], texts: list[str]) -> None:
        if block.get("type") == "tool_use":
            # In a stream, a block begins with an empty input; in a whole answer, it is complete.
            given = block.get("input") or ""
            self._tool_call(index, call_id=block.get("id"), name=block.get("name"), arguments=given)
            return
        text = block.get("text")
        if block.get("type") == "text" and isinstance(text, str) and text:
            self._text(text, texts)

    def _delta(self, index: object, delta: Mapping[str, object], texts: list[str]) -> None:
        text = delta.get("text")
        if delta.get("type") == "input_json_delta" and index in self._calls:
            self._tool_call(index, arguments=delta.get("partial_json"))
        elif delta.get("type") != "text_delta":
            self.progress += 1  # thinking or a citation: the model is working
        elif isinstance(text, str) and text:
            self._text(text, texts)

    def _end(self, delta: Mapping[str, object], usage: Mapping[str, object]) -> None:
        if delta.get("stop_reason"):
            self._finish = self._named(delta.get("stop_reason"), _FINISH)
            self.progress += 1
        self._count(usage)
        if "output_tokens" in usage:
            read, written = self._counts.get("cache_read_input_tokens", 0), self._counts.get(_INPUTS[2], 0)
            self.usage = Usage(
                # Anthropic counts tokens read from its cache and written to it separately from the rest of the prompt.
                prompt_tokens=self._counts.get("input_tokens", 0) + read + written,
                cached_prompt_tokens=read,
                cache_write_prompt_tokens=written,
                completion_tokens=count_of(usage.get("output_tokens")),
            )

    def _count(self, usage: Mapping[str, object]) -> None:
        """Counts of the prompt; if the end repeats them, those are billed."""
        self._counts |= {name: count_of(usage[name]) for name in _INPUTS if usage.get(name) is not None}
