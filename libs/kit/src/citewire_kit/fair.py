"""Fair shares by organisation: the order of work (`FairQueue`) and the permits to be at work (`FairShares`).

Both give every organisation the same, however much it asks for, and leave nothing unused: what one doesn't ask for is
the others'. Within an organisation, who asked first comes first.
"""

import asyncio
import heapq
import itertools
import time
from collections import deque
from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import AbstractContextManager, asynccontextmanager, contextmanager, nullcontext
from typing import Generic, TypeVar

from citewire_kit.errors import CitewireError

_T = TypeVar("_T")


class FairQueue(Generic[_T]):
    """Start-time fair queueing (Goyal, Vin, Cheng 1996) of items by key, such as an organisation.

    Each key has a virtual time that grows with its charges; the key with the lowest is next. A new key starts at the
    current virtual time, that of the key served last: time in which it asked for nothing neither favours nor penalises
    it. Two keys that always wait are never further apart than the two largest charges.

    Example:
        queue.push("a", job)
        job = queue.first()
        queue.charge(job.work(), again=job.is_waiting)
    """

    def __init__(self) -> None:
        self._now = 0.0
        self._times: dict[str, float] = {}  # of keys that are ahead of the current virtual time
        self._lines: dict[str, deque[_T]] = {}
        self._heap: list[tuple[float, int, str]] = []  # keys with items
        self._order = itertools.count()

    def __bool__(self) -> bool:
        return bool(self._lines)

    def push(self, key: str, item: _T) -> None:
        """Appends an item to its key's line."""
        line = self._lines.get(key)
        if line is None:
            self._lines[key] = deque((item,))
            self._enter(key)
        else:
            line.append(item)

    def first(self) -> _T:
        """Returns the next item without removing it; `charge` continues from it.

        Raises:
            IndexError: There is none.
        """
        return self._lines[self._heap[0][2]][0]

    def charge(self, cost: float, *, again: bool = False) -> None:
        """Charges the key of the first item, and removes the item.

        Args:
            cost: The cost of serving it, in any unit.
            again: Move it to the end of its key's line instead, because it isn't finished.
        """
        start, _, key = heapq.heappop(self._heap)
        self._now = start
        self._times[key] = start + cost
        line = self._lines[key]
        item = line.popleft()
        if again:
            line.append(item)
        self._go_on(key)

    def remove(self, key: str, item: _T) -> None:
        """Removes an item, if it is there, without a charge."""
        line = self._lines.get(key)
        if line is None or item not in line:
            return
        line.remove(item)
        if not line:
            del self._lines[key]
            self._heap = [entry for entry in self._heap if entry[2] != key]
            heapq.heapify(self._heap)

    def drain(self) -> list[_T]:
        """Removes everything."""
        items = [item for line in self._lines.values() for item in line]
        self._lines.clear()
        self._heap.clear()
        return items

    def _go_on(self, key: str) -> None:
        if self._lines[key]:
            self._enter(key)
            return
        del self._lines[key]
        if not self._lines:  # nobody waits: the next keys start equal again
            self._now = max(self._times.values())
            self._times.clear()
        elif len(self._times) > 2 * len(self._lines) + 64:
            self._times = {known: at for known, at in self._times.items() if at > self._now}

    def _enter(self, key: str) -> None:
        start = max(self._now, self._times.get(key, 0.0))
        heapq.heappush(self._heap, (start, next(self._order), key))


class Holding:
    """A number of permits that a key holds."""

    __slots__ = ("_on_revoke", "amount", "given_back", "key", "revoked")

    def __init__(self, key: str, amount: int) -> None:
        self.key = key
        self.amount = amount
        self.revoked = False
        """Whether they were given to another key, so that the holder must stop now."""
        self.given_back = False
        """Whether they have been released."""
        self._on_revoke: Callable[[], None] | None = None

    @property
    def is_revocable(self) -> bool:
        """Whether the holder may be interrupted now."""
        return self._on_revoke is not None

    @contextmanager
    def revocable(self, interrupt: Callable[[], None]) -> Generator[None]:
        """Allows others to take the permits during the block; `interrupt` is called then, and must end the block."""
        self._on_revoke = interrupt
        try:
            yield
        finally:
            self._on_revoke = None

    def revoke(self) -> None:
        """Notifies the holder that its permits were given to another key."""
        self.revoked = True
        if self._on_revoke is not None:
            self._on_revoke()


