"""Files from addresses that tenants name, and what hostile servers can't do."""

from __future__ import annotations

import asyncio
import gzip
import hashlib
import time
import tracemalloc
import zlib
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest
from aiohttp import web

from citewire_egress.addresses import EgressPolicy
from citewire_egress.fetch import MOST_REDIRECTS, Fetcher, FetchLimits
from citewire_kit.errors import CitewireError, Code
from compression_bombs import MIB, deflate_bomb, endless_members, gzip_bomb
from local_http import serving
from raw_upstream import Behaviour, Exchange, RawUpstream

Answer = Callable[[web.Request], Awaitable[web.StreamResponse]]
LOOPBACK = EgressPolicy.parse("127.0.0.1")
LIMIT = 2 * MIB


def fetcher(policy: EgressPolicy = LOOPBACK, seconds: float = 10) -> Fetcher:
    return Fetcher(policy, FetchLimits(LIMIT, seconds))


async def fetch(url: str, policy: EgressPolicy = LOOPBACK, seconds: float = 10) -> tuple[str, str, bytes]:
    """The name, the media type and the bytes of a file."""
    async with fetcher(policy, seconds).open(url) as file:
        return file.file_name, file.media_type, b"".join([piece async for piece in file.data])


@asynccontextmanager
async def site(answer: Answer) -> AsyncGenerator[str]:
    app = web.Application()
    app.router.add_route("*", "/{tail:.*}", answer)
    async with serving(app) as port:
        yield f"http://127.0.0.1:{port}"


async def refusal(url: str, policy: EgressPolicy = LOOPBACK, seconds: float = 10) -> CitewireError:
    with pytest.raises(CitewireError) as raised:
        await fetch(url, policy, seconds)
    return raised.value


@pytest.mark.parametrize(
    ("path", "headers", "name"),
    [
        ("/files/report.pdf?x=1", {}, "report.pdf"),
        ("/files/J%C3%A4hrlich%20a.pdf", {}, "Jährlich a.pdf"),
        ("/download", {"Content-Disposition": 'attachment; filename="q3.csv"'}, "q3.csv"),
        ("/a.pdf", {"Content-Disposition": "attachment; filename*=UTF-8''%C3%BCber.pdf"}, "über.pdf"),
        ("/a.pdf", {"Content-Disposition": 'attachment; filename="../../etc/passwd"'}, "passwd"),
        ("/a.pdf", {"Content-Disposition": 'attachment; filename="C:\\\\x\\\\b.pdf"'}, "b.pdf"),
        ("/a.pdf", {"Content-Disposition": 'attachment; filename=".."'}, "a.pdf"),
        ("/a.pdf", {"Content-Disposition": "nonsense=; ;;"}, "a.pdf"),
        ("/a%00%1b%5B2J.md", {}, "a[2J.md"),
        ("/" + "n" * 300 + ".pdf", {}, "n" * 251 + ".pdf"),
        ("/view", {}, "view"),
        ("/", {}, "127.0.0.1"),
    ],
)
async def test_a_files_name_comes_from_its_server_or_address(path: str, headers: dict[str, str], name: str) -> None:
    seen: list[web.Request] = []

    async def answer(request: web.Request) -> web.Response:
        seen.append(request)
        return web.Response(body=b"content", headers={"Content-Type": "Text/Plain; charset=x", **headers})

    async with site(answer) as base:
        assert await fetch(base + path) == (name, "text/plain", b"content")
    assert (seen[0].headers["Accept-Encoding"], seen[0].headers["User-Agent"]) == ("identity", "Citewire")
    assert "Cookie" not in seen[0].headers


async def test_redirects_are_followed_and_name_the_file_without_keeping_cookies() -> None:
    seen: list[str] = []

    async def answer(request: web.Request) -> web.Response:
        seen.append(request.headers.get("Cookie", ""))
        if request.path == "/latest":
            return web.Response(status=302, headers={"Location": "files/2027.pdf", "Set-Cookie": "who=ada; Path=/"})
        return web.Response(body=b"%PDF-")

    async with site(answer) as base:
        fetching = fetcher()
        for _ in range(2):
            async with fetching.open(f"{base}/latest#page=3") as file:
                assert file.file_name == "2027.pdf"
    assert seen == ["", "who=ada", "", "who=ada"]  # the second fetch began without the first one's cookie


