"""The health that an embedder reports while its model loads, fails and recovers."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager

import grpc
import pytest
from citewire.common.v1.common_pb2 import EmbeddingSpace
from citewire.embedder.v1 import embedder_pb2 as pb
from grpc_health.v1 import health_pb2

from citewire_embedder.app import start
from citewire_embedder.servicer import SERVICE_NAME
from citewire_kit.errors import Code, StartupError
from embedder_server import RunningEmbedder, make_settings, refusal, running_embedder_server
from fake_embedding import DIMENSIONS, FakeModel
from local_ports import free_port

SERVING = health_pb2.HealthCheckResponse.SERVING
NOT_SERVING = health_pb2.HealthCheckResponse.NOT_SERVING
SPACE = EmbeddingSpace(model="fake", revision="r1", dimensions=DIMENSIONS)


@pytest.fixture
async def running() -> AsyncGenerator[RunningEmbedder]:
    async with running_embedder_server(FakeModel()) as server:
        yield server


@asynccontextmanager
async def health_states(port: int | None) -> AsyncGenerator[Callable[[], Awaitable[int]]]:
    """Watches a server's health; each call of the yielded function waits for the next state."""
    # A separate channel without health checking: ours makes no calls to a server that isn't serving.
    async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
        watch: grpc.aio.UnaryStreamMultiCallable[health_pb2.HealthCheckRequest, health_pb2.HealthCheckResponse]
        watch = channel.unary_stream(
            "/grpc.health.v1.Health/Watch",
            request_serializer=health_pb2.HealthCheckRequest.SerializeToString,
            response_deserializer=health_pb2.HealthCheckResponse.FromString,
        )
        call = watch(health_pb2.HealthCheckRequest(service=SERVICE_NAME), timeout=10)

        async def next_state() -> int:
            message = await call.read()
            assert isinstance(message, health_pb2.HealthCheckResponse)
            return message.status

        try:
            yield next_state
        finally:
            call.cancel()


async def test_health_follows_the_model(running: RunningEmbedder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("citewire_embedder.service._PROBE_SECONDS", 0.01)
    async with health_states(running.server.port) as next_state:
        assert await next_state() == SERVING
        running.model.error = RuntimeError("broken")
        error = await refusal(running, pb.EmbedRequest(inputs=["a"]))
        assert (error.code, error.reason) == (Code.INTERNAL, "INTERNAL")
        assert "broken" not in error.message
        assert await next_state() == NOT_SERVING
        running.model.error = None
        assert await next_state() == SERVING
    assert (await running.embed(pb.EmbedRequest(inputs=["a"]))).space == SPACE


class SlowModel(FakeModel):
    """A model that finishes loading when the test says so."""

    def __init__(self) -> None:
        super().__init__()
        self.may_load = asyncio.Event()
        self.loading = asyncio.Event()
        self.problem: StartupError | None = None

    async def load(self) -> None:
        self.loading.set()
        await self.may_load.wait()
        if self.problem is not None:
            raise self.problem


async def test_the_server_is_not_serving_while_the_model_is_being_loaded() -> None:
    model = SlowModel()
    settings = make_settings(port=free_port())
    async with AsyncExitStack() as stack:
        starting = asyncio.create_task(start(stack, settings, model))
        await model.loading.wait()
        next_state = await stack.enter_async_context(health_states(settings.port))
        assert await next_state() == NOT_SERVING
        model.may_load.set()
        server = await starting
        stack.push_async_callback(server.drain_and_stop)
        assert await next_state() == SERVING


async def test_a_model_that_cannot_be_loaded_ends_the_start_and_frees_the_port() -> None:
    model = SlowModel()
    model.problem = StartupError("the model has no tensor 'x'")
    model.may_load.set()
    settings = make_settings(port=free_port())
    async with AsyncExitStack() as stack:
        with pytest.raises(StartupError, match="no tensor 'x'"):
            await start(stack, settings, model)
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", settings.port))
