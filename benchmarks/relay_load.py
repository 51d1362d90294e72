"""Reads many streams at once and measures the latency of each stamped token.

The reader is a bare protocol on the event loop, the same for every system: it searches for the stamps in the bytes of
the socket, so the figures contain no client library's cost.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
import statistics
import time
from array import array
from collections.abc import AsyncGenerator, Callable, Sequence
from dataclasses import dataclass, replace

import psutil

from benchmarks.upstream import STAMP

RAMP_SECONDS = 1.0
"""Seconds over which streams are opened evenly."""
SETTLE_SECONDS = 1.5
"""Seconds after that before measuring begins."""
FIRST_TOKENS_SECONDS = 90.0
"""Maximum wait for the first tokens of all streams."""
TAIL_SECONDS = 0.5
"""Seconds that streams continue after the window, so that none end within it."""
LONGEST_STAMP = 32
HELD_THROUGHPUT = 0.97
HELD_P95_MS = 100.0


@dataclass(frozen=True, slots=True)
class Target:
    """The address of a system, and the end of its streams."""

    host: str
    port: int
    path: str
    body: dict[str, object]
    terminal: bytes
    began: re.Pattern[bytes] | None = None
    """Finds the stamp of the start of relaying before the first token; None: relaying starts with the request."""

    def request(self) -> bytes:
        """The whole HTTP request, headers included."""
        body = json.dumps(self.body).encode()
        head = (
            f"POST {self.path} HTTP/1.1\r\nHost: {self.host}:{self.port}\r\nContent-Type: application/json\r\n"
            f"Accept: text/event-stream\r\nAuthorization: Bearer sk-none\r\nContent-Length: {len(body)}\r\n"
            "Connection: close\r\n\r\n"
        )
        return head.encode() + body


@dataclass(frozen=True, slots=True)
class Load:
    """The results of one run with a number of streams, within its window."""

    streams: int
    tokens: int
    throughput: float
    """Tokens received, as a fraction of those at the upstream's pace."""
    p50_ms: float
    p95_ms: float
    cpu_us_per_token: float
    """CPU time of the system's processes, user and system, divided by the tokens received."""
    cpu_us_per_read: float
    """CPU time of the system's processes, divided by the reads that brought these tokens, one or more at a time."""
    core: float
    """CPU time of the system's processes as a fraction of one core."""
    others: float
    """CPU time that anything else used on the system's core, as a fraction of it: the machine should be quiet."""
    failed: int = 0
    """Streams that ended without their terminal frame, in the whole run."""

    @property
    def held(self) -> bool:
        """Whether all streams were relayed at the upstream's pace."""
        return self.failed == 0 and self.throughput >= HELD_THROUGHPUT and self.p95_ms <= HELD_P95_MS


@dataclass(frozen=True, slots=True)
class FirstToken:
    """The wait of a single request for its first token, in milliseconds."""

    whole: float
    """From the request."""
    relay: float
    """From the start of relaying: after retrieval, if a system finds passages first."""


class _Stream(asyncio.Protocol):
    def __init__(self, target: Target, arrivals: array[int], reads: array[int]) -> None:
        self.ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.first_token_at: float | None = None
        self.asked_at = 0.0
        self.terminated = False
        self.head = b""
        self._target = target
        self._arrivals = arrivals
        self._reads = reads
        self._rest = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.asked_at = time.monotonic()
        transport.write(self._target.request())

    def data_received(self, data: bytes) -> None:
        now = time.monotonic_ns() // 1000
        text = self._rest + data
        end = 0
        for stamp in STAMP.finditer(text):
            self._arrivals.append(now)
            self._arrivals.append(now - int(stamp[1]))
            end = stamp.end()
        if end:
            self._reads.append(now)
        if self.first_token_at is None:
            self.head += data
            if end:
                self.first_token_at = now / 1e6
        # Keep bytes that may contain the beginning of a stamp or of the terminal frame.
        self._rest = text[max(end, len(text) - LONGEST_STAMP) :]
        if self._target.terminal in text[end:]:
            self.terminated = True

    def connection_lost(self, exc: Exception | None) -> None:
        del exc  # a stream is judged by its terminal frame
        if not self.ended.done():
            self.ended.set_result(None)


