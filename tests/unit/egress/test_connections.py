"""Both HTTP clients apply the policy at the connection itself."""

import asyncio
import socket
import threading
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager

import aiohttp
import httpx2
import pytest
from aiohttp import web

from citewire_egress.addresses import EgressPolicy
from citewire_egress.connections import check_base, guarded_client, permitted_addresses, refusal_in
from citewire_kit.errors import CitewireError, InvalidArgument
from citewire_kit.tenant import Tenant, use_tenant
from citewire_remote.egress import guarded_connector
from local_http import serving

Get = Callable[[EgressPolicy, str], Awaitable[int]]
TIMEOUT = httpx2.Timeout(5)
GO_ON = threading.Event()
"""Until it is set, the name server of `stuck.example` doesn't answer."""


# As the C library resolves them, without any query.
NAMES = {
    **{
        name: ["127.0.0.1"] for name in ("localhost", "localhost.", "2130706433", "0x7f000001", "127.1", "017700000001")
    },
    "rebind.example": ["8.8.8.8"],
    "half.example": ["10.0.0.1", "127.0.0.1"],
}


@pytest.fixture(autouse=True)
def names(monkeypatch: pytest.MonkeyPatch) -> dict[str, list[str]]:
    """The addresses of names; a test may change them."""
    table = dict(NAMES)

    def getaddrinfo(host: str, port: int, *_: object, **__: object) -> list[tuple[object, ...]]:
        if host.endswith(".stuck.example"):
            assert GO_ON.wait(20)
        if host not in table:
            host.encode("idna")  # as Python does first; raises for an invalid name
            raise socket.gaierror(socket.EAI_NONAME, "unknown")
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, port)) for address in table[host]]

    GO_ON.clear()
    monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)
    return table


@asynccontextmanager
async def server() -> AsyncGenerator[tuple[int, list[str]]]:
    """A server on loopback that counts its requests; /away redirects to itself by address."""
    seen: list[str] = []

    async def handle(request: web.Request) -> web.Response:
        seen.append(request.path)
        if request.path == "/away":
            raise web.HTTPFound(f"http://127.0.0.1:{request.url.port}/secret")
        return web.Response(text="ok")

    app = web.Application()
    app.router.add_route("*", "/{tail:.*}", handle)
    async with serving(app) as port:
        yield port, seen


async def with_aiohttp(policy: EgressPolicy, url: str) -> int:
    async with aiohttp.ClientSession(connector=guarded_connector(policy)) as session:
        async with session.get(url, allow_redirects=False) as response:
            return response.status


async def with_httpx2(policy: EgressPolicy, url: str) -> int:
    async with guarded_client(policy, timeout=TIMEOUT) as client:
        return (await client.get(url)).status_code


BOTH = pytest.mark.parametrize("get", [with_aiohttp, with_httpx2])
INSIDE = ["127.0.0.1", "localhost", "localhost.", "[::ffff:127.0.0.1]", "[::1]", "169.254.169.254", "0.0.0.0"]  # noqa: S104 - nothing listens there


@BOTH
@pytest.mark.parametrize("host", INSIDE)
async def test_internal_addresses_are_never_connected_to(get: Get, host: str) -> None:
    async with server() as (port, seen):
        with pytest.raises(InvalidArgument) as raised:
            await get(EgressPolicy(), f"http://{host}:{port}/")
        assert raised.value.reason == "PROVIDER_ADDRESS"
        assert "127.0.0.1" not in raised.value.message
        assert seen == []


@BOTH
@pytest.mark.parametrize("spelling", ["2130706433", "0x7f000001", "127.1", "017700000001"])
async def test_other_spellings_of_loopback_are_not_connected_to(get: Get, spelling: str) -> None:
    async with server() as (port, seen):
        with pytest.raises((InvalidArgument, aiohttp.ClientError, httpx2.HTTPError, httpx2.InvalidURL)):
            await get(EgressPolicy(), f"http://{spelling}:{port}/")
        assert seen == []


