"""OpenAI's Responses API: from the raw body to texts, finish reason and usage.

Only `response.completed`, `response.incomplete` and `response.failed` are ends: a stream that stops before is broken.
"""

from collections.abc import Mapping

from citewire_generator.model import FinishReason, Usage
from citewire_generator.providers.reading import AnswerReader, place_in, text_in
from citewire_remote.failures import as_list, as_mapping, count_of

_INCOMPLETE = {
    "max_output_tokens": FinishReason.LENGTH,
    "max_tokens": FinishReason.LENGTH,
    "content_filter": FinishReason.CONTENT_FILTER,
}
_TEXTS = frozenset({"response.output_text.delta", "response.refusal.delta"})
_ENDS = frozenset({"response.completed", "response.incomplete", "response.failed", "response.cancelled"})


class ResponsesStream(AnswerReader):
    """Reads one streamed response."""

    def _event(self, event: Mapping[str, object], texts: list[str]) -> None:
        kind, index = text_in(event, "type"), place_in(event, "output_index")
        if kind in _TEXTS:
            self._refused = self._refused or kind == "response.refusal.delta"
            delta = event.get("delta")
            if isinstance(delta, str) and delta:
                self._text(delta, texts)
        elif kind == "response.output_item.added":
            self._call(index, as_mapping(event.get("item")))
        elif kind == "response.function_call_arguments.delta" and index in self._calls:
            self._tool_call(index, arguments=event.get("delta"))
        elif kind in _ENDS:
            self._end(as_mapping(event.get("response")))
        elif kind == "error" or event.get("error"):
            # The error's members are in the event itself, or in a member `error`.
            self._raise(event if event.get("error") else {"error": event})
        elif kind.endswith(".delta"):
            self.progress += 1  # reasoning or a tool's input: the model is working

    def _whole(self, answer: Mapping[str, object], texts: list[str]) -> None:
        if not answer.get("status"):
            if answer.get("error"):
                self._raise(answer)
            return
        for index, item in enumerate(map(as_mapping, as_list(answer.get("output")))):
            self._call(index, item)
            for part in map(as_mapping, as_list(item.get("content"))):
                self._part(item, part, texts)
        self._end(answer)

    def _part(self, item: Mapping[str, object], part: Mapping[str, object], texts: list[str]) -> None:
        if item.get("type") != "message":
            return
        refusal = part.get("refusal") if part.get("type") == "refusal" else None
        text = part.get("text") if part.get("type") == "output_text" else refusal
        self._refused = self._refused or isinstance(refusal, str)
        if isinstance(text, str) and text:
            self._text(text, texts)

    def _call(self, index: object, item: Mapping[str, object]) -> None:
        """Adds the beginning of a tool call, or in a whole answer all of it."""
        if item.get("type") == "function_call":
            arguments = item.get("arguments")
            self._tool_call(index, call_id=item.get("call_id"), name=item.get("name"), arguments=arguments)

    def _end(self, response: Mapping[str, object]) -> None:
        if response.get("error") or text_in(response, "status") in {"failed", "cancelled"}:
            self._raise(response if response.get("error") else {"error": {"message": "the response failed"}})
        if response.get("status") == "incomplete":
            self._finish = self._named(as_mapping(response.get("incomplete_details")).get("reason"), _INCOMPLETE)
        else:
            self._finish = FinishReason.STOP
        usage = as_mapping(response.get("usage"))
        if "input_tokens" in usage or "output_tokens" in usage:
            details = as_mapping(usage.get("input_tokens_details"))
            self.usage = Usage(
                prompt_tokens=count_of(usage.get("input_tokens")),
                cached_prompt_tokens=count_of(details.get("cached_tokens")),
                cache_write_prompt_tokens=count_of(details.get("cache_write_tokens")),
                completion_tokens=count_of(usage.get("output_tokens")),
            )
        self.progress += 1
        self.done = True
