"""What lacks vectors or terms, in Postgres."""

import asyncio
from collections.abc import Sequence
from typing import Any, Final

from psycopg import sql

from citewire_kit.postgres import Connection, Pool, load_queries, tenant_transaction
from citewire_kit.tenant import Tenant
from citewire_retriever.headings import heading
from citewire_retriever.ingest.backfill.ports import BackfillStore, Lacking, Wanted
from citewire_retriever.ingest.chunks import embedding_input
from citewire_retriever.ingest.ports import Job, LeaseLostError, VectorTable
from citewire_retriever.ingest.store import own_embedding, refused, shared
from citewire_retriever.lexical import sparse_literal, weigh_chunk
from citewire_retriever.model import Space

_SQL: Final = load_queries("citewire_retriever.ingest.backfill", "queries.sql")
_LONG_STATEMENT: Final = 300.0
"""Seconds for looking through an organisation: it reads an index entry per chunk."""


class PostgresBackfillStore(BackfillStore):
    """See `BackfillStore`."""

    def __init__(self, pool: Pool) -> None:
        """Takes the pool of the worker's role."""
        self._pool = pool

    async def take_due(self, again_seconds: float) -> str | None:  # noqa: D102 - see the base
        async with shared(self._pool) as connection:
            cursor = await connection.execute(_SQL["take_due"], {"again_seconds": again_seconds})
            row = await cursor.fetchone()
        return None if row is None else str(row[0])

    async def come_back(self, org_id: str, seconds: float) -> None:  # noqa: D102 - see the base
        async with shared(self._pool) as connection:
            await connection.execute(_SQL["come_back"], {"org_id": org_id, "seconds": seconds})

    async def wanted(self, org_id: str) -> Wanted:  # noqa: D102 - see the base
        tenant = _nobody(org_id)
        with refused():
            async with tenant_transaction(self._pool, tenant) as connection:
                return await _wanted(connection, tenant, registered_only=False)

    async def queue(  # noqa: D102 - see the base
        self, org_id: str, tables: Sequence[VectorTable], further: Sequence[VectorTable], *, most: int, again: float
    ) -> int:
        queued = 0
        with refused():
            async with tenant_transaction(self._pool, _nobody(org_id), statement_seconds=_LONG_STATEMENT) as connection:
                values: dict[str, Any] = {"org_id": org_id, "again": again}
                await connection.execute(_SQL["forget_given_up"], values)
                row = await (await connection.execute(_SQL["waiting"], values)).fetchone()
                room = most - (0 if row is None else int(row[0]))
                wanted = [(each.name, False) for each in tables] + [(each.name, True) for each in further]
                for table, is_further in [("lexical", False), *wanted]:
                    if room <= queued:
                        break
                    statement = sql.SQL(_SQL["queue"]).format(vectors=sql.Identifier("corpus", table))
                    values |= {"most": room - queued, "further": is_further}
                    queued += (await connection.execute(statement, values)).rowcount
        return queued

    async def lacking(self, job: Job) -> Lacking | None:  # noqa: D102 - see the base
        with refused():
            async with tenant_transaction(self._pool, job.tenant) as connection:
                row = await (await connection.execute(_SQL["live_title"], _key(job))).fetchone()
                wanted = await _wanted(connection, job.tenant, registered_only=True)
        return None if row is None else Lacking(str(row[0]), wanted)

    async def add_terms(self, job: Job, title: str, most: int) -> int:  # noqa: D102 - see the base
        with refused():
            async with tenant_transaction(self._pool, job.tenant) as connection:
                cursor = await connection.execute(_SQL["without_terms"], {**_key(job), "most": most})
                chunks = await cursor.fetchall()
        if not chunks:
            return 0
        texts = [embedding_input(heading(title, section), text) for _, section, text in chunks]
        # Words take a quarter of a millisecond a chunk: beside the loop, and while no lock is held.
        terms = await asyncio.to_thread(lambda: [sparse_literal(weigh_chunk(text)) for text in texts])
        with refused():
            async with tenant_transaction(self._pool, job.tenant, statement_seconds=_LONG_STATEMENT) as connection:
                for query in ("hold_live", "hold_version", "hold_job"):
                    if (await connection.execute(_SQL[query], _key(job))).rowcount != 1:
                        raise LeaseLostError
                values = {**_key(job), "chunk_ids": [row[0] for row in chunks], "terms": terms}
                await connection.execute(_SQL["add_terms"], values)
        return len(chunks)

    async def end(self, job: Job, further: Sequence[VectorTable]) -> None:  # noqa: D102 - see the base
        with refused():
            async with tenant_transaction(self._pool, job.tenant) as connection:
                await connection.execute(_SQL["hold_version"], _key(job))
                for table in further:
                    await connection.execute(_SQL["add_further_space"], {**_key(job), "space_id": table.space_id})
                await _written(connection, "forget_job", job)

    async def give_up(self, job: Job) -> None:  # noqa: D102 - see the base
        with refused():
            async with tenant_transaction(self._pool, job.tenant) as connection:
                await connection.execute(_SQL["hold_version"], _key(job))
                await _written(connection, "fail_job", job)


async def _wanted(connection: Connection, tenant: Tenant, *, registered_only: bool) -> Wanted:
    row = await (await connection.execute(_SQL["wanted"], {"org_id": tenant.org_id})).fetchone()
    own, only_own = await own_embedding(connection, tenant)
    if row is None:
        return Wanted(None, None, own, only_own)
    live = None if row[0] is None else Space(row[0], row[1], row[2])
    following = None if row[3] is None or (registered_only and not row[6]) else Space(row[3], row[4], row[5])
    return Wanted(live, following, own, only_own)


async def _written(connection: Connection, query: str, job: Job) -> None:
    """Writes a job that is still this worker's; else the transaction is rolled back."""
    if (await connection.execute(_SQL[query], _key(job))).rowcount != 1:
        raise LeaseLostError


def _nobody(org_id: str) -> Tenant:
    """The organisation, on nobody's behalf."""
    return Tenant(org_id, "backfill", "free")


def _key(job: Job) -> dict[str, Any]:
    return {
        "org_id": job.tenant.org_id,
        "job_id": job.job_id,
        "fence": job.fence,
        "document_id": job.document_id,
        "version": job.version,
    }
