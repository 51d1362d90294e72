"""A proxy between a cluster and one of its nodes: forwards connections, slows them down, or drops their data."""

from __future__ import annotations

import asyncio
import contextlib
import shutil
import tempfile
import threading
from collections.abc import Generator
from dataclasses import dataclass, field
from pathlib import Path

PORT = 5432


@dataclass(slots=True, eq=False)
class _Connection:
    """One connection through the proxy."""

    tasks: list[asyncio.Task[None]] = field(default_factory=list[asyncio.Task[None]])
    lost: bool = False
    """Whether some of its data was dropped."""


class NodeProxy:
    """A node's address in the cluster. At first it forwards everything.

    While it is cut, it accepts connections and data but never responds, not even with an end or error, like a network
    that drops packets. Connections that lost bytes end when it is restored, as a kernel ends them after
    `tcp_user_timeout`.
    """

    def __init__(self, folder: Path, server: Path) -> None:
        """Takes the folder of its socket, and that of the server's."""
        self.folder = folder
        self.delay = 0.0
        """Delay of every piece in each direction, in seconds."""
        self._target = str(server / f".s.PGSQL.{PORT}")
        self._cut = False
        self._connections: set[_Connection] = set()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="node-proxy", daemon=True)

    def start(self) -> None:
        """Begins to listen."""
        self._thread.start()
        asyncio.run_coroutine_threadsafe(self._listen(), self._loop).result(10)

    def stop(self) -> None:
        """Ends every connection and stops listening."""
        asyncio.run_coroutine_threadsafe(self._end(), self._loop).result(10)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)
        self._loop.close()

    def cut(self) -> None:
        """Drops everything from now on."""
        self._cut = True

    def mend(self) -> None:
        """Forwards new connections and data again."""
        self._cut = False
        asyncio.run_coroutine_threadsafe(self._end_lost(), self._loop).result(10)

    async def _listen(self) -> None:
        path = self.folder / f".s.PGSQL.{PORT}"
        self._server = await asyncio.start_unix_server(self._join, path)
        path.chmod(0o777)

    async def _end(self) -> None:
        self._server.close()
        for connection in list(self._connections):
            await _end(connection)

    async def _end_lost(self) -> None:
        for connection in [connection for connection in self._connections if connection.lost]:
            await _end(connection)

    async def _join(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connection = _Connection()
        self._connections.add(connection)
        inner: asyncio.StreamWriter | None = None
        try:
            if self._cut:
                connection.lost = True
                connection.tasks = [asyncio.create_task(asyncio.Event().wait())]  # pyright: ignore[reportAttributeAccessIssue] # its result isn't read
            else:
                inner_reader, inner = await asyncio.open_unix_connection(self._target)
                connection.tasks = [
                    asyncio.create_task(self._pump(reader, inner, connection)),
                    asyncio.create_task(self._pump(inner_reader, writer, connection)),
                ]
            await asyncio.gather(*connection.tasks, return_exceptions=True)
        except OSError:  # the server is down: so is its address
            pass
        finally:
            self._connections.discard(connection)
            for side in (writer, inner):
                if side is not None:
                    side.close()

    async def _pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, connection: _Connection) -> None:
        with contextlib.suppress(ConnectionError):
            while data := await reader.read(65_536):
                if self.delay:
                    await asyncio.sleep(self.delay)
                if self._cut:
                    connection.lost = True
                    continue
                writer.write(data)
                await writer.drain()
        if self._cut:  # the other side isn't notified of an end either
            connection.lost = True
            await asyncio.Event().wait()
        writer.close()


async def _end(connection: _Connection) -> None:
    for task in connection.tasks:
        task.cancel()
    await asyncio.gather(*connection.tasks, return_exceptions=True)


@contextlib.contextmanager
def node_proxy(server: Path) -> Generator[NodeProxy]:
    """Runs a proxy before the server whose socket is in that folder."""
    folder = Path(tempfile.mkdtemp(prefix="cw-np-"))
    folder.chmod(0o755)  # the servers run under another account
    proxy = NodeProxy(folder, server)
    try:
        proxy.start()
        try:
            yield proxy
        finally:
            proxy.stop()
    finally:
        shutil.rmtree(folder, ignore_errors=True)
