"""The seccomp filter of a process that reads a file, as a classic BPF program (linux/filter.h, seccomp(2))."""

import errno
from typing import Final

from citewire_retriever.ingest.confined.calls import ALLOWED, FATAL, MAPPING, REFUSED, RUNNING, SIGNAL_ITSELF, Machine

_LOAD: Final = 0x20  # BPF_LD | BPF_W | BPF_ABS
_IF_EQUAL: Final = 0x15  # BPF_JMP | BPF_JEQ | BPF_K
_IF_AT_LEAST: Final = 0x35  # BPF_JMP | BPF_JGE | BPF_K
_IF_ANY_BIT: Final = 0x45  # BPF_JMP | BPF_JSET | BPF_K
_RETURN: Final = 0x06  # BPF_RET | BPF_K
# Offsets in struct seccomp_data; the lower half of each argument comes first, because both machines are little-endian.
_NUMBER, _ARCHITECTURE, _ARGUMENTS = 0, 4, 16
_ALLOW: Final = 0x7FFF0000
_KILL_PROCESS: Final = 0x80000000
_ERROR: Final = 0x00050000
_EXECUTABLE: Final = 4  # PROT_EXEC

Instruction = tuple[int, int, int, int]
"""A `struct sock_filter`: code, jump if true, jump if false, constant."""


def filter_code(machine: Machine, pid: int, *, runs_program: bool = False) -> list[Instruction]:
    """The filter's instructions.

    Args:
        machine: The machine, which determines the numbers of system calls.
        pid: The process's own id, the only one that it may signal.
        runs_program: Whether it becomes a program, which has its own files to open and is restricted by Landlock.
    """
    column = machine.column
    code: list[Instruction] = [
        (_LOAD, 0, 0, _ARCHITECTURE),
        (_IF_EQUAL, 1, 0, machine.audit),
        (_RETURN, 0, 0, _KILL_PROCESS),
        (_LOAD, 0, 0, _NUMBER),
    ]
    if machine.first_foreign is not None:
        code += [(_IF_AT_LEAST, 0, 1, machine.first_foreign), (_RETURN, 0, 0, _KILL_PROCESS)]
    if runs_program:  # the first rule for a call applies
        for pair in RUNNING.values():
            code += _case(pair[column], [(_RETURN, 0, 0, _ALLOW)])
    for pair in MAPPING.values():
        code += _case(pair[column], _unless(_IF_ANY_BIT, _argument(2), _EXECUTABLE))
    for pairs, verdict in ((ALLOWED, _ALLOW), (REFUSED, _ERROR | errno.EACCES), (FATAL, _KILL_PROCESS)):
        for pair in pairs.values():
            code += _case(pair[column], [(_RETURN, 0, 0, verdict)])
    code += _case(SIGNAL_ITSELF[column], _only(_argument(0), pid))
    code.append((_RETURN, 0, 0, _ERROR | errno.ENOSYS))
    return code


def _case(number: int | None, block: list[Instruction]) -> list[Instruction]:
    """Instructions that run a block, which returns, for one system call."""
    return [] if number is None else [(_IF_EQUAL, 0, len(block), number), *block]


def _unless(test: int, argument: int, constant: int) -> list[Instruction]:
    return [
        (_LOAD, 0, 0, argument),
        (test, 0, 1, constant),
        (_RETURN, 0, 0, _ERROR | errno.EACCES),
        (_RETURN, 0, 0, _ALLOW),
    ]


def _only(argument: int, constant: int) -> list[Instruction]:
    return [
        (_LOAD, 0, 0, argument),
        (_IF_EQUAL, 1, 0, constant),
        (_RETURN, 0, 0, _ERROR | errno.EACCES),
        (_RETURN, 0, 0, _ALLOW),
    ]


def _argument(index: int) -> int:
    return _ARGUMENTS + 8 * index
