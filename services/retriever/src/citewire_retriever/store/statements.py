"""The statements of a search, and the meaning of their rows."""

from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final, LiteralString

import numpy as np
import psycopg
from pgvector import HalfVector
from psycopg import sql

from citewire_kit.postgres import Connection
from citewire_kit.tenant import Tenant
from citewire_kit.transaction_settings import is_spread, plans
from citewire_retriever.model import Scope, SearchQuery
from citewire_retriever.store import rows
from citewire_retriever.store.filter_sql import WHOLE, Parameters, only_visible, scope_condition
from citewire_retriever.store.lexical import lexical_statement
from citewire_retriever.store.vectors import half_vector
from citewire_retriever.tuning import MARGIN, WATCHED, IndexSearch, SearchTuning, Sizes, walk_sizes

_SQL: Final = rows.queries("search")
_CHUNK_COLUMNS: Final = sql.SQL(_SQL["chunk_columns"])
GET_CHUNKS: Final = sql.SQL(_SQL["get_chunks"]).format(chunk_columns=_CHUNK_COLUMNS).as_bytes()
_COUNT_LIMIT: Final = 5000
"""Most documents of a narrowed scope that are counted."""

_Cursor = psycopg.AsyncCursor[tuple[Any, ...]]


@dataclass(frozen=True, slots=True)
class SearchStatements:
    """One search within its transaction; the methods send its statements."""

    connection: Connection
    tenant: Tenant
    query: SearchQuery
    table: str
    tuning: SearchTuning

    @property
    def shape(self) -> rows.Shape:
        """The columns read of each chunk; only keys in a hybrid search, as few of its many chunks become results."""
        return rows.KEYS if self.query.mode == "hybrid" else rows.WHOLE

    async def visible_size(self) -> Sizes:
        """Queries how much of the organisation is visible to the caller, and how many rows share its graph."""
        statement = _unscoped("visible_size", self.table, self.shape)
        row = (await fetch(self.connection, statement, {"org_id": self.tenant.org_id}))[0]
        return Sizes(row[0], row[1], partition_rows=max(int(row[2]), row[1]), hidden=row[3])

    async def prepare(self, way: IndexSearch | None, *, once: bool) -> _Cursor:
        """Queries the serving spaces, and applies the transaction's settings for the ranking.

        Args:
            way: As in `rank`.
            once: See `plans`.
        """
        return await self.connection.execute(
            _SQL["prepare_search"],
            {
                "org_id": self.tenant.org_id,
                "ef_search": str(way.ef_search_first if way else self.tuning.ef_search_first),
                "max_scan_tuples": str(self.tuning.max_scan_tuples),
                "enable_sort": "off" if way else "on",
                "enable_seqscan": "off" if once and way is None else "on",
                "plans": plans(once=once and not is_spread(self.connection)),
            },
        )

    async def rank(self, way: IndexSearch | None, *, hidden: bool, once: bool) -> _Cursor:
        """Queries the nearest; through the graph, the last column is `found_again`.

        Args:
            way: How to use the graph; None for a scan.
            hidden: Whether part of the library is hidden from the caller; a scan then skips it.
            once: As in `prepare`.
        """
        query = self.query
        values: dict[str, Any] = {"top_k": query.top_k, "vector": self._vector()}
        if way is None:
            name = "nearest_documents" if query.by_document else "nearest_chunks"
            return await self._execute(name, order="by_scan", hidden=hidden, once=once, **values)
        return await self._execute(
            "walked_documents" if query.by_document else "walked_chunks",
            after="walk",
            order="by_scan" if way.scans else "by_index",
            once=once,
            **walk_values(way, top_k=query.top_k, by_document=query.by_document),
            **values,
        )

    async def ask_recent(self) -> _Cursor | None:
        """Queries the most recent documents, if wanted."""
        if not self.query.recent:
            return None
        return await self._execute("recent_documents", recent=self.query.recent, vector=self._vector())

    async def ask_words(self, *, by_terms: bool, hidden: bool) -> _Cursor | None:
        """Queries the best by words, if the search is hybrid."""
        if self.query.mode != "hybrid":
            return None
        statement, values = lexical_statement(
            self.tenant,
            self.query,
            table=self.table,
            vector=self._vector(),
            depth=self.query.top_k,
            shape=self.shape,
            by_terms=by_terms,
            hidden=hidden,
        )
        return await self.connection.execute(statement, values)

    def _vector(self) -> HalfVector:
        return half_vector(np.frombuffer(self.query.vector, dtype="<f4"))

    async def _execute(
        self,
        name: str,
        *,
        after: str = "",
        order: str = "",
        hidden: bool = False,
        once: bool = False,
        **values: object,
    ) -> _Cursor:
        """Sends a completed query of `search.sql`, after another one that it continues.

        A query with a single plan keeps it from the first use, as planning over all partitions takes 10 ms; others from
        the sixth.
        """
        if self.query.scope.narrowed:
            parameters = Parameters()
            scope = only_visible(scope_condition(self.query.scope, self.tenant.user_id, parameters), hidden=hidden)
            statement: sql.Composed | bytes = _scoped(name, self.table, self.shape, after, order, scope)
            values.update(parameters.values)
        else:
            statement = _unscoped(name, self.table, self.shape, after, order, hidden=hidden)
        return await self.connection.execute(
            statement, {"org_id": self.tenant.org_id, **values}, prepare=True if once else None
        )


