"""Measures in the background what the graph missed, for a share of the searches through it.

No search waits for it. Samples beyond its capacity are dropped and counted.
"""

import asyncio
import random
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass

from citewire_kit.errors import CitewireError
from citewire_kit.tasks import end
from citewire_kit.telemetry import get_logger
from citewire_kit.tenant import Tenant
from citewire_retriever.metrics import RECALL, count_recall_sample
from citewire_retriever.model import SearchQuery
from citewire_retriever.tuning import IndexSearch

log = get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Sampling:
    """The settings of sampling, explained in `RetrieverSettings`."""

    rate: float = 0.01
    at_once: int = 1
    waiting: int = 16
    seconds: float = 10.0
    low: float = 0.8


@dataclass(frozen=True, slots=True)
class Sample:
    """A search that went through the graph."""

    tenant: Tenant
    query: SearchQuery
    table: str
    """The table of its space's vectors."""
    way: IndexSearch


Measure = Callable[[Sample], Awaitable[float | None]]
"""Measures the recall of a search, 0–1; None if it would no longer go through the graph."""


class RecallSampler:
    """Draws, queues and measures; works while `running`."""

    def __init__(self, measure: Measure, sampling: Sampling, chance: Callable[[], float] = random.random) -> None:
        """Creates the sampler.

        Args:
            measure: Measures one search in the database; may raise `CitewireError`.
            sampling: The settings.
            chance: Returns random numbers in [0, 1).
        """
        self._measure = measure
        self._sampling = sampling
        self._chance = chance
        self._queue: asyncio.Queue[Sample] = asyncio.Queue(sampling.waiting)

    def offer(self, sample: Sample) -> None:
        """Queues a search if it is sampled and there is room. Returns at once, and never fails."""
        if self._chance() >= self._sampling.rate:
            return
        try:
            self._queue.put_nowait(sample)
        except asyncio.QueueFull:
            count_recall_sample("dropped")

    @asynccontextmanager
    async def running(self) -> AsyncGenerator[None, None]:
        """Measures in the background. At the end, running measurements are cancelled and waiting ones dropped."""
        workers = [
            asyncio.create_task(self._work(), name=f"recall-sampling-{number}")
            for number in range(self._sampling.at_once)
        ]
        try:
            yield
        finally:
            await end(*workers)
            while not self._queue.empty():
                self._queue.get_nowait()
                count_recall_sample("dropped")

    async def drained(self) -> None:
        """Returns when nothing waits and nothing is being measured."""
        await self._queue.join()

    async def _work(self) -> None:
        while True:
            sample = await self._queue.get()
            try:
                await self._take(sample)
            finally:
                self._queue.task_done()

    async def _take(self, sample: Sample) -> None:
        try:
            # The statement has its own limit; this one also covers waiting for a connection.
            async with asyncio.timeout(2 * self._sampling.seconds):
                recall = await self._measure(sample)
        except (CitewireError, TimeoutError) as exc:
            count_recall_sample("failed")
            log.info("recall_sample_failed", org_id=sample.tenant.org_id, error=str(exc) or type(exc).__name__)
        except Exception:
            count_recall_sample("failed")
            log.exception("recall_sample_failed", org_id=sample.tenant.org_id)
        else:
            self._note(sample, recall)

    def _note(self, sample: Sample, recall: float | None) -> None:
        if recall is None:
            count_recall_sample("changed")
            return
        count_recall_sample("taken")
        narrowed = sample.query.scope.narrowed
        RECALL.labels("narrowed" if narrowed else "whole").observe(recall)
        if recall < self._sampling.low:
            log.warning(
                "sampled_recall_low",
                org_id=sample.tenant.org_id,
                recall=round(recall, 3),
                narrowed=narrowed,
                by_document=sample.query.by_document,
                ef_search=sample.way.ef_search,
            )
