"""From a question to chunks: plan, embed and search, with the vector always in the space that is searched."""

import asyncio
from collections.abc import Awaitable, Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace
from typing import TypeVar

from citewire.common.v1 import common_pb2
from citewire.embedder.v1 import embedder_pb2
from citewire.retriever.v1 import retriever_pb2
from google.protobuf import duration_pb2

from citewire_accounts.tenants.providers import ModelRoute
from citewire_gateway.clients.embedder import Embedder
from citewire_gateway.clients.retriever import Retriever
from citewire_kit.deadline import is_over
from citewire_kit.errors import CitewireError, DeadlineExceeded, FailedPrecondition, NotFound, Unavailable
from citewire_kit.telemetry import get_logger

A = TypeVar("A")
B = TypeVar("B")

log = get_logger(__name__)

WHOLE_ITEM_PATHS = frozenset(
    {
        retriever_pb2.CONTEXT_PATH_FOCUSED,
        retriever_pb2.CONTEXT_PATH_LONG_CONTEXT,
        retriever_pb2.CONTEXT_PATH_LONG_CONTEXT_TRIM,
        retriever_pb2.CONTEXT_PATH_LONG_CONTEXT_FALLBACK,
    }
)
"""Context paths that use whole items instead of searching."""


@dataclass(frozen=True, slots=True)
class Retrieval:
    """The result of a question's retrieval."""

    results: tuple[retriever_pb2.SearchResult, ...] = ()
    """Best first; whole items latest first."""
    vector: embedder_pb2.EmbedResponse | None = None
    """The question's vector; None if none was needed."""
    embedding_tokens: int = 0
    """Tokens of all its embeddings."""
    plan: retriever_pb2.PlanResponse | None = None
    off_topic: bool = False
    """Whether none of them is related to the question."""
    topic_margin: float | None = None
    """The margin to off-topic questions, derived by the retriever; None if it wasn't."""
    counts: retriever_pb2.ScopeCounts | None = None
    """Counts of whole items, if these were used instead of searching."""

    @property
    def answerable_threshold(self) -> float | None:
        """The space's threshold for extractive answers; None if it isn't known for the searched space."""
        plan, vector = self.plan, self.vector
        if plan is None or vector is None or not plan.HasField("space") or vector.space != plan.space:
            return None
        known = plan.calibration.HasField("answerable_threshold")
        return plan.calibration.answerable_threshold if known else None


@dataclass(frozen=True, slots=True)
class Reranking:
    """Reranked results."""

    results: tuple[retriever_pb2.SearchResult, ...] = ()
    """The scored results, best first, then those not scored in time, in the order of the first ranking."""
    scores: tuple[float, ...] = ()
    """Scores of the former."""
    candidates: int = 0
    """Number of candidates."""
    scored: int = 0
    """Number of scored candidates."""


async def plan_and_search(
    embedder: Embedder,
    retriever: Retriever,
    request: retriever_pb2.SearchRequest,
    text: str,
    strategy: retriever_pb2.Strategy,
    route: ModelRoute,
    max_tokens: int | None = None,
    model: str = "",
    filter_from: str = "",
    time_zone: str = "",
) -> Retrieval:
    """Plans, then searches or gets whole items.

    If a search is certain, planning and embedding run concurrently. The text is embedded with the tenant's own
    provider, or else with the default model. If the organisation's live space is a different one, it is embedded again
    in that one.

    Args:
        embedder: Embeds the text.
        retriever: Plans and searches.
        request: The search, without its vector.
        text: The text to embed.
        strategy: Decides the context path.
        route: The providers of the run.
        max_tokens: Limit for whole items.
        filter_from: The question from which filters are derived; "" for none.
        time_zone: Time zone of the question's days; "" means UTC.
        model: The operator's model that embeds the text, unless the tenant has its own provider. Its space is searched,
            or the live one if the organisation has nothing in that space yet.
    """
    if route.embedding is not None or route.require_own:
        model = ""
    plan_request = retriever_pb2.PlanRequest(
        scope=request.scope,
        strategy=strategy,
        max_tokens=max_tokens,
        query=filter_from,
        derive_filter=bool(filter_from),
        time_zone=time_zone,
    )
    embed_request = _embed_request(text, route.embedding, model)
    if strategy == retriever_pb2.STRATEGY_SEMANTIC:
        plan, vector = await both(retriever.plan(plan_request), embedder.embed(embed_request))
    else:
        plan = await retriever.plan(plan_request)
        if plan.path in WHOLE_ITEM_PATHS:
            return await _get_whole_items(retriever, _narrowed(request, plan).scope, plan, max_tokens)
        vector = await embedder.embed(embed_request)
    tokens = vector.usage.input_tokens
    if plan.HasField("space") and not model and plan.space != vector.space:
        vector = await _embed_in(embedder, text, plan.space, route)
        tokens += vector.usage.input_tokens
    retrieval = await _search(embedder, retriever, _narrowed(request, plan), text, vector, route)
    return replace(retrieval, embedding_tokens=tokens + retrieval.embedding_tokens, plan=plan)


