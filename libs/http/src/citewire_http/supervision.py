"""How work whose result is streamed is watched: by its client, its deadline, and the process that ends."""

import asyncio
import math
from dataclasses import dataclass
from typing import Any, Protocol

from starlette.types import Receive

from citewire_http.server import Drain, going_away
from citewire_kit.deadline import remaining
from citewire_kit.errors import CitewireError, Code, DeadlineExceeded, Internal
from citewire_kit.metrics import STREAMS_CANCELLED, CancelCause
from citewire_kit.telemetry import get_logger

log = get_logger(__name__)

LAST_FRAME_SECONDS = 1.0
"""How long a stream's last frame may take after its deadline."""
_LONG_SECONDS = 3600.0


@dataclass(frozen=True, slots=True)
class StreamRules:
    """Rules for all streams of this process."""

    drain: Drain
    hold_seconds: float
    """How long the status line may wait for the first frame that proves that the work succeeds."""
    heartbeat_seconds: float
    """Longest pause before a heartbeat comment is sent."""


@dataclass(slots=True)
class StreamControl:
    """Shared by the work and the writer of its events."""

    cause: CancelCause = "client"
    """Why the work is being cancelled; set before cancelling."""
    error: CitewireError | None = None
    """The error for readers; None if there are none left."""
    committed: bool = False
    """Whether anything has been sent to the caller. Until then a failure has no effect."""
    grace_seconds: float = 0.0
    """How long the work continues without a reader; infinite if it needs none."""
    stopped: asyncio.Future[CancelCause] | None = None
    """Done when the work has to stop; created by the task that waits for the work."""
    _left: bool = False
    _seen: float = float("-inf")

    def stop(self, cause: CancelCause, error: CitewireError) -> None:
        """Stops the work, and sets the error for its readers."""
        if self.stopped is not None and not self.stopped.done():
            self.error = error
            self.stopped.set_result(cause)

    def see(self, at: float) -> None:
        """Records when a reader was present at any gateway, by the clock of the event loop."""
        self._seen = max(self._seen, at)

    def patience(self, now: float) -> float:
        """Returns for how many seconds the work still continues, after its client has disconnected.

        A client that was sent nothing can't come back, and gets no grace period.
        """
        if not self._left:
            self._left = True
            self.see(now)
        grace = self.grace_seconds if self.committed or math.isinf(self.grace_seconds) else 0.0
        return self._seen + grace - now


class Ticking(Protocol):
    """A writer that has to send a sign of life from time to time."""

    def next_tick(self) -> float:
        """Returns the seconds until the next sign of life."""
        ...

    async def tick(self) -> None:
        """Sends a sign of life, if it is due."""
        ...


async def supervise(
    work: asyncio.Task[None], receive: Receive, control: StreamControl, drain: Drain, writer: Ticking | None
) -> CancelCause | None:
    """Waits for the work, and stops it if it has no reader, at its deadline, or at the end of the grace period.

    Returns:
        Why it was stopped; None if it ended by itself.
    """
    gone = asyncio.create_task(_disconnected(receive))
    loop = asyncio.get_running_loop()
    stopped = control.stopped = loop.create_future()
    budget = remaining()
    # The services' own deadlines are earlier.
    ends = None if budget is None else loop.time() + budget + LAST_FRAME_SECONDS
    cause: CancelCause | None = None
    ticking: asyncio.Task[None] | None = None
    try:
        while not work.done():
            now, left = loop.time(), gone.done()
            waits = [min(control.patience(now), _LONG_SECONDS)] if left else []
            waits += [] if writer is None or left else [writer.next_tick()]
            waits += [] if ends is None else [max(0.0, ends - now)]
            events: list[asyncio.Future[Any]] = [work, drain.expired, stopped, *(() if left else (gone,))]
            await asyncio.wait(events, timeout=min(waits, default=None), return_when=asyncio.FIRST_COMPLETED)
            if work.done():
                break
            if gone.done() and control.patience(loop.time()) <= 0:
                cause = "client"
            elif stopped.done():
                cause = stopped.result()
            elif drain.expired.done():
                cause, control.error = "drain", going_away()
            elif ends is not None and loop.time() >= ends:
                cause = "deadline"
                control.error = DeadlineExceeded("the answer took longer than allowed", reason="DEADLINE_EXCEEDED")
            elif writer is not None and not gone.done() and (ticking is None or ticking.done()):
                # Not awaited here: a client that doesn't read must not keep this loop from watching.
                ticking = asyncio.create_task(writer.tick())
            if cause is not None:
                break
    finally:
        gone.cancel()
        if ticking is not None:
            ticking.cancel()
        if not work.done():
            control.cause = cause or "client"
            work.cancel()
            await asyncio.wait((work,))
    if cause is not None:
        _failure_of(work)  # marks the exception as retrieved
        STREAMS_CANCELLED.labels(cause).inc()
    return cause


async def _disconnected(receive: Receive) -> None:
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            return


def error_of(work: asyncio.Task[None]) -> CitewireError | None:
    """The error for the caller if work ended by itself; None if it succeeded. Counts why it was cut off."""
    error = _failure_of(work)
    if error is not None and error.code is Code.DEADLINE_EXCEEDED:
        STREAMS_CANCELLED.labels("deadline").inc()
    elif error is not None and error.code is Code.UNAVAILABLE:
        STREAMS_CANCELLED.labels("upstream").inc()
    return error


def _failure_of(work: asyncio.Task[None]) -> CitewireError | None:
    """The error with which work failed, or None. An internal error's details are only logged."""
    if work.cancelled():
        return Internal("the work was cancelled inside the process", reason="INTERNAL")
    exc = work.exception()
    if exc is None:
        return None
    if isinstance(exc, CitewireError):
        return exc
    log.error("stream_failed", exc_info=exc)
    return Internal("something went wrong on our side; the log has the details", reason="INTERNAL")
