"""Attacks by someone who has taken over the process that reads a file; they run in it, in place of the parser.

Each attack returns a text if it succeeds, and raises an error (or is killed) if not.
"""

from __future__ import annotations

import ctypes
import json
import mmap
import os
import resource
import signal
import socket
import struct
import threading
import time
from pathlib import Path
from typing import Any, NoReturn
from urllib.parse import parse_qs, urlsplit

Job = dict[str, Any]
Buffer = ctypes.Array[ctypes.c_char]

libc = ctypes.CDLL(None, use_errno=True)


def call(number: int, *arguments: int) -> int:
    """Makes a system call; raises OSError if it fails."""
    result = int(libc.syscall(*map(ctypes.c_long, (number, *arguments))))
    if result < 0:
        raise OSError(ctypes.get_errno(), "refused")
    return result


# The system calls whose numbers differ between machines: x86_64, aarch64.
COLUMN = ("x86_64", "aarch64").index(os.uname().machine)
PTRACE, READV, WRITEV, CLONE, MOUNT, KEYCTL, PERF, BPF, FAULTS, SETNS, BY_HANDLE, MEMFD, MODULE, UNSHARE, TGKILL = (
    pair[COLUMN]
    for pair in (
        (101, 117), (310, 270), (311, 271), (56, 220), (165, 40), (250, 219), (298, 241), (321, 280), (323, 282),
        (308, 268), (304, 265), (319, 279), (175, 105), (272, 97), (234, 131),
    )
)  # fmt: skip


def vectors(job: Job, buffer: Buffer) -> tuple[Buffer, Buffer]:
    """Returns where process_vm_readv and process_vm_writev copy from and to."""
    here = struct.pack("QQ", ctypes.addressof(buffer), job["length"])
    there = struct.pack("QQ", job["address"], job["length"])
    return ctypes.create_string_buffer(here, 16), ctypes.create_string_buffer(there, 16)


def parents_environment(job: Job) -> str:
    """Reads the parent's environment."""
    with Path(f"/proc/{os.getppid()}/environ").open("rb") as file:
        file.read()
    return "read"  # it is empty, as the fork server's is


def workers_environment(job: Job) -> str:
    """Reads the worker's environment."""
    with Path(f"/proc/{job['worker']}/environ").open("rb") as file:
        return file.read().decode(errors="replace")


def workers_memory(job: Job) -> str:
    """Reads the worker's memory with process_vm_readv."""
    buffer = ctypes.create_string_buffer(job["length"])
    here, there = vectors(job, buffer)
    call(READV, job["worker"], ctypes.addressof(here), 1, ctypes.addressof(there), 1, 0)
    return buffer.raw.decode()


def memory_by_proc(job: Job) -> str:
    """Reads the worker's memory through /proc."""
    with Path(f"/proc/{job['worker']}/mem").open("rb") as file:
        file.seek(job["address"])
        return file.read(job["length"]).decode()


def write_memory(job: Job) -> str:
    """Writes into the worker's memory with process_vm_writev."""
    buffer = ctypes.create_string_buffer(b"x" * job["length"], job["length"])
    here, there = vectors(job, buffer)
    return str(call(WRITEV, job["worker"], ctypes.addressof(here), 1, ctypes.addressof(there), 1, 0))


def write_memory_by_proc(job: Job) -> str:
    """Writes into the worker's memory through /proc."""
    with Path(f"/proc/{job['worker']}/mem").open("r+b", buffering=0) as file:
        file.seek(job["address"])
        return str(file.write(b"y" * job["length"]))


def tcp(job: Job) -> str:
    """Connects to a TCP port."""
    socket.create_connection(("127.0.0.1", job["tcp"])).close()
    return "connected"


def udp(job: Job) -> str:
    """Sends a datagram to a UDP port."""
    return str(socket.socket(type=socket.SOCK_DGRAM).sendto(b"x", ("127.0.0.1", job["udp"])))


def unix_socket(job: Job) -> str:
    """Connects to a Unix socket."""
    socket.socket(socket.AF_UNIX).connect(job["unix"])
    return "connected"


