"""The process that has the parsers loaded and forks a process for each file: `python -m …confined.server`.

It gets no secrets, never reads a file itself, and has one thread. Only `fork_server` starts it, with a
socket as standard input: one JSON object a line comes in, with the file's and the answer's descriptors; one goes out
when a process has ended. When the socket closes, or this process ends, all processes that it forked end too.
"""

import contextlib
import gc
import importlib
import json
import mmap
import os
import pkgutil
import select
import signal
import socket
import sys
import threading
import time
import traceback
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from citewire_retriever.ingest.boxes import SoughtText
from citewire_retriever.ingest.confined import NOT_LOCKED, TABLES
from citewire_retriever.ingest.confined.locks import LANDLOCK, SECCOMP, Limits, Program, end_with_parent, hide, lock_in
from citewire_retriever.ingest.detect import HEAD_BYTES, detect
from citewire_retriever.ingest.document import ParseLimits
from citewire_retriever.ingest.errors import IngestCode, IngestError
from citewire_retriever.ingest.parsers import parse, preload
from citewire_retriever.ingest.parsers.pdf_boxes import find_boxes
from citewire_retriever.ingest.parsers.scans import all_scans, draw, find_scans, preload_images
from citewire_retriever.ingest.wire import PREFIX_BYTES, decode_position, encode_boxes, encode_document, encode_progress

_TABLES: Final = "citewire_retriever.ingest.tabular.answer"
_CONTROL: Final = 0
_ANSWER: Final = 3
_MOST_BYTES: Final = 65_536
_MOST_DESCRIPTORS: Final = 64
_QUICK_SECONDS: Final = 0.25
_NICE: Final = 5
"""Added to the nice value of a process that has run for longer than _QUICK_SECONDS: somebody may wait for a short
file, and a long one must not take the cores away from servers."""
_TRIAL: Final = Limits(cpu_seconds=10, memory_mib=4096)


@dataclass(slots=True)
class _Inbox:
    """Received data that hasn't been processed."""

    lines: bytes = b""
    descriptors: list[int] = field(default_factory=list[int])


