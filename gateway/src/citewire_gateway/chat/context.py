"""Builds the context of an answer: from the question and its profile to passages, by search or as whole items."""

from collections.abc import Sequence
from dataclasses import replace

from citewire.generator.v1 import generator_pb2
from citewire.retriever.v1 import retriever_pb2, table_pb2

from citewire_dialects.profile import EmptySelection, Rerank
from citewire_gateway.chat.answer import Reflection, Results, passage_messages
from citewire_gateway.chat.filled_libraries import FilledLibraries
from citewire_gateway.chat.reading import ConversationReader
from citewire_gateway.chat.retrieval import Retrieval, plan_and_search, rerank
from citewire_gateway.chat.run import ChatRun
from citewire_gateway.chat.steps import (
    computed_step,
    condensed_step,
    filter_derived_step,
    filter_dropped_step,
    rerank_failed_step,
    reranked_step,
    truncated_step,
)
from citewire_gateway.chat.store import ChatStore
from citewire_gateway.clients.embedder import Embedder
from citewire_gateway.clients.retriever import Retriever
from citewire_kit.errors import CitewireError, NotFound
from citewire_kit.telemetry import get_logger

log = get_logger(__name__)

_MOST_TABLES = 8
_MOST_QUESTION = 2_000
_OF_TEXT = (
    "text",
    "place",
    "places",
    "section",
    "heading",
    "char_start",
    "char_end",
    "token_count",
    "content_hash",
    "verbatim",
)
"""Fields of a chunk that describe its text rather than its document."""
MOST_MESSAGES = 200
"""Messages read from a stored conversation; the generator's budget decides which of them the model gets."""


