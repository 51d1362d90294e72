"""Where limits are counted: in memory for one gateway, in Redis or Valkey for several.

The shared store may be away: then each gateway counts for itself until it is back, so that nobody is refused because
of it, and a metric and an alert say so.
"""

import asyncio
import re
import time
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack
from typing import Any, Final, NamedTuple, TypeVar, cast

from limits.aio.storage import RedisStorage
from pydantic import SecretStr, field_validator

from citewire_kit.metrics import LIMIT_STORE_FAILURES, LIMIT_STORE_UP
from citewire_kit.plan_limits import PlanLimitSettings
from citewire_kit.settings import settings_config
from citewire_kit.telemetry import get_logger

T = TypeVar("T")

log = get_logger(__name__)

_MAX_COUNTERS = 100_000
"""Maximum number of counters per window length in memory; beyond that, the oldest are reset."""
ANSWER_SECONDS = 0.5
"""Maximum wait for the shared store."""
_RETRY_SECONDS = 5.0
"""Pause before the store is tried again."""
_PREFIX = "citewire"
_URL = re.compile(r"(?:rediss?|valkeys?)://[^\s/]+(?:/\d*)?")
# One script for all scopes: either all get their lease, or none. Leases of crashed gateways expire.
_ACQUIRE: Final = """
local now = tonumber(redis.call('TIME')[1])
for i, key in ipairs(KEYS) do
    redis.call('ZREMRANGEBYSCORE', key, '-inf', now)
    if redis.call('ZCARD', key) >= tonumber(ARGV[i + 2]) then return i end
end
for i, key in ipairs(KEYS) do
    redis.call('ZADD', key, now + tonumber(ARGV[2]), ARGV[1])
    redis.call('EXPIRE', key, ARGV[2])
end
return 0
"""


class LimitStoreSettings(PlanLimitSettings):
    """Mixed into the settings of processes that count limits."""

    model_config = settings_config("CITEWIRE_")

    limit_store: SecretStr | None = None
    """Redis or Valkey in which several processes count limits together: `redis://:password@host:6379/0`, or `rediss://`
    for TLS. None: each process counts on its own."""

    @field_validator("limit_store")
    @classmethod
    def _is_a_store(cls, value: SecretStr | None) -> SecretStr | None:
        if value is not None and not _URL.fullmatch(value.get_secret_value()):
            raise ValueError(
                "must be redis://, rediss://, valkey:// or valkeys:// with a host, such as redis://host:6379"
            )
        return value


class Count(NamedTuple):
    """An amount to add to a counter."""

    key: str
    amount: int
    seconds: int
    """Lifetime of the counter from its first amount."""


class SlotLimit(NamedTuple):
    """A limit on concurrent use."""

    key: str
    limit: int


class LimitStore(ABC):
    """Counters that expire, and slots that are taken and released."""

    @abstractmethod
    async def add(self, counts: Sequence[Count]) -> list[int]:
        """Adds each amount, and returns the new counter values."""

    @abstractmethod
    async def take_slots(self, slots: Sequence[SlotLimit], lease: str, seconds: float) -> int | None:
        """Takes a slot under each limit, or under none; returns the index of the first full one, or None.

        Args:
            slots: The limits.
            lease: Who takes them.
            seconds: When they are released even without `release_slots`.
        """

    @abstractmethod
    async def release_slots(self, slots: Sequence[SlotLimit], lease: str) -> None:
        """Releases the slots taken by `take_slots`."""


