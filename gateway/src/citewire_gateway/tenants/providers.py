"""Tenant providers as the gateway knows them, and the model route that a request takes through them.

Names are in plain text here, keys and addresses are ciphertext.
"""

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from citewire.common.v1 import common_pb2
from citewire.generator.v1 import generator_pb2

from citewire_kit.enums import EnumMap
from citewire_kit.errors import FieldViolation, InvalidArgument

ORG = ""
"""The `user_id` of what is the organisation's."""


class ProviderType(StrEnum):
    """What a provider is for."""

    CHAT = "chat"
    EMBEDDING = "embedding"
    RERANK = "rerank"


PROVIDER_TYPES = EnumMap(ProviderType, common_pb2.ProviderType)
CHAT_NEEDS = frozenset({ProviderType.CHAT, ProviderType.EMBEDDING})
"""What a chat needs a provider for."""


@dataclass(frozen=True, slots=True)
class ProviderEntry:
    """One row: a provider, or in a chain of fallbacks a model of the operator's."""

    user_id: str
    """Whose; "" is the organisation's."""
    type: ProviderType
    position: int
    """0 is asked first."""
    model: str
    """Its name."""
    ref: common_pb2.ProviderRef | None = None
    """None for a model of the operator's."""
    test: common_pb2.ProviderTest | None = None
    """How the test call went when it was saved."""
    updated_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class ProviderEntries:
    """All that a user sees: their own and the organisation's, and whether the organisation demands its own."""

    entries: tuple[ProviderEntry, ...] = ()
    require_own: bool = False

    def chain(self, type_: ProviderType, user_id: str) -> tuple[ProviderEntry, ...]:
        """Returns the entries of one owner and type, first the one that is asked first."""
        chain = [entry for entry in self.entries if entry.type is type_ and entry.user_id == user_id]
        return tuple(sorted(chain, key=lambda entry: entry.position))

    def effective(self, type_: ProviderType, user_id: str) -> tuple[ProviderEntry, ...]:
        """Returns what counts for a user: their own, or else the organisation's."""
        return self.chain(type_, user_id) or self.chain(type_, ORG)


@dataclass(frozen=True, slots=True)
class ModelRoute:
    """The providers that a request's calls take; None is the operator's."""

    chat: common_pb2.ProviderRef | None = None
    fallbacks: tuple[generator_pb2.Fallback, ...] = ()
    """Who takes over from the chat provider."""
    embedding: common_pb2.ProviderRef | None = None
    rerank: common_pb2.ProviderRef | None = None
    require_own: bool = False
    """Whether the operator's may not be used in place of what is missing."""


OPERATOR_ROUTE = ModelRoute()
"""All of the operator's."""


def model_route(
    providers: ProviderEntries, user_id: str, needed: Collection[ProviderType], offered: Collection[ProviderType]
) -> ModelRoute:
    """Returns the route of a request: the user's own providers, else the organisation's, else the operator's.

    Args:
        providers: What the user sees.
        user_id: Who asks.
        needed: The types that the request needs.
        offered: The types for which the operator has a provider that tenants may use.

    Raises:
        InvalidArgument: A needed type has neither an own provider nor one of the operator's that may be used
            (reason `PROVIDER_MISSING`); every missing type is named.
    """
    chains = {type_: providers.effective(type_, user_id) for type_ in ProviderType}
    first = {type_: chain[0].ref if chain else None for type_, chain in chains.items()}
    missing = [
        type_
        for type_ in ProviderType
        if type_ in needed and first[type_] is None and (providers.require_own or type_ not in offered)
    ]
    if missing:
        raise _missing(missing, demanded=providers.require_own)
    return ModelRoute(
        chat=first[ProviderType.CHAT],
        # Where only own providers may be used, a model of the operator's takes over from nobody.
        fallbacks=tuple(
            generator_pb2.Fallback(model=entry.model)
            if entry.ref is None
            else generator_pb2.Fallback(provider=entry.ref)
            for entry in chains[ProviderType.CHAT][1:]
            if entry.ref is not None or not providers.require_own
        ),
        embedding=first[ProviderType.EMBEDDING],
        rerank=first[ProviderType.RERANK],
        require_own=providers.require_own,
    )


def _missing(types: list[ProviderType], *, demanded: bool) -> InvalidArgument:
    why = "your organisation uses only its own providers" if demanded else "this server has none to offer"
    names = " and ".join(types) if len(types) < 3 else f"{', '.join(types[:-1])} and {types[-1]}"
    return InvalidArgument(
        f"no {names} provider is configured, and {why}: set one with PUT /v1/providers/{types[0]}",
        reason="PROVIDER_MISSING",
        violations=[FieldViolation(type_, f"no {type_} provider is configured") for type_ in types],
        metadata={"types": ",".join(types)},
    )
