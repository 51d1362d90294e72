"""Reads the processes' metrics, all at once."""

import asyncio
import time
from collections.abc import Mapping
from dataclasses import dataclass

import httpx

from citewire_cli.watching.samples import Samples, read_samples

SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class Scrape:
    """What one process gave: its samples, or why there are none."""

    url: str
    samples: Samples | None
    problem: str = ""


async def scrape(addresses: Mapping[str, str]) -> dict[str, Scrape]:
    """Asks every process; one that can't be reached is a result as well.

    Args:
        addresses: the metrics' URLs by process.
    """
    # Never through a proxy: metrics are on this machine, or inside a cluster.
    async with httpx.AsyncClient(timeout=SECONDS, trust_env=False) as http:
        found = await asyncio.gather(*(_scrape(http, url) for url in addresses.values()))
    return dict(zip(addresses, found, strict=True))


async def _scrape(http: httpx.AsyncClient, url: str) -> Scrape:
    try:
        response = await http.get(url)
        if not response.is_success:
            return Scrape(url, None, f"answers with HTTP {response.status_code}: not a metrics endpoint")
        samples = read_samples(response.text, time.time())
    except httpx.ConnectError:
        return Scrape(url, None, "cannot be reached: it isn't running, or its metrics are elsewhere")
    except httpx.TimeoutException:
        return Scrape(url, None, f"did not answer within {SECONDS:g} s")
    except httpx.HTTPError as error:
        return Scrape(url, None, f"cannot be read ({type(error).__name__})")
    except ValueError:
        return Scrape(url, None, "answers with something else than metrics")
    if not samples.has("process_start_time_seconds") and not samples.has("python_info"):
        return Scrape(url, None, "answers with something else than metrics")
    return Scrape(url, samples)
