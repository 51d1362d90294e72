"""OpenAI's Responses API as a provider: what its newest models are asked by, some by nothing else."""

from collections.abc import Mapping
from typing import ClassVar, Final

import httpx2
from openai import RequestOptions

from citewire_generator.model import Role
from citewire_generator.providers.base import ChatTask, Feature
from citewire_generator.providers.openai_compatible import SCHEMA_NAME, OpenAiCompatible
from citewire_generator.providers.reading import AnswerReader
from citewire_generator.providers.remote import call_headers
from citewire_generator.providers.responses_stream import ResponsesStream

PROVIDER: Final = "openai-responses"
_LEAST_TOKENS: Final = 16
"""The API refuses a lower limit of an answer."""


class OpenAiResponses(OpenAiCompatible):
    """Streams answers from one base URL; nothing is kept there."""

    takes: ClassVar[frozenset[Feature]] = frozenset()

    async def send(
        self, task: ChatTask, *, stream: bool, json_schema: Mapping[str, object] | None = None
    ) -> httpx2.Response:
        """See `RemoteChat.send`."""
        told = [message.content for message in task.messages if message.role is Role.SYSTEM and message.content]
        talk = [message for message in task.messages if message.role is not Role.SYSTEM]
        body: dict[str, object] = {
            "model": task.model,
            "input": [{"role": message.role.value, "content": message.content} for message in talk],
            "store": False,
        }
        if told:
            body["instructions"] = "\n\n".join(told)
        if stream:
            body |= {"stream": True, "stream_options": {"include_obfuscation": False}}
        if task.max_completion_tokens is not None:
            body["max_output_tokens"] = max(task.max_completion_tokens, _LEAST_TOKENS)
        if task.temperature is not None:
            body["temperature"] = task.temperature
        if json_schema is not None:
            schema = {"type": "json_schema", "name": SCHEMA_NAME, "schema": json_schema, "strict": True}
            body["text"] = {"format": schema}
        options: RequestOptions = {"headers": call_headers(self._authorization, stream=stream)}
        return await self._sdk.post("/responses", cast_to=httpx2.Response, body=body, options=options)

    def reader(self, content_type: str) -> AnswerReader:
        """See `RemoteChat.reader`."""
        del content_type
        return ResponsesStream(self.name, self._redact)
