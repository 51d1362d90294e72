"""Decides which earlier questions keep their passages, by the provider's prices for a prompt.

A cached token costs little, and is paid for with each further question; a passage that is found again, and rules and
messages that come again, would cost the full price. Both sums are known before the call. So the conversation is gone
through question by question: as long as the prompt that begins with the one before is the cheaper, passages stay, and
where it isn't, all of them go at once. That is decided for each question anew and always the same way, so that it is
known what the prompts before were. No question then costs more than it would with earlier questions alone, as far as
the provider has in its cache what it should have.

Where writing to the cache costs more than reading without, the first prompt isn't written: to begin is an expense that
later questions have to bring in. So one is begun only if `AHEAD` more questions like the latest would, and again only
if that was so before; and what has been paid for isn't given up for one question that found nothing of it again.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from citewire.generator.v1 import generator_pb2 as pb

from citewire_generator.model import Message, Role
from citewire_generator.packing import PassageKey, key_of
from citewire_generator.tokens import estimate_messages, estimate_tokens
from citewire_ledger import Price

AHEAD: Final = 5
"""Number of further questions within which the cost of starting must be recovered."""
LEAST_CACHED: Final = 1_024
"""Minimum number of tokens at a prompt's beginning for providers to cache it."""
_LABEL: Final = 16
"""Approximate tokens of the line before a passage."""


@dataclass(frozen=True, slots=True)
class _Turn:
    """The parts of a question's prompt, in tokens."""

    before: int
    """The beginning that is cached in any case: the rules, and messages that don't change."""
    prefix: int
    """The previous prompt with its passages, which the next may continue."""
    text: int
    """Rules, messages and question, without any passages."""
    added: int
    """Messages since the previous question, and the question."""
    passages: int
    """Passages found for the question."""
    again: int
    """Those of them that are in `prefix`."""

    def later(self, turns: int) -> "_Turn":
        """Returns the sizes after some more questions like this one."""
        prefix = self.prefix + turns * (self.added + self.passages - self.again)
        text = self.text + turns * self.added
        return _Turn(self.before, prefix, text, self.added, self.passages, self.again)

    def gain(self, price: Price, *, is_cached: bool) -> float:
        """The saving from continuing the previous prompt over earlier questions alone, in millionths of a USD."""
        full, read = float(price.input), float(price.cached_input)
        write = max(float(price.cache_write), full)
        before = self.before if self.before >= LEAST_CACHED else 0
        cached = self.prefix if is_cached and self.prefix >= LEAST_CACHED else before
        alone = before * read + (self.text + self.passages - before) * full
        new = self.prefix - cached + self.added + self.passages - self.again
        return alone - cached * read - new * write


def first_kept(
    history: Sequence[Message], question: str, passages: Sequence[pb.Passage], price: Price, rules: int
) -> int:
    """Finds the first message of the history from which questions keep their passages.

    Args:
        history: Oldest first.
        question: The current question.
        passages: The passages found for it.
        price: The model's price.
        rules: Tokens of the system prompt.

    Returns:
        Its index; the history's length if there is none.
    """
    plan, sizes = _Plan(price), dict[PassageKey, int]()
    first, before = 0, rules
    text = asked = rules
    for index, message in enumerate((*history, Message(Role.USER, question, passages=tuple(passages)))):
        here = text
        text += estimate_messages((message,))
        if message.role is not Role.USER:
            continue
        own = {key_of(passage): _tokens(passage) for passage in message.passages}
        again = sum(size for key, size in own.items() if key in sizes)
        turn = _Turn(before, asked + sum(sizes.values()), text, text - asked, sum(own.values()), again)
        if not sizes or not plan.continues(turn):
            first, before, sizes = index, here, {}
        sizes |= own
        asked = text
    return first


class _Plan:
    """The state that is updated from question to question."""

    def __init__(self, price: Price) -> None:
        self._price = price
        self._writes_free = price.cache_write <= price.input
        self._is_written = self._writes_free
        self._expense = 0.0
        """Cost of starting, if there is one."""
        self._losses = 0.0
        """Loss on the latest questions, which would have been cheaper without passages."""
        self._balance = 0.0
        """Balance of all questions so far."""

    def continues(self, turn: _Turn) -> bool:
        """Whether the prompt begins with the previous one."""
        gain = turn.gain(self._price, is_cached=self._is_written)
        if self._is_written:
            self._losses = self._losses - gain if gain < 0 else 0.0
            continues = self._losses <= self._expense / 2
        else:
            later = sum(turn.later(turns).gain(self._price, is_cached=True) for turns in range(1, AHEAD + 1))
            continues = gain + later > 0 and self._balance >= 0
            self._expense = -gain
        self._balance += gain if continues else 0.0
        self._is_written = continues or self._writes_free
        self._losses = self._losses if continues else 0.0
        return continues


def _tokens(passage: pb.Passage) -> int:
    return (passage.token_count or estimate_tokens(passage.text)) + _LABEL
