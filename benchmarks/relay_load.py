"""Reads many streams at once and measures the latency of each stamped token.

The reader is a bare protocol on the event loop, the same for every system: it searches for the stamps in the bytes of
the socket, so the figures contain no client library's cost.
"""

from __future__ import annotations

import asyncio
import json
import re
import statistics
import time
from array import array
from collections.abc import Callable, Sequence
from dataclasses import dataclass

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
    core: float
    """CPU time of the system's processes as a fraction of one core."""
    others: float
    """CPU time that anything else used on the system's core, as a fraction of it: the machine should be quiet."""
    failed: int
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
    def __init__(self, target: Target, arrivals: array[int]) -> None:
        self.ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.first_token_at: float | None = None
        self.asked_at = 0.0
        self.terminated = False
        self.head = b""
        self._target = target
        self._arrivals = arrivals
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


async def run_load(
    target: Target,
    *,
    streams: int,
    rate: float,
    window: float,
    core: int,
    cpu_seconds: Callable[[], float],
    settle: float | None = SETTLE_SECONDS,
    patience: float | None = None,
) -> Load:
    """Opens the streams, measures for `window` seconds and waits until all have ended.

    Args:
        target: the system.
        streams: the number of concurrent streams.
        rate: tokens per second that the upstream writes into each.
        window: seconds to measure.
        core: the core that the system is pinned to.
        cpu_seconds: CPU time of the system's processes so far.
        settle: seconds between the opening of the last stream and the window; None waits until each has its first
            token, however long opening them takes.
        patience: seconds for streams to end by themselves; twice the window by default.
    """
    arrivals = array("q")
    loop = asyncio.get_running_loop()
    opened: list[tuple[asyncio.Transport, _Stream]] = []
    begin = time.monotonic()
    for index in range(streams):
        await _sleep_until(begin + index * RAMP_SECONDS / streams)
        opened.append(await loop.create_connection(lambda: _Stream(target, arrivals), target.host, target.port))
    if settle is None:
        await _wait_for_first_tokens([stream for _, stream in opened])
    else:
        await _sleep_until(begin + RAMP_SECONDS + settle)
    cpu_before, busy_before, window_begin = cpu_seconds(), _busy_seconds(core), time.monotonic_ns() // 1000
    await asyncio.sleep(window)
    cpu, busy, window_end = cpu_seconds() - cpu_before, _busy_seconds(core) - busy_before, time.monotonic_ns() // 1000
    await _finish(opened, patience=2 * window if patience is None else patience)
    pairs = zip(arrivals[0::2], arrivals[1::2], strict=True)
    delays = [delay for at, delay in pairs if window_begin <= at < window_end]
    seconds = (window_end - window_begin) / 1e6
    if not delays:
        msg = f"no token arrived; the first stream began with {opened[0][1].head[:400]!r}"
        raise RuntimeError(msg)
    return Load(
        streams=streams,
        tokens=len(delays),
        throughput=len(delays) / (streams * rate * seconds),
        p50_ms=percentile(delays, 50) / 1000,
        p95_ms=percentile(delays, 95) / 1000,
        cpu_us_per_token=cpu * 1e6 / len(delays),
        core=cpu / seconds,
        others=max(0.0, busy - cpu) / seconds,
        failed=sum(not stream.terminated for _, stream in opened),
    )


async def measure_first_token(target: Target, *, requests: int) -> list[FirstToken]:
    """Sends one request after another and measures the wait of each for its first token."""
    loop = asyncio.get_running_loop()
    waits: list[FirstToken] = []
    for _ in range(requests):
        _, stream = await loop.create_connection(lambda: _Stream(target, array("q")), target.host, target.port)
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


async def _wait_for_first_tokens(streams: Sequence[_Stream]) -> None:
    async with asyncio.timeout(FIRST_TOKENS_SECONDS):
        while any(stream.first_token_at is None and not stream.ended.done() for stream in streams):  # noqa: ASYNC110 # an event would be set on the measured path
            await asyncio.sleep(0.1)


async def _finish(opened: Sequence[tuple[asyncio.Transport, _Stream]], *, patience: float) -> None:
    """Lets the streams end by themselves, and cuts the rest if the system is overloaded."""
    waiting = [stream.ended for _, stream in opened if not stream.ended.done()]
    if waiting:
        await asyncio.wait(waiting, timeout=patience)
    for transport, stream in opened:
        if not stream.ended.done():
            transport.abort()
    await asyncio.gather(*(stream.ended for _, stream in opened))


async def _sleep_until(moment: float) -> None:
    await asyncio.sleep(max(0.0, moment - time.monotonic()))
