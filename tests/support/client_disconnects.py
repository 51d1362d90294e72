"""Clients that disconnect during an answer, and the signs of it all the way down to the provider."""

import asyncio
import json
import os
import time
import uuid
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Literal

import httpx
import psycopg

from paced_model_stack import PacedModelStack

Disconnect = Literal["killed", "hangs up"]
"""`killed`: SIGKILL. `hangs up`: curl closes its connection itself, because its output isn't read."""

LIMIT_SECONDS = 1.0
"""From a client's disconnect until the provider's socket is closed and the RPC cancelled."""
BUSY_SECONDS = 5.0
"""Until the exchange is closed, too, and with it the gateway's stream: what is written afterwards, on a machine that
runs other tests."""
QUESTION = "What does the upstream say, and at which pace?"
TOKEN = {"/v1/chat": b"event: token\n", "/api/chat/": b'data: {"token"'}
_EXIT_CODES = {"killed": -9, "hangs up": 23}  # 23: curl's "failed writing output"
_EXCHANGE = "SELECT state, reason, ended_at IS NOT NULL FROM chat.exchanges WHERE request_id = %s"


@dataclass(frozen=True, slots=True)
class CancellationTimes:
    """Seconds from the client's disconnect until each sign of it."""

    socket: float
    """The provider saw its socket closed."""
    rpc: float
    """The generator counts the RPC as cancelled, and no stream in flight."""
    gateway: float
    """The gateway counts the stream as cancelled by its client, and none in flight."""
    exchange: float
    """The exchange is closed as cancelled."""


@dataclass(frozen=True, slots=True)
class _Counters:
    """Counters of generator and gateway, and the provider's sockets that were closed early."""

    rpcs_cancelled: float
    rpcs_ended: float
    generator_in_flight: float
    gateway_cancelled: float
    gateway_in_flight: float
    sockets_closed: int
    last_closed: float


class DisconnectProbe:
    """Disconnects clients of one stack, one after another, without other load."""

    def __init__(self, paced: PacedModelStack, http: httpx.AsyncClient, database: psycopg.AsyncConnection) -> None:
        self._paced = paced
        self._http = http
        self._database = database

    async def disconnect_from_stream(self, path: str, how: Disconnect, *, tokens: int = 2) -> CancellationTimes:
        """Streams an answer with curl, disconnects after a number of tokens, and waits for all signs of it.

        Raises:
            AssertionError: A sign doesn't appear in time, or is wrong.
        """
        async with self._request(path, {"question": QUESTION}) as (curl, before):
            await curl.read_until(TOKEN[path], tokens)
            return await self._wait_for_signs(before, curl, await curl.disconnect(how))

    async def disconnect_before_output(self, path: str, body: dict[str, object], *, tokens: int) -> CancellationTimes:
        """Asks for an answer with curl, and kills curl before it prints anything.

        It does so once the provider has written a number of tokens; 0: once it was called. See `leave_stream`.
        """
        sent = (await self._stats())["tokens_sent"] + tokens
        async with self._request(path, {"question": QUESTION, **body}) as (curl, before):
            async with asyncio.timeout(10):
                while (stats := await self._stats())["open_streams"] == 0 or stats["tokens_sent"] < sent:  # noqa: ASYNC110 # nothing announces it
                    await asyncio.sleep(0.005)
            return await self._wait_for_signs(before, curl, await curl.disconnect("killed"))

    @asynccontextmanager
    async def _request(self, path: str, body: dict[str, object]) -> AsyncGenerator[tuple["Curl", _Counters]]:
        before = await self._read_counters()
        assert (before.generator_in_flight, before.gateway_in_flight) == (0, 0)
        async with running_curl(f"{self._paced.stack.base_url}{path}", body) as curl:
            yield curl, before

    async def _wait_for_signs(self, before: _Counters, curl: "Curl", left_at: float) -> CancellationTimes:
        """Polls until every sign is there."""
        times: dict[str, float] = {}
        while True:
            read_at: dict[str, float] = {}
            now, row = await asyncio.gather(self._read_counters(read_at), self._read_exchange(curl, read_at))
            at = time.monotonic() - left_at
            there = {
                "rpc": now.rpcs_cancelled > before.rpcs_cancelled and now.generator_in_flight == 0,
                "gateway": now.gateway_cancelled > before.gateway_cancelled and now.gateway_in_flight == 0,
                "exchange": row is not None and row[0] != "running",
            }
            # A sign that disappears again doesn't count.
            times = {name: times.get(name, read_at[name] - left_at) for name, yes in there.items() if yes}
            if now.sockets_closed > before.sockets_closed:
                times["socket"] = now.last_closed - left_at
            if len(times) == 1 + len(there):
                break
            assert at < BUSY_SECONDS, f"after {at:.2f} s there is only {sorted(times)}: {now}, {row}"
        assert now == _Counters(
            rpcs_cancelled=before.rpcs_cancelled + 1,
            rpcs_ended=before.rpcs_ended + 1,
            generator_in_flight=0,
            gateway_cancelled=before.gateway_cancelled + 1,
            gateway_in_flight=0,
            sockets_closed=before.sockets_closed + 1,
            last_closed=now.last_closed,
        )
        assert row == ("cancelled", "client", True)
        signs = CancellationTimes(**times)
        assert max(signs.socket, signs.rpc) < LIMIT_SECONDS, signs
        return signs

    async def _read_exchange(self, curl: "Curl", read_at: dict[str, float]) -> tuple[Any, ...] | None:
        row = await (await self._database.execute(_EXCHANGE, (curl.request_id,))).fetchone()
        read_at["exchange"] = time.monotonic()
        return row

    async def _read_counters(self, read_at: dict[str, float] | None = None) -> _Counters:
        """Reads them at once, and notes when those of the generator ("rpc") and of the gateway had arrived."""

        async def metrics(process: str, sign: str) -> str:
            text = await self._metrics(process)
            if read_at is not None:
                read_at[sign] = time.monotonic()
            return text

        generator, gateway, stats = await asyncio.gather(
            metrics("generator", "rpc"), metrics("gateway", "gateway"), self._stats()
        )
        return _Counters(
            rpcs_cancelled=_total(generator, "grpc_server_handled_total", "Generate", 'grpc_code="CANCELLED"'),
            rpcs_ended=_total(generator, "grpc_server_handled_total", "Generate"),
            generator_in_flight=_total(generator, "citewire_streams_in_flight"),
            gateway_cancelled=_total(gateway, "citewire_streams_cancelled_total", 'cause="client"'),
            gateway_in_flight=_total(gateway, "citewire_streams_in_flight"),
            sockets_closed=len(stats["closed_early"]),
            last_closed=stats["closed_early"][-1] if stats["closed_early"] else 0.0,
        )

    async def _metrics(self, name: str) -> str:
        port = self._paced.stack.ports()[name]
        return (await self._http.get(f"http://127.0.0.1:{port}/metrics")).raise_for_status().text

    async def _stats(self) -> dict[str, Any]:
        return (await self._http.get(f"{self._paced.upstream.url}/stats")).raise_for_status().json()


