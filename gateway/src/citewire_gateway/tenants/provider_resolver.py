"""Which providers a request uses, before anything is sent to anybody."""

from collections.abc import Collection

from citewire_gateway.tenants.provider_store import ProviderStore
from citewire_gateway.tenants.providers import Chosen, ProviderRef, ProviderType, TenantProviders
from citewire_kit.errors import FieldViolation, InvalidArgument
from citewire_kit.tenant import Tenant

CHAT_NEEDS = frozenset({ProviderType.CHAT, ProviderType.EMBEDDING})


class ProviderResolver:
    """Chooses: the user's own, else the organisation's, else the operator's.

    Args:
        store: Where tenants' providers are kept.
        offered: The types for which the operator has a provider that tenants may use.
    """

    def __init__(self, store: ProviderStore, offered: Collection[ProviderType]) -> None:
        self._store = store
        self._offered = frozenset(offered)

    async def choose(self, tenant: Tenant, needed: Collection[ProviderType]) -> Chosen:
        """Returns the providers of a request.

        Raises:
            InvalidArgument: A needed type has neither an own provider nor one of the operator's that may be used
                (reason `PROVIDER_MISSING`); every missing type is named.
        """
        return choose(await self._store.load(tenant), tenant.user_id, needed, self._offered)


def choose(
    found: TenantProviders, user_id: str, needed: Collection[ProviderType], offered: Collection[ProviderType]
) -> Chosen:
    """See `ProviderResolver.choose`."""
    first: dict[ProviderType, ProviderRef | None] = {}
    fallbacks: tuple[ProviderRef | str, ...] = ()
    for type_ in ProviderType:
        chain = found.effective(type_, user_id)
        first[type_] = chain[0].ref if chain else None
        if type_ is ProviderType.CHAT:
            # Where only own providers may be used, a model of the operator's takes over from nobody.
            fallbacks = tuple(one.ref or one.model for one in chain[1:] if one.ref is not None or not found.require_own)
    missing = [
        type_
        for type_ in ProviderType
        if type_ in needed and first[type_] is None and (found.require_own or type_ not in offered)
    ]
    if missing:
        raise _missing(missing, demanded=found.require_own)
    return Chosen(
        chat=first[ProviderType.CHAT],
        fallbacks=fallbacks,
        embedding=first[ProviderType.EMBEDDING],
        rerank=first[ProviderType.RERANK],
        only_own=found.require_own,
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
