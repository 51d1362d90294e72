"""One attempt at enriching a document: a model describes it, or rules where there is none."""

from dataclasses import replace
from typing import Final

from citewire_kit.errors import CitewireError
from citewire_kit.telemetry import get_logger
from citewire_retriever.ingest import metrics
from citewire_retriever.ingest.enrichment.generator_client import GrpcGenerator
from citewire_retriever.ingest.enrichment.model import (
    Description,
    DocumentToEnrich,
    EnrichmentCode,
    EnrichmentError,
)
from citewire_retriever.ingest.enrichment.rules import describe, statistics_of
from citewire_retriever.ingest.enrichment.store import PostgresEnrichmentStore
from citewire_retriever.ingest.model import Job
from citewire_retriever.ingest.turn import Turn

log = get_logger(__name__)

MAX_METADATA_BYTES: Final = 60_000
"""Larger metadata gets no summary, because a user couldn't save it again."""
BUDGET_EXCEEDED: Final = "BUDGET_EXCEEDED"
_FAILED: Final = "The document couldn't be enriched because of an internal error. Try again later, or report it."


class Enrichment:
    """See the module. It has no state between two jobs."""

    def __init__(self, store: PostgresEnrichmentStore, generator: GrpcGenerator) -> None:
        self._store = store
        self._generator = generator

    async def enrich(self, job: Job, turn: Turn) -> None:
        """Makes an attempt. If it fails, the document can still be searched.

        Computation by rules is charged; a model's work isn't.

        Raises:
            EnrichmentError: Another attempt is useless.
            LeaseLostError: The job isn't ours any more.
            CitewireError: Something that it needs is unavailable.
        """
        document = await self._store.read(job)
        if document is None:
            await self._store.forget(job)
            return
        if not document.open_fields or not document.text.strip():
            await self._store.end(job)
            return
        description: Description | None = None
        if document.models or not document.only_own:
            description = await self._generator.describe(document)
        if description is None:
            description = await self._describe_by_rules(job, document, turn)
        if document.metadata_bytes > MAX_METADATA_BYTES:
            description = replace(description, summary="")
        await self._store.write(job, document.open_fields, description)
        metrics.ENRICHED.labels(description.source.value).inc()

    async def _describe_by_rules(self, job: Job, document: DocumentToEnrich, turn: Turn) -> Description:
        statistics = await turn.compute(lambda: statistics_of(document))
        counts = await self._store.count_chunks(job, statistics.term_numbers)
        return await turn.compute(lambda: describe(document, statistics, counts))

    async def fail(self, job: Job, error: Exception, *, retry_seconds: float | None, uncount: bool = False) -> None:
        """Records on the document why it isn't enriched.

        Args:
            job: The job.
            error: The error.
            retry_seconds: Delay before the next attempt; None for no further attempt.
            uncount: Whether the attempt doesn't count.
        """
        code, message = _failure_of(error)
        await self._store.fail(job, code, message, retry_seconds=retry_seconds, uncount=uncount)
        if retry_seconds is None:
            metrics.ENRICHMENT_FAILURES.labels(code.value).inc()


def _failure_of(error: Exception) -> tuple[EnrichmentCode, str]:
    """The error shown on a document: whose fault it is, and never a driver's or a provider's text."""
    if isinstance(error, EnrichmentError):
        return error.code, error.message
    if isinstance(error, CitewireError):
        sentence = f"{error.message[:1].upper()}{error.message[1:]}."
        if error.reason == BUDGET_EXCEEDED:
            return EnrichmentCode.BUDGET, sentence
        if error.reason.startswith("PROVIDER_") or error.reason in ("CONTEXT_TOO_LONG", "MODEL_NOT_FOUND"):
            return EnrichmentCode.PROVIDER, sentence
    return EnrichmentCode.INTERNAL, _FAILED
