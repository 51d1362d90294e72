"""Sealing of tenants' providers over gRPC: whoever makes the calls seals."""

from collections.abc import Mapping

import grpc
from citewire.common.v1 import common_pb2
from citewire.embedder.v1 import embedder_pb2, embedder_pb2_grpc
from citewire.generator.v1 import generator_pb2, generator_pb2_grpc

from citewire_gateway.clients.domain import Space
from citewire_gateway.clients.ports import Sealer
from citewire_gateway.tenants.providers import ProviderRef, ProviderSpec, ProviderTest, ProviderType, Sealed
from citewire_kit import client

_TYPES: Mapping[ProviderType, common_pb2.ProviderType] = {
    ProviderType.CHAT: common_pb2.PROVIDER_TYPE_CHAT,
    ProviderType.EMBEDDING: common_pb2.PROVIDER_TYPE_EMBEDDING,
    ProviderType.RERANK: common_pb2.PROVIDER_TYPE_RERANK,
}


class GrpcSealer(Sealer):
    """The generator for chat providers, the embedder for the others."""

    def __init__(self, embedding: grpc.aio.Channel, generating: grpc.aio.Channel, *, seconds: float) -> None:
        """`seconds`: longest call, the test call to the provider included."""
        self._embedder = embedder_pb2_grpc.EmbedderServiceStub(embedding)
        self._generator = generator_pb2_grpc.GeneratorServiceStub(generating)
        self._seconds = seconds

    async def seal(self, spec: ProviderSpec) -> Sealed:
        """See `Sealer.seal`."""
        message = common_pb2.ProviderSpec(
            type=_TYPES[spec.type],
            provider=spec.provider,
            model=spec.model,
            api_base=spec.api_base,
            api_key=spec.api_key,
            user_id=spec.user_id,
            dimensions=spec.dimensions,
            skip_test=spec.skip_test,
        )
        if spec.type is ProviderType.CHAT:
            request = generator_pb2.SealProviderRequest(spec=message)
            answer = await client.unary(self._generator.SealProvider, request, timeout=self._seconds)
            return Sealed(_ref(answer.ref, spec.type), _test(answer.test))
        asked = embedder_pb2.SealProviderRequest(spec=message)
        response = await client.unary(self._embedder.SealProvider, asked, timeout=self._seconds)
        space = None
        if response.HasField("space"):
            space = Space(response.space.model, response.space.revision, response.space.dimensions)
        return Sealed(_ref(response.ref, spec.type), _test(response.test), space)

    async def rewrap(self, ref: ProviderRef) -> ProviderRef | None:
        """See `Sealer.rewrap`."""
        if ref.type is ProviderType.CHAT:
            request = generator_pb2.RewrapProviderRequest(ref=ref_message(ref))
            answer = await client.unary(self._generator.RewrapProvider, request, timeout=self._seconds)
            return _ref(answer.ref, ref.type) if answer.changed else None
        asked = embedder_pb2.RewrapProviderRequest(ref=ref_message(ref))
        response = await client.unary(self._embedder.RewrapProvider, asked, timeout=self._seconds)
        return _ref(response.ref, ref.type) if response.changed else None


def ref_message(ref: ProviderRef) -> common_pb2.ProviderRef:
    """A sealed provider as a message."""
    return common_pb2.ProviderRef(
        provider=ref.provider,
        model=ref.model,
        sealed_api_base=ref.sealed_api_base,
        sealed_key=ref.sealed_key,
        type=_TYPES[ref.type],
        user_id=ref.user_id,
        dimensions=ref.dimensions,
    )


def fallback_message(fallback: ProviderRef | str) -> generator_pb2.Fallback:
    """One who takes over, as a message: a sealed provider, or a model of the operator's."""
    if isinstance(fallback, str):
        return generator_pb2.Fallback(model=fallback)
    return generator_pb2.Fallback(provider=ref_message(fallback))


def _ref(message: common_pb2.ProviderRef, type_: ProviderType) -> ProviderRef:
    return ProviderRef(
        type=type_,
        provider=message.provider,
        model=message.model,
        user_id=message.user_id,
        sealed_api_base=message.sealed_api_base,
        sealed_key=message.sealed_key,
        dimensions=message.dimensions,
    )


def _test(message: common_pb2.ProviderTest) -> ProviderTest:
    return ProviderTest(
        tried=message.tried,
        ok=message.ok,
        reason=message.reason,
        text=message.text,
        status=message.status,
        dimensions=message.dimensions,
    )