@pytest.mark.parametrize("encoding", ["gzip", "deflate"])
async def test_compressed_files_are_decoded_although_not_requested(encoding: str) -> None:
    data = b"a line of text\n" * 1000

    async def answer(_: web.Request) -> web.Response:
        body = gzip.compress(data) if encoding == "gzip" else zlib.compress(data)
        return web.Response(body=body, headers={"Content-Encoding": encoding})

    async with site(answer) as base:
        assert (await fetch(f"{base}/a.txt"))[2] == data


@pytest.mark.parametrize(
    "url",
    [
        "ftp://example.org/a",
        "file:///etc/passwd",
        "http://",
        "http://[::1",
        "a.pdf",
        "https://ada:secret@example.org/a.pdf",
    ],
)
async def test_an_invalid_web_address_is_refused_by_its_field(url: str) -> None:
    error = await refusal(url)
    assert (error.code, error.reason, error.violations[0].field) == (
        Code.INVALID_ARGUMENT,
        "INVALID_FIELD",
        "source_url",
    )
    assert "secret" not in error.message


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "[::1]", "[::ffff:127.0.0.1]", "169.254.169.254"])
async def test_internal_addresses_are_refused(host: str) -> None:
    error = await refusal(f"http://{host}:9/a.pdf", EgressPolicy())
    assert (error.reason, error.violations[0].field) == ("INVALID_FIELD", "source_url")
    assert "may not connect" in error.message


@pytest.mark.parametrize("target", ["http://127.0.0.1:{inner}/secret", "//localhost:{inner}/secret"])
async def test_a_redirect_to_an_internal_address_is_refused_without_a_connection(target: str) -> None:
    asked: list[str] = []

    async def inner(request: web.Request) -> web.Response:
        asked.append(request.path)
        return web.Response(body=b"secret")

    async with site(inner) as inside:
        where = target.format(inner=inside.rpartition(":")[2])

        async def answer(_: web.Request) -> web.Response:
            return web.Response(status=302, headers={"Location": where})

        async with site(answer) as base:
            error = await refusal(f"{base}/a", EgressPolicy.parse(base.removeprefix("http://")))
    assert (error.reason, "may not connect" in error.message, asked) == ("INVALID_FIELD", True, [])


@pytest.mark.parametrize("target", ["file:///etc/passwd", "gopher://127.0.0.1/", "http://u:p@127.0.0.1/"])
async def test_a_redirect_to_an_invalid_address_is_refused(target: str) -> None:
    async def answer(_: web.Request) -> web.Response:
        return web.Response(status=301, headers={"Location": target})

    async with site(answer) as base:
        assert (await refusal(f"{base}/a")).reason == "SOURCE_FAILED"


async def test_redirects_are_limited() -> None:
    asked: list[str] = []

    async def answer(request: web.Request) -> web.Response:
        asked.append(request.path)
        return web.Response(status=307, headers={"Location": f"/{len(asked)}"})

    async with site(answer) as base:
        error = await refusal(f"{base}/a")
    assert (error.reason, len(asked)) == ("SOURCE_FAILED", MOST_REDIRECTS + 1)


@pytest.mark.parametrize("status", [204, 206, 304, 401, 404, 500])
async def test_an_answer_without_a_file_is_reported_by_its_status_only(status: int) -> None:
    async def answer(_: web.Request) -> web.Response:
        return web.Response(status=status, body=None if status in (204, 304) else b"a secret page")

    async with site(answer) as base:
        error = await refusal(f"{base}/a")
    assert (error.reason, str(status) in error.message, "secret" in error.message) == ("SOURCE_FAILED", True, False)


async def refusal_by(behave: Behaviour, seconds: float = 10) -> CitewireError:
    async with RawUpstream(behave).running() as base:
        return await refusal(f"{base}/a.bin", seconds=seconds)


async def endless(exchange: Exchange) -> None:
    await exchange.head(kind="application/pdf")
    while True:
        await exchange.send(b"x" * 65_536)


def bomb(encoding: str, body: bytes) -> Behaviour:
    async def behave(exchange: Exchange) -> None:
        await exchange.head(kind="text/plain", Content_Encoding=encoding, Content_Length=str(len(body)))
        await exchange.send(body)
        await exchange.gone()

    return behave