def main() -> None:
    """Forks until the socket closes."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the worker handles Ctrl-C, and ends this process
    end_with_parent()
    _volunteer_for_the_oom_killer()
    hide()
    preload()
    preload_images()
    _preload_encodings()
    if TABLES in sys.argv:
        importlib.import_module(_TABLES).preload()
    gc.collect()
    gc.freeze()  # loaded objects stay shared with the forked processes
    if threading.active_count() != 1:
        raise RuntimeError("a library started a thread: forking isn't safe")
    with socket.socket(fileno=os.dup(_CONTROL)) as control:
        missing = _try_locks()
        control.sendall(json.dumps({"missing": missing}).encode() + b"\n")
        _Server(control, missing).serve()


class _Server:
    def __init__(self, control: socket.socket, missing: list[str]) -> None:
        self.control = control
        self.missing = missing
        self.inbox = _Inbox()
        self.running: dict[int, int] = {}
        """Processes by request number."""
        self.quick: dict[int, float] = {}
        """Until when processes, by request number, keep this one's priority; the earliest first."""
        self.nice = os.getpriority(os.PRIO_PROCESS, 0) + _NICE
        reader, self.waker = socket.socketpair()
        self.waker.setblocking(False)
        reader.setblocking(False)
        self.woken = reader

    def serve(self) -> None:
        signal.set_wakeup_fd(self.waker.fileno(), warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda _number, _frame: None)
        while True:
            ready, _, _ = select.select([self.control, self.woken], [], [], self._slow_down())
            if self.woken in ready:
                with contextlib.suppress(BlockingIOError):
                    self.woken.recv(_MOST_BYTES)
                self._reap()
            if self.control in ready and not self._receive():
                break
        for process in self.running.values():
            os.kill(process, signal.SIGKILL)

    def _slow_down(self) -> float | None:
        """Lowers the priority of processes that aren't quick; returns the seconds until the next one is due."""
        for number, until in list(self.quick.items()):
            if (seconds := until - time.monotonic()) > 0:
                return seconds
            # Not reaped yet, as above.
            os.setpriority(os.PRIO_PROCESS, self.running[number], self.nice)
            del self.quick[number]
        return None

    def _receive(self) -> bool:
        """Reads received data; False at the end."""
        data, descriptors, _, _ = socket.recv_fds(self.control, _MOST_BYTES, _MOST_DESCRIPTORS)
        if not data:
            return False
        self.inbox.descriptors += descriptors
        *lines, self.inbox.lines = (self.inbox.lines + data).split(b"\n")
        for line in lines:
            message: dict[str, Any] = json.loads(line)
            if "kill" in message:
                # Not reaped yet, so that the id can't belong to another process.
                process = self.running.get(message["kill"])
                if process is not None:
                    os.kill(process, signal.SIGKILL)
            else:
                file, answer = self.inbox.descriptors.pop(0), self.inbox.descriptors.pop(0)
                self.running[message["id"]] = self._fork(message["job"], file, answer)
                self.quick[message["id"]] = time.monotonic() + _QUICK_SECONDS
                os.close(file)
                os.close(answer)
        return True

    def _fork(self, job: dict[str, Any], file: int, answer: int) -> int:
        parent = os.getpid()
        process = os.fork()
        if process:
            return process
        # From here on, this is the new process, which never returns.
        status = 1
        try:
            end_with_parent()
            if os.getppid() == parent:
                be = _be_program if "program" in job else _be_reader
                status = be(job, file, answer, self.missing)
        finally:
            os._exit(status)

    def _reap(self) -> None:
        """Reports ended processes."""
        for number, process in list(self.running.items()):
            ended, status, usage = os.wait4(process, os.WNOHANG)
            if ended:
                del self.running[number]
                self.quick.pop(number, None)
                report = {
                    "id": number,
                    "status": os.waitstatus_to_exitcode(status),
                    "cpu_seconds": usage.ru_utime + usage.ru_stime,
                }
                self.control.sendall(json.dumps(report).encode() + b"\n")


def _be_reader(job: dict[str, Any], file: int, answer: int, missing: list[str]) -> int:
    """Reads one file, locked in; returns the exit status."""
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    gc.disable()  # it lives for only one file, and has a limit
    # Mapped, not read: no byte of it is touched yet.
    size = os.fstat(file).st_size
    data = mmap.mmap(file, size, access=mmap.ACCESS_COPY) if size else b""
    # None of the server's descriptors stay open, in particular not its socket; nor does the file.
    os.dup2(answer, _ANSWER)
    null = os.open(os.devnull, os.O_RDWR)
    for standard in (0, 1, 2):
        os.dup2(null, standard)
    os.closerange(_ANSWER + 1, 65_536)
    # It reads the machine's files when it opens, which isn't possible later.
    database = importlib.import_module(_TABLES).connect() if "query" in job else None
    try:
        if lock_in(Limits(job["cpu_seconds"], job["memory_mib"])) != missing:
            return NOT_LOCKED
    except Exception:  # noqa: BLE001 - whatever it is, nothing may be read then
        return NOT_LOCKED
    _write(_ANSWER, _image(job, data) if "page" in job else _json(_read(job, data, database)))
    return 0


def _be_program(job: dict[str, Any], file: int, answer: int, missing: list[str]) -> int:
    """Becomes a program that reads the file and writes the answer, locked in; returns the exit status if it can't."""
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    os.dup2(file, 0)
    os.dup2(answer, 1)
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
    os.closerange(3, 65_536)
    program = Program(**job["program"])
    try:
        if lock_in(Limits(job["cpu_seconds"], job["memory_mib"]), program) != missing:
            return NOT_LOCKED
    except Exception:  # noqa: BLE001 - whatever it is, nothing may be read then
        return NOT_LOCKED
    run_program(program.executables[0], job["arguments"], job["environment"])
    return 1


