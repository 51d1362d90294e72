"""Filters a chain for models with the abilities that a request needs beyond text."""

from collections.abc import Sequence
from typing import Final

from citewire.generator.v1 import generator_pb2 as pb

from citewire_generator.providers.base import Feature
from citewire_generator.registry import Chain
from citewire_kit.errors import Violations
from citewire_kit.telemetry import get_logger

log = get_logger(__name__)

_WORDS: Final = {
    Feature.TOOLS: "calls no tools",
    Feature.IMAGES: "reads no images",
    Feature.STOP: "has no stop texts",
}
"""Phrases for missing features; missing settings use a default phrase."""


def able_models(request: pb.GenerateRequest, chain: Chain) -> Chain:
    """Returns the members of a chain that have the features that a request needs; the first must have them.

    Raises:
        InvalidArgument: The first lacks features, which the error names.
    """
    required = _required_features(request)
    first = chain[0].provider
    violations = Violations()
    for feature in required:
        words = _WORDS.get(feature, "doesn't support it")
        violations.require(
            feature in first.takes,
            feature.value,
            f"can't be used with the provider {first.name}, which {words}: leave it out, or use another provider",
        )
    violations.raise_if_any()
    able = [chat_model for chat_model in chain if chat_model.provider.takes.issuperset(required)]
    for chat_model in chain:
        if chat_model not in able:
            log.warning(
                "fallback_not_able", provider=chat_model.provider.name, required=[str(name) for name in required]
            )
    return tuple(able)


def _required_features(request: pb.GenerateRequest) -> Sequence[Feature]:
    images = [*request.images, *(image for message in request.history for image in message.images)]
    calls = request.continuation or (message for message in request.history if message.tool_calls)
    required = {f"sampling.{field.name}" for field, _ in request.sampling.ListFields()}
    required |= {"images"} if images else set()
    required |= {"tools"} if request.HasField("tools") or any(calls) else set()
    return [feature for feature in Feature if feature.value in required]
