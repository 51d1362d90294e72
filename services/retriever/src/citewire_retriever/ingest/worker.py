"""The worker: takes jobs, renews its leases, and works on the jobs; `FailedAttempts` ends those that fail."""

import asyncio
import os
import secrets
import socket
from collections import defaultdict
from collections.abc import Awaitable, Callable, Generator, Sequence
from contextlib import AbstractContextManager, AsyncExitStack, aclosing, contextmanager, nullcontext, suppress
from dataclasses import dataclass
from functools import partial
from typing import Final

from opentelemetry.trace import SpanKind

from citewire_kit.errors import CitewireError, Internal, ResourceExhausted
from citewire_kit.fair import FairShares
from citewire_kit.tasks import end
from citewire_kit.telemetry import get_logger
from citewire_kit.tenant import REQUEST_ID_KEY, use_request_id, use_tenant
from citewire_kit.tracing import extract, get_tracer
from citewire_retriever.ingest import metrics
from citewire_retriever.ingest.backfill.service import Backfill
from citewire_retriever.ingest.enrichment.model import EnrichmentCode, EnrichmentError, EnrichmentSource
from citewire_retriever.ingest.enrichment.service import Enrichment
from citewire_retriever.ingest.errors import IngestCode, IngestError
from citewire_retriever.ingest.failed_attempts import FailedAttempts
from citewire_retriever.ingest.failures import GIVEN_UP
from citewire_retriever.ingest.model import Job, JobKind, LeaseLostError
from citewire_retriever.ingest.pipeline import Pipeline
from citewire_retriever.ingest.settings import WorkerSettings
from citewire_retriever.ingest.store import CLAIM_SECONDS, PostgresJobStore
from citewire_retriever.ingest.turn import Turn

log = get_logger(__name__)
_tracer: Final = get_tracer(__name__)

# In order of priority: jobs that somebody waits for come first.
_KINDS: Final[tuple[JobKind, ...]] = ("ingest", "embed", "sweep", "backfill")
# In separate loops: a model takes seconds, and uploads shouldn't wait for it.
_ENRICHMENT_KINDS: Final[tuple[JobKind, ...]] = ("enrich",)
_RELEASE_SECONDS: Final = 5.0
_PRESENT_SECONDS: Final = 1.0
"""Seconds that an organisation's share of the slots is reserved for its next job."""


@dataclass(slots=True)
class _Work:
    """A job in progress."""

    job: Job
    task: asyncio.Task[str]
    lost: bool = False


