"""The values of the ledger: a call, its price, its usage and its settlement."""

from dataclasses import dataclass
from decimal import ROUND_CEILING, ROUND_HALF_UP, Decimal
from enum import StrEnum
from typing import Final

NANO: Final = 1_000_000_000
"""Nano-USD per USD: amounts are whole nano-USD, so that sums are exact."""

PRICED_TOKENS: Final = 1_000_000
"""Number of tokens to which a price applies."""

INPUT_MARGIN: Final = Decimal("1.5")
"""Factor by which an estimate of the input may be too low: the reservation must cover what is spent."""


class Purpose(StrEnum):
    """The purpose of a call."""

    QUESTION_EMBEDDING = "question_embedding"
    INGEST = "ingest"
    ENRICHMENT = "enrichment"
    DECISION = "decision"
    REWRITING = "rewriting"
    RELEVANCE = "relevance"
    TABLE_QUERY = "table_query"
    RERANK = "rerank"
    GENERATION = "generation"
    ASSESSMENT = "assessment"
    SUGGESTIONS = "suggestions"
    PROVIDER_TEST = "provider_test"


class Outcome(StrEnum):
    """How a call ended."""

    OPEN = "open"
    DONE = "done"
    CANCELLED = "cancelled"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class CallUsage:
    """The actual usage of a call."""

    input_tokens: int
    """Including those read from the provider's cache and written to it."""
    cached_input_tokens: int = 0
    output_tokens: int = 0
    estimated: bool = False
    """Whether the counts are our estimate, because the provider reported none."""
    finish: str = ""
    """Why it ended, according to the provider."""
    cache_write_input_tokens: int = 0
    """Tokens that the provider wrote to its cache, if it charges for that."""


@dataclass(frozen=True, slots=True)
class Price:
    """USD per million tokens."""

    input: Decimal
    cached_input: Decimal
    """Price of tokens that the provider read from its cache."""
    cache_write: Decimal
    """Price of tokens that it wrote to its cache."""
    output: Decimal

    def nano(self) -> tuple[int, int, int, int]:
        """Returns nano-USD per million tokens of input, cached input, cache writes and output."""
        prices = (self.input, self.cached_input, self.cache_write, self.output)
        input_, cached, write, output = (int((price * NANO).to_integral_value(ROUND_HALF_UP)) for price in prices)
        return input_, cached, write, output

    def cost(self, usage: CallUsage) -> int:
        """Returns nano-USD, rounded up, as the function `ledger.cost` does."""
        cached, written = usage.cached_input_tokens, usage.cache_write_input_tokens
        counts = (usage.input_tokens - cached - written, cached, written, usage.output_tokens)
        total = sum(count * price for count, price in zip(counts, self.nano(), strict=True))
        return -(-total // PRICED_TOKENS)

    def highest_cost(self, input_tokens: int, output_tokens: int) -> int:
        """Returns the maximum cost of a call in nano-USD: estimated input at its highest rate, longest output."""
        input_, cached, written, output = self.nano()
        tokens = int((input_tokens * INPUT_MARGIN).to_integral_value(ROUND_CEILING))
        return -(-(tokens * max(input_, cached, written) + output_tokens * output) // PRICED_TOKENS)


@dataclass(frozen=True, slots=True)
class NewCall:
    """A call that is about to be made."""

    purpose: Purpose
    provider: str
    model: str
    price: Price | None
    """The catalogue's current price; None if it isn't known."""
    input_tokens: int
    """Our estimate."""
    max_output_tokens: int = 0
    """Maximum output tokens; 0 for embeddings."""
    own: bool = False
    """Whether the tenant's own key pays: the call costs the operator nothing, but is still recorded."""

    def reserved(self) -> int:
        """Returns nano-USD to reserve; 0 if the price isn't known."""
        return 0 if self.price is None else self.price.highest_cost(self.input_tokens, self.max_output_tokens)


@dataclass(frozen=True, slots=True)
class Settlement:
    """How a call ended, and what it used."""

    outcome: Outcome
    reason: str
    usage: CallUsage
