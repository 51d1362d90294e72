"""Publishing a version, and the first statement of every job's transaction."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any, Final

from citewire_kit.postgres import Connection, Pool
from citewire_kit.queries import load_queries
from citewire_kit.transaction_settings import is_spread
from citewire_retriever.ingest.model import Job, LeaseLostError, Publication, Published
from citewire_retriever.ingest.transactions import STATEMENT_SECONDS, under_tenant
from citewire_retriever.store.jobs import check_backfill, queue_enrichment, tell_watchers

SQL: Final = load_queries("citewire_retriever.ingest", "queries.sql")


async def written(connection: Connection, query: str, values: dict[str, Any]) -> None:
    """Writes exactly one row. Raises `LeaseLostError` if none was written."""
    if (await connection.execute(SQL[query], values)).rowcount != 1:
        raise LeaseLostError
    await tell_watchers(connection, values["org_id"], [values["document_id"]])


async def held(connection: Connection, job: Job) -> None:
    """Checks that the worker still holds the job. Raises `LeaseLostError` if not."""
    if await (await connection.execute(SQL["hold_job"], job_key(job))).fetchone() is None:
        raise LeaseLostError


@asynccontextmanager
async def holding(
    pool: Pool,
    job: Job,
    first: str,
    values: dict[str, Any],
    *,
    statement_seconds: float = STATEMENT_SECONDS,
    plan_once: bool = False,
) -> AsyncGenerator[Connection]:
    """A transaction in which this worker surely holds the job: it begins with a statement on the version's row.

    Args:
        pool: Pool from which the connection is taken.
        job: The job.
        first: Name of the first statement.
        values: Its parameters, besides the job's.
        statement_seconds: Maximum duration of one statement.
        plan_once: Plan statements once per connection, and the checks of foreign keys, which are planned for each row
            otherwise.

    Raises:
        LeaseLostError: It no longer holds the job, or the version was deleted; nothing is written.
    """
    async with under_tenant(pool, job, statement_seconds=statement_seconds, plan_once=plan_once) as connection:
        await written(connection, first, {**job_key(job), **values})
        await held(connection, job)
        yield connection


async def _supersede(connection: Connection, job: Job, keep_seconds: float) -> None:
    """Removes all older versions from the search, and queues their removal."""
    statement = SQL["supersede_on_nodes" if is_spread(connection) else "supersede"]
    older = await (await connection.execute(statement, job_key(job))).fetchall()
    for (version,) in older:
        values = {**job_key(job), "version": version, "keep_seconds": keep_seconds}
        await connection.execute(SQL["drop_vectors"], values)
        await connection.execute(SQL["queue_sweep"], values)


def job_key(job: Job) -> dict[str, Any]:
    """Returns the parameters that identify a job and its version in statements."""
    return {
        "org_id": job.tenant.org_id,
        "user_id": job.tenant.user_id,
        "plan": job.tenant.plan,
        "job_id": job.job_id,
        "fence": job.fence,
        "document_id": job.document_id,
        "version": job.version,
    }


class OtherSpaceError(Exception):
    """Rolls the publishing transaction back."""


async def publish(connection: Connection, job: Job, publication: Publication) -> Published:
    """Makes a version live in its own transaction. Raises `OtherSpaceError` if another space is live."""
    row = await (await connection.execute(SQL["lock_document"], job_key(job))).fetchone()
    if row is None:
        raise LeaseLostError
    overtaken = row[0] is not None and row[0] > job.version
    values = {
        **job_key(job),
        "title": publication.title,
        "media_type": publication.media_type,
        "pages": publication.pages,
        "chunks": publication.chunks,
        "tokens": publication.tokens,
        "overtaken": overtaken,
        "space_id": publication.table.space_id,
    }
    await written(connection, "version_ready", values)
    await held(connection, job)
    if (await connection.execute(SQL["claim_space"], values)).rowcount == 1:
        await check_backfill(connection, job.tenant.org_id)
    live = await (await connection.execute(SQL["live_space"], values)).fetchone()
    if live is None or live[0] != publication.table.space_id:
        raise OtherSpaceError
    if overtaken:
        await connection.execute(SQL["version_overtaken"], values)
        await connection.execute(SQL["drop_vectors"], values)
    else:
        await connection.execute(SQL["document_live"], values)
        await queue_enrichment(connection, job.tenant.org_id, job.document_id)
        await _supersede(connection, job, publication.keep_seconds)
        if publication.further:
            await connection.execute(SQL["queue_embed"], values)
    await connection.execute(SQL["end_job"], {**job_key(job), "state": "done"})
    return Published.OVERTAKEN if overtaken else Published.LIVE