def postgres_socket(job: Job) -> str:
    """Connects to the database."""
    address = urlsplit(str(job["postgres"]))
    host, port = parse_qs(address.query).get("host", [address.hostname or ""])[0], address.port or 5432
    if host.startswith("/"):
        socket.socket(socket.AF_UNIX).connect(f"{host}/.s.PGSQL.{port}")
    else:
        socket.create_connection((host, port)).close()
    return "connected"


def abstract_socket(job: Job) -> str:
    """Connects to an abstract Unix socket."""
    socket.socket(socket.AF_UNIX).connect("\0" + job["abstract"])
    return "connected"


def listen(job: Job) -> str:
    """Listens on a TCP port."""
    return str(socket.create_server(("127.0.0.1", 0)).getsockname())


def siblings_file(job: Job) -> str:
    """Reads another file in the spool folder."""
    with Path(f"{job['folder']}/sibling").open() as file:
        return file.read()


def etc_passwd(job: Job) -> str:
    """Reads /etc/passwd."""
    with Path("/etc/passwd").open() as file:
        return file.read()


def list_folder(job: Job) -> str:
    """Lists the spool folder."""
    return str(list(Path(job["folder"]).iterdir()))


def file_status(job: Job) -> str:
    """Reads a file's status."""
    return str(Path(f"{job['folder']}/sibling").stat())


def write_file(job: Job) -> str:
    """Writes a file."""
    with Path(f"{job['folder']}/written").open("w") as file:
        return str(file.write("x"))


def fill_disk(job: Job) -> str:
    """Writes ten megabytes to the disk."""
    with Path(f"{job['folder']}/written").open("wb") as file:
        return str(file.write(bytes(10_000_000)))


def memory_file(job: Job) -> str:
    """Writes ten megabytes to a file in memory."""
    name = ctypes.create_string_buffer(b"x")
    descriptor = call(MEMFD, ctypes.addressof(name), 0)
    return str(os.write(descriptor, bytes(10_000_000)))


def fork(job: Job) -> str:
    """Forks a process."""
    process = os.fork()
    if not process:
        os._exit(0)
    return str(process)


def execute(job: Job) -> str:
    """Starts a shell, which answers in the parser's place."""
    os.execv("/bin/sh", ["sh", "-c", f"echo > {job['folder']}/executed; printf '%b' '{ANSWER}' >&3"])  # noqa: S606 # this is the attack


# The shell's answer in the parser's place: eight bytes of length, then JSON.
TEXT = json.dumps(
    {"document": {"format": "text", "media_type": "", "text": "executed", "blocks": [], "title": None, "pages": None,
                  "has_lines": False, "following": None}}
)  # fmt: skip
ANSWER = "".join(f"\\0{byte:03o}" for byte in len(TEXT).to_bytes(8, "big") + TEXT.encode())


def thread(job: Job) -> str:
    """Starts a thread."""
    done: list[str] = []
    worker = threading.Thread(target=lambda: done.append("ran"))
    worker.start()
    worker.join()
    return done[0]


def executable_memory(job: Job) -> str:
    """Maps memory that is writable and executable."""
    memory = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
    return f"mapped {len(memory)}"


def trace(job: Job) -> str:
    """Traces the worker with ptrace."""
    return f"seized {call(PTRACE, 0x4206, job['worker'], 0, 0)}"


def signal_parent(job: Job) -> str:
    """Signals the parent."""
    os.kill(os.getppid(), 0)
    return "signalled"


def signal_worker(job: Job) -> str:
    """Signals the worker."""
    os.kill(job["worker"], 0)
    return "signalled"


def signal_thread(job: Job) -> str:
    """Signals a thread of the worker."""
    call(TGKILL, job["worker"], job["thread"], 0)
    return "signalled"


def signal_by_descriptor(job: Job) -> str:
    """Signals the worker through a process descriptor."""
    call(424, call(434, job["worker"], 0), 0, 0, 0)
    return "signalled"


