"""Hostile connections to the gateway before authentication: headers, half a request, a body that arrives slowly.

The gateway is a separate process; an attack's cost is its CPU time, its peak memory, and the slowest answer of
`/livez` meanwhile. `make faults` prints the table.
"""

from __future__ import annotations

import asyncio
import http.client
import json
import os
import re
import select
import socket
import threading
import time
from collections.abc import AsyncGenerator, Callable, Generator, Sequence
from contextlib import ExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import anyio.to_thread
from citewire.generator.v1 import generator_pb2

from citewire_http.connections import RESERVED
from gateway_fake_servers import running_fakes
from gateway_fakes import completed, delta, started
from gateway_process import running_gateway, text_of
from proof_scale import PrintTable, ProofScale
from service_process import service_process
from waiting import BUSY_SECONDS

if TYPE_CHECKING:
    from databases import Database

MIB = 1024 * 1024
LIVEZ = b"GET /livez HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
LIVEZ_SECONDS = 0.1
NOISE_SECONDS = 1.0
"""What a busy machine's scheduler adds: the limit in full proofs, on a quiet one, is `LIVEZ_SECONDS`."""
LIMITS = {
    "HEADER_SECONDS": "1.0",
    "BODY_IDLE_SECONDS": "1.0",
    "KEEP_ALIVE_SECONDS": "5",
    "BODY_SECONDS": "2.0",
    "BODY_BYTES_PER_SECOND": "1000",
    "MAX_CONNECTIONS": "120",
    "MAX_CONNECTIONS_PER_ADDRESS": "60",
    "TRUSTED_PROXIES": "127.0.0.128/25",
}


@dataclass
class Target:
    """A gateway process, and its use of CPU and memory."""

    pid: int
    port: int

    def connect(self, source: str = "127.0.0.1") -> socket.socket:
        made = socket.create_connection(("127.0.0.1", self.port), timeout=30, source_address=(source, 0))
        made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return made

    def cpu(self) -> float:
        fields = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def peak(self) -> float:
        """The peak of its memory in MiB since the last reset."""
        match = re.search(r"VmHWM:\s+(\d+)", Path(f"/proc/{self.pid}/status").read_text())
        assert match is not None
        return int(match[1]) / 1024

    def reset_peak(self) -> float:
        Path(f"/proc/{self.pid}/clear_refs").write_text("5")
        return self.peak()


@dataclass
class Cost:
    """An attack's cost."""

    cpu: float = 0.0
    memory: float = 0.0
    livez: float = 0.0
    answers: list[bytes] = field(default_factory=list[bytes])


@contextmanager
def attack(target: Target, *, probe_from: str = "127.0.0.2") -> Generator[Cost]:
    """Measures the block's cost to the gateway, while another address requests `/livez`."""
    cost, over = Cost(), threading.Event()

    def probe() -> None:
        while not over.wait(0.01):
            began = time.perf_counter()
            with target.connect(probe_from) as made:
                made.sendall(LIVEZ)
                cost.answers.append(status_of(made))
            cost.livez = max(cost.livez, time.perf_counter() - began)

    cpu, memory = target.cpu(), target.reset_peak()
    prober = threading.Thread(target=probe)
    prober.start()
    try:
        yield cost
    finally:
        time.sleep(0.1)
        over.set()
        prober.join()
        cost.cpu, cost.memory = target.cpu() - cpu, target.peak() - memory


def status_of(made: socket.socket) -> bytes:
    """Reads an answer to its end and returns its status; b"" if the connection ended without one."""
    received = b""
    try:
        while not _is_whole(received) and (chunk := made.recv(65_536)):
            received += chunk
    except OSError:
        pass
    return received[9:12]


def _is_whole(received: bytes) -> bool:
    head, end, body = received.partition(b"\r\n\r\n")
    length = re.search(rb"(?i)content-length: (\d+)", head)
    return bool(end) and len(body) >= int(length[1] if length else 0)


def send(made: socket.socket, data: bytes, times: int = 1) -> int:
    """Sends data until the other side answers or closes the connection; returns how many bytes it accepted."""
    sent = 0
    try:
        for _ in range(times):
            if select.select([made], [], [], 0)[0]:
                break
            made.sendall(data)
            sent += len(data)
    except OSError:
        pass
    return sent


def is_open(made: socket.socket) -> bool:
    """Whether the other side hasn't closed the connection; reads what it has answered."""
    try:
        while select.select([made], [], [], 0)[0]:
            if not made.recv(65_536):
                return False
    except OSError:
        return False
    return True