async def scope_size(connection: Connection, tenant: Tenant, scope: Scope) -> tuple[int, int]:
    """Documents and chunks of a narrowed scope, counted up to a limit."""
    parameters = Parameters()
    statement = sql.SQL(_SQL["scope_size"]).format(scope=scope_condition(scope, tenant.user_id, parameters))
    values = {"org_id": tenant.org_id, "limit": _COUNT_LIMIT, **parameters.values}
    row = (await fetch(connection, statement, values))[0]
    return row[0], int(row[1])


def gave_up(way: IndexSearch, found_again: float | None, *, top_k: int, by_document: bool) -> bool:
    """Whether the second walk, if any, ended before finding enough to be trusted."""
    if found_again is None or way.scans:
        return False
    return found_again < walk_sizes(top_k=top_k, by_document=by_document).again


def walk_values(way: IndexSearch, *, top_k: int, by_document: bool) -> dict[str, object]:
    """Returns the values of the query `walk`, except the scope's, the organisation and the vector."""
    given = walk_sizes(top_k=top_k, by_document=by_document)
    return {
        "first": given.first,
        "again": None if way.scans and by_document else top_k if way.scans else given.again,
        "margin": MARGIN,
        "watched": WATCHED,
        "ef_search": str(way.ef_search),
    }


def _scoped(name: str, table: str, shape: rows.Shape, after: str, order: str, scope: sql.Composable) -> sql.Composed:
    return sql.SQL("\n".join(_SQL[part] for part in (after, name) if part)).format(
        vectors=sql.Identifier("corpus", table),
        chunk_columns=_CHUNK_COLUMNS,
        columns=sql.SQL(shape.columns),
        sources=sql.SQL(shape.sources),
        scope=scope,
        order=sql.SQL(_SQL[order]) if order else sql.SQL(""),
    )


@lru_cache(maxsize=256)
def _unscoped(
    name: str, table: str, shape: rows.Shape, after: str = "", order: str = "", *, hidden: bool = False
) -> bytes:
    """A statement over a whole organisation, cached, as there are only a few and composing them takes time."""
    return _scoped(name, table, shape, after, order, only_visible(WHOLE, hidden=hidden)).as_bytes()


async def ask_unknown(connection: Connection, tenant: Tenant, scope: Scope) -> _Cursor | None:
    """Queries which names in the scope the caller doesn't have, if there are any."""
    if not scope.document_ids and not scope.collection:
        return None
    return await connection.execute(
        _SQL["unknown_in_scope"],
        {
            "org_id": tenant.org_id,
            "user_id": tenant.user_id,
            "own": scope.own,
            "document_ids": list(scope.document_ids or ()),
            "collection": scope.collection,
        },
    )


async def unknown_ids(connection: Connection, tenant: Tenant, scope: Scope) -> tuple[int, ...]:
    """Returns the selected documents that the caller doesn't have; 0 stands for the collection."""
    return await ids_of(await ask_unknown(connection, tenant, scope))


async def ids_of(cursor: _Cursor | None) -> tuple[int, ...]:
    """Returns the requested ids, if any."""
    return () if cursor is None else tuple(row[0] for row in await cursor.fetchall())


async def fetch(
    connection: Connection, statement: sql.Composed | LiteralString | bytes, values: dict[str, Any]
) -> list[tuple[Any, ...]]:
    """Sends a statement and waits for its rows."""
    return await (await connection.execute(statement, values)).fetchall()
