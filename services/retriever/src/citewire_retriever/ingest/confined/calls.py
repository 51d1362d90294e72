"""System calls, and what a process that reads a file may do with them.

Those that aren't listed don't exist for it (ENOSYS): a C library that tries a newer call falls back to an older one,
as it does on an older kernel. What is refused, answers as a file's permissions would. What no reader of files and no
library ever does, ends the process.
"""

from dataclasses import dataclass
from typing import Final

ALLOWED: Final[dict[str, tuple[int | None, int | None]]] = {
    # Memory; `mmap` and `mprotect` are allowed without execution, see `filters`.
    "munmap": (11, 215),
    "brk": (12, 214),
    "madvise": (28, 233),
    "mremap": (25, 216),
    # Open descriptors: the file and the answer.
    "read": (0, 63),
    "write": (1, 64),
    "pread64": (17, 67),
    "readv": (19, 65),
    "writev": (20, 66),
    "lseek": (8, 62),
    "fstat": (5, 80),
    "close": (3, 57),
    # Locks, time, random numbers, its own signals.
    "futex": (202, 98),
    "sched_yield": (24, 124),
    "clock_gettime": (228, 113),
    "clock_getres": (229, 114),
    "clock_nanosleep": (230, 115),
    "nanosleep": (35, 101),
    "gettimeofday": (96, 169),
    "time": (201, None),
    "getrandom": (318, 278),
    "getrusage": (98, 165),
    "times": (100, 153),
    "rt_sigaction": (13, 134),
    "rt_sigprocmask": (14, 135),
    "rt_sigreturn": (15, 139),
    "sigaltstack": (131, 132),
    "restart_syscall": (219, 128),
    # The process itself.
    "getpid": (39, 172),
    "getppid": (110, 173),
    "gettid": (186, 178),
    "getuid": (102, 174),
    "geteuid": (107, 175),
    "getgid": (104, 176),
    "getegid": (108, 177),
    "exit": (60, 93),
    "exit_group": (231, 94),
}
"""By name: the numbers on x86_64 and on aarch64."""

MAPPING: Final[dict[str, tuple[int | None, int | None]]] = {"mmap": (9, 222), "mprotect": (10, 226)}
"""Allowed unless their third argument asks for memory that can be executed."""

RUNNING: Final[dict[str, tuple[int | None, int | None]]] = {
    **MAPPING,
    "execve": (59, 221),
    "arch_prctl": (158, None),
    "set_tid_address": (218, 96),
    "set_robust_list": (273, 99),
    "open": (2, None),
    "openat": (257, 56),
    "newfstatat": (262, 79),
    "access": (21, None),
    "faccessat": (269, 48),
    "getdents64": (217, 61),
    "sched_getaffinity": (204, 123),
}
"""Additional calls of a process that becomes a program and loads its libraries, which Landlock limits to their files.
It can also query the size of a file with a known path, which no lock prevents."""

SIGNAL_ITSELF: Final[tuple[int | None, int | None]] = (234, 131)
"""`tgkill`, by which a process ends itself (`abort`); allowed if its first argument is the process's own id."""

REFUSED: Final[dict[str, tuple[int | None, int | None]]] = {
    "open": (2, None),
    "openat": (257, 56),
    "openat2": (437, 437),
    "creat": (85, None),
    "stat": (4, None),
    "lstat": (6, None),
    "newfstatat": (262, 79),
    "statx": (332, 291),
    "access": (21, None),
    "faccessat": (269, 48),
    "faccessat2": (439, 439),
    "readlink": (89, None),
    "readlinkat": (267, 78),
    "socket": (41, 198),
    "socketpair": (53, 199),
    "fork": (57, None),
    "vfork": (58, None),
    "clone": (56, 220),
    "kill": (62, 129),
    "tkill": (200, 130),
}
"""Answered with EACCES: libraries may try them, and continue without."""

FATAL: Final[dict[str, tuple[int | None, int | None]]] = {
    "execve": (59, 221),
    "execveat": (322, 281),
    "ptrace": (101, 117),
    "process_vm_readv": (310, 270),
    "process_vm_writev": (311, 271),
    "process_madvise": (440, 440),
    "kcmp": (312, 272),
    "pidfd_open": (434, 434),
    "pidfd_getfd": (438, 438),
    "pidfd_send_signal": (424, 424),
    "bpf": (321, 280),
    "userfaultfd": (323, 282),
    "perf_event_open": (298, 241),
    "io_uring_setup": (425, 425),
    "io_uring_enter": (426, 426),
    "io_uring_register": (427, 427),
    "add_key": (248, 217),
    "request_key": (249, 218),
    "keyctl": (250, 219),
    "unshare": (272, 97),
    "setns": (308, 268),
    "mount": (165, 40),
    "umount2": (166, 39),
    "move_mount": (429, 429),
    "open_tree": (428, 428),
    "fsopen": (430, 430),
    "fsconfig": (431, 431),
    "fsmount": (432, 432),
    "fspick": (433, 433),
    "mount_setattr": (442, 442),
    "pivot_root": (155, 41),
    "chroot": (161, 51),
    "name_to_handle_at": (303, 264),
    "open_by_handle_at": (304, 265),
    "init_module": (175, 105),
    "finit_module": (313, 273),
    "delete_module": (176, 106),
    "kexec_load": (246, 104),
    "kexec_file_load": (320, 294),
    "reboot": (169, 142),
}
"""The process is killed with SIGSYS: only attacks use these calls."""


@dataclass(frozen=True, slots=True)
class Machine:
    """The kernel's name for a machine's architecture, and the index of its numbers in the tables above."""

    audit: int
    """AUDIT_ARCH_* of linux/audit.h."""
    column: int
    """Index in the pairs of numbers."""
    first_foreign: int | None
    """Numbers from this one on are another ABI's (x32 on x86_64)."""


MACHINES: Final = {
    "x86_64": Machine(0xC000003E, 0, 0x40000000),
    "aarch64": Machine(0xC00000B7, 1, None),
}
"""By the name that `uname` gives."""
