"""Third-party file servers: S3 by moto, WebDAV by WsgiDAV, SFTP by asyncssh, each on a free port."""

from __future__ import annotations

import asyncio
import importlib
import logging
import threading
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from socketserver import ThreadingMixIn
from typing import Any, cast
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server

import asyncssh
from moto.moto_api._internal.models import moto_api_backend
from moto.server import ThreadedMotoServer
from wsgidav.wsgidav_app import WsgiDAVApp

USER, PASSWORD = "ada", "a-password-of-tests"


@contextmanager
def s3_server(bucket: str) -> Generator[tuple[str, Any]]:
    """Serves an empty bucket; yields the endpoint and a client of boto3's."""
    logging.getLogger("werkzeug").setLevel(logging.WARNING)
    moto_api_backend.reset()  # servers of one process share their content
    server = ThreadedMotoServer("127.0.0.1", port=0)
    server.start()
    try:
        host, port = server.get_host_and_port()
        endpoint = f"http://{host}:{port}"
        client = importlib.import_module("boto3").client(
            "s3", endpoint_url=endpoint, region_name="us-east-1", aws_access_key_id="x", aws_secret_access_key="y"
        )
        client.create_bucket(Bucket=bucket)
        yield endpoint, client
        client.close()
    finally:
        server.stop()


class _Quiet(WSGIRequestHandler):
    def log_message(self, format: str, *args: object) -> None:
        del format, args


class _Threads(ThreadingMixIn, WSGIServer):
    daemon_threads = True


@contextmanager
def webdav_server(folder: Path) -> Generator[int]:
    """Serves a folder to USER; yields the port."""
    app: Any = WsgiDAVApp(
        {
            "provider_mapping": {"/": str(folder)},
            "simple_dc": {"user_mapping": {"*": {USER: {"password": PASSWORD}}}},
            "logging": {"enable": False},
            "verbose": 0,
        }
    )
    server = make_server("127.0.0.1", 0, app, _Threads, _Quiet)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield server.server_port
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


class _Login(asyncssh.SSHServer):
    def __init__(self, connections: list[asyncssh.SSHServerConnection]) -> None:
        self._connections = connections

    def connection_made(self, conn: asyncssh.SSHServerConnection) -> None:
        self._connections.append(conn)

    def begin_auth(self, username: str) -> bool:
        del username
        return True

    def password_auth_supported(self) -> bool:
        return True

    def validate_password(self, username: str, password: str) -> bool:
        return (username, password) == (USER, PASSWORD)


@contextmanager
def sftp_server(folder: Path) -> Generator[tuple[int, str]]:
    """Serves a folder as `/` to USER; yields the port, and its line for a file of known hosts."""
    key = cast("Any", asyncssh).generate_private_key("ssh-ed25519")
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()

    connections: list[asyncssh.SSHServerConnection] = []

    def serve(channel: asyncssh.SSHServerChannel[bytes]) -> asyncssh.SFTPServer:
        return asyncssh.SFTPServer(channel, chroot=str(folder).encode())

    async def start() -> asyncssh.SSHAcceptor:
        return await asyncssh.listen(
            "127.0.0.1",
            0,
            server_host_keys=[key],
            server_factory=lambda: _Login(connections),
            sftp_factory=serve,
        )

    acceptor = asyncio.run_coroutine_threadsafe(start(), loop).result(20)
    port = acceptor.get_port()
    try:
        yield port, f"[127.0.0.1]:{port} {key.export_public_key().decode().strip()}\n"
    finally:

        async def stop() -> None:
            acceptor.close()
            for connection in connections:
                connection.abort()
                await connection.wait_closed()
            left = asyncio.all_tasks() - {asyncio.current_task()}
            for task in left:
                task.cancel()
            await asyncio.gather(*left, return_exceptions=True)

        asyncio.run_coroutine_threadsafe(stop(), loop).result(20)
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()
