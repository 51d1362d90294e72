# ruff: noqa: N802, D102 - the RPCs' names are those of the proto, and their descriptions are there
"""The gRPC face of the generator: converts, calls the domain, converts back. Errors are kit's interceptors' work."""

from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any, TypeAlias

import grpc
from citewire.generator.v1 import generator_pb2 as pb
from citewire.generator.v1 import generator_pb2_grpc as pb_grpc

from citewire_generator.converters import (
    from_assessment,
    from_decision,
    from_event,
    from_models,
    from_rewrap,
    from_rewritten,
    from_seal,
    from_suggestions,
    from_verification,
    to_assess,
    to_decide,
    to_provider,
    to_provider_spec,
    to_request,
    to_rewrite,
    to_suggest,
    to_verify,
)
from citewire_generator.own_providers import TenantProviders
from citewire_generator.reflection.service import Reflector
from citewire_generator.service import Generator
from citewire_generator.verification import verify_answer
from citewire_kit.streams import track_stream

SERVICE_NAME = "citewire.generator.v1.GeneratorService"
DIALECT = "grpc"
"""What the streams' metrics call this wire format."""

Context: TypeAlias = "grpc.aio.ServicerContext[Any, Any]"  # generic only in the type stubs


class GeneratorServicer(pb_grpc.GeneratorServiceServicer):
    """Serves `citewire.generator.v1.GeneratorService`; the RPCs are described in its proto."""

    def __init__(self, generator: Generator, reflector: Reflector, own: TenantProviders) -> None:
        self._generator = generator
        self._reflector = reflector
        self._own = own

    async def Generate(
        self, request: pb.GenerateRequest, context: Context
    ) -> AsyncGenerator[pb.GenerateResponse, None]:
        with track_stream(DIALECT):
            async with aclosing(self._generator.generate(to_request(request))) as events:
                async for event in events:
                    yield from_event(event)

    async def Verify(self, request: pb.VerifyRequest, context: Context) -> pb.VerifyResponse:
        return from_verification(await verify_answer(*to_verify(request)))

    async def Decide(self, request: pb.DecideRequest, context: Context) -> pb.DecideResponse:
        return from_decision(await self._reflector.decide(to_decide(request)))

    async def Assess(self, request: pb.AssessRequest, context: Context) -> pb.AssessResponse:
        return from_assessment(await self._reflector.assess(to_assess(request)))

    async def Rewrite(self, request: pb.RewriteRequest, context: Context) -> pb.RewriteResponse:
        return from_rewritten(await self._reflector.rewrite(to_rewrite(request)))

    async def SuggestQuestions(
        self, request: pb.SuggestQuestionsRequest, context: Context
    ) -> pb.SuggestQuestionsResponse:
        return from_suggestions(await self._generator.suggest(to_suggest(request)))

    async def ListModels(self, request: pb.ListModelsRequest, context: Context) -> pb.ListModelsResponse:
        return from_models(self._generator.models())

    async def SealProvider(self, request: pb.SealProviderRequest, context: Context) -> pb.SealProviderResponse:
        sealed, report = await self._own.seal(to_provider_spec(request), test=not request.spec.skip_test)
        return from_seal(sealed, report)

    async def RewrapProvider(self, request: pb.RewrapProviderRequest, context: Context) -> pb.RewrapProviderResponse:
        return from_rewrap(*self._own.rewrap(to_provider(request)))
