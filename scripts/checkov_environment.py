"""Checkov in an environment of its own: installed once from pinned versions, and never in our lock."""

from __future__ import annotations

import fcntl
import hashlib
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
REQUIREMENTS = ROOT / "deploy" / "k8s" / "tests" / "checkov-requirements.txt"
HOMES = ROOT / ".citewire-bench"


def install() -> Path:
    """Installs checkov unless it is there, and returns its program. Processes that ask at once wait for one another.

    Raises:
        RuntimeError: It can't be installed; the message says what the installer said.
    """
    digest = hashlib.sha256(REQUIREMENTS.read_bytes() + sys.version.encode()).hexdigest()[:12]
    home = HOMES / f"checkov-{digest}"
    HOMES.mkdir(exist_ok=True)
    with (HOMES / "checkov.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (home / ".installed").exists():
            sys.stderr.write(f"installing checkov into {home.relative_to(ROOT)} ...\n")
            _uv("venv", "--quiet", "--clear", "--python", sys.executable, str(home))
            _uv("pip", "install", "--quiet", "--python", str(home / "bin" / "python"), "-r", str(REQUIREMENTS))
            (home / ".installed").touch()
    return home / "bin" / "checkov"


def _uv(*arguments: str) -> None:
    uv = shutil.which("uv") or str(ROOT / ".uv" / "bin" / "uv")
    done = subprocess.run([uv, *arguments], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        said = (done.stderr + done.stdout)[-2000:]
        msg = f"checkov could not be installed (is a package registry reachable?):\n{said}"
        raise RuntimeError(msg)


if __name__ == "__main__":
    try:
        install()
    except RuntimeError as exc:
        sys.exit(str(exc))
