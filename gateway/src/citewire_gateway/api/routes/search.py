"""`POST /v1/search`, chunks by id, and `POST /v1/verify`."""

from functools import partial
from itertools import chain, repeat
from typing import Annotated

from citewire.retriever.v1 import retriever_pb2
from fastapi import APIRouter, Depends, Response
from pydantic import MISSING

from citewire_accounts.api.dependencies import TenantDep, authenticate
from citewire_accounts.tenants.providers import ProviderType
from citewire_dialects.schemas.search import (
    Chunk,
    RerankSummary,
    SearchBody,
    SearchResult,
    SearchResults,
    SearchUsage,
    Verification,
    VerifyBody,
)
from citewire_gateway.api.dependencies import ServicesDep, read_id
from citewire_gateway.chat.retrieval import Retrieval, embed_and_search, rerank
from citewire_gateway.settings import GatewaySettings
from citewire_http.api.openapi import problems
from citewire_http.bodies import JsonBody
from citewire_http.departures import CancellingRoute
from citewire_kit.audit import touch
from citewire_kit.errors import NotFound, Violations

router = APIRouter(route_class=CancellingRoute, tags=["search"], dependencies=[Depends(authenticate)])


@router.post(
    "/v1/search",
    summary="Search chunks or documents",
    response_model=SearchResults,
    response_description="The best matches, best first.",
    responses=problems(402, 404, 503),
)
async def search(
    tenant: TenantDep, services: ServicesDep, body: Annotated[SearchBody, Depends(JsonBody(SearchBody))]
) -> Response:
    """Returns the best matches in the order of their `rank_score`; `score` is their cosine similarity."""
    violations = Violations()
    require_query(violations, body.query, services.settings)
    plain = body.mode != "lexical" or not body.diversity
    violations.require(plain, "diversity", "must be 0 in lexical mode, which has no vectors")
    violations.require(
        not (body.rerank and body.diversity), "diversity", "must be 0 with rerank, which orders by relevance"
    )
    violations.require(body.rerank or body.rerank_seconds is None, "rerank_seconds", "has no meaning without rerank")
    violations.raise_if_any()
    if body.document_ids == [] and not body.collection:  # nothing is selected, so nothing is found
        return _response([], body, Retrieval())
    route = await services.providers.route(tenant, _needed(body))
    retrieval = await embed_and_search(services.embedder, services.retriever, body.to_proto(), body.query, route)
    read_result = partial(SearchResult.from_proto, described="metadata" in body.include)
    if body.rerank:
        seconds = services.settings.search_rerank_seconds if body.rerank_seconds is None else body.rerank_seconds
        ranking = await rerank(services.embedder, body.query, retrieval.results, body.top_k, route, seconds)
        results = list(map(read_result, ranking.results, chain(ranking.scores, repeat(None))))
        summary = RerankSummary(candidates=ranking.candidates, ranked=ranking.scored)
        return _response(results, body, retrieval, summary)
    results = list(map(read_result, retrieval.results))
    return _response(results, body, retrieval)


@router.get(
    "/v1/chunks/{chunk_id}",
    summary="Open a citation's exact place",
    response_description="The chunk, with its place in its document.",
    responses=problems(404),
)
async def get_chunk(chunk_id: str, services: ServicesDep) -> Chunk:
    """Returns a chunk, even one of a superseded version while that is stored."""
    number = read_id(chunk_id)
    if number is None:
        raise NotFound(f"there is no chunk {chunk_id[:64]}", reason="CHUNK_NOT_FOUND")
    response = await services.retriever.get_chunks(retriever_pb2.GetChunksRequest(chunk_ids=[number]))
    touch(f"document:{response.chunks[0].document_id}")
    return Chunk.read(response.chunks[0])


@router.post(
    "/v1/verify",
    summary="Verify an answer",
    response_description="Each cited sentence with its quote and verdict.",
    responses=problems(503),
)
async def verify(services: ServicesDep, body: Annotated[VerifyBody, Depends(JsonBody(VerifyBody))]) -> Verification:
    """Compares the sentences of an answer from any system with the passages that they cite.

    No model is called, and nothing is stored.
    """
    return Verification.read(await services.generator.verify(body.to_proto()))


def require_query(violations: Violations, query: str, settings: GatewaySettings) -> None:
    """Adds the violations of a query."""
    if violations.require(bool(query.strip()), "query", "must not be empty"):
        limit = settings.max_question_bytes
        violations.require(len(query.encode()) <= limit, "query", f"must be at most {limit} bytes long")


def _response(
    results: list[SearchResult], body: SearchBody, retrieval: Retrieval, reranking: RerankSummary | MISSING = MISSING
) -> Response:
    touch(*(f"document:{result.document_id}" for result in results))
    response = SearchResults(
        results=results,
        off_topic=retrieval.off_topic,
        topic_margin=MISSING if retrieval.topic_margin is None else round(retrieval.topic_margin, 4),
        mode=body.mode,
        rerank=reranking,
        usage=SearchUsage(embedding_tokens=retrieval.embedding_tokens),
    )
    # Straight to bytes: up to 200 results with their texts.
    return Response(response.model_dump_json(), media_type="application/json")


def _needed(body: SearchBody) -> set[ProviderType]:
    needed = set[ProviderType]() if body.mode == "lexical" else {ProviderType.EMBEDDING}
    return needed | {ProviderType.RERANK} if body.rerank else needed
