"""npm packages for tests, at the versions of tests/clients/package.json, in folders kept between runs."""

from __future__ import annotations

import fcntl
import json
import shutil
import subprocess
from pathlib import Path

from scripts.client_table import PACKAGES
from scripts.tool_environment import HOMES, ROOT


def npm_folder(*names: str) -> Path:
    """A folder with these packages in its `node_modules`; concurrent processes wait for each other."""
    pinned = json.loads((ROOT / PACKAGES).read_text(encoding="utf-8"))["dependencies"]
    packages = [f"{name}@{pinned[name]}" for name in names]
    home = HOMES / "-".join(package.replace("@", "-").replace("/", "-").lstrip("-") for package in packages)
    HOMES.mkdir(exist_ok=True)
    with (HOMES / f"{home.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (home / "done").exists():
            shutil.rmtree(home, ignore_errors=True)
            home.mkdir(parents=True)
            (home / "package.json").write_text('{"private": true}')
            quiet = ["--no-audit", "--no-fund", "--ignore-scripts", "--loglevel=error"]
            subprocess.run(["npm", "install", *quiet, *packages], cwd=home, check=True, timeout=240)
            (home / "done").touch()
    return home
