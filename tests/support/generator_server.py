"""A generator over a real gRPC server, and a client of it."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from contextlib import AsyncExitStack, aclosing, asynccontextmanager
from dataclasses import dataclass
from typing import Any

from citewire.generator.v1 import generator_pb2 as pb
from citewire.generator.v1.generator_pb2_grpc import GeneratorServiceStub
from prometheus_client import REGISTRY

from callers import KEYED, signed_channel
from citewire_generator.app import start
from citewire_generator.providers.base import ChatProvider
from citewire_generator.servicer import SERVICE_NAME
from citewire_generator.settings import GeneratorSettings
from citewire_kit import client
from citewire_kit.errors import Code
from citewire_kit.server import GrpcServer

# One attempt: retries are tested in tests/faults/test_provider_faults.py. The limits are meant for
# stalls, but working calls must keep them too, and a busy machine can delay these.
QUICK = {
    "first_token_seconds": 1.5,
    "between_tokens_seconds": 1.5,
    "total_seconds": 5.0,
    "connect_seconds": 1.0,
    "attempts": 1,
}


@dataclass(frozen=True)
class RunningGenerator:
    """A server and a client of it."""

    server: GrpcServer
    stub: GeneratorServiceStub

    def generate(self, request: pb.GenerateRequest, timeout: float = 20) -> AsyncGenerator[pb.GenerateResponse]:
        return client.stream(self.stub.Generate, request, timeout=timeout)

    async def events(self, request: pb.GenerateRequest, timeout: float = 20) -> list[pb.GenerateResponse]:
        async with aclosing(self.generate(request, timeout)) as stream:
            return [event async for event in stream]


@asynccontextmanager
async def running_generator(
    providers: Sequence[ChatProvider] | None = None,
    **options: Any,  # noqa: ANN401 # any type is intended
) -> AsyncGenerator[RunningGenerator]:
    options = {"port": 0, "metrics_port": 0, "auth": "off", "leave_seconds": 0, "drain_seconds": 1} | KEYED | options
    async with AsyncExitStack() as stack:
        server = await start(stack, GeneratorSettings(**options), providers)
        stack.push_async_callback(server.drain_and_stop)
        channel = signed_channel(f"127.0.0.1:{server.port}", streams=True, local=options["auth"] == "off")
        stack.push_async_callback(channel.close)
        yield RunningGenerator(server, GeneratorServiceStub(channel))


def relay(base: str, **options: Any) -> Any:  # noqa: ANN401 - the context manager of `serve`
    # With a known context window, citations come before the first token.
    options = {"context_window": 32_768} | options
    return running_generator(provider="openai-compatible", api_base=base, model="paced", **options)


def request(**fields: Any) -> pb.GenerateRequest:  # noqa: ANN401 # any type is intended
    fields.setdefault("question", "How long do refunds take?")
    fields.setdefault(
        "passages",
        [
            pb.Passage(chunk_id=1, document_id=1, text="Refunds take 14 days.", file_name="terms.md", similarity=0.7),
            pb.Passage(chunk_id=2, document_id=1, text="Shipping is free.", file_name="terms.md", similarity=0.4),
        ],
    )
    return pb.GenerateRequest(**fields)


def kinds(events: Sequence[pb.GenerateResponse]) -> list[str]:
    results = [str(event.WhichOneof("event")) for event in events]
    return [kind for index, kind in enumerate(results) if not (index and kind == "delta" == results[index - 1])]


def text_of(events: Sequence[pb.GenerateResponse]) -> str:
    return "".join(text for event in events for text in event.delta.texts)


def sample(name: str, **labels: str) -> float:
    return REGISTRY.get_sample_value(name, labels) or 0.0


def handled(code: Code) -> float:
    return sample(
        "grpc_server_handled_total",
        grpc_type="server_stream",
        grpc_service=SERVICE_NAME,
        grpc_method="Generate",
        grpc_code=code.value,
    )


def in_flight() -> float:
    return sample("citewire_streams_in_flight", dialect="grpc")
