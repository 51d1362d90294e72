# ruff: noqa: N802, D102 - the RPCs' names are those of the proto, and their descriptions are there
"""The gRPC face of the embedder: converts, calls the domain, converts back. Errors are kit's interceptors' work."""

from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from typing import Any, TypeAlias

import grpc
from citewire.embedder.v1 import embedder_pb2 as pb
from citewire.embedder.v1 import embedder_pb2_grpc as pb_grpc

from citewire_embedder.converters import (
    from_counts,
    from_models,
    from_ranking,
    from_result,
    from_rewrap,
    from_seal,
    to_batch,
    to_provider,
    to_provider_spec,
    to_rerank,
    to_texts,
)
from citewire_embedder.model import EmbedBatch
from citewire_embedder.own_providers import OwnProviders
from citewire_embedder.reranking import Reranker
from citewire_embedder.service import Embedder
from citewire_kit.tenant import current_tenant

SERVICE_NAME = "citewire.embedder.v1.EmbedderService"

Context: TypeAlias = "grpc.aio.ServicerContext[Any, Any]"  # generic only in the type stubs


class EmbedderServicer(pb_grpc.EmbedderServiceServicer):
    """Serves `citewire.embedder.v1.EmbedderService`; the RPCs are described in its proto."""

    def __init__(self, embedder: Embedder, own: OwnProviders, reranker: Reranker) -> None:
        self._embedder = embedder
        self._own = own
        self._reranker = reranker

    async def Embed(self, request: pb.EmbedRequest, context: Context) -> pb.EmbedResponse:
        batch = to_batch(request, current_tenant().org_id)
        return from_result(await self._embedder.embed(batch))

    async def EmbedStream(
        self, request_iterator: AsyncIterator[pb.EmbedStreamRequest], context: Context
    ) -> AsyncGenerator[pb.EmbedStreamResponse]:
        org_id = current_tenant().org_id
        ids: deque[int] = deque()

        async def batches() -> AsyncGenerator[EmbedBatch]:
            async for request in request_iterator:
                batch = to_batch(request.batch, org_id, prefix="batch.")
                ids.append(request.batch_id)
                yield batch

        async with aclosing(self._embedder.embed_stream(batches())) as results:
            async for result in results:
                yield pb.EmbedStreamResponse(batch_id=ids.popleft(), batch=from_result(result))

    async def Rerank(self, request: pb.RerankRequest, context: Context) -> pb.RerankResponse:
        return from_ranking(*await self._reranker.rerank(to_rerank(request)))

    async def CountTokens(self, request: pb.CountTokensRequest, context: Context) -> pb.CountTokensResponse:
        texts, provider = to_texts(request)
        return from_counts(await self._embedder.count_tokens(texts, request.model, provider))

    async def ListModels(self, request: pb.ListModelsRequest, context: Context) -> pb.ListModelsResponse:
        return from_models(self._embedder.models(), self._reranker.models())

    async def SealProvider(self, request: pb.SealProviderRequest, context: Context) -> pb.SealProviderResponse:
        return from_seal(*await self._own.seal(to_provider_spec(request), test=not request.spec.skip_test))

    async def RewrapProvider(self, request: pb.RewrapProviderRequest, context: Context) -> pb.RewrapProviderResponse:
        return from_rewrap(*self._own.rewrap(to_provider(request)))
