"""A rerank model without weights of its own: late interaction over the token vectors of the embedding model.

`closeness` says what is computed from them. This module says in which order, for which calls, and in which time.
"""

import asyncio
import itertools
import time
from collections import deque
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from functools import partial

from citewire.common.v1.common_pb2 import EmbeddingSpace

from citewire_embedder.metrics import RERANKED
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
from citewire_embedder.providers.closeness import blend, closeness, passage_closeness
from citewire_embedder.providers.local import pad, padded_length
from citewire_embedder.providers.model_directory import ModelDirectory
from citewire_embedder.providers.openvino_session import Session, compile_session
from citewire_embedder.providers.token_vectors import PackedVectors, TokenVectorCache, TokenVectors, cosines_of
from citewire_embedder.providers.turns import Turns
from citewire_kit.errors import ResourceExhausted, StartupError, Unavailable
from citewire_kit.fair import FairShares
from citewire_kit.telemetry import get_logger

log = get_logger(__name__)

SUFFIX = "-late-interaction"
"""Suffix that the embedding model's name gets."""

_GROUP = 8
"""Number of documents, best first, that are looked up and tokenised at once."""
_THREAD_TOKENS = 256
"""Padded tokens of one batch per thread: about 40 ms. Between batches the time is checked, and another call gets its
turn."""
_FEWEST_TOKENS = 128
"""Minimum padded tokens of a batch, however many calls there are."""
_CACHED_AT_ONCE = 64
"""Number of cached documents that are scored in one turn: about 20 ms."""
_RETRY_SECONDS = 1.0
_TOKEN_CHARACTERS = 16
"""More characters per token than in any real text."""
_TYPICAL_TOKEN_CHARACTERS = 4
_FIRST_PACE = 1 / 6000
"""Seconds per padded token, until the first batch has been measured."""
_PACE_WEIGHT = 0.3
_RESERVE = 0.03
"""Share of a call's time reserved for work after the last batch and for sending the response."""
_MOST_LATE = 0.1
"""Maximum share of a call's time reserved because a busy machine checks its clock late."""


@dataclass(frozen=True, slots=True)
class _Document:
    """A tokenised document after its heading, and the number of the heading's tokens."""

    index: int
    key: bytes
    text: TokenisedText
    heading: int


@dataclass(slots=True)
class _Task:
    """A call in progress. Only one thread at a time works on it."""

    query: str
    documents: Sequence[str]
    headings: Sequence[str]
    org_id: str
    end: float | None
    """Its deadline, by `time.monotonic`; None for no limit."""
    waiting: deque[int]
    """Indices of documents that haven't been processed, best first."""
    batches: deque[list[_Document]] = field(default_factory=deque[list[_Document]])
    """Tokenised documents waiting to be computed."""
    vectors: TokenVectors | None = None
    """The query's token vectors."""
    computed: bool = False
    """Whether a batch was started."""
    tokens: int = 0
    """Tokens that the model has read."""


