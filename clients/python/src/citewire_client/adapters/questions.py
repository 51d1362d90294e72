"""Questions as frameworks ask them."""

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
    """A conversation as the gateway takes it."""

    messages: Sequence[Mapping[str, Any]]
    """Oldest first; the user's question last, or what tools gave back."""
    instructions: str = ""
    """What system messages say."""

    @classmethod
    def read(cls, messages: Iterable[tuple[str, str] | Mapping[str, Any]]) -> "Question":
        """Reads roles (`system`, `user`, `assistant`) with their texts, or messages as `POST /v1/chat` takes them.

        Raises:
            ValueError: Another role, or the last message asks nothing.
        """
        rules: list[str] = []
        talk: list[Mapping[str, Any]] = []
        for entry in messages:
            message = entry if isinstance(entry, Mapping) else {"role": entry[0], "content": entry[1]}
            role = message["role"]
            if role == "system":
                rules.append(message["content"])
            elif role not in {"user", "assistant"} and "tool_call_id" not in message:
                raise ValueError(f"messages of role {role!r} can't be sent: system, user and assistant can")
            elif role == "tool" or message.get("content") or message.get("parts") or message.get("tool_calls"):
                talk.append(message)
        if not talk or talk[-1]["role"] == "assistant":
            raise ValueError("the last message must be the user's, and not empty")
        return cls(talk, "\n\n".join(rules))


def called_tool(call_id: str, name: str, arguments: Mapping[str, Any] | str) -> dict[str, Any]:
    """A call of a tool, as a message sends it back; `arguments` may be their JSON."""
    text = arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False)
    return {"id": call_id, "type": "function", "function": {"name": name, "arguments": text or "{}"}}


def chosen_tool(choice: str | bool | Mapping[str, Any] | None, names: Sequence[str]) -> str | Mapping[str, Any] | None:
    """A choice of tools as the gateway takes it.

    Args:
        choice: `auto`, `none`, `any`, `required` or True (one must be called), a tool's name, or OpenAI's form.
        names: Those of the tools.

    Raises:
        ValueError: There is no tool of that name.
    """
    if choice is True or choice == "any":
        return "required"
    if isinstance(choice, str) and choice in names:
        return {"type": "function", "function": {"name": choice}}
    if isinstance(choice, str) and choice not in {"", "auto", "none", "required"}:
        raise ValueError(f"tool_choice: there is no tool {choice!r}; there are {', '.join(names)}")
    return choice or None


def answer_format(form: type[BaseModel] | Mapping[str, Any] | None) -> Mapping[str, Any] | None:
    """The form of an answer as the gateway takes it: a Pydantic class's JSON schema, or what is in OpenAI's form."""
    if not isinstance(form, type):
        return form
    name = _UNNAMEABLE.sub("_", form.__name__)[:_LONGEST_NAME]
    return {"type": "json_schema", "json_schema": {"name": name, "schema": form.model_json_schema()}}


@dataclass(frozen=True, slots=True)
class ChatSettings:
    """What an adapter to a chat model was told, for each of its questions."""

    model: str
    """A profile, such as `grounded`; a chat model may follow: `grounded/openai/gpt-4.1`."""
    collection: str | None = None
    document_ids: Sequence[int] | None = None
    filter: Any = None
    top_k: int | None = None
    min_score: float | None = None
    max_tokens: int | None = None
    options: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """Fields of the profile that are changed."""
    include: Sequence[str] = ("citation",)
    """Events beyond those that the profile shows."""
    keep: bool | None = False
    """None: as the profile has it."""
    conversation_id: str | None = None
    """Continues a conversation, of which the gateway knows the messages before."""
    grace_seconds: int | None = None
    tools: Sequence[Mapping[str, Any]] | None = None
    """Functions that the caller runs, in OpenAI's form."""
    tool_choice: Any = None
    parallel_tool_calls: bool | None = None
    response_format: Mapping[str, Any] | None = None
    """JSON instead of text, in OpenAI's form."""

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
            raise ValueError("results of tools can't continue a conversation by its id: send its messages instead")
        else:
            arguments |= {"question": question.messages[-1].get("content"), "conversation_id": self.conversation_id}
        return {name: value for name, value in arguments.items() if value is not None} | {"include": self.include}
