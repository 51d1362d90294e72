"""The supervisor with tiny children: readiness, early deaths, restarts, and stops that leave nothing behind."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import closing
from pathlib import Path

import psutil
import pytest

from citewire_cli.stack.child import ChildSpec, start_child
from citewire_cli.stack.logs import RotatingFile
from citewire_cli.stack.supervisor import Backoff, StartError, Supervisor
from waiting import wait_until

READY_THEN_WAIT = (
    "import sys, pathlib, signal\npathlib.Path(sys.argv[1]).touch()\nprint('up', flush=True)\nsignal.pause()"
)
IGNORES_SIGTERM = "import signal\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\n" + READY_THEN_WAIT


class Recorder:
    """Records the supervisor's events."""

    def __init__(self) -> None:
        self.lines: list[tuple[str, bytes]] = []
        self.readies: list[tuple[str, int]] = []
        self.ends: list[tuple[str, str, list[str], float]] = []

    def line(self, name: str, raw: bytes) -> None:
        self.lines.append((name, raw))

    def ready(self, name: str, seconds: float, restarts: int) -> None:
        assert seconds >= 0
        self.readies.append((name, restarts))

    def ended(self, name: str, how: str, tail: Sequence[str], pause: float) -> None:
        self.ends.append((name, how, list(tail), pause))


@pytest.fixture
def recorder() -> Recorder:
    return Recorder()


@pytest.fixture
async def supervisor(tmp_path: Path, recorder: Recorder) -> AsyncIterator[Supervisor]:
    supervisor = Supervisor(tmp_path, recorder, backoff=Backoff(first=0.05, most=0.2))
    yield supervisor
    supervisor.kill_all()
    await supervisor.stop([list(supervisor.snapshot())], patience=0)


@pytest.fixture
def child(tmp_path: Path) -> Callable[..., ChildSpec]:
    """A child that runs Python code; it is ready once the file named by its first argument exists."""

    def make(name: str, code: str = READY_THEN_WAIT) -> ChildSpec:
        flag = tmp_path / f"{name}.ready"

        async def ready() -> bool:
            return flag.exists()

        command = (sys.executable, "-c", code, str(flag))
        return ChildSpec(name, command, dict(os.environ), ready, prepare=lambda: flag.unlink(missing_ok=True))

    return make


def pid_of(supervisor: Supervisor, name: str) -> int:
    pid = supervisor.snapshot()[name]["pid"]
    assert isinstance(pid, int)
    return pid


async def test_children_become_ready_and_stop_in_order(
    supervisor: Supervisor, recorder: Recorder, child: Callable[..., ChildSpec], tmp_path: Path
) -> None:
    tell = READY_THEN_WAIT.replace("signal.pause()", "signal.sigwait([signal.SIGTERM])\nprint('bye', flush=True)")
    tell = "import signal\nsignal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])\n" + tell
    supervisor.start(child("first", tell), child("second", tell))
    await supervisor.unless_failed(supervisor.ready(["first", "second"], seconds=20))
    supervisor.settle()
    pids = [pid_of(supervisor, name) for name in ("first", "second")]
    await supervisor.stop([["second"], ["first"]], patience=20)
    assert [line for line in recorder.lines if line[1] == b"bye"] == [("second", b"bye"), ("first", b"bye")]
    assert recorder.ends == []
    assert not any(psutil.pid_exists(pid) for pid in pids)
    assert (tmp_path / "first.log").read_bytes() == b"up\nbye\n"
    assert {state["state"] for state in supervisor.snapshot().values()} == {"ended"}


async def test_death_before_readiness_ends_the_start_with_the_last_lines(
    supervisor: Supervisor, recorder: Recorder, child: Callable[..., ChildSpec]
) -> None:
    supervisor.start(child("good"), child("bad", "print('no database', flush=True)\nraise SystemExit(3)"))
    with pytest.raises(StartError) as caught:
        await supervisor.unless_failed(supervisor.ready(["good", "bad"], seconds=20))
    assert caught.value.title == "bad ended with exit code 3 before the stack was ready"
    assert caught.value.tail == ["no database"]
    assert recorder.ends == []


async def test_death_of_a_ready_child_before_the_stack_is_settled(
    supervisor: Supervisor, child: Callable[..., ChildSpec]
) -> None:
    supervisor.start(child("early"))

    async def rest_of_the_start() -> None:
        await supervisor.ready(["early"], seconds=20)
        os.kill(pid_of(supervisor, "early"), signal.SIGKILL)
        await asyncio.Event().wait()

    with pytest.raises(StartError, match="early was ended by SIGKILL"):
        await supervisor.unless_failed(rest_of_the_start())