class _Generations:
    """Counters that live for one to two times `seconds` after their last amount; old ones are dropped together."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._new: dict[str, int] = {}
        self._old: dict[str, int] = {}
        self._since = time.monotonic()

    def add(self, key: str, amount: int) -> int:
        age = time.monotonic() - self._since
        if age >= self._seconds or len(self._new) >= _MAX_COUNTERS:
            self._old = self._new if age < 2 * self._seconds else {}
            self._new, self._since = {}, time.monotonic()
        total = self._new.get(key, self._old.get(key, 0)) + amount
        if amount:
            self._new[key] = total
        return total


class MemoryStore(LimitStore):
    """Counts in this process.

    `limits` has an in-memory storage too, but it starts a task per amount that checks every key: with 50,000 keys
    an amount takes 100 ms there, and 0.02 ms here.
    """

    def __init__(self) -> None:
        self._counters: dict[int, _Generations] = {}
        self._slots: Counter[str] = Counter()

    async def add(self, counts: Sequence[Count]) -> list[int]:
        """See `LimitStore`."""
        return [self.add_now(count) for count in counts]

    def add_now(self, count: Count) -> int:
        """Adds an amount, and returns the new value."""
        counters = self._counters.get(count.seconds)
        if counters is None:
            counters = self._counters[count.seconds] = _Generations(count.seconds)
        return counters.add(count.key, count.amount)

    async def take_slots(self, slots: Sequence[SlotLimit], lease: str, seconds: float) -> int | None:
        """See `LimitStore`. A slot held in this process is always released."""
        del lease, seconds
        for index, slot in enumerate(slots):
            if self._slots[slot.key] >= slot.limit:
                return index
        self._slots.update(slot.key for slot in slots)
        return None

    async def release_slots(self, slots: Sequence[SlotLimit], lease: str) -> None:
        """See `LimitStore`."""
        del lease
        for slot in slots:
            self._slots[slot.key] -= 1
            if self._slots[slot.key] <= 0:
                del self._slots[slot.key]


class SharedStore(LimitStore):
    """Counts in Redis or Valkey, and in memory while that fails.

    Args:
        url: `redis://`, `rediss://`, `valkey://` or `valkeys://`, with host, port, and a password if needed.
    """

    def __init__(self, url: str) -> None:
        scheme, _, rest = url.partition("://")
        address = f"async+{scheme.replace('valkeys', 'rediss').replace('valkey', 'redis')}://{rest}"
        # The client of `limits` for both, which use the same protocol.
        self._storage = RedisStorage(
            address,
            implementation="redispy",
            key_prefix=_PREFIX,
            socket_connect_timeout=ANSWER_SECONDS,
            socket_timeout=ANSWER_SECONDS,
        )
        self._client: Any = cast("Any", self._storage.bridge).get_connection()
        self._acquire = self._client.register_script(_ACQUIRE)
        self._memory = MemoryStore()
        self._leases_in_memory: set[str] = set()
        self._again_at = 0.0
        LIMIT_STORE_UP.set(1)

    async def add(self, counts: Sequence[Count]) -> list[int]:
        """See `LimitStore`."""

        async def shared() -> list[int]:
            return await asyncio.gather(*map(self._add, counts))

        return await self._try(shared, lambda: self._memory.add(counts))

    async def take_slots(self, slots: Sequence[SlotLimit], lease: str, seconds: float) -> int | None:
        """See `LimitStore`."""

        async def shared() -> int | None:
            keys, limits = [f"{_PREFIX}:{slot.key}" for slot in slots], [slot.limit for slot in slots]
            index = await self._acquire(keys=keys, args=[lease, max(1, round(seconds)), *limits])
            return index - 1 if index else None

        async def in_memory() -> int | None:
            full = await self._memory.take_slots(slots, lease, seconds)
            if full is None:
                self._leases_in_memory.add(lease)
            return full

        return await self._try(shared, in_memory)

    async def release_slots(self, slots: Sequence[SlotLimit], lease: str) -> None:
        """See `LimitStore`. Slots that can't be released now expire."""
        if lease in self._leases_in_memory:
            self._leases_in_memory.discard(lease)
            return await self._memory.release_slots(slots, lease)

        async def shared() -> None:
            await asyncio.gather(*(self._client.zrem(f"{_PREFIX}:{slot.key}", lease) for slot in slots))

        async def nothing() -> None:
            return None

        return await self._try(shared, nothing)

    async def close(self) -> None:
        """Closes the connections."""
        await self._client.aclose()

    async def _add(self, count: Count) -> int:
        if not count.amount:
            return await self._storage.get(count.key)
        return await self._storage.incr(count.key, count.seconds, amount=count.amount)

    async def _try(self, shared: Callable[[], Awaitable[T]], instead: Callable[[], Awaitable[T]]) -> T:
        if time.monotonic() < self._again_at:
            return await instead()
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                result = await shared()
        except Exception as exc:  # noqa: BLE001 # no caller is rejected because of it
            if time.monotonic() >= self._again_at:  # only the first waiting call logs it
                log.warning("limit_store_away", error=type(exc).__name__, retry_seconds=_RETRY_SECONDS)
            self._again_at = time.monotonic() + _RETRY_SECONDS
            LIMIT_STORE_UP.set(0)
            LIMIT_STORE_FAILURES.inc()
            return await instead()
        LIMIT_STORE_UP.set(1)
        return result


def open_limit_store(stack: AsyncExitStack, settings: LimitStoreSettings) -> LimitStore:
    """Returns the store named in the settings; `stack` closes it."""
    if settings.limit_store is None:
        return MemoryStore()
    store = SharedStore(settings.limit_store.get_secret_value())
    stack.push_async_callback(store.close)
    return store
