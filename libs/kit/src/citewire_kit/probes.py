"""A port for health checks alone, without TLS and without a tenant: the orchestrator's probes speak neither."""

from __future__ import annotations  # grpc's classes are generic only in their type stubs

import grpc

from citewire_kit import health
from citewire_kit.errors import StartupError
from citewire_kit.settings import ProcessSettings


class ProbeServer:
    """Answers health checks on the settings' `probe_port`; does nothing without one.

    Made inside the event loop that will run it: a loop that no longer turns answers no probe.
    """

    def __init__(self, settings: ProcessSettings, *, service: str, servicer: health.HealthServicer) -> None:
        """Takes the process's settings and name, and the health that it answers with."""
        self._settings, self._service, self._servicer = settings, service, servicer
        self._server: grpc.aio.Server | None = None
        self.port = 0
        """The bound port; 0 before the start, and without one."""

    async def start(self) -> None:
        """Listens.

        Raises:
            StartupError: The address can't be had.
        """
        if not self._settings.probe_port:
            return
        address = self._settings.address(self._settings.probe_port)
        server = grpc.aio.server(options=[("grpc.so_reuseport", 0)])
        health.register(self._servicer, server)
        try:
            self.port = server.add_insecure_port(address)
        except RuntimeError as exc:
            raise StartupError(
                f"the {self._service} cannot answer probes on {address}: the address is taken or not this machine's. "
                f"Stop what uses it, or set {self._settings.env_name('probe_port')} to another port."
            ) from exc
        await server.start()
        self._server = server

    async def stop(self) -> None:
        """Stops listening."""
        if self._server is not None:
            await self._server.stop(None)
            self._server = None
