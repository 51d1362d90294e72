"""OpenAI's chat completion stream: from the raw body to texts, finish reason and usage.

Tolerant of what compatible servers leave out or add; never of an end that isn't one: without a finish reason (or
`[DONE]`) a stream is broken, however cleanly its connection was closed.
"""

from collections.abc import Mapping

from citewire_generator.model import FinishReason, Usage
from citewire_generator.providers.reading import AnswerReader
from citewire_remote.failures import as_list, as_mapping, count_of

_FINISH = {
    "stop": FinishReason.STOP,
    "eos": FinishReason.STOP,
    "end_turn": FinishReason.STOP,
    "stop_sequence": FinishReason.STOP,
    "tool_calls": FinishReason.TOOL_CALLS,
    "function_call": FinishReason.TOOL_CALLS,
    "length": FinishReason.LENGTH,
    "max_tokens": FinishReason.LENGTH,
    "model_length": FinishReason.LENGTH,
    "content_filter": FinishReason.CONTENT_FILTER,
    "safety": FinishReason.CONTENT_FILTER,
    "recitation": FinishReason.CONTENT_FILTER,
    "refusal": FinishReason.REFUSAL,
}
_REASONING = ("reasoning", "reasoning_content", "reasoning_details", "thinking", "function_call")


class OpenAiStream(AnswerReader):
    """Reads one streamed completion."""

    @property
    def finished(self) -> bool:
        """Whether the answer's end was read; usage may follow."""
        return self.done or self._finish is not None

    def _data(self, data: bytes, texts: list[str]) -> None:
        if data.strip() == b"[DONE]":
            self.done = True
        else:
            super()._data(data, texts)

    def _whole(self, answer: Mapping[str, object], texts: list[str]) -> None:
        self._event(answer, texts)

    def _event(self, event: Mapping[str, object], texts: list[str]) -> None:
        if event.get("error"):
            self._raise(event)
        self._read_usage(event)
        choices = as_list(event.get("choices"))
        if choices:
            self._choice(as_mapping(choices[0]), texts)

    def _choice(self, choice: Mapping[str, object], texts: list[str]) -> None:
        if choice.get("index") not in (0, None):
            return
        delta = as_mapping(choice.get("delta") or choice.get("message"))
        content = _content(delta.get("content"))
        refusal = delta.get("refusal")
        if isinstance(refusal, str) and refusal:
            self._refused = True
            content += refusal
        if content:
            self._text(content, texts)
        elif any(delta.get(name) for name in _REASONING):
            self.progress += 1
        for place, call in enumerate(as_list(delta.get("tool_calls"))):
            self._call(place, as_mapping(call))
        reason = choice.get("finish_reason")
        if isinstance(reason, str) and reason:
            if reason == "error":
                self._raise(choice)
            self._finish = self._named(reason, _FINISH)
            self.progress += 1

    def _call(self, place: int, call: Mapping[str, object]) -> None:
        """Adds a piece of a tool call; servers that send complete calls leave out their index."""
        function, call_id = as_mapping(call.get("function")), call.get("id")
        index = call.get("index")
        named = call_id if isinstance(call_id, str) and call_id else None
        key = index if isinstance(index, int) else named or place
        self._tool_call(key, call_id=call_id, name=function.get("name"), arguments=function.get("arguments"))

    def _read_usage(self, event: Mapping[str, object]) -> None:
        if not event.get("usage") and not event.get("x_groq"):
            return  # most events: there is one per token
        usage = as_mapping(event.get("usage")) or as_mapping(as_mapping(event.get("x_groq")).get("usage"))
        if "prompt_tokens" not in usage and "completion_tokens" not in usage:
            return
        details = as_mapping(usage.get("prompt_tokens_details"))
        self.usage = Usage(
            prompt_tokens=count_of(usage.get("prompt_tokens")),
            cached_prompt_tokens=count_of(details.get("cached_tokens")),
            cache_write_prompt_tokens=count_of(details.get("cache_write_tokens")),
            completion_tokens=count_of(usage.get("completion_tokens")),
        )


def _content(content: object) -> str:
    """Reads content, a string or a list of typed parts."""
    if isinstance(content, str):
        return content
    parts = [as_mapping(part).get("text") for part in as_list(content) if as_mapping(part).get("type") == "text"]
    return "".join(part for part in parts if isinstance(part, str))