@asynccontextmanager
async def gateway(database: Database, tmp_path: Path, **limits: str) -> AsyncGenerator[Target]:
    settings = {f"CITEWIRE_GATEWAY_{name}": value for name, value in {**LIMITS, **limits}.items()}
    dsn = database.dsn("citewire_chat")
    environment = {"CITEWIRE_AUTH": "off", "CITEWIRE_GATEWAY_DSN": dsn, **settings}
    async with service_process("gateway", "serve", log=tmp_path / "gateway.log", **environment) as running:
        yield Target(running.process.pid, running.port)


async def test_hostile_headers(database: Database, tmp_path: Path, proof: ProofScale, print_table: PrintTable) -> None:
    mebibytes = proof.pick(scaled_down=24, full=300)
    start = b"GET /livez HTTP/1.1\r\nHost: localhost\r\n"
    chunked = b"POST /v1/search HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"
    filler = b"x" * 65_536

    def flood(made: socket.socket, data: bytes) -> int:
        return send(made, data, mebibytes * MIB // len(data))

    attacks: dict[str, tuple[bytes, Callable[[socket.socket], int]]] = {
        "an unending header value": (
            b"431",
            lambda made: send(made, start + b"X: ") + send(made, filler, mebibytes * 16),
        ),
        "an unending header name": (b"431", lambda made: send(made, start) + flood(made, filler)),
        "an unending request line": (b"414", lambda made: send(made, b"GET /") + flood(made, filler)),
        "20,000 headers": (b"431", lambda made: send(made, start + b"a: b\r\n" * 20_000 + b"\r\n")),
        "101 headers": (b"431", lambda made: send(made, start + b"a: b\r\n" * 100 + b"\r\n")),
        "unending trailers": (b"431", lambda made: send(made, chunked + b"0\r\n") + flood(made, b"a: b\r\n" * 10_000)),
        "empty lines for a request": (b"431", lambda made: flood(made, b"\r\n" * 32_768)),
        "chunk extensions": (b"400", lambda made: send(made, chunked + b"1;") + flood(made, filler)),
    }
    rows: list[tuple[object, ...]] = []
    async with gateway(database, tmp_path) as target:
        for name, (_, act) in attacks.items():

            def run(act: Callable[[socket.socket], int] = act) -> tuple[Cost, int, bytes]:
                with attack(target) as cost, target.connect() as made:
                    sent = act(made)
                    made.settimeout(3)
                    status = status_of(made)
                return cost, sent, status

            cost, sent, status = await anyio.to_thread.run_sync(run)
            measures = (f"{sent / MIB:.2f}", f"{cost.cpu:.2f}", f"{cost.memory:.1f}", f"{cost.livez * 1000:.0f}")
            rows.append((name, status.decode() or "-", *measures))
            assert set(cost.answers) == {b"200"}
    assert "request_failed" not in (tmp_path / "gateway.log").read_text()  # what a client did isn't an error of ours
    print_table("hostile headers", ("attack", "status", "MiB taken", "CPU, s", "memory, MiB", "/livez, ms"), rows)
    for (name, status, taken, cpu, memory, livez), (expected, _) in zip(rows, attacks.values(), strict=True):
        assert str(status).replace("-", "").encode() in (expected, b""), name
        assert float(str(taken)) < 8, name  # the buffers of two sockets
        assert float(str(cpu)) < 0.5, name
        assert float(str(memory)) < 16, name
        assert float(str(livez)) < 1000 * (LIVEZ_SECONDS if proof.full else NOISE_SECONDS), name


async def test_half_a_request_is_soon_closed(database: Database, tmp_path: Path, print_table: PrintTable) -> None:
    upload = b"POST /v1/search HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    kinds = {
        "nothing": b"",
        "half a header": b"GET /livez HTTP/1.1\r\nHost: loc",
        "an empty line": b"\r\n",
        "no body": upload + b"Content-Length: 100\r\n\r\n",
        "half a body": upload + b"Content-Length: 100\r\n\r\n{",
        "half a chunk": upload + b"Transfer-Encoding: chunked\r\n\r\n5\r\n{",
        "a body nobody wants": b"POST /nowhere HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\n{",
        "an answer, and an empty line": LIVEZ.replace(b"close", b"keep-alive") + b"\r\n",
    }
    drip = {"half a header", "half a body", "half a chunk", "an empty line"}

    def run(target: Target) -> tuple[Cost, dict[str, float]]:
        seconds: dict[str, float] = {}
        with attack(target) as cost, ExitStack() as stack:
            began = time.perf_counter()
            made = {name: [stack.enter_context(target.connect()) for _ in range(6)] for name in kinds}
            for name, connections in made.items():
                for connection in connections:
                    send(connection, kinds[name])
            while len(seconds) < len(kinds) and time.perf_counter() - began < 30:
                time.sleep(0.1)
                for name, connections in made.items():
                    if name not in seconds and not any(map(is_open, connections)):
                        seconds[name] = time.perf_counter() - began
                    elif name in drip:
                        for connection in connections[::2]:
                            send(connection, b"\r\n" if name == "an empty line" else b"x")
        return cost, seconds

    async with gateway(database, tmp_path) as target:
        cost, seconds = await anyio.to_thread.run_sync(run, target)
    table = [(name, f"{seconds[name]:.1f}" if name in seconds else "open after 30") for name in kinds]
    print_table(f"half a request (/livez {cost.livez * 1000:.0f} ms)", ("kind", "s"), table)
    assert set(seconds) == set(kinds)
    assert max(seconds.values()) < 5 + BUSY_SECONDS  # five seconds without a next request, and the limits above


