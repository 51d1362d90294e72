"""uvicorn, made to leave in order: no new work, a grace for running streams, then their end."""

import asyncio
import contextlib
import itertools
import logging
import resource
import socket
from collections.abc import Generator
from functools import partial
from types import FrameType
from typing import cast

import uvicorn
from starlette.types import ASGIApp

from citewire_http.connections import Connections, GuardedProtocol
from citewire_http.settings import HttpSettings
from citewire_kit.errors import StartupError, Unavailable
from citewire_kit.telemetry import get_logger

log = get_logger(__name__)

_TICK_SECONDS = 0.5
_UVICORN_TICKS = 5
"""uvicorn ticks per tick of ours: uvicorn updates its Date header with each tenth."""
_OTHER_FILES = 1024
"""Open files besides connections: spooled uploads, the database, the services."""
_FINAL_SECONDS = 10
"""Time for a stream's last frame and its records, after the grace period."""


class Drain:
    """The state of the shutdown, shared by everything that depends on it. Create it inside the event loop."""

    def __init__(self) -> None:
        self._expired: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._draining = False

    @property
    def draining(self) -> bool:
        """Whether the process is shutting down, and isn't ready for new work."""
        return self._draining

    @property
    def expired(self) -> asyncio.Future[None]:
        """Done at the end of the grace period, when running streams end with an error. Await it, never cancel it."""
        return self._expired

    def begin(self, grace_seconds: float) -> None:
        """Starts the shutdown. Running streams may continue for `grace_seconds`."""
        if self._draining:
            return
        self._draining = True
        log.info("draining", grace_seconds=grace_seconds)
        asyncio.get_running_loop().call_later(grace_seconds, self.expire)

    def expire(self) -> None:
        """Ends the grace period now."""
        self._draining = True
        if not self._expired.done():
            self._expired.set_result(None)


def going_away() -> Unavailable:
    """Returns the error for work that the shutdown cuts off."""
    return Unavailable("the server is restarting: send the request again", reason="SHUTTING_DOWN", retry_after=1.0)


class GatewayServer(uvicorn.Server):
    """Serves until the first signal, then drains; a second signal ends the grace period."""

    def __init__(self, app: ASGIApp, settings: HttpSettings, drain: Drain, *, signals: bool = True) -> None:
        """Create it inside the event loop that will run it.

        Args:
            app: The application.
            settings: The process's settings.
            drain: Started when the process shuts down.
            signals: Whether SIGTERM and SIGINT stop it; otherwise only `leave` does.
        """
        self._connections = Connections(settings)
        super().__init__(
            uvicorn.Config(
                app,
                host=settings.host,
                port=settings.port,
                http=cast("type[asyncio.Protocol]", partial(GuardedProtocol, self._connections)),
                ws="none",
                lifespan="off",
                log_config=None,  # kit has set up logging
                access_log=False,  # the middleware writes a more detailed line
                server_header=False,
                proxy_headers=False,  # `connections` reads them
                backlog=1024,
                timeout_keep_alive=settings.keep_alive_seconds,
            )
        )
        # uvicorn's messages about start and stop are replaced by `listening` and `draining`; malformed requests are
        # counted instead of logged.
        logging.getLogger("uvicorn.error").setLevel(logging.ERROR)
        self._settings = settings
        self._drain = drain
        self._loop = asyncio.get_running_loop()
        self._handles_signals = signals
        self._signals = 0
        self._exiting = asyncio.Event()
        self.listening = asyncio.Event()
        """Set once connections are accepted."""

    @property
    def port(self) -> int:
        """The port that it listens on, once started."""
        return self.servers[0].sockets[0].getsockname()[1]

    @contextlib.contextmanager
    def capture_signals(self) -> Generator[None, None, None]:
        """Installs the signal handlers, if enabled."""
        with super().capture_signals() if self._handles_signals else contextlib.nullcontext():
            yield

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Called by uvicorn's signal handler. Unlike in uvicorn, the signal isn't raised again after the shutdown."""
        del sig, frame
        self._signals += 1
        self._loop.call_soon_threadsafe(self.leave if self._signals == 1 else self._drain.expire)

    def leave(self) -> None:
        """Becomes unready, then stops accepting connections, and ends streams at the end of the grace period."""
        self._drain.begin(self._settings.leave_seconds + self._settings.drain_seconds)
        self._drain.expired.add_done_callback(lambda _: self._hurry())
        self._loop.call_later(self._settings.leave_seconds, self._close)

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Starts listening.

        Raises:
            StartupError: The address can't be had.
        """
        del sockets
        _allow_files(self._settings.max_connections)
        try:
            await super().startup()
        except SystemExit:
            raise _taken(self._settings) from None
        log.info("listening", host=self._settings.host, port=self.port)
        self.listening.set()

    async def main_loop(self) -> None:
        """Ticks until it is told to exit, and then exits at once instead of at the next tick.

        uvicorn ticks ten times a second because it only checks for that there.
        """
        ticks = itertools.count()
        while not await self.on_tick(next(ticks)):
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_TICK_SECONDS):
                    await self._exiting.wait()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Ends connections; if there are none, without uvicorn's pause for their last bytes."""
        if self.server_state.connections or self.server_state.tasks:
            await super().shutdown(sockets)
            return
        for server in self.servers:
            server.close()
            await server.wait_closed()

    async def on_tick(self, counter: int) -> bool:
        """Called at each tick."""
        self._connections.sweep(self._loop.time())
        return await super().on_tick(counter * _UVICORN_TICKS)

    def _close(self) -> None:
        self.should_exit = True
        self._exiting.set()

    def _hurry(self) -> None:
        """After the grace period, cuts off clients that don't even read their last frame."""
        self._close()
        self._loop.call_later(_FINAL_SECONDS, self._force)

    def _force(self) -> None:
        self.force_exit = True


async def check_address(settings: HttpSettings) -> None:
    """Checks that the server will be able to listen, before anything is opened that would have to be closed again.

    Raises:
        StartupError: The address can't be had.
    """
    try:
        trying = await asyncio.get_running_loop().create_server(
            asyncio.Protocol, settings.host, settings.port, start_serving=False
        )
    except OSError:
        raise _taken(settings) from None
    trying.close()
    await trying.wait_closed()


def _allow_files(connections: int) -> None:
    """Raises the limit of open files to what connections need: without files nothing is served, not even probes."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = connections + _OTHER_FILES
    if soft == resource.RLIM_INFINITY or soft >= needed:
        return
    allowed = needed if hard == resource.RLIM_INFINITY else min(needed, hard)
    resource.setrlimit(resource.RLIMIT_NOFILE, (allowed, hard))
    if allowed < needed:
        log.warning("few_open_files", allowed=allowed, needed=needed)


def _taken(settings: HttpSettings) -> StartupError:
    return StartupError(
        f"cannot listen on {settings.host}:{settings.port}: it is in use or isn't this machine's. Stop what uses "
        f"it, or set {settings.env_name('port')} to another port."
    )
