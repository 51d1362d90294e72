"""An estimate of a prompt's tokens; budgets keep a margin for its errors (`packing.MARGIN`)."""

from collections.abc import Iterable

from citewire_generator.model import Message
from citewire_kit.token_estimate import ASCII_BYTES_PER_TOKEN as ASCII_BYTES_PER_TOKEN
from citewire_kit.token_estimate import MESSAGE_OVERHEAD as MESSAGE_OVERHEAD
from citewire_kit.token_estimate import estimate_tokens as estimate_tokens

IMAGE_TOKENS = 1200
"""Estimated tokens of an image; the actual number is 85 to 1,600, depending on its size and the provider."""


def estimate_messages(messages: Iterable[Message]) -> int:
    """Estimates the tokens of a prompt."""
    return sum(map(_estimate_message, messages))


def _estimate_message(message: Message) -> int:
    calls = sum(estimate_tokens(call.name) + estimate_tokens(call.arguments) for call in message.tool_calls)
    return estimate_tokens(message.content) + calls + IMAGE_TOKENS * len(message.images) + MESSAGE_OVERHEAD
