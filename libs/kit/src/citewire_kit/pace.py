"""Bodies that come too slowly: a slow sender holds a slot that others wait for."""

import asyncio
import time
from collections.abc import AsyncGenerator, AsyncIterable
from dataclasses import dataclass

from citewire_kit.errors import Aborted, ResourceExhausted
from citewire_kit.fair import Holding

RETRY_SECONDS = 2.0


@dataclass(frozen=True, slots=True)
class Pace:
    """The minimum speed of a sender."""

    bytes_per_second: float
    """Minimum rate, averaged over the time spent waiting for the sender."""
    grace_seconds: float
    """How long it may stay below that rate."""


async def paced(pieces: AsyncIterable[bytes], pace: Pace, holding: Holding) -> AsyncGenerator[bytes]:
    """Yields pieces of a body as long as they arrive fast enough and its slot isn't given to another sender.

    Raises:
        Aborted: The sender is too slow (reason `UPLOAD_ABORTED`).
        ResourceExhausted: The slot was given to an organisation that has fewer (reason `OVERLOADED`).
    """
    iterator = aiter(pieces)
    waited, received = 0.0, 0
    scope: asyncio.Timeout | None = None

    def interrupt() -> None:
        if scope is not None:
            scope.reschedule(asyncio.get_running_loop().time())

    with holding.revocable(interrupt):
        while not holding.revoked:
            begun = time.monotonic()
            try:
                async with asyncio.timeout(pace.grace_seconds + received / pace.bytes_per_second - waited) as scope:
                    piece = await anext(iterator, None)
            except TimeoutError:
                if holding.revoked:
                    break
                raise Aborted(
                    f"the upload was slower than {pace.bytes_per_second:,.0f} bytes a second; nothing was stored",
                    reason="UPLOAD_ABORTED",
                ) from None
            finally:
                scope = None
            if piece is None:
                return
            waited += time.monotonic() - begun
            received += len(piece)
            yield piece
    raise no_free_slot("the upload had to make way for another organisation's; nothing was stored")


def no_free_slot(message: str) -> ResourceExhausted:
    """Returns the error for an upload that gets no slot or loses it."""
    return ResourceExhausted(message, reason="OVERLOADED", retry_after=RETRY_SECONDS)