async def members(exchange: Exchange) -> None:
    await exchange.head(kind="text/plain", Content_Encoding="gzip")
    for piece in endless_members():
        await exchange.send(piece)


async def declared(exchange: Exchange) -> None:
    await exchange.head(kind="text/plain", Content_Length=str(LIMIT + 1))
    await exchange.gone()


@pytest.mark.parametrize(
    "behave",
    [endless, declared, bomb("gzip", gzip_bomb(500)), bomb("deflate", deflate_bomb(500))],
    ids=["endless", "declared", "gzip bomb", "deflate bomb"],
)
async def test_a_file_beyond_the_limit_is_refused_at_the_limit(behave: Behaviour) -> None:
    tracemalloc.start()
    try:
        error = await refusal_by(behave)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert (error.code, error.reason) == (Code.RESOURCE_EXHAUSTED, "TOO_LARGE")
    assert error.metadata == {"limit_bytes": str(LIMIT)}
    assert peak < 8 * MIB


async def dripping(exchange: Exchange) -> None:
    await exchange.head(kind="text/plain")
    while True:
        await exchange.send(b"x")
        await asyncio.sleep(0.05)


async def silent(exchange: Exchange) -> None:
    await exchange.gone()


async def dripping_head(exchange: Exchange) -> None:
    await exchange.send(b"HTTP/1.1 200 OK\r\n")
    while True:
        await exchange.send(b"X-Y: z\r\n")
        await asyncio.sleep(0.05)


@pytest.mark.parametrize("behave", [dripping, silent, dripping_head])
async def test_a_slow_server_is_abandoned_in_time(behave: Behaviour) -> None:
    started = time.monotonic()
    error = await refusal_by(behave, seconds=0.5)
    assert (error.reason, time.monotonic() - started < 5) == ("SOURCE_FAILED", True)


async def cut(exchange: Exchange) -> None:
    await exchange.head(kind="text/plain", Content_Length="1000")
    await exchange.send(b"x" * 999)


async def reset(exchange: Exchange) -> None:
    await exchange.head(kind="text/plain", Content_Length="1000")
    await exchange.send(b"x" * 10)
    exchange.reset()


async def nonsense(exchange: Exchange) -> None:
    await exchange.send(b"SSH-2.0-OpenSSH_9.9\r\n\r\n")


async def cut_chunks(exchange: Exchange) -> None:
    await exchange.head(kind="text/plain", Transfer_Encoding="chunked")
    await exchange.send(b"5\r\nhello\r\n5\r\nhe")


def compressed(body: bytes) -> Behaviour:
    async def behave(exchange: Exchange) -> None:
        await exchange.head(kind="text/plain", Content_Encoding="gzip")
        await exchange.send(body)

    return behave


WHOLE = gzip.compress(bytes(range(256)) * 100)


@pytest.mark.parametrize(
    "behave",
    [
        cut,
        reset,
        nonsense,
        cut_chunks,
        compressed(WHOLE[:-20]),
        compressed(WHOLE + WHOLE),
        compressed(b"not gzip"),
        bomb("br", b"x"),
        members,
    ],
    ids=["cut", "reset", "nonsense", "chunks", "gzip cut", "two members", "no gzip", "brotli", "endless members"],
)
async def test_an_incomplete_or_malformed_file_is_refused(behave: Behaviour) -> None:
    error = await refusal_by(behave)
    assert (error.code, error.reason) == (Code.INVALID_ARGUMENT, "SOURCE_FAILED")
    assert error.violations[0].field == "source_url"


async def test_an_unreachable_server() -> None:
    assert (await refusal("http://127.0.0.1:1/a")).reason == "SOURCE_FAILED"


async def test_time_spent_processing_the_file_does_not_count() -> None:
    async def answer(_: web.Request) -> web.Response:
        return web.Response(body=b"x" * 100_000)

    async with site(answer) as base, fetcher(seconds=0.5).open(f"{base}/a") as file:
        digest = hashlib.sha256(b"".join([piece async for piece in file.data]))
        await asyncio.sleep(0.7)
    assert digest.digest() == hashlib.sha256(b"x" * 100_000).digest()
