"""A rerank model without weights of its own: late interaction over the token vectors of the embedding model.

Each token of the query looks for the token of the document that is most like it; the mean of their cosines is the
score (MaxSim, as in ColBERT). The embedding model wasn't trained for it, so a first ranking's scores count beside it:
docs/adr/0009-rerank.md says what both are worth.
"""

import asyncio
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from citewire_embedder.providers.base import Precision, Purpose, TokenisedText
from citewire_embedder.providers.encoder import build_encoder
from citewire_embedder.providers.local import pad
from citewire_embedder.providers.model_directory import ModelDirectory
from citewire_embedder.providers.openvino_session import Session, compile_session
from citewire_embedder.providers.reranking import Ranking, RerankInfo, RerankModel, best_first
from citewire_embedder.providers.tokeniser import Tokeniser
from citewire_kit.errors import ResourceExhausted, StartupError, Unavailable
from citewire_kit.telemetry import get_logger

log = get_logger(__name__)

_T = TypeVar("_T")

TokenVectors = NDArray[np.float32]
"""One text's token vectors as rows: float32, shape (tokens, width), each row of length 1."""

SUFFIX = "-late-interaction"
"""What the model's name adds to that of the embedding model."""

_WEIGHT = 1.0
"""Of MaxSim beside the first ranking's scores."""
_ALIKE = 1e-9
"""Spread of scores below which they say nothing."""
_BATCH_TOKENS = 768
_BATCH_TEXTS = 16
_RETRY_SECONDS = 1.0
_TOKEN_CHARACTERS = 16
"""More than a token of any real text has."""


