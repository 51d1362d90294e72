"""Validates a request's options for its answer: JSON, tools, images, sampling."""

import json
import re
from collections.abc import Sequence
from typing import Final

from citewire.generator.v1 import generator_pb2 as pb

from citewire_generator.json_schemas import SchemaError, read_schema
from citewire_kit.errors import Violations

MAX_SCHEMA_BYTES: Final = 64 * 1024
MAX_TOOLS: Final = 128
MAX_STOPS: Final = 4
MAX_STOP: Final = 200
MAX_IMAGES: Final = 20
MAX_IMAGE_BYTES: Final = 4 * 1024 * 1024
MAX_CONTINUATION: Final = 200
MAX_DESCRIPTION: Final = 4096

_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
_NAME_RULE: Final = "must be 1 to 64 letters, digits, `_` or `-`"
_DATA_URL = re.compile(r"data:image/(?:png|jpeg|gif|webp);base64,[A-Za-z0-9+/]+={0,2}")
_EFFORTS: Final = ("none", "minimal", "low", "medium", "high", "xhigh", "max")
_VERBOSITIES: Final = ("low", "medium", "high")
_DETAILS: Final = ("auto", "low", "high")


def check_text(v: Violations, text: str, field: str, max_bytes: int | None = None) -> None:
    """Checks that a text can be stored and isn't too long."""
    v.require("\0" not in text, field, "must not contain NUL characters")
    if max_bytes is not None and len(text) * 4 > max_bytes:
        v.require(len(text.encode()) <= max_bytes, field, f"must be at most {max_bytes:,} bytes of UTF-8")


def check_output(v: Violations, request: pb.GenerateRequest) -> None:
    """Checks format, tools, messages after the question, sampling and images, and completes the policy for them."""
    if request.HasField("format"):
        _check_format(v, request.format)
        # Markers would be inside values; citations of values are found by comparing them with the passages.
        request.policy.marker_style = pb.MARKER_STYLE_REMOVE
        request.policy.verify_citations = True
    if request.HasField("tools"):
        _check_tools(v, request.tools)
    _check_continuation(v, request.continuation)
    _check_sampling(v, request.sampling)
    images = [(f"images[{index}]", image) for index, image in enumerate(request.images)]
    _check_images(v, images)
    count = len(images) + sum(len(message.images) for message in request.history)
    v.require(count <= MAX_IMAGES, "images", f"must be at most {MAX_IMAGES} with those of the history")


def check_message(v: Violations, message: pb.Message, at: str) -> None:
    """Checks a message of a conversation, whose role is known."""
    something = bool(message.content or message.tool_calls or message.images or message.role == pb.ROLE_TOOL)
    v.require(something, f"{at}.content", "must not be empty")
    check_text(v, message.content, f"{at}.content")
    calls = not message.tool_calls or message.role == pb.ROLE_ASSISTANT
    v.require(calls, f"{at}.tool_calls", "are only allowed for the assistant")
    for index, call in enumerate(message.tool_calls):
        v.require(bool(call.id), f"{at}.tool_calls[{index}].id", "is required")
        v.require(bool(_NAME.fullmatch(call.name)), f"{at}.tool_calls[{index}].name", _NAME_RULE)
        v.require(
            not call.arguments.strip() or _is_object(call.arguments),
            f"{at}.tool_calls[{index}].arguments",
            "must be a JSON object",
        )
    answers = bool(message.tool_call_id) == (message.role == pb.ROLE_TOOL)
    v.require(answers, f"{at}.tool_call_id", "is required for the role tool, and has no meaning for others")
    v.require(not message.images or message.role == pb.ROLE_USER, f"{at}.images", "are only allowed for the user")
    _check_images(v, [(f"{at}.images[{index}]", image) for index, image in enumerate(message.images)])


def _check_format(v: Violations, answer_format: pb.AnswerFormat) -> None:
    v.require(not answer_format.name or bool(_NAME.fullmatch(answer_format.name)), "format.name", _NAME_RULE)
    check_text(v, answer_format.description, "format.description", MAX_DESCRIPTION)
    if not answer_format.schema_json:
        return
    check_text(v, answer_format.schema_json, "format.schema_json", MAX_SCHEMA_BYTES)
    if len(answer_format.schema_json.encode()) <= MAX_SCHEMA_BYTES:
        try:
            read_schema(answer_format.schema_json, strict=answer_format.strict)
        except SchemaError as exc:
            v.add("format.schema_json", str(exc))


