"""Anthropic's Messages API, in the version that the SDK asks for (2026-10-21 with 2.x).

A temperature isn't sent: from that version on the API refuses a request that has one, whatever the model.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Final, TypedDict

import anthropic
import httpx2
from anthropic import RequestOptions
from citewire.generator.v1 import generator_pb2 as pb

from citewire_generator.model import Message, Role
from citewire_generator.providers.anthropic_stream import AnthropicStream
from citewire_generator.providers.base import ChatTask, Feature
from citewire_generator.providers.reading import AnswerReader
from citewire_generator.providers.remote import RemoteChat, SdkErrors, call_headers
from citewire_generator.tokens import estimate_messages
from citewire_kit.telemetry import get_logger

PROVIDER: Final = "anthropic"
MAX_TOKENS: Final = 2048
"""Completion tokens of a task without a limit, because the API requires one."""

CACHED_FROM: Final = 1024
"""Minimum tokens of a prefix marked for the cache. Some models require up to 4096, and ignore the mark below that."""

_CACHE: Final = {"cache_control": {"type": "ephemeral"}}
_EFFORTS: Final = {"minimal": "low", "low": "low", "medium": "medium", "high": "high", "xhigh": "xhigh", "max": "max"}
"""The API's names for efforts; "none" is expressed by another field."""
_TOOL_CHOICES: Final = {
    pb.TOOL_MODE_UNSPECIFIED: "auto",
    pb.TOOL_MODE_AUTO: "auto",
    pb.TOOL_MODE_NONE: "none",
    pb.TOOL_MODE_REQUIRED: "any",
}

log = get_logger(__name__)


class Turn(TypedDict):
    """A message in the API's form."""

    role: str
    content: list[dict[str, object]]


class AnthropicMessages(RemoteChat):
    """Streams answers."""

    provider = PROVIDER
    takes: ClassVar[frozenset[Feature]] = frozenset(
        {Feature.TOOLS, Feature.IMAGES, Feature.STOP, Feature.REASONING_EFFORT}
    )
    sdk_errors = SdkErrors(anthropic.APIStatusError, anthropic.APIConnectionError)

    def open_sdk(self, api_base: str, key: str, client: httpx2.AsyncClient) -> None:
        """See `RemoteChat.open_sdk`."""
        self._authorization = f"Bearer {key}" if key else anthropic.omit
        self._sdk = anthropic.AsyncAnthropic(
            api_key=key,
            # The SDK's paths begin with /v1.
            base_url=api_base.removesuffix("/v1"),
            max_retries=0,
            timeout=None,
            open_telemetry=False,
            http_client=client,
        )

    async def send(
        self, task: ChatTask, *, stream: bool, json_schema: Mapping[str, object] | None = None
    ) -> httpx2.Response:
        """See `RemoteChat.send`."""
        system, messages = _prompt(task.messages, reused=task.reused)
        body: dict[str, object] = {
            "model": task.model,
            "messages": messages,
            "max_tokens": task.max_completion_tokens or MAX_TOKENS,
        }
        if system:
            body["system"] = system
        if stream:
            body["stream"] = True
        sampling = task.sampling
        if sampling.stop:
            body["stop_sequences"] = list(sampling.stop)
        if sampling.reasoning_effort == "none":
            body["thinking"] = {"type": "disabled"}
        output = _output_config(json_schema, task)
        if output:
            body["output_config"] = output
        if task.tools is not None:
            body |= _tools(task.tools)
        options: RequestOptions = {"headers": call_headers(self._authorization, stream=stream)}
        return await self._sdk.post("/v1/messages", cast_to=httpx2.Response, body=body, options=options)

    def reader(self, content_type: str) -> AnswerReader:
        """See `RemoteChat.reader`."""
        del content_type
        return AnthropicStream(self.name, self._redact)