def steal_descriptor(job: Job) -> str:
    """Copies a file descriptor of the worker."""
    return f"got {call(438, call(434, job['worker'], 0), 0, 0)}"


def raise_limit(job: Job) -> str:
    """Raises the limit of CPU time."""
    resource.setrlimit(resource.RLIMIT_CPU, (1000, 1000))
    return "raised"


def io_uring(job: Job) -> str:
    """Sets up an io_uring."""
    parameters = ctypes.create_string_buffer(120)
    return f"got {call(425, 8, ctypes.addressof(parameters))}"


def user_namespace(job: Job) -> str:
    """Creates a user namespace."""
    return f"got {call(UNSHARE, 0x10000000)}"


def bpf(job: Job) -> str:
    """Creates a BPF map."""
    attributes = ctypes.create_string_buffer(struct.pack("IIII", 2, 4, 4, 4), 128)
    return f"got {call(BPF, 0, ctypes.addressof(attributes), 128)}"


def mount(job: Job) -> str:
    """Mounts a file system."""
    names = ctypes.create_string_buffer(b"tmpfs"), ctypes.create_string_buffer(job["folder"].encode())
    return (
        f"got {call(MOUNT, ctypes.addressof(names[0]), ctypes.addressof(names[1]), ctypes.addressof(names[0]), 0, 0)}"
    )


def keyring(job: Job) -> str:
    """Joins a session keyring."""
    return f"got {call(KEYCTL, 0, -3, 1)}"


def fault_handler(job: Job) -> str:
    """Creates a userfaultfd."""
    return f"got {call(FAULTS, 1)}"


def set_namespace(job: Job) -> str:
    """Enters the worker's network namespace."""
    return f"got {call(SETNS, call(434, job['worker'], 0), 0x40000000)}"


def open_by_handle(job: Job) -> str:
    """Opens a file by its handle."""
    return f"got {call(BY_HANDLE, -100, 0, 0)}"


def performance_events(job: Job) -> str:
    """Counts the worker's performance events."""
    attributes = ctypes.create_string_buffer(struct.pack("II", 1, 128), 128)
    return f"got {call(PERF, ctypes.addressof(attributes), job['worker'], -1, -1, 0)}"


def module(job: Job) -> str:
    """Loads a kernel module."""
    return f"got {call(MODULE, 0, 0, 0)}"


def descriptors(job: Job) -> str:
    """Finds open descriptors besides the answer's; only the null device may be open."""
    inherited: list[int] = []
    for descriptor in range(4096):
        try:
            status = os.fstat(descriptor)
        except OSError:
            continue
        if descriptor != 3 and status.st_rdev != os.makedev(1, 3):
            inherited.append(descriptor)
    if not inherited:
        raise OSError("nothing")
    return f"got {inherited}"


def compute(job: Job) -> NoReturn:
    """Computes without an end."""
    while True:
        pass


def _ignore(_number: int, _frame: object) -> None:
    pass


def compute_and_catch_the_signal(job: Job) -> NoReturn:
    """Computes without an end, ignoring the limit's signal."""
    signal.signal(signal.SIGXCPU, _ignore)
    while True:
        pass


def fill_memory(job: Job) -> NoReturn:
    """Allocates memory without an end."""
    parts: list[bytearray] = []
    while True:
        parts.append(bytearray(16_000_000))


def write_without_end(job: Job) -> NoReturn:
    """Writes an answer without an end."""
    while True:
        os.write(3, b"\x00" * 7 + b"\xff" * 65_529)


def claim_a_huge_answer(job: Job) -> NoReturn:
    """Announces a huge answer and sends nothing."""
    os.write(3, (2**62).to_bytes(8, "big"))
    while True:
        time.sleep(60)


def nothing(job: Job) -> str:
    """Does nothing bad."""
    return "read"


def attack(data: bytes) -> str:
    """Makes the attack that a file names; returns its loot."""
    job: Job = json.loads(data)
    return str(globals()[job["attack"]](job))
