"""Clients of tenants' providers, kept between calls: a connection that is open needs no handshake."""

import hashlib
import time
from collections import OrderedDict
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Generic, TypeVar

from citewire_kit.telemetry import get_logger
from citewire_kit.tenant import Tenant
from citewire_remote.tenants import OpenedProvider

T = TypeVar("T")

log = get_logger(__name__)


@dataclass(slots=True)
class _Entry(Generic[T]):
    instance: T
    users: int = 0
    used_at: float = 0.0
    dropped: bool = False


class Instances(Generic[T]):
    """The instances that were used last.

    One is found by what was opened for the caller, so who couldn't open it never gets it, and a master key's rotation
    changes nothing. What is dropped is closed when its last user is done.

    Args:
        build: Makes an instance.
        close: Closes one.
        by_model: Whether an instance serves one model; otherwise it serves all of its provider's.
        most: Instances kept.
        idle_seconds: After which an unused one, and the key in it, goes.
    """

    def __init__(
        self,
        build: Callable[[OpenedProvider], T],
        close: Callable[[T], Awaitable[None]],
        *,
        by_model: bool = False,
        most: int = 256,
        idle_seconds: float = 600.0,
    ) -> None:
        self._build = build
        self._close = close
        self._by_model = by_model
        self._most = most
        self._idle_seconds = idle_seconds
        self._entries: OrderedDict[bytes, _Entry[T]] = OrderedDict()

    @asynccontextmanager
    async def lease(self, tenant: Tenant, opened: OpenedProvider) -> AsyncGenerator[T]:
        """Gives the instance of an opened provider, which stays open inside the block."""
        key = _key(tenant, opened, opened.model if self._by_model else "")
        entry = self._entries.get(key)
        if entry is None:
            entry = self._entries[key] = _Entry(self._build(opened))
        self._entries.move_to_end(key)
        entry.users += 1
        entry.used_at = time.monotonic()
        try:
            await self._drop_old()
            yield entry.instance
        finally:
            entry.users -= 1
            entry.used_at = time.monotonic()
            if entry.dropped and not entry.users:
                await self._closed(entry)

    async def close(self) -> None:
        """Closes all; those in use when they are done."""
        while self._entries:
            await self._drop(next(iter(self._entries)))

    async def _drop_old(self) -> None:
        now = time.monotonic()
        old = [key for key, one in self._entries.items() if not one.users and now - one.used_at > self._idle_seconds]
        for key in old:
            await self._drop(key)
        while len(self._entries) > self._most:
            await self._drop(next(iter(self._entries)))

    async def _drop(self, key: bytes) -> None:
        entry = self._entries.pop(key, None)
        if entry is not None:
            entry.dropped = True
            if not entry.users:
                await self._closed(entry)

    async def _closed(self, entry: _Entry[T]) -> None:
        try:
            await self._close(entry.instance)
        except OSError as exc:
            log.warning("provider_not_closed", error=type(exc).__name__)


def _key(tenant: Tenant, opened: OpenedProvider, model: str) -> bytes:
    """A digest, so that no key is kept a second time."""
    digest = hashlib.sha256()
    dimensions = str(opened.dimensions)
    for part in (tenant.org_id, opened.type, opened.provider, opened.api_base, opened.api_key, dimensions, model):
        raw = part.encode()
        digest.update(len(raw).to_bytes(4, "big") + raw)
    return digest.digest()
