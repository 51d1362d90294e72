"""The few documents for the rehearsal's questions."""

import asyncio

import httpx

from deploy.rehearsal.cluster import Cluster
from deploy.rehearsal.engine import EngineError

LIBRARY = {
    "pace.md": "# The pace of the upstream\n\nThe upstream says one token after the other, at an even pace.\n",
    "tides.md": "# Tides at the pier\n\nHigh water at the pier comes six hours after low water.\n",
    "ropes.md": "# Ropes of the ferry\n\nThe ferry is made fast with six ropes of forty metres each.\n",
}
READY_SECONDS = 60.0


async def fill(cluster: Cluster) -> None:
    """Uploads the library and waits until it can be searched.

    Raises:
        EngineError: It can't be searched, or not in time.
    """
    async with httpx.AsyncClient(headers=cluster.headers, trust_env=False, timeout=30) as http:
        for name, text in LIBRARY.items():
            stored = await http.post(f"{cluster.balancer.url()}/v1/documents", files={"file": (name, text.encode())})
            if stored.status_code != 202:
                raise EngineError(f"{name} wasn't taken: {stored.status_code} {stored.text}")
        try:
            async with asyncio.timeout(READY_SECONDS):
                while not all(status == "ready" for status in await _statuses(cluster, http)):  # noqa: ASYNC110 # nothing announces it
                    await asyncio.sleep(0.1)
        except TimeoutError:
            raise EngineError(f"not ready after {READY_SECONDS:g} s: {await _statuses(cluster, http)}") from None


async def _statuses(cluster: Cluster, http: httpx.AsyncClient) -> list[str]:
    answer = (await http.get(f"{cluster.balancer.url()}/v1/documents")).raise_for_status()
    return [document["status"] for document in answer.json()["documents"]]
