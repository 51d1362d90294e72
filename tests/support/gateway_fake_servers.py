"""The scripted services of `gateway_fakes` on real gRPC servers; for contract tests of the gateway."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import grpc
from citewire.embedder.v1 import embedder_pb2_grpc
from citewire.generator.v1 import generator_pb2_grpc
from citewire.retriever.v1 import corpus_pb2_grpc, retriever_pb2_grpc
from google.protobuf import descriptor_pool
from google.protobuf.message import Message

from callers import KEYED
from citewire_kit.errors import Unimplemented
from citewire_kit.server import GrpcServer
from citewire_kit.settings import ServiceSettings
from gateway_fake_corpus import FakeCorpus
from gateway_fakes import FakeEmbedder, FakeGenerator, FakeRetriever


@dataclass
class Fakes:
    """The services, and their servers."""

    embedder: FakeEmbedder = field(default_factory=FakeEmbedder)
    retriever: FakeRetriever = field(default_factory=FakeRetriever)
    corpus: FakeCorpus = field(default_factory=FakeCorpus)
    generator: FakeGenerator = field(default_factory=FakeGenerator)
    servers: dict[str, GrpcServer] = field(default_factory=dict[str, GrpcServer])

    def __post_init__(self) -> None:
        self.retriever.stored = lambda: self.corpus.stored

    def target(self, name: str) -> str:
        """Where a service listens."""
        return f"127.0.0.1:{self.servers[name].port}"

    async def kill(self, name: str) -> None:
        """Stops a service at once, running calls included."""
        stopping = asyncio.ensure_future(self.servers[name].drain_and_stop())
        await asyncio.sleep(0)
        stopping.cancel()
        await asyncio.wait((stopping,))

    async def start(self, name: str, port: int = 0) -> None:
        """Starts a service, on a port if that is given."""
        settings = ServiceSettings(port=port, metrics_port=0, drain_seconds=0.1, leave_seconds=0, **KEYED)
        server = GrpcServer(settings, service=name, stream_window=name == "generator")
        for full_name, register, fake in self._services(name):
            server.add(register, servicer_of(full_name, fake), full_name)
        await server.start()
        server.set_serving(True)
        self.servers[name] = server

    def _services(self, name: str) -> list[tuple[str, Callable[[Any, grpc.aio.Server], None], object]]:
        """The services of a server: full name, how it is registered, and the fake that answers."""
        if name == "embedder":
            register = embedder_pb2_grpc.add_EmbedderServiceServicer_to_server
            return [("citewire.embedder.v1.EmbedderService", register, self.embedder)]
        if name == "generator":
            register = generator_pb2_grpc.add_GeneratorServiceServicer_to_server
            return [("citewire.generator.v1.GeneratorService", register, self.generator)]
        register, register_corpus = (
            retriever_pb2_grpc.add_RetrieverServiceServicer_to_server,
            corpus_pb2_grpc.add_CorpusServiceServicer_to_server,
        )
        return [
            ("citewire.retriever.v1.RetrieverService", register, self.retriever),
            ("citewire.retriever.v1.CorpusService", register_corpus, self.corpus),
        ]


def servicer_of(full_name: str, fake: object) -> object:
    """Returns a servicer whose calls are the fake's methods: `GetChunks` is `get_chunks`, and so on."""
    servicer = SimpleNamespace()
    for method in descriptor_pool.Default().FindServiceByName(full_name).methods:
        answer = getattr(fake, re.sub(r"(?<!^)(?=[A-Z])", "_", method.name).lower(), None)
        setattr(servicer, method.name, (_streaming if method.server_streaming else _unary)(method.name, answer))
    return servicer


def _unary(name: str, answer: Callable[[Any], Awaitable[Message]] | None) -> object:
    async def call(request: Any, _context: object) -> Message:  # noqa: ANN401 # a message, or a stream of them
        if answer is None:
            raise Unimplemented(f"the fake has no {name}", reason="NOT_IMPLEMENTED")
        return await answer(request)

    return call


def _streaming(name: str, answer: Callable[[Any], AsyncGenerator[Message, None]] | None) -> object:
    async def call(request: Any, _context: object) -> AsyncGenerator[Message, None]:  # noqa: ANN401 # messages of any kind are served
        if answer is None:
            raise Unimplemented(f"the fake has no {name}", reason="NOT_IMPLEMENTED")
        async with aclosing(answer(request)) as messages:
            async for message in messages:
                yield message

    return call


@asynccontextmanager
async def running_fakes(fakes: Fakes | None = None) -> AsyncGenerator[Fakes, None]:
    """Runs the three services on free ports until the block ends."""
    fakes = fakes or Fakes()
    for name in ("embedder", "retriever", "generator"):
        await fakes.start(name)
    try:
        yield fakes
    finally:
        for server in fakes.servers.values():
            await server.drain_and_stop()
