"""Forms batches for the model: one at a time, the most urgent work first.

Queries go before documents, and queries that wait together are computed together: they queue while the model is busy,
and when it is idle the first one starts at once. Among queries and among documents, organisations take turns by the
tokens that each was served, then their requests: documents are taken in batches from one request after the other, so
that a bulk request doesn't delay a small one. Within a request, texts of similar length go together, as the shorter
texts of a batch are padded. Batches are small: larger ones aren't faster, and a query would wait longer for them.
While several organisations are present they are smaller still: a text waits for the batch that is being computed.
"""

import asyncio
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from citewire_embedder.metrics import BATCH_SECONDS, BATCH_TEXTS, WAIT_SECONDS
from citewire_embedder.providers.base import EmbeddingModel, Purpose, TokenisedText, Vectors
from citewire_kit.errors import CitewireError, Internal, Unavailable
from citewire_kit.fair import FairQueue
from citewire_kit.telemetry import get_logger

log = get_logger(__name__)

_QUERY_BATCHES_IN_A_ROW = 8
"""Number of query batches after which waiting documents get one, so that queries slow ingest down but don't stop it."""

_PRESENT_SECONDS = 1.0
"""How long an organisation counts as present after its last request or result."""

_RATE_WEIGHT = 0.1
_FIRST_RATE = 2000.0  # tokens a second, until the first batch has been measured


@dataclass(frozen=True, slots=True)
class BatchLimits:
    """Limits of a batch."""

    tokens: int
    """Padded tokens: the longest text of the batch × its texts. A single text may have more."""
    texts: int
    """Number of texts."""

    @property
    def shared_tokens(self) -> int:
        """Padded tokens of documents while several organisations are present, which halves the wait for each other."""
        return self.tokens // 2


class Job:
    """The texts of one request in the scheduler."""

    def __init__(self, texts: Sequence[TokenisedText], purpose: Purpose, org_id: str) -> None:
        self.org_id = org_id
        self.purpose = purpose
        self.tokens_read = 0
        """Tokens that the model has been given so far."""
        self._texts = texts
        self._submitted = time.perf_counter()
        # Longest first, so that the last batches, which use the cores less well, are small.
        self._waiting = deque(sorted(range(len(texts)), key=lambda index: -len(texts[index].ids)))
        self._missing = len(texts)
        self._rows: Vectors | None = None
        self._done: asyncio.Future[Vectors] = asyncio.get_running_loop().create_future()

    @property
    def is_waiting(self) -> bool:
        """Whether texts are waiting."""
        return bool(self._waiting)

    def peek(self) -> TokenisedText:
        """Returns the next text."""
        return self._texts[self._waiting[0]]

    def take(self) -> tuple["Job", int, TokenisedText]:
        """Removes and returns the next text with its index."""
        index = self._waiting.popleft()
        if not self.tokens_read:
            WAIT_SECONDS.labels(self.purpose.value).observe(time.perf_counter() - self._submitted)
        self.tokens_read += len(self._texts[index].ids)
        return self, index, self._texts[index]

    async def result(self) -> Vectors:
        """Waits for all vectors: shape (texts, dimensions)."""
        return await self._done

    def deliver(self, index: int, vector: Vectors) -> None:
        """Stores one vector (one dimension) at its index."""
        if self._rows is None:
            self._rows = np.empty((len(self._texts), len(vector)), np.float32)
        self._rows[index] = vector
        self._missing -= 1
        if self._missing == 0 and not self._done.done():
            self._done.set_result(self._rows)

    def abandon(self) -> None:
        """Ends the job because nobody is waiting for it any more."""
        self._waiting.clear()
        self._done.cancel()

    def fail(self, error: CitewireError) -> None:
        """Ends the job with an error, unless it has ended."""
        self._waiting.clear()
        if not self._done.done():
            self._done.set_exception(error)


