"""A second replica of each service beside a stack's own, and gateways that balance their calls over both."""

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import httpx
import psutil

from deploy.rehearsal.balancer import Balancer
from local_ports import free_port
from paced_model_stack import PacedModelStack

SERVICES = ("embedder", "retriever", "generator")
GATEWAYS = ("first", "second")
LEAVE_SECONDS = 1.0
_DRAIN_SECONDS = 30


@dataclass(slots=True)
class Replica:
    """A process that a test starts, stops and restarts at the same address."""

    name: str
    package: str
    environment: dict[str, str]
    port: int
    metrics_port: int
    log: Path
    process: subprocess.Popen[bytes] | None = field(default=None, repr=False)

    @property
    def url(self) -> str:
        """The URL of its HTTP API, if it has one."""
        return f"http://127.0.0.1:{self.port}"

    def start(self) -> None:
        """Starts the process; `until_ready` waits for it."""
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", self.package], env=self.environment, stdout=log, stderr=log
            )

    async def leave(self) -> None:
        """Stops it, and waits until it has ended properly."""
        assert self.process is not None
        self.process.send_signal(signal.SIGTERM)
        code = await asyncio.to_thread(self.process.wait, _DRAIN_SECONDS + 10)
        assert code == 0, f"{self.name} ended with {code}:\n{self.log.read_text()[-3000:]}"

    def kill(self) -> None:
        """Kills it, if it runs."""
        if self.process is not None and self.process.poll() is None:
            self.process.kill()
            self.process.wait(10)


@dataclass(frozen=True, slots=True)
class ReplicatedStack:
    """Two replicas of everything: the stack's own services and these, and two gateways before them."""

    paced: PacedModelStack
    services: dict[str, Replica]
    gateways: dict[str, Replica]
    balancer: Balancer

    async def roll(self, name: str) -> None:
        """Restarts this service's second replica, and waits until all clients use it again."""
        replica = self.services[name]
        await replica.leave()
        replica.start()
        await self._until_back(name, replica.port, replica.metrics_port)

    async def roll_own(self, name: str) -> None:
        """The same with the stack's own replica, which the supervisor restarts."""
        stack = self.paced.stack
        port, metrics_port = stack.ports("port")[name], stack.ports()[name]
        old = stack.kill(name, signal.SIGTERM)
        await asyncio.to_thread(stack.wait_restarted, name, old)
        await self._until_back(name, port, metrics_port)

    async def roll_gateway(self, name: str) -> None:
        """Restarts a gateway; the balancer learns from `/readyz` that it leaves and that it is back."""
        gateway = self.gateways[name]
        await gateway.leave()
        gateway.start()
        await self.balancer.until_ready(gateway.url)

    async def until_used(self) -> None:
        """Waits until every replica has answered calls from every gateway."""
        for name in SERVICES:
            own = self.paced.stack
            await self._until_back(name, own.ports("port")[name], own.ports()[name])
            await self._until_back(name, self.services[name].port, self.services[name].metrics_port)

    async def _until_back(self, name: str, port: int, metrics_port: int) -> None:
        """Waits until each gateway is connected to a new replica and has had time to use it.

        A deployment does the same by waiting a few seconds after readiness: clients try again every two seconds.
        """
        async with httpx.AsyncClient(trust_env=False, timeout=5) as http, asyncio.timeout(60):
            while not all(self._is_connected(gateway, port) for gateway in self.gateways.values()):  # noqa: ASYNC110 # nothing announces it
                await asyncio.sleep(0.05)
            enough = await _handled(http, metrics_port, name) + 4
            while await _handled(http, metrics_port, name) < enough:  # noqa: ASYNC110 # nothing announces it
                await asyncio.sleep(0.05)

    def _is_connected(self, gateway: Replica, port: int) -> bool:
        assert gateway.process is not None
        sockets = psutil.Process(gateway.process.pid).net_connections("tcp")
        return any(
            bool(socket.raddr) and socket.raddr.port == port and socket.status == psutil.CONN_ESTABLISHED
            for socket in sockets
        )


@asynccontextmanager
async def replicated_stack(paced: PacedModelStack, folder: Path) -> AsyncGenerator[ReplicatedStack]:
    """Starts the further replicas and the gateways; yields once all of them have been used or are ready."""
    own, base = paced.stack.environment, _environment(paced)
    services: dict[str, Replica] = {}
    for name in SERVICES:
        services[name] = _replica(name, name, base, folder)
        addresses = f"ipv4:127.0.0.1:{own[f'CITEWIRE_{name.upper()}_PORT']},127.0.0.1:{services[name].port}"
        base |= {f"CITEWIRE_GATEWAY_{name.upper()}_TARGET": addresses}
    gateways = {name: _replica("gateway", name, base, folder) for name in GATEWAYS}
    replicas = [*services.values(), *gateways.values()]
    urls = [gateway.url for gateway in gateways.values()]
    balancer = Balancer(urls)
    try:
        for replica in replicas:
            replica.start()
        async with balancer.watching():
            await balancer.until_ready(*urls)
            yield ReplicatedStack(paced, services, gateways, balancer)
    finally:
        for replica in replicas:
            replica.kill()


def further_gateway(paced: PacedModelStack, folder: Path, **more: str) -> Replica:
    """Returns a gateway beside a stack's own, on the same services and database; start it and kill it yourself."""
    return _replica("gateway", "further", _environment(paced) | more, folder)


def _environment(paced: PacedModelStack) -> dict[str, str]:
    keys = paced.stack.data_dir / "callers"
    callers = {"CITEWIRE_CALLER_ISSUERS": str(keys / "issuers.json"), "CITEWIRE_CALLER_KEY": str(keys / "gateway.pem")}
    return {**os.environ, **paced.stack.environment, **paced.environment, "CITEWIRE_AUTH": "off", **callers}


def _replica(service: str, name: str, base: dict[str, str], folder: Path) -> Replica:
    port, metrics_port = free_port(), free_port()
    prefix = f"CITEWIRE_{service.upper()}"
    environment = {
        **base,
        f"{prefix}_PORT": str(port),
        f"{prefix}_METRICS_PORT": str(metrics_port),
        f"{prefix}_LEAVE_SECONDS": str(LEAVE_SECONDS),
        f"{prefix}_DRAIN_SECONDS": str(_DRAIN_SECONDS),
    }
    return Replica(name, f"citewire_{service}", environment, port, metrics_port, folder / f"{service}-{name}.log")


async def _handled(http: httpx.AsyncClient, port: int, name: str) -> float:
    """Number of calls of its own service that a process has answered."""
    try:
        text = (await http.get(f"http://127.0.0.1:{port}/metrics")).text
    except httpx.HTTPError:
        return 0.0
    start = 'grpc_server_handled_total{grpc_code="OK"'
    samples = [line for line in text.splitlines() if line.startswith(start) and f"citewire.{name}." in line]
    return sum(float(line.rsplit(" ", 1)[1]) for line in samples)
