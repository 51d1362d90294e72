"""Tenant providers: routing, saving, deleting, and wrapping them again under a new master key."""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Protocol

from citewire.common.v1 import common_pb2
from citewire.embedder.v1 import embedder_pb2

from citewire_accounts.tenants.providers import (
    PROVIDER_TYPES,
    ModelRoute,
    ProviderEntries,
    ProviderEntry,
    ProviderStore,
    ProviderType,
    SealedRow,
    model_route,
    tenant_of,
)
from citewire_kit.errors import CitewireError, FailedPrecondition, FieldViolation, InvalidArgument, NotFound
from citewire_kit.telemetry import get_logger
from citewire_kit.tenant import Tenant, use_tenant

log = get_logger(__name__)


class ProviderSealer(Protocol):
    """Seals providers: who uses them does that, as only it has the keys."""

    async def seal(self, spec: common_pb2.ProviderSpec) -> embedder_pb2.SealProviderResponse:
        """Tries a provider out, unless told not to, and seals its key and address."""
        ...

    async def rewrap(self, ref: common_pb2.ProviderRef) -> common_pb2.ProviderRef | None:
        """Seals the same under the newest master key; None if it already was."""
        ...

    async def test(self, ref: common_pb2.ProviderRef) -> common_pb2.ProviderTest:
        """Makes one small call to a sealed provider."""
        ...


LiveSpace = Callable[[], Awaitable[common_pb2.EmbeddingSpace | None]]
"""The space that the caller's documents are embedded in; None: there is none yet."""


class TenantProviders:
    """Keeps tenants' providers. Keys and addresses pass through here once, on their way to be sealed."""

    def __init__(
        self, store: ProviderStore, sealer: ProviderSealer, live_space: LiveSpace, offered: Collection[ProviderType]
    ) -> None:
        """`offered`: the types for which the operator has a provider that tenants may use."""
        self._store = store
        self._sealer = sealer
        self._live_space = live_space
        self._offered = frozenset(offered)

    async def route(self, tenant: Tenant, needed: Collection[ProviderType]) -> ModelRoute:
        """Returns the model route of a request, before anything is sent to anybody; see `model_route`."""
        return model_route(await self._store.load(tenant), tenant.user_id, needed, self._offered)

    async def load(self, tenant: Tenant) -> ProviderEntries:
        """Returns all that the caller may see, those that aren't active too."""
        return await self._store.load_all(tenant)

    async def find(self, tenant: Tenant, type_: ProviderType, owner: str | None) -> tuple[ProviderEntry, ...]:
        """Returns an owner's active provider of a type and its fallbacks; with None what counts for the caller.

        Raises:
            NotFound: There is none (reason `PROVIDER_NOT_FOUND`).
        """
        entries = await self._store.load(tenant)
        chain = entries.effective(type_, tenant.user_id) if owner is None else entries.chain(type_, owner)
        if not chain:
            raise _not_found(type_)
        return chain

    async def find_saved(self, tenant: Tenant, type_: ProviderType, owner: str, name: str) -> tuple[ProviderEntry, ...]:
        """Returns the provider that an owner saved under a name, active or not, and its fallbacks.

        Raises:
            NotFound: There is none (reason `PROVIDER_NOT_FOUND`).
        """
        for chain in (await self._store.load_all(tenant)).chains():
            if (chain[0].type, chain[0].user_id, chain[0].name) == (type_, owner, name):
                return chain
        raise _not_found(type_, name)

    async def save(
        self,
        tenant: Tenant,
        first: common_pb2.ProviderSpec,
        fallbacks: Sequence[common_pb2.ProviderSpec | str],
        name: str | None = None,
        *,
        activate: bool = True,
    ) -> str:
        """Tries out, seals and keeps a provider and who takes over from it; what had that name before is replaced.

        Args:
            tenant: Who saves it.
            first: The provider.
            fallbacks: Who takes over; a text is a model of the operator's.
            name: What it is saved as; None: the active one's name, or else `default`.
            activate: Whether it is to be the active one of its owner and type.

        Returns:
            The name.

        Raises:
            InvalidArgument: A field is wrong; one of a fallback is named `fallbacks.N.field`.
            FailedPrecondition: The library is embedded in another space (reason `SPACE_MISMATCH`).
        """
        type_ = PROVIDER_TYPES.from_proto(first.type)
        if type_ is None:
            raise ValueError("the provider has no type")
        specs = [first, *fallbacks]
        sealed = await self._seal({index: spec for index, spec in enumerate(specs) if not isinstance(spec, str)})
        if sealed[0].HasField("space"):
            await self._check_space(sealed[0].space)
        chain = [
            ProviderEntry(first.user_id, type_, position, spec)
            if isinstance(spec, str)
            else ProviderEntry(
                first.user_id,
                type_,
                position,
                sealed[position].ref.model,
                sealed[position].ref,
                sealed[position].test,
                has_key=bool(spec.api_key.strip()),
                has_api_base=bool(spec.api_base),
            )
            for position, spec in enumerate(specs)
        ]
        name = await self._store.save(tenant, chain, name, activate=activate)
        log.info("provider_saved", type=type_, provider=first.provider, own=bool(first.user_id), entries=len(chain))
        return name

    async def test(self, tenant: Tenant, type_: ProviderType, owner: str, name: str) -> None:
        """Makes one small call to a saved provider, not to its fallbacks, and stores the result.

        Raises:
            NotFound: There is none of that name (reason `PROVIDER_NOT_FOUND`).
        """
        first, *_ = await self.find_saved(tenant, type_, owner, name)
        if first.ref is None:
            raise ValueError("the first of a chain is a tenant provider")
        report = await self._sealer.test(first.ref)
        await self._store.note_test(tenant, first, report)
        log.info("provider_tested", type=type_, provider=first.ref.provider, own=bool(owner), ok=report.ok)

    async def activate(self, tenant: Tenant, type_: ProviderType, owner: str, name: str) -> None:
        """Makes a saved provider the active one of its owner and type, from the next request on.

        Raises:
            NotFound: There is none of that name (reason `PROVIDER_NOT_FOUND`).
        """
        if not await self._store.activate(tenant, owner, type_, name):
            raise _not_found(type_, name)
        log.info("provider_activated", type=type_, own=bool(owner))

    async def deactivate(self, tenant: Tenant, type_: ProviderType, owner: str) -> str:
        """Deactivates the active provider of an owner and type, and returns its name.

        Raises:
            NotFound: None is active (reason `PROVIDER_NOT_FOUND`).
        """
        name = await self._store.deactivate(tenant, owner, type_)
        if name is None:
            raise _not_found(type_, None)
        log.info("provider_deactivated", type=type_, own=bool(owner))
        return name

    async def delete(self, tenant: Tenant, type_: ProviderType, owner: str, name: str | None = None) -> None:
        """Deletes an owner's active provider of a type, or the one of a name; no other becomes active by that.

        Raises:
            NotFound: There is none (reason `PROVIDER_NOT_FOUND`).
        """
        if not await self._store.delete(tenant, owner, type_, name):
            raise _not_found(type_, name)
        log.info("provider_deleted", type=type_, own=bool(owner))

    async def require_own(self, tenant: Tenant, required: bool) -> None:
        """Writes whether the organisation demands its own providers."""
        await self._store.require_own(tenant, required)

    async def _seal(self, specs: dict[int, common_pb2.ProviderSpec]) -> dict[int, embedder_pb2.SealProviderResponse]:
        """Seals all at the same time, each under its position: each may wait for a test call."""
        tasks = [asyncio.ensure_future(self._seal_at(position, spec)) for position, spec in specs.items()]
        try:
            return dict(zip(specs, await asyncio.gather(*tasks), strict=True))
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)

    async def _seal_at(self, position: int, spec: common_pb2.ProviderSpec) -> embedder_pb2.SealProviderResponse:
        try:
            return await self._sealer.seal(spec)
        except InvalidArgument as exc:
            if position == 0:
                raise
            at = f"fallbacks.{position - 1}"
            violations = [FieldViolation(f"{at}.{violation.field}", violation.message) for violation in exc.violations]
            raise InvalidArgument(f"{at}: {exc.message}", reason=exc.reason, violations=violations) from exc

    async def _check_space(self, space: common_pb2.EmbeddingSpace) -> None:
        """Refuses a model in whose space the library's documents couldn't be found."""
        live = await self._live_space()
        if live is not None and live != space:
            raise FailedPrecondition(
                f"your organisation's documents are embedded with {live.model} ({live.dimensions} dimensions), and "
                f"with {space.model} ({space.dimensions}) they could not be found: choose that model, or delete the "
                "documents first",
                reason="SPACE_MISMATCH",
                metadata={"model": live.model, "revision": live.revision, "dimensions": str(live.dimensions)},
            )


