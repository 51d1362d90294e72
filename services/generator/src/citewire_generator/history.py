"""Selects the history for a prompt: the latest messages whole, older ones shortened, within a budget.

Shortening is done here, without a model: a second call before each answer would cost more time than an old turn is
worth. Of a message stays how it begins, up to the end of a sentence where there is one: a question says what it asks
there, and an answer what it found.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from citewire_generator.model import Message, Role
from citewire_generator.tokens import MESSAGE_OVERHEAD, estimate_messages, estimate_tokens

SHORTENED_TOKENS = 60
"""Maximum tokens of a shortened message."""
LEAST_TOKENS = 8
"""Minimum tokens of a shortened message: less is meaningless."""
SHARE_OF_OLDER = 4
"""Divisor for the part of the budget reserved for shortened messages if not all fit whole: a quarter."""

_SENTENCE_END = re.compile(r"[.!?](?=\s)|[。！？]|\n")
_MARKER = re.compile(r"\s?\[(?:ref|source)s?[\s:#]{0,3}\d[^\]\n]{0,80}\]", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class FittedHistory:
    """A conversation within a budget."""

    messages: tuple[Message, ...]
    """Oldest first."""
    tokens: int
    """Their tokens."""
    shortened: int = 0
    """Number of shortened messages."""
    dropped: int = 0
    """Number of messages left out."""


def without_markers(message: Message) -> Message:
    """Removes an earlier answer's markers: they refer to other passages, and models copy them."""
    if message.role is not Role.ASSISTANT:
        return message
    return replace(message, content=_MARKER.sub("", message.content))


def fit_history(history: Sequence[Message], tokens: int | None, *, shorten: bool) -> FittedHistory:
    """Fits a conversation into a budget.

    Args:
        history: Oldest first.
        tokens: The budget; None: everything fits.
        shorten: Whether older messages that don't fit are shortened before any is left out.
    """
    total = estimate_messages(history)
    if tokens is None or total <= tokens:
        return FittedHistory(tuple(history), total)
    whole = newest(history, tokens - tokens // SHARE_OF_OLDER if shorten else tokens)
    older = history[: len(history) - len(whole)]
    short = _shortened(older, tokens - estimate_messages(whole)) if shorten else ()
    messages = (*short, *whole)
    return FittedHistory(messages, estimate_messages(messages), len(short), len(history) - len(messages))


def newest(history: Sequence[Message], tokens: int) -> tuple[Message, ...]:
    """The latest messages that fit whole."""
    first = len(history)
    for index in range(len(history) - 1, -1, -1):
        tokens -= estimate_messages((history[index],))
        if tokens < 0:
            break
        first = index
    while first < len(history) and history[first].role is Role.TOOL:
        first += 1  # a tool's result is meaningless without its call, and providers reject it
    return tuple(history[first:])


def _shortened(older: Sequence[Message], tokens: int) -> tuple[Message, ...]:
    """As many of the latest of these as fit when shortened."""
    latest: list[Message] = []
    for message in reversed(older):
        if message.role is Role.TOOL or not message.content:
            continue
        room = min(tokens - MESSAGE_OVERHEAD, SHORTENED_TOKENS)
        if room < LEAST_TOKENS:
            break
        short = Message(message.role, _beginning(without_markers(message).content, room))
        if not short.content:
            break
        latest.append(short)
        tokens -= estimate_messages((short,))
    return tuple(reversed(latest))


def _beginning(text: str, tokens: int) -> str:
    """The first sentences of a text that fit, or else its first words."""
    text = text.strip()
    if estimate_tokens(text) <= tokens:
        return text
    # A token has at most four characters here, so text further on can't fit.
    cut = text[: tokens * 4]
    while cut and estimate_tokens(f"{cut} …") > tokens:
        cut = cut[: len(cut) * 9 // 10]
    ends = [match.end() for match in _SENTENCE_END.finditer(cut)]
    if not ends and (space := cut.rfind(" ")) > len(cut) // 2:
        ends = [space]
    return f"{cut[: ends[-1]].rstrip()} …" if ends else f"{cut} …" if cut else ""
