"""The reading side: plans, searches, long context, chunks by id."""

from collections.abc import AsyncGenerator, Mapping, Sequence
from dataclasses import replace
from itertools import accumulate
from typing import Final

from citewire_kit.telemetry import get_logger
from citewire_kit.tenant import Tenant
from citewire_retriever.calibrations import effective
from citewire_retriever.errors import chunks_not_found, documents_not_found, space_mismatch
from citewire_retriever.model import (
    Candidate,
    Chunk,
    Hit,
    Plan,
    Scope,
    ScopeCounts,
    SearchOutcome,
    SearchQuery,
    Strategy,
)
from citewire_retriever.service.diversity import diversify
from citewire_retriever.service.planning import context_budget, decide
from citewire_retriever.service.ranking import DEEPEST, Order, choose, first_depth, has_more, to_read, wanted
from citewire_retriever.store.base import SearchStore

log = get_logger(__name__)

_ITEMS_AT_ONCE: Final = 100
"""Items of long context that one transaction reads."""


class RetrievalService:
    """See the module."""

    def __init__(self, store: SearchStore) -> None:
        """Takes the store that it searches."""
        self._store = store

    async def plan(self, tenant: Tenant, scope: Scope, strategy: Strategy, max_tokens: int | None) -> Plan:
        """Decides which context path a question over the scope takes.

        Raises:
            NotFound: The scope selects documents that the caller doesn't have (reason `DOCUMENT_NOT_FOUND`).
        """
        counted = await self._store.count(tenant, scope, context_budget(tenant.plan, max_tokens))
        if counted.unknown_ids:
            raise documents_not_found(counted.unknown_ids)
        path, reason = decide(strategy, tenant.plan, attached=bool(scope.document_ids), counts=counted.counts)
        if path == "long_context_fallback":
            log.warning("plan_fell_back", org_id=tenant.org_id, reason=reason)
        counts = counted.counts
        if path == "semantic":
            counts = counts.untrimmed()
        if not counted.served:
            return Plan(path, reason, counts, None)
        space = counted.served[0]
        return Plan(path, reason, counts, space, effective(space, counted.calibration))

    async def context(
        self, tenant: Tenant, scope: Scope, max_tokens: int
    ) -> AsyncGenerator[list[Chunk] | ScopeCounts, None]:
        """Yields the scope's items, each as its chunks in order, most recent first, and last what was kept.

        As many items as fit are taken whole; the first that would pass the budget ends the taking. If it is the very
        first, its first chunks are taken, as many as fit. No connection is held while the caller is busy.

        Args:
            tenant: Who asks.
            scope: What is read.
            max_tokens: Tokens of all chunks together, as the embedding model counts.

        Raises:
            NotFound: The scope selects documents that the caller doesn't have (reason `DOCUMENT_NOT_FOUND`).
        """
        counted = await self._store.count(tenant, scope, max_tokens, list_items=True)
        if counted.unknown_ids:
            raise documents_not_found(counted.unknown_ids)
        counts = counted.counts
        items = counted.items[: counts.kept]
        for start in range(0, len(items), _ITEMS_AT_ONCE):
            part = items[start : start + _ITEMS_AT_ONCE]
            read = await self._store.read_items(tenant, part)
            for item in part:
                chunks = read.get(item.document_id)
                if chunks is None:  # deleted since the counting
                    counts = replace(counts, items=counts.items - 1, kept=counts.kept - 1)
                    continue
                yield _beginning(chunks, max_tokens) if counts.cut else chunks
        yield counts

    async def search(self, tenant: Tenant, query: SearchQuery) -> SearchOutcome:
        """Searches. An organisation for which nothing was ingested yet gets nothing, whatever the space.

        Raises:
            NotFound: The scope selects documents that the caller doesn't have (reason `DOCUMENT_NOT_FOUND`).
            FailedPrecondition: The vector's space isn't served (reason `SPACE_MISMATCH`).
        """
        depth = first_depth(query)
        while True:
            order = Order(query, depth)
            found = await self._store.search(tenant, replace(query, top_k=depth), order)
            if found.unknown_ids:
                raise documents_not_found(found.unknown_ids)
            if query.mode != "lexical" and found.served and query.space not in found.served:
                raise space_mismatch(found.served[0])
            hits = await self._choose(tenant, query, order.candidates, found.chunks)
            if depth >= DEEPEST or not has_more(found, len(order.candidates), len(hits), query, depth):
                break
            depth = min(depth * 4, DEEPEST)
        if query.diversity and query.space is not None and hits:
            vectors = await self._store.vectors(tenant, query.space, [hit.chunk.chunk_id for hit in hits])
            hits = diversify(hits, [hit.score for hit in hits], vectors, query.diversity, query.top_k)
        known = {hit.chunk.document_id for hit in hits}
        recent = [hit for hit in found.recent if hit.chunk.document_id not in known]
        calibration = None if query.space is None else effective(query.space, found.calibration)
        return SearchOutcome(hits=(*hits, *recent), exact=found.exact, space=query.space, calibration=calibration)

    async def chunks(self, tenant: Tenant, chunk_ids: Sequence[int]) -> list[Chunk]:
        """Returns chunks in the order asked, those of superseded versions too.

        Raises:
            NotFound: Some don't exist in the caller's organisation (reason `CHUNK_NOT_FOUND`).
        """
        found = await self._store.chunks(tenant, chunk_ids)
        missing = [chunk_id for chunk_id in chunk_ids if chunk_id not in found]
        if missing:
            raise chunks_not_found(missing)
        return [found[chunk_id] for chunk_id in chunk_ids]

    async def _choose(
        self, tenant: Tenant, query: SearchQuery, candidates: Sequence[Candidate], chunks: Mapping[int, Chunk]
    ) -> list[Hit[Chunk]]:
        """Chooses the results; where near-duplicates took the place of some, more are read.

        What is deleted before that is none any more.
        """
        read: list[Hit[Chunk]] = []
        rest = candidates
        take = to_read(wanted(query))
        while True:
            part, rest = rest[:take], rest[take:]
            keys = [hit.chunk.chunk_id for hit in part if not isinstance(hit.chunk, Chunk)]
            if any(key not in chunks for key in keys):
                chunks = await self._store.chunks(tenant, keys)
            for hit in part:
                chunk = hit.chunk if isinstance(hit.chunk, Chunk) else chunks.get(hit.chunk.chunk_id)
                if chunk is not None:
                    read.append(hit.of(chunk))
            hits = choose(read, rest, query)
            lacking = wanted(query) - len(hits)
            if lacking <= 0 or not rest:
                return hits
            take = to_read(lacking)

    async def ping(self) -> None:
        """Raises a `CitewireError` if nothing can be served."""
        await self._store.ping()


def _beginning(chunks: Sequence[Chunk], max_tokens: int) -> list[Chunk]:
    """Returns the first chunks, as many as fit."""
    total = list(accumulate(chunk.token_count for chunk in chunks))
    return [chunk for chunk, running in zip(chunks, total, strict=True) if running <= max_tokens]
