"""Checkov in its own environment."""

from __future__ import annotations

import sys
from pathlib import Path

from scripts.tool_environment import ROOT, install_tool

REQUIREMENTS = ROOT / "deploy" / "k8s" / "tests" / "checkov-requirements.txt"


def install() -> Path:
    """Returns checkov's program; see `install_tool`."""
    return install_tool("checkov", "checkov", REQUIREMENTS)


if __name__ == "__main__":
    try:
        install()
    except RuntimeError as exc:
        sys.exit(str(exc))
