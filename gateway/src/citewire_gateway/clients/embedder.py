"""The embedder: what the gateway asks of it, and its client."""

from abc import ABC, abstractmethod

import grpc
from citewire.embedder.v1 import embedder_pb2, embedder_pb2_grpc

from citewire_kit import client


class Embedder(ABC):
    """Embeds and reranks. All methods raise `CitewireError`.

    A call that is `patient` may take as long as its request; any other gets what a chat grants it.
    """

    @abstractmethod
    async def embed(self, request: embedder_pb2.EmbedRequest, *, patient: bool = False) -> embedder_pb2.EmbedResponse:
        """Embeds texts."""

    @abstractmethod
    async def rerank(
        self, request: embedder_pb2.RerankRequest, *, patient: bool = False
    ) -> embedder_pb2.RerankResponse:
        """Scores texts by their relevance to a question, best first."""


class GrpcEmbedder(Embedder):
    """The embedder service."""

    def __init__(
        self, channel: grpc.aio.Channel, *, embed_seconds: float, rerank_seconds: float, request_seconds: float
    ) -> None:
        """Takes the longest calls; a call never gets more than its request has left."""
        self._stub = embedder_pb2_grpc.EmbedderServiceStub(channel)
        self._embed_seconds = embed_seconds
        self._rerank_seconds = rerank_seconds
        self._request_seconds = request_seconds

    async def embed(self, request: embedder_pb2.EmbedRequest, *, patient: bool = False) -> embedder_pb2.EmbedResponse:
        """See `Embedder.embed`."""
        timeout = self._request_seconds if patient else self._embed_seconds
        return await client.unary(self._stub.Embed, request, timeout=timeout)

    async def rerank(
        self, request: embedder_pb2.RerankRequest, *, patient: bool = False
    ) -> embedder_pb2.RerankResponse:
        """See `Embedder.rerank`."""
        timeout = self._request_seconds if patient else self._rerank_seconds
        return await client.unary(self._stub.Rerank, request, timeout=timeout)
