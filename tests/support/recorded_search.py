"""The statements that a search sends, caught on their way: for their plans, and to send them again without us."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, cast

import psycopg
from psycopg import sql
from psycopg_pool import AsyncConnectionPool

from citewire_kit.postgres import Pool
from citewire_kit.tenant import Tenant
from citewire_retriever.model import SearchQuery
from citewire_retriever.store.search import PostgresSearch
from citewire_retriever.tuning import SearchTuning


@dataclass(frozen=True, slots=True)
class RecordedStatement:
    """A statement with its parameters."""

    statement: sql.Composable | str | bytes
    values: dict[str, Any]

    def text(self, connection: psycopg.AsyncConnection[Any] | None = None) -> str:
        """The statement as it is sent."""
        if isinstance(self.statement, bytes):
            return self.statement.decode()
        return self.statement if isinstance(self.statement, str) else self.statement.as_string(connection)

    @property
    def ranks(self) -> bool:
        """Whether it is the one that finds the nearest."""
        return "nearest AS MATERIALIZED" in self.text()

    @property
    def tunes(self) -> bool:
        """Whether it makes settings for the ranking."""
        return "hnsw.iterative_scan" in self.text()


class _Recording(psycopg.AsyncConnection[tuple[Any, ...]]):
    """Remembers what it sends inside a transaction; the pool has one connection."""

    async def execute(self, query: Any, params: Any = None, **options: Any) -> Any:  # noqa: ANN401 # values of any kind are meant
        sent: list[RecordedStatement] = self.__dict__.setdefault("sent", [])
        if params is not None:
            sent.append(RecordedStatement(query, dict(params)))
        return await super().execute(query, params, **options)


class RecordedSearch:
    """A search whose statements are caught."""

    def __init__(self, pool: Pool, tuning: SearchTuning) -> None:
        self.pool = pool
        self._store = PostgresSearch(pool, tuning)

    async def sent(self, tenant: Tenant, query: SearchQuery) -> list[RecordedStatement]:
        """Searches, and returns the statements, those that open and close the transaction aside.

        The first search of an organisation asks for its size as well, so it is searched twice.
        """
        await self._store.search(tenant, query)
        async with self.pool.connection() as connection:
            connection.__dict__["sent"] = []
        await self._store.search(tenant, query)
        async with self.pool.connection() as connection:
            sent: list[RecordedStatement] = connection.__dict__["sent"]
            return [entry for entry in sent if "set_config('citewire.user_id'" not in entry.text()]


@asynccontextmanager
async def recorded_search(dsn: str, tuning: SearchTuning | None = None) -> AsyncGenerator[RecordedSearch]:
    """Opens a recorded search as the role that the connection string names."""
    pool = AsyncConnectionPool(
        dsn, connection_class=_Recording, kwargs={"autocommit": True}, min_size=1, max_size=1, open=False
    )
    async with pool:
        yield RecordedSearch(cast("Pool", pool), tuning or SearchTuning())
