"""Ollama's own stream, a JSON object a line: from the raw body to texts, finish reason and usage.

Its servers are asked in OpenAI's format. One that answers in its own all the same (by its content type) is understood.
"""

from collections.abc import Mapping

from citewire_generator.model import FinishReason, Usage
from citewire_generator.providers.reading import AnswerReader
from citewire_remote.failures import as_list, as_mapping, count_of
from citewire_remote.stream_decoders import LineDecoder

CONTENT_TYPE = "application/x-ndjson"

_FINISH = {"stop": FinishReason.STOP, "length": FinishReason.LENGTH, "": FinishReason.STOP}


class OllamaStream(AnswerReader):
    """Reads one streamed answer of `/api/chat` or `/api/generate`."""

    decoder = LineDecoder

    def _whole(self, answer: Mapping[str, object], texts: list[str]) -> None:
        self._event(answer, texts)

    def _event(self, event: Mapping[str, object], texts: list[str]) -> None:
        if event.get("error"):
            self._raise(event)
        message = as_mapping(event.get("message"))
        text = message.get("content") or event.get("response")
        if isinstance(text, str) and text:
            self._text(text, texts)
        elif message.get("thinking") or event.get("thinking"):
            self.progress += 1
        for call in as_list(message.get("tool_calls")):  # each is complete and has no id
            function = as_mapping(as_mapping(call).get("function"))
            self._tool_call(object(), name=function.get("name"), arguments=function.get("arguments"))
        if event.get("done") is True:
            # Servers from 2024 sent no reason.
            self._finish = self._named(event.get("done_reason") or "", _FINISH)
            self.progress += 1
            self.done = True
            if "eval_count" in event:
                self.usage = Usage(
                    prompt_tokens=count_of(event.get("prompt_eval_count")),
                    completion_tokens=count_of(event.get("eval_count")),
                )
