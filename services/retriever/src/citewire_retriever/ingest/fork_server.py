"""The worker's end of the fork server (`confined.server`): starts it, hands it files, hears how its processes ended."""

import asyncio
import contextlib
import json
import os
import socket
import sys
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Final

from citewire_kit.errors import Unavailable
from citewire_kit.tasks import end
from citewire_kit.telemetry import get_logger
from citewire_retriever.ingest.wire import PREFIX_BYTES, decode_progress

log = get_logger(__name__)

ARGUMENTS = ("-I", "-X", "utf8", "-m", "citewire_retriever.ingest.confined.server")
_ENVIRONMENT: Final = {"OPENBLAS_NUM_THREADS": "1"}
"""Prevents numpy from starting threads, because a process with threads can't be forked safely."""
_START_SECONDS: Final = 120
_KILL_SECONDS: Final = 5
_READ_BYTES: Final = 65_536
_TELL_SECONDS: Final = 0.5
"""Between two reports of how far a file is read."""

Told = Callable[[int, int], Awaitable[None]]
"""Told how many pages a process has read, and how many there are."""


class ServerLostError(Unavailable):
    """The fork server ended, and with it all processes that it had forked."""

    def __init__(self) -> None:
        super().__init__("the process that reads files was ended", reason="SERVICE_UNAVAILABLE")


class AnswerTooLongError(Exception):
    """A process's answer is too long."""


@dataclass(frozen=True, slots=True)
class ProcessEnd:
    """How a process ended."""

    status: int
    """Its exit status; a signal's number if negative."""
    cpu_seconds: float
    """Its CPU time in seconds."""


class ForkServer:
    """A running fork server. Each `start` is one process, which reads one file."""

    def __init__(self, process: asyncio.subprocess.Process, control: socket.socket) -> None:
        self._process = process
        self._control = control
        self._received = b""
        self._listening: asyncio.Task[None] | None = None
        self._ends: dict[int, asyncio.Future[ProcessEnd]] = {}
        self.ended = False
        """Whether it has ended or is ending."""
        self.files = 0
        """Number of files that it was given."""
        self.missing: tuple[str, ...] = ()
        """The locks that this kernel doesn't support."""

    @classmethod
    async def open(cls, *options: str) -> "ForkServer":
        """Starts it, and waits until it can fork.

        Args:
            *options: Abilities besides reading files: `TABLES`.

        Raises:
            ServerLostError: It ends first, or takes too long.
        """
        control, theirs = socket.socketpair()
        control.setblocking(False)
        with theirs:
            # Spawned, because this process has threads. Without our environment and descriptors, so that processes that
            # read files don't get our secrets, in particular the database's address.
            process = await asyncio.create_subprocess_exec(
                sys.executable,
                *ARGUMENTS,
                *options,
                stdin=theirs.fileno(),
                stdout=asyncio.subprocess.DEVNULL,
                stderr=asyncio.subprocess.DEVNULL,
                env=_ENVIRONMENT,
                cwd="/",
            )
        server = cls(process, control)
        try:
            async with asyncio.timeout(_START_SECONDS):
                server.missing = tuple((await server._next())["missing"])
        except TimeoutError:
            await server.close()
            raise ServerLostError from None
        except BaseException:
            await server.close()
            raise
        server._listening = asyncio.create_task(server._listen(), name="fork-server")
        return server

    @property
    def idle(self) -> bool:
        """Whether none of its processes is running."""
        return not self._ends

    def start(self, job: dict[str, Any], file: int) -> "Reading":
        """Forks a process that reads a file. The caller must `close` the result.

        Raises:
            ServerLostError: The server is gone.
        """
        self.files += 1
        number = self.files
        loop = asyncio.get_running_loop()
        reading, writing = os.pipe()
        try:
            message = json.dumps({"id": number, "job": job}, ensure_ascii=False).encode() + b"\n"
            self._send(message, [file, writing])
        except BaseException:
            os.close(reading)
            raise
        finally:
            os.close(writing)
        self._ends[number] = loop.create_future()
        return Reading(self, number, reading)

    async def end(self, number: int) -> ProcessEnd | None:
        """Kills a process if it is running, and waits for its end; None if it ended with the server."""
        future = self._ends[number]
        try:
            if not future.done():
                self._send(json.dumps({"kill": number}).encode() + b"\n", [])
            async with asyncio.timeout(_KILL_SECONDS):
                return await asyncio.shield(future)
        except TimeoutError:
            log.warning("fork_server_stuck")
            await self.close()
            return None
        except ServerLostError:
            return None
        finally:
            self._ends.pop(number, None)

    async def ended_by_itself(self, number: int) -> ProcessEnd:
        """Waits until a process ends. Raises ServerLostError if the server ended, and the process with it."""
        return await asyncio.shield(self._ends[number])

    async def close(self) -> None:
        """Ends it and all of its processes at once, and waits for its end."""
        self.ended = True
        if self._listening is not None:
            await end(self._listening)
        self._lose()
        self._control.close()
        with contextlib.suppress(ProcessLookupError):
            self._process.kill()
        await asyncio.shield(self._process.wait())

    def _send(self, message: bytes, descriptors: list[int]) -> None:
        if self.ended:
            raise ServerLostError
        try:
            sent = socket.send_fds(self._control, [message], descriptors)
        except OSError:  # it has ended, or its buffer is full because it does nothing any more
            sent = 0
        if sent != len(message):
            self.ended = True
            raise ServerLostError

    async def _listen(self) -> None:
        try:
            while True:
                report = await self._next()
                future = self._ends.get(report["id"])
                if future is not None and not future.done():
                    future.set_result(ProcessEnd(report["status"], report["cpu_seconds"]))
        except ServerLostError:
            log.warning("fork_server_lost")
            self.ended = True
            self._lose()

    def _lose(self) -> None:
        for future in self._ends.values():
            if not future.done():
                future.set_exception(ServerLostError())
                future.exception()  # marks it as retrieved, because there may be no waiter

    async def _next(self) -> dict[str, Any]:
        """Returns the next message.

        Raises:
            ServerLostError: There are no further messages.
        """
        loop = asyncio.get_running_loop()
        while b"\n" not in self._received:
            try:
                data = await loop.sock_recv(self._control, _READ_BYTES)
            except OSError:
                data = b""
            if not data:
                raise ServerLostError
            self._received += data
        line, _, self._received = self._received.partition(b"\n")
        return json.loads(line)


