"""Which port each process gets, and a clear error for one that is taken."""

import socket
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from random import SystemRandom

from citewire_cli.errors import CliError, ExitCode

HOST = "127.0.0.1"
_CHOSEN_PORTS = range(20_000, 32_768)
"""Below the ports of outgoing connections, which begin at 32768 on Linux and at 49152 elsewhere."""


@dataclass(frozen=True, slots=True)
class PortSpec:
    """A port of the stack: whose, what for, the variable that sets it, its default."""

    process: str
    purpose: str
    variable: str
    default: int


PORTS = (
    PortSpec("gateway", "HTTP", "CITEWIRE_GATEWAY_PORT", 8080),
    PortSpec("gateway", "metrics", "CITEWIRE_GATEWAY_METRICS_PORT", 9100),
    PortSpec("embedder", "gRPC", "CITEWIRE_EMBEDDER_PORT", 50051),
    PortSpec("embedder", "metrics", "CITEWIRE_EMBEDDER_METRICS_PORT", 9101),
    PortSpec("retriever", "gRPC", "CITEWIRE_RETRIEVER_PORT", 50052),
    PortSpec("retriever", "metrics", "CITEWIRE_RETRIEVER_METRICS_PORT", 9102),
    PortSpec("generator", "gRPC", "CITEWIRE_GENERATOR_PORT", 50053),
    PortSpec("generator", "metrics", "CITEWIRE_GENERATOR_METRICS_PORT", 9103),
    PortSpec("worker", "metrics", "CITEWIRE_WORKER_METRICS_PORT", 9104),
)


def choose_ports(environ: Mapping[str, str], *, gateway_port: int | None = None) -> dict[str, int]:
    """The port of each variable in PORTS, checked to be free on the loopback address; 0 becomes a free one.

    Args:
        environ: the environment with the user's own choices.
        gateway_port: the `--port` option, which wins.

    Raises:
        CliError: a variable isn't a port (usage), or ports are taken or given twice; it names each of them, the
            process that needs it, and the variable to set.
    """
    ports = {spec.variable: _requested(spec, environ) for spec in PORTS}
    if gateway_port is not None:
        ports["CITEWIRE_GATEWAY_PORT"] = gateway_port
    holders: dict[int, PortSpec] = {}
    complaints: list[str] = []
    for spec in PORTS:
        port = ports[spec.variable]
        if port == 0:
            continue
        if (other := holders.setdefault(port, spec)) is not spec:
            complaints.append(
                f"Port {port} is given to both {other.process} ({other.purpose}) and {spec.process} ({spec.purpose}): "
                f"set {spec.variable} to another."
            )
        elif is_taken(port):
            option = " (or pass --port)" if spec.variable == "CITEWIRE_GATEWAY_PORT" else ""
            complaints.append(
                f"Port {port}, which {spec.process} needs for {spec.purpose}, is taken by another program: "
                f"set {spec.variable} to a free one{option}."
            )
    if len(complaints) == len(PORTS):
        complaints.append("All of them are taken: another `citewire up` is probably running, on another data folder.")
    if complaints:
        raise CliError("The stack cannot start: a port is taken", "\n".join(complaints))
    return _fill(ports)


def is_taken(port: int) -> bool:
    """Whether something listens on `port`, also if it would share it (gRPC servers do, and mix up their callers)."""
    with socket.socket() as attempt:
        attempt.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            attempt.bind((HOST, port))
            attempt.listen(1)
        except OSError:
            return True
    if sys.platform == "linux":
        return False
    # Elsewhere such a bind succeeds beside a listener on all addresses.
    with socket.socket() as attempt:
        attempt.settimeout(0.5)
        return attempt.connect_ex((HOST, port)) == 0 and attempt.getsockname() != attempt.getpeername()


def hold_free_port() -> socket.socket:
    """Binds a free port of loopback, which is usually still free when a process opens it seconds later.

    The system gives a port that it chose itself to any outgoing connection as soon as it is free again.
    """
    for port in SystemRandom().sample(_CHOSEN_PORTS, 50):
        holder = socket.socket()
        try:
            holder.bind((HOST, port))
        except OSError:
            holder.close()
        else:
            return holder
    holder = socket.socket()
    holder.bind((HOST, 0))
    return holder


def _requested(spec: PortSpec, environ: Mapping[str, str]) -> int:
    value = environ.get(spec.variable, "").strip()
    if not value:
        return spec.default
    if not value.isascii() or not value.isdigit() or int(value) > 65535:
        raise CliError(f"{spec.variable} is not a port", f"{value!r} is not a number from 0 to 65535.", ExitCode.USAGE)
    return int(value)


def _fill(ports: dict[str, int]) -> dict[str, int]:
    """Replaces zeros; all free ports are held open until the last one is known, so that none is handed out twice.

    A port that was asked for isn't held, as somebody may still be leaving it, so it is passed over by its number.
    """
    held: list[socket.socket] = []
    asked_for = {port for port in ports.values() if port}
    try:
        for variable, port in ports.items():
            while ports[variable] == 0 or (port == 0 and ports[variable] in asked_for):
                held.append(holder := hold_free_port())
                ports[variable] = int(holder.getsockname()[1])
    finally:
        for holder in held:
            holder.close()
    return ports
