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

    Each key has a virtual time that grows with what it was charged; the key with the least is next. One that comes
    late starts at the present virtual time, that of the key served last: it neither owes nor is owed for the time in
    which it asked for nothing. Two keys that always wait are never further apart than the two largest charges.

    Example:
        queue.push("a", job)
        job = queue.first()
        queue.charge(job.work(), again=job.is_waiting)
    """

    def __init__(self) -> None:
        self._now = 0.0
        self._times: dict[str, float] = {}  # where each key that is ahead of the present goes on
        self._lines: dict[str, deque[_T]] = {}
        self._heap: list[tuple[float, int, str]] = []  # keys with items
        self._order = itertools.count()

    def __bool__(self) -> bool:
        return bool(self._lines)

    def push(self, key: str, item: _T) -> None:
        """Adds an item at the end of its key's line."""
        line = self._lines.get(key)
        if line is None:
            self._lines[key] = deque((item,))
            self._enter(key)
        else:
            line.append(item)

    def first(self) -> _T:
        """Returns the next item, without taking it out; `charge` goes on from it.

        Raises:
            IndexError: There is none.
        """
        return self._lines[self._heap[0][2]][0]

    def charge(self, cost: float, *, again: bool = False) -> None:
        """Charges the key of the first item, and takes the item out.

        Args:
            cost: What serving it took, in any unit.
            again: Put it at the end of its key's line instead, as it isn't done.
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
        """Takes an item out, if it is there, at no charge."""
        line = self._lines.get(key)
        if line is None or item not in line:
            return
        line.remove(item)
        if not line:
            del self._lines[key]
            self._heap = [entry for entry in self._heap if entry[2] != key]
            heapq.heapify(self._heap)

    def drain(self) -> list[_T]:
        """Takes everything out."""
        items = [item for line in self._lines.values() for item in line]
        self._lines.clear()
        self._heap.clear()
        return items

    def _go_on(self, key: str) -> None:
        if self._lines[key]:
            self._enter(key)
            return
        del self._lines[key]
        if not self._lines:  # nobody waits: the next to come are equal again
            self._now = max(self._times.values())
            self._times.clear()
        elif len(self._times) > 2 * len(self._lines) + 64:
            self._times = {known: at for known, at in self._times.items() if at > self._now}

    def _enter(self, key: str) -> None:
        start = max(self._now, self._times.get(key, 0.0))
        heapq.heappush(self._heap, (start, next(self._order), key))


class Holding:
    """Permits that are held."""

    __slots__ = ("_on_revoke", "amount", "given_back", "key", "revoked")

    def __init__(self, key: str, amount: int) -> None:
        self.key = key
        self.amount = amount
        self.revoked = False
        """Whether they were given to another key, so that the holder must end now."""
        self.given_back = False
        """Whether they are free again."""
        self._on_revoke: Callable[[], None] | None = None

    @property
    def is_revocable(self) -> bool:
        """Says whether the holder may be interrupted now."""
        return self._on_revoke is not None

    @contextmanager
    def revocable(self, interrupt: Callable[[], None]) -> Generator[None]:
        """Lets others have the permits during the block; `interrupt` is called then, and must end it."""
        self._on_revoke = interrupt
        try:
            yield
        finally:
            self._on_revoke = None

    def revoke(self) -> None:
        """Tells the holder that the permits are another's."""
        self.revoked = True
        if self._on_revoke is not None:
            self._on_revoke()


class FairShares:
    """Permits, shared max-min by key: none gets less than another that has more than an equal share.

    A key alone may hold all. When others come, it gets no more beyond its share, what it gives back is theirs, and
    with `hold_now` what it holds beyond its share is revoked where its holder allows that.
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
            refusal: Makes the error for a key that gets none.
            most_waiting: Callers of one key that may wait in `hold`; one more is refused. 0: any number.
            shared: What the keys share while several are present, each at least one permit; the whole capacity by
                default. Less leaves what the permits stand for, such as cores, free for whom they are kept for.
            linger_seconds: How long a key counts as present after its last permit was given back. While several are
                present, each is held to its share, so that one that asks again finds permits free. One that comes
                while another holds more than that, from when it was alone, doesn't wait for it: what is held beyond a
                share doesn't count against the capacity then, so that almost twice as many may be held for a while.
            beyond: Let a key have its share at once where others hold all: what is held may then exceed the capacity.
            while_waiting: Entered by each caller that waits in `hold`, for metrics.
            clock: Seconds, growing.
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
        self._left: dict[str, float] = {}  # keys that hold nothing, and until when they count as present
        self._waiting: dict[str, deque[tuple[Holding, asyncio.Future[None]]]] = {}
        self._revocable: dict[str, list[Holding]] = {}

    @property
    def total(self) -> int:
        """Permits held now."""
        return self._total

    def used(self, key: str) -> int:
        """Permits that a key holds."""
        return self._used.get(key, 0)

    def check(self, key: str, amount: int = 1) -> None:
        """Refuses if `hold_now` would.

        Raises:
            CitewireError: The refusal.
        """
        if not self.has_room(key, amount):
            raise self._refusal(key)

    def has_room(self, key: str, amount: int = 1) -> bool:
        """Says whether `hold_now` would take a key in."""
        return self._fits_now(key, amount) or self._victim(key) is not None

    @contextmanager
    def hold_now(self, key: str, amount: int = 1) -> Generator[Holding]:
        """Holds permits inside the block.

        Raises:
            CitewireError: They can't be had at once.
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
            amount: For how many permits.
            seconds: How long it waits; None is for ever.
            first: Wait before the key's others, of any number.

        Raises:
            CitewireError: Too many callers of the key wait already, or there were none in time.
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
        """Ends a holding, of `hold`, before its block ends; once is enough."""
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
            # The permits may have been handed over in the same turn of the event loop in which the caller left.
            if waiter[1].done() and not waiter[1].cancelled():
                self._release(holding)
            else:
                self._forget(waiter)
            self._hand_over()
            raise

    def _forget(self, waiter: tuple[Holding, asyncio.Future[None]]) -> None:
        line = self._waiting.get(waiter[0].key)
        if line is not None and waiter in line:  # else it was found to have left
            line.remove(waiter)
            if not line:
                del self._waiting[waiter[0].key]

    def _fits_now(self, key: str, amount: int) -> bool:
        """As `_fits`, for who doesn't wait: it passes others that do only within its share, and its own never."""
        if self._waiting and (key in self._waiting or not (self._beyond and self._is_within_share(key, amount))):
            return False
        return self._fits(key, amount)

    def _fits(self, key: str, amount: int) -> bool:
        """Says whether a key may have so many now. A request above the whole capacity fits where nothing is held."""
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
        """What each key may hold while others are present; a key alone may hold all."""
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
        """The youngest holding of the key that has most, if that leaves it no less than this one then has."""
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
        """Gives what is free to those who wait: to the key with the fewest permits first, one after another."""
        while self._waiting and (key := self._next_key()) is not None:
            line = self._waiting[key]
            holding, future = line.popleft()
            del self._waiting[key]
            if line:
                self._waiting[key] = line  # last of those that hold equally many
            if not future.done():
                self._take(holding)
                future.set_result(None)

    def _next_key(self) -> str | None:
        """The key that is served next; None while there is no room for what it asks, so that nobody passes it by."""
        for key in sorted(self._waiting, key=self.used):
            amount = self._waiting[key][0][0].amount
            if self._fits(key, amount):
                return key
            if not self._linger or self._is_within_share(key, amount):
                return None
        return None
