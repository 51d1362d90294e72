"""The reading side: plans, searches, long context, chunks by id."""

from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, tzinfo
from itertools import accumulate
from typing import Final

from citewire.retriever.v1 import retriever_pb2 as pb

from citewire_kit.enums import enum_number
from citewire_kit.telemetry import get_logger
from citewire_kit.tenant import Tenant
from citewire_kit.turns import in_turn
from citewire_retriever.calibrations import effective
from citewire_retriever.errors import chunks_not_found, scope_not_found, space_mismatch
from citewire_retriever.filters import filter_from_proto
from citewire_retriever.model import Candidate, Scope, SearchQuery, Strategy, space_to_proto
from citewire_retriever.service.diversity import diversify
from citewire_retriever.service.planning import context_budget, decide
from citewire_retriever.service.query_filters import derive, read_question
from citewire_retriever.service.ranking import DEEPEST, Order, choose, first_depth, has_more, result_limit, to_read
from citewire_retriever.service.topics import TopicJudge, Verdict
from citewire_retriever.store.search import PostgresSearch
from citewire_retriever.store.snapshots import SearchSnapshot

log = get_logger(__name__)

_LEXICAL_SCALE: Final = 0.25
"""The best score of a lexical search on the scale of a hybrid one: the best text usually has about half of the
question's words, which have half the weight there."""
_ITEMS_AT_ONCE: Final = 100
"""Items of long context read in one transaction."""


def utc_now() -> datetime:
    """Returns the time."""
    return datetime.now(UTC)


class RetrievalService:
    """See the module."""

    def __init__(self, store: PostgresSearch, clock: Callable[[], datetime] = utc_now) -> None:
        """Takes the store to search, and the clock for dates in questions."""
        self._store = store
        self._clock = clock
        self._topics = TopicJudge(store.topics)

    async def plan(
        self,
        tenant: Tenant,
        scope: Scope,
        strategy: Strategy,
        max_tokens: int | None = None,
        query: str = "",
        zone: tzinfo = UTC,
    ) -> pb.PlanResponse:
        """Chooses the context path for a question over the scope.

        Args:
            tenant: Who asks.
            scope: What may be read or searched.
            strategy: The decision table.
            max_tokens: Budget of long context; None for the plan's.
            query: The question, if the scope is to be narrowed by what it says about documents.
            zone: The time zone in which its days begin.

        Raises:
            NotFound: The scope selects documents that the caller doesn't have (reason `DOCUMENT_NOT_FOUND`), or names a
                collection that doesn't exist (`COLLECTION_NOT_FOUND`).
        """
        derived, listing = await self._derive(tenant, scope, query, zone) if query else (None, None)
        if derived is not None:
            scope = replace(scope, filter=filter_from_proto("query_filter", derived.filter))
        snapshot = await self._store.count(tenant, scope, context_budget(tenant.plan, max_tokens))
        if snapshot.unknown_ids:
            raise scope_not_found(scope, snapshot.unknown_ids)
        path, reason = decide(
            strategy, tenant.plan, attached=bool(scope.document_ids), counts=snapshot.counts, cut=snapshot.cut
        )
        if path == "long_context_fallback":
            log.warning("plan_fell_back", org_id=tenant.org_id, reason=reason)
        counts = snapshot.counts
        if path == "semantic":  # no budget applies
            counts.kept, counts.trimmed = counts.items, 0
        response = pb.PlanResponse(path=enum_number(pb.ContextPath, path), reason=reason, counts=counts)
        if derived is not None:
            response.query_filter.CopyFrom(derived)
        if listing is not None:
            response.listing.CopyFrom(listing)
        if snapshot.served:
            space = snapshot.served[0]
            response.space.CopyFrom(space_to_proto(space))
            if (calibration := effective(space, snapshot.calibration)) is not None:
                response.calibration.CopyFrom(calibration)
        return response

    async def context(
        self, tenant: Tenant, scope: Scope, max_tokens: int
    ) -> AsyncGenerator[list[pb.Chunk] | pb.ScopeCounts, None]:
        """Yields the scope's items, each as its chunks in order, most recent first, and finally a summary.

        Whole items are taken until one would exceed the budget. If that is the very first, as many of its first chunks
        as fit are taken. No connection is held while the caller is busy.

        Args:
            tenant: Who asks.
            scope: What is read.
            max_tokens: Most tokens of all chunks together, counted by the embedding model.

        Raises:
            NotFound: The scope selects documents that the caller doesn't have (reason `DOCUMENT_NOT_FOUND`), or names a
                collection that doesn't exist (`COLLECTION_NOT_FOUND`).
        """
        snapshot = await self._store.count(tenant, scope, max_tokens, list_items=True)
        if snapshot.unknown_ids:
            raise scope_not_found(scope, snapshot.unknown_ids)
        counts = snapshot.counts
        items = snapshot.items[: counts.kept]
        for start in range(0, len(items), _ITEMS_AT_ONCE):
            part = items[start : start + _ITEMS_AT_ONCE]
            read = await self._store.read_items(tenant, part)
            for item in part:
                chunks = read.get(item.document_id)
                if chunks is None:  # deleted after counting
                    counts.items -= 1
                    counts.kept -= 1
                    continue
                yield _beginning(chunks, max_tokens) if snapshot.cut else chunks
        yield counts

    async def search(self, tenant: Tenant, query: SearchQuery) -> pb.SearchResponse:
        """Searches. An organisation without ingested documents gets no results, whatever the space.

        Returns:
            Results best first; those added for their recency come last.

        Raises:
            NotFound: The scope selects documents that the caller doesn't have (reason `DOCUMENT_NOT_FOUND`), or names a
                collection that doesn't exist (`COLLECTION_NOT_FOUND`).
            FailedPrecondition: The vector's space isn't served (reason `SPACE_MISMATCH`).
        """
        depth = first_depth(query)
        while True:
            order = Order(query, depth)
            snapshot = await self._store.search(tenant, replace(query, top_k=depth), order)
            if snapshot.unknown_ids:
                raise scope_not_found(query.scope, snapshot.unknown_ids)
            if query.space is not None and snapshot.served and query.space not in snapshot.served:
                raise space_mismatch(snapshot.served[0])
            results = await self._choose(tenant, query, order.candidates, snapshot.chunks)
            if depth >= DEEPEST or not has_more(snapshot, len(order.candidates), len(results), query, depth):
                break
            depth = min(depth * 4, DEEPEST)
        if query.diversity and query.space is not None and results:
            vectors = await self._store.vectors(tenant, query.space, [result.chunk_id for result in results])
            scores = [result.rank_score for result in results]
            results = diversify(results, scores, vectors, query.diversity, query.top_k)
        listed = {result.document_id for result in results}
        results += [result for result in snapshot.recent if result.document_id not in listed]
        return _response(query, results, snapshot, await self._topics.judge(tenant, query, snapshot, results))

    async def chunks(self, tenant: Tenant, chunk_ids: Sequence[int]) -> list[pb.Chunk]:
        """Returns chunks in the order requested, including those of superseded versions.

        Raises:
            NotFound: Some don't exist in the caller's organisation (reason `CHUNK_NOT_FOUND`).
        """
        result = await self._store.chunks(tenant, chunk_ids)
        missing = [chunk_id for chunk_id in chunk_ids if chunk_id not in result]
        if missing:
            raise chunks_not_found(missing)
        return [result[chunk_id] for chunk_id in chunk_ids]

    async def visible(self, tenant: Tenant, document_ids: Sequence[int]) -> list[int]:
        """Returns the documents that exist and that the caller may see, in the order requested."""
        seen = await self._store.existing_documents(tenant, document_ids)
        return [document_id for document_id in document_ids if document_id in seen]

    async def _choose(
        self, tenant: Tenant, query: SearchQuery, candidates: Sequence[Candidate], chunks: Mapping[int, pb.Chunk]
    ) -> list[Candidate]:
        """Chooses the results; if near-duplicates displaced some, reads more.

        Chunks deleted in the meantime are left out.
        """
        read: list[Candidate] = []
        rest = candidates
        take = to_read(result_limit(query))
        while True:
            part, rest = rest[:take], rest[take:]
            keys = [candidate.chunk_id for candidate in part if candidate.chunk is None]
            if any(key not in chunks for key in keys):
                chunks = await self._store.chunks(tenant, keys)
            for candidate in part:
                if candidate.chunk is not None:
                    read.append(candidate)
                elif candidate.chunk_id in chunks:
                    read.append(candidate._replace(chunk=chunks[candidate.chunk_id]))
            results = choose(read, rest, query)
            missing = result_limit(query) - len(results)
            if missing <= 0 or not rest:
                return results
            take = to_read(missing)

    async def _derive(
        self, tenant: Tenant, scope: Scope, query: str, zone: tzinfo
    ) -> tuple[pb.QueryFilter | None, pb.ItemListing | None]:
        """The filter implied by the question, by the library's labels; an explicitly chosen scope isn't narrowed."""
        # In a thread, as parsing a date takes a few milliseconds.
        reading = await in_turn(read_question, query, self._clock(), zone)
        labels = await self._store.values(tenant, scope, reading.initials) if reading.initials else []
        derived, listing = derive(reading, labels)
        return (derived if scope.filter is None and scope.document_ids is None else None), listing

    async def ping(self) -> None:
        """Raises a `CitewireError` if nothing can be served."""
        await self._store.ping()