async def test_child_that_never_becomes_ready(supervisor: Supervisor, child: Callable[..., ChildSpec]) -> None:
    supervisor.start(child("slow", "import signal\nprint('loading', flush=True)\nsignal.pause()"))
    await wait_until(lambda: pid_or_zero(supervisor, "slow") > 0)
    with pytest.raises(StartError, match=r"slow isn't ready after 0\.5 s"):
        await supervisor.unless_failed(supervisor.ready(["slow"], seconds=0.5))


def pid_or_zero(supervisor: Supervisor, name: str) -> int:
    return int(str(supervisor.snapshot()[name].get("pid", 0)))


async def test_program_that_does_not_exist(supervisor: Supervisor, child: Callable[..., ChildSpec]) -> None:
    spec = child("ghost")
    supervisor.start(ChildSpec("ghost", ("/nonexistent/program",), {}, spec.ready))
    with pytest.raises(StartError) as caught:
        await supervisor.unless_failed(supervisor.ready(["ghost"], seconds=20))
    assert caught.value.tail == [
        "cannot start /nonexistent/program: [Errno 2] No such file or directory: '/nonexistent/program'"
    ] or caught.value.tail == ["cannot start /nonexistent/program: [Errno 2] No such file or directory"]


async def test_killed_child_is_restarted_and_reported(
    supervisor: Supervisor, recorder: Recorder, child: Callable[..., ChildSpec]
) -> None:
    supervisor.start(child("a"), child("b"))
    await supervisor.unless_failed(supervisor.ready(["a", "b"], seconds=20))
    supervisor.settle()
    other, killed = pid_of(supervisor, "b"), pid_of(supervisor, "a")
    os.kill(killed, signal.SIGKILL)
    await wait_until(lambda: ("a", 1) in recorder.readies)
    assert recorder.ends == [("a", "was ended by SIGKILL", ["up"], 0.05)]
    assert pid_of(supervisor, "a") != killed
    assert pid_of(supervisor, "b") == other
    assert supervisor.snapshot()["a"]["restarts"] == 1
    assert supervisor.snapshot()["a"]["state"] == "ready"


async def test_pauses_grow_to_their_limit(
    supervisor: Supervisor, recorder: Recorder, child: Callable[..., ChildSpec], tmp_path: Path
) -> None:
    code = READY_THEN_WAIT.replace("signal.pause()", "if pathlib.Path(sys.argv[1] + '.crash').exists(): sys.exit(9)\n")
    supervisor.start(child("loop", code + "signal.pause()"))
    await supervisor.unless_failed(supervisor.ready(["loop"], seconds=20))
    supervisor.settle()
    (tmp_path / "loop.ready.crash").touch()
    os.kill(pid_of(supervisor, "loop"), signal.SIGKILL)
    await wait_until(lambda: len(recorder.ends) == 5)
    assert [end[3] for end in recorder.ends] == [0.05, 0.1, 0.2, 0.2, 0.2]
    assert recorder.ends[1][1] == "ended with exit code 9"
    (tmp_path / "loop.ready.crash").unlink()
    await wait_until(lambda: supervisor.snapshot()["loop"]["state"] == "ready")


async def test_stop_while_waiting_for_a_restart(
    supervisor: Supervisor, recorder: Recorder, child: Callable[..., ChildSpec]
) -> None:
    patient = Supervisor(supervisor.logs, recorder, backoff=Backoff(first=3600))
    patient.start(child("a"))
    await patient.unless_failed(patient.ready(["a"], seconds=20))
    patient.settle()
    os.kill(pid_of(patient, "a"), signal.SIGKILL)
    await wait_until(lambda: len(recorder.ends) == 1)
    async with asyncio.timeout(5):
        await patient.stop([["a"]], patience=5)


async def test_child_that_ignores_sigterm_is_killed(supervisor: Supervisor, child: Callable[..., ChildSpec]) -> None:
    supervisor.start(child("stubborn", IGNORES_SIGTERM))
    await supervisor.unless_failed(supervisor.ready(["stubborn"], seconds=20))
    supervisor.settle()
    pid = pid_of(supervisor, "stubborn")
    began = time.monotonic()
    await supervisor.stop([["stubborn"]], patience=0.3)
    assert 0.3 <= time.monotonic() - began < 10
    assert not psutil.pid_exists(pid)


async def test_second_stop_request_kills_at_once(supervisor: Supervisor, child: Callable[..., ChildSpec]) -> None:
    supervisor.start(child("one", IGNORES_SIGTERM), child("two", IGNORES_SIGTERM))
    await supervisor.unless_failed(supervisor.ready(["one", "two"], seconds=20))
    supervisor.settle()
    stopping = asyncio.create_task(supervisor.stop([["one"], ["two"]], patience=3600))
    await asyncio.sleep(0)
    supervisor.kill_all()
    async with asyncio.timeout(10):
        await stopping


