"""A stack whose data folder is a separate disk, so small that a test can fill it.

The disk is a tmpfs in a mount namespace of the stack's processes alone: it needs no root where the kernel lets
users create namespaces, and disappears with the processes. Others reach it through `/proc/PID/root`.
"""

from __future__ import annotations

import errno
import os
import shutil
import subprocess
from collections.abc import Generator, Mapping
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path

from local_stack import LocalStack, local_stack

MIB = 1024 * 1024


@cache
def can_have_disks() -> bool:
    """Whether this machine lets us mount a disk."""
    return shutil.which("unshare") is not None and (
        subprocess.run([*_inside(Path("/mnt"), 1), "true"], check=False, capture_output=True).returncode == 0
    )


class SmallDiskStack(LocalStack):
    """A stack on a small disk."""

    def __init__(self, stack: LocalStack) -> None:
        """Takes the running stack."""
        self._folder = stack.data_dir
        super().__init__(stack.process, Path(f"/proc/{stack.process.pid}/root{stack.data_dir}"), stack.output)
        self._ballast = self.data_dir / "ballast"

    @property
    def environment(self) -> dict[str, str]:
        """See `LocalStack`; with the paths by which the test reaches the disk."""
        inside, outside = str(self._folder), str(self.data_dir)
        return {name: value.replace(inside, outside) for name, value in super().environment.items()}

    def fill_disk(self) -> None:
        """Fills the disk to the last block."""
        size = os.statvfs(self.data_dir)
        with self._ballast.open("wb", buffering=0) as file, suppress(OSError):
            # Most of it at once, and the rest until a write fails: the free space changes meanwhile.
            os.posix_fallocate(file.fileno(), 0, max(1, size.f_bavail * size.f_frsize - MIB))
        with self._ballast.open("ab", buffering=0) as file:
            try:
                while True:
                    file.write(bytes(size.f_frsize))
            except OSError as error:
                if error.errno != errno.ENOSPC:
                    raise

    def free_disk(self) -> None:
        """Frees the space again."""
        self._ballast.unlink()


@contextmanager
def small_disk_stack(data_dir: Path, *, mebibytes: int, environ: Mapping[str, str]) -> Generator[SmallDiskStack]:
    """Starts a stack on a disk of this many MiB; removes both afterwards."""
    data_dir.mkdir()
    with local_stack(data_dir, inside=_inside(data_dir, mebibytes), environ=environ) as stack:
        yield SmallDiskStack(stack)


def _inside(folder: Path, mebibytes: int) -> tuple[str, ...]:
    """Returns the prefix with which a command sees such a disk at a folder, as the same user."""
    mount = f'mount -t tmpfs -o size={mebibytes}m,mode=0755 tmpfs "$0" && exec "$@"'
    if os.geteuid() == 0:
        return ("unshare", "--mount", "sh", "-c", mount, str(folder))
    as_us = ("unshare", "--user", f"--map-user={os.geteuid()}", f"--map-group={os.getegid()}")
    return ("unshare", "--user", "--map-root-user", "--mount", "sh", "-c", mount, str(folder), *as_us)
