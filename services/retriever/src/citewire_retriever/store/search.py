"""Search in Postgres with pgvector: by vectors, by words, by both; what is compared comes in one round trip."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, Final, LiteralString, cast

import numpy as np
import psycopg
from numpy.typing import NDArray
from psycopg import sql

from citewire_kit.errors import Unavailable
from citewire_kit.postgres import Connection, Pool, plans, tenant_batch, tenant_transaction, transaction
from citewire_kit.telemetry import get_logger
from citewire_kit.tenant import Tenant
from citewire_retriever.metrics import count_search
from citewire_retriever.model import (
    Calibration,
    Chunk,
    ChunkKey,
    Hit,
    Item,
    Key_co,
    Scope,
    ScopeCounts,
    SearchQuery,
    Space,
)
from citewire_retriever.store import rows
from citewire_retriever.store.base import Choose, Counted, Found, SearchStore, nothing
from citewire_retriever.store.filter_sql import Parameters, scope_condition
from citewire_retriever.store.lexical import lexical_statement
from citewire_retriever.store.sampling import RecallSampler, Sample
from citewire_retriever.store.sizes import SizeCache
from citewire_retriever.store.vectors import HalfVector
from citewire_retriever.tuning import MARGIN, WATCHED, IndexSearch, SearchTuning, Sizes, choose, walks

log = get_logger(__name__)

_SQL: Final = rows.queries("search")
_CHUNK_COLUMNS: Final = sql.SQL(_SQL["chunk_columns"])
_GET_CHUNKS: Final = sql.SQL(_SQL["get_chunks"]).format(chunk_columns=_CHUNK_COLUMNS).as_bytes()
_COUNT_LIMIT: Final = 5000
"""Documents of a narrowed scope that are counted; more is many."""

_Cursor = psycopg.AsyncCursor[tuple[Any, ...]]


class PostgresSearch(SearchStore):
    """See `SearchStore`."""

    def __init__(
        self, pool: Pool, tuning: SearchTuning, sampler: RecallSampler | None = None, *, health: Pool | None = None
    ) -> None:
        """Takes the pool of the application's role.

        Args:
            pool: The pool.
            tuning: Which ways searches go.
            sampler: Measures the recall of a share of the searches.
            health: A pool for `ping` alone, so that many slow searches don't look like a database that is away.
        """
        self._pool = pool
        self._health = health or pool
        self._tuning = tuning
        self._sampler = sampler
        self._sizes = SizeCache(tuning.statistics_seconds)
        # A registered space's table never changes.
        self._tables: dict[Space, str] = {}

    async def search(  # noqa: D102 - see the base
        self, tenant: Tenant, query: SearchQuery, choose: Choose = nothing
    ) -> Found:
        if query.space is None:
            return await self._search_words(tenant, query, choose)
        found = await self._search(tenant, query, query.space, choose, by_scan=query.exact)
        # The graph gave up among rows that are out of scope, or there are no more: only a scan can tell. It is a search
        # of its own, so that all that it finds is of one snapshot.
        return found or cast("Found", await self._search(tenant, query, query.space, choose, by_scan=True))

    async def _search(
        self, tenant: Tenant, query: SearchQuery, space: Space, choose: Choose, *, by_scan: bool
    ) -> Found | None:
        """Searches in one round trip, but for sizes that aren't known, and for the chosen ones of a hybrid search.

        None if the graph gives too little.
        """
        async with tenant_batch(self._pool, tenant, plan_once=not query.scope.narrowed) as batch:
            if space not in self._tables:
                found = await _fetch(batch.connection, _SQL["served_spaces"], {"org_id": tenant.org_id})
                served = tuple(self._learn(found))
                if space not in served:
                    return Found(served, await _unknown(batch.connection, tenant, query.scope), (), (), exact=True)
            search = _Search(batch.connection, tenant, query, self._tables[space], self._tuning)
            way, by_terms = await self._choose(search, by_scan=by_scan)
            # What is found counts only if it turns out that the space is served. The words come before the settings,
            # which are made for the ranking alone.
            words = await search.ask_words(by_terms=by_terms)
            serving = await search.prepare(way)
            unknown = await _ask_unknown(batch.connection, tenant, query.scope)
            ranking = await search.rank(way)
            latest = await search.ask_recent()
            if search.shape is rows.WHOLE:
                await batch.finish()
            calibrations = self._learn(await serving.fetchall())
            ranked = await ranking.fetchall()
            exact = way is None
            if way is not None:
                if len(ranked) < query.top_k:
                    return None
                found_again: int | None = ranked[0][search.shape.count + 1]
                if gave_up(way, found_again, wanted=query.top_k, by_document=query.by_document):
                    return None
                exact = way.scans and found_again is not None
            fell_back = exact and not query.exact and (by_scan or way is not None)
            count_search("fallback" if fell_back else "scan" if exact else "graph")
            if way is not None and not exact and self._sampler is not None:
                self._sampler.offer(Sample(tenant, query, search.table, way))
            matching = [] if words is None else await words.fetchall()
            found = Found(
                served=tuple(calibrations),
                unknown_ids=await _ids(unknown),
                ranked=tuple(_hit(row, search.shape) for row in ranked) if space in calibrations else (),
                recent=()
                if latest is None
                else tuple(_hit(row, rows.WHOLE, recent=True) for row in await latest.fetchall()),
                exact=exact,
                by_words=tuple(_word_hit(row, search.shape) for row in matching),
                ideal=matching[0][search.shape.count + 2] or 0.0 if matching else 0.0,
                calibration=calibrations.get(space),
            )
            ids = choose(found)
            if search.shape is rows.WHOLE:
                return found
            chosen = await batch.connection.execute(_GET_CHUNKS, {"org_id": tenant.org_id, "chunk_ids": list(ids)})
            await batch.finish()
            return replace(found, chunks={row[0]: rows.chunk(row) for row in await chosen.fetchall()})

    async def count(  # noqa: D102 - see the base
        self, tenant: Tenant, scope: Scope, budget: int, *, list_items: bool = False
    ) -> Counted:
        parameters = Parameters()
        condition = scope_condition(scope, tenant.user_id, parameters)
        async with tenant_transaction(self._pool, tenant, snapshot=True) as connection:
            async with connection.pipeline():
                serving = await connection.execute(_SQL["served_spaces"], {"org_id": tenant.org_id})
                unknown = await _ask_unknown(connection, tenant, scope)
            calibrations = self._learn(await serving.fetchall())
            served = tuple(calibrations)
            lacks_vectors: sql.Composable = sql.SQL("true")
            if served:
                table = sql.Identifier("corpus", self._tables[served[0]])
                lacks_vectors = sql.SQL(_SQL["lacks_vectors"]).format(vectors=table)
            row = (
                await _fetch(
                    connection,
                    sql.SQL(_SQL["scope_counts"]).format(
                        scope=condition,
                        lacks_vectors=lacks_vectors,
                        kept_items=sql.SQL(_SQL["kept_items"] if list_items else ""),
                    ),
                    {"org_id": tenant.org_id, "budget": budget, **parameters.values},
                )
            )[0]
            cut: bool = row[5]
            return Counted(
                served=served,
                unknown_ids=await _ids(unknown),
                counts=ScopeCounts(
                    items=row[0],
                    kept=row[1] + cut,
                    without_embedding=row[2],
                    not_ready=row[3],
                    chunks=int(row[4]),
                    cut=cut,
                ),
                items=tuple(map(Item, row[6] or (), row[7] or ())) if list_items else (),
                calibration=calibrations[served[0]] if served else None,
            )

    async def read_items(  # noqa: D102 - see the base
        self, tenant: Tenant, items: Sequence[Item]
    ) -> dict[int, list[Chunk]]:
        statement = sql.SQL(_SQL["item_chunks"]).format(chunk_columns=_CHUNK_COLUMNS)
        values = {
            "org_id": tenant.org_id,
            "document_ids": [item.document_id for item in items],
            "versions": [item.version for item in items],
        }
        read: dict[int, list[Chunk]] = {}
        async with tenant_transaction(self._pool, tenant) as connection:
            for row in await _fetch(connection, statement, values):
                read.setdefault(row[1], []).append(rows.chunk(row))
        return read

    async def chunks(self, tenant: Tenant, chunk_ids: Sequence[int]) -> dict[int, Chunk]:  # noqa: D102 - see the base
        async with tenant_batch(self._pool, tenant, plan_once=True) as batch:
            found = await batch.connection.execute(_GET_CHUNKS, {"org_id": tenant.org_id, "chunk_ids": list(chunk_ids)})
            await batch.finish()
            return {row[0]: rows.chunk(row) for row in await found.fetchall()}

    async def vectors(  # noqa: D102 - see the base
        self, tenant: Tenant, space: Space, chunk_ids: Sequence[int]
    ) -> dict[int, NDArray[np.float32]]:
        statement = sql.SQL(_SQL["get_vectors"]).format(vectors=sql.Identifier("corpus", self._tables[space]))
        values = {"org_id": tenant.org_id, "chunk_ids": list(chunk_ids)}
        async with tenant_transaction(self._pool, tenant) as connection:
            read = await (await connection.execute(statement, values, binary=True)).fetchall()
        return {chunk_id: np.asarray(vector, np.float32) for chunk_id, vector in read}

    async def ping(self) -> None:  # noqa: D102 - see the base
        async with transaction(self._health, statement_seconds=2.0) as connection:
            try:
                await connection.execute(_SQL["ping"])
            except (psycopg.errors.UndefinedTable, psycopg.errors.InsufficientPrivilege) as exc:
                raise Unavailable(
                    "the database's schema is missing: run the retriever's migrations",
                    reason="DATABASE_UNAVAILABLE",
                    retry_after=1,
                ) from exc

    async def _choose(self, search: "_Search", *, by_scan: bool) -> tuple[IndexSearch | None, bool]:
        """Chooses between graph and scan, and whether words are found by their terms.

        Both go by counts that may be a little old: results don't depend on them.
        """
        query = search.query
        if by_scan and (query.exact or query.mode == "dense"):
            return None, False
        sizes = self._sizes.get(search.tenant.org_id, search.table)
        if sizes is None:
            sizes = await search.organisation_size()
            self._sizes.put(search.tenant.org_id, search.table, sizes)
        if query.scope.narrowed:
            documents, chunks = await _scope_size(search.connection, search.tenant, query.scope)
            sizes = Sizes(documents, chunks, sizes.partition_rows, narrowed=True)
        way = choose(sizes, wanted=query.top_k, by_document=query.by_document, tuning=self._tuning)
        return None if by_scan else way, sizes.chunks > self._tuning.lexical_scan_chunks

    async def _search_words(self, tenant: Tenant, query: SearchQuery, choose: Choose) -> Found:
        async with tenant_batch(self._pool, tenant, plan_once=not query.scope.narrowed) as batch:
            by_terms = not query.exact and await self._many_words(batch.connection, tenant, query.scope)
            statement, values = lexical_statement(
                tenant, query, table=None, vector=None, depth=query.top_k, shape=rows.WHOLE, by_terms=by_terms
            )
            unknown = await _ask_unknown(batch.connection, tenant, query.scope)
            found = await batch.connection.execute(statement, values)
            await batch.finish()
            hits = tuple(_word_hit(row, rows.WHOLE) for row in await found.fetchall())
            count_search("words")
            words = Found(served=(), unknown_ids=await _ids(unknown), ranked=(), recent=(), exact=True, by_words=hits)
            choose(words)
            return words

    async def _many_words(self, connection: Connection, tenant: Tenant, scope: Scope) -> bool:
        """Whether a scope holds more chunks than are scanned for words."""
        sizes = self._sizes.get(tenant.org_id, "")
        if sizes is None:
            row = (await _fetch(connection, rows.queries("lexical")["chunks_counted"], {"org_id": tenant.org_id}))[0]
            sizes = Sizes(documents=0, chunks=row[0], partition_rows=0)
            self._sizes.put(tenant.org_id, "", sizes)
        most = self._tuning.lexical_scan_chunks
        if sizes.chunks <= most or not scope.narrowed:
            return sizes.chunks > most
        return (await _scope_size(connection, tenant, scope))[1] > most

    def _learn(self, served: list[tuple[Any, ...]]) -> dict[Space, Calibration | None]:
        """Returns what is stored about the scores of each space that serves, the live one first."""
        spaces: dict[Space, Calibration | None] = {}
        for space_id, model, revision, dimensions, *calibration in served:
            space = Space(model, revision, dimensions)
            self._tables[space] = f"vectors_{space_id}"
            spaces[space] = rows.calibration(calibration)
        return spaces


@dataclass(frozen=True, slots=True)
class _Search:
    """One search inside its transaction."""

    connection: Connection
    tenant: Tenant
    query: SearchQuery
    table: str
    tuning: SearchTuning

    @property
    def shape(self) -> rows.Shape[ChunkKey]:
        """What is read of each chunk: of a hybrid search's many, few become results."""
        return rows.KEYS if self.query.mode == "hybrid" else rows.WHOLE

    async def organisation_size(self) -> Sizes:
        statement = _unscoped("organisation_size", self.table, self.shape)
        row = (await _fetch(self.connection, statement, {"org_id": self.tenant.org_id}))[0]
        return Sizes(documents=row[0], chunks=int(row[1]), partition_rows=max(int(row[2]), int(row[1])))

    async def prepare(self, way: IndexSearch | None) -> _Cursor:
        """Asks for the spaces that serve, and makes the transaction's settings for the ranking."""
        return await self.connection.execute(
            _SQL["prepare_search"],
            {
                "org_id": self.tenant.org_id,
                "ef_search": str(self.tuning.ef_search_first),
                "max_scan_tuples": str(self.tuning.max_scan_tuples),
                "enable_sort": "off" if way else "on",
                "plans": plans(once=way is not None and not self.query.scope.narrowed),
            },
        )

    async def rank(self, way: IndexSearch | None) -> _Cursor:
        """Asks for the nearest; by the graph, the last column is `found_again`."""
        query = self.query
        if way is None:
            name = "nearest_documents" if query.by_document else "nearest_chunks"
            return await self._execute(name, order="by_scan", top_k=query.top_k, vector=self._vector())
        return await self._execute(
            "walked_documents" if query.by_document else "walked_chunks",
            after="walk",
            order="by_scan" if way.scans else "by_index",
            **walk_values(way, wanted=query.top_k, by_document=query.by_document),
            vector=self._vector(),
            top_k=query.top_k,
        )

    async def ask_recent(self) -> _Cursor | None:
        """Asks for the most recent documents, if they are wanted."""
        if not self.query.recent:
            return None
        return await self._execute("recent_documents", recent=self.query.recent, vector=self._vector())

    async def ask_words(self, *, by_terms: bool) -> _Cursor | None:
        """Asks for the best by words, if the search is hybrid."""
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
        )
        return await self.connection.execute(statement, values)

    def _vector(self) -> HalfVector:
        return HalfVector(np.frombuffer(self.query.vector, dtype="<f4"))

    async def _execute(self, name: str, *, after: str = "", order: str = "", **values: object) -> _Cursor:
        """Sends a query of `search.sql` with its blanks filled, after another one that it continues."""
        if self.query.scope.narrowed:
            parameters = Parameters()
            scope = scope_condition(self.query.scope, self.tenant.user_id, parameters)
            statement: sql.Composed | bytes = _scoped(name, self.table, self.shape, after, order, scope)
            values.update(parameters.values)
        else:
            statement = _unscoped(name, self.table, self.shape, after, order)
        return await self.connection.execute(statement, {"org_id": self.tenant.org_id, **values})


