"""`POST /v1/search`, and chunks by id."""

from typing import Annotated

from fastapi import APIRouter, Depends, Response
from fastapi.responses import JSONResponse

from citewire_gateway.api.dependencies import ServicesDep, TenantDep, authenticate
from citewire_gateway.api.filters import parse_filter
from citewire_gateway.api.library_docs import chunk_docs, search_docs
from citewire_gateway.api.schemas import SearchBody
from citewire_gateway.api.wire import chunk_json, hit_json
from citewire_gateway.chat.retrieval import Query, embed_and_search, rerank
from citewire_gateway.clients.domain import MAX_ID, Scope, SearchMode
from citewire_gateway.http.bodies import json_body
from citewire_gateway.tenants.providers import ProviderType
from citewire_kit.errors import NotFound, Violations

router = APIRouter(tags=["search"], dependencies=[Depends(authenticate)])

_RERANKED = 40
"""Candidates that a rerank model orders, at least."""


@router.post("/v1/search", summary="Search chunks or documents", **search_docs())
async def search(
    tenant: TenantDep,
    services: ServicesDep,
    body: Annotated[SearchBody, Depends(json_body(SearchBody))],
) -> Response:
    """Returns the best matches, best first; `score` orders within one mode only."""
    found = Violations()
    if found.require(bool(body.query.strip()), "query", "must not be empty"):
        limit = services.settings.max_question_bytes
        found.require(len(body.query.encode()) <= limit, "query", f"must be at most {limit} bytes long")
    plain = body.mode != "lexical" or not body.diversity
    found.require(plain, "diversity", "must be 0 in lexical mode, which has no vectors")
    found.require(not (body.rerank and body.diversity), "diversity", "must be 0 with rerank, which orders by relevance")
    found.raise_if_any()
    scope = Scope(
        document_ids=None if body.document_ids is None else tuple(body.document_ids),
        collection=body.collection or "",
        filter=None if body.filter is None else parse_filter(body.filter),
    )
    if scope.document_ids == ():  # nothing is selected, so nothing is found
        return JSONResponse({"results": [], "mode": body.mode, "usage": {"embedding_tokens": 0}})
    query = Query(
        question=body.query,
        scope=scope,
        mode=SearchMode(body.mode),
        top_k=max(body.top_k, _RERANKED) if body.rerank else body.top_k,
        min_score=body.min_score,
        by_document=body.group_by == "document",
        dense_weight=body.dense_weight,
        diversity=body.diversity,
        keep_duplicates=body.keep_duplicates,
    )
    own = await services.providers.choose(tenant, _needed(body))
    retrieved = await embed_and_search(services.embedder, services.retriever, query, own)
    hits = retrieved.hits
    if body.rerank:
        hits = await rerank(services.embedder, body.query, hits, body.top_k, own)
    usage = {"embedding_tokens": retrieved.embedding_tokens}
    return JSONResponse({"results": [hit_json(hit) for hit in hits], "mode": body.mode, "usage": usage})


@router.get("/v1/chunks/{chunk_id}", summary="Open a citation's exact place", **chunk_docs())
async def get_chunk(chunk_id: str, _tenant: TenantDep, services: ServicesDep) -> Response:
    """Returns a chunk, also of a superseded version while that is kept."""
    number = int(chunk_id) if chunk_id.isascii() and chunk_id.isdecimal() and len(chunk_id) <= 16 else 0
    if not 1 <= number <= MAX_ID:
        raise NotFound(f"there is no chunk {chunk_id[:64]}", reason="CHUNK_NOT_FOUND")
    return JSONResponse(chunk_json((await services.retriever.get_chunks([number]))[0]))


def _needed(body: SearchBody) -> set[ProviderType]:
    needed = set[ProviderType]() if body.mode == "lexical" else {ProviderType.EMBEDDING}
    return needed | {ProviderType.RERANK} if body.rerank else needed
