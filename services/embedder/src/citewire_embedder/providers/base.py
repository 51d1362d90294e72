"""The interfaces of embedding and rerank models, and the values that they exchange with the rest of the service.

An embedding model works in two steps, text into tokens and tokens into vectors: the scheduler needs the token counts
to batch and to admit work before any vector is computed.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
from citewire.common.v1.common_pb2 import EmbeddingSpace
from numpy.typing import NDArray

Vectors = NDArray[np.float32]
"""Vectors as rows: float32, shape (texts, dimensions), each row of length 1."""


class Precision(StrEnum):
    """Numeric precision of a local model."""

    FP32 = "fp32"
    BF16 = "bf16"
    INT8 = "int8"


class Purpose(StrEnum):
    """The purpose of embedding a text."""

    QUERY = "query"
    DOCUMENT = "document"


@dataclass(frozen=True, slots=True)
class Prompts:
    """Texts that a model was trained to see before an input; empty for most models."""

    query: str = ""
    document: str = ""

    def for_purpose(self, purpose: Purpose) -> str:
        """Returns the prompt for a purpose."""
        return self.query if purpose is Purpose.QUERY else self.document


@dataclass(frozen=True, slots=True)
class ModelInfo:
    """Description of a model for callers."""

    space: EmbeddingSpace
    """The space of its vectors. A rerank model has a name, and a revision if it is local, but no dimensions."""
    max_input_tokens: int
    """Its window in tokens, `extra_tokens` included; 0 if it isn't known."""
    extra_tokens: int
    """Tokens that the model adds to each text: special tokens, and the longer of its prompts."""
    precision: str
    """Numeric precision of a local model; empty for a remote one."""
    provider: str
    """`local`, or the kind of a remote provider."""


@dataclass(frozen=True, slots=True)
class TokenisedText:
    """A tokenised text."""

    ids: Sequence[int]
    """Token ids, special tokens included, cut to the model's window. Of a remote model only their number counts."""
    total: int
    """Tokens before the cut, special tokens included."""


class EmbeddingModel(ABC):
    """A model that turns text into vectors.

    `load` is called once before anything but `info`; after that the methods may run concurrently.
    """

    @property
    @abstractmethod
    def info(self) -> ModelInfo:
        """The model's identity; known before `load`."""

    @abstractmethod
    async def load(self) -> None:
        """Prepares the model, including its first computation.

        Raises:
            StartupError: It can't be loaded; the message says why and what to do.
        """

    @abstractmethod
    async def tokenise(self, texts: Sequence[str], purpose: Purpose) -> list[TokenisedText]:
        """Turns texts into tokens, with the model's prompt for the purpose."""

    @abstractmethod
    async def count_tokens(self, texts: Sequence[str]) -> list[int]:
        """Counts each text's own tokens: without special tokens and prompts."""

    @abstractmethod
    async def embed(self, texts: Sequence[TokenisedText]) -> Vectors:
        """Computes one batch: all texts at once, in this order.

        The computation runs outside of the event loop. A cancelled call returns at once; what is already being
        computed is discarded when it is done.
        """

    async def embed_counted(self, texts: Sequence[TokenisedText]) -> tuple[Vectors, int]:
        """Like `embed`, with the number of tokens, as counted by the provider if it did."""
        return await self.embed(texts), sum(len(text.ids) for text in texts)

    def shortened(self, dimensions: int) -> "EmbeddingModel | None":
        """Returns the same model with shorter vectors, for as long as this one is open; None if it has none."""
        del dimensions
        return None

    @abstractmethod
    async def close(self) -> None:
        """Releases the model and its threads."""


@dataclass(frozen=True, slots=True)
class Ranked:
    """One document of a ranking."""

    index: int
    """The document's index among those given."""
    score: float
    """Score, comparable only within one model; 0 without one."""


@dataclass(frozen=True, slots=True)
class Ranking:
    """Documents by relevance."""

    ranked: tuple[Ranked, ...]
    """Best first, equal scores in the given order, followed by those that weren't scored, also in that order."""
    input_tokens: int
    """Tokens that the model read."""
    scored: int
    """Number of documents scored: all, unless time ran out."""
    estimated: bool = False
    """Whether tokens are our estimate, because the provider reported none."""


class RerankModel(ABC):
    """A model that scores documents against a query. Its methods may run concurrently."""

    @property
    @abstractmethod
    def info(self) -> ModelInfo:
        """The model's identity; its space has no dimensions."""

    @abstractmethod
    async def rerank(
        self,
        query: str,
        documents: Sequence[str],
        top_n: int | None = None,
        first_scores: Sequence[float] = (),
        headings: Sequence[str] = (),
        *,
        seconds: float | None = None,
        org_id: str = "",
    ) -> Ranking:
        """Scores as many documents as time allows, and returns the best.

        Args:
            query: The question.
            documents: 1-1000 texts, none empty.
            top_n: How many to return; None for all.
            first_scores: The documents' scores in a first ranking, for models that use them; may be empty.
            headings: The heading of each document, which is read before it; may be empty, or contain empty ones.
            seconds: Time limit; None for no limit. Reaching it isn't an error.
            org_id: The organisation that the documents belong to.

        Raises:
            CitewireError: The model failed.
        """

    @abstractmethod
    async def close(self) -> None:
        """Releases the model with its threads or connections."""


def with_headings(headings: Sequence[str], documents: Sequence[str]) -> Sequence[str]:
    """Prepends each document's heading, if it has one, on a separate line."""
    if not headings:
        return documents
    return [f"{heading}\n{text}" if heading else text for heading, text in zip(headings, documents, strict=True)]


def best_first(scores: Mapping[int, float], documents: int, top_n: int | None) -> tuple[Ranked, ...]:
    """Orders documents by their scores; equal ones keep their order, and those without a score come last."""
    order = sorted(range(documents), key=lambda index: (index not in scores, -scores.get(index, 0.0)))
    return tuple(Ranked(index, float(scores.get(index, 0.0))) for index in order[:top_n])
