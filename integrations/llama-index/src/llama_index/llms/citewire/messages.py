"""Converts LlamaIndex's messages for the gateway, and its answers to LlamaIndex's responses."""

from collections.abc import Sequence
from typing import Any, Final, cast

from llama_index.core.base.llms.types import (
    ChatMessage,
    ChatResponse,
    ContentBlock,
    MessageRole,
    TextBlock,
    ToolCallBlock,
)
from llama_index.core.llms.llm import ToolSelection
from llama_index.core.llms.utils import parse_partial_json  # pyright: ignore[reportUnknownVariableType] # no type annotations

from citewire_client import models
from citewire_client.adapters import AnswerReader, Question, called_tool
from citewire_client.events import ChatEvent

_ROLES: Final = ("system", "user", "assistant", "tool")


def read_question(messages: Sequence[ChatMessage]) -> Question:
    """Converts LlamaIndex's messages to the gateway's format.

    Raises:
        ValueError: A message can't be sent; the error says which one and why.
    """
    return Question.read(_read(message, at) for at, message in enumerate(messages))


def make_response(text: str, details: dict[str, Any], delta: str | None = None) -> ChatResponse:
    """Builds a response from the answer so far; its tool calls are blocks."""
    calls = [dict(call) for call in details.get("tool_calls", ())]  # during streaming, they still grow
    blocks: list[ContentBlock] = [TextBlock(text=text)] if text or not calls else []
    blocks += [
        ToolCallBlock(tool_call_id=call["id"], tool_name=call["name"], tool_kwargs=call["arguments"]) for call in calls
    ]
    message = ChatMessage(
        role=MessageRole.ASSISTANT, blocks=blocks, additional_kwargs={"citations": details["citations"]}
    )
    raw = dict(details)
    if calls:
        raw["tool_calls"] = calls
        # LlamaIndex's programs look for them here, in OpenAI's format.
        message.additional_kwargs["tool_calls"] = [
            called_tool(call["id"], call["name"], call["arguments"]) for call in calls
        ]
    return ChatResponse(message=message, delta=delta, raw=raw, additional_kwargs={**raw, **details.get("usage", {})})


def piece_of(reader: AnswerReader, event: ChatEvent) -> ChatResponse | None:
    """The response after an event; None if the event adds nothing that LlamaIndex would show."""
    delta = reader.read(event)
    is_new = delta or reader.is_over or isinstance(event, models.ToolCallEvent)
    return make_response(reader.text, reader.details, delta) if is_new else None


def selected_tools(message: ChatMessage) -> list[ToolSelection]:
    """The tool calls of an answer; arguments that aren't a JSON object are empty, as everywhere in LlamaIndex."""
    return [
        ToolSelection(
            tool_id=block.tool_call_id or "", tool_name=block.tool_name, tool_kwargs=_arguments(block.tool_kwargs)
        )
        for block in message.blocks
        if isinstance(block, ToolCallBlock)
    ]


def keep_one_call(response: ChatResponse) -> ChatResponse:
    """Keeps only the first tool call, for callers that allow only one."""
    message = response.message
    calls = [block for block in message.blocks if isinstance(block, ToolCallBlock)]
    if len(calls) > 1:
        message.blocks = [
            block for block in message.blocks if block is calls[0] or not isinstance(block, ToolCallBlock)
        ]
        message.additional_kwargs["tool_calls"] = message.additional_kwargs["tool_calls"][:1]
    return response


def _arguments(told: dict[str, Any] | str) -> dict[str, Any]:
    """The arguments received so far."""
    if not isinstance(told, str):
        return told
    try:
        arguments = cast("object", parse_partial_json(told))  # lists too
    except ValueError:
        return {}
    return cast("dict[str, Any]", arguments) if isinstance(arguments, dict) else {}


def _read(message: ChatMessage, at: int) -> dict[str, Any]:
    """Converts a message to the gateway's format."""
    role = "system" if message.role is MessageRole.DEVELOPER else message.role.value
    if role not in _ROLES:
        raise ValueError(f"messages.{at}: role {role} can't be sent; only {', '.join(_ROLES)} can")
    read: dict[str, Any] = {"role": role, "content": _text(message, at)}
    if role == "tool":
        call = message.additional_kwargs.get("tool_call_id")
        if not call:
            raise ValueError(f"messages.{at}.additional_kwargs.tool_call_id: is required in a message with role tool")
        return read | {"tool_call_id": str(call)}
    calls = [block for block in message.blocks if isinstance(block, ToolCallBlock)]
    if calls:
        read["tool_calls"] = [
            called_tool(block.tool_call_id or f"call_{number}", block.tool_name, block.tool_kwargs)
            for number, block in enumerate(calls)
        ]
    return read


def _text(message: ChatMessage, at: int) -> str:
    unread = [block.block_type for block in message.blocks if not isinstance(block, TextBlock)]
    if unread and message.role is not MessageRole.ASSISTANT:
        raise ValueError(
            f"messages.{at}.blocks: a block of type {unread[0]!r} can't be sent; only text can. Upload files: see "
            "CitewireRetriever.add"
        )
    return message.content or ""
