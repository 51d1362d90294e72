# ruff: noqa: N802, D102 - the RPCs' names are those of the proto, and their descriptions are there
"""The gRPC face of the embedder: converts, calls the domain, converts back. Errors are kit's interceptors' work."""

from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from typing import Any, TypeAlias

import grpc
from citewire.embedder.v1 import embedder_pb2 as pb
from citewire.embedder.v1 import embedder_pb2_grpc as pb_grpc

from citewire_embedder import converters
from citewire_embedder.batches import EmbedBatch
from citewire_embedder.reranking import Reranker
from citewire_embedder.service import Embedder
from citewire_kit.tenant import current_tenant
from citewire_remote.converters import provider_from_proto, sealed_from_proto
from citewire_remote.kinds import PROVIDER_TYPES, ProviderType
from citewire_remote.tenant_providers import TestCall, Vault

SERVICE_NAME = "citewire.embedder.v1.EmbedderService"

Context: TypeAlias = "grpc.aio.ServicerContext[Any, Any]"  # generic only in the type stubs


class EmbedderServicer(pb_grpc.EmbedderServiceServicer):
    """Serves `citewire.embedder.v1.EmbedderService`; the RPCs are described in its proto."""

    def __init__(self, embedder: Embedder, vault: Vault, reranker: Reranker) -> None:
        self._embedder = embedder
        self._vault = vault
        self._reranker = reranker

    async def Embed(self, request: pb.EmbedRequest, context: Context) -> pb.EmbedResponse:
        batch = converters.batch_from_proto(request, current_tenant().org_id)
        return converters.result_to_proto(await self._embedder.embed(batch))

    async def EmbedStream(
        self, request_iterator: AsyncIterator[pb.EmbedStreamRequest], context: Context
    ) -> AsyncGenerator[pb.EmbedStreamResponse]:
        org_id = current_tenant().org_id
        ids: deque[int] = deque()

        async def batches() -> AsyncGenerator[EmbedBatch]:
            async for request in request_iterator:
                batch = converters.batch_from_proto(request.batch, org_id, prefix="batch.")
                ids.append(request.batch_id)
                yield batch

        async with aclosing(self._embedder.embed_stream(batches())) as results:
            async for result in results:
                yield pb.EmbedStreamResponse(batch_id=ids.popleft(), batch=converters.result_to_proto(result))

    async def Rerank(self, request: pb.RerankRequest, context: Context) -> pb.RerankResponse:
        converters.check_rerank(request)
        return converters.ranking_to_proto(*await self._reranker.rerank(request, current_tenant().org_id))

    async def CountTokens(self, request: pb.CountTokensRequest, context: Context) -> pb.CountTokensResponse:
        converters.check_count_tokens(request)
        provider = request.provider if request.HasField("provider") else None
        return converters.counts_to_proto(await self._embedder.count_tokens(request.inputs, request.model, provider))

    async def ListModels(self, request: pb.ListModelsRequest, context: Context) -> pb.ListModelsResponse:
        return converters.models_to_proto(self._embedder.models(), self._reranker.models())

    async def SealProvider(self, request: pb.SealProviderRequest, context: Context) -> pb.SealProviderResponse:
        provider = provider_from_proto(request.spec, converters.PROVIDER_TYPES)
        test = None if request.spec.skip_test else self._test_call(provider.type)
        ref, report, space = await self._vault.seal(provider, test)
        return pb.SealProviderResponse(ref=ref, test=report, space=space)

    async def RewrapProvider(self, request: pb.RewrapProviderRequest, context: Context) -> pb.RewrapProviderResponse:
        ref, changed = self._vault.rewrap(sealed_from_proto(request.ref, converters.PROVIDER_TYPES))
        return pb.RewrapProviderResponse(ref=ref, changed=changed)

    async def TestProvider(self, request: pb.TestProviderRequest, context: Context) -> pb.TestProviderResponse:
        ref = sealed_from_proto(request.ref, converters.PROVIDER_TYPES)
        test = self._test_call(PROVIDER_TYPES.from_proto(ref.type))
        return pb.TestProviderResponse(test=await self._vault.test(ref, test))

    def _test_call(self, type_: ProviderType | None) -> TestCall:
        return self._embedder.test_provider if type_ is ProviderType.EMBEDDING else self._reranker.test_provider