async def test_connections_are_counted_by_address_and_in_all(
    database: Database, tmp_path: Path, print_table: PrintTable
) -> None:
    head = b"GET /livez HTTP/1.1\r\nHost: localhost\r\n"
    body = (
        b"POST /v1/search HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 9\r\n\r\n{"
    )

    def hold(stack: ExitStack, target: Target, data: bytes, count: int, sources: Sequence[str], most: int) -> int:
        """Returns how many stay open, after the time that a busy gateway needs to accept and refuse them all."""
        made = [stack.enter_context(target.connect(source)) for source in sources for _ in range(count)]
        for connection in made:
            send(connection, data)
        deadline, held = time.monotonic() + 10 * NOISE_SECONDS, len(made)
        while held > most and time.monotonic() < deadline:
            time.sleep(0.1)
            held = sum(map(is_open, made))
        time.sleep(0.3)
        return sum(map(is_open, made))

    def run(target: Target) -> list[tuple[object, ...]]:
        rows: list[tuple[object, ...]] = []
        addresses = tuple(f"127.0.0.{number}" for number in range(10, 15))
        for name, data, count, sources, most in (
            ("one address, half a header", head, 200, ("127.0.0.1",), 60),
            ("five addresses, half a header", head, 55, addresses, 120),
            ("five addresses, half a body", body, 55, addresses, 120 + RESERVED),
            ("a trusted proxy, half a header", head, 100, ("127.0.0.200",), 120),
        ):
            with attack(target) as cost, ExitStack() as stack:
                held = hold(stack, target, data, count, sources, most)
            share = f"{cost.answers.count(b'200')} of {len(cost.answers)}"
            rows.append((name, count * len(sources), held, most, share, f"{cost.livez * 1000:.0f}"))
            time.sleep(0.3)
        return rows

    async with gateway(database, tmp_path, BODY_IDLE_SECONDS="20", BODY_SECONDS="20", HEADER_SECONDS="20") as target:
        rows = await anyio.to_thread.run_sync(run, target)
    print_table("connections", ("attack", "made", "held", "most", "/livez answered", "/livez, ms"), rows)
    for name, made, held, most, answered, _ in rows:
        assert int(str(held)) <= int(str(most)), name
        assert str(answered).split(" of ")[0] == str(answered).split(" of ")[1], name
        assert "proxy" not in str(name) or held == made


async def test_idle_connections_stay_and_give_way_to_new_ones(database: Database, tmp_path: Path) -> None:
    ask = b"GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n"

    def run(target: Target) -> None:
        with ExitStack() as stack:
            idle = [stack.enter_context(target.connect("127.0.0.20")) for _ in range(60)]
            for made in idle:
                send(made, ask)
                assert status_of(made) == b"200"
            time.sleep(6)  # longer than clients keep connections; theirs are used again just before they end
            first, second, *_ = idle
            assert is_open(first)  # reads the rest of its answer: head and body may arrive separately
            send(first, ask)
            assert status_of(first) == b"200"
            new = stack.enter_context(target.connect("127.0.0.20"))
            send(new, ask)
            assert status_of(new) == b"200"
            deadline = time.monotonic() + BUSY_SECONDS  # its end may come after the new one's answer
            while is_open(second) and time.monotonic() < deadline:
                time.sleep(0.01)
            assert not is_open(second)  # idle longest
            assert sum(map(is_open, idle)) == 59

    async with gateway(database, tmp_path, KEEP_ALIVE_SECONDS="75") as target:
        await anyio.to_thread.run_sync(run, target)


