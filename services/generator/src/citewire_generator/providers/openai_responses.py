"""OpenAI's Responses API as a provider; some of its newest models support nothing else."""

from collections.abc import Mapping
from typing import ClassVar, Final

import httpx2
from citewire.generator.v1 import generator_pb2 as pb
from openai import RequestOptions

from citewire_generator.model import Message, Role
from citewire_generator.providers.base import ChatTask, Feature
from citewire_generator.providers.openai_compatible import (
    SCHEMA_NAME,
    OpenAiCompatible,
    response_format,
    tool_choice,
    tool_function,
)
from citewire_generator.providers.reading import AnswerReader
from citewire_generator.providers.remote import call_headers
from citewire_generator.providers.responses_stream import ResponsesStream

PROVIDER: Final = "openai-responses"
_LEAST_TOKENS: Final = 16
"""The API rejects a lower limit for an answer."""


class OpenAiResponses(OpenAiCompatible):
    """Streams answers from one base URL; nothing is stored there."""

    takes: ClassVar[frozenset[Feature]] = frozenset(
        {Feature.TOOLS, Feature.IMAGES, Feature.TOP_P, Feature.REASONING_EFFORT, Feature.VERBOSITY}
    )

    async def send(
        self, task: ChatTask, *, stream: bool, json_schema: Mapping[str, object] | None = None
    ) -> httpx2.Response:
        """See `RemoteChat.send`."""
        told = [message.content for message in task.messages if message.role is Role.SYSTEM and message.content]
        talk = [message for message in task.messages if message.role is not Role.SYSTEM]
        body: dict[str, object] = {
            "model": task.model,
            "input": [item for message in talk for item in _items(message)],
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
        else:
            body |= _text(task)
        if task.tools is not None:
            body |= _tools(task.tools)
        if task.sampling.HasField("top_p"):
            body["top_p"] = task.sampling.top_p
        if task.sampling.reasoning_effort:
            body["reasoning"] = {"effort": task.sampling.reasoning_effort}
        body |= self.cache_fields(task)
        options: RequestOptions = {"headers": call_headers(self._authorization, stream=stream)}
        return await self._sdk.post("/responses", cast_to=httpx2.Response, body=body, options=options)

    def reader(self, content_type: str) -> AnswerReader:
        """See `RemoteChat.reader`."""
        del content_type
        return ResponsesStream(self.name, self._redact)


def _items(message: Message) -> list[dict[str, object]]:
    """A message as items: each tool call and each result is a separate item."""
    if message.tool_call_id:
        return [{"type": "function_call_output", "call_id": message.tool_call_id, "output": message.content}]
    items: list[dict[str, object]] = []
    if message.images:
        text = [{"type": "input_text", "text": message.content}] if message.content else []
        items.append({"role": message.role.value, "content": [*text, *map(_image, message.images)]})
    elif message.content:
        items.append({"role": message.role.value, "content": message.content})
    return items + [
        {"type": "function_call", "call_id": call.id, "name": call.name, "arguments": call.arguments or "{}"}
        for call in message.tool_calls
    ]


def _image(image: pb.Image) -> dict[str, object]:
    return {"type": "input_image", "image_url": image.url, "detail": image.detail or "auto"}


def _text(task: ChatTask) -> dict[str, object]:
    """The format of the answer."""
    text: dict[str, object] = {}
    if task.format is not None:
        wire = response_format(task.format)
        schema = wire.pop("json_schema", {})
        text["format"] = {**wire, **schema} if isinstance(schema, dict) else wire
    if task.sampling.verbosity:
        text["verbosity"] = task.sampling.verbosity
    return {"text": text} if text else {}


def _tools(use: pb.ToolUse) -> dict[str, object]:
    """Tools and their choice. Members of `function` elsewhere are on the same level as the type here."""
    tools = [{"type": "function", "strict": False, **tool_function(tool)} for tool in use.tools]
    choice = {"type": "function", "name": use.name} if use.name else tool_choice(use)
    body: dict[str, object] = {"tools": tools, "tool_choice": choice}
    return body | ({"parallel_tool_calls": use.parallel} if use.HasField("parallel") else {})
