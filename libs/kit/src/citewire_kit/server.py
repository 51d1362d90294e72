"""The gRPC server of a process, and the functions that run a process until a signal stops it."""

import asyncio
import contextlib
import gc
import signal
import sys
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import AsyncExitStack
from typing import Any, Final, TypeVar

import grpc

from citewire_kit import health, metrics, reflection
from citewire_kit.audit import NO_TRAIL, AuditTrail
from citewire_kit.audit_lines import LINE_EVENTS, write_line
from citewire_kit.caller_limits import CallerLimits
from citewire_kit.callers.admission import Admission
from citewire_kit.channel import MAX_MESSAGE_BYTES, MAX_METADATA_BYTES
from citewire_kit.errors import StartupError
from citewire_kit.interceptor_stages import Load, build_stages
from citewire_kit.interceptors import StageInterceptor
from citewire_kit.methods import methods_of
from citewire_kit.probes import ProbeServer
from citewire_kit.settings import ProcessSettings, ServiceSettings
from citewire_kit.tasks import end, end_others, wait_for_calls
from citewire_kit.telemetry import get_logger
from citewire_kit.tls import server_credentials

T = TypeVar("T")
Servicer = TypeVar("Servicer")

log = get_logger(__name__)

MAX_CONNECTION_AGE_GRACE_MS: Final = 310_000
"""Time for the calls of a renewed connection: longer than the longest stream (300 s), so that none is cut off."""

_HANDLERS_SECONDS: Final = 5.0
"""Time for the handlers of calls that were cut off, for instance to settle a call's cost."""


class GrpcServer:
    """A grpc.aio server with the ordered stages, health and reflection.

    Example:
        server = GrpcServer(settings, service="embedder", max_concurrent=64)
        server.add(add_EmbedderServiceServicer_to_server, servicer, "citewire.embedder.v1.EmbedderService")
        await server.start()
    """

    def __init__(
        self,
        settings: ServiceSettings,
        *,
        service: str,
        max_concurrent: int | None = None,
        stream_window: bool = False,
        callers: CallerLimits | None = None,
    ) -> None:
        """Builds the server; it must be built inside the event loop that will run it.

        Args:
            settings: The process's settings.
            service: The process's name, as in `telemetry.setup`; callers' tokens must be for it.
            max_concurrent: Maximum number of concurrent calls; further ones get RESOURCE_EXHAUSTED at once. None: no
                limit.
            stream_window: Whether the server's receive window is as small as the client's for streams.
            callers: The limits of callers; None for no limits.

        Raises:
            StartupError: The file of callers' issuers can't be read.
        """
        self._settings = settings
        self._service = service
        self._load = Load(max_concurrent)
        self._names: list[str] = []
        self._port: int | None = None
        self._decided = False
        self._health = health.HealthServicer()
        self._probes = ProbeServer(settings, service=service, servicer=self._health)
        admission = Admission(settings, service)
        self._trail = (
            NO_TRAIL if settings.audit == "off" else AuditTrail(write_line, process=service, max_block=LINE_EVENTS)
        )
        self._writing: asyncio.Task[None] | None = None
        interceptor_stages = build_stages(admission=admission, load=self._load, callers=callers, trail=self._trail)
        self._server = grpc.aio.server(
            interceptors=[StageInterceptor(interceptor_stages)],
            options=_options(settings.connection_seconds, stream_window=stream_window),
        )

    @property
    def port(self) -> int | None:
        """The port that the server listens on; None before its start."""
        return self._port

    @property
    def in_flight(self) -> int:
        """Number of calls being handled, without probes."""
        return self._load.in_flight

    @property
    def serving_decided(self) -> bool:
        """Whether `set_serving` has been called, which means that the application manages its own readiness."""
        return self._decided

    def add(self, register: Callable[[Servicer, grpc.aio.Server], None], servicer: Servicer, full_name: str) -> None:
        """Adds a service with its metrics. Call it before `start`."""
        register(servicer, self._server)
        self._names.append(full_name)
        for labels in methods_of(full_name):
            metrics.grpc_server_series(*labels)

    async def start(self) -> int:
        """Starts listening, with health NOT_SERVING. A second call does nothing.

        Returns:
            The bound port.

        Raises:
            StartupError: An address isn't available, or the certificate can't be read.
        """
        if self._port is not None:
            return self._port
        self._health.add(self._names)
        health.register(self._health, self._server)
        if self._settings.reflection == "on":
            reflection.register((*self._names, health.NAME), self._server)
        address = self._settings.address(self._settings.port)
        try:
            tls = self._settings.tls()
            if tls is None:
                self._port = self._server.add_insecure_port(address)
            else:
                self._port = self._server.add_secure_port(address, server_credentials(tls))
        except RuntimeError as exc:
            raise StartupError(
                f"the {self._service} cannot listen on {address}: it is in use or isn't this machine's. "
                f"Stop what uses it, or set {self._settings.env_name('port')} to another port."
            ) from exc
        if self._trail is not NO_TRAIL:
            self._writing = asyncio.create_task(self._trail.run(), name=f"{self._service}-audit")
        await self._server.start()
        await self._probes.start()
        log.info("listening", host=self._settings.host, port=self._port)
        return self._port

    def set_serving(self, serving: bool) -> None:
        """Sets whether health checks report SERVING. Clients stop using a NOT_SERVING server."""
        self._decided = True
        self._health.set_started()
        self._health.set_serving(serving)

    async def drain_and_stop(self) -> None:
        """Lets clients leave and running calls finish, then stops.

        It reports NOT_SERVING first, and accepts no call after `leave_seconds`. Running calls have `drain_seconds`
        before they are cancelled. Cancelling this coroutine stops at once.
        """
        if self._port is None:
            return
        log.info("draining", in_flight=self._load.in_flight)
        try:
            self._health.close()
            await asyncio.sleep(self._settings.leave_seconds)
            self._health.end_watches()
            grace = self._settings.drain_seconds
            # Calls that are still running after the grace period are counted as cut off by the drain.
            timer = asyncio.get_running_loop().call_later(max(0.0, grace - 0.05), self._load.cut)
            await self._server.stop(grace)
            timer.cancel()
        finally:
            self._load.cut()
            await self._server.stop(None)
            await self._probes.stop()
            if self._writing is not None:
                await end(self._writing)
                await self._trail.close()
        log.info("stopped")


