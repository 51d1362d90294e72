"""Tests can't connect to other machines or see provider keys."""

from __future__ import annotations

import asyncio
import os
import socket

import psycopg
import pytest

from embedded_postgres import EmbeddedPostgres
from network_guard import NetworkBlockedError, forget_environment


@pytest.mark.parametrize("address", ["192.0.2.1", "2001:db8::1", "example.com"])
def test_a_socket_beyond_loopback_is_refused(address: str) -> None:
    with pytest.raises(NetworkBlockedError, match=address):
        socket.create_connection((address, 80), timeout=1)


async def test_asyncio_is_refused_too() -> None:
    with pytest.raises(NetworkBlockedError):
        await asyncio.open_connection("192.0.2.1", 80)
    with pytest.raises(NetworkBlockedError):
        await asyncio.open_connection("example.com", 80)


async def test_loopback_and_unix_sockets_work(postgres_server: EmbeddedPostgres) -> None:
    server = await asyncio.start_server(lambda _, writer: writer.close(), "127.0.0.1", 0)
    async with server:
        port: int = server.sockets[0].getsockname()[1]
        reader, writer = await asyncio.open_connection("localhost", port)
        assert await reader.read() == b""
        writer.close()
    with socket.socket(socket.AF_UNIX) as unix:
        unix.connect(f"{postgres_server.socket_dir}/.s.PGSQL.5432")


def test_the_environment_names_no_provider(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "OLLAMA_BASE_URL", "LLM_MODEL", "CITEWIRE_AUTH", "https_proxy"):
        assert name not in os.environ
        monkeypatch.setenv(name, "x")
    forget_environment()
    assert not {"OPENAI_API_KEY", "LLM_MODEL", "CITEWIRE_AUTH", "https_proxy"} & os.environ.keys()


def test_postgres_listens_on_its_unix_socket_only(postgres_server: EmbeddedPostgres) -> None:
    with psycopg.connect(postgres_server.dsn()) as connection:
        row = connection.execute("SELECT current_setting('listen_addresses'), version()").fetchone()
    assert row is not None
    assert row[0] == ""
    assert row[1].startswith("PostgreSQL 18.")
