"""The client's location and the tools that generate it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any, Final

from scripts.tool_environment import install_tool

ROOT: Final = Path(__file__).resolve().parents[2]
PACKAGE: Final = ROOT / "clients" / "python" / "src" / "citewire_client"
REQUIREMENTS: Final = Path(__file__).with_name("requirements.txt")

Json = dict[str, Any]


def generator() -> Path:
    """Returns the generator of models; unasync is in the same environment."""
    return install_tool("datamodel-codegen", "the generator of models", REQUIREMENTS)


def formatted(text: str, name: str) -> str:
    """Returns Python code in the project's format."""
    ruff = [sys.executable, "-m", "ruff"]
    stdin = ["--stdin-filename", str(PACKAGE / name), "-"]
    for command in (["check", "--fix-only", "--select", "I,UP,F401", "--quiet"], ["format", "--quiet"]):
        done = subprocess.run(
            [*ruff, *command, *stdin], input=text, capture_output=True, text=True, check=True, cwd=ROOT
        )
        text = done.stdout
    return text
