"""Slows processes down by a known share, to show that a benchmark detects it.

`burning` is for costs in CPU time: a signal handler burns a share of all CPU time that the process uses. A thread that
burns it would need the interpreter's lock, for which it waits in vain while the process is busy.
`paused` is for rates and durations: processes are stopped and continued, so that they run only a share of the time.
`paused_often` is for the latency of single requests.
"""

from __future__ import annotations

import contextlib
import os
import signal
import tempfile
import threading
import time
from collections.abc import Callable, Generator, Sequence
from pathlib import Path

import psutil

# The timer counts the CPU time of all threads, and the handler's own.
_BURN = """
import atexit, signal, time
def start_burning(slow_down, period=0.01):
    share = period * (1 - 1 / slow_down)
    def burn(*_):
        end = time.thread_time() + share
        while time.thread_time() < end:
            pass
    signal.signal(signal.SIGPROF, burn)
    signal.siginterrupt(signal.SIGPROF, False)
    signal.setitimer(signal.ITIMER_PROF, period, period)
    atexit.register(signal.setitimer, signal.ITIMER_PROF, 0)
"""
_BURNER = f"""{_BURN}
import runpy, sys
start_burning(float(sys.argv[1]))
sys.argv = sys.argv[2:]
runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
"""


def module_command(python: Path, module: str, *arguments: str, slow_down: float = 1.0) -> list[str | Path]:
    """The command that runs a module with `slow_down` times its CPU time."""
    if slow_down == 1.0:
        return [python, "-m", module, *arguments]
    return [python, "-c", _BURNER, str(slow_down), module, *arguments]


@contextlib.contextmanager
def burning(slow_down: float) -> Generator[dict[str, str]]:
    """Returns variables with which a new Python process, and its children, use extra CPU time too.

    This doesn't affect processes that ignore such variables (`-I`), or that aren't Python, such as Postgres.
    """
    if slow_down == 1.0:
        yield {}
        return
    with tempfile.TemporaryDirectory(prefix="cw-burn-") as folder:
        code = f"{_BURN}\nstart_burning({slow_down})\n"
        Path(folder, "sitecustomize.py").write_text(code, encoding="utf-8")
        yield {"PYTHONPATH": folder}


@contextlib.contextmanager
def paused(pid: int, slow_down: float, cycle: float = 0.1) -> Generator[None]:
    """During the block, a process and its descendants need `slow_down` times as long for everything.

    Args:
        pid: the process.
        slow_down: such as 1.10: they are stopped for a tenth of the time that they run.
        cycle: seconds that they run between two pauses; longer than the requests in flight.
    """
    with _paused(lambda: _family(pid), slow_down, cycle):
        yield


@contextlib.contextmanager
def paused_often(pids: Sequence[int], slow_down: float, cycle: float = 0.01) -> Generator[None]:
    """Like `paused`, but with a `cycle` about as long as a request, so that most requests meet a pause, not one in ten.

    Descendants that these processes start during the block aren't stopped: finding them takes longer than a cycle.
    """
    family = [member for pid in pids for member in _family(pid)] if slow_down != 1.0 else []
    with _paused(lambda: family, slow_down, cycle):
        yield


@contextlib.contextmanager
def stopped(pids: Sequence[int]) -> Generator[None]:
    """Processes don't run during the block."""
    _send(pids, signal.SIGSTOP)
    try:
        yield
    finally:
        _send(pids, signal.SIGCONT)


@contextlib.contextmanager
def _paused(find_pids: Callable[[], Sequence[int]], slow_down: float, cycle: float) -> Generator[None]:
    if slow_down == 1.0:
        yield
        return
    ended = threading.Event()

    def work() -> None:
        run = cycle
        while not ended.is_set():
            time.sleep(run)
            pids = find_pids()
            began = time.perf_counter()
            with stopped(pids):
                time.sleep(cycle * (slow_down - 1))
            # On a busy core this thread wakes up late, and a pause lasts longer than it should.
            run = (time.perf_counter() - began) / (slow_down - 1)

    pauser = threading.Thread(target=work)
    pauser.start()
    try:
        yield
    finally:
        ended.set()
        pauser.join()


def _family(pid: int) -> list[int]:
    with contextlib.suppress(psutil.Error):
        return [pid, *(child.pid for child in psutil.Process(pid).children(recursive=True))]
    return [pid]


def _send(pids: Sequence[int], number: signal.Signals) -> None:
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)