def _prompt(messages: Sequence[Message], *, reused: bool) -> tuple[list[dict[str, object]], list[Turn]]:
    """Splits system prompt and conversation, and marks repeated parts for the cache.

    These are the rules and, if the next prompt begins with this one, the whole prompt: the API finds the previous
    prompt's mark by itself, if there are no more than 20 blocks in between. Otherwise it is the conversation before the
    question, because the question's passages hardly ever repeat, and writing to the cache costs a quarter more.
    """
    rules = [message for message in messages if message.role is Role.SYSTEM and message.content]
    system = [block for message in rules for block in _blocks(message)]
    talk = [message for message in messages if message.role is not Role.SYSTEM and _blocks(message)]
    if system and estimate_messages(rules) >= CACHED_FROM:
        system[-1] |= _CACHE
    turns = [_turn(message) for message in talk]
    before = len(talk) if reused else _before_the_question(talk)
    if before and estimate_messages((*rules, *talk[:before])) >= CACHED_FROM:
        turns[before - 1]["content"][-1] |= _CACHE
    return system, _joined(turns)


def _before_the_question(talk: Sequence[Message]) -> int:
    """Number of messages before the last user message."""
    return max((place for place, message in enumerate(talk) if message.role is Role.USER), default=0)


def _turn(message: Message) -> Turn:
    role = Role.ASSISTANT if message.role is Role.ASSISTANT else Role.USER
    return {"role": role.value, "content": _blocks(message)}


def _joined(turns: Sequence[Turn]) -> list[Turn]:
    """Joins the results of parallel calls, which must be in one turn."""
    joined: list[Turn] = []
    for turn in turns:
        if joined and _is_result(turn) and _is_result(joined[-1]):
            joined[-1]["content"] += turn["content"]
        else:
            joined.append(turn)
    return joined


def _is_result(turn: Turn) -> bool:
    return turn["content"][0]["type"] == "tool_result"


def _blocks(message: Message) -> list[dict[str, object]]:
    if message.tool_call_id:
        return [{"type": "tool_result", "tool_use_id": message.tool_call_id, "content": message.content}]
    text: list[dict[str, object]] = [{"type": "text", "text": message.content}] if message.content else []
    calls: list[dict[str, object]] = [
        {"type": "tool_use", "id": call.id, "name": call.name, "input": json.loads(call.arguments or "{}")}
        for call in message.tool_calls
    ]
    return [*map(_image, message.images), *text, *calls]


def _image(image: pb.Image) -> dict[str, object]:
    if not image.url.startswith("data:"):
        return {"type": "image", "source": {"type": "url", "url": image.url}}
    media_type, _, data = image.url.removeprefix("data:").partition(";base64,")
    return {"type": "image", "source": {"type": "base64", "media_type": media_type, "data": data}}


def _output_config(json_schema: Mapping[str, object] | None, task: ChatTask) -> dict[str, object]:
    schema, config = json_schema, dict[str, object]()
    if schema is None and task.format is not None and task.format.schema_json:
        schema = _without_limits(json.loads(task.format.schema_json))
    if schema is not None:
        config["format"] = {"type": "json_schema", "schema": schema}
    if effort := _EFFORTS.get(task.sampling.reasoning_effort):
        config["effort"] = effort
    return config


def _without_limits(schema: dict[str, Any]) -> dict[str, Any] | None:
    """The schema without parts that the API rejects, such as limits of numbers; None if it can't be expressed.

    The prompt contains the whole schema, and the answer is validated against it.
    """
    try:
        return anthropic.transform_schema(schema)
    except (ValueError, TypeError, AssertionError, AttributeError, RecursionError) as exc:
        log.info("schema_not_sent", error=type(exc).__name__)
        return None


def _tools(use: pb.ToolUse) -> dict[str, object]:
    tools = [
        {
            "name": tool.name,
            "input_schema": json.loads(tool.parameters_json or '{"type": "object"}'),
            **({"description": tool.description} if tool.description else {}),
            **({"strict": True} if tool.strict else {}),
        }
        for tool in use.tools
    ]
    choice: dict[str, object] = {"type": "tool", "name": use.name} if use.name else {"type": _TOOL_CHOICES[use.mode]}
    if use.HasField("parallel") and use.mode != pb.TOOL_MODE_NONE:
        choice["disable_parallel_tool_use"] = not use.parallel
    return {"tools": tools, "tool_choice": choice}
