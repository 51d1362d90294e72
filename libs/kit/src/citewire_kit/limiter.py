"""Limits by plan: requests, tokens, streams and uploads of a key, its user and their organisation.

A window's counter has the window's number in its key: all gateways agree on it without asking, and a window's end needs
no look into the store. Windows of different callers begin at different moments, so that not all come back at once.
"""

import hashlib
import secrets
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Sequence
from contextlib import asynccontextmanager, nullcontext
from dataclasses import dataclass
from zlib import crc32

from citewire_kit.errors import CitewireError, ResourceExhausted
from citewire_kit.limit_store import Count, LimitStore, SlotLimit
from citewire_kit.metrics import LIMITED
from citewire_kit.plan_limits import WINDOW_SECONDS, LimitScope, Measure, OwnLimits, PlanLimits, effective
from citewire_kit.spending import Spending
from citewire_kit.tenant import Tenant

_STREAM_RETRY_SECONDS = 2.0
_UNITS = {
    Measure.TOKENS: ';qu="tokens"',
    Measure.STREAMS: ';qu="concurrent-requests"',
    Measure.UPLOAD_BYTES: ';qu="content-bytes"',
    Measure.UPLOADS: ';qu="uploads"',
}


@dataclass(frozen=True, slots=True)
class LimitState:
    """A limit and its current counter."""

    measure: Measure
    scope: LimitScope
    limit: int
    used: int
    seconds_left: int
    """Seconds until its window ends; 0 without one."""

    @property
    def name(self) -> str:
        """Its name in headers and errors."""
        return f"{self.measure}-{self.scope}"

    @property
    def policy(self) -> str:
        """Its item of `RateLimit-Policy`."""
        seconds = WINDOW_SECONDS.get(self.measure)
        return f'"{self.name}";q={self.limit}{_UNITS.get(self.measure, "")}' + (f";w={seconds}" if seconds else "")

    @property
    def service_limit(self) -> str:
        """Its item of `RateLimit`."""
        left = max(0, self.limit - self.used)
        return f'"{self.name}";r={left}' + (f";t={self.seconds_left}" if self.measure in WINDOW_SECONDS else "")


@dataclass(slots=True)
class Taken:
    """The amounts that a request took from its caller's limits."""

    states: tuple[LimitState, ...] = ()
    counts: tuple[Count, ...] = ()
    ends_at: float = 0.0
    """`time.time()` at which the first of the windows ends."""

    def headers(self) -> tuple[tuple[bytes, bytes], ...]:
        """The fields of draft-ietf-httpapi-ratelimit-headers-10."""
        return rate_headers(self.states)


def rate_headers(states: Sequence[LimitState]) -> tuple[tuple[bytes, bytes], ...]:
    """Returns `RateLimit-Policy` and `RateLimit`; nothing without limits."""
    if not states:
        return ()
    policies, limits = (", ".join(part) for part in zip(*((s.policy, s.service_limit) for s in states), strict=True))
    return ((b"ratelimit-policy", policies.encode()), (b"ratelimit", limits.encode()))


