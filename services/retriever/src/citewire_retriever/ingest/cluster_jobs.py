"""Jobs of a database on several nodes: the queue is on the coordinator, and the versions are on the nodes."""

from typing import Final

from citewire_kit.postgres import Pool, guard_of
from citewire_kit.transaction_settings import is_spread
from citewire_retriever.ingest.model import Job
from citewire_retriever.ingest.publishing import SQL, job_key
from citewire_retriever.ingest.transactions import shared, under_tenant

_PUT_BACK_SECONDS: Final = 5.0


async def put_back(pool: Pool, job: Job, *, delay_seconds: float) -> bool:
    """Requeues a job whose version's node is away; False without nodes."""
    if guard_of(pool) is None:
        return False
    async with shared(pool, statement_seconds=_PUT_BACK_SECONDS) as connection:
        cursor = await connection.execute(SQL["put_back"], {**job_key(job), "delay_seconds": delay_seconds})
        return cursor.rowcount == 1


async def forget_orphan(pool: Pool, job: Job) -> bool:
    """Deletes a job whose version is gone, as a foreign key does on one Postgres; False if it is there.

    Its deletion was committed on the node, but not on the coordinator, or met one that the version's ingest queued.
    """
    if guard_of(pool) is None:  # the pool has connected: it claimed the job
        return False
    async with under_tenant(pool, job, statement_seconds=_PUT_BACK_SECONDS) as connection:
        if (
            not is_spread(connection)
            or await (await connection.execute(SQL["version_exists"], job_key(job))).fetchone()
        ):
            return False
        return (await connection.execute(SQL["delete_orphan"], job_key(job))).rowcount == 1
