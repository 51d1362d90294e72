"""What only a cluster needs costs one Postgres nothing."""

from __future__ import annotations

import pytest
from psycopg_pool import AsyncConnectionPool

from citewire_kit.errors import Unavailable
from citewire_kit.postgres import Pool
from citewire_kit.tenant import Tenant
from citewire_retriever.ingest.backfill.store import PostgresBackfillStore
from citewire_retriever.ingest.cluster_jobs import forget_orphan
from citewire_retriever.ingest.model import Job

JOB = Job(
    job_id=1,
    document_id=2,
    version=1,
    kind="ingest",
    attempt=1,
    fence=1,
    tenant=Tenant("acme", "ann", "pro"),
    trace_context={},
    age_seconds=0,
    lane="interactive",
    waited_seconds=0,
)


async def test_without_nodes_no_transaction_looks_for_what_a_coordinator_lost() -> None:
    pool: Pool = AsyncConnectionPool("", open=False)  # gives no connection
    store = PostgresBackfillStore(pool)
    with pytest.raises(Unavailable):
        await store.is_waiting("acme")
    assert await store.queue_missing("acme", most=10) == 0
    assert not await forget_orphan(pool, JOB)
