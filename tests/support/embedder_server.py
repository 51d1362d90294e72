"""An embedder on a real gRPC server, with a model that a test can inspect."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass

import pytest
from citewire.embedder.v1 import embedder_pb2 as pb
from citewire.embedder.v1.embedder_pb2_grpc import EmbedderServiceStub

from callers import KEYED, signed_channel
from citewire_embedder.app import start
from citewire_embedder.settings import EmbedderSettings
from citewire_kit import client
from citewire_kit.errors import CitewireError
from citewire_kit.server import GrpcServer
from citewire_kit.settings import Auth
from fake_embedding import FakeModel


@dataclass(frozen=True)
class RunningEmbedder:
    """A server, its model, and a client of it."""

    model: FakeModel
    server: GrpcServer
    stub: EmbedderServiceStub

    async def embed(self, request: pb.EmbedRequest, timeout: float = 10) -> pb.EmbedResponse:
        return await client.unary(self.stub.Embed, request, timeout=timeout)


@asynccontextmanager
async def running_embedder_server(
    model: FakeModel, *, auth: Auth = "off", **options: int
) -> AsyncGenerator[RunningEmbedder]:
    settings = make_settings(auth=auth, **options)
    async with AsyncExitStack() as stack:
        server = await start(stack, settings, model)
        stack.push_async_callback(server.drain_and_stop)
        channel = signed_channel(f"127.0.0.1:{server.port}", local=auth == "off")
        stack.push_async_callback(channel.close)
        yield RunningEmbedder(model, server, EmbedderServiceStub(channel))


def make_settings(**options: object) -> EmbedderSettings:
    defaults = {"port": 0, "metrics_port": 0, "auth": "off", "leave_seconds": 0, "drain_seconds": 2, **KEYED}
    return EmbedderSettings.model_validate({**defaults, **options})


async def refusal(running: RunningEmbedder, request: pb.EmbedRequest) -> CitewireError:
    with pytest.raises(CitewireError) as caught:
        await running.embed(request)
    return caught.value