class ContextFinder:
    """Finds passages, and records in the chat run how."""

    def __init__(
        self,
        embedder: Embedder,
        retriever: Retriever,
        records: ChatStore,
        reflection: Reflection,
        rerank_seconds: float,
    ) -> None:
        self._embedder = embedder
        self._retriever = retriever
        self.libraries = FilledLibraries(retriever)
        self._reader = ConversationReader(records, retriever)
        self._reflection = reflection
        self._rerank_seconds = rerank_seconds

    async def check_scope(self, run: ChatRun) -> None:
        """Checks that named documents and collections exist, if a model would be called before the search finds out.

        Raises:
            NotFound: A document or the collection doesn't exist for the caller.
        """
        scope = run.chat.scope
        if not scope.selection.document_ids and not scope.collection:
            return
        try:
            await self._retriever.plan(retriever_pb2.PlanRequest(scope=scope))
        except NotFound:
            raise
        except CitewireError as exc:
            # It isn't known yet whether the answer needs the retriever; if it does, the search will report the error.
            log.warning("scope_not_checked", reason=exc.reason, error=exc.message)

    async def find(self, run: ChatRun) -> Retrieval:
        """Returns the chunks; none if nothing is selected, or if no chunk is related to the question."""
        chat, profile = run.chat, run.chat.profile
        if profile.history is not None:
            run.history = tuple(await self._history(run))
        scope = retriever_pb2.Scope()
        scope.CopyFrom(chat.scope)
        if scope.HasField("selection") and not scope.selection.document_ids:
            if profile.empty_selection is EmptySelection.NOTHING:
                await self.check_scope(run)
                return Retrieval()
            scope.ClearField("selection")
        plan = await self.libraries.plan_if_empty(chat.tenant, scope, profile.strategy, _budget(run))
        if plan is not None:
            run.plan = plan
            return Retrieval(plan=plan)  # before anything is embedded or a model is called
        if profile.hyde or (profile.history is not None and profile.history.condense and run.history):
            await self.check_scope(run)
        question = await self._condense(run)
        text = await self._hypothetical_answer(run, question) or question
        retrieval = await self._search_narrowed(run, search_request(run, scope, question), question, text)
        run.plan = retrieval.plan
        run.answerable_threshold = retrieval.answerable_threshold
        if retrieval.vector is not None:
            run.embedding_model = retrieval.vector.space.model
            if retrieval.vector.truncated:
                run.steps.append(truncated_step(sum(retrieval.vector.token_counts)))
        computed = await self._compute(run, question, retrieval.results)
        refined = await self._refine(run, question, retrieval)
        return replace(refined, results=(*computed, *refined.results), off_topic=refined.off_topic and not computed)

    async def _refine(self, run: ChatRun, question: str, retrieval: Retrieval) -> Retrieval:
        """Reranks and judges the results, if the profile enables it."""
        profile = run.chat.profile
        if retrieval.off_topic:  # which doesn't concern results included as the latest documents
            return replace(retrieval, results=_latest(retrieval.results))
        if retrieval.counts is not None:  # whole items are ordered by date, without a search
            return retrieval
        if profile.rerank is not None:
            retrieval = await self._rerank(run, profile.rerank, question, retrieval)
        return await self._judge(run, question, retrieval) if profile.judge_relevance else retrieval

    async def _compute(self, run: ChatRun, question: str, results: Results) -> Results:
        """A passage with the computed answer, if the question is one over a table among the results; otherwise none."""
        chunks = {result.chunk.document_id: result.chunk for result in results if _is_rows(result.chunk)}
        if not 1 <= len(chunks) <= _MOST_TABLES:
            return ()
        request = table_pb2.AnswerFromTablesRequest(
            question=question[:_MOST_QUESTION],
            document_ids=chunks,
            time_zone=run.chat.time_zone,
            describe=run.chat.profile.fill_table_query,
        )
        try:
            response = await self._retriever.answer_from_tables(request)
            by_model = len(response.tables) > 0 and await self._fill(run, request, response)
        except CitewireError as exc:
            # The passages are still there, and the model can read the rows among them.
            log.warning("tables_not_asked", reason=exc.reason, error=exc.message)
            return ()
        if not response.HasField("computed"):
            return ()
        computed, chunk = response.computed, retriever_pb2.Chunk()
        chunk.CopyFrom(chunks[computed.document_id])
        for name in _OF_TEXT:
            chunk.ClearField(name)
        chunk.MergeFrom(retriever_pb2.Chunk(text=computed.text, version=computed.version, place=computed.place))
        chunk.label, chunk.computed = chunk.file_name or chunk.title, True
        run.steps.append(computed_step(chunk.label, computed.answer, by_model=by_model))
        return (retriever_pb2.SearchResult(chunk=chunk),)

    async def _fill(
        self,
        run: ChatRun,
        request: table_pb2.AnswerFromTablesRequest,
        response: table_pb2.AnswerFromTablesResponse,
    ) -> bool:
        """Has a model write a table query for the question, and computes its answer if there is one."""
        await run.decided.wait()  # a question that needs no retrieval shouldn't pay for this
        filled = await self._reflection.fill_table_query(run.chat, request.question, response.tables)
        run.add_usage(filled.usage)
        if not filled.table:
            return False
        request.document_ids[:] = [response.tables[filled.table - 1].document_id]
        request.query.CopyFrom(filled.query)
        response.CopyFrom(await self._retriever.answer_from_tables(request))
        return True

    async def _search_narrowed(
        self, run: ChatRun, request: retriever_pb2.SearchRequest, question: str, text: str
    ) -> Retrieval:
        """Searches with the filter derived from the question, and without it if nothing matches."""
        retrieval = await self._search(run, request, text, question if run.chat.profile.derive_filter else "")
        if retrieval.plan is None or not retrieval.plan.HasField("query_filter"):
            return retrieval
        phrases = retrieval.plan.query_filter.phrases
        if retrieval.results:
            run.steps.append(filter_derived_step(phrases))
            return retrieval
        run.listing = None  # there is nothing to list
        run.steps.append(filter_dropped_step(phrases))
        return await self._search(run, request, text)

    async def _search(
        self, run: ChatRun, request: retriever_pb2.SearchRequest, text: str, filter_from: str = ""
    ) -> Retrieval:
        chat, profile = run.chat, run.chat.profile
        retrieval = await plan_and_search(
            self._embedder,
            self._retriever,
            request,
            text,
            profile.strategy,
            chat.route,
            max_tokens=_budget(run),
            model=chat.embedding_model,
            filter_from=filter_from,
            time_zone=chat.time_zone,
        )
        run.embedding_tokens += retrieval.embedding_tokens
        if filter_from and retrieval.plan is not None and retrieval.plan.HasField("listing"):
            run.listing = retrieval.plan.listing
        return retrieval

    async def _history(self, run: ChatRun) -> Sequence[generator_pb2.Message]:
        """The conversation so far: from the request, or else the stored one."""
        if run.chat.messages or run.exchange.conversation_id is None or run.exchange.creates:
            return run.chat.messages[:-1]
        named = run.chat.tenant, run.exchange.conversation_id
        return await self._reader.history(*named, MOST_MESSAGES, passages=run.chat.profile.keep_passages)

    async def _condense(self, run: ChatRun) -> str:
        """The question rewritten as a standalone one, if the profile enables it and there are earlier messages.

        Items attached to a library question are read whole, without a search.
        """
        chat = run.chat
        attached = chat.scope.selection.document_ids and chat.profile.strategy == retriever_pb2.STRATEGY_LIBRARY
        if chat.profile.history is None or not chat.profile.history.condense or not run.history or attached:
            return chat.question
        condensed = await self._reflection.rewrite(
            generator_pb2.REWRITE_KIND_CONDENSE, chat, chat.question, run.history
        )
        if condensed is None:
            return chat.question
        run.add_usage(condensed.usage)
        if condensed.fallback or condensed.text == chat.question:
            return chat.question
        run.steps.append(condensed_step(condensed.text))
        return condensed.text

    async def _hypothetical_answer(self, run: ChatRun, question: str) -> str:
        """A hypothetical answer to be embedded instead of the question; "" for the question itself."""
        if not run.chat.profile.hyde:
            return ""
        passage = await self._reflection.rewrite(generator_pb2.REWRITE_KIND_HYDE, run.chat, question)
        if passage is None:
            return ""
        run.add_usage(passage.usage)
        return "" if passage.fallback else passage.text

    async def _rerank(self, run: ChatRun, options: Rerank, question: str, retrieval: Retrieval) -> Retrieval:
        """The best results after reranking, or of the first ranking if that fails; the latest documents stay."""
        keep = run.chat.top_k if options.keep is None else min(run.chat.top_k, options.keep)
        seconds = self._rerank_seconds if options.seconds is None else options.seconds
        similar = tuple(result for result in retrieval.results if not result.recent)
        best = similar[:keep]
        try:
            ranking = await rerank(self._embedder, question, similar, keep, run.chat.route, seconds)
        except CitewireError as exc:
            log.warning("rerank_failed", reason=exc.reason, error=exc.message)
            run.steps.append(rerank_failed_step(exc))
        else:
            best = ranking.results
            if ranking.candidates:
                run.steps.append(reranked_step(ranking, seconds))
        chunk_ids = {result.chunk.chunk_id for result in best}
        latest = (result for result in _latest(retrieval.results) if result.chunk.chunk_id not in chunk_ids)
        return replace(retrieval, results=(*best, *latest))

    async def _judge(self, run: ChatRun, question: str, retrieval: Retrieval) -> Retrieval:
        """Leaves out results that the model judges irrelevant; the latest documents stay."""
        await run.decided.wait()  # a question that needs no retrieval shouldn't pay for this
        similar = [result for result in retrieval.results if not result.recent]
        if not similar:
            return retrieval
        response, step = await self._reflection.judge_relevance(run.chat, question, passage_messages(similar))
        run.add_usage(response.usage)
        run.steps.append(step)
        irrelevant = set(response.irrelevant)
        relevant = (result for index, result in enumerate(similar) if index not in irrelevant or result.recency_rank)
        latest = (result for result in retrieval.results if result.recent)
        return replace(retrieval, results=(*relevant, *latest))