class Worker:
    """Works on jobs until told to stop."""

    def __init__(
        self,
        store: PostgresJobStore,
        pipeline: Pipeline,
        settings: WorkerSettings,
        backfill: Backfill | None = None,
        enrichment: Enrichment | None = None,
    ) -> None:
        """Takes its dependencies, which must stay open while `run` runs.

        Without `backfill` or `enrichment`, it does none.
        """
        self._store = store
        self._pipeline = pipeline
        self._settings = settings
        self._backfill = backfill
        self._enrichment = enrichment
        self._failed_attempts = FailedAttempts(store, settings, backfill, enrichment)
        # If there is more than one loop, half are reserved for uploads.
        self._backfilling = asyncio.Semaphore(max(1, settings.concurrency // 2))
        # Unique even for successive containers of the same name; it is never parsed.
        self._name = f"{socket.gethostname()}-{os.getpid()}-{secrets.token_hex(4)}"
        self._works: list[_Work] = []
        # The reserved slot is in addition to these.
        self._shares = FairShares(settings.concurrency, _at_its_share, linger_seconds=_PRESENT_SECONDS, beyond=True)
        self._left_out = False
        self._spent: defaultdict[str, float] = defaultdict(float)  # seconds not charged yet
        self._wake = asyncio.Event()
        self._claiming = asyncio.Lock()

    async def run(self, stop: asyncio.Event) -> None:
        """Works until `stop` is set; then running jobs are returned to the queue at once."""
        metrics.init(IngestCode, enrichment_sources=EnrichmentSource, enrichment_codes=EnrichmentCode)
        loops: list[Callable[[], Awaitable[None]]] = [self._listen, self._renew, self._expire, self._measure]
        loops += [partial(self._serve, partial(self._serve_one, _KINDS))] * self._settings.concurrency
        if self._settings.small_bytes:
            loops.append(partial(self._serve, self._serve_small))
        if self._enrichment is not None:
            enriching = partial(self._serve, partial(self._serve_one, _ENRICHMENT_KINDS))
            loops += [enriching] * self._settings.enrich_concurrency
        if self._backfill is not None and self._settings.backfill_seconds > 0:
            loops.append(self._survey)
        log.info("worker_started", worker=self._name, concurrency=self._settings.concurrency)
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(_forever(loop)) for loop in loops]
            await stop.wait()
            log.info("worker_stopping", jobs=len(self._works))
            await end(*tasks)
        with suppress(CitewireError):
            await self._store.release_all(self._name)
            await self._charge()
        log.info("worker_stopped")

    async def _serve(self, serve_one: Callable[[], Awaitable[bool]]) -> None:
        """One of the slots: works on one job after another."""
        while True:
            # Taken before asking, so that a job queued right after the answer isn't missed.
            wake = self._wake
            try:
                if await serve_one():
                    continue
            except CitewireError as error:
                log.warning("cannot_claim", error=str(error))
            with suppress(TimeoutError):
                async with asyncio.timeout(self._idle_seconds()):
                    await wake.wait()

    def _idle_seconds(self) -> float:
        """Seconds to sleep unless woken: less if the backfill's rate allows work earlier."""
        until_backfill = 0.0 if self._backfill is None else self._backfill.wait_seconds()
        return min(self._settings.poll_seconds, until_backfill or self._settings.poll_seconds)

    async def _serve_one(self, kinds: Sequence[JobKind]) -> bool:
        """Takes a job and works on it; False if there is none."""
        for kind in kinds:
            async with AsyncExitStack() as stack:
                if kind == "backfill":
                    # Not locked, so this doesn't wait.
                    if self._backfill is None or self._backfill.wait_seconds() > 0 or self._backfilling.locked():
                        continue
                    await stack.enter_async_context(self._backfilling)
                if await self._claim(kind):
                    return True
        return False

    async def _serve_small(self) -> bool:
        """The reserved slot: small files of organisations with no running job."""
        return await self._claim("ingest", self._settings.small_bytes)

    async def _claim(self, kind: JobKind, most_bytes: int | None = None) -> bool:
        """Claims a job and works on it; False if there is none."""
        # One at a time, so that each sees what the previous one took: a claimed job is registered before any await.
        async with self._claiming:
            await self._charge()
            full = () if kind in _ENRICHMENT_KINDS else self._full()
            job = await self._store.claim(
                kind,
                worker=self._name,
                lease_seconds=self._settings.lease_seconds,
                most_bytes=most_bytes,
                full=full,
            )
        if job is None:
            self._left_out |= bool(full) and most_bytes is None
            return False
        if kind == "ingest":
            metrics.WAIT_SECONDS.labels(job.lane).observe(job.waited_seconds)
        await self._work_on(job)
        return True

    def _full(self) -> list[str]:
        """Organisations that have their share of the slots: all but the reserved one if no other had a job lately."""
        present = {work.job.tenant.org_id for work in self._works if work.job.kind not in _ENRICHMENT_KINDS}
        return [org_id for org_id in present if not self._shares.has_room(org_id)]

    def _slot(self, job: Job) -> AbstractContextManager[object]:
        """Counts a job against its organisation's share; `_full` has ensured that there is room."""
        return nullcontext() if job.kind in _ENRICHMENT_KINDS else self._shares.hold_now(job.tenant.org_id)

    async def _charge(self) -> None:
        """Charges organisations for the work done for them."""
        if self._spent:
            spent, self._spent = self._spent, defaultdict(float)
            await self._store.charge(spent)

    async def _survey(self) -> None:
        """Looks for missing vectors, in one organisation after another."""
        result = False
        if self._backfill is not None:
            try:
                result = await self._backfill.survey()
            except CitewireError as error:
                log.warning("cannot_survey", error=str(error))
        if not result:
            await asyncio.sleep(min(self._settings.poll_seconds, self._settings.backfill_seconds))

    async def _work_on(self, job: Job) -> None:
        """Works on a job while its lease lasts."""
        with _as_tenant(job), self._slot(job):
            work = _Work(job, asyncio.create_task(self._attempt(job), name=f"ingest-{job.job_id}"))
            self._works.append(work)
            metrics.RUNNING.labels(job.kind).inc()
            outcome = "lost"
            try:
                await asyncio.wait({work.task})
                if not work.task.cancelled():
                    outcome = work.task.result()
            except asyncio.CancelledError:
                await end(work.task)
                if not work.task.cancelled():  # it ended at the same moment
                    outcome = work.task.result()
                elif not work.lost:
                    outcome = "released"
                    await self._release(job)
                raise
            finally:
                self._works.remove(work)
                metrics.RUNNING.labels(job.kind).dec()
                metrics.JOBS.labels(job.kind, outcome).inc()
                if outcome == "lost":
                    log.warning("lease_lost", **job.names)
        if self._left_out:  # an idle slot may take a job that it had to leave before
            self._left_out = False
            self._wake_up()

    async def _attempt(self, job: Job) -> str:
        """Makes an attempt, then ends or requeues the job; returns the outcome."""
        try:
            return "done" if await self._run_charged(job) else "passed_on"
        except LeaseLostError:
            # Possibly only the version is gone or superseded: the next worker that claims the job ends it.
            with suppress(CitewireError):  # then that worker looks again
                if await self._store.forget_orphan(job):
                    log.warning("orphan_forgotten", **job.names)
                    return "lost"
            await self._release(job, uncount=False)
            return "lost"
        except EnrichmentError as error:
            return await self._failed_attempts.fail_enrichment(job, error)
        except IngestError as error:
            return await self._failed_attempts.fail(job, error)
        except CitewireError as error:
            return await self._failed_attempts.retry(job, error)
        except Exception as error:
            log.exception("attempt_failed", **job.names)
            return await self._failed_attempts.retry(job, error)

    async def _run_charged(self, job: Job) -> bool:
        turn = Turn(self._settings.turn_seconds, partial(self._store.is_waited_for, job))
        try:
            return await self._run(job, turn)
        finally:
            if turn.spent > CLAIM_SECONDS:
                self._spent[job.tenant.org_id] += turn.spent - CLAIM_SECONDS

    async def _run(self, job: Job, turn: Turn) -> bool:
        """Does a job; False if its turn ended before it was done."""
        if job.kind == "sweep":
            await self._store.sweep(job)
            return True
        if job.kind == "embed":
            await self._pipeline.embed_further(job, turn)
            return True
        if job.kind == "backfill":
            await self._run_backfill(job, turn)
            return True
        if job.kind == "enrich":
            await self._run_enrichment(job, turn)
            return True
        if job.attempt > self._settings.max_claims:
            raise IngestError(IngestCode.INTERNAL, GIVEN_UP)
        with _tracer.start_as_current_span("ingest", context=extract(job.trace_context), kind=SpanKind.CONSUMER):
            log.info("ingest_started", attempt=job.attempt, **job.names)
            outcome = await self._pipeline.ingest(job, turn)
            if outcome is None:
                await self._store.pass_on(job)
                log.info("ingest_passed_on", seconds=round(turn.spent, 1), **job.names)
                return False
            log.info(
                "ingest_done",
                outcome=outcome.published.value,
                chunks=outcome.chunks,
                resumed=outcome.resumed,
                **job.names,
            )
            return True

    async def _run_backfill(self, job: Job, turn: Turn) -> None:
        if self._backfill is None:
            raise Internal("this worker doesn't backfill", reason="INTERNAL")
        if job.attempt > self._settings.max_claims:  # it crashes every worker that claims it
            await self._backfill.give_up(job)
            log.error("backfill_given_up", attempt=job.attempt, **job.names)
            return
        await self._backfill.embed(job, turn)

    async def _run_enrichment(self, job: Job, turn: Turn) -> None:
        if self._enrichment is None:
            raise Internal("this worker doesn't enrich", reason="INTERNAL")
        with _tracer.start_as_current_span("enrich", context=extract(job.trace_context), kind=SpanKind.CONSUMER):
            await self._enrichment.enrich(job, turn)

    async def _release(self, job: Job, *, uncount: bool = True) -> None:
        """Returns a job to the queue if it is still ours. If that fails, its lease expires soon enough."""
        with suppress(LeaseLostError, CitewireError, TimeoutError):
            async with asyncio.timeout(_RELEASE_SECONDS):
                await self._store.retry(job, delay_seconds=0, uncount=uncount)

    async def _listen(self) -> None:
        """Wakes the serving loops when jobs are queued."""
        try:
            async with aclosing(self._store.wake_ups()) as wake_ups:
                async for _ in wake_ups:
                    self._wake_up()
        except CitewireError as error:
            log.warning("cannot_listen", error=str(error))
        await asyncio.sleep(self._settings.poll_seconds)

    def _wake_up(self) -> None:
        self._wake.set()
        self._wake = asyncio.Event()

    async def _renew(self) -> None:
        """Renews the leases; a job that has lost its lease is dropped at once."""
        await asyncio.sleep(self._settings.lease_seconds / 3)
        await asyncio.gather(*map(self._renew_lease, self._works))

    async def _renew_lease(self, work: _Work) -> None:
        try:
            held = await self._store.renew(work.job, lease_seconds=self._settings.lease_seconds)
        except CitewireError as error:
            log.warning("cannot_renew", error=str(error), **work.job.names)
            return
        if not held and not work.task.done():
            work.lost = True
            work.task.cancel()

    async def _expire(self) -> None:
        """Requeues jobs of workers that went silent."""
        try:
            count = await self._store.requeue_expired()
        except CitewireError as error:
            log.warning("cannot_expire", error=str(error))
        else:
            if count:
                metrics.EXPIRED.inc(count)
                log.warning("leases_expired", jobs=count)
        await asyncio.sleep(min(self._settings.poll_seconds, self._settings.lease_seconds / 3))

    async def _measure(self) -> None:
        """Measures the queue."""
        with suppress(CitewireError):
            state = await self._store.queue_state()
            metrics.QUEUE_DEPTH.set(state.depth)
            metrics.QUEUE_OLDEST.set(state.oldest_seconds)
        await asyncio.sleep(self._settings.measure_seconds)


async def _forever(loop: Callable[[], Awaitable[None]]) -> None:
    while True:
        await loop()


@contextmanager
def _as_tenant(job: Job) -> Generator[None]:
    """Sets the job's tenant and the upload's request id as current."""
    with use_tenant(job.tenant), use_request_id(job.trace_context.get(REQUEST_ID_KEY, "")):
        yield


def _at_its_share(org_id: str) -> ResourceExhausted:
    return ResourceExhausted(f"{org_id} has its share of the slots", reason="OVERLOADED")
