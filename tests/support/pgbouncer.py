"""PgBouncer in transaction mode in front of a test's database."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Generator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg
import pytest

from databases import Database

_ROLES = ("citewire_corpus", "citewire_worker", "citewire_chat")
_PORT = 6432  # only a part of the socket's name
_SETTINGS = """\
[databases]
* = host={server}
[pgbouncer]
listen_addr =
listen_port = {port}
unix_socket_dir = {folder}
auth_type = trust
auth_file = {folder}/users.txt
pool_mode = transaction
default_pool_size = 1
logfile = {folder}/pgbouncer.log
"""


@dataclass(frozen=True, slots=True)
class PooledDatabase:
    """A database whose application roles each share one connection to the server."""

    name: str
    folder: Path

    def dsn(self, role: str) -> str:
        """Connection string of a role, through PgBouncer."""
        return f"postgresql://{role}@/{self.name}?host={self.folder}&port={_PORT}"


@contextlib.contextmanager
def pgbouncer(database: Database) -> Generator[PooledDatabase]:
    """Runs PgBouncer until the block ends; as root it runs as another user, like Postgres."""
    folder = Path(tempfile.mkdtemp(prefix="cw-bouncer-"))
    folder.chmod(0o777)
    settings = folder / "pgbouncer.ini"
    settings.write_text(_SETTINGS.format(server=database.server.socket_dir, port=_PORT, folder=folder), "utf-8")
    (folder / "users.txt").write_text("".join(f'"{role}" ""\n' for role in _ROLES), "utf-8")
    user = ["-u", "nobody"] if os.geteuid() == 0 else []
    process = subprocess.Popen(["pgbouncer", *user, str(settings)], stderr=subprocess.DEVNULL)
    try:
        pooled = PooledDatabase(database.name, folder)
        _wait_for(pooled, process)
        yield pooled
    finally:
        process.kill()
        process.wait(10)
        shutil.rmtree(folder, ignore_errors=True)


def prepare_nothing(patch: pytest.MonkeyPatch) -> None:
    """Disables prepared statements in psycopg: Debian's PgBouncer is older than 1.21, which supports them."""
    connect = psycopg.AsyncConnection.connect

    async def unprepared(*args: Any, **options: Any) -> Any:  # noqa: ANN401 # whatever psycopg takes
        return await connect(*args, **{**options, "prepare_threshold": None})

    patch.setattr(psycopg.AsyncConnection, "connect", unprepared)


def _wait_for(pooled: PooledDatabase, process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + 20
    while True:
        with contextlib.suppress(psycopg.OperationalError), psycopg.connect(pooled.dsn("citewire_corpus")):
            return
        if process.poll() is not None or time.monotonic() > deadline:
            raise RuntimeError((pooled.folder / "pgbouncer.log").read_text("utf-8"))
        time.sleep(0.02)  # nothing announces the socket
