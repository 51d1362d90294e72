"""The parts of a request that go to the generator unchanged: tools, their calls, and the answer's format."""

import json
import re
from collections.abc import Iterable, Sequence
from typing import Any, Final

from citewire.generator.v1 import generator_pb2

from citewire_dialects.schemas.tools import NamedTool, ResponseFormat, ToolCallParam, ToolParam
from citewire_kit.errors import CitewireError

_MODES: Final = {
    "none": generator_pb2.TOOL_MODE_NONE,
    "auto": generator_pb2.TOOL_MODE_AUTO,
    "required": generator_pb2.TOOL_MODE_REQUIRED,
}

FIELD_NAMES: Final = (
    (re.compile(r"format\.(?:schema_json)"), "response_format.json_schema.schema"),
    (re.compile(r"format\."), "response_format.json_schema."),
    (re.compile(r"tools\.tools(\[\d+\])\.parameters_json"), r"tools\1.function.parameters"),
    (re.compile(r"tools\.tools(\[\d+\])"), r"tools\1.function"),
    (re.compile(r"tools\.tools"), "tools"),
    (re.compile(r"tools\.(?:mode|name)"), "tool_choice"),
    (re.compile(r"(?:history|continuation|images)(?:[\[.].*)?$"), "messages"),
)
"""Names of the generator's fields in requests, by prefix."""


def name_of_field(field: str, names: Iterable[tuple[re.Pattern[str], str]] = FIELD_NAMES) -> str:
    """Returns a generator field's name in requests; other names are unchanged."""
    for pattern, name in names:
        if pattern.match(field):
            return pattern.sub(name, field, count=1)
    return field


def renamed(error: CitewireError, names: Iterable[tuple[re.Pattern[str], str]] = FIELD_NAMES) -> dict[str, Any]:
    """Returns the members of a problem document, with the request's field names instead of the generator's."""
    fields = [name_of_field(violation.field, names) for violation in error.violations]
    if all(violation.field == field for violation, field in zip(error.violations, fields, strict=True)):
        return {}
    first = error.violations[0].field
    detail = fields[0] + error.message.removeprefix(first) if error.message.startswith(first) else error.message
    wrong = zip(fields, error.violations, strict=True)
    return {
        "detail": detail,
        "errors": [{"field": field, "message": violation.message} for field, violation in wrong],
    }


def passed_on(
    tools: Sequence[ToolParam] | None,
    choice: NamedTool | str | None,
    parallel: bool | None,  # as the field of the same name
    form: ResponseFormat | None,
) -> generator_pb2.GenerateRequest:
    """Returns the request's tools and answer format, if it has any."""
    request = generator_pb2.GenerateRequest()
    if tools:
        request.tools.CopyFrom(_tool_use(tools, choice, parallel))
    if form is not None and form.type != "text":
        request.format.CopyFrom(_answer_format(form))
    return request


def tool_calls(calls: Iterable[ToolCallParam] | None) -> list[generator_pb2.ToolCall]:
    """Returns an answer's tool calls."""
    return [
        generator_pb2.ToolCall(id=call.id, name=call.function.name, arguments=call.function.arguments)
        for call in calls or ()
    ]


def _tool_use(
    tools: Sequence[ToolParam], choice: NamedTool | str | None, parallel: bool | None
) -> generator_pb2.ToolUse:
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
        parallel=parallel,
    )


def _answer_format(form: ResponseFormat) -> generator_pb2.AnswerFormat:
    schema = form.json_schema
    if schema is None:
        return generator_pb2.AnswerFormat()
    return generator_pb2.AnswerFormat(
        name=schema.name,
        description=schema.description or "",
        schema_json="" if schema.schema_ is None else _json(schema.schema_),
        strict=bool(schema.strict),
    )


def _json(value: dict[str, Any]) -> str:
    return json.dumps(value, ensure_ascii=False)
