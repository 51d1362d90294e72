"""A model that runs in this process, on the CPU, in a separate thread."""

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar

import numpy as np
from citewire.common.v1.common_pb2 import EmbeddingSpace
from numpy.typing import NDArray

from citewire_embedder.providers.base import (
    EmbeddingModel,
    ModelInfo,
    Precision,
    Purpose,
    TokenisedText,
    Vectors,
)
from citewire_embedder.providers.encoder import Pooling
from citewire_embedder.providers.model_directory import ModelDirectory
from citewire_embedder.providers.openvino_session import Session, compile_session
from citewire_kit.errors import StartupError

_T = TypeVar("_T")

_INLINE_CHARACTERS = 2048
"""Texts up to this length are tokenised on the event loop: about 0.3 ms, a thread's round trip costs as much."""

_WARM_TOKENS = 64
"""`load` prepares shapes up to this length, that of queries; longer texts take long anyway."""


class LocalModel(EmbeddingModel):
    """A model directory, computed by OpenVINO.

    Computations take turns in one thread and use `threads` cores each; tokenising has a separate thread.
    """

    def __init__(self, name: str, directory: ModelDirectory, *, precision: Precision, threads: int) -> None:
        """Reads the tokeniser and hashes the weights; the graph is built by `load`.

        Args:
            name: The model's public name.
            directory: Its files.
            precision: Its numeric precision.
            threads: CPU threads of one computation.

        Raises:
            StartupError: The directory can't be served in this precision.
        """
        if precision is Precision.INT8 and directory.encoder is None:
            raise StartupError(f"{directory.weights} is served unchanged: precision int8 needs safetensors weights")
        self.directory = directory
        self._precision = precision
        self._threads = threads
        self._tokeniser = directory.open_tokeniser()
        self._session: Session | None = None
        self._compute_thread = ThreadPoolExecutor(1, thread_name_prefix="model")
        self._token_thread = ThreadPoolExecutor(1, thread_name_prefix="tokeniser")
        self._name = name
        self._revision = directory.revision()
        self._dimensions = directory.encoder.width if directory.encoder else 0

    @property
    def info(self) -> ModelInfo:
        """The model's identity; an ONNX export's dimensions are known after `load`."""
        return ModelInfo(
            space=EmbeddingSpace(model=self._name, revision=self._revision, dimensions=self._dimensions),
            max_input_tokens=self.directory.max_tokens,
            extra_tokens=self._tokeniser.extra_tokens,
            precision=self._precision.value,
            provider="local",
        )

    async def load(self) -> None:
        """Builds and compiles the graph, and computes once each shape that a single query can have."""
        await self._run(self._compute_thread, self._load)

    async def tokenise(self, texts: Sequence[str], purpose: Purpose) -> list[TokenisedText]:
        """Turns texts into tokens."""
        if sum(map(len, texts)) <= _INLINE_CHARACTERS:
            return self._tokeniser.tokenise(texts, purpose)
        return await self._run(self._token_thread, lambda: self._tokeniser.tokenise(texts, purpose))

    async def count_tokens(self, texts: Sequence[str]) -> list[int]:
        """Counts each text's own tokens."""
        if sum(map(len, texts)) <= _INLINE_CHARACTERS:
            return self._tokeniser.count(texts)
        return await self._run(self._token_thread, lambda: self._tokeniser.count(texts))

    async def embed(self, texts: Sequence[TokenisedText]) -> Vectors:
        """Computes one batch."""
        return await self._run(self._compute_thread, lambda: self.compute(texts))

    async def close(self) -> None:
        """Ends the threads without waiting for a running computation."""
        for executor in (self._compute_thread, self._token_thread):
            executor.shutdown(wait=False, cancel_futures=True)
        self._session = None

    def compute(self, texts: Sequence[TokenisedText]) -> Vectors:
        """Computes one batch in the calling thread, which must be the only one."""
        if self._session is None:
            raise RuntimeError("the model isn't loaded")
        ids, mask = pad([text.ids for text in texts], self.directory.max_tokens)
        feeds = {"input_ids": ids, "attention_mask": mask, "token_type_ids": np.zeros_like(ids)}
        output = self._session.run(feeds)
        return output if self.directory.encoder else pool(output, mask, self.directory.pooling)

    def _load(self) -> None:
        directory = self.directory
        model: Path | bytes = directory.weights
        if directory.encoder is not None:
            model = directory.build_graph(directory.pooling, self._precision)
        self._session = compile_session(model, self._precision, self._threads)
        # The runtime prepares its kernels at the first use of a shape, which would double the time of a query.
        shapes = sorted({padded_length(n) for n in range(1, min(directory.max_tokens, _WARM_TOKENS) + 1)})
        for length in shapes:
            ids = (0,) * min(length, directory.max_tokens)
            self._dimensions = self.compute([TokenisedText(ids, len(ids))]).shape[1]

    async def _run(self, executor: ThreadPoolExecutor, work: Callable[[], _T]) -> _T:
        return await asyncio.get_running_loop().run_in_executor(executor, work)


def padded_length(tokens: int) -> int:
    """Rounds a length up, so that few shapes occur: the runtime keeps prepared kernels by shape.

    Steps of 4 up to 32 tokens and of 8 up to 64, where queries are and padding costs them latency; of 16 above.
    """
    step = 4 if tokens <= 32 else 8 if tokens <= 64 else 16
    return -(-tokens // step) * step


def pad(texts: Sequence[Sequence[int]], max_tokens: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Returns padded token ids and their mask: both int64, shape (texts, padded length)."""
    lengths = [len(ids) for ids in texts]
    width = min(padded_length(max(lengths)), max_tokens)
    ids = np.zeros((len(texts), width), np.int64)
    mask = np.zeros((len(texts), width), np.int64)
    for row, (tokens, length) in enumerate(zip(texts, lengths, strict=True)):
        ids[row, :length] = tokens
        mask[row, :length] = 1
    return ids, mask


def pool(hidden: NDArray[np.float32], mask: NDArray[np.int64], pooling: Pooling) -> Vectors:
    """Pools the token vectors of an ONNX export; vectors that it has already pooled are only normalised.

    Args:
        hidden: Shape (texts, tokens, width), or (texts, width) if the export pools.
        mask: Shape (texts, tokens).
        pooling: The kind of pooling.
    """
    pooled = hidden
    if hidden.ndim == 3:
        own = mask[:, :, None].astype(np.float32)
        match pooling:
            case Pooling.CLS:
                pooled = hidden[:, 0]
            case Pooling.MAX:
                pooled = np.where(own > 0, hidden, -np.inf).max(axis=1)
            case Pooling.MEAN:
                pooled = (hidden * own).sum(axis=1) / np.maximum(own.sum(axis=1), 1e-9)
    length = np.linalg.norm(pooled, axis=1, keepdims=True)
    return np.asarray(pooled / np.maximum(length, 1e-12), np.float32)