class LateInteraction(RerankModel):
    """MaxSim over a model directory's token vectors, computed on the CPU in a separate thread.

    The graph is built at the first call, so that it costs nothing if nobody reranks.

    Args:
        name: The embedding model's public name.
        directory: Its files, as safetensors.
        precision: Numeric precision.
        threads: CPU threads of one computation.
        most_tokens: Limit of waiting and running tokens for calls without a time limit; further calls are rejected,
            unless nothing else is running.
        cache_bytes: Maximum bytes of cached token vectors.

    Raises:
        StartupError: The directory has a finished graph, whose output may not be token vectors.
    """

    def __init__(
        self,
        name: str,
        directory: ModelDirectory,
        *,
        precision: Precision,
        threads: int,
        most_tokens: int = 65_536,
        cache_bytes: int = 0,
    ) -> None:
        if directory.encoder is None:
            raise StartupError(f"late interaction needs {name} as safetensors weights")
        self._directory = directory
        self._precision = precision
        self._threads = threads
        self._shares = FairShares(most_tokens, _overloaded, beyond=True)
        self._tokeniser = directory.open_tokeniser()
        space = EmbeddingSpace(model=f"{name}{SUFFIX}", revision=directory.revision())
        self._info = ModelInfo(space, directory.max_tokens, 0, precision.value, "local")
        self._session: Session | None = None
        self._cache = TokenVectorCache(cache_bytes)
        self._pace = _FIRST_PACE
        self._late = 0.0
        self._calls = 0
        self._closed = False
        self._turns = Turns("reranker")

    @property
    def info(self) -> ModelInfo:
        """The model's identity."""
        return self._info

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
        """Scores the documents batch by batch, the best first, so that calls take turns and abandoned ones end soon.

        A score is the closeness to the query, or the blend with the first ranking's if that is given.

        Raises:
            ResourceExhausted: The call has no time limit, and the queue is full (`OVERLOADED`).
            Unavailable: The model can't be loaded, or the service ends.
        """
        order = sorted(range(len(documents)), key=lambda index: -first_scores[index] if first_scores else 0.0)
        limit = None if seconds is None else self.working_time(seconds)
        end = None if limit is None else time.monotonic() + limit
        task = _Task(query, documents, headings, org_id, end, deque(order))
        own: dict[int, float] = {}
        scope = asyncio.timeout(limit)
        with self._admit(task):
            try:
                async with scope:
                    await self._score_all(task, own)
            except TimeoutError:
                if not scope.expired():
                    raise
                self.note_late(time.monotonic() - (end or 0.0))
        # Otherwise a cached document, which is scored before a better one, would come first for that reason alone.
        own = {index: own[index] for index in itertools.takewhile(own.__contains__, order)}
        RERANKED.labels("left").inc(len(documents) - len(own))
        scores = own
        if first_scores:
            scores = dict(zip(own, blend([first_scores[index] for index in own], list(own.values())), strict=True))
        return Ranking(best_first(scores, len(documents), top_n), task.tokens, len(own))

    async def close(self) -> None:
        """Ends the thread without waiting for a running computation."""
        self._closed = True
        self._turns.close()
        self._session = None

    def token_vectors(self, texts: Sequence[TokenisedText]) -> list[TokenVectors]:
        """Computes the vectors of each text's tokens, without the special ones, in the calling thread."""
        session = self._session or self._load()
        ids, mask = pad([text.ids for text in texts], self._directory.max_tokens)
        output = session.run({"input_ids": ids, "attention_mask": mask})
        # The first and the last token are special tokens, which represent the whole text and match anything.
        return [row[1 : max(len(text.ids) - 1, 2)] for row, text in zip(output, texts, strict=True)]

    def working_time(self, seconds: float) -> float:
        """Returns how long a call may work to respond within its time limit."""
        # A thread that wakes late also sends its response late.
        return seconds * (1 - _RESERVE) - min(2 * self._late, seconds * _MOST_LATE)

    def note_late(self, seconds: float) -> None:
        """Updates the estimate of how late the end of a call's time is noticed."""
        self._late += _PACE_WEIGHT * (max(0.0, seconds) - self._late)

    def note_pace(self, tokens: int, seconds: float) -> None:
        """Updates the pace with the time of a batch."""
        self._pace += _PACE_WEIGHT * (seconds / tokens - self._pace)

    async def _score_all(self, task: _Task, own: dict[int, float]) -> None:
        """Adds scores to `own` as they arrive, until all are there or time doesn't suffice for more."""
        own.update(await self._turn(task, lambda: self._begin(task), urgent=True))
        while scores := await self._turn(task, lambda: self._advance(task)):
            own.update(scores)

    async def _turn(
        self, task: _Task, work: Callable[[], dict[int, float]], *, urgent: bool = False
    ) -> dict[int, float]:
        if self._closed:
            raise Unavailable("the reranker is shutting down", reason="SHUTTING_DOWN", retry_after=_RETRY_SECONDS)
        return await self._turns.run(work, org_id=task.org_id, urgent=urgent)

    @contextmanager
    def _admit(self, task: _Task) -> Generator[None]:
        """Counts a call. Only calls without a time limit are rejected, because others end by themselves."""
        tokens = 0
        if task.end is None:
            most = self._directory.max_tokens
            tokens = sum(min(most, 1 + len(text) // _TYPICAL_TOKEN_CHARACTERS) for text in task.documents)
        self._calls += 1
        try:
            with self._shares.hold_now(task.org_id, tokens) if tokens else nullcontext():
                yield
        finally:
            self._calls -= 1

    def _begin(self, task: _Task) -> dict[int, float]:
        """Reads the query, and scores the best documents that are cached."""
        (text,) = self._tokeniser.tokenise([self._beginning(task.query)], Purpose.QUERY)
        (task.vectors,) = self.token_vectors([text])
        task.tokens += len(text.ids)
        return self._score_cached(task)

    def _advance(self, task: _Task) -> dict[int, float]:
        """Scores the next documents; returns nothing if there are none, or no time is left."""
        if not task.batches and (scores := self._score_cached(task)):
            return scores
        batch = self._next_batch(task)
        if not batch:
            return {}
        start = time.monotonic()
        vectors = self.token_vectors([document.text for document in batch])
        longest = max(len(document.text.ids) for document in batch)
        self.note_pace(len(batch) * padded_length(longest), time.monotonic() - start)
        task.tokens += sum(len(document.text.ids) for document in batch)
        scores = self._compare(task, batch, vectors)
        RERANKED.labels("computed").inc(len(scores))
        return scores

    def _compare(
        self, task: _Task, documents: Sequence[_Document], vectors: Sequence[TokenVectors]
    ) -> dict[int, float]:
        if not self._cache.limit:
            scores = map(partial(closeness, _query_of(task)), vectors, [document.heading for document in documents])
            return dict(zip([document.index for document in documents], scores, strict=True))
        packed = {
            document.index: PackedVectors.pack(rows, document.heading)
            for document, rows in zip(documents, vectors, strict=True)
        }
        for document in documents:
            self._cache.put(document.key, packed[document.index])
        # From rounded vectors, so that a document's score is the same when it comes from the cache.
        return self._compare_packed(task, packed)

    def _compare_packed(self, task: _Task, documents: Mapping[int, PackedVectors]) -> dict[int, float]:
        cosines = cosines_of(_query_of(task), list(documents.values()))
        return {
            index: passage_closeness(own, packed.heading)
            for (index, packed), own in zip(documents.items(), cosines, strict=True)
        }

    def _score_cached(self, task: _Task) -> dict[int, float]:
        """Scores the next documents that are cached, and forms batches of the first that aren't."""
        cached: dict[int, PackedVectors] = {}
        while task.waiting and not task.batches and len(cached) < _CACHED_AT_ONCE:
            group = [task.waiting.popleft() for _ in range(min(_GROUP, len(task.waiting)))]
            keys = {index: self._key(task, index) for index in group}
            for index, key in keys.items():
                packed = self._cache.get(key)
                if packed is not None:
                    cached[index] = packed
            documents = self._tokenise(task, {index: key for index, key in keys.items() if index not in cached})
            most = max(_FEWEST_TOKENS, _THREAD_TOKENS * self._threads // max(1, self._calls))
            lengths = [len(document.text.ids) for document in documents]
            task.batches.extend([documents[place] for place in places] for places in batches(lengths, most))
        RERANKED.labels("cached").inc(len(cached))
        return self._compare_packed(task, cached)

    def _next_batch(self, task: _Task) -> list[_Document]:
        """Takes the next batch, shortened and made the last if it wouldn't end in time."""
        batch = task.batches.popleft() if task.batches else []
        if task.end is None:
            return batch
        room = (task.end - time.monotonic()) / self._pace
        if not task.computed:
            # One document is always tried: the pace may have been measured when the machine was busier.
            room = max(room, max((padded_length(len(document.text.ids)) for document in batch[:1]), default=0))
        fitting = batch
        while fitting and len(fitting) * max(padded_length(len(document.text.ids)) for document in fitting) > room:
            fitting = fitting[:-1]
        if len(fitting) < len(batch):
            task.batches.clear()
            task.waiting.clear()
        task.computed = task.computed or bool(fitting)
        return fitting

    def _key(self, task: _Task, index: int) -> bytes:
        heading = task.headings[index] if task.headings else ""
        return self._cache.key(task.org_id, self._beginning(heading), self._beginning(task.documents[index]))

    def _tokenise(self, task: _Task, keys: Mapping[int, bytes]) -> list[_Document]:
        headings = [self._beginning(task.headings[index]) if task.headings else "" for index in keys]
        texts = with_headings(headings, [task.documents[index] for index in keys])
        tokenised = self._tokeniser.tokenise([self._beginning(text) for text in texts], Purpose.DOCUMENT)
        # Without the two special tokens of each text.
        lengths = [max(len(text.ids) - 2, 0) for text in self._tokeniser.tokenise(headings, Purpose.DOCUMENT)]
        return [
            _Document(index, key, text, length)
            for (index, key), text, length in zip(keys.items(), tokenised, lengths, strict=True)
        ]

    def _beginning(self, text: str) -> str:
        """Cuts text beyond the window, which needn't be tokenised."""
        return text[: self._directory.max_tokens * _TOKEN_CHARACTERS]

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


def _query_of(task: _Task) -> TokenVectors:
    if task.vectors is None:
        raise RuntimeError("the query's vectors come first")
    return task.vectors


def _overloaded(_org_id: str) -> ResourceExhausted:
    return ResourceExhausted(
        "the reranker is at its limit of work; try again later", reason="OVERLOADED", retry_after=_RETRY_SECONDS
    )


def batches(lengths: Sequence[int], most_tokens: int) -> list[list[int]]:
    """Splits texts into batches in their order, so that a call that ends early has read the best ones.

    Args:
        lengths: Tokens of each text.
        most_tokens: Maximum padded tokens of a batch; a single text may have more.

    Returns:
        Indices, in order.
    """
    result: list[list[int]] = []
    longest = 0
    for index, length in enumerate(lengths):
        longest = max(longest, padded_length(length))
        if result and (len(result[-1]) + 1) * longest <= most_tokens:
            result[-1].append(index)
        else:
            result.append([index])
            longest = padded_length(length)
    return result