@asynccontextmanager
async def disconnect_probe(paced: PacedModelStack) -> AsyncGenerator[DisconnectProbe]:
    """Opens the connections for watching the signs."""
    async with (
        httpx.AsyncClient(trust_env=False, timeout=10) as http,
        await psycopg.AsyncConnection.connect(paced.stack.dsn(), autocommit=True) as database,
    ):
        yield DisconnectProbe(paced, http, database)


class Curl:
    """A running `curl -N`, and the read end of the pipe that it prints to."""

    def __init__(
        self, process: asyncio.subprocess.Process, reader: asyncio.StreamReader, pipe: asyncio.BaseTransport, name: str
    ) -> None:
        self._process = process
        self._reader = reader
        self._pipe = pipe
        self.request_id = name

    async def read_until(self, sign: bytes, count: int) -> None:
        """Reads until `sign` was printed `count` times."""
        printed = b""
        async with asyncio.timeout(10):
            while printed.count(sign) < count:
                piece = await self._reader.read(65536)
                assert piece, f"curl ended: {printed!r}"
                printed += piece

    async def disconnect(self, how: Disconnect) -> float:
        """Stops curl; returns the time at which that began."""
        assert self._process.returncode is None, "curl has ended already"
        left_at = time.monotonic()
        if how == "killed":
            self._process.kill()
        else:
            self._pipe.close()
        async with asyncio.timeout(LIMIT_SECONDS):
            assert await self._process.wait() == _EXIT_CODES[how]
        return left_at


@asynccontextmanager
async def running_curl(url: str, body: dict[str, object]) -> AsyncGenerator[Curl]:
    """Starts curl with a POST of JSON, and stops it unless the block has."""
    request_id = f"leaving-{uuid.uuid4().hex}"
    headers = ("-H", "Content-Type: application/json", "-H", f"X-Request-Id: {request_id}")
    read_end, write_end = os.pipe()
    try:
        process = await asyncio.create_subprocess_exec(
            *("curl", "-N", "-sS", "--noproxy", "*", *headers, "-d", json.dumps(body), url),
            stdout=write_end,
            stderr=asyncio.subprocess.DEVNULL,
        )
    except BaseException:
        os.close(read_end)
        raise
    finally:
        os.close(write_end)
    reader = asyncio.StreamReader()
    pipe, _ = await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(read_end, "rb", buffering=0)
    )
    try:
        yield Curl(process, reader, pipe, request_id)
    finally:
        pipe.close()
        if process.returncode is None:
            process.kill()
            await process.wait()


def _total(metrics: str, name: str, *labels: str) -> float:
    """The sum of a series' samples that have all these labels (or parts of them)."""
    lines = [line for line in metrics.splitlines() if line.startswith(f"{name}{{")]
    assert lines, f"there is no series {name}"
    return sum(float(line.rsplit(" ", 1)[1]) for line in lines if all(label in line for label in labels))
