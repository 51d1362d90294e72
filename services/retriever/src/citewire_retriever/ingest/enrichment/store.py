"""The data that enrichment reads and writes, in Postgres."""

import json
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from typing import Any, Final

from citewire_kit.postgres import Connection, Pool, tenant_transaction
from citewire_kit.queries import load_queries
from citewire_kit.tenant import Tenant
from citewire_retriever.ingest.enrichment.model import (
    Description,
    DocumentToEnrich,
    EnrichmentCode,
    Field,
    KnownLabels,
    OwnChatModel,
)
from citewire_retriever.ingest.model import Job, LeaseLostError
from citewire_retriever.ingest.transactions import own_embedding, refused
from citewire_retriever.store.jobs import change_documents

_SQL: Final = load_queries("citewire_retriever.ingest.enrichment", "queries.sql")
READ_CHARS: Final = 32_000
"""Maximum characters read of a document. The generator uses fewer, up to its token limit."""
MAX_LABELS: Final = 100
"""Maximum labels per field."""


class PostgresEnrichmentStore:
    """Methods run as the job's tenant.

    Those that write raise `LeaseLostError`, and write nothing, if the worker no longer holds the job.
    """

    def __init__(self, pool: Pool) -> None:
        """Takes the pool of the worker's role."""
        self._pool = pool

    async def read(self, job: Job) -> DocumentToEnrich | None:
        """Reads a job's document; None if its version isn't live any more, or its collection has no enrichment."""
        with refused():
            async with tenant_transaction(self._pool, job.tenant) as connection:
                cursor = await connection.execute(_SQL["document_to_enrich"], {**_key(job), "chars": READ_CHARS})
                row = await cursor.fetchone()
                if row is None:
                    return None
                labels = await _labels(connection, job, owner=row[3])
                models, only_own = await _own_models(connection, job.tenant)
        fields = frozenset(map(Field, row[4]))
        return DocumentToEnrich(row[0], row[1], row[2], row[6], fields, labels, models, only_own, row[5])

    async def count_chunks(self, job: Job, terms: Sequence[int]) -> dict[int, int]:
        """Returns how many of the organisation's chunks contain each term; the key 0 has the total."""
        with refused():
            async with tenant_transaction(self._pool, job.tenant) as connection:
                cursor = await connection.execute(
                    _SQL["chunks_with_terms"], {"org_id": job.tenant.org_id, "terms": [0, *terms]}
                )
                return dict(await cursor.fetchall())

    async def write(self, job: Job, asked: frozenset[Field], description: Description) -> None:
        """Writes the requested fields that may still be written, and ends the job."""
        values = {field: getattr(description, field) for field in Field if getattr(description, field)}
        written = {
            "asked": sorted(asked),
            "values": json.dumps(values, ensure_ascii=False),
            "source": description.source.value,
        }
        async with self._holding(job) as connection:
            await change_documents(connection, _SQL["store_values"], {**_key(job), **written})
            await connection.execute(_SQL["end_job"], {**_key(job), "state": "done"})

    async def end(self, job: Job) -> None:
        """Ends a job with nothing to write."""
        async with self._holding(job) as connection:
            await connection.execute(_SQL["end_job"], {**_key(job), "state": "done"})

    async def forget(self, job: Job) -> None:
        """Removes a job that isn't needed any more; it may be queued again."""
        async with self._holding(job) as connection:
            await connection.execute(_SQL["forget_job"], _key(job))

    async def fail(
        self, job: Job, code: EnrichmentCode, message: str, *, retry_seconds: float | None, uncount: bool
    ) -> None:
        """Records on the document why it isn't enriched, and queues the job again, or with None ends it."""
        async with self._holding(job) as connection:
            noted = {**_key(job), "code": code.value, "message": message}
            await change_documents(connection, _SQL["note_error"], noted)
            if retry_seconds is None:
                await connection.execute(_SQL["end_job"], {**_key(job), "state": "failed"})
            else:
                await connection.execute(
                    _SQL["requeue_job"], {**_key(job), "delay_seconds": retry_seconds, "uncount": uncount}
                )

    @asynccontextmanager
    async def _holding(self, job: Job) -> AsyncGenerator[Connection]:
        """A transaction in which the job certainly belongs to this worker."""
        with refused():
            async with tenant_transaction(self._pool, job.tenant) as connection:
                for query in ("hold_document", "hold_version", "hold_job"):
                    if (await connection.execute(_SQL[query], _key(job))).rowcount != 1:
                        raise LeaseLostError
                yield connection


async def _labels(connection: Connection, job: Job, *, owner: str) -> KnownLabels:
    values = {**_key(job), "owner": owner, "most": MAX_LABELS}
    labels: dict[str, list[str]] = {}
    for field, value in await (await connection.execute(_SQL["known_labels"], values)).fetchall():
        labels.setdefault(field, []).append(value)
    return KnownLabels(labels.get("entity_type", []), labels.get("category", []), labels.get("tags", []))


async def _own_models(connection: Connection, tenant: Tenant) -> tuple[list[OwnChatModel], bool]:
    """Reads the tenant's own chain, and whether the organisation requires one."""
    _, only_own = await own_embedding(connection, tenant)
    there = await (await connection.execute(_SQL["has_chat_providers"])).fetchone()
    if there is None or not there[0]:
        return [], only_own
    values = {"org_id": tenant.org_id, "user_id": tenant.user_id}
    rows = await (await connection.execute(_SQL["chat_providers"], values, binary=True)).fetchall()
    models = [OwnChatModel(*row) for row in rows]
    # If only own providers may be used, the operator's models never take over.
    return [model for model in models if model.provider or not only_own], only_own


def _key(job: Job) -> dict[str, Any]:
    return {
        "org_id": job.tenant.org_id,
        "document_id": job.document_id,
        "version": job.version,
        "job_id": job.job_id,
        "fence": job.fence,
    }
