"""The folder of a local stack: its layout, its lock, and the file that lists running processes."""

import base64
import datetime
import fcntl
import hashlib
import json
import os
import secrets
import socket
import stat
import tempfile
import time
from collections.abc import Container, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from citewire_cli.errors import CliError
from citewire_cli.jsonio import JsonObject, get_int, get_str, parse_object

SOCKET_NAME = ".s.PGSQL.5432"


@dataclass(frozen=True, slots=True)
class Layout:
    """Paths below the data folder."""

    data_dir: Path

    @property
    def pgdata(self) -> Path:
        """Postgres' own folder."""
        return self.data_dir / "postgres"

    @property
    def logs(self) -> Path:
        """One log file per process, rotated."""
        return self.data_dir / "logs"

    @property
    def run_file(self) -> Path:
        """The running processes: JSON, rewritten at every change, removed at the end."""
        return self.data_dir / "run.json"

    @property
    def lock_file(self) -> Path:
        """Held by the `up` of this folder."""
        return self.data_dir / "up.lock"

    @property
    def master_keys(self) -> Path:
        """The key that seals the keys of users' own providers; without it they can't be opened again."""
        return self.data_dir / "master-keys"

    @property
    def callers(self) -> Path:
        """The keys by which our processes know who calls, and `issuers.json`, which says so."""
        return self.data_dir / "callers"

    def make_master_key(self) -> None:
        """Creates the file of master keys if there is none; raises CliError if that isn't possible.

        A new key is put before the old ones by hand, and `python -m citewire_gateway rotate` wraps again.
        """
        if self.master_keys.exists():
            return
        key = base64.urlsafe_b64encode(secrets.token_bytes(32)).decode()
        today = datetime.datetime.now(datetime.UTC).date()
        try:
            # Born whole and ours alone: a crash leaves no half of a key, and no other user ever reads one.
            descriptor, temporary = tempfile.mkstemp(dir=self.data_dir, prefix="master-keys-")
            with os.fdopen(descriptor, "w") as file:
                file.write(f"{today}:{key}\n")
                file.flush()
                os.fsync(file.fileno())
            Path(temporary).replace(self.master_keys)
        except OSError as error:
            raise CliError("The master key cannot be created", f"{self.master_keys}: {error.strerror}.") from None

    def create(self) -> None:
        """Creates the folders; raises CliError if that isn't possible."""
        try:
            self.data_dir.mkdir(parents=True, exist_ok=True)
            self.logs.mkdir(mode=0o700, exist_ok=True)
        except OSError as error:
            raise CliError(
                "The data folder cannot be created", f"{error.filename}: {error.strerror}. Set CITEWIRE_DATA_DIR."
            ) from None

    def write_run(self, state: Mapping[str, object]) -> None:
        """Replaces the run file in one step, so that a reader never sees half of one."""
        temporary = self.run_file.with_suffix(".tmp")
        temporary.write_text(json.dumps(state, indent=1) + "\n")
        temporary.replace(self.run_file)

    def read_run(self) -> JsonObject | None:
        """The content of the run file, or None if nothing runs on this folder."""
        try:
            state = parse_object(self.run_file.read_bytes())
        except OSError:
            return None
        return state if state is not None and self.is_locked() else None

    def is_locked(self) -> bool:
        """Whether an `up` holds this folder now."""
        try:
            descriptor = os.open(self.lock_file, os.O_RDONLY)
        except OSError:
            return False
        try:
            fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        finally:
            os.close(descriptor)
        return False


class FolderLock:
    """Keeps a second `up` off the folder; the kernel drops it with the process, so it is never stale."""

    def __init__(self, layout: Layout) -> None:
        self._layout = layout
        self._descriptor = -1

    def __enter__(self) -> Self:
        """Takes the lock; raises CliError, naming the holder, if another `up` has it."""
        descriptor = os.open(self._layout.lock_file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        for last in (False, False, True):
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if last:
                    os.close(descriptor)
                    raise self._held() from None
                time.sleep(0.1)  # `citewire status` asks by taking it for an instant
        self._descriptor = descriptor
        return self

    def __exit__(self, *error: object) -> None:
        """Releases it."""
        os.close(self._descriptor)

    def _held(self) -> CliError:
        try:
            state = parse_object(self._layout.run_file.read_bytes()) or {}
        except OSError:
            state = {}
        pid, url = get_int(state, "pid"), get_str(state, "url")
        who = f"process {pid}" if pid else "another process"
        where = f", at {url}" if url else ""
        stop = f" (or `kill {pid}`)" if pid else ""
        return CliError(
            "Citewire is already running on this folder",
            f"{self._layout.data_dir} is used by {who}{where}. Stop it with Ctrl-C in its terminal{stop}, "
            "or choose another folder with CITEWIRE_DATA_DIR.",
        )


def socket_folder(layout: Layout, owners: Container[int]) -> Path:
    """A folder for Postgres' socket, ours alone, whose path is short enough for a socket (about 100 bytes).

    It is `run` in the data folder; if that path is too long, or its file system has no sockets, a folder in the
    runtime (or temporary) directory that is named after the data folder.

    Args:
        layout: the data folder.
        owners: user ids that may own the folder; one of anybody else is never used.

    Raises:
        CliError: neither works.
    """
    digest = hashlib.sha256(os.fsencode(layout.data_dir)).hexdigest()[:12]
    base = Path(os.environ.get("XDG_RUNTIME_DIR") or tempfile.gettempdir())
    candidates = (
        layout.data_dir / "run",
        base / f"citewire-{os.getuid()}-{digest}",
        Path("/tmp") / f"citewire-{os.getuid()}-{digest}",  # noqa: S108 # made 0700 and checked to be ours below
    )
    for folder in candidates:
        if _usable(folder, owners):
            return folder
    raise CliError("No place for Postgres' socket", f"Neither {candidates[0]} nor {base} can hold one.")


def _usable(folder: Path, owners: Container[int]) -> bool:
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        status = folder.lstat()
    except OSError:
        return False
    # Somebody else may have made a folder of that name in a directory that all can write to.
    if not stat.S_ISDIR(status.st_mode) or status.st_uid not in owners or status.st_mode & 0o022:
        return False
    probe = folder / SOCKET_NAME.replace("5432", "0000")
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as attempt:
        try:
            probe.unlink(missing_ok=True)
            attempt.bind(os.fspath(probe))
        except OSError:
            return False
        probe.unlink(missing_ok=True)
    return True
