"""The worker's metric series. All label values are fixed, and exist from the start."""

from collections.abc import Iterable
from typing import Final, get_args

from prometheus_client import Counter, Gauge, Histogram

from citewire_retriever.ingest.model import JobKind

QUEUE_DEPTH: Final = Gauge("citewire_ingest_queue_depth", "Waiting ingest jobs that could run now.")
QUEUE_OLDEST: Final = Gauge("citewire_ingest_queue_oldest_seconds", "Seconds that the oldest of them has waited.")
RUNNING: Final = Gauge("citewire_ingest_jobs_running", "Jobs that this worker is running.", ["kind"])
JOBS: Final = Counter("citewire_ingest_jobs_total", "Attempts at jobs, by outcome.", ["kind", "outcome"])
FAILURES: Final = Counter("citewire_ingest_failures_total", "Versions that failed permanently, by code.", ["code"])
STAGE_SECONDS: Final = Histogram(
    "citewire_ingest_stage_seconds",
    "Seconds of a stage of ingest.",
    ["stage"],
    buckets=(0.01, 0.05, 0.1, 0.5, 1, 5, 10, 30, 60, 120, 300, 600, 1800),
)
WAIT_SECONDS: Final = Histogram(
    "citewire_ingest_wait_seconds",
    "Seconds that a version waited for its turn, by lane.",
    ["lane"],
    buckets=(0.01, 0.05, 0.1, 0.5, 1, 5, 10, 30, 60, 120, 300, 600, 1800),
)
CHUNKS: Final = Counter("citewire_ingest_chunks_total", "Chunks that were embedded and stored.")
REUSED: Final = Counter("citewire_ingest_chunks_reused_total", "Chunks with a vector of the previous version.")
EXPIRED: Final = Counter("citewire_ingest_leases_expired_total", "Jobs reclaimed from workers that stopped responding.")
BACKFILL_QUEUED: Final = Counter("citewire_backfill_documents_total", "Documents without vectors that were queued.")
BACKFILL_CHUNKS: Final = Counter("citewire_backfill_chunks_total", "Missing vectors that were computed.")
ENRICHED: Final = Counter("citewire_enrichment_documents_total", "Enriched documents, by source.", ["source"])
ENRICHMENT_FAILURES: Final = Counter(
    "citewire_enrichment_failures_total", "Documents whose enrichment failed permanently, by code.", ["code"]
)

OUTCOMES: Final = ("done", "passed_on", "failed", "retried", "released", "lost")
INGEST_STAGES: Final = ("read", "parse", "chunk", "embed", "publish")


def init(codes: Iterable[str], *, enrichment_sources: Iterable[str], enrichment_codes: Iterable[str]) -> None:
    """Creates the series."""
    for kind in get_args(JobKind):
        RUNNING.labels(kind)
        for outcome in OUTCOMES:
            JOBS.labels(kind, outcome)
    for lane in ("interactive", "bulk"):
        WAIT_SECONDS.labels(lane)
    for code in codes:
        FAILURES.labels(code)
    for source in enrichment_sources:
        ENRICHED.labels(source)
    for code in enrichment_codes:
        ENRICHMENT_FAILURES.labels(code)
    for stage in INGEST_STAGES:
        STAGE_SECONDS.labels(stage)