class LateInteraction(RerankModel):
    """MaxSim over a model directory's token vectors, computed on the CPU in a thread of its own.

    The graph is built at the first call: who doesn't rerank pays nothing for it.

    Args:
        name: The embedding model's public name.
        directory: Its files, as safetensors.
        precision: In what numbers it computes.
        threads: CPU threads of one computation.
        most_tokens: Tokens that may wait or be computed at once; more are refused, unless nothing else is.

    Raises:
        StartupError: The directory holds a finished graph, whose token vectors aren't known to be its output.
    """

    def __init__(
        self, name: str, directory: ModelDirectory, *, precision: Precision, threads: int, most_tokens: int = 65_536
    ) -> None:
        if directory.encoder is None:
            raise StartupError(f"late interaction needs {name} as safetensors weights")
        self._directory = directory
        self._encoder = directory.encoder
        self._precision = precision
        self._threads = threads
        self._most_tokens = most_tokens
        self._tokeniser = Tokeniser(
            directory.tokeniser,
            max_tokens=directory.max_tokens,
            lower_case=directory.lower_case,
            prompts=directory.prompts,
        )
        self._info = RerankInfo(f"{name}{SUFFIX}", "local", directory.revision(), directory.max_tokens, precision.value)
        self._session: Session | None = None
        self._tokens = 0
        self._closed = False
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="reranker")

    @property
    def info(self) -> RerankInfo:
        """What the model is."""
        return self._info

    async def rerank(
        self, query: str, documents: Sequence[str], top_n: int | None = None, first_scores: Sequence[float] = ()
    ) -> Ranking:
        """Scores the documents batch by batch, so that calls take turns and one whose caller has left ends soon.

        A score is MaxSim, or the blend with the first ranking's if that is given.

        Raises:
            ResourceExhausted: Too much waits already (`OVERLOADED`).
            Unavailable: The model can't be loaded, or the service ends.
        """
        texts = await self._run(lambda: self._tokenise(query, documents))
        tokens = sum(len(text.ids) for text in texts)
        if self._tokens and self._tokens + tokens > self._most_tokens:
            raise ResourceExhausted(
                "the reranker has as much work as it takes; try again later",
                reason="OVERLOADED",
                retry_after=_RETRY_SECONDS,
            )
        self._tokens += tokens
        try:
            (own,) = await self._run(lambda: self.token_vectors(texts[:1]))
            scores = np.empty(len(documents), np.float32)
            for batch in batches([len(text.ids) for text in texts[1:]]):
                chosen = [texts[1 + index] for index in batch]
                scores[batch] = await self._run(partial(self._scores, own, chosen))
        finally:
            self._tokens -= tokens
        blended = blend(first_scores, scores) if len(first_scores) else scores
        return Ranking(best_first(blended.tolist(), top_n), tokens)

    async def close(self) -> None:
        """Ends the thread; a computation that is running goes on to its end, and nobody waits for it."""
        self._closed = True
        self._thread.shutdown(wait=False, cancel_futures=True)
        self._session = None

    def token_vectors(self, texts: Sequence[TokenisedText]) -> list[TokenVectors]:
        """Computes the vectors of each text's tokens, without the special ones, in the calling thread."""
        session = self._session or self._load()
        ids, mask = pad([text.ids for text in texts], self._directory.max_tokens)
        output = session.run({"input_ids": ids, "attention_mask": mask})
        # The first and the last token are the text's frame: they say what the whole is about, and match anything.
        return [row[1 : max(len(text.ids) - 1, 2)] for row, text in zip(output, texts, strict=True)]

    def _scores(self, query: TokenVectors, texts: Sequence[TokenisedText]) -> list[float]:
        return [max_sim(query, document) for document in self.token_vectors(texts)]

    def _tokenise(self, query: str, documents: Sequence[str]) -> list[TokenisedText]:
        # What is beyond the window isn't read, so it needn't be tokenised either.
        most = self._directory.max_tokens * _TOKEN_CHARACTERS
        beginnings = [text[:most] for text in documents]
        return [
            *self._tokeniser.tokenise([query[:most]], Purpose.QUERY),
            *self._tokeniser.tokenise(beginnings, Purpose.DOCUMENT),
        ]

    def _load(self) -> Session:
        start = time.perf_counter()
        quantise = self._precision is Precision.INT8
        try:
            graph = build_encoder(self._encoder, self._directory.load_weights(), None, quantise=quantise)
            session = compile_session(graph.SerializeToString(), self._precision, self._threads)
        except StartupError as exc:
            log.warning("reranker_not_loaded", error=str(exc))
            raise Unavailable("the rerank model can't be loaded", reason="SERVICE_UNAVAILABLE") from exc
        log.info("reranker_loaded", model=self._info.name, seconds=round(time.perf_counter() - start, 3))
        self._session = session
        return session

    async def _run(self, work: Callable[[], _T]) -> _T:
        if self._closed:
            raise Unavailable("the reranker is shutting down", reason="SHUTTING_DOWN", retry_after=_RETRY_SECONDS)
        return await asyncio.get_running_loop().run_in_executor(self._thread, work)


def max_sim(query: TokenVectors, document: TokenVectors) -> float:
    """The mean, over the query's tokens, of the cosine to the most similar token of the document."""
    return float((query @ document.T).max(axis=1).mean())


def blend(first: Sequence[float], own: NDArray[np.float32]) -> NDArray[np.float64]:
    """Weighs two scores of the same documents, each by how far it is from the mean of its kind.

    Args:
        first: Of a first ranking, on any scale.
        own: MaxSim, as many.

    Returns:
        The first ranking's standard score + weight × that of MaxSim; float64, shape (documents,).
    """
    return _standard(np.asarray(first, np.float64)) + _WEIGHT * _standard(own.astype(np.float64))


def _standard(scores: NDArray[np.float64]) -> NDArray[np.float64]:
    spread = float(scores.std())
    return (scores - scores.mean()) / spread if spread > _ALIKE else np.zeros_like(scores)


def batches(lengths: Sequence[int]) -> list[list[int]]:
    """Puts texts of similar length together, as the shorter ones of a batch are padded; returns their indices."""
    found: list[list[int]] = []
    for index in sorted(range(len(lengths)), key=lambda index: -lengths[index]):
        batch = found[-1] if found else None
        if batch and len(batch) < _BATCH_TEXTS and (len(batch) + 1) * lengths[batch[0]] <= _BATCH_TOKENS:
            batch.append(index)
        else:
            found.append([index])
    return found
