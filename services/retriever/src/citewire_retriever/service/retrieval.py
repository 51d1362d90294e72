"""The reading side: plans, searches, chunks by id."""

from collections.abc import Sequence

from citewire_kit.telemetry import get_logger
from citewire_kit.tenant import Tenant
from citewire_retriever.errors import chunks_not_found, documents_not_found, space_mismatch
from citewire_retriever.model import Chunk, Hit, Plan, Scope, SearchOutcome, SearchQuery, Strategy
from citewire_retriever.service.planning import context_budget, decide
from citewire_retriever.store.base import SearchStore

log = get_logger(__name__)


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
        if path in ("focused", "semantic"):
            counts = counts.untrimmed()
        return Plan(path, reason, counts, counted.served[0] if counted.served else None)

    async def search(self, tenant: Tenant, query: SearchQuery) -> SearchOutcome:
        """Searches. An organisation for which nothing was ingested yet gets nothing, whatever the space.

        Raises:
            NotFound: The scope selects documents that the caller doesn't have (reason `DOCUMENT_NOT_FOUND`).
            FailedPrecondition: The vector's space isn't served (reason `SPACE_MISMATCH`).
        """
        found = await self._store.search(tenant, query)
        if found.unknown_ids:
            raise documents_not_found(found.unknown_ids)
        if found.served and query.space not in found.served:
            raise space_mismatch(found.served[0])
        ranked = [hit for hit in found.ranked if _reaches(hit, query.min_score)]
        known = {hit.chunk.document_id for hit in ranked}
        recent = [hit for hit in found.recent if hit.chunk.document_id not in known]
        return SearchOutcome(hits=(*ranked, *recent), exact=found.exact, space=query.space)

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

    async def ping(self) -> None:
        """Raises a `CitewireError` if nothing can be served."""
        await self._store.ping()


def _reaches(hit: Hit, min_score: float | None) -> bool:
    return min_score is None or (hit.similarity is not None and hit.similarity >= min_score)
