"""Locks a process in: limits, no privileges, no files and connections (Landlock), few system calls (seccomp).

No root and no capability is needed. Linux only: elsewhere there are the limits alone.
"""

import ctypes
import math
import os
import platform
import resource
import signal
import struct
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Final

from citewire_retriever.ingest.confined.calls import MACHINES
from citewire_retriever.ingest.confined.filters import filter_code

LANDLOCK: Final = "Landlock"
SECCOMP: Final = "seccomp"

_PR_SET_PDEATHSIG: Final = 1
_PR_SET_DUMPABLE: Final = 4
_PR_SET_SECCOMP: Final = 22
_PR_SET_NO_NEW_PRIVS: Final = 38
_SECCOMP_MODE_FILTER: Final = 2

# The same on all machines (linux/landlock.h).
_LANDLOCK_CREATE_RULESET: Final = 444
_LANDLOCK_ADD_RULE: Final = 445
_LANDLOCK_RESTRICT_SELF: Final = 446
_PATH_BENEATH: Final = 1
_EXECUTE, _READ_FILE, _READ_FOLDER = 1 << 0, 1 << 2, 1 << 3
_VERSION_QUERY: Final = 1
# Number of rights by version of Landlock's interface: on files and folders, on TCP ports, and on objects outside the
# process (abstract sockets, signals). Later versions only add rights that we don't need.
_FILE_RIGHTS: Final = {1: 13, 2: 14, 3: 15, 5: 16}
_TCP_RIGHTS: Final = {4: 2}
_OUTSIDE_RIGHTS: Final = {6: 2}

_LINUX: Final = sys.platform == "linux"


_PROGRAM_DESCRIPTORS: Final = 64


class NotLockedError(Exception):
    """The kernel rejected a lock."""


@dataclass(frozen=True, slots=True)
class Program:
    """The only program that a process may become, and the files that it may then open."""

    executables: Sequence[str]
    """The program and the loader of its libraries."""
    libraries: Sequence[str]
    """Files that it loads."""
    folder: str
    """Folder of its data."""


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits of one process."""

    cpu_seconds: float
    """Seconds of CPU time."""
    memory_mib: int
    """Bytes of address space."""


def hide() -> None:
    """Hides this process's memory and environment from other processes of its user, and from core dumps."""
    if _LINUX:
        _prctl(_PR_SET_DUMPABLE, 0)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def end_with_parent() -> None:
    """Lets the kernel kill this process when its parent ends."""
    if _LINUX:
        _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def lock_in(limits: Limits, program: Program | None = None) -> list[str]:
    """Locks this process in permanently. Open files stay open; it can't open, start or reach anything else.

    Args:
        limits: Its limits.
        program: The program that it may become, with files that it may open.

    Returns:
        The locks that this kernel doesn't have (`LANDLOCK`, `SECCOMP`).

    Raises:
        NotLockedError: The kernel has a lock, but rejects it.
    """
    hide()
    _limit(resource.RLIMIT_FSIZE, 0)
    seconds = math.ceil(limits.cpu_seconds)
    # The first signal can be caught; the second one, a second later, can't.
    _limit(resource.RLIMIT_CPU, seconds, seconds + 1)
    if not _LINUX:  # elsewhere the kernel rejects or ignores further limits
        return [LANDLOCK, SECCOMP]
    _limit(resource.RLIMIT_AS, limits.memory_mib * 1024 * 1024)
    _limit(resource.RLIMIT_NPROC, 0)
    _prctl(_PR_SET_NO_NEW_PRIVS, 1)
    missing = [] if _landlock(program) else [LANDLOCK]
    _limit(resource.RLIMIT_NOFILE, 0 if program is None else _PROGRAM_DESCRIPTORS)
    return missing if _seccomp(runs_program=program is not None) else [*missing, SECCOMP]


def _limit(kind: int, soft: int, hard: int | None = None) -> None:
    """Sets a limit, never above an existing one of this process."""
    _, most = resource.getrlimit(kind)
    hard = soft if hard is None else hard
    hard = hard if most == resource.RLIM_INFINITY else min(hard, most)
    resource.setrlimit(kind, (min(soft, hard), hard))


def _landlock(program: Program | None) -> bool:
    """Denies all rights that this kernel's Landlock supports, except a program's; False if it has no Landlock."""
    version = _syscall(_LANDLOCK_CREATE_RULESET, 0, 0, _VERSION_QUERY)
    if version < 1:
        return False
    rights = [_rights(_FILE_RIGHTS, version)]
    # The structure has the length of this version.
    rights += [_rights(table, version) for table in (_TCP_RIGHTS, _OUTSIDE_RIGHTS) if version >= min(table)]
    attributes = ctypes.create_string_buffer(struct.pack(f"={len(rights)}Q", *rights), 8 * len(rights))
    ruleset = _syscall(_LANDLOCK_CREATE_RULESET, ctypes.addressof(attributes), len(attributes), 0)
    if ruleset < 0:
        raise NotLockedError("landlock_create_ruleset")
    if program is not None:
        for paths, access in (
            (program.executables, _EXECUTE | _READ_FILE),
            (program.libraries, _READ_FILE),
            ((program.folder,), _READ_FILE | _READ_FOLDER),
        ):
            for path in paths:
                _grant(ruleset, path, access)
    if _syscall(_LANDLOCK_RESTRICT_SELF, ruleset, 0, 0) != 0:
        raise NotLockedError("landlock_restrict_self")
    os.close(ruleset)
    return True


def _grant(ruleset: int, path: str, access: int) -> None:
    """Allows access to a file, or to all files of a folder."""
    descriptor = os.open(path, os.O_PATH | os.O_CLOEXEC)
    rule = ctypes.create_string_buffer(struct.pack("=Qi", access, descriptor), 12)
    if _syscall(_LANDLOCK_ADD_RULE, ruleset, _PATH_BENEATH, ctypes.addressof(rule), 0) != 0:
        raise NotLockedError("landlock_add_rule")
    os.close(descriptor)


def _rights(table: dict[int, int], version: int) -> int:
    """All rights of a kind that a version supports, as a mask."""
    return (1 << max(count for since, count in table.items() if since <= version)) - 1


def _seccomp(*, runs_program: bool) -> bool:
    """Allows only the listed system calls; False if the kernel has no filters, or the machine is unknown."""
    machine = MACHINES.get(platform.machine())
    if machine is None:
        return False
    instructions_of = filter_code(machine, os.getpid(), runs_program=runs_program)
    code = b"".join(struct.pack("=HBBI", *instruction) for instruction in instructions_of)
    instructions = ctypes.create_string_buffer(code, len(code))
    # struct sock_fprog: a count, padding, and a pointer.
    program = ctypes.create_string_buffer(struct.pack("=H6xQ", len(code) // 8, ctypes.addressof(instructions)), 16)
    return _call("prctl", _PR_SET_SECCOMP, _SECCOMP_MODE_FILTER, ctypes.addressof(program), 0, 0) == 0


def _prctl(option: int, value: int) -> None:
    if _call("prctl", option, value, 0, 0, 0) != 0:
        raise NotLockedError(f"prctl({option})")


def _syscall(number: int, *arguments: int) -> int:
    return _call("syscall", number, *arguments)


def _call(name: str, *arguments: int) -> int:
    """Calls a function of the C library; all arguments are longs or addresses."""
    return int(_function(name)(*map(ctypes.c_ulong, arguments)))


@cache
def _function(name: str) -> Any:  # noqa: ANN401 - ctypes' own type has no name
    function = ctypes.CDLL(None)[name]
    function.restype = ctypes.c_long
    return function
