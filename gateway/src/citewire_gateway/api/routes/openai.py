"""Routes for the clients of OpenAI, Cohere and Jina: chat completions, embeddings, models, rerank."""

import base64
import struct
from typing import Annotated

from citewire.embedder.v1 import embedder_pb2
from fastapi import APIRouter, Depends, Response
from fastapi.responses import JSONResponse
from pydantic import MISSING

from citewire_accounts.api.dependencies import TenantDep, authenticate
from citewire_accounts.tenants.providers import ProviderType
from citewire_dialects.dialect import ChatDialect
from citewire_dialects.openai_chat import OpenAiAnswer, OpenAiStream
from citewire_dialects.openai_requests import read_completion
from citewire_dialects.schemas.openai import CompletionRequest
from citewire_dialects.schemas.openai_answers import Completion
from citewire_dialects.schemas.vectors import (
    Embedding,
    Embeddings,
    EmbeddingsRequest,
    EmbeddingUsage,
    ModelInfo,
    ModelList,
    RerankBody,
    RerankDocument,
    RerankResult,
    RerankResults,
)
from citewire_gateway.api.chat_requests import ChatCallDep
from citewire_gateway.api.dependencies import ServicesDep
from citewire_gateway.chat.run import CHARS_PER_TOKEN
from citewire_gateway.profiles.store import profile_key
from citewire_http.api.openapi import event_stream, problems
from citewire_http.api.pages import PagesDep
from citewire_http.bodies import JsonBody
from citewire_http.departures import CancellingRoute
from citewire_kit.plan_limits import Measure
from citewire_kit.tenant import current_request_id
from citewire_kit.turns import in_turn

router = APIRouter(route_class=CancellingRoute, tags=["compatible"], dependencies=[Depends(authenticate)])

_OWNER = "citewire"
_EMBEDDED_AT_ONCE = 256
"""Maximum number of texts per call to the embedder."""
_CREATED = 1_767_225_600
"""Models have no date of their own: the first day of 2026."""


@router.post(
    "/v1/chat/completions",
    summary="Ask a question (OpenAI)",
    response_model=Completion,
    response_description="A stream, or without `stream` one `chat.completion`.",
    responses={
        200: {
            "content": event_stream(
                "CompletionFrame",
                "`chat.completion.chunk` objects, then `[DONE]`. Markers stay visible, and a list of sources follows "
                "the text; the last delta has `annotations`. If the answer fails, the stream ends with an `error` "
                "object instead of `[DONE]`.",
            )
        },
        **problems(402, 404, 409, 503),
    },
)
async def complete(
    call: ChatCallDep, body: Annotated[CompletionRequest, Depends(JsonBody(CompletionRequest))]
) -> Response:
    """OpenAI's chat completions; `model` names a profile, optionally with a chat model after a slash."""
    profile = await call.find_profile(body.profile)
    asked = read_completion(body)
    completion_id, structured = f"chatcmpl-{current_request_id()}", asked.passed_on.HasField("format")
    dialect: ChatDialect = OpenAiAnswer(completion_id, body.model, call.url_of, structured=structured)
    if body.stream:
        usage = body.stream_options.include_usage
        dialect = OpenAiStream(completion_id, body.model, call.url_of, include_usage=usage, structured=structured)
    return await call.answer(body, profile, body.native(keep=body.store), dialect, asked)


@router.get("/v1/models", summary="List profiles as models (OpenAI)")
async def list_models(tenant: TenantDep, services: ServicesDep, pages: PagesDep) -> ModelList:
    """Returns the profiles, each as a model; `q` searches names."""
    profiles = [profile for profile, _ in await services.profiles.list(tenant)]
    page, token = pages.page(profiles, key=profile_key, text=lambda profile: profile.name)
    return ModelList(object="list", data=[_model(profile.name) for profile in page], next_page_token=token)


@router.get("/v1/models/{name}", summary="Get a profile as a model (OpenAI)", responses=problems(404))
async def get_model(name: str, tenant: TenantDep, services: ServicesDep) -> ModelInfo:
    """Returns one profile."""
    return _model((await services.profiles.find(tenant, name)).name)


@router.post(
    "/v1/embeddings", summary="Embed texts (OpenAI)", response_model=Embeddings, responses=problems(402, 404, 503)
)
async def embed(
    tenant: TenantDep, services: ServicesDep, body: Annotated[EmbeddingsRequest, Depends(JsonBody(EmbeddingsRequest))]
) -> Response:
    """Returns a vector per text, in order."""
    route = await services.providers.route(tenant, {ProviderType.EMBEDDING})
    query = body.input_type == "query"
    texts = await in_turn(body.texts) if body.has_tokens else body.texts()
    taken = await services.limiter.take(tenant, Measure.TOKENS, sum(map(len, texts)) // CHARS_PER_TOKEN)
    rows, tokens, model = list[bytes](), 0, ""
    for start in range(0, len(texts), _EMBEDDED_AT_ONCE):
        request = embedder_pb2.EmbedRequest(
            inputs=texts[start : start + _EMBEDDED_AT_ONCE],
            purpose=embedder_pb2.PURPOSE_QUERY if query else embedder_pb2.PURPOSE_DOCUMENT,
            model=body.model or "",
            dimensions=body.dimensions,
            provider=None if body.model else route.embedding,
        )
        response = await services.embedder.embed(request, patient=True)
        size = response.space.dimensions * 4
        rows += [response.vectors[at : at + size] for at in range(0, len(response.vectors), size)]
        tokens += response.usage.input_tokens
        model = response.space.model
    await services.limiter.settle(taken, tokens)
    # Built without validation, which would check every number of every vector.
    data = [
        Embedding.model_construct(object="embedding", index=number, embedding=_vector(row, body.encoding_format))
        for number, row in enumerate(rows)
    ]
    usage = EmbeddingUsage(prompt_tokens=tokens, total_tokens=tokens)
    embeddings = Embeddings.model_construct(object="list", data=data, model=model, usage=usage)
    return JSONResponse(embeddings.model_dump())


@router.post("/v1/rerank", summary="Order texts by relevance (Cohere, Jina)", responses=problems(402, 404, 503))
@router.post("/v2/rerank", include_in_schema=False)  # where Cohere's newer clients ask
async def order(
    tenant: TenantDep, services: ServicesDep, body: Annotated[RerankBody, Depends(JsonBody(RerankBody))]
) -> RerankResults:
    """Returns the texts' indices with their relevance, best first."""
    route = await services.providers.route(tenant, {ProviderType.RERANK})
    texts = body.texts()
    request = embedder_pb2.RerankRequest(
        query=body.query,
        documents=texts,
        model=body.model or "",
        top_n=min(body.top_n or len(texts), len(texts)),
        provider=None if body.model else route.rerank,
    )
    response = await services.embedder.rerank(request)
    results = [
        RerankResult(
            index=ranked.index,
            relevance_score=ranked.score,
            document=RerankDocument(text=texts[ranked.index]) if body.return_documents else MISSING,
        )
        for ranked in response.results
    ]
    return RerankResults(id=current_request_id(), model=body.model or "default", results=results)


def _model(name: str) -> ModelInfo:
    return ModelInfo(id=name, object="model", created=_CREATED, owned_by=_OWNER)


def _vector(row: bytes, encoding: str) -> list[float] | str:
    if encoding == "base64":
        return base64.b64encode(row).decode()
    return list(struct.unpack(f"<{len(row) // 4}f", row))