async def _scope_size(connection: Connection, tenant: Tenant, scope: Scope) -> tuple[int, int]:
    """Documents and chunks of a narrowed scope, counted to a limit."""
    parameters = Parameters()
    statement = sql.SQL(_SQL["scope_size"]).format(scope=scope_condition(scope, tenant.user_id, parameters))
    values = {"org_id": tenant.org_id, "limit": _COUNT_LIMIT, **parameters.values}
    row = (await _fetch(connection, statement, values))[0]
    return row[0], int(row[1])


def gave_up(way: IndexSearch, found_again: float | None, *, wanted: int, by_document: bool) -> bool:
    """Whether the second walk, if there was one, came to its end before it had found enough to be believed."""
    if found_again is None or way.scans:
        return False
    return found_again < walks(wanted=wanted, by_document=by_document).again


def walk_values(way: IndexSearch, *, wanted: int, by_document: bool) -> dict[str, object]:
    """Returns the values of the query `walk`, but for the scope's, the organisation and the vector."""
    given = walks(wanted=wanted, by_document=by_document)
    return {
        "first": given.first,
        "again": None if way.scans and by_document else wanted if way.scans else given.again,
        "margin": MARGIN,
        "watched": WATCHED,
        "ef_search": str(way.ef_search),
    }


def _scoped(
    name: str, table: str, shape: rows.Shape[ChunkKey], after: str, order: str, scope: sql.Composable
) -> sql.Composed:
    return sql.SQL("\n".join(_SQL[part] for part in (after, name) if part)).format(
        vectors=sql.Identifier("corpus", table),
        chunk_columns=_CHUNK_COLUMNS,
        columns=sql.SQL(shape.columns),
        sources=sql.SQL(shape.sources),
        scope=scope,
        order=sql.SQL(_SQL[order]) if order else sql.SQL(""),
    )