class OpenStreams:
    """A number of streams that are being read. Created by `open_streams`."""

    def __init__(self, target: Target) -> None:
        self._target = target
        self._opened: list[tuple[asyncio.Transport, _Stream]] = []
        self._arrivals = array("q")
        self._reads = array("q")

    async def open(self) -> None:
        """Opens another stream."""
        loop = asyncio.get_running_loop()
        target, arrivals, reads = self._target, self._arrivals, self._reads
        self._opened.append(
            await loop.create_connection(lambda: _Stream(target, arrivals, reads), target.host, target.port)
        )

    async def first_tokens(self) -> None:
        """Waits until each stream has had its first token, or has ended."""
        streams = [stream for _, stream in self._opened]
        async with asyncio.timeout(FIRST_TOKENS_SECONDS):
            while any(stream.first_token_at is None and not stream.ended.done() for stream in streams):  # noqa: ASYNC110 # an event would be set on the measured path
                await asyncio.sleep(0.1)

    async def measure(self, *, rate: float, window: float, core: int, cpu_seconds: Callable[[], float]) -> Load:
        """Measures for `window` seconds; the other arguments are those of `run_load`."""
        first, first_read = len(self._arrivals), len(self._reads)
        cpu_before, busy_before, begin = cpu_seconds(), _busy_seconds(core), time.monotonic_ns() // 1000
        await asyncio.sleep(window)
        cpu, busy, end = cpu_seconds() - cpu_before, _busy_seconds(core) - busy_before, time.monotonic_ns() // 1000
        pairs = zip(self._arrivals[first::2], self._arrivals[first + 1 :: 2], strict=True)
        delays = [delay for at, delay in pairs if begin <= at < end]
        seconds = (end - begin) / 1e6
        if not delays:
            msg = f"no token arrived; the first stream began with {self._opened[0][1].head[:400]!r}"
            raise RuntimeError(msg)
        return Load(
            streams=len(self._opened),
            tokens=len(delays),
            throughput=len(delays) / (len(self._opened) * rate * seconds),
            p50_ms=percentile(delays, 50) / 1000,
            p95_ms=percentile(delays, 95) / 1000,
            cpu_us_per_token=cpu * 1e6 / len(delays),
            cpu_us_per_read=cpu * 1e6 / sum(begin <= at < end for at in self._reads[first_read:]),
            core=cpu / seconds,
            others=max(0.0, busy - cpu) / seconds,
        )

    def check_open(self) -> None:
        """Raises if a stream has ended: the end of an answer costs more than its tokens."""
        if ended := sum(stream.ended.done() for _, stream in self._opened):
            msg = f"{ended} of {len(self._opened)} streams ended while they were measured"
            raise RuntimeError(msg)

    async def finish(self, *, patience: float) -> int:
        """Lets the streams end by themselves, and cuts the rest, as does an overloaded system's client.

        Returns:
            The number of streams that ended without their terminal frame.
        """
        waiting = [stream.ended for _, stream in self._opened if not stream.ended.done()]
        if waiting:
            await asyncio.wait(waiting, timeout=patience)
        for transport, stream in self._opened:
            if not stream.ended.done():
                transport.abort()
        await asyncio.gather(*(stream.ended for _, stream in self._opened))
        return sum(not stream.terminated for _, stream in self._opened)


@contextlib.asynccontextmanager
async def open_streams(target: Target, streams: int) -> AsyncGenerator[OpenStreams]:
    """Opens streams evenly within `RAMP_SECONDS`; cuts those that are still open at the end of the block."""
    opened = OpenStreams(target)
    begin = time.monotonic()
    try:
        for index in range(streams):
            await _sleep_until(begin + index * RAMP_SECONDS / streams)
            await opened.open()
        await _sleep_until(begin + RAMP_SECONDS)
        yield opened
    finally:
        await opened.finish(patience=0)


async def run_load(
    target: Target, *, streams: int, rate: float, window: float, core: int, cpu_seconds: Callable[[], float]
) -> Load:
    """Opens the streams, measures for `window` seconds and waits until all have ended.

    Args:
        target: the system.
        streams: the number of concurrent streams.
        rate: tokens per second that the upstream writes into each.
        window: seconds to measure.
        core: the core that the system is pinned to.
        cpu_seconds: CPU time of the system's processes so far.
    """
    async with open_streams(target, streams) as opened:
        await asyncio.sleep(SETTLE_SECONDS)
        load = await opened.measure(rate=rate, window=window, core=core, cpu_seconds=cpu_seconds)
        return replace(load, failed=await opened.finish(patience=2 * window))


async def measure_first_token(target: Target, *, requests: int) -> list[FirstToken]:
    """Sends one request after another and measures the wait of each for its first token."""
    loop = asyncio.get_running_loop()
    waits: list[FirstToken] = []
    for _ in range(requests):
        _, stream = await loop.create_connection(
            lambda: _Stream(target, array("q"), array("q")), target.host, target.port
        )
        async with asyncio.timeout(30):
            await stream.ended
        if stream.first_token_at is None:
            msg = f"no token arrived; the answer began with {stream.head[:400]!r}"
            raise RuntimeError(msg)
        began = target.began.search(stream.head) if target.began else None
        began_at = int(began[1]) / 1e6 if began else stream.asked_at
        whole, relay = stream.first_token_at - stream.asked_at, stream.first_token_at - began_at
        waits.append(FirstToken(whole * 1000, relay * 1000))
    return waits


def tokens_for(window: float, rate: float) -> int:
    """Number of tokens for a stream to last from its opening in the ramp until after the window."""
    return round((RAMP_SECONDS + SETTLE_SECONDS + window + TAIL_SECONDS) * rate)


def percentile(values: Sequence[float], percent: int) -> float:
    """The value below which `percent` % of the values lie."""
    return statistics.quantiles(values, n=100, method="inclusive")[percent - 1] if len(values) > 1 else values[0]


def _busy_seconds(core: int) -> float:
    times = psutil.cpu_times(percpu=True)[core]
    return times.user + times.nice + times.system + times.irq + times.softirq


async def _sleep_until(moment: float) -> None:
    await asyncio.sleep(max(0.0, moment - time.monotonic()))
