"""Requests that wait for their first turn: where they wait too long, further ones are refused before any work.

More requests than can be served end in a queue. If it is long, each answer comes when nobody waits for it any more, and
all work is in vain. So a caller with many that wait, the oldest for longer than a short time, is refused further ones,
at the cost of little more than reading their heads (Nichols and Jacobson's CoDel controls a queue by the same measure).
"""

import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Final

from citewire_kit.errors import ResourceExhausted

FEW: Final = 64
"""Requests that may wait for however long: a caller with fewer isn't too much, but what they wait for is away."""

_current: ContextVar["Arrival | None"] = ContextVar("arrival", default=None)


class Arrival:
    """A request on its way to its first turn."""

    __slots__ = ("_caller", "_clock", "_complete", "_waiting", "has_begun")

    def __init__(self, waiting: dict[str, dict["Arrival", float]], caller: str, clock: Callable[[], float]) -> None:
        self._waiting = waiting
        self._caller = caller
        self._clock = clock
        self._complete = False
        self.has_begun = False
        """Whether it has had a turn."""

    def complete(self) -> None:
        """The request has been received: from here on it waits for us, and no longer for its sender; once is enough."""
        if self._complete:
            return
        self._complete = True
        self._waiting.setdefault(self._caller, {})[self] = self._clock()

    def begin(self) -> None:
        """The request has its first turn, or its answer."""
        self.has_begun = True
        own = self._waiting.get(self._caller)
        if own is not None and own.pop(self, None) is not None and not own:
            del self._waiting[self._caller]


class Arrivals:
    """The waiting requests of a process, by caller.

    Args:
        seconds: How long a caller's oldest request may have waited when another one of its arrives.
        clock: Seconds, growing.
    """

    def __init__(self, seconds: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._seconds = seconds
        self._clock = clock
        self._waiting: dict[str, dict[Arrival, float]] = {}
        """Each caller's in the order in which they were received."""

    @contextmanager
    def admit(self, caller: str) -> Generator[Arrival]:
        """Lets a request in.

        Args:
            caller: Whose it is, as far as its head tells.

        Raises:
            ResourceExhausted: The caller's earlier requests wait too long (`OVERLOADED`).
        """
        own = self._waiting.get(caller)
        if own and len(own) >= FEW and self._clock() - next(iter(own.values())) > self._seconds:
            raise overloaded()
        arrival = Arrival(self._waiting, caller, self._clock)
        token = _current.set(arrival)
        try:
            yield arrival
        finally:
            _current.reset(token)
            arrival.begin()


def begin_turn() -> None:
    """Notes that the current request has its first turn, if it hadn't one before."""
    arrival = _current.get()
    if arrival is not None:
        arrival.begin()


def has_begun() -> bool:
    """Says whether the current request has had a turn."""
    arrival = _current.get()
    return arrival is not None and arrival.has_begun


def overloaded() -> ResourceExhausted:
    """Returns the refusal."""
    return ResourceExhausted(
        "too many requests of this organisation at once; try again later", reason="OVERLOADED", retry_after=1.0
    )
