"""From a question to chunks: plan, embed and search, with the vector always in the space that is searched."""

import asyncio
from collections.abc import Awaitable, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from citewire_gateway.clients.domain import (
    Hit,
    Plan,
    Scope,
    ScopeCounts,
    SearchMode,
    SearchQuery,
    Space,
    Strategy,
    Vector,
)
from citewire_gateway.clients.ports import Embedder, Retriever
from citewire_gateway.tenants.providers import Chosen
from citewire_kit.errors import CitewireError, FailedPrecondition, NotFound, Unavailable
from citewire_kit.telemetry import get_logger

A = TypeVar("A")
B = TypeVar("B")

log = get_logger(__name__)


LONG_PATHS = frozenset({"focused", "long_context", "long_context_trim", "long_context_fallback"})
"""Context paths that give whole items instead of searching."""


@dataclass(frozen=True, slots=True)
class Query:
    """What is looked for.

    Attributes:
        embedded: What is embedded in the question's stead, such as a passage that might answer it; "" is the question.
        recent: How many of the latest documents are added.
        dense_weight: Weight of the dense leg in a hybrid search, 0–1; None leaves it to the retriever.
        fuse_by_rank: Whether a hybrid search fuses by reciprocal rank instead of scores.
        diversity: How much likeness to results before counts against relevance, 0–1.
        keep_duplicates: Whether chunks stay whose text is nearly that of a better one.
    """

    question: str
    scope: Scope
    mode: SearchMode
    top_k: int
    min_score: float | None = None
    min_score_calibrated: bool = False
    by_document: bool = False
    recent: int = 0
    embedded: str = ""
    dense_weight: float | None = None
    fuse_by_rank: bool = False
    diversity: float = 0.0
    keep_duplicates: bool = False

    @property
    def text(self) -> str:
        """What is embedded."""
        return self.embedded or self.question


@dataclass(frozen=True, slots=True)
class Retrieved:
    """What was found. `embedding_tokens` counts every embedding that it took; `vector` is None where none was needed.

    `counts` is of whole items, where these were given instead of searching.
    """

    hits: tuple[Hit, ...]
    vector: Vector | None
    embedding_tokens: int
    plan: Plan | None = None
    counts: ScopeCounts | None = None

    @property
    def answerable_threshold(self) -> float | None:
        """What was derived for the space that was searched; None: that isn't known."""
        if self.plan is None or self.vector is None or self.vector.space != self.plan.space:
            return None
        return self.plan.answerable_threshold


async def plan_and_search(
    embedder: Embedder,
    retriever: Retriever,
    query: Query,
    strategy: Strategy,
    own: Chosen,
    max_tokens: int | None = None,
    model: str = "",
) -> Retrieved:
    """Plans, then searches or gets whole items.

    Where a search is certain, planning and embedding run at the same time. The question is embedded with the tenant's
    own provider, or else with the default model. If the organisation's live space is another one, it is embedded once
    more, in that one.

    With `model`, the question is embedded with that model of the operator's, unless the tenant has a provider of its
    own, and searched for in that model's space; in the live one, where the organisation has nothing in that space yet.
    """
    if own.embedding is not None or own.only_own:
        model = ""
    if strategy is Strategy.SEMANTIC:
        embedding = embedder.embed_question(query.text, provider=own.embedding, model=model)
        plan, vector = await both(retriever.plan(query.scope, strategy), embedding)
    else:
        plan = await retriever.plan(query.scope, strategy, max_tokens)
        if plan.path in LONG_PATHS:
            return await _whole_items(retriever, query.scope, plan, max_tokens)
        vector = await embedder.embed_question(query.text, provider=own.embedding, model=model)
    tokens = vector.tokens
    if plan.space is not None and not model and plan.space != vector.space:
        vector = await _embed_in(embedder, query.text, plan.space, own)
        tokens += vector.tokens
    found = await _search(embedder, retriever, query, vector, own)
    return Retrieved(found.hits, found.vector, tokens + found.embedding_tokens, plan)


async def embed_and_search(embedder: Embedder, retriever: Retriever, query: Query, own: Chosen) -> Retrieved:
    """Embeds, unless the mode needs no vector, and searches."""
    if query.mode is SearchMode.LEXICAL:
        return Retrieved(tuple(await retriever.search(_search_query(query, None))), None, 0)
    vector = await embedder.embed_question(query.text, provider=own.embedding)
    found = await _search(embedder, retriever, query, vector, own)
    return Retrieved(found.hits, found.vector, vector.tokens + found.embedding_tokens)


