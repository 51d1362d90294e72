"""Search in Postgres with pgvector: by vectors, by words, or by both, in one round trip."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final, TypeAlias, cast

import numpy as np
import psycopg
from cachetools import TTLCache
from citewire.retriever.v1.calibration_pb2 import Calibration
from citewire.retriever.v1.retriever_pb2 import Chunk, ScopeCounts
from numpy.typing import NDArray
from psycopg import sql

from citewire_kit.errors import Unavailable
from citewire_kit.nodes import repeated
from citewire_kit.postgres import Batch, Connection, Pool, tenant_batch, tenant_transaction, transaction
from citewire_kit.telemetry import get_logger
from citewire_kit.tenant import Tenant
from citewire_retriever.metrics import count_search
from citewire_retriever.model import Candidate, ItemVersion, Scope, SearchQuery, Space
from citewire_retriever.store import rows
from citewire_retriever.store.filter_sql import Parameters, scope_condition
from citewire_retriever.store.lexical import lexical_statement
from citewire_retriever.store.sampling import RecallSampler, Sample
from citewire_retriever.store.snapshots import ScopeSnapshot, SearchSnapshot, SelectChunks, select_nothing
from citewire_retriever.store.statements import (
    GET_CHUNKS,
    SearchStatements,
    ask_unknown,
    fetch,
    gave_up,
    ids_of,
    scope_size,
    unknown_ids,
)
from citewire_retriever.store.topics import PostgresTopics
from citewire_retriever.store.vectors import half_vector
from citewire_retriever.tuning import IndexSearch, SearchTuning, Sizes
from citewire_retriever.tuning import choose as choose_way

log = get_logger(__name__)

_SQL: Final = rows.queries("search")
_CHUNK_COLUMNS: Final = sql.SQL(_SQL["chunk_columns"])
_MAX_ENTRIES: Final = 10_000
_MOST_VALUES: Final = 1000
"""Most labels, and as many collections, that a question is compared with."""


class PostgresSearch:
    """Search over published chunks."""

    def __init__(
        self, pool: Pool, tuning: SearchTuning, sampler: RecallSampler | None = None, *, health: Pool | None = None
    ) -> None:
        """Takes the pool of the application's role.

        Args:
            pool: The pool.
            tuning: Settings for choosing between graph and scan.
            sampler: Measures the recall of a share of the searches.
            health: A pool only for `ping`, so that many slow searches don't look like an unreachable database.
        """
        self._pool = pool
        self._health = health or pool
        self._tuning = tuning
        self._sampler = sampler
        self._sizes = TTLCache[tuple[_Caller, str], Sizes](_MAX_ENTRIES, tuning.statistics_seconds)
        """Counts by caller and table, so that searches needn't count first."""
        self.topics = PostgresTopics(pool, tuning)
        """The data for judging searches."""
        # A registered space's table never changes.
        self._tables: dict[Space, str] = {}

    @repeated
    async def search(self, tenant: Tenant, query: SearchQuery, select: SelectChunks = select_nothing) -> SearchSnapshot:
        """Searches by vector, words or both, `top_k` each; the query's vector must be valid.

        Args:
            tenant: Who searches.
            query: The search.
            select: Which chunks are read whole, from the same snapshot.
        """
        if query.space is None or query.mode == "lexical":
            return await self._search_words(tenant, query, select)
        snapshot = await self._search(tenant, query, query.space, select, by_scan=query.exact)
        # Either the graph gave up among rows out of scope, or there are no more: only a scan can tell. It is a separate
        # search, so that all results come from one snapshot.
        return snapshot or cast("SearchSnapshot", await self._search(tenant, query, query.space, select, by_scan=True))

    async def _search(
        self, tenant: Tenant, query: SearchQuery, space: Space, select: SelectChunks, *, by_scan: bool
    ) -> SearchSnapshot | None:
        """Searches in one round trip, except for unknown sizes and for reading a hybrid search's selection.

        None if the graph finds too little.
        """
        async with tenant_batch(self._pool, tenant, plan_once=not query.scope.narrowed) as batch:
            if space not in self._tables:
                result = await fetch(batch.connection, _SQL["served_spaces"], {"org_id": tenant.org_id})
                served = tuple(self._learn(result))
                if space not in served:
                    return SearchSnapshot(
                        served, await unknown_ids(batch.connection, tenant, query.scope), (), (), exact=True
                    )
            search = SearchStatements(batch.connection, tenant, query, self._tables[space], self._tuning)
            shape = search.shape
            way, sizes = await self._choose(search, by_scan=by_scan)
            # Results count only if the space turns out to be served. The lexical leg precedes the settings, which are
            # only meant for the ranking.
            by_terms = not query.exact and sizes.chunks > self._tuning.lexical_scan_chunks
            words = await search.ask_words(by_terms=by_terms, hidden=sizes.hidden)
            # One plan fits all walks, and all small scans, of a small organisation or of a caller's visible part.
            once = not query.scope.narrowed and (way is not None or not by_scan)
            serving = await search.prepare(way, once=once)
            unknown = await ask_unknown(batch.connection, tenant, query.scope)
            ranking = await search.rank(way, hidden=sizes.hidden, once=once)
            latest = await search.ask_recent()
            if shape is rows.WHOLE:
                await batch.finish()
            spaces = await serving.fetchall()
            calibrations = self._learn(spaces)
            ranked = await ranking.fetchall()
            exact = way is None
            if way is not None:
                if len(ranked) < query.top_k:
                    return None
                found_again: int | None = ranked[0][shape.count + 1]
                if gave_up(way, found_again, top_k=query.top_k, by_document=query.by_document):
                    return None
                exact = way.scans and found_again is not None
            fell_back = exact and not query.exact and (by_scan or way is not None)
            count_search("fallback" if fell_back else "scan" if exact else "graph")
            if way is not None and not exact and self._sampler is not None:
                self._sampler.offer(Sample(tenant, query, search.table, way))
            matching = [] if words is None else await words.fetchall()
            snapshot = SearchSnapshot(
                served=tuple(calibrations),
                unknown_ids=await ids_of(unknown),
                ranked=tuple(shape.read(row, row[shape.count]) for row in ranked) if space in calibrations else (),
                recent=()
                if latest is None
                else tuple(rows.WHOLE.read(row, row[rows.WHOLE.count], recent=True) for row in await latest.fetchall()),
                exact=exact,
                lexical=tuple(_lexical(row, shape) for row in matching),
                scope_chunks=sizes.chunks if sizes.narrowed else None,
                hidden=_hides(spaces),
                ideal=matching[0][shape.count + 2] or 0.0 if matching else 0.0,
                calibration=calibrations.get(space),
            )
            ids = select(snapshot)
            if shape is rows.WHOLE:
                return snapshot
            return replace(snapshot, chunks=await _read_last(batch, tenant, ids))

    @repeated
    async def count(self, tenant: Tenant, scope: Scope, budget: int, *, list_items: bool = False) -> ScopeSnapshot:
        """Counts the scope's content, and how many of its most recent items fit a token budget."""
        parameters = Parameters()
        condition = scope_condition(scope, tenant.user_id, parameters)
        async with tenant_transaction(self._pool, tenant, snapshot=True) as connection:
            async with connection.pipeline():
                serving = await connection.execute(_SQL["served_spaces"], {"org_id": tenant.org_id})
                unknown = await ask_unknown(connection, tenant, scope)
            calibrations = self._learn(await serving.fetchall())
            served = tuple(calibrations)
            lacks_vectors: sql.Composable = sql.SQL("true")
            if served:
                table = sql.Identifier("corpus", self._tables[served[0]])
                lacks_vectors = sql.SQL(_SQL["lacks_vectors"]).format(vectors=table)
            row = (
                await fetch(
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
            fitting = row[1] + cut
            return ScopeSnapshot(
                served=served,
                unknown_ids=await ids_of(unknown),
                counts=ScopeCounts(
                    items=row[0],
                    kept=fitting,
                    trimmed=row[0] - fitting,
                    without_embedding=row[2],
                    not_ready=row[3],
                    chunks=int(row[4]),
                ),
                cut=cut,
                items=tuple(map(ItemVersion, row[6] or (), row[7] or ())) if list_items else (),
                calibration=calibrations[served[0]] if served else None,
            )

    @repeated
    async def read_items(self, tenant: Tenant, items: Sequence[ItemVersion]) -> dict[int, list[Chunk]]:
        """Returns the items' chunks in order, by document; a document deleted meanwhile has none."""
        statement = sql.SQL(_SQL["item_chunks"]).format(chunk_columns=_CHUNK_COLUMNS)
        values = {
            "org_id": tenant.org_id,
            "document_ids": [item.document_id for item in items],
            "versions": [item.version for item in items],
        }
        read: dict[int, list[Chunk]] = {}
        async with tenant_transaction(self._pool, tenant) as connection:
            for row in await fetch(connection, statement, values):
                read.setdefault(row[1], []).append(rows.chunk(row))
        return read

    @repeated
    async def chunks(self, tenant: Tenant, chunk_ids: Sequence[int]) -> dict[int, Chunk]:
        """Returns the existing chunks by id, including those of superseded versions while they are kept."""
        async with tenant_batch(self._pool, tenant, plan_once=True) as batch:
            return await _read_last(batch, tenant, chunk_ids)

    @repeated
    async def existing_documents(self, tenant: Tenant, document_ids: Sequence[int]) -> set[int]:
        """Returns the documents that exist and are visible to the tenant."""
        values = {"org_id": tenant.org_id, "document_ids": list(document_ids)}
        async with tenant_transaction(self._pool, tenant) as connection:
            read = await (await connection.execute(_SQL["existing_documents"], values)).fetchall()
        return {document_id for (document_id,) in read}

    @repeated
    async def vectors(self, tenant: Tenant, space: Space, chunk_ids: Sequence[int]) -> dict[int, NDArray[np.float32]]:
        """Returns the chunks' vectors by id, where they have one; the space has been searched before."""
        statement = sql.SQL(_SQL["get_vectors"]).format(vectors=sql.Identifier("corpus", self._tables[space]))
        values = {"org_id": tenant.org_id, "chunk_ids": list(chunk_ids)}
        async with tenant_transaction(self._pool, tenant) as connection:
            read = await (await connection.execute(statement, values, binary=True)).fetchall()
        return {chunk_id: np.asarray(vector, np.float32) for chunk_id, vector in read}

    @repeated
    async def values(self, tenant: Tenant, scope: Scope, initials: Sequence[str]) -> list[tuple[str, str]]:
        """Returns the library's labels with these initials; only the commonest of very many.

        A label is a field (`type`, `entity_type`, `category`, `tags`, `collection`) and its value.

        Args:
            tenant: Whose library.
            scope: Whether only the user's own documents count; other conditions are ignored.
            initials: Initials as returned by `corpus.initials`.
        """
        values = {
            "org_id": tenant.org_id,
            "user_id": tenant.user_id,
            "own": scope.own,
            "initials": list(initials),
            "limit": _MOST_VALUES,
        }
        async with tenant_transaction(self._pool, tenant) as connection:
            return [(field, value) for field, value in await fetch(connection, _SQL["matching_values"], values)]

    async def ping(self) -> None:
        """Raises a `CitewireError` if the database is unreachable or its schema is missing."""
        async with transaction(self._health, statement_seconds=2.0) as connection:
            try:
                await connection.execute(_SQL["ping"])
            except (psycopg.errors.UndefinedTable, psycopg.errors.InsufficientPrivilege) as exc:
                raise Unavailable(
                    "the database's schema is missing: run the retriever's migrations",
                    reason="DATABASE_UNAVAILABLE",
                    retry_after=1,
                ) from exc

    async def _choose(self, search: SearchStatements, *, by_scan: bool) -> tuple[IndexSearch | None, Sizes]:
        """Chooses between graph and scan by counts that may be slightly old, as results don't depend on them."""
        query = search.query
        key = (_caller(search.tenant), search.table)
        sizes = self._sizes.get(key)
        if sizes is None:
            sizes = await search.visible_size()
            self._sizes[key] = sizes
        # A search that scans anyway only needs counts for its words.
        if query.scope.narrowed and not (by_scan and (query.exact or query.mode == "dense")):
            documents, chunks = await scope_size(search.connection, search.tenant, query.scope)
            sizes = replace(sizes, documents=documents, chunks=chunks, narrowed=True)
        way = choose_way(sizes, top_k=query.top_k, by_document=query.by_document, tuning=self._tuning)
        return None if by_scan else way, sizes

    async def _search_words(self, tenant: Tenant, query: SearchQuery, select: SelectChunks) -> SearchSnapshot:
        """Searches by words; with a vector, results are compared with it."""
        async with tenant_batch(self._pool, tenant, plan_once=not query.scope.narrowed) as batch:
            served: dict[Space, Calibration | None] = {}
            if query.space is not None:
                served = self._learn(await fetch(batch.connection, _SQL["served_spaces"], {"org_id": tenant.org_id}))
            compared = query.space if query.space in served else None
            sizes = await self._words_sizes(batch.connection, tenant, query.scope)
            by_terms = not query.exact and sizes.chunks > self._tuning.lexical_scan_chunks
            statement, values = lexical_statement(
                tenant,
                query,
                table=None if compared is None else self._tables[compared],
                vector=None if compared is None else half_vector(np.frombuffer(query.vector, dtype="<f4")),
                depth=query.top_k,
                shape=rows.WHOLE,
                by_terms=by_terms,
                hidden=sizes.hidden,
            )
            unknown = await ask_unknown(batch.connection, tenant, query.scope)
            result = await batch.connection.execute(statement, values)
            await batch.finish()
            matching = (_lexical(row, rows.WHOLE) for row in await result.fetchall())
            candidates = tuple(candidate._replace(fused_score=candidate.lexical_score) for candidate in matching)
            count_search("words")
            snapshot = SearchSnapshot(
                served=tuple(served),
                unknown_ids=await ids_of(unknown),
                ranked=(),
                recent=(),
                exact=True,
                lexical=candidates,
                calibration=None if compared is None else served[compared],
            )
            select(snapshot)
            return snapshot

    async def _words_sizes(self, connection: Connection, tenant: Tenant, scope: Scope) -> Sizes:
        """Returns about how many chunks are searched for words."""
        key = (_caller(tenant), "")
        sizes = self._sizes.get(key)
        if sizes is None:
            row = (await fetch(connection, rows.queries("lexical")["chunks_counted"], {"org_id": tenant.org_id}))[0]
            sizes = Sizes(documents=0, chunks=row[0], partition_rows=0, hidden=row[1])
            self._sizes[key] = sizes
        if sizes.chunks <= self._tuning.lexical_scan_chunks or not scope.narrowed:
            return sizes
        return replace(sizes, chunks=(await scope_size(connection, tenant, scope))[1])

    def _learn(self, served: list[tuple[Any, ...]]) -> dict[Space, Calibration | None]:
        """Returns the stored calibration of each serving space, the live one first."""
        spaces: dict[Space, Calibration | None] = {}
        for space_id, model, revision, dimensions, _, *calibration in served:
            space = Space(model, revision, dimensions)
            self._tables[space] = f"vectors_{space_id}"
            spaces[space] = rows.calibration(calibration)
        return spaces


_Caller: TypeAlias = tuple[str, str, str, tuple[str, ...]]


def _caller(tenant: Tenant) -> _Caller:
    """The key for what a tenant's user may see."""
    return tenant.org_id, tenant.user_id, tenant.role, tenant.groups


def _hides(served: Sequence[tuple[Any, ...]]) -> bool:
    """Whether part of the library is hidden from the caller; nothing is served of one without spaces."""
    return any(not sees_all for _, _, _, _, sees_all, *_ in served)


async def _read_last(batch: Batch, tenant: Tenant, chunk_ids: Sequence[int]) -> dict[int, Chunk]:
    """Reads whole chunks by id, which ends the transaction."""
    result = await batch.connection.execute(GET_CHUNKS, {"org_id": tenant.org_id, "chunk_ids": list(chunk_ids)})
    await batch.finish()
    return {row[0]: rows.chunk(row) for row in await result.fetchall()}


def _lexical(row: Sequence[Any], shape: rows.Shape) -> Candidate:
    """Reads a row of the lexical leg."""
    score, distance = row[shape.count : shape.count + 2]
    return shape.read(row, distance, score)