class Limiter:
    """Reserves amounts before work is done, and settles them once the actual amounts are known.

    Args:
        store: Where amounts are counted.
        plans: The limits; None for no limits.
        own: Returns a caller's own limits in addition to the plan's; None for none.
    """

    def __init__(
        self,
        store: LimitStore,
        plans: PlanLimits | None,
        own: Callable[[Tenant], Awaitable[OwnLimits]] | None = None,
    ) -> None:
        self._store = store
        self._plans = plans
        self._own = own

    async def take(self, tenant: Tenant, measure: Measure, amount: int = 1) -> Taken:
        """Counts an amount against each of the caller's limits, or against none.

        Raises:
            ResourceExhausted: A limit would be exceeded (`RATE_LIMITED`).
        """
        now, limits = time.time(), await self._limits(tenant, measure)
        counts, scopes, lefts = _counts(tenant, measure, limits, amount, now)
        if not counts:
            return Taken()
        totals = await self._store.add(counts)
        states = tuple(
            LimitState(measure, scope, limits[scope], total, left)
            for scope, total, left in zip(scopes, totals, lefts, strict=True)
        )
        over = [state for state in states if state.used > state.limit]
        if over:
            await self._store.add([count._replace(amount=-amount) for count in counts])
            # So that a rejected request takes nothing: the error reports what is left without it.
            raise _limited(tenant, max(over, key=lambda state: state.seconds_left), amount)
        return Taken(states, counts, now + min(lefts))

    async def settle(self, taken: Taken, amount: int) -> None:
        """Corrects the reserved amount to the actual one; windows that have passed aren't changed."""
        if not taken.counts or time.time() >= taken.ends_at:
            return
        difference = amount - taken.counts[0].amount
        if difference:
            await self._store.add([count._replace(amount=difference) for count in taken.counts])

    @asynccontextmanager
    async def stream(self, tenant: Tenant, seconds: float) -> AsyncGenerator[None]:
        """Holds one of the caller's streams during the block.

        Args:
            tenant: Who calls.
            seconds: Maximum duration of the stream.

        Raises:
            ResourceExhausted: All are taken (`RATE_LIMITED`).
        """
        limits = await self._limits(tenant, Measure.STREAMS)
        names = {scope: _whose(tenant, scope) for scope in limits}
        scopes = [scope for scope in limits if names[scope]]
        slots = [SlotLimit(f"{Measure.STREAMS}:{scope}:{names[scope]}", limits[scope]) for scope in scopes]
        lease = secrets.token_hex(8)
        full = await self._store.take_slots(slots, lease, seconds) if slots else None
        if full is not None:
            limit = slots[full].limit
            raise _limited(tenant, LimitState(Measure.STREAMS, scopes[full], limit, limit, 0), 1)
        try:
            yield
        finally:
            if slots:
                await self._store.release_slots(slots, lease)

    @asynccontextmanager
    async def chat(self, tenant: Tenant, tokens: int, seconds: float) -> AsyncGenerator[Spending]:
        """Holds a stream and `tokens` during the block; afterwards what the block spent is counted instead.

        Raises:
            ResourceExhausted: The caller has too many streams or too few tokens (`RATE_LIMITED`).
        """
        async with self.stream(tenant, seconds):
            taken, spending = await self.take(tenant, Measure.TOKENS, tokens), Spending(tokens)
            try:
                yield spending
            finally:
                await self.settle(taken, spending.tokens)

    @asynccontextmanager
    async def call(self, tenant: Tenant, *, streams: bool, spends: bool, seconds: float) -> AsyncGenerator[Spending]:
        """Counts a call during the block: a request, a stream if `streams` is set, and what the block spends.

        Tokens aren't reserved: with `spends`, the call is rejected only if none are left.

        Raises:
            ResourceExhausted: One of these limits is reached (`RATE_LIMITED`).
        """
        await self.take(tenant, Measure.REQUESTS)
        if spends:
            await self._require_rest(tenant, Measure.TOKENS)
        limits = await self._limits(tenant, Measure.TOKENS)
        async with self.stream(tenant, seconds) if streams else nullcontext():
            spending = Spending(0)
            try:
                yield spending
            finally:
                if spending.tokens:
                    await self._store.add(_counts(tenant, Measure.TOKENS, limits, spending.tokens, time.time())[0])

    async def states(self, tenant: Tenant) -> list[LimitState]:
        """Returns the caller's limits with windows, and their counters."""
        return [state for measure in WINDOW_SECONDS for state in await self._states(tenant, measure)]

    async def _states(self, tenant: Tenant, measure: Measure) -> list[LimitState]:
        limits = await self._limits(tenant, measure)
        counts, scopes, lefts = _counts(tenant, measure, limits, 0, time.time())
        totals = await self._store.add(counts)
        return [
            LimitState(measure, scope, limits[scope], total, left)
            for scope, total, left in zip(scopes, totals, lefts, strict=True)
        ]

    async def _require_rest(self, tenant: Tenant, measure: Measure) -> None:
        spent = [state for state in await self._states(tenant, measure) if state.used >= state.limit]
        if spent:
            raise _limited(tenant, max(spent, key=lambda state: state.seconds_left), 1)

    async def _limits(self, tenant: Tenant, measure: Measure) -> dict[LimitScope, int]:
        if self._plans is None:
            return {}
        own: OwnLimits = {} if self._own is None else await self._own(tenant)
        return effective(self._plans[tenant.plan][measure], own, measure)


def _counts(
    tenant: Tenant, measure: Measure, limits: Iterable[LimitScope], amount: int, now: float
) -> tuple[tuple[Count, ...], list[LimitScope], list[int]]:
    """The current counters, their owners, and the seconds until each ends."""
    seconds = WINDOW_SECONDS[measure]
    counts: list[Count] = []
    scopes: list[LimitScope] = []
    lefts: list[int] = []
    for scope in limits:
        whose = _whose(tenant, scope)
        if not whose:
            continue
        key = f"{measure}:{scope}:{whose}"
        number, passed = divmod(now + crc32(key.encode()) % seconds, seconds)
        counts.append(Count(f"{key}:{int(number)}", amount, seconds))
        scopes.append(scope)
        lefts.append(max(1, round(seconds - passed)))
    return tuple(counts), scopes, lefts


def _whose(tenant: Tenant, scope: LimitScope) -> str:
    """A short key: ids have up to 128 characters, which a shared store needn't contain."""
    match scope:
        case LimitScope.KEY if not tenant.key_id:
            return ""
        case LimitScope.KEY:
            name = f"{tenant.org_id}\n{tenant.key_id}"
        case LimitScope.USER:
            name = f"{tenant.org_id}\n{tenant.user_id}"
        case LimitScope.ORG:
            name = tenant.org_id
    return hashlib.blake2b(name.encode(), digest_size=12).hexdigest()


def _limited(tenant: Tenant, state: LimitState, amount: int) -> CitewireError:
    LIMITED.labels(state.measure, state.scope, tenant.plan).inc()
    seconds = WINDOW_SECONDS.get(state.measure)
    whose = {"key": "this API key", "user": "this user", "org": "this organisation"}[state.scope]
    what = str(state.measure).replace("-", " ")
    within = f"in {seconds} s" if seconds else "at the same time"
    never = f"; this request alone takes {amount}" if amount > state.limit else ""
    return ResourceExhausted(
        f"{whose} may have {state.limit} {what} {within} on plan {tenant.plan}{never}",
        reason="RATE_LIMITED",
        retry_after=state.seconds_left if seconds else _STREAM_RETRY_SECONDS,
        metadata={
            "limit": state.name,
            "quota": str(state.limit),
            **({"window_seconds": str(seconds)} if seconds else {}),
            "ratelimit_policy": state.policy,
            "ratelimit": LimitState(
                state.measure, state.scope, state.limit, state.limit, state.seconds_left
            ).service_limit,
        },
    )
