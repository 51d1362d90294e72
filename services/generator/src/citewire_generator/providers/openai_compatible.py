"""Any server that speaks OpenAI's chat completions: OpenAI, Ollama, vLLM, LM Studio, LiteLLM, OpenRouter."""

import hashlib
import json
from collections.abc import Mapping
from typing import Any, ClassVar, Final

import httpx2
import openai
from citewire.generator.v1 import generator_pb2 as pb
from openai import RequestOptions

from citewire_generator.model import Message
from citewire_generator.providers.base import ChatTask, Feature
from citewire_generator.providers.ollama_stream import CONTENT_TYPE, OllamaStream
from citewire_generator.providers.openai_stream import OpenAiStream
from citewire_generator.providers.reading import AnswerReader
from citewire_generator.providers.remote import RemoteChat, SdkErrors, call_headers

PROVIDER: Final = "openai-compatible"
SCHEMA_NAME: Final = "answer"
_ROUTES_BY_KEY: Final = frozenset({"openai", "openai-responses"})
_MAX_KEY: Final = 64
"""Maximum characters of a key that OpenAI accepts."""
_TOOL_CHOICES: Final = {
    pb.TOOL_MODE_UNSPECIFIED: "auto",
    pb.TOOL_MODE_AUTO: "auto",
    pb.TOOL_MODE_NONE: "none",
    pb.TOOL_MODE_REQUIRED: "required",
}


class OpenAiCompatible(RemoteChat):
    """Streams answers from one base URL."""

    provider = PROVIDER
    takes_temperature: ClassVar[bool] = True
    takes: ClassVar[frozenset[Feature]] = frozenset(Feature)
    sdk_errors = SdkErrors(openai.APIStatusError, openai.APIConnectionError)

    def open_sdk(self, api_base: str, key: str, client: httpx2.AsyncClient) -> None:
        """See `RemoteChat.open_sdk`."""
        self._authorization = f"Bearer {key}" if key else openai.omit
        self._sdk = openai.AsyncOpenAI(
            api_key=key or "none",
            base_url=api_base,
            max_retries=0,
            timeout=None,
            http_client=client,
        )

    async def send(
        self, task: ChatTask, *, stream: bool, json_schema: Mapping[str, object] | None = None
    ) -> httpx2.Response:
        """See `RemoteChat.send`."""
        body: dict[str, object] = {
            "model": task.model,
            "messages": list(map(_message, task.messages)),
        }
        if stream:
            body |= {"stream": True, "stream_options": {"include_usage": True}}
        if task.max_completion_tokens is not None:
            # OpenAI's newer models reject the old name, and most other servers don't know the new one.
            limit = "max_completion_tokens" if self.name == "openai" else "max_tokens"
            body[limit] = task.max_completion_tokens
        if task.temperature is not None:
            body["temperature"] = task.temperature
        if json_schema is not None:
            schema = {"name": SCHEMA_NAME, "schema": json_schema, "strict": True}
            body["response_format"] = {"type": "json_schema", "json_schema": schema}
        elif task.format is not None:
            body["response_format"] = response_format(task.format)
        if task.tools is not None:
            body |= _tools(task.tools)
        body |= _sampling(task.sampling) | self.cache_fields(task)
        options: RequestOptions = {"headers": call_headers(self._authorization, stream=stream)}
        return await self._sdk.post("/chat/completions", cast_to=httpx2.Response, body=body, options=options)

    def cache_fields(self, task: ChatTask) -> dict[str, object]:
        """Field that makes OpenAI route a conversation's prompts to one cache; other servers may reject it."""
        if not task.cache_key or self.name not in _ROUTES_BY_KEY:
            return {}
        key = task.cache_key
        return {"prompt_cache_key": key if len(key) <= _MAX_KEY else hashlib.sha256(key.encode()).hexdigest()}

    def reader(self, content_type: str) -> AnswerReader:
        """See `RemoteChat.reader`."""
        if content_type == CONTENT_TYPE:
            return OllamaStream(self.name, self._redact)
        return OpenAiStream(self.name, self._redact)


def _message(message: Message) -> dict[str, object]:
    body: dict[str, object] = {"role": message.role.value, "content": message.content}
    if message.images:
        text = [{"type": "text", "text": message.content}] if message.content else []
        body["content"] = [*text, *map(_image, message.images)]
    if message.tool_calls:
        body["content"] = message.content or None
        body["tool_calls"] = [
            {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments or "{}"}}
            for call in message.tool_calls
        ]
    if message.tool_call_id:
        body["tool_call_id"] = message.tool_call_id
    return body


def _image(image: pb.Image) -> dict[str, object]:
    detail = {"detail": image.detail} if image.detail else {}
    return {"type": "image_url", "image_url": {"url": image.url, **detail}}


def response_format(answer_format: pb.AnswerFormat) -> dict[str, Any]:
    """The value of `response_format`."""
    if not answer_format.schema_json:
        return {"type": "json_object"}
    schema: dict[str, object] = {
        "name": answer_format.name or SCHEMA_NAME,
        "schema": json.loads(answer_format.schema_json),
        "strict": answer_format.strict,
    }
    if answer_format.description:
        schema["description"] = answer_format.description
    return {"type": "json_schema", "json_schema": schema}


def _tools(use: pb.ToolUse) -> dict[str, object]:
    body: dict[str, object] = {"tools": [{"type": "function", "function": tool_function(tool)} for tool in use.tools]}
    body["tool_choice"] = {"type": "function", "function": {"name": use.name}} if use.name else tool_choice(use)
    if use.HasField("parallel"):
        body["parallel_tool_calls"] = use.parallel
    return body


def tool_choice(use: pb.ToolUse) -> str:
    """Whether tools are called, if none is named."""
    return _TOOL_CHOICES[use.mode]


def tool_function(tool: pb.Tool) -> dict[str, object]:
    """A tool's function."""
    function: dict[str, object] = {"name": tool.name}
    if tool.description:
        function["description"] = tool.description
    if tool.parameters_json:
        function["parameters"] = json.loads(tool.parameters_json)
    if tool.strict:
        function["strict"] = True
    return function


def _sampling(sampling: pb.Sampling) -> dict[str, object]:
    """The sampling settings that are set, by OpenAI's names, which are ours too."""
    return {field.name: list(value) if field.name == "stop" else value for field, value in sampling.ListFields()}
