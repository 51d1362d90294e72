"""The ingest of documents."""

from typing import Final

from scripts.monitoring.panels import Dashboard, Panel, Query, Row
from scripts.monitoring.queries import BACKLOG, OLDEST, quantile, rate

INGEST: Final = Dashboard(
    uid="citewire-ingest",
    title="Citewire ingest",
    says="The ingest of documents.",
    rows=(
        Row("Backlog", (BACKLOG, OLDEST)),
        Row(
            "Work",
            (
                Panel(
                    "Attempts per second, by outcome",
                    (Query(rate("citewire_ingest_jobs_total", "kind", "outcome"), "{{kind}} {{outcome}}"),),
                    unit="ops",
                ),
                Panel(
                    "Chunks per second",
                    (
                        Query(rate("citewire_ingest_chunks_total"), "of documents"),
                        Query(rate("citewire_backfill_chunks_total"), "of backfill"),
                    ),
                    unit="ops",
                ),
                Panel(
                    "Documents with missing vectors",
                    (Query(rate("citewire_backfill_documents_total"), "queued"),),
                    unit="ops",
                ),
                Panel(
                    "Stages, p95",
                    (Query(quantile(0.95, "citewire_ingest_stage_seconds", "stage"), "{{stage}}"),),
                    unit="s",
                ),
                Panel(
                    "Time by stage",
                    (Query(rate("citewire_ingest_stage_seconds_sum", "stage"), "{{stage}}"),),
                    says="Average number of workers busy with each stage.",
                    stack=True,
                ),
            ),
        ),
        Row(
            "Failures",
            (
                Panel(
                    "Permanent failures in an hour, by code",
                    (Query("sum by (code) (increase(citewire_ingest_failures_total[1h]))", "{{code}}"),),
                ),
                Panel(
                    "Reclaimed from silent workers in an hour",
                    (Query("sum(increase(citewire_ingest_leases_expired_total[1h]))", "jobs"),),
                    alarm=3,
                ),
            ),
        ),
    ),
)
