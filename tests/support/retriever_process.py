"""A retriever on a free port inside the test's event loop, and a client for it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, aclosing, asynccontextmanager
from dataclasses import dataclass
from typing import Any, TypeVar, cast

import grpc
from citewire.retriever.v1 import corpus_pb2
from citewire.retriever.v1.corpus_pb2_grpc import CorpusServiceStub
from citewire.retriever.v1.retriever_pb2_grpc import RetrieverServiceStub
from grpc_health.v1 import health_pb2, health_pb2_grpc

from callers import KEYED, signed_channel
from citewire_kit import client
from citewire_kit.server import GrpcServer
from citewire_kit.tenant import Tenant, use_tenant
from citewire_retriever.app import start
from citewire_retriever.settings import RetrieverSettings
from databases import HasDsn

Req = TypeVar("Req")
Res = TypeVar("Res")


@dataclass(frozen=True, slots=True)
class Retriever:
    """A running retriever and its stubs."""

    server: GrpcServer
    corpus: CorpusServiceStub
    retriever: RetrieverServiceStub
    health: health_pb2_grpc.HealthStub

    async def wait_for(self, status: health_pb2.HealthCheckResponse.ServingStatus) -> None:
        """Waits until the health service reports a status."""
        stub = cast("Any", self.health)  # its type stubs know only Check
        watch = stub.Watch(health_pb2.HealthCheckRequest(), timeout=30)
        async for response in watch:
            if response.status == status:
                watch.cancel()
                return
        raise AssertionError("the health watch ended")

    async def in_flight(self, calls: int) -> None:
        """Waits until this many calls are being handled."""
        async with asyncio.timeout(5):
            while self.server.in_flight != calls:  # noqa: ASYNC110 - the server announces no call
                await asyncio.sleep(0.01)


@dataclass(frozen=True, slots=True)
class Caller:
    """Calls a retriever as one tenant; errors come as `CitewireError`."""

    running: Retriever
    tenant: Tenant

    async def unary(self, method: grpc.aio.UnaryUnaryMultiCallable[Req, Res], request: Req) -> Res:
        """Calls a unary method."""
        with use_tenant(self.tenant):
            return await client.unary(method, request, timeout=20)

    async def upload(self, header: corpus_pb2.UploadHeader, *parts: bytes) -> corpus_pb2.Document:
        """Uploads a file in these parts."""

        async def messages() -> AsyncGenerator[corpus_pb2.UploadDocumentRequest, None]:
            yield corpus_pb2.UploadDocumentRequest(header=header)
            for part in parts:
                yield corpus_pb2.UploadDocumentRequest(data=part)

        with use_tenant(self.tenant):
            method = self.running.corpus.UploadDocument
            return (await client.client_stream(method, messages(), timeout=60)).document

    async def stream(self, method: grpc.aio.UnaryStreamMultiCallable[Req, Res], request: Req) -> list[Res]:
        """Reads a stream to its end."""
        with use_tenant(self.tenant):
            async with aclosing(client.stream(method, request, timeout=60)) as responses:
                return [response async for response in responses]

    async def put(self, title: str = "Title", **fields: object) -> corpus_pb2.Document:
        """Stores typed text."""
        values: dict[str, Any] = {"type": "article", "content": "# Words", "title": title, **fields}
        request = corpus_pb2.PutDocumentRequest(**values)
        return (await self.unary(self.running.corpus.PutDocument, request)).document

    async def get(self, document_id: int) -> corpus_pb2.Document:
        """Gets a document."""
        request = corpus_pb2.GetDocumentRequest(document_id=document_id)
        return (await self.unary(self.running.corpus.GetDocument, request)).document


@asynccontextmanager
async def running_retriever(database: HasDsn, **settings: object) -> AsyncGenerator[Retriever, None]:
    """Runs a retriever as the application role until the block ends; it is SERVING from the beginning."""
    built = RetrieverSettings.model_validate(
        {
            "port": 0,
            "metrics_port": 0,
            "auth": "keys",
            "dsn": database.dsn("citewire_corpus"),
            "leave_seconds": 0,
            "drain_seconds": 1,
            **KEYED,
            "health_seconds": 0.1,
            **settings,
        }
    )
    async with AsyncExitStack() as stack:
        server = await start(stack, built)
        stack.push_async_callback(server.drain_and_stop)
        channel: grpc.aio.Channel = signed_channel(f"127.0.0.1:{server.port}")
        stack.push_async_callback(channel.close)
        # Health is checked over a channel that doesn't itself avoid NOT_SERVING servers.
        plain = grpc.aio.insecure_channel(f"127.0.0.1:{server.port}")
        stack.push_async_callback(plain.close)
        running = Retriever(
            server, CorpusServiceStub(channel), RetrieverServiceStub(channel), health_pb2_grpc.HealthStub(plain)
        )
        await running.wait_for(health_pb2.HealthCheckResponse.SERVING)
        yield running