async def run_until_signal(start: Callable[[AsyncExitStack], Awaitable[GrpcServer]], settings: ProcessSettings) -> None:
    """Runs a process until SIGTERM or SIGINT, and shuts it down in order.

    `start` builds everything, enters into the stack what must be closed, and returns the server. If it hasn't started
    the server or called `set_serving`, this function does. At the signal: drain, stop the server, let the handlers of
    calls that were cut off end, close the stack in reverse. A second signal ends the drain at once.

    Raises:
        StartupError: From `start`; the stack is closed before.
    """
    stop = stop_signal()
    async with AsyncExitStack() as stack:
        starting = asyncio.ensure_future(_start(start, stack))
        stopping = asyncio.create_task(stop.wait())
        stack.callback(stopping.cancel)
        await asyncio.wait({starting, stopping}, return_when=asyncio.FIRST_COMPLETED)
        if not starting.done():
            starting.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await starting
            return
        server = starting.result()
        await stopping
        stop.clear()
        await _until(server.drain_and_stop(), stop)
        await wait_for_calls(_HANDLERS_SECONDS)


async def _start(start: Callable[[AsyncExitStack], Awaitable[GrpcServer]], stack: AsyncExitStack) -> GrpcServer:
    server = await start(stack)
    settle()
    await server.start()
    if not server.serving_decided:
        server.set_serving(True)
    return server


def settle() -> None:
    """Excludes everything built so far from later garbage collections, because it lives as long as the process.

    A full collection pauses every call and stream: for 55 ms in the retriever, about once in 100 hybrid searches,
    and for 100 ms in the gateway.
    """
    gc.collect()
    gc.freeze()


async def _until(work: Coroutine[Any, Any, None], stop: asyncio.Event) -> None:
    """Runs `work`, and cancels it when `stop` is set."""
    working = asyncio.create_task(work)
    stopping = asyncio.create_task(stop.wait())
    try:
        await asyncio.wait({working, stopping}, return_when=asyncio.FIRST_COMPLETED)
        if not working.done():
            working.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await working
    finally:
        stopping.cancel()


def stop_signal() -> asyncio.Event:
    """Returns an event that SIGTERM and SIGINT set, from now on. For processes without a gRPC server."""
    event = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, event.set)
    return event


def run(main: Coroutine[Any, Any, T]) -> T:
    """Runs a process's main coroutine on uvloop; a `StartupError` becomes one plain line and exit code 1."""
    try:
        with asyncio.Runner(loop_factory=_loop_factory()) as runner:
            return runner.run(_end_other_tasks(main))
    except StartupError as exc:
        log.error("cannot_start", error=str(exc))  # noqa: TRY400 # the message is complete; a traceback would hide it
        raise SystemExit(1) from None


async def _end_other_tasks(main: Coroutine[Any, Any, T]) -> T:
    try:
        return await main
    finally:
        await end_others()  # the runner would cancel them once, and wait forever


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    if sys.platform == "win32":
        return None
    import uvloop

    return uvloop.new_event_loop


def _options(connection_seconds: float, *, stream_window: bool) -> list[tuple[str, int]]:
    options = [
        ("grpc.so_reuseport", 0),  # a port in use is an error, not a second server that gets half of the calls
        ("grpc.max_connection_age_ms", int(connection_seconds * 1000)),
        ("grpc.max_connection_age_grace_ms", MAX_CONNECTION_AGE_GRACE_MS),
        ("grpc.keepalive_time_ms", 30_000),
        ("grpc.keepalive_timeout_ms", 10_000),
        ("grpc.http2.ping_timeout_ms", 15_000),  # as in channel.py
        ("grpc.keepalive_permit_without_calls", 1),
        ("grpc.http2.min_ping_interval_without_data_ms", 5_000),
        ("grpc.http2.max_ping_strikes", 0),
        ("grpc.http2.max_pings_without_data", 0),
        ("grpc.max_send_message_length", MAX_MESSAGE_BYTES),
        ("grpc.max_receive_message_length", MAX_MESSAGE_BYTES),
        ("grpc.max_metadata_size", MAX_METADATA_BYTES),
    ]
    if stream_window:
        options += [("grpc.http2.lookahead_bytes", 64), ("grpc.http2.bdp_probe", 0)]
    return options
