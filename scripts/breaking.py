"""Checks that the contracts break no client of the previous commit (buf's category FILE).

Compared with HEAD while the contracts are being changed, with HEAD's parent once they are committed, and with
another commit if BREAKING_AGAINST names one. Where there is nothing to compare with, that is said.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def main() -> int:
    """Runs the comparison and returns buf's exit status."""
    against = os.environ.get("BREAKING_AGAINST") or ("HEAD" if _being_changed() else "HEAD~1")
    if not _has_protos(against):
        sys.stdout.write(f"breaking changes: nothing to compare with, {against} has no contracts\n")
        return 0
    with tempfile.TemporaryDirectory(prefix="cw-breaking-") as folder:
        archive = Path(folder) / "protos.tar"
        archive.write_bytes(_git("archive", "--format=tar", against, "protos"))
        buf = Path(sys.executable).with_name("buf")
        code = subprocess.run(
            [buf, "breaking", "protos", "--against", f"{archive}#subdir=protos"], cwd=ROOT, check=False
        ).returncode
    sys.stdout.write(f"breaking changes against {against}: {'none' if code == 0 else 'see above'}\n")
    return code


def _being_changed() -> bool:
    return bool(_git("status", "--porcelain", "--", "protos/*.proto"))


def _has_protos(commit: str) -> bool:
    return b".proto" in _git("ls-tree", "-r", "--name-only", commit, "protos")


def _git(*arguments: str) -> bytes:
    """Output of a git command; empty where it fails, as it does for a parent that doesn't exist."""
    return subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, check=False).stdout


if __name__ == "__main__":
    sys.exit(main())