def _response(
    query: SearchQuery, results: Sequence[Candidate], snapshot: SearchSnapshot, verdict: Verdict
) -> pb.SearchResponse:
    response = pb.SearchResponse(exact=snapshot.exact, off_topic=verdict.off_topic, topic_margin=verdict.margin)
    if query.space is not None:
        response.space.CopyFrom(space_to_proto(query.space))
        if (calibration := effective(query.space, snapshot.calibration)) is not None:
            response.calibration.CopyFrom(calibration)
    ranked = [result.rank_score for result in results if not result.recent]
    highest, lowest_rank = max(ranked, default=0.0), min(ranked, default=0.0)
    scale = _LEXICAL_SCALE / highest if highest and query.mode == "lexical" else 1.0
    recency_ranks = {result.document_id: rank for rank, result in enumerate(snapshot.recent, 1)}
    for result in results:
        # Added in place, as a separately created result would be copied, with its chunk and text.
        response.results.add(
            chunk=result.whole,
            rank_score=result.rank_score,
            score=result.score,
            lexical_score=result.lexical_score,
            recent=result.recent,
            duplicate_chunk_ids=result.duplicate_ids,
            first_score=scale * (lowest_rank if result.recent else result.rank_score),
            recency_rank=recency_ranks.get(result.document_id, 0),
        )
    return response


def _beginning(chunks: Sequence[pb.Chunk], max_tokens: int) -> list[pb.Chunk]:
    """Returns the first chunks, as many as fit."""
    total = list(accumulate(chunk.token_count for chunk in chunks))
    return [chunk for chunk, running in zip(chunks, total, strict=True) if running <= max_tokens]
