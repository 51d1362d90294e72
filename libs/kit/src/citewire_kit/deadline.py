"""The time that the running call has left.

A server sets the budget from the call's deadline, the gateway from its own limit; a client call never asks for more
than what is left, so that the budget shrinks hop by hop.
"""

import time
from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar

# The deadline on the monotonic clock, and the seconds given.
_deadline: ContextVar[tuple[float, float] | None] = ContextVar("citewire_deadline", default=None)


def remaining() -> float | None:
    """Returns the seconds left: 0 or less if the time is up, None without a deadline."""
    deadline = _deadline.get()
    return None if deadline is None else deadline[0] - time.monotonic()


def is_over() -> bool:
    """Whether a cancellation that arrives now can be attributed to the deadline.

    A caller gives up slightly before our own deadline: gRPC rounds it up by as much as 1 % on the wire, and measures it
    from the request's arrival.
    """
    deadline = _deadline.get()
    return deadline is not None and deadline[0] - time.monotonic() <= max(0.1, 0.01 * deadline[1])


@contextmanager
def budget(seconds: float) -> Generator[None]:
    """Gives the block at most `seconds`; an earlier deadline stays.

    This only affects what `remaining()` returns, and doesn't stop anything. Calls made with `citewire_kit.client`
    and transactions of `citewire_kit.postgres` honour it.
    """
    mine, current = (time.monotonic() + seconds, seconds), _deadline.get()
    token = _deadline.set(mine if current is None else min(current, mine))
    try:
        yield
    finally:
        _deadline.reset(token)
