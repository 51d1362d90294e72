"""LangChain, LlamaIndex and Haystack in their own environment; as a program it prints that environment's Python."""

from __future__ import annotations

import sys
from pathlib import Path

from scripts.tool_environment import ROOT, install_tool

REQUIREMENTS = ROOT / "integrations" / "requirements.txt"


def install() -> Path:
    """Returns the environment's Python; see `install_tool`."""
    return install_tool("python", "LangChain, LlamaIndex and Haystack", REQUIREMENTS, name="frameworks")


if __name__ == "__main__":
    try:
        sys.stdout.write(f"{install()}\n")
    except RuntimeError as exc:
        sys.exit(str(exc))
