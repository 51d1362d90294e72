"""The generator over gRPC: the one place of ingest that knows its messages."""

from collections.abc import Sequence

import grpc
from citewire.common.v1 import common_pb2
from citewire.generator.v1 import generator_pb2 as pb
from citewire.generator.v1 import generator_pb2_grpc

from citewire_kit import client
from citewire_retriever.ingest.enrichment.model import (
    Description,
    DocumentToEnrich,
    EnrichmentCode,
    EnrichmentError,
    EnrichmentSource,
    Field,
    OwnChatModel,
)

_SERVICE = "citewire.generator.v1.GeneratorService"
_MAX_FALLBACKS = 4
_FIELDS = {
    Field.SUMMARY: pb.ENRICHMENT_FIELD_SUMMARY,
    Field.ENTITY_TYPE: pb.ENRICHMENT_FIELD_ENTITY_TYPE,
    Field.CATEGORY: pb.ENRICHMENT_FIELD_CATEGORY,
    Field.TAGS: pb.ENRICHMENT_FIELD_TAGS,
}


class GrpcGenerator:
    """The language model. Raises `citewire_kit.errors.CitewireError`."""

    def __init__(self, channel: grpc.aio.Channel, *, seconds: float) -> None:
        """Takes an open channel, and the time limit for describing one document."""
        self._stub = generator_pb2_grpc.GeneratorServiceStub(channel)
        self._seconds = seconds
        client.init_client([_SERVICE])

    async def describe(self, document: DocumentToEnrich) -> Description | None:
        """Has a model describe a document; None if the provider has no language model.

        Raises:
            EnrichmentError: The model's answer is invalid.
            CitewireError: The call failed.
        """
        labels = document.labels
        request = pb.EnrichRequest(
            text=document.text,
            title=document.title,
            type=document.type,
            url=document.url,
            fields=[number for field, number in _FIELDS.items() if field in document.open_fields],
            labels=pb.KnownLabels(entity_types=labels.entity_types, categories=labels.categories, tags=labels.tags),
        )
        _add_route(request, document.models)
        response = await client.unary(self._stub.Enrich, request, timeout=self._seconds)
        if response.no_model:
            return None
        if response.unreadable:
            raise EnrichmentError(
                EnrichmentCode.UNREADABLE,
                f"The answer of {response.provider}/{response.model} couldn't be read. Try another model.",
            )
        return Description(
            EnrichmentSource.MODEL, response.summary, response.entity_type, response.category, tuple(response.tags)
        )


def _add_route(request: pb.EnrichRequest, models: Sequence[OwnChatModel]) -> None:
    """Sets the models that may be called, like the gateway for chats."""
    if not models:
        return
    request.provider.CopyFrom(_ref(models[0]))
    for model in models[1 : 1 + _MAX_FALLBACKS]:
        if model.provider:
            request.fallbacks.add(provider=_ref(model))
        else:
            request.fallbacks.add(model=model.model)


def _ref(model: OwnChatModel) -> common_pb2.ProviderRef:
    return common_pb2.ProviderRef(
        provider=model.provider,
        model=model.model,
        sealed_api_base=model.sealed_api_base,
        sealed_key=model.sealed_key,
        type=common_pb2.PROVIDER_TYPE_CHAT,
        user_id=model.user_id,
    )
