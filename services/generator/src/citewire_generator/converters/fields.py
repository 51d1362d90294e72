"""Fields that several requests have, and what is sent back in several responses."""

import math
from collections.abc import Mapping, Sequence
from typing import TypeVar

from citewire.common.v1.common_pb2 import ProviderRef
from citewire.generator.v1 import generator_pb2 as pb

from citewire_generator.model import (
    Message,
    Passage,
    Role,
    Usage,
)
from citewire_kit.errors import Violations
from citewire_remote.converters import ref_from_proto
from citewire_remote.kinds import ProviderType

MAX_QUESTION_BYTES = 32 * 1024
MAX_PASSAGES = 10_000
MAX_HISTORY = 1000
MAX_NAME = 200
MAX_FALLBACKS = 4
_ROUNDING = 1e-6
"""How far a similarity may lie outside 0–1: float32 vectors aren't exactly of length 1."""

CHAT = (ProviderType.CHAT,)

_T = TypeVar("_T")

_ROLES: dict[int, Role] = {pb.ROLE_USER: Role.USER, pb.ROLE_ASSISTANT: Role.ASSISTANT}


def check_question(v: Violations, question: str) -> None:
    """Checks a question: it says something, within its limit."""
    if v.require(bool(question.strip()), "question", "must hold more than white space"):
        check_text(v, question, "question", MAX_QUESTION_BYTES)


def check_text(v: Violations, text: str, field: str, max_bytes: int | None = None) -> None:
    """Checks a text."""
    v.require("\0" not in text, field, "must not hold NUL characters")
    if max_bytes is not None and len(text) * 4 > max_bytes:
        v.require(len(text.encode()) <= max_bytes, field, f"must be at most {max_bytes:,} bytes of UTF-8")


def check_name(v: Violations, text: str, field: str) -> None:
    """Checks a name: one short line."""
    fits = len(text) <= MAX_NAME and text.isprintable()
    v.require(fits, field, f"must be one line of at most {MAX_NAME} characters")


def to_passages(
    v: Violations, passages: Sequence[pb.Passage], most: int = MAX_PASSAGES, *, identified: bool = True
) -> tuple[Passage, ...]:
    """Checks and converts passages; `identified` ones name their chunk and document."""
    if not v.require(len(passages) <= most, "passages", f"must be at most {most}"):
        return ()
    if identified:
        for index, passage in enumerate(passages):
            v.require(passage.chunk_id > 0, f"passages[{index}].chunk_id", "must be positive")
            v.require(passage.document_id > 0, f"passages[{index}].document_id", "must be positive")
    return tuple(_passage(v, passage, f"passages[{index}]") for index, passage in enumerate(passages))


def to_history(v: Violations, history: Sequence[pb.Message]) -> tuple[Message, ...]:
    """Checks and converts earlier messages."""
    if not v.require(len(history) <= MAX_HISTORY, "history", f"must be at most {MAX_HISTORY} messages"):
        return ()
    messages: list[Message] = []
    for index, message in enumerate(history):
        at = f"history[{index}]"
        role = to_enum(v, message.role, _ROLES, f"{at}.role", Role.USER)
        v.require(bool(message.content), f"{at}.content", "must not be empty")
        check_text(v, message.content, f"{at}.content")
        messages.append(Message(role, message.content))
    return tuple(messages)


def to_fallbacks(v: Violations, fallbacks: Sequence[pb.Fallback]) -> tuple[str | ProviderRef, ...]:
    """Checks and converts who takes over."""
    v.require(len(fallbacks) <= MAX_FALLBACKS, "fallbacks", f"must be at most {MAX_FALLBACKS}")
    found: list[str | ProviderRef] = []
    for index, fallback in enumerate(fallbacks[:MAX_FALLBACKS]):
        at = f"fallbacks[{index}]"
        if fallback.HasField("provider"):
            found.append(ref_from_proto(v, fallback.provider, f"{at}.provider", CHAT))
        elif v.require(bool(fallback.model), at, "must name a model or a provider"):
            check_name(v, fallback.model, f"{at}.model")
            found.append(fallback.model)
    return tuple(found)


def to_enum(v: Violations, value: int, known: Mapping[int, _T], field: str, default: _T) -> _T:
    """Looks an enum's value up. Unknown ones arrive as numbers: proto3's enums are open."""
    v.require(value in known, field, "isn't a value of its enum" if value else "is required")
    return known.get(value, default)


def from_usage(usage: Usage) -> pb.TokenUsage:
    """Converts tokens spent."""
    return pb.TokenUsage(
        prompt_tokens=usage.prompt_tokens,
        cached_prompt_tokens=usage.cached_prompt_tokens,
        completion_tokens=usage.completion_tokens,
        estimated=usage.estimated,
    )


def _passage(v: Violations, passage: pb.Passage, at: str) -> Passage:
    v.require(bool(passage.text.strip()), f"{at}.text", "must hold more than white space")
    for name in ("text", "title", "file_name", "section", "type", "url", "place_label"):
        check_text(v, getattr(passage, name), f"{at}.{name}")
    similarity = passage.similarity if passage.HasField("similarity") else None
    if similarity is not None:
        known = math.isfinite(similarity) and -_ROUNDING <= similarity <= 1 + _ROUNDING
        v.require(known, f"{at}.similarity", "must be between 0 and 1")
        similarity = min(max(similarity, 0.0), 1.0)
    return Passage(
        chunk_id=passage.chunk_id,
        document_id=passage.document_id,
        text=passage.text,
        title=passage.title,
        file_name=passage.file_name,
        section=passage.section,
        type=passage.type,
        url=passage.url,
        place=passage.place_label,
        similarity=similarity,
        token_count=passage.token_count,
    )
