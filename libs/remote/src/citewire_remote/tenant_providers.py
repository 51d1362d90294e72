"""Tenant providers: sealed for their owner, opened only for callers who may use them, tested before they are saved."""

import asyncio
import hashlib
import time
from collections import OrderedDict
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import Final, Generic, TypeVar

from citewire.common.v1 import common_pb2 as pb

from citewire_egress.addresses import EgressPolicy
from citewire_egress.connections import check_base
from citewire_kit.errors import CitewireError, FailedPrecondition, InvalidArgument
from citewire_kit.telemetry import get_logger
from citewire_kit.tenant import current_tenant
from citewire_remote.kinds import KINDS, PROVIDER_TYPES, ProviderType
from citewire_remote.sealing import WHOLE, Keyring, KeySource, Owner, cannot_open

T = TypeVar("T")

log = get_logger(__name__)

TEST_SECONDS: Final = 20.0
"""Maximum duration of a test call: the server may have to load the model first, and a person is waiting."""


@dataclass(frozen=True, slots=True)
class TenantProvider:
    """A tenant provider in plain text. It is never stored: a `ProviderRef` is its sealed form."""

    type: ProviderType
    provider: str
    model: str = ""
    """"" is the kind's default."""
    api_base: str = field(default="", repr=False)
    """Normalised; "" is the kind's own address."""
    api_key: str = field(default="", repr=False)
    """"" if it needs none."""
    user_id: str = ""
    """The user who owns it; "" means the organisation."""
    dimensions: int = 0
    """Length of an embedding model's vectors; 0 is the model's own."""


TestCall = Callable[[TenantProvider], Awaitable[pb.EmbeddingSpace | None]]
"""Makes one small call; returns the space of an embedding model. Raises CitewireError."""


