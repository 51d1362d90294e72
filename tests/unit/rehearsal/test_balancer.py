"""The rehearsal's load balancer follows `/readyz`."""

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import pytest
from aiohttp import web

from deploy.rehearsal.balancer import Balancer
from deploy.rehearsal.load import NoGatewayError
from local_http import serving


class Gateway:
    """A fake gateway that answers `/readyz`."""

    def __init__(self) -> None:
        self.statuses: list[int] = []
        self.status = 200
        self.url = ""

    async def _readyz(self, _request: web.Request) -> web.Response:
        return web.Response(status=self.statuses.pop(0) if self.statuses else self.status)

    @asynccontextmanager
    async def running(self) -> AsyncGenerator["Gateway"]:
        app = web.Application()
        app.router.add_get("/readyz", self._readyz)
        async with serving(app) as port:
            self.url = f"http://127.0.0.1:{port}"
            yield self


async def until_only(balancer: Balancer, urls: set[str]) -> None:
    async with asyncio.timeout(10):
        while set(balancer.ready()) != urls:  # noqa: ASYNC110 # no event to wait for
            await asyncio.sleep(0.02)


async def test_ready_gateways_get_requests_in_turn() -> None:
    async with Gateway().running() as first, Gateway().running() as two:
        async with Balancer([first.url, two.url]).watching() as balancer:
            await balancer.until_ready(first.url, two.url)
            assert Counter(balancer.url() for _ in range(10)) == {first.url: 5, two.url: 5}
            two.status = 503
            await until_only(balancer, {first.url})
            assert {balancer.url() for _ in range(4)} == {first.url}
            two.status = 200
            await balancer.until_ready(two.url, seconds=10)


async def test_a_single_refusal_does_not_remove_a_gateway() -> None:
    async with Gateway().running() as first, Balancer([first.url]).watching() as balancer:
        await balancer.until_ready(first.url)
        first.statuses = [503]
        async with asyncio.timeout(10):
            while first.statuses:
                assert balancer.url() == first.url
                await asyncio.sleep(0.01)
        await asyncio.sleep(0.05)
        assert balancer.url() == first.url


async def test_a_dead_gateway_is_removed_and_a_removed_one_gets_no_requests() -> None:
    async with Gateway().running() as first, Balancer().watching() as balancer:
        async with Gateway().running() as two:
            balancer.add(first.url)
            balancer.add(two.url)
            await balancer.until_ready(first.url, two.url)
        await until_only(balancer, {first.url})
        balancer.remove(first.url)
        with pytest.raises(NoGatewayError):
            balancer.url()
