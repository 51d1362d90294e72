"""Starts one child of `citewire up` so that it cannot outlive it. Run by `python -I -S`; standard library only.

    guard.py --parent PID --orphan-signal N [--uid U --gid G [--search-anywhere]] [--pipe FD] -- COMMAND…

On Linux the kernel is asked to send signal N to the command when `up` dies, however it dies, and the guard then
becomes the command (exec): no process in between. Elsewhere (or with --pipe) the guard stays, and watches a pipe whose
other end only `up` holds: its end of file is `up`'s death.

As root, Postgres must run as another user, which may be unable to pass a folder on the way (`/root` is closed to
others). We must not open such folders to everybody: --search-anywhere leaves the command a single capability, to search
and read them.
"""

import argparse
import ctypes
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Sequence
from types import FrameType

PR_SET_PDEATHSIG = 1
PR_SET_SECUREBITS = 28
PR_CAP_AMBIENT = 47
PR_CAP_AMBIENT_RAISE = 2
SECBIT_NO_SETUID_FIXUP = 1 << 2
CAP_DAC_OVERRIDE = 1
CAP_DAC_READ_SEARCH = 2
LINUX_CAPABILITY_VERSION_3 = 0x20080522

CANNOT_START = 126


class _CapHeader(ctypes.Structure):
    _fields_ = [("version", ctypes.c_uint32), ("pid", ctypes.c_int)]


class _CapData(ctypes.Structure):
    _fields_ = [("effective", ctypes.c_uint32), ("permitted", ctypes.c_uint32), ("inheritable", ctypes.c_uint32)]


def main(argv: Sequence[str]) -> int:
    """Becomes the command, or runs it and returns its exit code."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--parent", type=int, required=True)
    parser.add_argument("--orphan-signal", type=int, required=True)
    parser.add_argument("--uid", type=int)
    parser.add_argument("--gid", type=int)
    parser.add_argument("--search-anywhere", action="store_true")
    parser.add_argument("--pipe", type=int)
    parser.add_argument("command", nargs="+")
    options = parser.parse_args(argv)
    try:
        if options.uid is not None:
            switch_user(options.uid, options.gid, search_anywhere=options.search_anywhere)
        if options.pipe is not None:
            return watch_pipe(options.command, options.pipe, options.orphan_signal)
        # Last, because a change of user resets it.
        _prctl(PR_SET_PDEATHSIG, options.orphan_signal, 0)
        if os.getppid() != options.parent:
            return CANNOT_START  # it died before the line above
        os.execv(options.command[0], options.command)  # noqa: S606 # no shell is the point
    except OSError as error:
        sys.stderr.write(f"cannot start {options.command[0]}: {error}\n")
        return CANNOT_START


def switch_user(uid: int, gid: int, *, search_anywhere: bool) -> None:
    """Gives up root for good; with `search_anywhere`, all of it but passing and reading closed folders.

    Raises:
        OSError: root here isn't allowed to (a restricted container).
    """
    if search_anywhere:
        # Otherwise the change of user would drop every capability, and access(2), which Postgres asks before it opens
        # a file, would ignore the one that is kept.
        _prctl(PR_SET_SECUREBITS, SECBIT_NO_SETUID_FIXUP, 0)
    os.setgroups([])
    os.setgid(gid)
    os.setuid(uid)
    if search_anywhere:
        try:
            _keep_only(CAP_DAC_READ_SEARCH)
        except OSError:
            _keep_only(CAP_DAC_OVERRIDE)  # what containers leave to root instead


def watch_pipe(command: Sequence[str], pipe: int, orphan_signal: int) -> int:
    """Runs `command`, passes SIGTERM, SIGINT and SIGQUIT on to it, and ends it when the pipe is closed."""
    child = subprocess.Popen(command, close_fds=True)  # noqa: S603 # the command is up's own

    def forward(number: int, frame: FrameType | None) -> None:
        del frame
        child.send_signal(number)

    def watch() -> None:
        while os.read(pipe, 4096):
            pass
        child.send_signal(orphan_signal)

    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGQUIT):
        signal.signal(number, forward)
    threading.Thread(target=watch, daemon=True).start()
    code = child.wait()
    return code if code >= 0 else 128 - code


def _keep_only(capability: int) -> None:
    bit = 1 << capability
    data = (_CapData * 2)()
    data[0] = _CapData(bit, bit, bit)
    _check(_libc().capset(ctypes.byref(_CapHeader(LINUX_CAPABILITY_VERSION_3, 0)), data), "capset")
    _prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE, capability)


def _prctl(option: int, first: int, second: int) -> None:
    _check(_libc().prctl(option, first, second, 0, 0), "prctl")


def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


def _check(result: int, what: str) -> None:
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