async def embed_and_search(
    embedder: Embedder, retriever: Retriever, request: retriever_pb2.SearchRequest, text: str, route: ModelRoute
) -> Retrieval:
    """Embeds `text` and searches. A search by words continues without similarities if embedding fails."""
    words_alone = request.mode == retriever_pb2.SEARCH_MODE_LEXICAL and not request.HasField("min_score")
    try:
        if words_alone and route.require_own and route.embedding is None:
            return Retrieval(tuple((await retriever.search(request)).results))
        vector = await embedder.embed(_embed_request(text, route.embedding))
        retrieval = await _search(embedder, retriever, request, text, vector, route)
    except CitewireError as exc:
        if not words_alone:
            raise
        log.warning("similarities_left_out", reason=exc.reason)
        return Retrieval(tuple((await retriever.search(request)).results))
    return replace(retrieval, embedding_tokens=vector.usage.input_tokens + retrieval.embedding_tokens)


async def rerank(
    embedder: Embedder,
    question: str,
    results: Sequence[retriever_pb2.SearchResult],
    top_n: int,
    route: ModelRoute,
    seconds: float,
) -> Reranking:
    """Reranks as many results as the time limit allows; returns the best `top_n`."""
    if not results:
        return Reranking()
    request = embedder_pb2.RerankRequest(
        query=question,
        documents=[result.chunk.text for result in results],
        top_n=top_n,
        provider=route.rerank,
        first_scores=[result.first_score for result in results],
        headings=[result.chunk.heading for result in results],
        budget=duration_pb2.Duration(seconds=int(seconds), nanos=int(seconds % 1 * 1e9)),
    )
    try:
        response = await embedder.rerank(request)
    except DeadlineExceeded:
        if is_over():
            raise
        # The embedder is too busy to report this itself, or is building its model.
        log.warning("rerank_out_of_time", seconds=seconds)
        return Reranking(tuple(results[:top_n]), candidates=len(results))
    return Reranking(
        tuple(results[ranked.index] for ranked in response.results),
        tuple(ranked.score for ranked in response.results[: response.scored]),
        candidates=len(results),
        scored=response.scored,
    )


async def both(first: Awaitable[A], second: Awaitable[B]) -> tuple[A, B]:
    """Runs both concurrently; the first failure stops the other, and no task is left behind."""
    tasks = (asyncio.ensure_future(first), asyncio.ensure_future(second))
    try:
        return await asyncio.gather(*tasks)
    except BaseException:
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)
        raise


def _narrowed(request: retriever_pb2.SearchRequest, plan: retriever_pb2.PlanResponse) -> retriever_pb2.SearchRequest:
    """The request with the filter that the plan derived from the question, if there is one."""
    if not plan.HasField("query_filter"):
        return request
    copy = retriever_pb2.SearchRequest()
    copy.CopyFrom(request)
    copy.scope.filter.CopyFrom(plan.query_filter.filter)
    return copy