def _is_rows(chunk: retriever_pb2.Chunk) -> bool:
    """Whether it consists of table rows; rows have no number only if their text differs from the document's."""
    return chunk.place.HasField("row") or not chunk.verbatim


def _budget(run: ChatRun) -> int | None:
    """Maximum tokens of whole items together; None for the tenant plan's."""
    budget = run.chat.profile.budget
    return None if budget is None else budget.context_tokens(run.chat.tenant.plan)


def _latest(results: Sequence[retriever_pb2.SearchResult]) -> tuple[retriever_pb2.SearchResult, ...]:
    """Results from the latest documents, exempt from thresholds and reranking; the latest first."""
    latest = (result for result in results if result.recency_rank)
    return tuple(sorted(latest, key=lambda result: result.recency_rank))


def search_request(run: ChatRun, scope: retriever_pb2.Scope, question: str) -> retriever_pb2.SearchRequest:
    """The search defined by the profile, without its vector."""
    chat, profile = run.chat, run.chat.profile
    request = retriever_pb2.SearchRequest(
        scope=scope,
        query=question,
        top_k=chat.top_k if profile.rerank is None else max(chat.top_k, profile.rerank.candidates),
        min_score=chat.min_score,
        min_score_calibrated=chat.min_score is not None and chat.min_score_calibrated,
    )
    request.MergeFrom(profile.search)
    return request
