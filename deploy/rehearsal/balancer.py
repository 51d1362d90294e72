"""A load balancer that knows the gateways by their `/readyz`, as Kubernetes' endpoints do.

It chooses whom a client asks next; the client connects itself, so that no further process is in the way of what is
measured. Nothing is sent a second time: a request that fails has failed.
"""

import asyncio
from collections.abc import AsyncGenerator, Iterable
from contextlib import asynccontextmanager

import httpx

from deploy.rehearsal.load import NoGatewayError

PERIOD_SECONDS = 0.1
PROBE_SECONDS = 2.0
MOST_REFUSALS = 2
"""A gateway leaves after so many answers in a row that it isn't ready: a single one may be a service's replica that
left at that moment, and probes have such a threshold everywhere for that reason. One that can't be reached leaves at
once."""


class Balancer:
    """Gives the gateways that say that they are ready, in turns.

    `members` are base URLs. Use it with `watching()`; members may come and go meanwhile.
    """

    def __init__(self, members: Iterable[str] = ()) -> None:
        self._ready: dict[str, bool] = {}
        self._watches: dict[str, asyncio.Task[None]] = {}
        self._turn = 0
        self._changed = asyncio.Event()
        self._first = tuple(members)

    @asynccontextmanager
    async def watching(self) -> AsyncGenerator["Balancer"]:
        """Asks all members again and again until the block ends."""
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
        """A gateway that is about to end gets no more requests: Kubernetes does so when a pod is told to end."""
        self._watches.pop(url).cancel()
        del self._ready[url]
        self._changed.set()

    def url(self) -> str:
        """The next gateway's.

        Raises:
            NoGatewayError: None is ready.
        """
        ready = self.ready()
        if not ready:
            raise NoGatewayError("no gateway is ready")
        self._turn += 1
        return ready[self._turn % len(ready)]

    def ready(self) -> list[str]:
        """Those that get requests now."""
        return [url for url, yes in self._ready.items() if yes]

    async def until_ready(self, *urls: str, seconds: float = 60) -> None:
        """Waits until these are ready."""
        async with asyncio.timeout(seconds):
            while not all(self._ready.get(url) for url in urls):
                self._changed.clear()
                await self._changed.wait()

    async def _watch(self, url: str) -> None:
        refusals = MOST_REFUSALS
        # A connection for each probe, as kubelet makes them: a kept one would say nothing of new ones.
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
