"""How this process leaves: no new work, a grace for running streams, then their end."""

import asyncio

from citewire_kit.errors import Unavailable
from citewire_kit.telemetry import get_logger

log = get_logger(__name__)


class Drain:
    """The state of leaving, for all who must know. Made inside the event loop."""

    def __init__(self) -> None:
        self._expired: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._draining = False

    @property
    def draining(self) -> bool:
        """Whether the process has been told to stop: it isn't ready for new work."""
        return self._draining

    @property
    def expired(self) -> asyncio.Future[None]:
        """Done when the grace is over: running streams end with an error that says so. Wait for it, don't cancel it."""
        return self._expired

    def begin(self, grace_seconds: float) -> None:
        """Starts leaving. Running streams may go on for `grace_seconds`."""
        if self._draining:
            return
        self._draining = True
        log.info("draining", grace_seconds=grace_seconds)
        asyncio.get_running_loop().call_later(grace_seconds, self.expire)

    def expire(self) -> None:
        """Ends the grace now."""
        self._draining = True
        if not self._expired.done():
            self._expired.set_result(None)


def going_away() -> Unavailable:
    """Returns the error of work that the leaving process cuts."""
    return Unavailable("the server is restarting: send the request again", reason="SHUTTING_DOWN", retry_after=1.0)
