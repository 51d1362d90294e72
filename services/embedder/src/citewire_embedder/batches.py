"""Requests to embed or count, and their results."""

from collections.abc import Sequence
from dataclasses import dataclass

from citewire.common.v1.common_pb2 import EmbeddingSpace, ProviderRef

from citewire_embedder.providers.base import ModelInfo, Purpose, Vectors
from citewire_kit.errors import FieldViolation, InvalidArgument

_NAMED_VIOLATIONS = 16


@dataclass(frozen=True, slots=True)
class EmbedBatch:
    """Texts to embed."""

    texts: tuple[str, ...]
    """1-256 texts, none empty."""
    purpose: Purpose
    """The purpose of embedding."""
    org_id: str
    """The organisation that they belong to."""
    model: str = ""
    """The model's name; empty for the default."""
    dimensions: int | None = None
    """Requested length of the vectors; None for the model's own."""
    truncate: bool = False
    """Cut texts that are longer than the window instead of rejecting the batch."""
    provider: ProviderRef | None = None
    """The tenant provider to embed with; None for one of the operator's models."""


@dataclass(frozen=True, slots=True)
class EmbedResult:
    """The vectors of a batch, in its order."""

    vectors: Vectors
    """Shape (texts, dimensions)."""
    space: EmbeddingSpace
    """The space of the vectors."""
    input_tokens: int
    """Tokens that the model read; texts answered from the cache cost none."""
    token_counts: tuple[int, ...]
    """Tokens of each text before any cut."""
    truncated: tuple[int, ...]
    """Indices of the texts that were cut."""


@dataclass(frozen=True, slots=True)
class TokenCounts:
    """Token counts of texts, without those that the model adds to each, and the model that counted."""

    counts: tuple[int, ...]
    model: ModelInfo


def check_lengths(model: ModelInfo, counts: Sequence[int], *, truncate: bool) -> tuple[int, ...]:
    """Returns the indices of the texts that are longer than the window.

    Raises:
        InvalidArgument: There are some, and cutting isn't allowed (`INPUT_TOO_LONG`).
    """
    window = model.max_input_tokens
    long = tuple(index for index, count in enumerate(counts) if count > window)
    if long and not truncate:
        raise InvalidArgument(
            f"input {long[0]} has {counts[long[0]]} tokens, but the model takes at most {window}",
            reason="INPUT_TOO_LONG",
            metadata={
                "input": str(long[0]),
                "tokens": str(counts[long[0]]),
                "max_input_tokens": str(window),
            },
            violations=[
                FieldViolation(f"inputs[{index}]", f"must be at most {window} tokens; it has {counts[index]}")
                for index in long[:_NAMED_VIOLATIONS]
            ],
        )
    return long
