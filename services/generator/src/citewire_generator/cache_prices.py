"""Decides which earlier questions keep their passages, by the provider's prices for a prompt.

Prompts of a conversation share a prefix: rules and messages, and the passages of some questions. Its tokens cost little
once they are cached, but they are paid for with every further question. Passages that are found again and aren't in
the prefix, and messages that come again, cost the full price. The sizes are known before the call, and so are the
costs. The conversation is replayed from its first question each time, always with the same result, so that we know
what the prompts before were. Three decisions are made for each question:

- Does the prefix stay? It may lose half of what a new one would cost to begin: the discount of what is cached now, and
  the surcharge for writing to the cache, if there is one. Without that margin, one odd question would throw it away.
- Does it grow by this question and its passages? Only if, over the latest two questions, the passages in it that were
  found again saved more than reading all of them cost. Otherwise the question's passages are sent once, at the full
  price. So the prefix doesn't fill with passages that nobody asks about again, however long the conversation is.
- If there is none, does this question's prompt become one? As soon as the latest prompts, had they been prefixes,
  would have saved the surcharge for writing, counting one more question like this one. Without a surcharge: at once.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from citewire.generator.v1 import generator_pb2 as pb

from citewire_generator.model import Message, Role
from citewire_generator.packing import PassageKey, key_of
from citewire_generator.tokens import estimate_messages, estimate_tokens
from citewire_ledger import Price

LEAST_CACHED: Final = 1_024
"""Minimum number of tokens at a prompt's beginning for providers to cache it."""
MOST_LOST: Final = 0.5
"""Loss after which a prefix is given up, as a share of what a new one would cost to begin."""
_LABEL: Final = 16
"""Approximate tokens of the line before a passage."""


@dataclass(frozen=True, slots=True)
class KeptQuestions:
    """The questions of a conversation that keep their passages."""

    indexes: frozenset[int] = frozenset()
    """Indexes of the earlier messages."""
    current: bool = False
    """Whether the current question will, so that the next prompt begins with the whole of this one."""


def kept_questions(
    history: Sequence[Message], question: str, passages: Sequence[pb.Passage], price: Price, rules: int
) -> KeptQuestions:
    """Finds the questions that keep their passages.

    Args:
        history: Oldest first.
        question: The current question.
        passages: The passages found for it.
        price: The model's price.
        rules: Tokens of the system prompt.
    """
    replay, text, retained = _Replay(price), rules, KeptQuestions()
    for index, message in enumerate((*history, Message(Role.USER, question, passages=tuple(passages)))):
        before = text
        text += estimate_messages((message,))
        if message.role is Role.USER:
            sizes = {key_of(passage): _tokens(passage) for passage in message.passages}
            retained = replay.ask(_Turn(index, before, text - before, sizes))
    return retained


@dataclass(frozen=True, slots=True)
class _Turn:
    """A question, and the parts of its prompt in tokens."""

    index: int
    before: int
    """Rules and messages before the question, without any passages."""
    question: int
    passages: dict[PassageKey, int]

    @property
    def alone(self) -> int:
        """The prompt if no earlier question keeps its passages."""
        return self.before + self.question + sum(self.passages.values())


@dataclass(frozen=True, slots=True)
class _Prefix:
    """What prompts begin with."""

    indexes: frozenset[int]
    """Messages that have their passages in it."""
    passages: dict[PassageKey, int]
    cached: int
    """Tokens of it that the latest prompt has left in the cache."""

    def tokens(self, turn: _Turn) -> int:
        """All tokens before the question."""
        return turn.before + sum(self.passages.values())

    def repeated(self, turn: _Turn) -> int:
        """Tokens of the question's passages that are in it already."""
        return sum(size for key, size in turn.passages.items() if key in self.passages)


class _Replay:
    """The state after each question. Costs are in millionths of a USD."""

    def __init__(self, price: Price) -> None:
        self._full, self._read = float(price.input), float(price.cached_input)
        self._write = max(float(price.cache_write), self._full)
        self._prefix: _Prefix | None = None
        self._loss = 0.0
        """What the prefix has cost lately, compared to earlier questions without passages."""
        self._gain = 0.0
        """What its passages saved with the latest question, minus the cost of reading them."""
        self._candidate: _Prefix | None = None
        """The latest prompt, while there is no prefix."""
        self._missed = 0.0
        """What such prompts would have saved."""

    def ask(self, turn: _Turn) -> KeptQuestions:
        """Returns what the question's prompt begins with."""
        alone = self._cost(turn.before, turn.before, turn.alone)
        prefix = self._prefix
        if prefix is not None:
            self._loss = max(self._loss + self._continued(prefix, turn) - alone, 0.0)
            if self._loss <= MOST_LOST * (self._write * turn.alone - alone):
                return self._continue(prefix, turn)
            self._prefix = self._candidate = None
        saving = 0.0
        if self._candidate is None:
            self._missed = 0.0
        else:
            saving = alone - self._continued(self._candidate, turn)
            self._missed = max(self._missed + saving, 0.0)
        self._candidate = _Prefix(frozenset((turn.index,)), turn.passages, turn.alone)
        surcharge = (self._write - self._full) * (turn.alone - _cached(turn.before))
        begins = bool(turn.passages) and self._missed + saving >= surcharge
        if begins:
            self._prefix, self._loss, self._gain = self._candidate, 0.0, 0.0
        return KeptQuestions(current=begins)

    def _continue(self, prefix: _Prefix, turn: _Turn) -> KeptQuestions:
        repeated, tokens = prefix.repeated(turn), prefix.tokens(turn)
        gain = repeated * self._full - sum(prefix.passages.values()) * self._read
        grows = self._gain + gain >= 0
        self._gain = gain
        if grows:
            whole = tokens + turn.alone - turn.before - repeated
            self._prefix = _Prefix(prefix.indexes | {turn.index}, prefix.passages | turn.passages, whole)
        else:
            self._prefix = _Prefix(prefix.indexes, prefix.passages, tokens)
        return KeptQuestions(prefix.indexes, current=grows)

    def _continued(self, prefix: _Prefix, turn: _Turn) -> float:
        """The cost of a question's prompt that begins with the prefix, without growth."""
        tokens = prefix.tokens(turn)
        return self._cost(prefix.cached, tokens, tokens + turn.alone - turn.before - prefix.repeated(turn))

    def _cost(self, cached: int, written: int, tokens: int) -> float:
        """The cost of a prompt of which `cached` tokens are in the cache, and `written` will be."""
        read, retained = _cached(cached), _cached(written)
        return read * self._read + (retained - read) * self._write + (tokens - retained) * self._full


def _cached(tokens: int) -> int:
    return tokens if tokens >= LEAST_CACHED else 0


def _tokens(passage: pb.Passage) -> int:
    return (passage.token_count or estimate_tokens(passage.text)) + _LABEL
