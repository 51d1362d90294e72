"""What an embedding model is to the rest of the service, and the values that travel between them.

A model turns text into tokens and tokens into vectors, in two steps: the scheduler needs the token counts to batch
and to admit work before any vector is computed.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray

Vectors = NDArray[np.float32]
"""Vectors as rows: float32, shape (texts, dimensions), each row of length 1."""


class Precision(StrEnum):
    """In what numbers a local model computes."""

    FP32 = "fp32"
    BF16 = "bf16"
    INT8 = "int8"


class Purpose(StrEnum):
    """What a text is embedded for."""

    QUERY = "query"
    DOCUMENT = "document"


@dataclass(frozen=True, slots=True)
class EmbeddingSpace:
    """Vectors are comparable only inside one space."""

    model: str
    revision: str
    dimensions: int


@dataclass(frozen=True, slots=True)
class ModelInfo:
    """What a caller may know about a model.

    Attributes:
        space: The space of its vectors.
        max_input_tokens: Its window in tokens, `extra_tokens` included.
        extra_tokens: Tokens that the model adds to each text: special ones, and the longer of its prompts.
        precision: In what numbers it computes; empty for a remote model.
        provider: `local`, or the kind of a remote provider.
    """

    space: EmbeddingSpace
    max_input_tokens: int
    extra_tokens: int
    precision: str
    provider: str


@dataclass(frozen=True, slots=True)
class TokenisedText:
    """One text as the model reads it.

    Attributes:
        ids: Token ids, special tokens included, cut to the model's window. Of a remote model only their number counts.
        total: Tokens before the cut, special tokens included.
    """

    ids: Sequence[int]
    total: int

    @property
    def is_cut(self) -> bool:
        """Says whether the text's tail was left out."""
        return self.total > len(self.ids)


class EmbeddingModel(ABC):
    """A model that turns text into vectors.

    `load` is called once before anything but `info`; after that the methods may run concurrently.
    """

    @property
    @abstractmethod
    def info(self) -> ModelInfo:
        """What the model is. Known before `load`."""

    @abstractmethod
    async def load(self) -> None:
        """Makes the model ready, its first computation included.

        Raises:
            StartupError: It can't be loaded; the message says why and what to do.
        """

    @abstractmethod
    async def tokenise(self, texts: Sequence[str], purpose: Purpose) -> list[TokenisedText]:
        """Turns texts into tokens, with the prompt that the model wants for the purpose."""

    @abstractmethod
    async def count_tokens(self, texts: Sequence[str]) -> list[int]:
        """Counts each text's own tokens: without special tokens and prompts."""

    @abstractmethod
    async def embed(self, texts: Sequence[TokenisedText]) -> Vectors:
        """Computes one batch: all texts at once, in this order.

        The computation runs outside of the event loop. A cancelled call returns at once; what is already being
        computed is thrown away when it is done.
        """

    async def embed_counted(self, texts: Sequence[TokenisedText]) -> tuple[Vectors, int]:
        """As `embed`, with the tokens that it took: a provider's own count, where there is one."""
        return await self.embed(texts), sum(len(text.ids) for text in texts)

    def shortened(self, dimensions: int) -> "EmbeddingModel | None":
        """Returns the same model with shorter vectors, for as long as this one is open; None if it has none."""
        del dimensions
        return None

    @abstractmethod
    async def close(self) -> None:
        """Lets go of the model and its threads."""
