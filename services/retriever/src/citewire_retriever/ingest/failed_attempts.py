"""Ends failed attempts: records the failure, or requeues the job."""

from collections.abc import Awaitable
from contextlib import suppress

from citewire_kit.errors import CitewireError
from citewire_kit.telemetry import get_logger
from citewire_retriever.ingest import metrics
from citewire_retriever.ingest.backfill.service import Backfill
from citewire_retriever.ingest.enrichment.model import EnrichmentError
from citewire_retriever.ingest.enrichment.service import BUDGET_EXCEEDED, Enrichment
from citewire_retriever.ingest.errors import IngestError
from citewire_retriever.ingest.failures import delay_seconds, final_error, is_passing
from citewire_retriever.ingest.model import Job, LeaseLostError
from citewire_retriever.ingest.settings import WorkerSettings
from citewire_retriever.ingest.store import PostgresJobStore

log = get_logger(__name__)


class FailedAttempts:
    """Each method ends an attempt and returns its outcome, as counted in the metrics.

    If the database can't be reached, the lease expires and the job is claimed again. If only the version's node is
    away, the job is requeued at once.
    """

    def __init__(
        self,
        store: PostgresJobStore,
        settings: WorkerSettings,
        backfill: Backfill | None,
        enrichment: Enrichment | None,
    ) -> None:
        """Takes the worker's dependencies."""
        self._store = store
        self._settings = settings
        self._backfill = backfill
        self._enrichment = enrichment

    async def fail(self, job: Job, error: IngestError) -> str:
        """Fails a version, because another attempt would end in the same error."""
        return await self._end(job, self._fail(job, error), "failed")

    async def fail_enrichment(self, job: Job, error: EnrichmentError) -> str:
        """Records why a document isn't enriched."""
        return await self._end(job, self._fail_enrichment(job, error), "failed")

    async def retry(self, job: Job, error: Exception) -> str:
        """Requeues a job, or gives it up after its last attempt."""
        return await self._end(job, self._retry(job, error), "retried")

    async def _end(self, job: Job, ending: Awaitable[None], outcome: str) -> str:
        try:
            await ending
        except LeaseLostError:
            return "lost"
        except CitewireError:
            with suppress(CitewireError):
                if await self._store.put_back(job, delay_seconds=self._settings.retry_seconds):
                    return "retried"
            return "lost"
        return outcome

    async def _fail(self, job: Job, error: IngestError) -> None:
        await self._store.fail(job, error)
        metrics.FAILURES.labels(error.code.value).inc()
        log.info("ingest_failed", code=error.code.value, **job.names)

    async def _fail_enrichment(self, job: Job, error: Exception) -> None:
        """Records why a document isn't enriched, and retries temporary failures; a refusing budget without limit."""
        if self._enrichment is None:
            raise LeaseLostError  # no other worker claims such jobs here
        settings = self._settings
        if isinstance(error, CitewireError) and error.reason == BUDGET_EXCEEDED:
            delay = settings.enrich_again_seconds
            await self._enrichment.fail(job, error, retry_seconds=delay, uncount=True)
            return
        most = settings.max_claims if is_passing(error) else settings.max_attempts
        final = isinstance(error, EnrichmentError) or job.attempt >= most
        delay = None if final else delay_seconds(job, error, settings)
        log.warning("enrichment_failed", error=str(error), delay_seconds=delay, attempt=job.attempt, **job.names)
        await self._enrichment.fail(job, error, retry_seconds=delay)

    async def _retry(self, job: Job, error: Exception) -> None:
        if job.kind == "enrich":
            await self._fail_enrichment(job, error)
            return
        passing = is_passing(error)
        settings = self._settings
        # Work that fails for lack of the database succeeds when it is back, however long that takes.
        patient = isinstance(error, CitewireError) and error.reason == "DATABASE_UNAVAILABLE"
        aged = not patient and job.age_seconds > settings.give_up_seconds
        given_up = aged if passing else job.attempt >= settings.max_attempts
        if given_up and job.kind == "ingest":
            await self._fail(job, final_error(error))
            return
        if given_up and job.kind == "embed":
            await self._store.end_embedding(job, (), failed=True)
            log.warning("embedding_given_up", error=str(error), **job.names)
            return
        if self._backfill is not None and job.kind == "backfill" and job.attempt >= settings.max_attempts:
            await self._backfill.give_up(job)
            log.warning("backfill_given_up", error=str(error), **job.names)
            return
        delay = delay_seconds(job, error, settings)
        log.warning("ingest_retried", error=str(error), delay_seconds=delay, attempt=job.attempt, **job.names)
        await self._store.retry(job, delay_seconds=delay)
