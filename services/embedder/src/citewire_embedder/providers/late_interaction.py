"""A rerank model without weights of its own: late interaction over the token vectors of the embedding model.

Each token of the query is matched with the most similar token of the document; the mean of their cosines is the score
(MaxSim, as in ColBERT). Matches that are close together mean more, so MaxSim is computed within short passages too. As
the embedding model wasn't trained for this, a first ranking's scores are combined with it: docs/adr/0009-rerank.md
has the measurements.
"""

import asyncio
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

import numpy as np
from citewire.common.v1.common_pb2 import EmbeddingSpace
from numpy.typing import NDArray

from citewire_embedder.providers.base import (
    ModelInfo,
    Precision,
    Purpose,
    Ranking,
    RerankModel,
    TokenisedText,
    best_first,
    with_headings,
)
from citewire_embedder.providers.local import pad
from citewire_embedder.providers.model_directory import ModelDirectory
from citewire_embedder.providers.openvino_session import Session, compile_session
from citewire_kit.errors import ResourceExhausted, StartupError, Unavailable
from citewire_kit.telemetry import get_logger

log = get_logger(__name__)

_T = TypeVar("_T")

TokenVectors = NDArray[np.float32]
"""One text's token vectors as rows: float32, shape (tokens, width), each row of length 1."""

SUFFIX = "-late-interaction"
"""What the model's name adds to that of the embedding model."""

_STEP = 12
"""Tokens by which one passage begins after the other; a short passage has twice as many, a long one four times."""
_WHOLE, _LONG, _SHORT = 0.2, 0.4, 0.4
"""Weights of MaxSim within the whole document, and within its best passage of both lengths."""
_FULL_AGREEMENT = 0.7
_FEW = 5
"""Documents up to which no agreement can be told."""
_ALIKE = 1e-12
_BATCH_TOKENS = 768
_BATCH_TEXTS = 16
_RETRY_SECONDS = 1.0
_TOKEN_CHARACTERS = 16
"""More than a token of any real text has."""


@dataclass(frozen=True, slots=True)
class _Document:
    """A tokenised document, its heading before it, of which so many tokens are."""

    text: TokenisedText
    heading: int


class LateInteraction(RerankModel):
    """MaxSim over a model directory's token vectors, computed on the CPU in a thread of its own.

    The graph is built at the first call, so that it costs nothing where nobody reranks.

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
        self._precision = precision
        self._threads = threads
        self._most_tokens = most_tokens
        self._tokeniser = directory.open_tokeniser()
        space = EmbeddingSpace(model=f"{name}{SUFFIX}", revision=directory.revision())
        self._info = ModelInfo(space, directory.max_tokens, 0, precision.value, "local")
        self._session: Session | None = None
        self._tokens = 0
        self._closed = False
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="reranker")

    @property
    def info(self) -> ModelInfo:
        """What the model is."""
        return self._info

    async def rerank(
        self,
        query: str,
        documents: Sequence[str],
        top_n: int | None = None,
        first_scores: Sequence[float] = (),
        headings: Sequence[str] = (),
    ) -> Ranking:
        """Scores the documents batch by batch, so that calls take turns and an abandoned one ends soon.

        A score is the closeness to the query, or the blend with the first ranking's if that is given.

        Raises:
            ResourceExhausted: The queue is full (`OVERLOADED`).
            Unavailable: The model can't be loaded, or the service ends.
        """
        query_text, texts = await self._run(lambda: self._tokenise(query, documents, headings))
        tokens = len(query_text.ids) + sum(len(document.text.ids) for document in texts)
        if self._tokens and self._tokens + tokens > self._most_tokens:
            raise ResourceExhausted(
                "the reranker is at its limit of work; try again later",
                reason="OVERLOADED",
                retry_after=_RETRY_SECONDS,
            )
        self._tokens += tokens
        try:
            (own,) = await self._run(lambda: self.token_vectors([query_text]))
            found: dict[int, float] = {}
            for batch in batches([len(document.text.ids) for document in texts]):
                chosen = [texts[index] for index in batch]
                found.update(zip(batch, await self._run(partial(self._compare, own, chosen)), strict=True))
        finally:
            self._tokens -= tokens
        closest = [found[index] for index in range(len(documents))]
        scores = blend(first_scores, closest) if first_scores else closest
        return Ranking(best_first(scores, top_n), tokens)

    async def close(self) -> None:
        """Ends the thread without waiting for a running computation."""
        self._closed = True
        self._thread.shutdown(wait=False, cancel_futures=True)
        self._session = None

    def token_vectors(self, texts: Sequence[TokenisedText]) -> list[TokenVectors]:
        """Computes the vectors of each text's tokens, without the special ones, in the calling thread."""
        session = self._session or self._load()
        ids, mask = pad([text.ids for text in texts], self._directory.max_tokens)
        output = session.run({"input_ids": ids, "attention_mask": mask})
        # The first and the last token are special tokens, which stand for the whole text and match anything.
        return [row[1 : max(len(text.ids) - 1, 2)] for row, text in zip(output, texts, strict=True)]

    def _compare(self, query: TokenVectors, documents: Sequence[_Document]) -> list[float]:
        vectors = self.token_vectors([each.text for each in documents])
        return [closeness(query, own, each.heading) for own, each in zip(vectors, documents, strict=True)]

    def _tokenise(
        self, query: str, documents: Sequence[str], headings: Sequence[str]
    ) -> tuple[TokenisedText, list[_Document]]:
        # What is beyond the window isn't read, so it needn't be tokenised either.
        most = self._directory.max_tokens * _TOKEN_CHARACTERS
        (asked,) = self._tokeniser.tokenise([query[:most]], Purpose.QUERY)
        beginnings = [text[:most] for text in with_headings(headings, documents)]
        texts = self._tokeniser.tokenise(beginnings, Purpose.DOCUMENT)
        above = self._tokeniser.tokenise([text[:most] for text in headings], Purpose.DOCUMENT)
        # Without the two special tokens of each text.
        lengths = [max(len(text.ids) - 2, 0) for text in above] or [0] * len(texts)
        return asked, list(map(_Document, texts, lengths))

    def _load(self) -> Session:
        start = time.perf_counter()
        try:
            graph = self._directory.build_graph(None, self._precision)
            session = compile_session(graph, self._precision, self._threads)
        except StartupError as exc:
            log.warning("reranker_not_loaded", error=str(exc))
            raise Unavailable("the rerank model can't be loaded", reason="SERVICE_UNAVAILABLE") from exc
        log.info("reranker_loaded", model=self._info.space.model, seconds=round(time.perf_counter() - start, 3))
        self._session = session
        return session

    async def _run(self, work: Callable[[], _T]) -> _T:
        if self._closed:
            raise Unavailable("the reranker is shutting down", reason="SHUTTING_DOWN", retry_after=_RETRY_SECONDS)
        return await asyncio.get_running_loop().run_in_executor(self._thread, work)


