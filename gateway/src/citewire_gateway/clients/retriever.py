"""The retriever's reading side: what the gateway asks of it, and its client."""

from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator
from contextlib import aclosing

import grpc
from citewire.retriever.v1 import retriever_pb2, retriever_pb2_grpc

from citewire_kit import client
from citewire_kit.errors import Unavailable


class Retriever(ABC):
    """Finds chunks. All methods raise `CitewireError`."""

    @abstractmethod
    async def plan(self, request: retriever_pb2.PlanRequest) -> retriever_pb2.PlanResponse:
        """Decides which context path a question takes."""

    @abstractmethod
    async def search(self, request: retriever_pb2.SearchRequest) -> retriever_pb2.SearchResponse:
        """Searches, best first.

        Raises:
            FailedPrecondition: The vector's space isn't served (reason `SPACE_MISMATCH`, the current one in metadata).
            NotFound: The selection holds ids outside the caller's scope; they are named.
        """

    @abstractmethod
    def get_context(
        self, request: retriever_pb2.GetContextRequest
    ) -> AsyncGenerator[retriever_pb2.GetContextResponse, None]:
        """Streams whole items, latest first, as many as fit; the last message has the counts, or it raises."""

    @abstractmethod
    async def get_chunks(self, request: retriever_pb2.GetChunksRequest) -> retriever_pb2.GetChunksResponse:
        """Gets chunks by id, in the order asked."""


class GrpcRetriever(Retriever):
    """The retriever service."""

    def __init__(
        self, channel: grpc.aio.Channel, *, plan_seconds: float, search_seconds: float, request_seconds: float
    ) -> None:
        """Takes the longest calls; a call never gets more than its request has left."""
        self._stub = retriever_pb2_grpc.RetrieverServiceStub(channel)
        self._plan_seconds = plan_seconds
        self._search_seconds = search_seconds
        self._request_seconds = request_seconds

    async def plan(self, request: retriever_pb2.PlanRequest) -> retriever_pb2.PlanResponse:
        """See `Retriever.plan`."""
        return await client.unary(self._stub.Plan, request, timeout=self._plan_seconds)

    async def search(self, request: retriever_pb2.SearchRequest) -> retriever_pb2.SearchResponse:
        """See `Retriever.search`."""
        return await client.unary(self._stub.Search, request, timeout=self._search_seconds)

    async def get_context(
        self, request: retriever_pb2.GetContextRequest
    ) -> AsyncGenerator[retriever_pb2.GetContextResponse, None]:
        """See `Retriever.get_context`."""
        complete = False
        stream = client.stream(self._stub.GetContext, request, timeout=self._request_seconds)
        async with aclosing(stream) as messages:
            async for message in messages:
                complete = complete or message.HasField("counts")
                yield message
        if not complete:
            raise Unavailable(
                "the library's texts broke off before their end", reason="SERVICE_UNAVAILABLE", retry_after=1.0
            )

    async def get_chunks(self, request: retriever_pb2.GetChunksRequest) -> retriever_pb2.GetChunksResponse:
        """See `Retriever.get_chunks`."""
        return await client.unary(self._stub.GetChunks, request, timeout=self._request_seconds)
