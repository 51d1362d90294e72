"""What adapters to frameworks share: questions as frameworks ask them, and passages as they take them."""

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import urlsplit

from citewire_client import models
from citewire_client.base import Model
from citewire_client.errors import DocumentFailedError

_CONTENT: Final = frozenset({"content", "metadata", "similarity", "duplicate_chunk_ids"})
"""Of a search result, what isn't about its place."""
_TITLE_CHARACTERS: Final = 100
_BATCH: Final = 256


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


class StopSequences:
    """Ends a streamed text where one of some sequences begins."""

    def __init__(self, sequences: Iterable[str]) -> None:
        """Empty sequences stop nothing."""
        self._sequences = [sequence for sequence in sequences if sequence]
        self._held = ""
        self.reached = False
        """Whether one was found: nothing may follow."""

    def __bool__(self) -> bool:
        """Whether there is anything to look for."""
        return bool(self._sequences)

    def feed(self, text: str) -> str:
        """Takes a piece, and returns what can be shown; the beginning of a sequence is held back."""
        self._held += text
        starts = [place for sequence in self._sequences if (place := self._held.find(sequence)) >= 0]
        if starts:
            self.reached = True
            shown, self._held = self._held[: min(starts)], ""
            return shown
        length = max((self._overlap(sequence) for sequence in self._sequences), default=0)
        end = len(self._held) - length
        shown, self._held = self._held[:end], self._held[end:]
        return shown

    def rest(self) -> str:
        """What was held back, once the text has ended."""
        rest, self._held = self._held, ""
        return rest

    def _overlap(self, sequence: str) -> int:
        lengths = range(min(len(sequence) - 1, len(self._held)), 0, -1)
        return next((length for length in lengths if self._held.endswith(sequence[:length])), 0)


def members(model: Model) -> dict[str, Any]:
    """What a model says, as JSON has it, without what is null."""
    return model.model_dump(mode="json", exclude_none=True, by_alias=True)


def passage_metadata(result: models.SearchResult) -> dict[str, Any]:
    """What is said about a passage: its document, its place, its scores, and the document's own metadata.

    The document's own metadata keeps its names. Where one of these is ours as well, ours is `citewire_NAME`.
    """
    own = result.metadata or {}
    ours = {name: value for name, value in members(result).items() if name not in _CONTENT and value not in ("", [])}
    return own | {f"citewire_{name}" if name in own else name: value for name, value in ours.items()}


def document_fields(text: str, metadata: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments of `add_document` for a text that a loader has read, with the metadata that it gave.

    Title and address are what loaders call `title`, `file_name`, `url` and `source`.
    """
    named = {name: value for name in ("title", "file_name", "url", "source") if (value := _text(metadata.get(name)))}
    source = named.get("source", "")
    title = named.get("title") or named.get("file_name") or os.path.basename(source.rstrip("/\\")) or _first_line(text)  # noqa: PTH119 # it may be an address
    fields: dict[str, Any] = {"content": text, "title": title, "type": "article"}
    address = next((value for name in ("url", "source") if _is_address(value := named.get(name, ""))), None)
    if address is not None:
        fields["url"] = address
    if metadata:
        fields["metadata"] = dict(metadata)
    return fields


def batches(texts: Sequence[str]) -> list[list[str]]:
    """Texts of one request of embeddings each."""
    return [list(texts[start : start + _BATCH]) for start in range(0, len(texts), _BATCH)]


def embedding_choice(model: str | None, dimensions: int | None) -> dict[str, Any]:
    """The arguments of `embed` that choose; what is None is the caller's default."""
    choice: dict[str, Any] = {"model": model, "dimensions": dimensions}
    return {name: value for name, value in choice.items() if value is not None}


def vectors(answer: models.Embeddings) -> list[list[float]]:
    """The vectors, in the texts' order."""
    ordered = sorted(answer.data, key=lambda entry: entry.index)
    return [entry.embedding for entry in ordered if not isinstance(entry.embedding, str)]


def require_readable(document: models.Document) -> models.Document:
    """Returns a document that could be read, or is still to be.

    Raises:
        DocumentFailedError: It couldn't.
    """
    if document.status == "failed":
        why = "" if document.error is None else f": {document.error.message}"
        raise DocumentFailedError(f"document {document.id} ({document.title}) couldn't be read{why}")
    return document


def _text(value: object) -> str:
    return value.strip() if isinstance(value, str) else ""


def _is_address(value: str) -> bool:
    parts = urlsplit(value)
    return parts.scheme in {"http", "https"} and bool(parts.netloc)


def _first_line(text: str) -> str:
    line = next((line.strip("# \t") for line in text.splitlines() if line.strip("# \t")), "")
    return line[:_TITLE_CHARACTERS] or "Untitled"
