"""Questions as frameworks ask them."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class Question:
    """A conversation as the gateway takes it."""

    messages: Sequence[Mapping[str, str]]
    """Oldest first, the user's question last."""
    instructions: str = ""
    """What system messages say."""

    @classmethod
    def read(cls, messages: Iterable[tuple[str, str]]) -> "Question":
        """Reads roles (`system`, `user`, `assistant`) with their texts.

        Raises:
            ValueError: Another role, or the last message isn't the user's.
        """
        rules: list[str] = []
        talk: list[Mapping[str, str]] = []
        for role, text in messages:
            if role == "system":
                rules.append(text)
            elif role not in {"user", "assistant"}:
                raise ValueError(f"messages of role {role!r} can't be sent: system, user and assistant can")
            elif text:
                talk.append({"role": role, "content": text})
        if not talk or talk[-1]["role"] != "user":
            raise ValueError("the last message must be the user's, and not empty")
        return cls(talk, "\n\n".join(rules))


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
        }
        if self.conversation_id is None:
            arguments |= {"messages": question.messages, "keep": self.keep}
        else:
            arguments |= {"question": question.messages[-1]["content"], "conversation_id": self.conversation_id}
        return {name: value for name, value in arguments.items() if value is not None} | {"include": self.include}
