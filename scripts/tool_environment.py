"""Tools in their own environments: installed once from pinned versions, and not in our lock."""

from __future__ import annotations

import fcntl
import hashlib
import shutil
import subprocess
import sys
from pathlib import Path
from tempfile import gettempdir

ROOT = Path(__file__).resolve().parent.parent
HOMES = ROOT / ".citewire-bench"


def install_tool(program: str, called: str, requirements: Path, *, name: str | None = None) -> Path:
    """Installs a tool unless it is installed, and returns its program. Concurrent processes wait for each other.

    Args:
        program: The program's name.
        called: The tool's name for messages.
        requirements: Its pinned packages; other packages get another environment.
        name: The name of its environment; None: the program's name.

    Raises:
        RuntimeError: It can't be installed; the message has the installer's output.
    """
    digest = hashlib.sha256(requirements.read_bytes() + sys.version.encode()).hexdigest()[:12]
    name = name or program
    home = HOMES / f"{name}-{digest}"
    HOMES.mkdir(exist_ok=True)
    with (HOMES / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (home / ".installed").exists():
            sys.stderr.write(f"installing {called} into {home.relative_to(ROOT)} ...\n")
            sys.stderr.flush()
            _uv(called, "venv", "--quiet", "--clear", "--python", sys.executable, str(home))
            python = str(home / "bin" / "python")
            _uv(called, "pip", "install", "--quiet", "--python", python, "-r", str(requirements))
            (home / ".installed").touch()
    return home / "bin" / program


def _uv(called: str, *arguments: str) -> None:
    uv = shutil.which("uv") or str(ROOT / ".uv" / "bin" / "uv")
    # In another folder, because uv would apply the overrides of our own lock to the tool's packages.
    done = subprocess.run([uv, *arguments], cwd=gettempdir(), capture_output=True, text=True, check=False)
    if done.returncode != 0:
        output = (done.stderr + done.stdout)[-2000:]
        msg = f"{called} could not be installed (is a package registry reachable?):\n{output}"
        raise RuntimeError(msg)
