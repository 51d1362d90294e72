"""The Python client as users install it: its wheel in an empty environment, against the running stack."""

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
PORTS = {"50052": "retriever", "50053": "generator"}
EXAMPLES = re.findall(r"```python\n(.*?)```", README.read_text(encoding="utf-8"), re.DOTALL)


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A Python with the client's and the contracts' wheels and their dependencies, and nothing else of ours."""
    folder = tmp_path_factory.mktemp("client")
    uv = shutil.which("uv") or str(ROOT / ".uv" / "bin" / "uv")
    for command in (
        ["build", "--quiet", "--wheel", str(ROOT / "clients" / "python"), "--out-dir", str(folder)],
        ["build", "--quiet", "--wheel", str(ROOT / "protos"), "--out-dir", str(folder)],
        ["venv", "--quiet", "--python", sys.executable, str(folder / "venv")],
    ):
        subprocess.run([uv, *command], check=True, timeout=120)
    client, protos = sorted(folder.glob("*.whl"))
    python = folder / "venv" / "bin" / "python"
    subprocess.run(
        [uv, "pip", "install", "--quiet", "--python", python, f"{client}[grpc]", protos], check=True, timeout=120
    )
    return python


@pytest.mark.client("citewire-client", "[Examples](../clients/python/README.md), with its wheel alone")
def test_the_readmes_examples_run(python: Path, stack: LocalStack, tmp_path: Path) -> None:
    environment = {"PATH": os.environ["PATH"], "CITEWIRE_URL": stack.base_url, "PYTHONWARNINGS": "error"}
    environment["CITEWIRE_DATA_DIR"] = str(stack.data_dir)
    ports = stack.ports("port")
    outputs: list[str] = []
    for example in EXAMPLES:
        done = subprocess.run(
            [python, "-c", re.sub(r"127\.0\.0\.1:(5005\d)", lambda m: f"127.0.0.1:{ports[PORTS[m[1]]]}", example)],
            cwd=tmp_path,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )
        assert done.returncode == 0, done.stderr
        outputs.append(done.stdout)
    upload, listed, asked, generated, searched = outputs
    assert upload.startswith("ready 1\n")
    assert "100 degrees" in upload
    assert upload.endswith("supported At sea level water boils at 100 degrees.\n"), upload
    assert listed == "water.md ready\n"
    assert asked.startswith("water.md\n")
    assert re.search(r"\n\d+ tokens read\n$", asked), asked
    assert "2.5 metres" in generated
    assert re.search(r"\nrefused: \['\w+'.*\]\n$", generated), generated
    assert "100 degrees" in searched