@BOTH
async def test_a_name_that_resolves_inside_is_refused_at_the_connection(get: Get, names: dict[str, list[str]]) -> None:
    """The name was public when it was saved, but each connection resolves it again."""
    async with server() as (port, seen):
        await check_base(EgressPolicy(), f"http://rebind.example:{port}/v1")
        names["rebind.example"] = ["127.0.0.1"]
        with pytest.raises(InvalidArgument):
            await get(EgressPolicy(), f"http://rebind.example:{port}/")
        assert seen == []


@BOTH
async def test_only_permitted_addresses_of_a_name_are_tried(get: Get) -> None:
    async with server() as (port, seen):
        assert await get(EgressPolicy.parse("127.0.0.1"), f"http://half.example:{port}/") == 200
        assert seen == ["/"]


@BOTH
@pytest.mark.parametrize("allowed", ["127.0.0.1", "127.0.0.0/8", "127.0.0.1:{port}", "localhost", "localhost:{port}"])
async def test_the_operator_may_allow_it(get: Get, allowed: str) -> None:
    async with server() as (port, seen):
        host = "localhost" if "localhost" in allowed else "127.0.0.1"
        policy = EgressPolicy.parse(allowed.format(port=port))
        assert await get(policy, f"http://{host}:{port}/") == 200
        assert seen == ["/"]


@BOTH
async def test_a_redirect_is_not_followed(get: Get) -> None:
    async with server() as (port, seen):
        assert await get(EgressPolicy.parse("localhost"), f"http://localhost:{port}/away") == 302
        assert seen == ["/away"]


@BOTH
async def test_no_proxy_of_the_environment_is_used(get: Get, monkeypatch: pytest.MonkeyPatch) -> None:
    async with server() as (port, seen):
        monkeypatch.setenv("HTTP_PROXY", f"http://127.0.0.1:{port}")
        monkeypatch.setenv("ALL_PROXY", f"http://127.0.0.1:{port}")
        with pytest.raises(InvalidArgument):
            await get(EgressPolicy(), "http://10.0.0.1/")
        assert seen == []


async def test_saving_refuses_a_base_inside() -> None:
    with pytest.raises(InvalidArgument):
        await check_base(EgressPolicy(), "http://localhost:11434/v1")
    await check_base(EgressPolicy.parse("localhost:11434"), "http://localhost:11434/v1")
    await check_base(EgressPolicy(), "https://8.8.8.8/v1")
    await check_base(EgressPolicy(), "https://no-such-host.invalid/v1")


async def test_names_that_never_resolve_delay_only_their_organisation() -> None:
    async def ask(org_id: str, host: str) -> list[str]:
        with use_tenant(Tenant(org_id, "ann", "pro")):
            return await permitted_addresses(EgressPolicy(), host, 443)

    flood = [asyncio.create_task(ask("flood", f"{number}.stuck.example")) for number in range(100)]
    try:
        async with asyncio.timeout(10):
            assert await asyncio.gather(*(ask("quiet", "rebind.example") for _ in range(10))) == [["8.8.8.8"]] * 10
            assert await asyncio.to_thread(str, 1) == "1", "these threads, which write uploads, must stay free"
    finally:
        GO_ON.set()
        await asyncio.gather(*flood, return_exceptions=True)


@pytest.mark.parametrize("host", [f"{'a' * 64}.example", "a..example"])
async def test_an_invalid_name_is_treated_as_unknown(host: str) -> None:
    await check_base(EgressPolicy(), f"https://{host}/v1")
    with pytest.raises((aiohttp.ClientError, httpx2.InvalidURL)):
        await with_aiohttp(EgressPolicy(), f"https://{host}/v1")


def test_a_refusal_is_found_inside_an_sdks_error() -> None:
    refusal = InvalidArgument("no", reason="PROVIDER_ADDRESS")
    outer = RuntimeError("connection error")
    outer.__cause__ = refusal
    result: CitewireError | None = refusal_in(outer)
    assert result is refusal
    assert refusal_in(RuntimeError()) is None
