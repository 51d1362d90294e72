"""Converts the questions of frameworks."""

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from pydantic import BaseModel

_UNNAMEABLE: Final = re.compile(r"[^A-Za-z0-9_-]")
_LONGEST_NAME: Final = 64


@dataclass(frozen=True, slots=True)
class Question:
    """A conversation in the gateway's format."""

    messages: Sequence[Mapping[str, Any]]
    """Oldest message first; the last is the user's question or a tool's result."""
    instructions: str = ""
    """The text of the system messages."""

    @classmethod
    def read(cls, messages: Iterable[tuple[str, str] | Mapping[str, Any]]) -> "Question":
        """Converts roles (`system`, `user`, `assistant`) with texts, or messages in the format of `POST /v1/chat`.

        Raises:
            ValueError: Another role, or the last message isn't a question.
        """
        rules: list[str] = []
        talk: list[Mapping[str, Any]] = []
        for entry in messages:
            message = entry if isinstance(entry, Mapping) else {"role": entry[0], "content": entry[1]}
            role = message["role"]
            if role == "system":
                rules.append(message["content"])
            elif role not in {"user", "assistant"} and "tool_call_id" not in message:
                raise ValueError(f"messages of role {role!r} can't be sent: only system, user and assistant can")
            elif role == "tool" or message.get("content") or message.get("parts") or message.get("tool_calls"):
                talk.append(message)
        if not talk or talk[-1]["role"] == "assistant":
            raise ValueError("the last message must be the user's and not empty")
        return cls(talk, "\n\n".join(rules))


def called_tool(call_id: str, name: str, arguments: Mapping[str, Any] | str) -> dict[str, Any]:
    """A tool call in the format of messages; `arguments` may be JSON text."""
    text = arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False)
    return {"id": call_id, "type": "function", "function": {"name": name, "arguments": text or "{}"}}


def chosen_tool(choice: str | bool | Mapping[str, Any] | None, names: Sequence[str]) -> str | Mapping[str, Any] | None:
    """Converts a tool choice to the gateway's format.

    Args:
        choice: `auto`, `none`, `any`, `required` or True (one must be called), a tool's name, or OpenAI's format.
        names: The names of the tools.

    Raises:
        ValueError: There is no tool with that name.
    """
    if choice is True or choice == "any":
        return "required"
    if isinstance(choice, str) and choice in names:
        return {"type": "function", "function": {"name": choice}}
    if isinstance(choice, str) and choice not in {"", "auto", "none", "required"}:
        raise ValueError(f"tool_choice: there is no tool {choice!r}; there are {', '.join(names)}")
    return choice or None


def answer_format(form: type[BaseModel] | Mapping[str, Any] | None) -> Mapping[str, Any] | None:
    """Converts a response format to the gateway's: a Pydantic class to its JSON schema, or OpenAI's format."""
    if not isinstance(form, type):
        return form
    name = _UNNAMEABLE.sub("_", form.__name__)[:_LONGEST_NAME]
    return {"type": "json_schema", "json_schema": {"name": name, "schema": form.model_json_schema()}}


@dataclass(frozen=True, slots=True)
class ChatSettings:
    """The settings of an adapter to a chat model for each question."""

    model: str
    """A profile, such as `grounded`, optionally with a chat model: `grounded/openai/gpt-4.1`."""
    collection: str | None = None
    document_ids: Sequence[int] | None = None
    filter: Any = None
    top_k: int | None = None
    min_score: float | None = None
    max_tokens: int | None = None
    options: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """Overrides for fields of the profile."""
    include: Sequence[str] = ("citation",)
    """Events to receive besides those that the profile shows."""
    keep: bool | None = False
    """None: as in the profile."""
    conversation_id: str | None = None
    """Continues a conversation whose earlier messages are stored in the gateway."""
    grace_seconds: int | None = None
    tools: Sequence[Mapping[str, Any]] | None = None
    """Functions that the caller runs, in OpenAI's format."""
    tool_choice: Any = None
    parallel_tool_calls: bool | None = None
    response_format: Mapping[str, Any] | None = None
    """JSON instead of text, in OpenAI's format."""

    def arguments(self, question: Question) -> dict[str, Any]:
        """The arguments of `chat` and `stream_chat`."""
        profile, _, chat_model = self.model.partition("/")
        options = dict(self.options)
        if self.max_tokens is not None:
            options["max_completion_tokens"] = self.max_tokens
        if question.instructions:
            options["instructions"] = "\n\n".join(filter(None, (options.get("instructions"), question.instructions)))
        arguments: dict[str, Any] = {
            "profile": profile,
            "model": chat_model or None,
            "collection": self.collection,
            "document_ids": self.document_ids,
            "filter": self.filter,
            "top_k": self.top_k,
            "min_score": self.min_score,
            "options": options or None,
            "grace_seconds": self.grace_seconds,
            "tools": self.tools or None,
            "tool_choice": self.tool_choice if self.tools else None,
            "parallel_tool_calls": self.parallel_tool_calls,
            "response_format": self.response_format,
        }
        if self.conversation_id is None:
            arguments |= {"messages": question.messages, "keep": self.keep}
        elif question.messages[-1]["role"] == "tool":
            raise ValueError("tool results can't continue a conversation by its id: send its messages instead")
        else:
            arguments |= {"question": question.messages[-1].get("content"), "conversation_id": self.conversation_id}
        return {name: value for name, value in arguments.items() if value is not None} | {"include": self.include}
