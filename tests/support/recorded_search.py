"""Captures the statements of a search, to see their plans and to send them without the retriever."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, cast

import psycopg
from psycopg import sql

from citewire_kit.postgres import Connection, Pool, open_pool
from citewire_kit.tenant import Tenant
from citewire_retriever.model import SearchQuery
from citewire_retriever.store.filter_sql import VISIBLE
from citewire_retriever.store.search import PostgresSearch
from citewire_retriever.tuning import SearchTuning


@dataclass(frozen=True, slots=True)
class RecordedStatement:
    """A statement with its parameters."""

    statement: sql.Composable | str | bytes
    values: dict[str, Any]

    def text(self, connection: psycopg.AsyncConnection[Any] | None = None) -> str:
        """Returns the statement as it is sent."""
        if isinstance(self.statement, bytes):
            return self.statement.decode()
        return self.statement if isinstance(self.statement, str) else self.statement.as_string(connection)

    @property
    def ranks(self) -> bool:
        """Whether it is the search for the nearest."""
        return "nearest AS MATERIALIZED" in self.text()

    @property
    def tunes(self) -> bool:
        """Whether it changes settings for the ranking."""
        return "hnsw.iterative_scan" in self.text()


def _record(connection: Connection) -> list[RecordedStatement]:
    """Records the statements of a connection inside a transaction."""
    sent: list[RecordedStatement] = []
    execute = connection.execute

    async def recording(query: Any, params: Any = None, **options: Any) -> Any:  # noqa: ANN401 # any type is intended
        # On a cluster, the query for an organisation's node has positional parameters, and isn't recorded.
        if isinstance(params, dict):
            sent.append(RecordedStatement(query, cast("dict[str, Any]", params).copy()))
        return await execute(query, cast("Any", params), **options)

    connection.__dict__["execute"] = recording
    return sent


class RecordedSearch:
    """A search whose statements are recorded."""

    def __init__(self, pool: Pool, tuning: SearchTuning, sent: list[RecordedStatement]) -> None:
        self.pool = pool
        self._store = PostgresSearch(pool, tuning)
        self._sent = sent

    async def sent(self, tenant: Tenant, query: SearchQuery) -> list[RecordedStatement]:
        """Searches and returns the statements, without those that open and close the transaction.

        The first search of an organisation also queries its size, so it searches twice.
        """
        await self._store.search(tenant, query)
        self._sent.clear()
        await self._store.search(tenant, query)
        return [entry for entry in self._sent if "set_config('citewire.user_id'" not in entry.text()]


@asynccontextmanager
async def recorded_search(dsn: str, tuning: SearchTuning | None = None) -> AsyncGenerator[RecordedSearch]:
    """Opens a recorded search, over one connection, as the role that the connection string names."""
    pool = await open_pool(dsn, max_size=1, name="recorded", resolved=VISIBLE)
    async with pool:
        async with pool.connection() as connection:
            sent = _record(connection)
        yield RecordedSearch(pool, tuning or SearchTuning(), sent)
