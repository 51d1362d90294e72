"""Requests that wait for their first turn: where they wait too long, further ones are refused before any work.

More requests than can be served end in a queue. If it is long, each answer comes when nobody waits for it any more, and
all work is wasted. So a caller with many that wait, the oldest for longer than a short time, is refused further ones,
at the cost of little more than reading their heads (Nichols and Jacobson's CoDel controls a queue by the same measure).

The oldest's age comes late: a flood's whole first half second would be let in, wait until it gives up, and leave at
once, so that the next half second is let in. As soon as it is known how fast a caller's requests get on, one that would
have to wait too long is therefore refused before any has (Little's law: those before it, divided by how fast they go).
"""

import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Final

from citewire_kit.errors import ResourceExhausted

FEW: Final = 64
"""Requests that may wait any time: a caller with fewer isn't the cause of an overload."""

_KNOWN: Final = 16
"""Requests that must have been served before a caller's rate is used."""

_current: ContextVar["Arrival | None"] = ContextVar("arrival", default=None)


class _Line:
    """A caller's waiting requests, and how fast they are served.

    Args:
        seconds: How long one may wait; also roughly the period over which the rate is measured.
        now: The current time.
    """

    __slots__ = ("_busy", "_gone", "_seconds", "_since", "_waiting")

    def __init__(self, seconds: float, now: float) -> None:
        self._seconds = seconds
        self._waiting: dict[Arrival, float] = {}
        """In the order in which they were received."""
        self._gone = 0.0
        """How many have left the line during `_busy`."""
        self._busy = 0.0
        self._since = now
        """The time up to which `_busy` is counted."""

    def __bool__(self) -> bool:
        return bool(self._waiting)

    def add(self, arrival: "Arrival", now: float) -> None:
        self._waiting[arrival] = now

    def remove(self, arrival: "Arrival", now: float) -> None:
        if self._waiting.pop(arrival, None) is None:
            return
        self._gone += 1
        self._busy += now - self._since
        self._since = now
        if self._busy > self._seconds:
            share = self._seconds / 2 / self._busy
            self._gone *= share
            self._busy *= share

    def is_too_long(self, now: float) -> bool:
        """Whether another request would wait too long, or earlier ones already have."""
        waiting = len(self._waiting)
        if waiting < FEW:
            return False
        if now - next(iter(self._waiting.values())) > self._seconds:
            return True
        busy = self._busy + now - self._since
        return self._gone >= _KNOWN and waiting * busy > self._gone * self._seconds


class Arrival:
    """A request that hasn't had its first turn yet."""

    __slots__ = ("_arrivals", "_caller", "_complete", "has_begun")

    def __init__(self, arrivals: "Arrivals", caller: str) -> None:
        self._arrivals = arrivals
        self._caller = caller
        self._complete = False
        self.has_begun = False
        """Whether it has had a turn."""

    def complete(self) -> None:
        """Records that the request has been received, so that it now waits for us, not for its sender. Idempotent."""
        if not self._complete:
            self._complete = True
            self._arrivals.add(self._caller, self)

    def begin(self) -> None:
        """Records that the request has had its first turn, or has been answered."""
        self.has_begun = True
        self._arrivals.remove(self._caller, self)


class Arrivals:
    """The waiting requests of a process, by caller.

    Args:
        seconds: How long a caller's oldest request may have waited when another one arrives, and how long that one may
            have to wait.
        clock: Returns monotonic seconds.
    """

    def __init__(self, seconds: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._seconds = seconds
        self._clock = clock
        self._lines: dict[str, _Line] = {}
        """The lines of callers with waiting requests."""

    @contextmanager
    def admit(self, caller: str) -> Generator[Arrival]:
        """Admits a request.

        Args:
            caller: Who sent it, according to its head.

        Raises:
            ResourceExhausted: It would wait too long behind the caller's earlier requests (`OVERLOADED`).
        """
        line = self._lines.get(caller)
        if line is not None and line.is_too_long(self._clock()):
            raise overloaded()
        arrival = Arrival(self, caller)
        token = _current.set(arrival)
        try:
            yield arrival
        finally:
            _current.reset(token)
            arrival.begin()

    def add(self, caller: str, arrival: Arrival) -> None:
        """Counts a request as waiting."""
        now = self._clock()
        line = self._lines.get(caller)
        if line is None:
            line = self._lines[caller] = _Line(self._seconds, now)
        line.add(arrival, now)

    def remove(self, caller: str, arrival: Arrival) -> None:
        """Counts a request as no longer waiting, if it was."""
        line = self._lines.get(caller)
        if line is not None:
            line.remove(arrival, self._clock())
            if not line:
                del self._lines[caller]


def begin_turn() -> None:
    """Records that the current request has had its first turn."""
    arrival = _current.get()
    if arrival is not None:
        arrival.begin()


def has_begun() -> bool:
    """Whether the current request has had a turn."""
    arrival = _current.get()
    return arrival is not None and arrival.has_begun


def overloaded() -> ResourceExhausted:
    """Returns the refusal."""
    return ResourceExhausted(
        "too many requests of this organisation at once; try again later", reason="OVERLOADED", retry_after=1.0
    )
