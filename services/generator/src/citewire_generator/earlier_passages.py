"""Passages that stay in the prompt with the questions that they were found for.

Providers keep the beginning of a prompt in a cache and bill little for what comes again. So that the next prompt of a
conversation begins as the one before did, the passages of earlier questions stay where they stood, word for word, and
under the same numbers; a passage that is found again is named by its number and not placed anew. Questions for which
that doesn't pay stand without their passages, as all do in conversations of other clients.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, tzinfo
from typing import Final

from citewire.generator.v1 import generator_pb2 as pb

from citewire_generator.model import Citation, Message, ModelInfo
from citewire_generator.packing import Budget, Context, PassageKey, key_of, pack
from citewire_generator.prompts import ask
from citewire_ledger import Price

MOST_TOKENS: Final = 24_000
"""Maximum tokens of all earlier questions' passages together."""
_NUMBERED: Final = frozenset({pb.CONTEXT_FORMAT_NUMBERED, pb.CONTEXT_FORMAT_SOURCE_LABELS})
"""Layouts with numbered blocks that don't otherwise depend on the question."""


@dataclass(frozen=True, slots=True)
class KeptHistory:
    """The earlier messages as placed in the prompt."""

    messages: tuple[Message, ...]
    placed: dict[PassageKey, Citation] = field(default_factory=dict[PassageKey, Citation])
    tokens: int = 0
    """Tokens of the passages in them."""


def cache_price(model: ModelInfo, layout: pb.ContextFormat) -> Price | None:
    """Returns the price that decides whether passages stay.

    None means that none stays, because blocks have no numbers, or cached tokens aren't known to be cheaper.
    """
    price = model.price
    if not model.remote or price is None or layout not in _NUMBERED:
        return None
    return price if price.cached_input < price.input else None


def keep_passages(
    history: Sequence[Message],
    layout: pb.ContextFormat,
    retained: Collection[int],
    zone: tzinfo = UTC,
    most: int = MOST_TOKENS,
) -> KeptHistory:
    """Writes earlier questions with their passages, as they were asked.

    If there are too many, those of the oldest questions are dropped, half of `most` at a time: each time, the prompt's
    beginning changes and nothing is cached, so this must not happen at every question.

    Args:
        history: Oldest first, with markers in answers already removed.
        layout: The layout of a block.
        retained: Indexes of the messages whose passages stay.
        zone: The time zone of dates in the blocks.
        most: Maximum tokens of the passages.
    """
    earlier = _place(history, layout, zone, retained)
    sizes = [context.tokens for context in earlier[1]]
    if (total := sum(sizes)) > most:
        step = max(most // 2, 1)
        drop = -(-(total - most) // step) * step
        first = 0
        while first < len(sizes) and drop > 0:
            drop -= sizes[first]
            first += 1
        earlier = _place(history, layout, zone, [index for index in retained if index >= first])
    messages, contexts, placed = earlier
    return KeptHistory(tuple(messages), placed, sum(context.tokens for context in contexts))


def _place(
    history: Sequence[Message], layout: pb.ContextFormat, zone: tzinfo, retained: Collection[int]
) -> tuple[list[Message], list[Context], dict[PassageKey, Citation]]:
    """Places the passages of the messages `kept`."""
    messages: list[Message] = []
    contexts: list[Context] = []
    placed: dict[PassageKey, Citation] = {}
    for index, message in enumerate(history):
        context = pack(message.passages if index in retained else (), layout, Budget(), zone, placed)
        contexts.append(context)
        if context.citations:
            placed |= {key_of(citation.passage): citation for citation in context.citations}
            message = replace(message, content=ask(message.content, context))  # the same message, with its passages
        messages.append(message)
    return messages, contexts, placed
