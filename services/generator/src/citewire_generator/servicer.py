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
    from_rewritten,
    from_suggestions,
    from_verification,
    to_assess,
    to_decide,
    to_request,
    to_rewrite,
    to_suggest,
    to_verify,
)
from citewire_generator.converters.fields import CHAT
from citewire_generator.reflection.service import Reflector
from citewire_generator.service import Generator
from citewire_generator.tenant_providers import TenantChatProviders
from citewire_generator.verification import verify_answer
from citewire_kit.streams import track_stream
from citewire_remote.converters import provider_from_proto, rewrap_from_proto
from citewire_remote.tenant_providers import Vault

SERVICE_NAME = "citewire.generator.v1.GeneratorService"
DIALECT = "grpc"
"""What the streams' metrics call this wire format."""

Context: TypeAlias = "grpc.aio.ServicerContext[Any, Any]"  # generic only in the type stubs


class GeneratorServicer(pb_grpc.GeneratorServiceServicer):
    """Serves `citewire.generator.v1.GeneratorService`; the RPCs are described in its proto."""

    def __init__(
        self, generator: Generator, reflector: Reflector, vault: Vault, tenant_providers: TenantChatProviders
    ) -> None:
        self._generator = generator
        self._reflector = reflector
        self._vault = vault
        self._tenant_providers = tenant_providers

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
        test = None if request.spec.skip_test else self._tenant_providers.test_provider
        ref, report, _ = await self._vault.seal(provider_from_proto(request.spec, CHAT), test)
        return pb.SealProviderResponse(ref=ref, test=report)

    async def RewrapProvider(self, request: pb.RewrapProviderRequest, context: Context) -> pb.RewrapProviderResponse:
        ref, changed = self._vault.rewrap(rewrap_from_proto(request.ref, CHAT))
        return pb.RewrapProviderResponse(ref=ref, changed=changed)
