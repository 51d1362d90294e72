"""Transactions of the ingest worker, under a job's tenant or without one. Refused rows are never quoted."""

from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager, contextmanager
from typing import Final

import psycopg

from citewire_kit.errors import Internal
from citewire_kit.postgres import Connection, Pool, tenant_transaction, transaction
from citewire_kit.queries import load_queries
from citewire_kit.telemetry import get_logger
from citewire_kit.tenant import Tenant
from citewire_retriever.ingest.model import Job, OwnEmbedding

log = get_logger(__name__)

STATEMENT_SECONDS: Final = 30.0

_SQL: Final = load_queries("citewire_retriever.ingest", "queries.sql")


@asynccontextmanager
async def under_tenant(
    pool: Pool, job: Job, *, statement_seconds: float = STATEMENT_SECONDS, plan_once: bool = False
) -> AsyncGenerator[Connection]:
    """A transaction under the job's tenant."""
    with refused():
        async with tenant_transaction(
            pool, job.tenant, statement_seconds=statement_seconds, plan_once=plan_once
        ) as connection:
            yield connection


@asynccontextmanager
async def shared(pool: Pool, *, statement_seconds: float = STATEMENT_SECONDS) -> AsyncGenerator[Connection]:
    """A transaction without a tenant: jobs and spaces only."""
    with refused():
        async with transaction(pool, statement_seconds=statement_seconds) as connection:
            yield connection


@contextmanager
def refused() -> Generator[None]:
    """Keeps the database's messages about refused rows out of the log, as they quote content."""
    try:
        yield
    except psycopg.Error as exc:
        log.error(  # noqa: TRY400 - the traceback would quote the row
            "database_refused", sqlstate=exc.sqlstate, error=exc.diag.message_primary, table=exc.diag.table_name
        )
        raise Internal("the database refused what was to be stored", reason="INTERNAL") from None


async def own_embedding(connection: Connection, tenant: Tenant) -> tuple[OwnEmbedding | None, bool]:
    """Reads the tenant's own embedding provider, user first, and whether the organisation demands one.

    Without the gateway's schema there are none.
    """
    there = await (await connection.execute(_SQL["has_embedding_providers"])).fetchone()
    if there is None or not there[0]:
        return None, False
    values = {"org_id": tenant.org_id, "user_id": tenant.user_id}
    row = await (await connection.execute(_SQL["own_embedding"], values, binary=True)).fetchone()
    if row is None or row[1] is None:
        return None, bool(row and row[0])
    return OwnEmbedding(row[1], row[2], row[3], row[4], row[5], row[6]), bool(row[0])
