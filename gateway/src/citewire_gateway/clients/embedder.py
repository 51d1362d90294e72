"""The embedder, as the gateway calls it, and the sealing of tenants' providers."""

from collections.abc import Sequence

import grpc
from citewire.common.v1 import common_pb2
from citewire.embedder.v1 import embedder_pb2, embedder_pb2_grpc
from citewire.generator.v1 import generator_pb2, generator_pb2_grpc

from citewire_kit import client
from citewire_kit.arrivals import begin_turn
from citewire_kit.fair_calls import FairCalls

_GRACE_SECONDS = 0.5
"""Extra wait after a budget, because a late partial result is better than none."""


class Embedder:
    """Embeds and reranks. All methods raise `CitewireError`."""

    def __init__(
        self, channel: grpc.aio.Channel, calls: FairCalls, *, embed_seconds: float, request_seconds: float
    ) -> None:
        """Sets the maximum durations of calls; a call never gets more time than its request has left."""
        self._calls = calls
        self._stub = embedder_pb2_grpc.EmbedderServiceStub(channel)
        self._embed_seconds = embed_seconds
        self._request_seconds = request_seconds

    async def embed(self, request: embedder_pb2.EmbedRequest, *, patient: bool = False) -> embedder_pb2.EmbedResponse:
        """Embeds texts."""
        timeout = self._request_seconds if patient else self._embed_seconds
        return await self._calls.unary(self._stub.Embed, request, timeout=timeout)

    async def rerank(self, request: embedder_pb2.RerankRequest) -> embedder_pb2.RerankResponse:
        """Scores texts by their relevance to a question, best first: within the request's budget, if it has one."""
        timeout = self._request_seconds
        if request.HasField("budget"):
            timeout = request.budget.ToTimedelta().total_seconds() + _GRACE_SECONDS
        return await self._calls.unary(self._stub.Rerank, request, timeout=timeout)

    async def list_models(self) -> Sequence[embedder_pb2.Model]:
        """Lists the operator's models, the default first."""
        request = embedder_pb2.ListModelsRequest()
        return (await client.unary(self._stub.ListModels, request, timeout=self._request_seconds)).models


class ProviderSealer:
    """Has a provider sealed by the service that calls it: the generator for chats, the embedder for others.

    All methods raise `CitewireError`.
    """

    def __init__(self, embedder: grpc.aio.Channel, generator: grpc.aio.Channel, *, seconds: float) -> None:
        """`seconds`: maximum duration of a call, including the test call to the provider."""
        self._embedder = embedder_pb2_grpc.EmbedderServiceStub(embedder)
        self._generator = generator_pb2_grpc.GeneratorServiceStub(generator)
        self._seconds = seconds

    async def seal(self, spec: common_pb2.ProviderSpec) -> embedder_pb2.SealProviderResponse:
        """Tests a provider, unless told not to, and seals its key and address.

        Raises:
            InvalidArgument: A field is invalid, or the address isn't allowed (`PROVIDER_ADDRESS`).
        """
        begin_turn()
        if spec.type != common_pb2.PROVIDER_TYPE_CHAT:
            request = embedder_pb2.SealProviderRequest(spec=spec)
            return await client.unary(self._embedder.SealProvider, request, timeout=self._seconds)
        chat_request = generator_pb2.SealProviderRequest(spec=spec)
        response = await client.unary(self._generator.SealProvider, chat_request, timeout=self._seconds)
        return embedder_pb2.SealProviderResponse(ref=response.ref, test=response.test)

    async def rewrap(self, ref: common_pb2.ProviderRef) -> common_pb2.ProviderRef | None:
        """Seals the same provider under the newest master key; None if it already was."""
        if ref.type == common_pb2.PROVIDER_TYPE_CHAT:
            chat_request = generator_pb2.RewrapProviderRequest(ref=ref)
            chat_response = await client.unary(self._generator.RewrapProvider, chat_request, timeout=self._seconds)
            return chat_response.ref if chat_response.changed else None
        request = embedder_pb2.RewrapProviderRequest(ref=ref)
        response = await client.unary(self._embedder.RewrapProvider, request, timeout=self._seconds)
        return response.ref if response.changed else None

    async def test(self, ref: common_pb2.ProviderRef) -> common_pb2.ProviderTest:
        """Makes one small call to a sealed provider."""
        begin_turn()
        if ref.type == common_pb2.PROVIDER_TYPE_CHAT:
            chat_request = generator_pb2.TestProviderRequest(ref=ref)
            return (await client.unary(self._generator.TestProvider, chat_request, timeout=self._seconds)).test
        request = embedder_pb2.TestProviderRequest(ref=ref)
        return (await client.unary(self._embedder.TestProvider, request, timeout=self._seconds)).test