@lru_cache(maxsize=256)
def _unscoped(name: str, table: str, shape: rows.Shape[ChunkKey], after: str = "", order: str = "") -> bytes:
    """A statement over a whole organisation: there are only a few, and putting them together takes time."""
    return _scoped(name, table, shape, after, order, sql.SQL("true")).as_bytes()


async def _ask_unknown(connection: Connection, tenant: Tenant, scope: Scope) -> _Cursor | None:
    """Sends the query for selected documents that the caller doesn't have, if there is a selection."""
    if not scope.document_ids:
        return None
    return await connection.execute(
        _SQL["unknown_documents"],
        {
            "org_id": tenant.org_id,
            "user_id": tenant.user_id,
            "own": scope.own,
            "document_ids": list(scope.document_ids),
        },
    )


async def _unknown(connection: Connection, tenant: Tenant, scope: Scope) -> tuple[int, ...]:
    return await _ids(await _ask_unknown(connection, tenant, scope))


async def _ids(cursor: _Cursor | None) -> tuple[int, ...]:
    return () if cursor is None else tuple(row[0] for row in await cursor.fetchall())


async def _fetch(
    connection: Connection, statement: sql.Composed | LiteralString | bytes, values: dict[str, Any]
) -> list[tuple[Any, ...]]:
    return await (await connection.execute(statement, values)).fetchall()


def _word_hit(row: Sequence[Any], shape: rows.Shape[Key_co]) -> Hit[Key_co]:
    score, distance = row[shape.count : shape.count + 2]
    return Hit(shape.read(row), rows.similarity(distance), lexical_score=score)


def _hit(row: Sequence[Any], shape: rows.Shape[Key_co], *, recent: bool = False) -> Hit[Key_co]:
    return Hit(shape.read(row), rows.similarity(row[shape.count]), recent=recent)
