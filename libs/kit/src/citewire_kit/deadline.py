"""The time that the running call has left.

A server sets the budget from the call's deadline, the gateway from its own limit; a client call never asks for more
than what is left, so that the budget shrinks hop by hop.
"""

import time
from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar

_deadline: ContextVar[float | None] = ContextVar("citewire_deadline", default=None)


def remaining() -> float | None:
    """Returns the seconds left, 0 or less when the time is over, None without a deadline."""
    deadline = _deadline.get()
    return None if deadline is None else deadline - time.monotonic()


@contextmanager
def budget(seconds: float) -> Generator[None]:
    """Gives the block at most `seconds`; a deadline that is set and earlier stays.

    This only sets the number that `remaining()` returns: it stops nothing. Calls made with `citewire_kit.client`
    and transactions of `citewire_kit.postgres` honour it.
    """
    deadline = time.monotonic() + seconds
    current = _deadline.get()
    token = _deadline.set(deadline if current is None else min(current, deadline))
    try:
        yield
    finally:
        _deadline.reset(token)