class Reading:
    """A process that reads one file."""

    def __init__(self, server: ForkServer, number: int, descriptor: int) -> None:
        self._server = server
        self._number = number
        self._descriptor = descriptor

    async def answer(self, most_bytes: int, told: Told | None = None, most_told: int = 0) -> bytes | None:
        """The process's answer; None if it ends without a complete one.

        Args:
            most_bytes: Bytes that it may have.
            told: Told what the process says of its progress before.
            most_told: How often it may.

        Raises:
            AnswerTooLongError: It exceeds a limit.
        """
        loop = asyncio.get_running_loop()
        reader = asyncio.StreamReader(limit=_READ_BYTES * 16)
        pipe = os.fdopen(self._descriptor, "rb", buffering=0)
        self._descriptor = -1
        transport, _ = await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), pipe)
        try:
            while (progress := decode_progress(prefix := await reader.readexactly(PREFIX_BYTES))) is not None:
                most_told -= 1
                if most_told < 0:
                    raise AnswerTooLongError
                if told is not None:
                    await told(*progress)
            length = int.from_bytes(prefix, "big")
            if length > most_bytes:
                raise AnswerTooLongError
            return await reader.readexactly(length)
        except asyncio.IncompleteReadError:
            return None
        finally:
            transport.close()

    async def output(self, most_bytes: int) -> bytes | None:
        """A program's whole output; None if it fails. Raises as `answer`."""
        loop = asyncio.get_running_loop()
        reader = asyncio.StreamReader(limit=_READ_BYTES * 16)
        pipe = os.fdopen(self._descriptor, "rb", buffering=0)
        self._descriptor = -1
        transport, _ = await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), pipe)
        parts: list[bytes] = []
        try:
            while part := await reader.read(_READ_BYTES):
                parts.append(part)
                most_bytes -= len(part)
                if most_bytes < 0:
                    raise AnswerTooLongError
        finally:
            transport.close()
        return b"".join(parts) if (await self._server.ended_by_itself(self._number)).status == 0 else None

    async def close(self) -> ProcessEnd | None:
        """Kills the process and waits for its end; None if it ended with the server."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1
        return await self._server.end(self._number)


def now_and_then(told: Told, limit: asyncio.Timeout) -> Told:
    """Passes on what isn't too soon after the report before; a process's time doesn't run while it is."""
    told_at = float("-inf")

    async def note(done: int, total: int) -> None:
        nonlocal told_at
        start = time.monotonic()
        if start - told_at < _TELL_SECONDS:
            return
        end = limit.when()
        limit.reschedule(None)
        await told(done, total)
        told_at = time.monotonic()
        limit.reschedule(None if end is None else end + told_at - start)

    return note