class FairShares:
    """Permits with max-min fairness by key: no key gets less than one that has more than an equal share.

    A single key may hold all. When others arrive, it gets no more beyond its share, released permits go to them, and
    with `hold_now` permits beyond its share are revoked if their holder allows it.
    """

    def __init__(
        self,
        capacity: int,
        refusal: Callable[[str], CitewireError],
        *,
        most_waiting: int = 0,
        shared: int | None = None,
        linger_seconds: float = 0.0,
        beyond: bool = False,
        while_waiting: Callable[[], AbstractContextManager[None]] = nullcontext,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Starts with all permits free.

        Args:
            capacity: Permits.
            refusal: Creates the error for a key that gets none.
            most_waiting: Callers of one key that may wait in `hold`; further ones are rejected. 0: any number.
            shared: The permits that keys share while several are present, with at least one for each; the whole
                capacity by default. A lower number keeps resources, such as cores, free.
            linger_seconds: How long a key counts as present after releasing its last permit. While several are
                present, each is limited to its share, so that permits are free when one asks again. A key that arrives
                while another still holds more, from when it was alone, doesn't wait for it: permits beyond a share
                don't count against the capacity then, so almost twice as many may be held for a while.
            beyond: Give a key its share at once even if others hold all, so that the capacity may be exceeded.
            while_waiting: Entered by each caller that waits in `hold`, for metrics.
            clock: Returns monotonic seconds.
        """
        self._capacity = capacity
        self._shared = capacity if shared is None else shared
        self._refusal = refusal
        self._most_waiting = most_waiting
        self._linger = linger_seconds
        self._beyond = beyond
        self._while_waiting = while_waiting
        self._clock = clock
        self._total = 0
        self._used: dict[str, int] = {}
        self._left: dict[str, float] = {}  # until when keys that hold nothing count as present
        self._waiting: dict[str, deque[tuple[Holding, asyncio.Future[None]]]] = {}
        self._revocable: dict[str, list[Holding]] = {}

    @property
    def total(self) -> int:
        """Number of permits held now."""
        return self._total

    def used(self, key: str) -> int:
        """Returns the number of permits that a key holds."""
        return self._used.get(key, 0)

    def check(self, key: str, amount: int = 1) -> None:
        """Raises if `hold_now` would.

        Raises:
            CitewireError: The refusal.
        """
        if not self.has_room(key, amount):
            raise self._refusal(key)

    def has_room(self, key: str, amount: int = 1) -> bool:
        """Whether `hold_now` would succeed for a key."""
        return self._fits_now(key, amount) or self._victim(key) is not None

    @contextmanager
    def hold_now(self, key: str, amount: int = 1) -> Generator[Holding]:
        """Holds permits inside the block.

        Raises:
            CitewireError: They aren't available at once.
        """
        if self._total + amount > self._capacity or not self._fits_now(key, amount):
            victim = self._victim(key)  # before going beyond the capacity
            if victim is not None:
                self._release(victim)
                victim.revoke()
            elif not self._fits_now(key, amount):
                raise self._refusal(key)
        holding = Holding(key, amount)
        self._take(holding)
        self._revocable.setdefault(key, []).append(holding)
        try:
            yield holding
        finally:
            if not holding.revoked:
                self._release(holding)
            self._hand_over()

    @asynccontextmanager
    async def hold(
        self, key: str, amount: int = 1, *, seconds: float | None = None, first: bool = False
    ) -> AsyncGenerator[Holding]:
        """Holds permits inside the block; waits for them in turn.

        Args:
            key: Who asks.
            amount: Number of permits.
            seconds: Maximum wait; None waits forever.
            first: Wait ahead of the key's other callers, without a limit on their number.

        Raises:
            CitewireError: Too many callers of the key are already waiting, or no permits were available in time.
        """
        holding = Holding(key, amount)
        if not self._waiting and self._fits(key, amount):
            self._take(holding)
        else:
            try:
                with self._while_waiting():
                    async with asyncio.timeout(seconds):
                        await self._wait(holding, first=first)
            except TimeoutError:
                raise self._refusal(key) from None
        try:
            yield holding
        finally:
            self.give_back(holding)

    def give_back(self, holding: Holding) -> None:
        """Releases permits of `hold` before its block ends. Idempotent."""
        if not holding.given_back:
            holding.given_back = True
            self._release(holding)
            self._hand_over()

    async def _wait(self, holding: Holding, *, first: bool) -> None:
        line = self._waiting.setdefault(holding.key, deque())
        if self._most_waiting and len(line) >= self._most_waiting and not first:
            raise self._refusal(holding.key)
        waiter = (holding, asyncio.get_running_loop().create_future())
        line.insert(0 if first else len(line), waiter)
        self._hand_over()
        try:
            await waiter[1]
        except asyncio.CancelledError:
            # The permits may have been granted in the same turn of the event loop in which the caller was cancelled.
            if waiter[1].done() and not waiter[1].cancelled():
                self._release(holding)
            else:
                self._forget(waiter)
            self._hand_over()
            raise

    def _forget(self, waiter: tuple[Holding, asyncio.Future[None]]) -> None:
        line = self._waiting.get(waiter[0].key)
        if line is not None and waiter in line:  # otherwise it was already removed
            line.remove(waiter)
            if not line:
                del self._waiting[waiter[0].key]

    def _fits_now(self, key: str, amount: int) -> bool:
        """Like `_fits` for a caller that doesn't wait: it may overtake other keys within its share, never its own."""
        if self._waiting and (key in self._waiting or not (self._beyond and self._is_within_share(key, amount))):
            return False
        return self._fits(key, amount)

    def _fits(self, key: str, amount: int) -> bool:
        """Whether a key may have this many now. A request above the whole capacity fits if nothing is held."""
        if self._total == 0:
            return True
        if self._total + amount <= self._capacity:
            return not self._linger or self._is_within_share(key, amount)
        if not self._is_within_share(key, amount):
            return False
        return self._beyond or (bool(self._linger) and self._held_within_shares() + amount <= self._capacity)

    def _is_within_share(self, key: str, amount: int) -> bool:
        used = self._used.get(key, 0)
        return used == 0 or used + amount <= self._share()

    def _held_within_shares(self) -> int:
        share = self._share()
        return sum(min(used, share) for used in self._used.values())

    def _share(self) -> int:
        """The number that each key may hold while others are present; a single key may hold all."""
        present = self._count_present()
        return self._capacity if present <= 1 else max(1, self._shared // present)

    def _count_present(self) -> int:
        """Counts the keys that hold permits, wait for one, or held one lately."""
        now = self._clock()
        while self._left and next(iter(self._left.values())) <= now:
            del self._left[next(iter(self._left))]
        waiting = sum(1 for key in self._waiting if key not in self._used and key not in self._left)
        return len(self._used) + len(self._left) + waiting

    def _victim(self, key: str) -> Holding | None:
        """The youngest holding of the key with most permits, if that key then still has no less than this one."""
        richest = max(self._revocable, key=self.used, default=None)
        if richest is None or self.used(richest) < self.used(key) + 2:
            return None
        return next((held for held in reversed(self._revocable[richest]) if held.is_revocable), None)

    def _take(self, holding: Holding) -> None:
        self._total += holding.amount
        self._used[holding.key] = self._used.get(holding.key, 0) + holding.amount
        self._left.pop(holding.key, None)

    def _release(self, holding: Holding) -> None:
        key = holding.key
        self._total -= holding.amount
        self._used[key] -= holding.amount
        if not self._used[key]:
            del self._used[key]
            if self._linger:
                self._left[key] = self._clock() + self._linger
        held = self._revocable.get(key)
        if held is not None and holding in held:
            held.remove(holding)
            if not held:
                del self._revocable[key]

    def _hand_over(self) -> None:
        """Gives free permits to waiting callers, one after another, starting with the key that holds the fewest."""
        while self._waiting and (key := self._next_key()) is not None:
            line = self._waiting[key]
            holding, future = line.popleft()
            del self._waiting[key]
            if line:
                self._waiting[key] = line  # last among those that hold the same number
            if not future.done():
                self._take(holding)
                future.set_result(None)

    def _next_key(self) -> str | None:
        """The key to be served next; None while its request doesn't fit, so that nobody overtakes it."""
        for key in sorted(self._waiting, key=self.used):
            amount = self._waiting[key][0][0].amount
            if self._fits(key, amount):
                return key
            if not self._linger or self._is_within_share(key, amount):
                return None
        return None
