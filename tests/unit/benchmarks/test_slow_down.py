"""Slowed-down processes must still do what they do otherwise, and end like others."""

from __future__ import annotations

import asyncio
import sys
import time
from pathlib import Path

import psutil

from benchmarks.slow_down import burning, module_command, stopped

_BUSY = """
import sys, time
while time.process_time() < 0.2:
    pass
print(__name__, *sys.argv[1:])
"""


async def _run(*command: str | Path, environment: dict[str, str] | None = None) -> tuple[int | None, str]:
    process = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE, env=environment)
    output, _ = await process.communicate()
    return process.returncode, output.decode().strip()


async def test_a_burning_module_gets_its_arguments_and_ends_normally(tmp_path: Path) -> None:
    (tmp_path / "busy.py").write_text(_BUSY)
    command = module_command(Path(sys.executable), "busy", "serve", slow_down=1.5)
    assert await _run(*command, environment={"PYTHONPATH": str(tmp_path)}) == (0, "__main__ serve")


async def test_any_python_process_burns_in_its_environment_and_ends_normally() -> None:
    code = "import signal\n" + _BUSY + "print(signal.getitimer(signal.ITIMER_PROF)[1])"
    with burning(1.5) as environment:
        assert await _run(sys.executable, "-c", code, environment=environment) == (0, "__main__\n0.01")


async def test_a_process_is_stopped_during_the_block_only() -> None:
    process = await asyncio.create_subprocess_exec(sys.executable, "-c", "while True: pass")
    try:
        with stopped([process.pid]):
            await _wait_for(process.pid, psutil.STATUS_STOPPED)
        await _wait_for(process.pid, psutil.STATUS_RUNNING)
    finally:
        process.kill()
        await process.wait()


async def _wait_for(pid: int, status: str) -> None:
    deadline = time.monotonic() + 10
    while (current := psutil.Process(pid).status()) != status:
        assert time.monotonic() < deadline, f"the process is still {current}"
        await asyncio.sleep(0.01)
