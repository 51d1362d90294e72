"""What the ledger speaks of."""

from dataclasses import dataclass
from decimal import Decimal
from enum import StrEnum


class Purpose(StrEnum):
    """What a call is for."""

    QUESTION_EMBEDDING = "question_embedding"
    INGEST = "ingest"
    DECISION = "decision"
    REWRITING = "rewriting"
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
class Price:
    """USD per million tokens."""

    input: Decimal
    cached_input: Decimal
    output: Decimal


@dataclass(frozen=True, slots=True)
class NewCall:
    """A call that is about to be made.

    Attributes:
        price: The catalogue's now; None if it isn't known.
        input_tokens: Our estimate.
        max_output_tokens: What it may write at most; 0 for embeddings.
        own: Whether the tenant's own key pays: it costs the operator nothing, and is counted all the same.
    """

    purpose: Purpose
    provider: str
    model: str
    price: Price | None
    input_tokens: int
    max_output_tokens: int = 0
    own: bool = False


@dataclass(frozen=True, slots=True)
class Spent:
    """What a call spent in the end.

    Attributes:
        input_tokens: Those that came from the provider's cache included.
        estimated: Whether the provider didn't say.
        finish: Why it ended, as the provider said.
    """

    input_tokens: int
    cached_input_tokens: int = 0
    output_tokens: int = 0
    estimated: bool = False
    finish: str = ""
