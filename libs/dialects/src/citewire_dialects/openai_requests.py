"""What a chat completion asks of the generator, in the generator's messages."""

import json
import re
from collections.abc import Sequence
from typing import Any, Final

from citewire.generator.v1 import generator_pb2

from citewire_dialects.asked import ROLES, Asked
from citewire_dialects.schemas.openai import (
    CompletionMessage,
    CompletionRequest,
    ImageUrl,
    NamedTool,
    ResponseFormat,
    ToolParam,
)

_MODES: Final = {
    "none": generator_pb2.TOOL_MODE_NONE,
    "auto": generator_pb2.TOOL_MODE_AUTO,
    "required": generator_pb2.TOOL_MODE_REQUIRED,
}
_PARAMS: Final = (
    (re.compile(r"format\.(?:schema_json)"), "response_format.json_schema.schema"),
    (re.compile(r"format\."), "response_format.json_schema."),
    (re.compile(r"tools\.tools(\[\d+\])\.parameters_json"), r"tools\1.function.parameters"),
    (re.compile(r"tools\.tools(\[\d+\])"), r"tools\1.function"),
    (re.compile(r"tools\.tools"), "tools"),
    (re.compile(r"tools\.(?:mode|name)"), "tool_choice"),
    (re.compile(r"sampling\."), ""),
    (re.compile(r"(?:history|continuation|images)(?:[\[.].*)?$"), "messages"),
    (re.compile(r"keep$"), "store"),
)
"""What the generator's fields are called in OpenAI's requests; a prefix each."""


def read_completion(body: CompletionRequest) -> Asked:
    """Returns what a request asks."""
    last = max(place for place, message in enumerate(body.messages) if message.role == "user")
    talk = [_message(message) for message in body.messages[: last + 1] if message.role in ROLES]
    passed_on = generator_pb2.GenerateRequest(
        continuation=[_message(message) for message in body.messages[last + 1 :] if message.role in ROLES],
        images=talk[-1].images,
        cache_key=body.prompt_cache_key or "",
    )
    if body.tools:
        passed_on.tools.CopyFrom(_tools(body.tools, body))
    if (answer_format := _format(body.response_format)) is not None:
        passed_on.format.CopyFrom(answer_format)
    sampling = _sampling(body)
    if sampling.ByteSize():
        passed_on.sampling.CopyFrom(sampling)
    rules = [message.text for message in body.messages if message.role in ("system", "developer")]
    return Asked(
        talk,
        f"messages.{last}.content",
        "\n\n".join(rules),
        passed_on,
        max_tokens=body.max_completion_tokens or body.max_tokens,
        temperature=body.temperature,
    )


def openai_param(field: str) -> str:
    """Returns what a field of ours is called in OpenAI's requests."""
    for pattern, name in _PARAMS:
        renamed, count = pattern.subn(name, field, count=1) if pattern.match(field) else (field, 0)
        if count:
            return renamed
    return field


def _message(message: CompletionMessage) -> generator_pb2.Message:
    calls = [
        generator_pb2.ToolCall(id=call.id, name=call.function.name, arguments=call.function.arguments)
        for call in message.tool_calls or ()
    ]
    return generator_pb2.Message(
        role=ROLES[message.role],
        content=message.text,
        tool_calls=calls,
        tool_call_id=message.tool_call_id or "",
        images=map(_image, message.images),
    )


def _image(image: ImageUrl) -> generator_pb2.Image:
    return generator_pb2.Image(url=image.url, detail=image.detail or "")


def _tools(tools: Sequence[ToolParam], body: CompletionRequest) -> generator_pb2.ToolUse:
    choice = body.tool_choice
    named = choice.function.name if isinstance(choice, NamedTool) else ""
    return generator_pb2.ToolUse(
        tools=[
            generator_pb2.Tool(
                name=tool.function.name,
                description=tool.function.description or "",
                parameters_json="" if tool.function.parameters is None else _json(tool.function.parameters),
                strict=bool(tool.function.strict),
            )
            for tool in tools
        ],
        mode=_MODES["required"] if isinstance(choice, NamedTool) else _MODES[choice or "auto"],
        name=named,
        parallel=body.parallel_tool_calls,
    )


def _format(answer_format: ResponseFormat | None) -> generator_pb2.AnswerFormat | None:
    if answer_format is None or answer_format.type == "text":
        return None
    schema = answer_format.json_schema
    if schema is None:
        return generator_pb2.AnswerFormat()
    return generator_pb2.AnswerFormat(
        name=schema.name,
        description=schema.description or "",
        schema_json="" if schema.schema_ is None else _json(schema.schema_),
        strict=bool(schema.strict),
    )


def _sampling(body: CompletionRequest) -> generator_pb2.Sampling:
    """What is set; values that change nothing count as not set, as many clients always send them."""
    return generator_pb2.Sampling(
        top_p=None if body.top_p == 1 else body.top_p,
        stop=[body.stop] if isinstance(body.stop, str) else body.stop,
        seed=body.seed,
        frequency_penalty=body.frequency_penalty or None,
        presence_penalty=body.presence_penalty or None,
        reasoning_effort=body.reasoning_effort or "",
        verbosity="" if body.verbosity in (None, "medium") else body.verbosity,
    )


def _json(value: dict[str, Any]) -> str:
    return json.dumps(value, ensure_ascii=False)
