"""What an answer may use: from the question and its profile to passages, by search or as whole items."""

from dataclasses import replace
from datetime import UTC, datetime

from citewire_gateway.chat.calibration import floor_of
from citewire_gateway.chat.query_filters import derive_filter
from citewire_gateway.chat.record import ChatRecord
from citewire_gateway.chat.records import Records
from citewire_gateway.chat.reflection import Reflection
from citewire_gateway.chat.retrieval import Query, Retrieved, plan_and_search, rerank
from citewire_gateway.chat.run import Ask
from citewire_gateway.chat.steps import (
    condensed_step,
    filter_derived_step,
    filter_dropped_step,
    rerank_failed_step,
    truncated_step,
)
from citewire_gateway.clients.domain import Scope
from citewire_gateway.clients.generation import Message, RewriteKind
from citewire_gateway.clients.ports import Embedder, Retriever
from citewire_gateway.profiles.model import EmptySelection
from citewire_kit.errors import CitewireError
from citewire_kit.telemetry import get_logger

log = get_logger(__name__)

MOST_MESSAGES = 200
"""Of a kept conversation; what of them reaches the model is the generator's budget."""


class ContextFinder:
    """Finds passages, and notes in the chat's record how."""

    def __init__(self, embedder: Embedder, retriever: Retriever, records: Records, reflection: Reflection) -> None:
        self._embedder = embedder
        self._retriever = retriever
        self._records = records
        self._reflection = reflection

    async def find(self, ask: Ask, record: ChatRecord) -> Retrieved:
        """Returns the chunks; none if nothing is selected, or if no chunk is above the floor."""
        profile, scope = ask.profile, ask.scope
        if profile.history is not None:
            record.history = await self._history(ask, record)
        if scope.document_ids == ():
            if profile.empty_selection is EmptySelection.NOTHING:
                return Retrieved((), None, 0)
            scope = replace(scope, document_ids=None)
        query = await self._query(ask, record, scope)
        found = await self._found(ask, record, query)
        record.plan = found.plan
        record.answerable_threshold = found.answerable_threshold
        if found.vector is not None:
            record.embedding_model = found.vector.space.model
            if found.vector.truncated:
                record.steps.append(truncated_step(found.vector))
        if not _above_floor(found):
            return replace(found, hits=())
        if profile.rerank is None or found.counts is not None:  # whole items are in the order of their dates
            return found
        keep = ask.top_k if profile.rerank.keep is None else min(ask.top_k, profile.rerank.keep)
        return await self._reranked(ask, record, query.question, found, keep)

    async def _found(self, ask: Ask, record: ChatRecord, query: Query) -> Retrieved:
        """Searches, at first under the filter that the question speaks of; without it, where it leaves nothing."""
        derived = None
        if ask.profile.derive_filter and query.scope.filter is None and query.scope.document_ids is None:
            derived = derive_filter(query.question, datetime.now(UTC))
        if derived is None:
            return await self._searched(ask, record, query)
        found = await self._searched(ask, record, replace(query, scope=replace(query.scope, filter=derived.filter)))
        if found.hits:
            record.steps.append(filter_derived_step(derived.words))
            return found
        record.steps.append(filter_dropped_step(derived.words))
        return await self._searched(ask, record, query)

    async def _searched(self, ask: Ask, record: ChatRecord, query: Query) -> Retrieved:
        profile = ask.profile
        budget = profile.budget.context_tokens(ask.tenant.plan) if profile.budget is not None else None
        found = await plan_and_search(
            self._embedder, self._retriever, query, profile.strategy, ask.own, budget, ask.embedding_model
        )
        record.embedding_tokens += found.embedding_tokens
        return found

    async def _history(self, ask: Ask, record: ChatRecord) -> tuple[Message, ...]:
        """The conversation so far: what the request brought, or else what is kept of it."""
        if ask.messages or record.exchange.conversation_id is None or record.exchange.creates:
            return ask.messages[:-1]
        return tuple(await self._records.history(record.exchange, MOST_MESSAGES))

    async def _query(self, ask: Ask, record: ChatRecord, scope: Scope) -> Query:
        """What is searched for: the question, in other words where the profile says so."""
        profile, question, embedded = ask.profile, ask.question, ""
        if profile.history is not None and profile.history.condense and record.history:
            condensed = await self._reflection.rewrite(RewriteKind.CONDENSE, ask, question, record.history)
            if condensed is not None:
                record.usage = record.usage.plus(condensed.usage)
                if not condensed.fallback:
                    question = condensed.text
                    record.steps.append(condensed_step(question))
        if profile.hyde:
            passage = await self._reflection.rewrite(RewriteKind.HYDE, ask, question, ())
            if passage is not None:
                record.usage = record.usage.plus(passage.usage)
                embedded = "" if passage.fallback else passage.text
        top_k = ask.top_k if profile.rerank is None else max(ask.top_k, profile.rerank.candidates)
        return Query(
            question=question,
            scope=scope,
            mode=profile.mode,
            fuse_by_rank=profile.fuse_by_rank,
            top_k=top_k,
            min_score=ask.min_score,
            min_score_calibrated=ask.min_score_calibrated,
            by_document=profile.by_document,
            recent=profile.recent,
            embedded=embedded,
        )

    async def _reranked(self, ask: Ask, record: ChatRecord, question: str, found: Retrieved, keep: int) -> Retrieved:
        """The best of a second ranking; of the first, where that can't be had."""
        try:
            hits = await rerank(self._embedder, question, found.hits, keep, ask.own, dispensable=True)
        except CitewireError as exc:
            log.warning("rerank_failed", reason=exc.reason, error=exc.message)
            record.steps.append(rerank_failed_step(exc.reason))
            hits = found.hits[:keep]
        return replace(found, hits=hits)


def _above_floor(found: Retrieved) -> bool:
    """Whether at least one chunk has to do with the question; one without a vector (a lexical hit) may."""
    if found.vector is None:
        return bool(found.hits)
    floor = floor_of(found.vector.space.model)
    return any(hit.similarity is None or hit.similarity > floor for hit in found.hits)
