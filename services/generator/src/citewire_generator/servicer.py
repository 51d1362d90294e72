# ruff: noqa: N802, D102 - the RPCs' names are those of the proto, and their descriptions are there
"""The gRPC face of the generator: converts, calls the domain, converts back. Errors are kit's interceptors' work."""

from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any, TypeAlias

import grpc
from citewire.generator.v1 import generator_pb2 as pb
from citewire.generator.v1 import generator_pb2_grpc as pb_grpc

from citewire_generator import converters
from citewire_generator.reflection.enrichment import Enricher
from citewire_generator.reflection.service import Reflector
from citewire_generator.service import Generator
from citewire_generator.suggestion_phrases import language_code, phrases_of
from citewire_generator.tenant_providers import TenantChatProviders
from citewire_generator.verification import verify_answer
from citewire_kit.streams import track_stream
from citewire_kit.turns import in_turn
from citewire_remote.converters import provider_from_proto, sealed_from_proto
from citewire_remote.tenant_providers import Vault

SERVICE_NAME = "citewire.generator.v1.GeneratorService"
DIALECT = "grpc"
"""Name of this wire format in the streams' metrics."""

Context: TypeAlias = "grpc.aio.ServicerContext[Any, Any]"  # generic only in the type stubs


class GeneratorServicer(pb_grpc.GeneratorServiceServicer):
    """Serves `citewire.generator.v1.GeneratorService`; the RPCs are described in its proto."""

    def __init__(
        self,
        generator: Generator,
        reflector: Reflector,
        enricher: Enricher,
        vault: Vault,
        tenant_providers: TenantChatProviders,
    ) -> None:
        self._generator = generator
        self._reflector = reflector
        self._enricher = enricher
        self._vault = vault
        self._tenant_providers = tenant_providers

    async def Generate(
        self, request: pb.GenerateRequest, context: Context
    ) -> AsyncGenerator[pb.GenerateResponse, None]:
        with track_stream(DIALECT):
            read = converters.generate_from_proto
            has_schema = bool(request.format.schema_json)  # reading it may take a second
            history, route = await in_turn(read, request) if has_schema else read(request)
            async with aclosing(self._generator.generate(request, history, route)) as events:
                async for event in events:
                    yield converters.event_to_proto(event)

    async def Verify(self, request: pb.VerifyRequest, context: Context) -> pb.VerifyResponse:
        converters.check_verify(request)
        return await verify_answer(request)

    async def Decide(self, request: pb.DecideRequest, context: Context) -> pb.DecideResponse:
        return await self._reflector.decide(request, converters.decide_from_proto(request))

    async def Assess(self, request: pb.AssessRequest, context: Context) -> pb.AssessResponse:
        return await self._reflector.assess(request, converters.assess_from_proto(request))

    async def JudgeRelevance(self, request: pb.JudgeRelevanceRequest, context: Context) -> pb.JudgeRelevanceResponse:
        return await self._reflector.judge_relevance(request, converters.relevance_from_proto(request))

    async def Rewrite(self, request: pb.RewriteRequest, context: Context) -> pb.RewriteResponse:
        return await self._reflector.rewrite(request, *converters.rewrite_from_proto(request))

    async def FillTableQuery(self, request: pb.FillTableQueryRequest, context: Context) -> pb.FillTableQueryResponse:
        return await self._reflector.fill_table_query(request, converters.table_query_from_proto(request))

    async def SuggestQuestions(
        self, request: pb.SuggestQuestionsRequest, context: Context
    ) -> pb.SuggestQuestionsResponse:
        suggestions = await self._generator.suggest(request, converters.suggest_from_proto(request))
        return pb.SuggestQuestionsResponse(
            questions=suggestions.questions,
            usage=suggestions.usage.to_proto(),
            fallback=suggestions.fallback,
            heading=phrases_of(language_code(request.language)).heading,
        )

    async def Enrich(self, request: pb.EnrichRequest, context: Context) -> pb.EnrichResponse:
        return await self._enricher.enrich(request, converters.enrich_from_proto(request))

    async def ListModels(self, request: pb.ListModelsRequest, context: Context) -> pb.ListModelsResponse:
        return converters.models_to_proto(self._generator.models())

    async def SealProvider(self, request: pb.SealProviderRequest, context: Context) -> pb.SealProviderResponse:
        test = None if request.spec.skip_test else self._tenant_providers.test_provider
        ref, report, _ = await self._vault.seal(provider_from_proto(request.spec, converters.CHAT), test)
        return pb.SealProviderResponse(ref=ref, test=report)

    async def RewrapProvider(self, request: pb.RewrapProviderRequest, context: Context) -> pb.RewrapProviderResponse:
        ref, changed = self._vault.rewrap(sealed_from_proto(request.ref, converters.CHAT))
        return pb.RewrapProviderResponse(ref=ref, changed=changed)

    async def TestProvider(self, request: pb.TestProviderRequest, context: Context) -> pb.TestProviderResponse:
        ref = sealed_from_proto(request.ref, converters.CHAT)
        return pb.TestProviderResponse(test=await self._vault.test(ref, self._tenant_providers.test_provider))