def max_sim(query: TokenVectors, document: TokenVectors) -> float:
    """The mean, over the query's tokens, of the cosine to the most similar token of the document."""
    return float((query @ document.T).max(axis=1).mean())


def closeness(query: TokenVectors, document: TokenVectors, heading: int = 0) -> float:
    """MaxSim within the whole document, and within its best long and its best short passage; −1 to 1.

    Args:
        query: The question's token vectors.
        document: The document's, those of its heading first.
        heading: How many of them are the heading's, which belongs to each passage.
    """
    cosines = query @ document.T
    whole = float(cosines.max(axis=1).mean())
    body = cosines[:, heading:]
    if not body.shape[1]:
        return whole
    above = cosines[:, :heading].max(axis=1, keepdims=True) if heading else None
    steps = np.maximum.reduceat(body, range(0, body.shape[1], _STEP), axis=1)
    pairs = np.maximum.reduceat(steps, range(0, steps.shape[1], 2), axis=1)
    return _WHOLE * whole + _LONG * _best_passage(pairs, above) + _SHORT * _best_passage(steps, above)


def blend(first: Sequence[float], own: Sequence[float]) -> list[float]:
    """Adds the closeness of token vectors to a first ranking's scores, as far as both agree.

    Agreement is the correlation of both over the documents; from 0.7 on the token vectors count wholly. A model that
    doesn't know the language agrees with nobody, and leaves the first ranking as it is.

    Args:
        first: Of a first ranking, on the scale of a hybrid search: about 0–1, the best usually 0.2–0.6.
        own: As many.
    """
    unclear = len(first) <= _FEW or max(first) - min(first) < _ALIKE
    trust = 1.0 if unclear else min(1.0, max(0.0, _correlation(first, own)) / _FULL_AGREEMENT)
    return [before + trust * more for before, more in zip(first, own, strict=True)]


def _best_passage(parts: NDArray[np.float32], above: NDArray[np.float32] | None) -> float:
    """MaxSim within the best two neighbouring parts, given each part's highest cosine for each token of the query."""
    passages = np.maximum(parts[:, :-1], parts[:, 1:]) if parts.shape[1] > 1 else parts
    return float((passages if above is None else np.maximum(passages, above)).mean(axis=0).max())


def _correlation(first: Sequence[float], second: Sequence[float]) -> float:
    """Returns Pearson's correlation; 0 if all values of one side are equal."""
    left, right = np.asarray(first, np.float64), np.asarray(second, np.float64)
    spread = float(left.std() * right.std())
    return float(((left - left.mean()) * (right - right.mean())).mean()) / spread if spread > _ALIKE else 0.0


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
