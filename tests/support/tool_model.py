"""A chat model that calls the given tools and writes JSON that follows the requested schema.

It serves OpenAI's API on a separate thread. It calls a tool unless the last message is a tool's result; arguments
and JSON are generated from their schema. Otherwise it answers with the library's sentence on water, with a marker.
"""

from __future__ import annotations

import json
import re
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from typing import Any

import httpx
from aiohttp import web

from echo_model import EchoModel

WATER = "At sea level water boils at 100 degrees."
_USAGE = {"prompt_tokens": 50, "completion_tokens": 12, "total_tokens": 62}
_QUOTED = re.compile(r"'([^']{2,60})'")


class ToolModel(EchoModel):
    """The model."""

    def __init__(self) -> None:
        super().__init__(pause=0.0)
        self.requests = list[dict[str, Any]]()
        """The bodies of its requests."""

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        body: dict[str, Any] = await request.json()
        self.requests.append(body)
        deltas, reason = _deltas(body)
        if not body.get("stream"):
            text = "".join(delta.get("content", "") for delta in deltas)
            choice = {"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": reason}
            head = {"id": "1", "object": "chat.completion", "created": 1, "model": "tools"}
            return web.json_response({**head, "choices": [choice], "usage": _USAGE})
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        for delta in deltas:
            await response.write(_event([{"index": 0, "delta": delta, "finish_reason": None}]))
        await response.write(_event([{"index": 0, "delta": {}, "finish_reason": reason}]))
        await response.write(_event([], usage=_USAGE) + b"data: [DONE]\n\n")
        await response.write_eof()
        return response


@contextmanager
def answering_tool_model(base_url: str) -> Generator[ToolModel]:
    """Runs the model, which answers the chats of a stack until the block ends."""
    model = ToolModel()
    model.start()
    try:
        with httpx.Client(base_url=base_url, trust_env=False, timeout=60) as api:
            saved = {
                "provider": "openai-compatible",
                "model": "tools",
                "api_base": model.url,
                "api_key": "sk-of-a-test",
            }
            response = api.put("/v1/providers/chat", json=saved)
            assert response.status_code == 200, response.text
            try:
                yield model
            finally:
                assert api.delete("/v1/providers/chat").status_code == 204
    finally:
        model.stop()


def _deltas(body: dict[str, Any]) -> tuple[list[dict[str, Any]], str]:
    """The pieces of an answer, and its finish reason."""
    asked = str(body["messages"][-1].get("content"))
    tools: list[dict[str, Any]] = body.get("tools", [])
    choice: Any = body.get("tool_choice")
    if tools and choice != "none" and body["messages"][-1]["role"] != "tool":
        named: str = (tools[0] if isinstance(choice, str) or choice is None else choice)["function"]["name"]
        function = next(tool["function"] for tool in tools if tool["function"]["name"] == named)
        arguments = json.dumps(_example(function.get("parameters") or {}, asked), ensure_ascii=False)
        first: dict[str, Any] = {
            "index": 0,
            "id": "call_7f",
            "type": "function",
            "function": {"name": named, "arguments": ""},
        }
        half = len(arguments) // 2
        rest: list[dict[str, Any]] = [
            {"index": 0, "function": {"arguments": part}} for part in (arguments[:half], arguments[half:])
        ]
        return [{"tool_calls": [piece]} for piece in (first, *rest)], "tool_calls"
    wish: dict[str, Any] = body.get("response_format", {})
    if wish.get("type") == "json_schema":
        return [{"content": json.dumps(_example(wish["json_schema"]["schema"], asked), ensure_ascii=False)}], "stop"
    if wish.get("type") == "json_object":
        return [{"content": json.dumps({"setup": "Why do cats sit?", "punchline": "They stood too long."})}], "stop"
    prompt = json.dumps(body["messages"])
    form = "[SOURCE 1]" if "[SOURCE N]" in prompt else "[ref:1]"
    return [{"content": piece} for piece in ("At sea level ", WATER[13:-1], form, ".")], "stop"


def _example(schema: Mapping[str, Any], asked: str, definitions: Mapping[str, Any] | None = None) -> Any:  # noqa: ANN401 # JSON of any kind
    """A value that a schema allows; optional parts are left out or null."""
    definitions = schema.get("$defs", {}) if definitions is None else definitions
    assert definitions is not None
    if "$ref" in schema:
        return _example(definitions[schema["$ref"].rpartition("/")[2]], asked, definitions)
    for kind in ("anyOf", "oneOf", "allOf"):
        if kind in schema:
            options = schema[kind]
            return None if {"type": "null"} in options else _example(options[0], asked, definitions)
    if "enum" in schema:
        return schema["enum"][0]
    match schema.get("type", "object" if "properties" in schema else "string"):
        case "object":
            members = schema.get("properties", {})
            required = schema.get("required", ())
            return {name: _example(members[name], asked, definitions) for name in members if name in required}
        case "array":
            return [_example(schema.get("items", {}), asked, definitions)]
        case "integer" | "number":
            return 3
        case "boolean":
            return True
        case "null":
            return None
        case _:
            quoted = _QUOTED.search(asked)
            return quoted[1] if quoted else WATER


def _event(choices: list[dict[str, Any]], **more: object) -> bytes:
    chunk = {"id": "1", "object": "chat.completion.chunk", "model": "tools", "choices": choices, **more}
    return f"data: {json.dumps(chunk)}\n\n".encode()