async def _get_whole_items(
    retriever: Retriever, scope: retriever_pb2.Scope, plan: retriever_pb2.PlanResponse, max_tokens: int | None
) -> Retrieval:
    if max_tokens is None:
        raise ValueError("long context requires a budget")
    results: list[retriever_pb2.SearchResult] = []
    counts = retriever_pb2.ScopeCounts()
    request = retriever_pb2.GetContextRequest(scope=scope, max_tokens=max_tokens)
    async with aclosing(retriever.get_context(request)) as messages:
        async for message in messages:
            results += [retriever_pb2.SearchResult(chunk=chunk) for chunk in message.chunks]
            if message.HasField("counts"):
                counts = message.counts
    return Retrieval(tuple(results), plan=plan, counts=counts)


async def _search(
    embedder: Embedder,
    retriever: Retriever,
    request: retriever_pb2.SearchRequest,
    text: str,
    vector: embedder_pb2.EmbedResponse,
    route: ModelRoute,
) -> Retrieval:
    """Searches; `embedding_tokens` of the result is only what this step added."""
    try:
        response = await retriever.search(_with_vector(request, vector))
        return _retrieval(response, vector)
    except FailedPrecondition as exc:
        if exc.reason != "SPACE_MISMATCH":
            raise
        live = _live_space(exc)
        if live is None:
            return Retrieval(vector=vector)  # without a live space, nothing was ever embedded
        if live == vector.space:
            raise
        # The live space changed between planning and searching, or there was no planning.
        again = await _embed_in(embedder, text, live, route)
        response = await retriever.search(_with_vector(request, again))
        return replace(_retrieval(response, again), embedding_tokens=again.usage.input_tokens)


def _retrieval(response: retriever_pb2.SearchResponse, vector: embedder_pb2.EmbedResponse) -> Retrieval:
    margin = response.topic_margin if response.HasField("topic_margin") else None
    return Retrieval(tuple(response.results), vector, off_topic=response.off_topic, topic_margin=margin)


async def _embed_in(
    embedder: Embedder, text: str, space: common_pb2.EmbeddingSpace, route: ModelRoute
) -> embedder_pb2.EmbedResponse:
    """Embeds with the operator's model of a space, because a tenant's own provider has a different one."""
    if route.require_own:
        raise _not_served(space)
    try:
        vector = await embedder.embed(_embed_request(text, None, space.model, space.dimensions))
    except NotFound as exc:
        raise _not_served(space) from exc
    if vector.space != space:
        # The embedder has a model of this name with different weights, so its vectors aren't comparable.
        raise _not_served(space)
    return vector


def _embed_request(
    text: str, provider: common_pb2.ProviderRef | None, model: str = "", dimensions: int | None = None
) -> embedder_pb2.EmbedRequest:
    return embedder_pb2.EmbedRequest(
        inputs=[text],
        purpose=embedder_pb2.PURPOSE_QUERY,
        overflow=embedder_pb2.OVERFLOW_TRUNCATE,
        model=model,
        dimensions=dimensions,
        provider=provider,
    )


def _with_vector(
    request: retriever_pb2.SearchRequest, vector: embedder_pb2.EmbedResponse
) -> retriever_pb2.SearchRequest:
    copy = retriever_pb2.SearchRequest(vector=vector.vectors, space=vector.space)
    copy.MergeFrom(request)
    return copy


def _not_served(space: common_pb2.EmbeddingSpace) -> CitewireError:
    log.error("space_not_served", model=space.model, revision=space.revision, dimensions=space.dimensions)
    return Unavailable(
        f"the library was embedded with {space.model}, which the embedder doesn't offer any more",
        reason="MODEL_NOT_FOUND",
        metadata={"model": space.model},
        retry_after=30.0,
    )


def _live_space(exc: CitewireError) -> common_pb2.EmbeddingSpace | None:
    try:
        return common_pb2.EmbeddingSpace(
            model=exc.metadata["model"],
            revision=exc.metadata["revision"],
            dimensions=int(exc.metadata["dimensions"]),
        )
    except (KeyError, ValueError):
        return None
