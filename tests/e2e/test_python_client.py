"""The Python client as its users have it: its wheel in an empty environment, against the running stack."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from local_stack import LocalStack

ROOT = Path(__file__).resolve().parents[2]
README = ROOT / "clients" / "python" / "README.md"
EXAMPLES = re.findall(r"```python\n(.*?)```", README.read_text(encoding="utf-8"), re.DOTALL)


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A Python that has the client's wheel and what it asks for, and nothing of this repository."""
    folder = tmp_path_factory.mktemp("client")
    uv = shutil.which("uv") or str(ROOT / ".uv" / "bin" / "uv")
    for command in (
        ["build", "--quiet", "--wheel", str(ROOT / "clients" / "python"), "--out-dir", str(folder)],
        ["venv", "--quiet", "--python", sys.executable, str(folder / "venv")],
    ):
        subprocess.run([uv, *command], check=True, timeout=120)
    (wheel,) = folder.glob("*.whl")
    python = folder / "venv" / "bin" / "python"
    subprocess.run([uv, "pip", "install", "--quiet", "--python", python, wheel], check=True, timeout=120)
    return python


def test_the_examples_of_its_readme_run(python: Path, stack: LocalStack, tmp_path: Path) -> None:
    environment = {"PATH": os.environ["PATH"], "CITEWIRE_URL": stack.base_url, "PYTHONWARNINGS": "error"}
    outputs: list[str] = []
    for example in EXAMPLES:
        done = subprocess.run(
            [python, "-c", example],
            cwd=tmp_path,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )
        assert done.returncode == 0, done.stderr
        outputs.append(done.stdout)
    upload, listed, asked = outputs
    assert upload.startswith("ready 1\n")
    assert "100 degrees" in upload
    assert upload.endswith("supported At sea level water boils at 100 degrees.\n"), upload
    assert listed == "water.md ready\n"
    assert asked.startswith("water.md\n")
    assert re.search(r"\n\d+ tokens read\n$", asked), asked
