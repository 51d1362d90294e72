"""Finds the processes' metrics, and reads them all concurrently."""

import asyncio
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from urllib.parse import urlsplit

import httpx

from citewire_cli.errors import CliError, ExitCode
from citewire_cli.jsonio import JsonObject, as_object, get_int
from citewire_cli.monitor.samples import Samples, read_samples
from citewire_cli.settings import ClientSettings

TIMEOUT_SECONDS = 5.0
PROCESSES = ("gateway", "embedder", "retriever", "generator", "worker")
GATEWAY_PORT = 8080
DEFAULT_PORTS = dict(zip(PROCESSES, range(9100, 9105), strict=True))


def metrics_addresses(
    settings: ClientSettings, environ: Mapping[str, str], local: JsonObject, given: Iterable[str]
) -> dict[str, str]:
    """The metrics URL of each process that can be queried.

    A local stack's are in its run file. A gateway at the usual port of this machine that wasn't started by `up` has
    them at the usual ports, or those in `CITEWIRE_<PROCESS>_METRICS_PORT`. For any other gateway only the given URLs
    are used: metrics are never public, so it doesn't reveal them, and the usual ports would belong to another stack.

    Args:
        settings: the client's.
        environ: the environment.
        local: the local stack's processes, by name; empty if it isn't local.
        given: `NAME=HOST:PORT`, which take precedence.

    Raises:
        CliError: one that is given is malformed (usage).
    """
    urls: dict[str, str] = {}
    if settings.loopback:
        host = urlsplit(settings.url).hostname or "127.0.0.1"
        for name in PROCESSES:
            port = get_int(as_object(local.get(name)) or {}, "metrics_port")
            if port is None and not local:
                usual = DEFAULT_PORTS[name] if urlsplit(settings.url).port == GATEWAY_PORT else None
                port = _port(environ.get(f"CITEWIRE_{name.upper()}_METRICS_PORT", "")) or usual
            if port is None:
                continue
            urls[name] = _url(f"[{host}]:{port}" if ":" in host else f"{host}:{port}")
    for value in given:
        name, _, address = value.partition("=")
        if name not in PROCESSES or not _valid(address):
            raise CliError(
                "--metrics is not valid",
                f"{value!r} should look like gateway=127.0.0.1:9100; processes are {', '.join(PROCESSES)}.",
                ExitCode.USAGE,
            )
        urls[name] = _url(address)
    return {name: urls[name] for name in PROCESSES if name in urls}


@dataclass(frozen=True, slots=True)
class Scrape:
    """The samples of a process, or why there are none."""

    url: str
    samples: Samples | None
    problem: str = ""


async def scrape_all(addresses: Mapping[str, str]) -> dict[str, Scrape]:
    """Queries every process; being unreachable is a result as well.

    Args:
        addresses: the metrics' URLs by process.
    """
    # Never through a proxy: metrics are on this machine or within a cluster.
    async with httpx.AsyncClient(timeout=TIMEOUT_SECONDS, trust_env=False) as http:
        scrapes = await asyncio.gather(*(_scrape(http, url) for url in addresses.values()))
    return dict(zip(addresses, scrapes, strict=True))


async def _scrape(http: httpx.AsyncClient, url: str) -> Scrape:
    try:
        response = await http.get(url)
        if not response.is_success:
            return Scrape(url, None, f"answers with HTTP {response.status_code}: not a metrics endpoint")
        samples = read_samples(response.text, time.time())
    except httpx.ConnectError:
        return Scrape(url, None, "cannot be reached: it isn't running, or its metrics are elsewhere")
    except httpx.TimeoutException:
        return Scrape(url, None, f"did not answer within {TIMEOUT_SECONDS:g} s")
    except httpx.HTTPError as error:
        return Scrape(url, None, f"cannot be read ({type(error).__name__})")
    except ValueError:
        return Scrape(url, None, "answers with something other than metrics")
    if not samples.has("process_start_time_seconds") and not samples.has("python_info"):
        return Scrape(url, None, "answers with something other than metrics")
    return Scrape(url, samples)


def _port(value: str) -> int | None:
    port = int(value) if value.isascii() and value.isdecimal() else 0
    return port if 0 < port < 65536 else None


def _url(address: str) -> str:
    return f"http://{address}/metrics"


def _valid(address: str) -> bool:
    try:
        parts = urlsplit(f"//{address}")
        return bool(parts.hostname) and parts.port is not None and parts.path == ""
    except ValueError:
        return False