def _check_tools(v: Violations, use: pb.ToolUse) -> None:
    v.require(1 <= len(use.tools) <= MAX_TOOLS, "tools.tools", f"must be 1 to {MAX_TOOLS}")
    names = [tool.name for tool in use.tools]
    for index, tool in enumerate(use.tools[:MAX_TOOLS]):
        at = f"tools.tools[{index}]"
        v.require(bool(_NAME.fullmatch(tool.name)), f"{at}.name", _NAME_RULE)
        v.require(tool.name not in names[:index], f"{at}.name", "is the name of an earlier tool: each needs its own")
        check_text(v, tool.description, f"{at}.description", MAX_SCHEMA_BYTES)
        if tool.parameters_json:
            check_text(v, tool.parameters_json, f"{at}.parameters_json", MAX_SCHEMA_BYTES)
            v.require(_is_object(tool.parameters_json), f"{at}.parameters_json", "must be a JSON schema of an object")
    v.require(use.mode in pb.ToolMode.values(), "tools.mode", "isn't a value of its enum")
    if use.name:
        v.require(use.name in names, "tools.name", "must be the name of one of the tools")
        v.require(use.mode == pb.TOOL_MODE_REQUIRED, "tools.name", "only has a meaning with REQUIRED")


def _check_continuation(v: Violations, messages: Sequence[pb.Message]) -> None:
    if not v.require(len(messages) <= MAX_CONTINUATION, "continuation", f"must be at most {MAX_CONTINUATION} messages"):
        return
    called: set[str] = set()
    for index, message in enumerate(messages):
        at = f"continuation[{index}]"
        roles = (pb.ROLE_ASSISTANT, pb.ROLE_TOOL)
        if not v.require(message.role in roles, f"{at}.role", "must be assistant or tool"):
            continue
        check_message(v, message, at)
        called |= {call.id for call in message.tool_calls}
        answers = message.role != pb.ROLE_TOOL or message.tool_call_id in called
        v.require(answers, f"{at}.tool_call_id", "must be the id of an earlier tool call")
    last_is_result = not messages or messages[-1].role == pb.ROLE_TOOL
    v.require(last_is_result, "continuation", "must end with a tool's result")


def _check_sampling(v: Violations, sampling: pb.Sampling) -> None:
    v.require(0 <= sampling.top_p <= 1, "sampling.top_p", "must be between 0 and 1")
    for name in ("frequency_penalty", "presence_penalty"):
        v.require(-2 <= getattr(sampling, name) <= 2, f"sampling.{name}", "must be between -2 and 2")
    v.require(len(sampling.stop) <= MAX_STOPS, "sampling.stop", f"must be at most {MAX_STOPS} texts")
    fit = all(0 < len(stop) <= MAX_STOP and "\0" not in stop for stop in sampling.stop)
    v.require(fit, "sampling.stop", f"must be texts of 1 to {MAX_STOP} characters")
    for name, values in (("reasoning_effort", _EFFORTS), ("verbosity", _VERBOSITIES)):
        value = getattr(sampling, name)
        v.require(not value or value in values, f"sampling.{name}", f"must be one of {', '.join(values)}")


def _check_images(v: Violations, images: Sequence[tuple[str, pb.Image]]) -> None:
    for at, image in images[: MAX_IMAGES + 1]:
        known = image.url.startswith(("https://", "http://")) or _DATA_URL.fullmatch(image.url) is not None
        rule = "must be an http(s) address or a data URL in base64 of a PNG, JPEG, GIF or WebP image"
        v.require(known and len(image.url) <= MAX_IMAGE_BYTES, f"{at}.url", f"{rule}, at most 4 MiB")
        v.require(not image.detail or image.detail in _DETAILS, f"{at}.detail", f"must be one of {', '.join(_DETAILS)}")


def _is_object(text: str) -> bool:
    try:
        return isinstance(json.loads(text), dict)
    except (ValueError, RecursionError):
        return False