def run_program(path: str, arguments: list[str], environment: dict[str, str]) -> None:
    """Becomes a program. Returns only if it can't."""
    with contextlib.suppress(OSError):
        os.execve(path, [path, *arguments], environment)  # noqa: S606 - its arguments are ours, and no shell is wanted


def _read(job: dict[str, Any], data: bytes | mmap.mmap, database: Any) -> dict[str, Any]:  # noqa: ANN401 - of an extra
    try:
        if database is not None:
            return importlib.import_module(_TABLES).answer_about_tables(
                data, job, ParseLimits(**job["limits"]), database
            )
        if "texts" in job:
            return {"pages": encode_boxes(find_boxes(data, [SoughtText(**text) for text in job["texts"]]))}
        position = decode_position(job["position"])
        document = parse(data, job["file_name"], job["media_type"], ParseLimits(**job["limits"]), position, _tell)
        scans = find_scans(data, document) if job["finds_scans"] else []
        return {"document": encode_document(document), "scans": scans}
    except IngestError as error:
        answer: dict[str, Any] = {"error": {"code": error.code.value, "message": error.message}}
        if error.code is IngestCode.NO_TEXT:
            answer["media_type"] = detect(data[:HEAD_BYTES], job["file_name"]).media_type
            answer["pages"], answer["scans"] = all_scans(data)
        return answer
    except MemoryError:
        message = "Reading the file needs more memory than is allowed: split it."
        return {"error": {"code": IngestCode.TOO_LARGE.value, "message": message}}
    except RecursionError:
        message = "The file is nested too deeply to be read."
        return {"error": {"code": IngestCode.CORRUPT.value, "message": message}}
    except Exception:  # noqa: BLE001 - the worker logs it
        return {"defect": traceback.format_exc(limit=-8)}


def _tell(done: int, total: int) -> None:
    os.write(_ANSWER, encode_progress(done, total))


def _image(job: dict[str, Any], data: bytes | mmap.mmap) -> bytes:
    """A page as an image: a line of JSON with its sizes, and its pixels. Nothing if it can't be drawn."""
    try:
        image = draw(data, job["page"])
    except (IngestError, MemoryError):
        return b""
    sizes = {"width": image.width, "height": image.height, "points": image.points}
    return json.dumps(sizes).encode() + b"\n" + image.pixels


def _json(answer: dict[str, Any]) -> bytes:
    return json.dumps(answer, ensure_ascii=False, separators=(",", ":")).encode("utf-8", errors="replace")


def _write(descriptor: int, data: bytes) -> None:
    os.write(descriptor, len(data).to_bytes(PREFIX_BYTES, "big"))
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(descriptor, rest) :]


def _try_locks() -> list[str]:
    """Locks a process in as a trial; returns the locks that this kernel lacks or rejects."""
    reading, writing = os.pipe()
    process = os.fork()
    if not process:
        try:
            missing = lock_in(_TRIAL)
            if SECCOMP not in missing and _can_open():
                missing.append(SECCOMP)
            os.write(writing, ",".join(missing).encode() + b".")
        finally:
            os._exit(0)
    os.close(writing)
    answer = os.read(reading, 1024).decode()
    os.close(reading)
    os.waitpid(process, 0)
    if not answer.endswith("."):  # it ended before it could report what is missing
        return [LANDLOCK, SECCOMP]
    return [name for name in answer[:-1].split(",") if name]


def _can_open() -> bool:
    try:
        os.open("/", os.O_RDONLY)
    except OSError:
        return False
    return True


def _volunteer_for_the_oom_killer() -> None:
    """If memory runs out, the kernel should kill a file's reader before the worker."""
    with contextlib.suppress(OSError), Path("/proc/self/oom_score_adj").open("w") as file:
        file.write("500")


def _preload_encodings() -> None:
    """Loads all codecs, because a locked-in process can't, and the one needed is only known after reading a file."""
    encodings = importlib.import_module("encodings")
    for module in pkgutil.iter_modules(encodings.__path__):
        with contextlib.suppress(ImportError):  # codecs of other systems
            importlib.import_module(f"encodings.{module.name}")


if __name__ == "__main__":
    sys.exit(main())
