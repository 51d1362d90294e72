"""LiteLLM's proxy in an environment of its own: installed once from pinned versions, and never in our lock."""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
REQUIREMENTS = ROOT / "benchmarks" / "litellm-requirements.txt"
HOMES = ROOT / ".citewire-bench"
_INSTALLED = ".installed"
_LEFT_OUT = ("CITEWIRE_", "OPENAI_", "ANTHROPIC_", "OLLAMA_", "LITELLM_", "OTEL_", "VIRTUAL_ENV", "PYTHON")


def install() -> Path:
    """Installs the proxy unless it is there, and returns its program. Processes that ask at once wait for one another.

    Raises:
        RuntimeError: It can't be installed; the message says what the installer said.
    """
    digest = hashlib.sha256(REQUIREMENTS.read_bytes() + sys.version.encode()).hexdigest()[:12]
    home = HOMES / f"litellm-{digest}"
    HOMES.mkdir(exist_ok=True)
    with _alone(HOMES / "litellm.lock"):
        if not (home / _INSTALLED).exists():
            print(f"installing LiteLLM's proxy into {home.relative_to(ROOT)} ...", file=sys.stderr, flush=True)
            _uv("venv", "--quiet", "--clear", "--python", sys.executable, str(home))
            _uv("pip", "install", "--quiet", "--python", str(home / "bin" / "python"), "-r", str(REQUIREMENTS))
            (home / _INSTALLED).touch()
    return home / "bin" / "litellm"


def environment() -> dict[str, str]:
    """What the proxy is run with: as its documentation has it in production, without a look at the internet.

    Proxies, providers and our own settings are left out: they would change what it does.
    """
    plain = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(_LEFT_OUT) and not name.lower().endswith("_proxy")
    }
    return {
        **plain,
        "LITELLM_MODE": "PRODUCTION",
        "LITELLM_LOG": "ERROR",
        "LITELLM_LOCAL_MODEL_COST_MAP": "True",
        "LITELLM_DONT_SHOW_FEEDBACK_BOX": "True",
        "NO_DOCS": "True",
    }


@contextmanager
def _alone(lock: Path) -> Generator[None]:
    with lock.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _uv(*arguments: str) -> None:
    uv = shutil.which("uv") or str(ROOT / ".uv" / "bin" / "uv")
    done = subprocess.run([uv, *arguments], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        said = (done.stderr + done.stdout)[-2000:]
        msg = f"LiteLLM's proxy could not be installed (is a package registry reachable?):\n{said}"
        raise RuntimeError(msg)


if __name__ == "__main__":
    try:
        install()
    except RuntimeError as exc:
        sys.exit(str(exc))
