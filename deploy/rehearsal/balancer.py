"""A load balancer that selects gateways by their `/readyz`, like Kubernetes' endpoints.

It chooses the gateway for a client's next request; the client connects itself, so that no other process affects the
measurement. No request is retried: a failed request counts as failed.
"""

import asyncio
from collections.abc import AsyncGenerator, Iterable
from contextlib import asynccontextmanager

import httpx

from deploy.rehearsal.load import NoGatewayError

PERIOD_SECONDS = 0.1
PROBE_SECONDS = 2.0
MOST_REFUSALS = 2
"""A gateway leaves after this many consecutive unready responses: a single one may be due to a service's replica that
left at that moment, which is why probes usually have such a threshold. An unreachable gateway leaves
immediately."""


class Balancer:
    """Returns the ready gateways in turns.

    `members` are base URLs. Use it with `watching()`; members may be added and removed meanwhile.
    """

    def __init__(self, members: Iterable[str] = ()) -> None:
        self._ready: dict[str, bool] = {}
        self._watches: dict[str, asyncio.Task[None]] = {}
        self._turn = 0
        self._changed = asyncio.Event()
        self._first = tuple(members)

    @asynccontextmanager
    async def watching(self) -> AsyncGenerator["Balancer"]:
        """Probes all members repeatedly until the block ends."""
        for url in self._first:
            self.add(url)
        try:
            yield self
        finally:
            watches = list(self._watches.values())
            for url in list(self._watches):
                self.remove(url)
            await asyncio.gather(*watches, return_exceptions=True)

    def add(self, url: str) -> None:
        """A new gateway; it gets requests once it is ready."""
        self._ready[url] = False
        self._watches[url] = asyncio.create_task(self._watch(url))

    def remove(self, url: str) -> None:
        """Stops requests to a gateway that is about to end, like Kubernetes for a terminating pod."""
        self._watches.pop(url).cancel()
        del self._ready[url]
        self._changed.set()

    def url(self) -> str:
        """The URL of the next gateway.

        Raises:
            NoGatewayError: None is ready.
        """
        ready = self.ready()
        if not ready:
            raise NoGatewayError("no gateway is ready")
        self._turn += 1
        return ready[self._turn % len(ready)]

    def ready(self) -> list[str]:
        """The gateways that get requests now."""
        return [url for url, yes in self._ready.items() if yes]

    async def until_ready(self, *urls: str, seconds: float = 60) -> None:
        """Waits until these are ready."""
        async with asyncio.timeout(seconds):
            while not all(self._ready.get(url) for url in urls):
                self._changed.clear()
                await self._changed.wait()

    async def _watch(self, url: str) -> None:
        refusals = MOST_REFUSALS
        # A connection for each probe, like the kubelet: a persistent one would prove nothing about new ones.
        limits = httpx.Limits(max_keepalive_connections=0)
        async with httpx.AsyncClient(base_url=url, trust_env=False, timeout=PROBE_SECONDS, limits=limits) as http:
            while True:
                try:
                    refusals = 0 if (await http.get("/readyz")).status_code == 200 else refusals + 1
                except httpx.HTTPError:
                    refusals = MOST_REFUSALS
                self._note(url, ready=refusals < MOST_REFUSALS)
                await asyncio.sleep(PERIOD_SECONDS)

    def _note(self, url: str, *, ready: bool) -> None:
        if ready != self._ready[url]:
            self._ready[url] = ready
            self._changed.set()
