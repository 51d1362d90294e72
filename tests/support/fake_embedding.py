"""An embedding model for tests: deterministic, without weights, and stoppable in the middle of a batch."""

from __future__ import annotations

import asyncio
import zlib
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager

import numpy as np
from citewire.common.v1.common_pb2 import EmbeddingSpace
from numpy.typing import NDArray

from citewire_embedder.providers.base import (
    EmbeddingModel,
    ModelInfo,
    Purpose,
    TokenisedText,
    Vectors,
)
from citewire_embedder.scheduler import BatchLimits
from citewire_embedder.service import Embedder, ServiceLimits

DIMENSIONS = 8
WINDOW = 16
START, END = 1, 2


class FakeModel(EmbeddingModel):
    """Words are tokens; a vector depends only on the tokens."""

    def __init__(self, *, window: int = WINDOW) -> None:
        self.batches: list[list[tuple[int, ...]]] = []
        """The batches computed so far, each as the ids of its texts."""
        self.gate = asyncio.Event()
        """While it is clear, a batch waits inside the model."""
        self.gate.set()
        self.computing = asyncio.Event()
        """Set while a batch is inside."""
        self.error: Exception | None = None
        """The error that the next batches raise."""
        self.closed = False
        self._window = window

    @property
    def info(self) -> ModelInfo:
        return ModelInfo(
            space=EmbeddingSpace(model="fake", revision="r1", dimensions=DIMENSIONS),
            max_input_tokens=self._window,
            extra_tokens=2,
            precision="fp32",
            provider="local",
        )

    async def load(self) -> None:
        await asyncio.sleep(0)

    async def tokenise(self, texts: Sequence[str], purpose: Purpose) -> list[TokenisedText]:
        return [tokenise(text, self._window) for text in texts]

    async def count_tokens(self, texts: Sequence[str]) -> list[int]:
        return [len(text.split()) for text in texts]

    async def embed(self, texts: Sequence[TokenisedText]) -> Vectors:
        self.batches.append([tuple(text.ids) for text in texts])
        self.computing.set()
        try:
            await asyncio.sleep(0)  # a real model always lets the loop run
            await self.gate.wait()
        finally:
            self.computing.clear()
        if self.error is not None:
            raise self.error
        return np.stack([vector_of(text.ids) for text in texts])

    async def close(self) -> None:
        self.closed = True

    @property
    def texts_computed(self) -> int:
        """Number of texts that the model has received."""
        return sum(map(len, self.batches))


def tokenise(text: str, window: int = WINDOW) -> TokenisedText:
    """The fake model's tokens of a text."""
    ids = [zlib.crc32(word.encode()) % 1000 + 10 for word in text.split()]
    return TokenisedText((START, *ids[: window - 2], END), len(ids) + 2)


def vector_of(ids: Sequence[int]) -> NDArray[np.float32]:
    """The fake model's vector: of length 1, the same for the same ids."""
    seed = zlib.crc32(np.array(ids, np.int64).tobytes())
    vector = np.random.default_rng(seed).standard_normal(DIMENSIONS).astype(np.float32)
    return np.asarray(vector / np.linalg.norm(vector), np.float32)


def expected(text: str) -> NDArray[np.float32]:
    """The fake model's vector of a text."""
    return vector_of(tokenise(text).ids)


def words(count: int, name: str = "w") -> str:
    """A text with this many words; the fake model adds two tokens."""
    return " ".join(f"{name}{index}" for index in range(count))


def make_limits(
    *,
    query_tokens: int = 1000,
    document_tokens: int = 1000,
    cache_entries: int = 100,
    batch: BatchLimits | None = None,
    stream_ahead: int = 2,
) -> ServiceLimits:
    """Limits of a service in a test."""
    return ServiceLimits(
        query_tokens=query_tokens,
        document_tokens=document_tokens,
        cache_entries=cache_entries,
        batch=batch or BatchLimits(tokens=64, texts=4),
        stream_ahead=stream_ahead,
    )


@asynccontextmanager
async def running_embedder(model: FakeModel, limits: ServiceLimits | None = None) -> AsyncGenerator[Embedder]:
    """A service that is ready."""
    embedder = Embedder(model, limits or make_limits())
    async with embedder.running():
        yield embedder


async def settle() -> None:
    """Lets every runnable task run until it waits for something outside the loop."""
    for _ in range(20):
        await asyncio.sleep(0)