async def test_grandchildren_in_the_group_end_with_their_parent(
    supervisor: Supervisor, child: Callable[..., ChildSpec], tmp_path: Path
) -> None:
    code = (
        "import subprocess, sys, pathlib\n"
        "p = subprocess.Popen([sys.executable, '-c', 'import signal; signal.pause()'])\n"
        "pathlib.Path(sys.argv[1] + '.pid').write_text(str(p.pid))\n" + READY_THEN_WAIT
    )
    supervisor.start(child("parent", code))
    await supervisor.unless_failed(supervisor.ready(["parent"], seconds=20))
    supervisor.settle()
    grandchild = psutil.Process(int((tmp_path / "parent.ready.pid").read_text()))
    await supervisor.stop([["parent"]], patience=10)
    _, left = await asyncio.to_thread(psutil.wait_procs, [grandchild], 20)
    assert left == []


async def test_a_command_runs_to_its_end(
    supervisor: Supervisor, recorder: Recorder, child: Callable[..., ChildSpec]
) -> None:
    await supervisor.run_once(child("fine", "print('done')"), what="It failed")
    assert recorder.lines == [("fine", b"done")]
    with pytest.raises(StartError) as caught:
        await supervisor.run_once(child("broken", "raise SystemExit('bad migration')"), what="It failed")
    assert caught.value.title == "It failed"
    assert caught.value.tail == ["bad migration"]


async def test_python_that_cannot_be_started(
    supervisor: Supervisor, child: Callable[..., ChildSpec], monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = child("any")
    monkeypatch.setattr(sys, "executable", "/nonexistent/python")
    with pytest.raises(StartError, match=r"It failed: It cannot be started: .*/nonexistent/python"):
        await supervisor.run_once(spec, what="It failed")
    supervisor.start(spec)
    with pytest.raises(StartError) as caught:
        await supervisor.unless_failed(supervisor.ready(["any"], seconds=20))
    assert "/nonexistent/python" in caught.value.tail[0]


async def test_cancelling_a_command_ends_it(
    supervisor: Supervisor, recorder: Recorder, child: Callable[..., ChildSpec]
) -> None:
    code = "import os, signal\nprint(os.getpid(), flush=True)\nsignal.pause()"
    running = asyncio.create_task(supervisor.run_once(child("long", code), what="It failed"))
    await wait_until(lambda: len(recorder.lines) == 1)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert not psutil.pid_exists(int(recorder.lines[0][1]))


@pytest.mark.parametrize("pipe_guard", [False, True], ids=["kernel", "pipe"])
async def test_guard_passes_signals_codes_and_output(
    child: Callable[..., ChildSpec], tmp_path: Path, pipe_guard: bool
) -> None:
    lines: list[bytes] = []
    # Not `print`: the signal may come while `up` is being flushed, and standard output isn't reentrant.
    code = (
        "import os, signal, sys\n"
        "def bye(*_): os.write(1, b'term\\n'); sys.exit(7)\n"
        "signal.signal(signal.SIGTERM, bye)\n"
        "os.write(1, b'up\\n')\nsignal.pause()"
    )
    with closing(RotatingFile(tmp_path / "log")) as log:
        running = await start_child(child("x", code), log, lines.append, pipe_guard=pipe_guard)
        await wait_until(lambda: lines == [b"up"])
        assert await running.stop([signal.SIGTERM], patience=20) == 7
        assert lines == [b"up", b"term"]


PARENT = """
import asyncio, pathlib, sys, os
from citewire_cli.stack.child import ChildSpec, start_child
from citewire_cli.stack.logs import RotatingFile

async def never(): return False

async def main():
    folder = pathlib.Path(sys.argv[1])
    log = RotatingFile(folder / "log")
    code = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('up', flush=True); signal.pause()"
    started = asyncio.Event()
    for pipe in (False, True):
        spec = ChildSpec("c", (sys.executable, "-c", code), dict(os.environ), never)
        up = asyncio.Event()
        child = await start_child(spec, log, lambda line: up.set(), pipe_guard=pipe)
        await up.wait()
        print(child.pid, flush=True)
    await asyncio.Event().wait()

asyncio.run(main())
"""


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSEGV])
def test_children_end_when_up_is_killed(tmp_path: Path, number: signal.Signals) -> None:
    with subprocess.Popen([sys.executable, "-c", PARENT, str(tmp_path)], stdout=subprocess.PIPE) as parent:
        try:
            assert parent.stdout is not None
            guards = [psutil.Process(int(parent.stdout.readline())) for _ in range(2)]
            behind_the_pipe = guards[1].children()
            assert len(behind_the_pipe) == 1
            everybody = [*guards, *behind_the_pipe]
            assert all(process.is_running() for process in everybody)
        finally:
            parent.send_signal(number)
    _, left = psutil.wait_procs(everybody, timeout=20)
    assert left == []