async def test_a_proxys_clients_are_counted_separately(database: Database, tmp_path: Path) -> None:
    def ask(target: Target, stack: ExitStack, client: str, source: str = "127.0.0.200") -> socket.socket:
        made = stack.enter_context(target.connect(source))
        head = (
            f"POST /v1/search HTTP/1.1\r\nHost: localhost\r\nX-Forwarded-For: {client}\r\nContent-Length: 9\r\n\r\n{{"
        )
        made.sendall(head.encode())
        return made

    def run(target: Target) -> None:
        with ExitStack() as stack:
            several = [ask(target, stack, "1.1.1.1, 192.0.2.7") for _ in range(60)]
            others = [ask(target, stack, f"192.0.2.{100 + number}") for number in range(20)]
            forged = [ask(target, stack, f"192.0.2.7, 192.0.2.{number}", "127.0.0.3") for number in range(20)]
            time.sleep(0.3)
            assert all(map(is_open, [*several, *others, *forged]))
            assert status_of(ask(target, stack, "9.9.9.9, 192.0.2.7, 127.0.0.201")) == b"429"
            assert is_open(ask(target, stack, "192.0.2.8"))
            for made in several:
                made.close()
            time.sleep(0.3)
            again = ask(target, stack, "192.0.2.7")
            time.sleep(0.3)
            assert is_open(again)

    async with gateway(database, tmp_path, BODY_IDLE_SECONDS="20", BODY_SECONDS="20") as target:
        await anyio.to_thread.run_sync(run, target)


async def test_slow_and_honest_clients_are_served(database: Database, tmp_path: Path) -> None:
    """A fast enough body that lasts longer than `BODY_SECONDS`, a slow head, and many small requests."""

    def upload(target: Target) -> bytes:
        size = 12_000
        with target.connect() as made:
            made.sendall(b"POST /v1/search HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n" % size)
            for _ in range(size // 300):
                assert send(made, b"x" * 300) == 300
                time.sleep(0.1)
            return status_of(made)

    def header(target: Target) -> bytes:
        with target.connect() as made:
            for piece in (LIVEZ[:20], LIVEZ[20:30], LIVEZ[30:]):
                made.sendall(piece)
                time.sleep(0.2)
            return status_of(made)

    def reuse(target: Target) -> int:
        connection = http.client.HTTPConnection("127.0.0.1", target.port, timeout=10)
        statuses: list[int] = []
        for _ in range(300):
            connection.request("GET", "/livez")
            answer = connection.getresponse()
            answer.read()
            statuses.append(answer.status)
        connection.close()
        return statuses.count(200)

    async with gateway(database, tmp_path) as target:
        assert await anyio.to_thread.run_sync(upload, target) == b"400"  # it was read completely, and isn't JSON
        assert await anyio.to_thread.run_sync(header, target) == b"200"
        assert await anyio.to_thread.run_sync(reuse, target) == 300


async def test_a_stream_outlives_the_limits_of_requests(database: Database) -> None:
    """Their timers stop once a request has arrived, however long its answer takes and whatever its client sends."""

    async def paced(_: generator_pb2.GenerateRequest) -> AsyncGenerator[generator_pb2.GenerateResponse]:
        yield started((1, 0))
        for number in range(8):
            yield delta(f" {number}")
            await asyncio.sleep(0.3)
        yield completed()

    limits = {"header_seconds": 0.4, "body_seconds": 0.4, "body_idle_seconds": 0.4}
    async with running_fakes() as fakes, running_gateway(database, fakes, **limits) as running:
        fakes.generator.script = paced
        frames = await running.stream("/v1/chat", {"question": "How much did revenue grow?"})
        assert (text_of(frames).split(), frames[-1].event) == ([str(number) for number in range(8)], "done")
        body = json.dumps({"question": "How much did revenue grow?"}).encode()
        head = b"POST /v1/chat HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n" % len(body)
        reader, writer = await asyncio.open_connection("127.0.0.1", running.server.port)
        writer.write(head + body + b"\r\nGET /livez HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        answers = await reader.read()
        writer.close()
        assert b"event: done" in answers
        assert answers.count(b"HTTP/1.1 200 OK") == 2