@dataclass(slots=True)
class Rotation:
    """The result of a rotation of master keys, in rows."""

    wrapped: int = 0
    """Wrapped again under the newest key."""
    current: int = 0
    """They already were, or were saved anew meanwhile."""
    gone: int = 0
    """Deleted meanwhile."""
    failed: int = 0
    """They couldn't be: an older master key may not be taken away yet."""


async def rotate(store: ProviderStore, sealer: ProviderSealer) -> Rotation:
    """Wraps every sealed row again under the newest master key, while everything runs.

    The secrets themselves aren't opened for it, and nobody here could: embedder and generator do the wrapping. A row
    that fails is logged and counted; the others go on.
    """
    rotation = Rotation()
    for row in await store.sealed_rows():
        try:
            await _rotate_row(store, sealer, row, rotation)
        except CitewireError as exc:
            rotation.failed += 1
            log.error(  # noqa: TRY400 - the message says it all
                "provider_not_rewrapped", org=row.org_id, user=row.user_id, type=row.type, error=exc.message
            )
    return rotation


async def _rotate_row(store: ProviderStore, sealer: ProviderSealer, row: SealedRow, rotation: Rotation) -> None:
    old = await store.get(row)
    if old is None:
        rotation.gone += 1
        return
    with use_tenant(tenant_of(row)):
        new = await sealer.rewrap(old)
    if new is not None and await store.swap(row, old, new):
        rotation.wrapped += 1
    else:
        rotation.current += 1


def _not_found(type_: ProviderType, name: str | None = None) -> NotFound:
    called = "" if name is None else f" that is saved as {name}"
    return NotFound(f"there is no {type_} provider of your own{called}", reason="PROVIDER_NOT_FOUND")