class Vault:
    """Seals and opens the providers of the current tenant.

    Args:
        keys: The master keys; None if the process has none.
        policy: The addresses where tenant providers may be.
        sealed_apart: Whether to open a key and an address that an earlier version sealed separately. Nothing shows that
            they belong together, so the owner of a stolen sealed key could have it sent to another address.
    """

    def __init__(self, keys: KeySource | None, policy: EgressPolicy, *, sealed_apart: bool = False) -> None:
        self._keys = keys
        self._policy = policy
        self._sealed_apart = sealed_apart

    async def seal(
        self, provider: TenantProvider, test: TestCall | None
    ) -> tuple[pb.ProviderRef, pb.ProviderTest, pb.EmbeddingSpace | None]:
        """Tests a provider, unless `test` is None, and seals its key, address, model and dimensions together.

        Returns:
            The sealed provider, the result of the test call, and the embedding space that it found.

        Raises:
            InvalidArgument: Its address isn't allowed (`PROVIDER_ADDRESS`), or it is another user's.
            FailedPrecondition: The process has no master key (`PROVIDER_SEAL`).
        """
        keyring = self._keyring()
        _check_user(provider.user_id)
        provider = replace(provider, model=provider.model or KINDS[provider.type][provider.provider].model)
        if provider.api_base:
            await check_base(self._policy, provider.api_base)
        report, space = pb.ProviderTest(text="No test call was made."), None
        if test is not None:
            report, space = await _run_test(provider, test)
        return self._seal_whole(keyring, provider), report, space

    async def test(self, ref: pb.ProviderRef, test: TestCall) -> pb.ProviderTest:
        """Makes a test call to a sealed provider.

        Raises:
            InvalidArgument: Its address isn't allowed (`PROVIDER_ADDRESS`), or it is another user's.
            FailedPrecondition: As `open`.
        """
        report, _ = await _run_test(self.open(ref), test)
        return report

    def open(self, ref: pb.ProviderRef) -> TenantProvider:
        """Opens a provider.

        Raises:
            InvalidArgument: It is another user's.
            FailedPrecondition: It was sealed for another owner or combined with another provider's address or
                dimensions, or its master key isn't here (`PROVIDER_SEAL`).
        """
        _check_user(ref.user_id)
        provider = TenantProvider(
            _type_of(ref), ref.provider, ref.model, user_id=ref.user_id, dimensions=ref.dimensions
        )
        if not _is_whole(ref):
            return self._open_apart(ref, provider)
        spec = pb.ProviderSpec.FromString(self._keyring().open(ref.sealed_key, _owner(ref)))
        if ref.sealed_api_base or ref.dimensions not in (0, spec.dimensions):
            raise cannot_open("it was combined from several providers")
        return replace(
            provider,
            model=ref.model or spec.model,
            api_base=spec.api_base,
            api_key=spec.api_key,
            dimensions=spec.dimensions,
        )

    def rewrap(self, ref: pb.ProviderRef) -> tuple[pb.ProviderRef, bool]:
        """Seals the same provider as one secret under the newest master key; False if it already was.

        Raises:
            FailedPrecondition: As `open`.
        """
        provider = self.open(ref)
        if not ref.sealed_key and not ref.sealed_api_base:
            return ref, False
        keyring = self._keyring()
        if not _is_whole(ref):
            return self._seal_whole(keyring, provider), True
        sealed = keyring.rewrap(ref.sealed_key, _owner(ref))
        if sealed is None:
            return ref, False
        rewrapped = pb.ProviderRef()
        rewrapped.CopyFrom(ref)
        rewrapped.sealed_key = sealed
        return rewrapped, True

    def _seal_whole(self, keyring: Keyring, provider: TenantProvider) -> pb.ProviderRef:
        ref = pb.ProviderRef(
            provider=provider.provider,
            model=provider.model,
            type=PROVIDER_TYPES.to_proto(provider.type),
            user_id=provider.user_id,
            dimensions=provider.dimensions,
        )
        spec = pb.ProviderSpec(
            model=provider.model,
            api_base=provider.api_base,
            api_key=provider.api_key,
            dimensions=provider.dimensions,
        )
        ref.sealed_key = keyring.seal(spec.SerializeToString(), _owner(ref))
        return ref

    def _open_apart(self, ref: pb.ProviderRef, provider: TenantProvider) -> TenantProvider:
        """Opens a provider sealed by an earlier version; a key without an address is only sent to the kind's own."""
        if ref.sealed_key and ref.sealed_api_base and not self._sealed_apart:
            log.warning("provider_sealed_apart", type=provider.type, provider=provider.provider)
            raise cannot_open("an earlier version sealed its key and address separately")
        if KINDS[provider.type][provider.provider].needs_base and not ref.sealed_api_base:
            raise cannot_open("its address is missing")
        api_base, api_key = (
            self._keyring().open(sealed, _owner(ref, name)).decode() if sealed else ""
            for sealed, name in ((ref.sealed_api_base, "api_base"), (ref.sealed_key, "key"))
        )
        return replace(provider, api_base=api_base, api_key=api_key)

    def _keyring(self) -> Keyring:
        if self._keys is None:
            raise FailedPrecondition(
                "this server can't store tenant providers: it has no master key", reason="PROVIDER_SEAL"
            )
        return self._keys()


@dataclass(slots=True)
class _Client(Generic[T]):
    instance: T
    users: int = 0
    used_at: float = 0.0
    dropped: bool = False