class Scheduler:
    """The one consumer of a model."""

    def __init__(self, model: EmbeddingModel, limits: BatchLimits) -> None:
        """Creates a scheduler; `run` does the work.

        Args:
            model: The model.
            limits: Limits of a batch.
        """
        self._model = model
        self._limits = limits
        self._queues: dict[Purpose, FairQueue[Job]] = {purpose: FairQueue() for purpose in Purpose}
        self._query_batches = 0
        self._present: dict[str, float] = {}  # when each organisation was last seen, in ascending order
        self._wake = asyncio.Event()
        self._rate = _FIRST_RATE
        self._closed = False
        self.failing = asyncio.Event()
        """Set while the model's last batch has failed, and when the scheduler has ended."""

    def tokens_per_second(self) -> float:
        """Returns the model's recent speed, in tokens without padding."""
        return self._rate

    def submit(self, texts: Sequence[TokenisedText], purpose: Purpose, org_id: str = "") -> Job:
        """Queues an organisation's texts (at least one).

        The caller must `withdraw` the job if it stops waiting for its result.

        Raises:
            Unavailable: The scheduler has ended (reason `SHUTTING_DOWN`).
        """
        if self._closed:
            raise _shutting_down()
        job = Job(texts, purpose, org_id)
        self._queues[purpose].push(org_id, job)
        self._note_present(org_id)
        self._wake.set()
        return job

    def withdraw(self, job: Job) -> None:
        """Removes a job's waiting texts; running computations are discarded."""
        self._queues[job.purpose].remove(job.org_id, job)
        job.abandon()

    async def run(self) -> None:
        """Computes batches until it is cancelled; waiting jobs then fail with `SHUTTING_DOWN`."""
        try:
            while True:
                batch = self._next_batch()
                if batch:
                    await self._compute(batch)
                else:
                    self._wake.clear()
                    await self._wake.wait()
        finally:
            self._closed = True
            self.failing.set()
            for queue in self._queues.values():
                for job in queue.drain():
                    job.fail(_shutting_down())

    def _next_batch(self) -> list[tuple[Job, int, TokenisedText]]:
        queries, documents = self._queues[Purpose.QUERY], self._queues[Purpose.DOCUMENT]
        if queries and (not documents or self._query_batches < _QUERY_BATCHES_IN_A_ROW):
            self._query_batches += 1
            return self._from_queries(queries)
        self._query_batches = 0
        return self._from_one_request(documents) if documents else []

    def _from_queries(self, queue: FairQueue[Job]) -> list[tuple[Job, int, TokenisedText]]:
        batch: list[tuple[Job, int, TokenisedText]] = []
        while queue and self._has_room(batch, queue.first().peek(), self._limits.tokens):
            job = queue.first()
            batch.append(job.take())
            queue.charge(len(batch[-1][2].ids), again=job.is_waiting)
        return batch

    def _from_one_request(self, queue: FairQueue[Job]) -> list[tuple[Job, int, TokenisedText]]:
        job = queue.first()
        self._note_present(job.org_id)
        most_tokens = self._limits.tokens if len(self._present) == 1 else self._limits.shared_tokens
        batch: list[tuple[Job, int, TokenisedText]] = []
        while job.is_waiting and self._has_room(batch, job.peek(), most_tokens):
            batch.append(job.take())
        queue.charge(sum(len(text.ids) for _, _, text in batch), again=job.is_waiting)
        return batch

    def _has_room(self, batch: Sequence[tuple[Job, int, TokenisedText]], text: TokenisedText, most_tokens: int) -> bool:
        if not batch:
            return True
        longest = max(len(text.ids), *(len(taken.ids) for _, _, taken in batch))
        size = len(batch) + 1
        return size <= self._limits.texts and size * longest <= most_tokens

    def _note_present(self, org_id: str) -> None:
        """Records an organisation as present, and removes those not seen for too long."""
        now = time.monotonic()
        self._present.pop(org_id, None)
        self._present[org_id] = now
        while self._present[first := next(iter(self._present))] < now - _PRESENT_SECONDS:
            del self._present[first]

    async def _compute(self, batch: list[tuple[Job, int, TokenisedText]]) -> None:
        start = time.perf_counter()
        try:
            vectors = await self._model.embed([text for _, _, text in batch])
        except asyncio.CancelledError:
            for job, _, _ in batch:
                job.fail(_shutting_down())
            raise
        except Exception:  # a model's errors go to its callers; the scheduler continues
            log.exception("batch_failed", texts=len(batch))
            self.failing.set()
            for job, _, _ in batch:
                job.fail(Internal("the embedding model failed", reason="INTERNAL"))
                self.withdraw(job)  # its other texts aren't needed any more
            return
        self.failing.clear()
        self._note(batch, time.perf_counter() - start)
        for (job, index, _), vector in zip(batch, vectors, strict=True):
            job.deliver(index, vector)

    def _note(self, batch: Sequence[tuple[Job, int, TokenisedText]], seconds: float) -> None:
        BATCH_TEXTS.observe(len(batch))
        BATCH_SECONDS.observe(seconds)
        rate = sum(len(text.ids) for _, _, text in batch) / max(seconds, 1e-6)
        self._rate += _RATE_WEIGHT * (rate - self._rate)


def _shutting_down() -> Unavailable:
    message = "the embedder is shutting down; another replica will answer"
    return Unavailable(message, reason="SHUTTING_DOWN", retry_after=1.0)
