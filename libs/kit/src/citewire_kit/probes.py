"""A port for health checks only, without TLS and without a tenant, for the orchestrator's probes."""

from __future__ import annotations  # grpc's classes are generic only in their type stubs

import grpc

from citewire_kit import health
from citewire_kit.errors import StartupError
from citewire_kit.settings import ProcessSettings


class ProbeServer:
    """Answers health checks on the settings' `probe_port`; does nothing without one.

    It runs in the process's event loop, so that a blocked loop fails the probes.
    """

    def __init__(self, settings: ProcessSettings, *, service: str, servicer: health.HealthServicer) -> None:
        """Takes the process's settings and name, and the health service to serve."""
        self._settings, self._service, self._servicer = settings, service, servicer
        self._server: grpc.aio.Server | None = None
        self.port = 0
        """The bound port; 0 before the start, or if there is none."""

    async def start(self) -> None:
        """Listens.

        Raises:
            StartupError: The address isn't available.
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
                f"the {self._service} cannot answer probes on {address}: it is in use or isn't this machine's. "
                f"Stop what uses it, or set {self._settings.env_name('probe_port')} to another port."
            ) from exc
        await server.start()
        self._server = server

    async def stop(self) -> None:
        """Stops listening."""
        if self._server is not None:
            await self._server.stop(None)
            self._server = None
