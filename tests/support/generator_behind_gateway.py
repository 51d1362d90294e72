"""A real generator with a scripted model behind a running gateway, over real gRPC and HTTP in one event loop."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from typing import Any

from citewire.generator.v1 import generator_pb2 as pb

from citewire_generator import converters
from citewire_generator.providers.base import ChatProvider
from citewire_generator.registry import Registry
from citewire_generator.service import Generator
from databases import HasDsn
from gateway_fake_servers import running_fakes
from gateway_fakes import result
from gateway_process import Gateway, running_gateway

_QUESTION = {"question": "What?", "include": ["citation"]}
_MESSAGES = [{"role": "user", "content": "What?"}]
_OPENAI = {"model": "grounded", "messages": _MESSAGES}
WAYS: Mapping[str, tuple[str, dict[str, Any]]] = {
    "native": ("/v1/chat", _QUESTION),
    "native whole": ("/v1/chat", _QUESTION | {"stream": False}),
    "ui-message": ("/v1/chat?dialect=ui-message", _QUESTION),
    "openai": ("/v1/chat/completions", _OPENAI | {"stream": True}),
    "openai whole": ("/v1/chat/completions", _OPENAI),
    "anthropic": ("/anthropic/v1/messages", _OPENAI | {"max_tokens": 32_768, "stream": True}),
    "anthropic whole": ("/anthropic/v1/messages", _OPENAI | {"max_tokens": 32_768}),
    "simple": ("/api/chat/", {"question": "What?"}),
    "simple whole": ("/api/chat/query", {"question": "What?"}),
    "self-rag": ("/api/rag-chat/stream", {"messages": _MESSAGES}),
    "self-rag whole": ("/api/rag-chat", {"messages": _MESSAGES}),
}
"""Every dialect: path and body of a question."""
POLICY = pb.AnswerPolicy(marker_style=pb.MARKER_STYLE_REF, verify_citations=True, flag_uncited=True)


@asynccontextmanager
async def generator_behind_gateway(
    database: HasDsn, model: ChatProvider, passage: str, policy: pb.AnswerPolicy = POLICY
) -> AsyncGenerator[Gateway]:
    """Runs both until the block ends; each question finds the passage three times."""
    generator = Generator(Registry([model]))

    async def generate(request: pb.GenerateRequest) -> AsyncGenerator[pb.GenerateResponse, None]:
        request.policy.CopyFrom(policy)
        async for event in generator.generate(request):
            yield converters.event_to_proto(event)

    async with running_fakes() as fakes, running_gateway(database, fakes) as running:
        fakes.generator.script = generate
        fakes.retriever.results = [result(number, text=passage) for number in range(1, 4)]
        yield running
