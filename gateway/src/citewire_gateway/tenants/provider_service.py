"""Saving, showing and deleting tenants' providers."""

import asyncio
from collections.abc import Sequence

from citewire_gateway.clients.domain import Scope, Space, Strategy
from citewire_gateway.clients.ports import Retriever, Sealer
from citewire_gateway.tenants.provider_store import ProviderStore
from citewire_gateway.tenants.providers import (
    Entry,
    ProviderSpec,
    ProviderType,
    Sealed,
    TenantProviders,
)
from citewire_kit.errors import FailedPrecondition, FieldViolation, InvalidArgument, NotFound
from citewire_kit.telemetry import get_logger
from citewire_kit.tenant import Tenant

log = get_logger(__name__)


class OwnProviders:
    """Keeps tenants' providers. Keys and addresses pass through here once, on their way to be sealed."""

    def __init__(self, store: ProviderStore, sealer: Sealer, retriever: Retriever) -> None:
        self._store = store
        self._sealer = sealer
        self._retriever = retriever

    async def load(self, tenant: Tenant) -> TenantProviders:
        """Returns all that the caller may see."""
        return await self._store.load(tenant)

    async def find(self, tenant: Tenant, type_: ProviderType, owner: str | None) -> tuple[Entry, ...]:
        """Returns an owner's providers of a type; with None those that count for the caller.

        Raises:
            NotFound: There are none (reason `PROVIDER_NOT_FOUND`).
        """
        found = await self._store.load(tenant)
        chain = found.effective(type_, tenant.user_id) if owner is None else found.chain(type_, owner)
        if not chain:
            raise _not_found(type_)
        return chain

    async def save(self, tenant: Tenant, first: ProviderSpec, fallbacks: Sequence[ProviderSpec | str]) -> None:
        """Tries out, seals and keeps a provider and who takes over from it; what was there before is replaced.

        Raises:
            InvalidArgument: A field is wrong; one of a fallback is named `fallbacks.N.field`.
            FailedPrecondition: The library is embedded in another space (reason `SPACE_MISMATCH`).
        """
        sealed = await self._seal([first, *(one for one in fallbacks if isinstance(one, ProviderSpec))], fallbacks)
        await self._check_space(sealed[0].space)
        owner, rest = first.user_id, iter(sealed)
        chain = [
            Entry(owner, first.type, position, one, None)
            if isinstance(one, str)
            else _entry(owner, first.type, position, next(rest))
            for position, one in enumerate([first, *fallbacks])
        ]
        await self._store.save(tenant, chain)
        log.info("provider_saved", type=first.type, provider=first.provider, own=bool(owner), entries=len(chain))

    async def delete(self, tenant: Tenant, type_: ProviderType, owner: str) -> None:
        """Deletes an owner's providers of a type.

        Raises:
            NotFound: There are none (reason `PROVIDER_NOT_FOUND`).
        """
        if not await self._store.delete(tenant, owner, type_):
            raise _not_found(type_)
        log.info("provider_deleted", type=type_, own=bool(owner))

    async def require_own(self, tenant: Tenant, required: bool) -> None:
        """Writes whether the organisation demands its own providers."""
        await self._store.require_own(tenant, required)

    async def _seal(self, specs: Sequence[ProviderSpec], fallbacks: Sequence[ProviderSpec | str]) -> list[Sealed]:
        """Seals all at the same time: each may wait for a test call."""
        numbers = [None, *(number for number, one in enumerate(fallbacks) if isinstance(one, ProviderSpec))]
        tasks = [
            asyncio.ensure_future(self._seal_one(spec, number)) for spec, number in zip(specs, numbers, strict=True)
        ]
        try:
            return await asyncio.gather(*tasks)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)

    async def _seal_one(self, spec: ProviderSpec, fallback: int | None) -> Sealed:
        try:
            return await self._sealer.seal(spec)
        except InvalidArgument as exc:
            if fallback is None:
                raise
            at = f"fallbacks.{fallback}"
            violations = [FieldViolation(f"{at}.{one.field}", one.message) for one in exc.violations]
            raise InvalidArgument(f"{at}: {exc.message}", reason=exc.reason, violations=violations) from exc

    async def _check_space(self, space: Space | None) -> None:
        """Refuses a model in whose space the library's documents couldn't be found."""
        if space is None:
            return
        live = (await self._retriever.plan(Scope(), Strategy.SEMANTIC)).space
        if live is not None and live != space:
            raise FailedPrecondition(
                f"your organisation's documents are embedded with {live.model} ({live.dimensions} dimensions), and "
                f"with {space.model} ({space.dimensions}) they could not be found: choose that model, or delete the "
                "documents first",
                reason="SPACE_MISMATCH",
                metadata={"model": live.model, "revision": live.revision, "dimensions": str(live.dimensions)},
            )


def _entry(owner: str, type_: ProviderType, position: int, sealed: Sealed) -> Entry:
    return Entry(owner, type_, position, sealed.ref.model, sealed.ref, sealed.test)


def _not_found(type_: ProviderType) -> NotFound:
    return NotFound(f"there is no {type_} provider of your own", reason="PROVIDER_NOT_FOUND")
