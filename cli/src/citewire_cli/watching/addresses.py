"""Where each process's metrics are."""

from collections.abc import Iterable, Mapping
from urllib.parse import urlsplit

from citewire_cli.errors import CliError, ExitCode
from citewire_cli.jsonio import JsonObject, as_object, get_int
from citewire_cli.settings import ClientSettings

PROCESSES = ("gateway", "embedder", "retriever", "generator", "worker")
DEFAULT_PORTS = dict(zip(PROCESSES, range(9100, 9105), strict=True))


def metrics_addresses(
    settings: ClientSettings, environ: Mapping[str, str], local: JsonObject, given: Iterable[str]
) -> dict[str, str]:
    """The metrics' URL of each process that can be asked.

    Those of a local stack are in its run file. Elsewhere on this machine they are at the usual ports, or where
    `CITEWIRE_<PROCESS>_METRICS_PORT` says. A gateway on another machine doesn't say where its own are, as metrics are
    never public: then only those that are given.

    Args:
        settings: the client's.
        environ: the environment.
        local: the processes of the local stack that was asked, by name; empty if it is none.
        given: `NAME=HOST:PORT`, which win.

    Raises:
        CliError: one that is given isn't like that (usage).
    """
    found: dict[str, str] = {}
    if settings.loopback:
        host = urlsplit(settings.url).hostname or "127.0.0.1"
        for name in PROCESSES:
            port = get_int(as_object(local.get(name)) or {}, "metrics_port")
            if port is None:
                port = _port(environ.get(f"CITEWIRE_{name.upper()}_METRICS_PORT", ""), DEFAULT_PORTS[name])
            found[name] = _url(f"[{host}]:{port}" if ":" in host else f"{host}:{port}")
    for value in given:
        name, _, address = value.partition("=")
        if name not in PROCESSES or not _valid(address):
            raise CliError(
                "--metrics is not valid",
                f"{value!r} should look like gateway=127.0.0.1:9100; processes are {', '.join(PROCESSES)}.",
                ExitCode.USAGE,
            )
        found[name] = _url(address)
    return {name: found[name] for name in PROCESSES if name in found}


def _port(value: str, default: int) -> int:
    port = int(value) if value.isascii() and value.isdecimal() else 0
    return port if 0 < port < 65536 else default


def _url(address: str) -> str:
    return f"http://{address}/metrics"


def _valid(address: str) -> bool:
    try:
        parts = urlsplit(f"//{address}")
        return bool(parts.hostname) and parts.port is not None and parts.path == ""
    except ValueError:
        return False
