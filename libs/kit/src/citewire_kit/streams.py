"""Counts streamed answers: how many run, and why they were cut."""

import asyncio
from collections.abc import Generator
from contextlib import contextmanager

from citewire_kit.deadline import is_over
from citewire_kit.errors import CitewireError, Code
from citewire_kit.interceptor_stages import current_load
from citewire_kit.metrics import STREAMS_CANCELLED, STREAMS_IN_FLIGHT, CancelCause


@contextmanager
def track_stream(dialect: str) -> Generator[None]:
    """Counts one streamed answer while the block runs, and the cause if it is cut off.

    For the body of a streaming gRPC handler, which gets a CancelledError, or a GeneratorExit if the client disconnected
    between two messages.
    """
    gauge = STREAMS_IN_FLIGHT.labels(dialect)
    gauge.inc()
    try:
        yield
    except (asyncio.CancelledError, GeneratorExit):
        STREAMS_CANCELLED.labels(cancel_cause()).inc()
        raise
    except CitewireError as exc:
        if exc.code is Code.DEADLINE_EXCEEDED:
            STREAMS_CANCELLED.labels("deadline").inc()
        elif exc.code is Code.UNAVAILABLE:
            STREAMS_CANCELLED.labels("upstream").inc()
        raise
    finally:
        gauge.dec()


def cancel_cause() -> CancelCause:
    """Returns why the running call is being cancelled: our drain, its deadline, or its client."""
    load = current_load.get()
    if load is not None and load.cutting:
        return "drain"
    return "deadline" if is_over() else "client"
