"""Converts Haystack's messages and tools for the gateway, and its answers to Haystack's messages and chunks."""

import json
from collections.abc import Sequence
from typing import Any, Final, cast

from haystack import logging
from haystack.dataclasses import (
    ChatMessage,
    ComponentInfo,
    FinishReason,
    StreamingChunk,
    TextContent,
    ToolCall,
    ToolCallDelta,
    ToolCallResult,
)
from haystack.tools.tool import Tool

from citewire_client import models
from citewire_client.adapters import AnswerReader, Question, called_tool
from citewire_client.events import ChatEvent

_FINISH_REASONS: Final = ("stop", "length", "tool_calls", "content_filter")

logger = logging.getLogger(__name__)


def read_question(messages: list[ChatMessage] | str) -> Question:
    """Converts Haystack's messages or a single question.

    Raises:
        ValueError: A message can't be sent; the error says which one and why.
    """
    if isinstance(messages, str):
        return Question.read([("user", messages)])
    return Question.read(_read(message, at) for at, message in enumerate(messages))


def describe_tools(tools: Sequence[Tool]) -> list[dict[str, Any]] | None:
    """Converts Haystack's tools to the gateway's format; None if there are none."""
    return [{"type": "function", "function": tool.tool_spec} for tool in tools] or None


def reply_of(text: str, details: dict[str, Any]) -> ChatMessage:
    """A complete reply with its tool calls. A call whose arguments aren't a JSON object appears only in `meta`."""
    calls: list[ToolCall] = []
    for call in details.get("tool_calls", ()):
        arguments = _arguments(call["arguments"])
        if arguments is None:
            logger.warning(
                "The model called {_name} with arguments that aren't a JSON object, so the call is left out:  "
                "{_arguments}",
                _name=call["name"],
                _arguments=call["arguments"],
            )
        else:
            calls.append(ToolCall(tool_name=call["name"], arguments=arguments, id=call["id"]))
    # If there is no text, an agent continues with the calls.
    return ChatMessage.from_assistant(
        None if calls and not text else text, meta={"finish_reason": "stop"} | details, tool_calls=calls
    )


class ReplyChunks:
    """Converts the events of one reply to chunks."""

    def __init__(self, reader: AnswerReader, component: ComponentInfo) -> None:
        """Starts without chunks; `reader` collects the reply at the same time."""
        self._reader = reader
        self._component = component

    def read(self, event: ChatEvent) -> StreamingChunk | None:
        """The chunk that an event adds; None if it adds nothing that a callback would show."""
        reader = self._reader
        is_first, before = not reader.text, len(reader.details["citations"])
        piece = reader.read(event)
        if isinstance(event, models.ToolCallEvent):
            return self._call(event.data)
        citations = reader.details["citations"][before:]
        if not piece and not citations and not reader.is_over:
            return None
        meta: dict[str, Any] = {"citations": citations} if citations else {}
        if reader.is_over and "usage" in reader.details:
            meta["usage"] = reader.details["usage"]
        return self._chunk(
            piece,
            meta,
            index=0 if piece else None,
            start=bool(piece) and is_first,
            finish_reason=_finish_reason(reader) if reader.is_over else None,
        )

    def _call(self, piece: models.ToolCallDelta) -> StreamingChunk:
        delta = ToolCallDelta(index=piece.index, tool_name=piece.name, arguments=piece.arguments or None, id=piece.id)
        place = piece.index + bool(self._reader.text)
        return self._chunk("", {}, index=place, start=piece.name is not None, tool_calls=[delta])

    def _chunk(self, content: str, meta: dict[str, Any], **fields: Any) -> StreamingChunk:
        named = {"model": self._reader.details["model"]} | meta
        return StreamingChunk(content=content, meta=named, component_info=self._component, **fields)


def _finish_reason(reader: AnswerReader) -> FinishReason:
    reason = reader.details.get("finish_reason")
    return cast("FinishReason", reason) if reason in _FINISH_REASONS else "stop"


def _arguments(told: str) -> dict[str, Any] | None:
    try:
        arguments: object = json.loads(told or "{}")
    except ValueError:
        return None
    return cast("dict[str, Any]", arguments) if isinstance(arguments, dict) else None


def _read(message: ChatMessage, at: int) -> dict[str, Any]:
    """Converts a message to the gateway's format."""
    unread = [*message.images, *message.files]
    if unread:
        raise ValueError(f"messages.{at}: {type(unread[0]).__name__} can't be sent; only text can")
    if message.tool_call_results:
        return _result(message.tool_call_results, at)
    read: dict[str, Any] = {"role": message.role.value, "content": "\n".join(message.texts)}
    if message.tool_calls:
        read["tool_calls"] = [
            called_tool(call.id or f"call_{number}", call.tool_name, call.arguments)
            for number, call in enumerate(message.tool_calls)
        ]
    return read


def _result(results: Sequence[ToolCallResult], at: int) -> dict[str, Any]:
    """Converts the result of a tool to the gateway's format."""
    (given,) = results if len(results) == 1 else (None,)
    if given is None:
        raise ValueError(f"messages.{at}: must have the result of one tool, not of {len(results)}")
    if given.origin.id is None:
        raise ValueError(f"messages.{at}: the call to {given.origin.tool_name} must have an id")
    parts = [TextContent(given.result)] if isinstance(given.result, str) else given.result
    unread = next((part for part in parts if not isinstance(part, TextContent)), None)
    if unread is not None:
        raise ValueError(f"messages.{at}: {type(unread).__name__} can't be sent; only text can")
    text = "\n".join(part.text for part in parts if isinstance(part, TextContent))
    return {"role": "tool", "tool_call_id": given.origin.id, "content": text}
