"""The embedded Postgres as a child process: created, restarted, and recovered after any end, with a real server."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import httpx
import psycopg
import pytest

from citewire_cli.errors import CliError
from citewire_cli.stack import postgres as embedded
from citewire_cli.stack.layout import Layout
from citewire_cli.stack.ports import PORTS
from citewire_cli.stack.postgres import Account, Postgres, reachable
from citewire_cli.stack.spec import StackSpec
from citewire_cli.stack.supervisor import Supervisor


class Silent:
    def line(self, name: str, raw: bytes) -> None:
        pass

    def ready(self, name: str, seconds: float, restarts: int) -> None:
        pass

    def ended(self, name: str, how: str, tail: Sequence[str], pause: float) -> None:
        pass


class Cluster:
    """A data folder on which the server is started and stopped as `citewire up` does it."""

    def __init__(self, layout: Layout, http: httpx.AsyncClient) -> None:
        self.layout = layout
        self._http = http
        self.supervisor = Supervisor(layout.logs, Silent())

    async def start(self) -> Postgres:
        postgres = embedded.locate(self.layout)
        layout, ports = self.layout, {spec.variable: 1 for spec in PORTS}
        spec = StackSpec(postgres, ports, dict(os.environ), self._http, layout.master_keys, layout.callers)
        if not postgres.exists():
            await self.supervisor.run_once(spec.initdb(), what="initdb failed")
            postgres.finish_initdb()
        postgres.give_folders()
        self.supervisor.start(spec.postgres_child())
        await self.supervisor.unless_failed(self.supervisor.ready(["postgres"], seconds=60))
        await self.supervisor.run_once(spec.setup(), what="setup failed")
        self.supervisor.settle()
        return postgres

    async def stop(self) -> None:
        await self.supervisor.stop([["postgres"]], patience=20)
        self.supervisor = Supervisor(self.layout.logs, Silent())

    def pid(self) -> int:
        return int(str(self.supervisor.snapshot()["postgres"]["pid"]))


@pytest.fixture
async def cluster(tmp_path: Path) -> AsyncIterator[Cluster]:
    # Below pytest's folder, which other users can't enter: as root, the server can, by the guard's capability.
    layout = Layout(tmp_path / "data")
    layout.create()
    async with httpx.AsyncClient(trust_env=False) as http:
        cluster = Cluster(layout, http)
        yield cluster
        cluster.supervisor.kill_all()
        await cluster.stop()


def query(postgres: Postgres, sql: str, role: str = "citewire_owner") -> list[tuple[object, ...]]:
    with psycopg.connect(postgres.dsn(role), autocommit=True) as connection:
        return connection.execute(sql.encode()).fetchall()


def write(postgres: Postgres, sql: str) -> None:
    with psycopg.connect(postgres.dsn("citewire_owner"), autocommit=True) as connection:
        connection.execute(sql.encode())


async def test_life_of_a_cluster(cluster: Cluster) -> None:
    postgres = await cluster.start()
    assert query(postgres, "SELECT current_setting('server_version_num')::int / 10000") == [(18,)]
    expected = {"fsync": "on", "synchronous_commit": "on", "full_page_writes": "on", "listen_addresses": "",
                "shared_buffers": "256MB", "max_connections": "60", "jit": "off"}  # fmt: skip
    names = ", ".join(f"'{name}'" for name in expected)
    settings = query(postgres, f"SELECT name, current_setting(name) FROM pg_settings WHERE name IN ({names})")  # noqa: S608 # our own names
    assert sorted(settings) == sorted(expected.items())
    assert query(postgres, "SELECT extname FROM pg_extension WHERE extname = 'vector'") == [("vector",)]
    roles = "SELECT rolsuper, rolbypassrls, rolcreaterole FROM pg_roles WHERE rolname = 'citewire_owner'"
    assert query(postgres, roles) == [(False, False, True)]
    assert query(postgres, "SELECT lower('GRÖSSE'), datlocprovider FROM pg_database WHERE datname = 'citewire'") == [
        ("größe".replace("ß", "ss"), "b")
    ]
    write(postgres, "CREATE TABLE kept AS SELECT 42 AS answer")

    # A clean stop and a start.
    await cluster.stop()
    assert not (cluster.layout.pgdata / "postmaster.pid").exists()
    postgres = await cluster.start()
    assert query(postgres, "SELECT answer FROM kept") == [(42,)]

    # Killed: the supervisor starts it again.
    write(postgres, "INSERT INTO kept VALUES (43)")
    killed = cluster.pid()
    os.kill(killed, signal.SIGKILL)
    await cluster.supervisor.unless_failed(_until_restarted(cluster, killed))
    assert query(postgres, "SELECT answer FROM kept ORDER BY 1") == [(42,), (43,)]


async def _until_restarted(cluster: Cluster, killed: int) -> None:
    async with asyncio.timeout(60):
        while True:
            state = cluster.supervisor.snapshot()["postgres"]
            if state["state"] == "ready" and state.get("pid") not in {None, killed}:
                return
            await asyncio.sleep(0.05)


async def test_lock_file_of_a_dead_server_whose_pid_was_reused(cluster: Cluster) -> None:
    postgres = await cluster.start()
    lock = cluster.layout.pgdata / "postmaster.pid"
    text = lock.read_text()
    await cluster.stop()
    # As after a crash in a container: the file's process id now belongs to another process of the same user.
    account = postgres.account
    uid, gid = (account.uid, account.gid) if account else (None, None)
    stranger = await asyncio.create_subprocess_exec(shutil.which("sleep") or "/bin/sleep", "60", user=uid, group=gid)
    try:
        lock.write_text(text.replace(text.split("\n", 1)[0], str(stranger.pid), 1))
        await cluster.start()
        assert stranger.returncode is None
    finally:
        stranger.kill()
        await stranger.wait()


async def test_lock_file_of_a_live_server_is_left_alone(cluster: Cluster) -> None:
    postgres = await cluster.start()
    before = (cluster.layout.pgdata / "postmaster.pid").read_bytes()
    postgres.clear_stale()
    assert (cluster.layout.pgdata / "postmaster.pid").read_bytes() == before


async def test_server_left_behind_by_an_earlier_run_is_stopped(cluster: Cluster) -> None:
    postgres = await cluster.start()
    assert postgres.stop_leftover(patience=20)
    assert not postgres.stop_leftover()


async def test_interrupted_initdb_is_restarted(cluster: Cluster) -> None:
    leftover = cluster.layout.data_dir / "postgres.new" / "data" / "base"
    leftover.mkdir(parents=True)
    (leftover / "junk").touch()
    postgres = await cluster.start()
    assert query(postgres, "SELECT 1") == [(1,)]
    assert not (cluster.layout.data_dir / "postgres.new").exists()


async def test_deep_data_folder(tmp_path: Path) -> None:
    layout = Layout(tmp_path / ("a" * 70) / ("b b" * 20))
    layout.create()
    async with httpx.AsyncClient(trust_env=False) as http:
        cluster = Cluster(layout, http)
        postgres = await cluster.start()
        try:
            assert postgres.sockets.parent != layout.data_dir
            assert query(postgres, "SELECT 1") == [(1,)]
        finally:
            await cluster.stop()
            shutil.rmtree(postgres.sockets)


def test_cluster_of_another_version_is_refused(tmp_path: Path) -> None:
    layout = Layout(tmp_path / "data")
    layout.create()
    layout.pgdata.mkdir()
    (layout.pgdata / "PG_VERSION").write_text("16\n")
    with pytest.raises(CliError, match="created by Postgres 16"):
        embedded.locate(layout).exists()


def test_reachability_depends_on_the_modes_of_all_parent_folders(tmp_path: Path) -> None:
    stranger = Account(uid=64999, gid=64999, name="stranger")
    inner = tmp_path / "a" / "b"
    inner.mkdir(parents=True)
    expected = all(folder.stat().st_mode & 0o001 for folder in [inner, *inner.parents])
    assert reachable(inner / "file", stranger) == expected
    inner.chmod(0o700)
    assert not reachable(inner / "file", stranger)
    owner = inner.stat()
    same = Account(uid=owner.st_uid, gid=owner.st_gid, name="owner")
    assert reachable(inner / "file", same)