class TenantClients(Generic[T]):
    """The most recently used clients of tenant providers; an open connection spares the next call a handshake.

    A client is found by its provider's opened secrets, so a caller who can't open them never gets it, and a rotation of
    master keys doesn't matter. A client that is dropped is closed when its last user is done.

    Args:
        vault: Opens providers.
        build: Creates a client.
        close: Closes a client.
        load: Imports what `build` needs, in a thread, before it is called: an SDK takes seconds to import, and other
            calls must not wait for that.
        by_model: Whether a client serves one model; otherwise it serves all of its provider's.
        max_clients: Most clients.
        idle_seconds: A client that hasn't been used for this long is closed, and its key forgotten.
    """

    def __init__(
        self,
        vault: Vault,
        build: Callable[[TenantProvider], T],
        close: Callable[[T], Awaitable[None]],
        *,
        load: Callable[[TenantProvider], object] = lambda _: None,
        by_model: bool = False,
        max_clients: int = 256,
        idle_seconds: float = 600.0,
    ) -> None:
        self._vault = vault
        self._build = build
        self._close = close
        self._load = load
        self._by_model = by_model
        self._max_clients = max_clients
        self._idle_seconds = idle_seconds
        self._clients: OrderedDict[bytes, _Client[T]] = OrderedDict()

    def open(self, ref: pb.ProviderRef) -> TenantProvider:
        """Opens one of the current tenant's providers, as `Vault.open`."""
        return self._vault.open(ref)

    @asynccontextmanager
    async def lease(self, provider: pb.ProviderRef | TenantProvider) -> AsyncGenerator[T]:
        """Yields the client of one of the current tenant's providers; it stays open inside the block.

        Raises:
            CitewireError: As `Vault.open`.
        """
        opened = self.open(provider) if isinstance(provider, pb.ProviderRef) else provider
        key = _key(opened, opened.model if self._by_model else "")
        if key not in self._clients:
            await asyncio.to_thread(self._load, opened)
        client = self._clients.get(key)  # another call may have created it meanwhile
        if client is None:
            client = self._clients[key] = _Client(self._build(opened))
        self._clients.move_to_end(key)
        client.users += 1
        client.used_at = time.monotonic()
        try:
            await self._drop_unused()
            yield client.instance
        finally:
            client.users -= 1
            client.used_at = time.monotonic()
            if client.dropped and not client.users:
                await self._close_client(client)

    async def close(self) -> None:
        """Closes all clients; those in use when they are done."""
        while self._clients:
            await self._drop(next(iter(self._clients)))

    async def _drop_unused(self) -> None:
        oldest = time.monotonic() - self._idle_seconds
        for key in [key for key, client in self._clients.items() if not client.users and client.used_at < oldest]:
            await self._drop(key)
        while len(self._clients) > self._max_clients:
            await self._drop(next(iter(self._clients)))

    async def _drop(self, key: bytes) -> None:
        client = self._clients.pop(key, None)
        if client is not None:
            client.dropped = True
            if not client.users:
                await self._close_client(client)

    async def _close_client(self, client: _Client[T]) -> None:
        try:
            await self._close(client.instance)
        except OSError as exc:
            log.warning("provider_not_closed", error=type(exc).__name__)


def _key(opened: TenantProvider, model: str) -> bytes:
    """Returns a digest, so that no second copy of the key is in memory."""
    digest = hashlib.sha256()
    org_id, dimensions = current_tenant().org_id, str(opened.dimensions)
    for part in (org_id, opened.type, opened.provider, opened.api_base, opened.api_key, dimensions, model):
        raw = part.encode()
        digest.update(len(raw).to_bytes(4, "big") + raw)
    return digest.digest()


async def _run_test(provider: TenantProvider, test: TestCall) -> tuple[pb.ProviderTest, pb.EmbeddingSpace | None]:
    scope = asyncio.timeout(TEST_SECONDS)
    try:
        async with scope:
            space = await test(provider)
    except TimeoutError:
        if not scope.expired():
            raise
        text = f"The provider didn't answer in {TEST_SECONDS:g} s."
        return pb.ProviderTest(tried=True, reason="PROVIDER_TIMEOUT", text=text), None
    except CitewireError as exc:
        if exc.reason == "PROVIDER_ADDRESS":
            raise
        log.info("provider_test_failed", provider=provider.provider, reason=exc.reason)
        status = exc.metadata.get("status", "")
        text = exc.message[:1].upper() + exc.message[1:].removesuffix(".") + "."
        code = int(status) if status.isdecimal() else 0
        return pb.ProviderTest(tried=True, reason=exc.reason, text=text, status=code), None
    dimensions = space.dimensions if space else 0
    return pb.ProviderTest(tried=True, ok=True, text="The provider answered.", status=200, dimensions=dimensions), space


def _check_user(user_id: str) -> None:
    if user_id not in ("", current_tenant().user_id):
        raise InvalidArgument("the provider belongs to another user", reason="PROVIDER_SEAL")


def _type_of(ref: pb.ProviderRef) -> ProviderType:
    result = PROVIDER_TYPES.from_proto(ref.type)
    if result is None:
        raise InvalidArgument("the provider has no type", reason="PROVIDER_SEAL")
    return result


def _is_whole(ref: pb.ProviderRef) -> bool:
    return ref.sealed_key[:1] == bytes((WHOLE,))


def _owner(ref: pb.ProviderRef, field_name: str = "") -> Owner:
    return Owner(current_tenant().org_id, ref.user_id, _type_of(ref).value, ref.provider, field_name)