async def rerank(
    embedder: Embedder, question: str, hits: Sequence[Hit], top_n: int, own: Chosen, *, dispensable: bool = False
) -> tuple[Hit, ...]:
    """Puts hits into the order of a rerank model, and keeps the best `top_n`; with less time if it's `dispensable`."""
    if not hits:
        return ()
    texts = [hit.chunk.text for hit in hits]
    headings = [_heading(hit) for hit in hits]
    scores = await embedder.rerank(
        question, texts, top_n, own.rerank, _first_scores(hits), headings, dispensable=dispensable
    )
    return tuple(replace(hits[score.index], rerank_score=score.score) for score in scores)


def _heading(hit: Hit) -> str:
    """What a rerank model reads above a chunk: title and headings, as when it was embedded."""
    chunk = hit.chunk
    headings = [name for name in chunk.section.split(" > ") if name != chunk.title]
    return "\n".join(part for part in (chunk.title, " > ".join(headings)) if part)


def _first_scores(hits: Sequence[Hit]) -> list[float]:
    """The scores of the search, on the scale of a hybrid one; what is there for its recency has the lowest."""
    ranked = [hit for hit in hits if not hit.recent]
    # Of words alone, the best text usually has about half of the question, which counts half in a hybrid search.
    by_words = all(hit.similarity is None for hit in ranked)
    scale = 0.25 / max((hit.score for hit in ranked), default=1.0) if by_words and ranked else 1.0
    lowest = min((hit.score for hit in ranked), default=0.0)
    return [scale * (lowest if hit.recent else hit.score) for hit in hits]


async def _whole_items(retriever: Retriever, scope: Scope, plan: Plan, max_tokens: int | None) -> Retrieved:
    if max_tokens is None:
        raise ValueError("long context needs a budget")
    context = await retriever.get_context(scope, max_tokens)
    return Retrieved(tuple(Hit(chunk, 0.0) for chunk in context.chunks), None, 0, plan, context.counts)


async def both(first: Awaitable[A], second: Awaitable[B]) -> tuple[A, B]:
    """Runs both at the same time; the first failure stops the other, and no task is left behind."""
    tasks = (asyncio.ensure_future(first), asyncio.ensure_future(second))
    try:
        one, two = await asyncio.gather(*tasks)
    except BaseException:
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)
        raise
    return one, two


async def _search(embedder: Embedder, retriever: Retriever, query: Query, vector: Vector, own: Chosen) -> Retrieved:
    """Searches; `embedding_tokens` of the result is only what this step added."""
    try:
        return Retrieved(tuple(await retriever.search(_search_query(query, vector))), vector, 0)
    except FailedPrecondition as exc:
        if exc.reason != "SPACE_MISMATCH":
            raise
        current = _current_space(exc)
        if current is None:
            return Retrieved((), vector, 0)  # no space is live: nothing was ever embedded, so nothing can be found
        if current == vector.space:
            raise
        # The live space changed between planning and searching, or the caller skipped planning.
        again = await _embed_in(embedder, query.text, current, own)
        return Retrieved(tuple(await retriever.search(_search_query(query, again))), again, again.tokens)


async def _embed_in(embedder: Embedder, question: str, space: Space, own: Chosen) -> Vector:
    """Embeds with the operator's model of a space: the tenant's own provider, if there is one, has another."""
    if own.only_own:
        raise _not_served(space)
    try:
        vector = await embedder.embed_question(question, space)
    except NotFound as exc:
        raise _not_served(space) from exc
    if vector.space != space:
        # The embedder has the model by name, but with other weights: its vectors mean nothing there.
        raise _not_served(space)
    return vector


def _not_served(space: Space) -> CitewireError:
    log.error("space_not_served", model=space.model, revision=space.revision, dimensions=space.dimensions)
    return Unavailable(
        f"the library was embedded with {space.model}, which the embedder doesn't offer now",
        reason="MODEL_NOT_FOUND",
        metadata={"model": space.model},
        retry_after=30.0,
    )


def _current_space(exc: CitewireError) -> Space | None:
    try:
        return Space(exc.metadata["model"], exc.metadata["revision"], int(exc.metadata["dimensions"]))
    except (KeyError, ValueError):
        return None


def _search_query(query: Query, vector: Vector | None) -> SearchQuery:
    # A dense search needs no text, which may be long.
    text = "" if query.mode is SearchMode.DENSE else query.question
    return SearchQuery(
        scope=query.scope,
        mode=query.mode,
        query=text,
        vector=vector,
        top_k=query.top_k,
        min_score=query.min_score,
        min_score_calibrated=query.min_score_calibrated,
        by_document=query.by_document,
        recent=query.recent,
        dense_weight=query.dense_weight,
        fuse_by_rank=query.fuse_by_rank,
        diversity=query.diversity,
        keep_duplicates=query.keep_duplicates,
    )
