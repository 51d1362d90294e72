"""Writes THIRD_PARTY_NOTICES.md: the locked dependencies of Citewire's packages on Linux, with their licences.

Usage: python scripts/notices.py [--check]
"""

from __future__ import annotations

import json
import subprocess
import sys
from importlib.metadata import metadata
from pathlib import Path

from packaging.requirements import Requirement

ROOT = Path(__file__).resolve().parent.parent
NOTICES = ROOT / "THIRD_PARTY_NOTICES.md"
PYTHONS = ("3.11", "3.12", "3.13")
LONGEST_LICENCE = 60  # anything longer is the licence's text, not its name

HEAD = """# Third-party notices

Citewire's packages need these on Linux. Each distribution holds its licence's text. An image's bill of materials
lists what is in the image. `make notices` writes this file from `uv.lock`.

| package | version | licence |
|---|---|---|
"""

PAGE_HEAD = """
The page at `/` holds these; their licences' texts are at `/licences.txt`.

| package | version | licence |
|---|---|---|
"""


def main(arguments: list[str]) -> int:
    """Writes the file, or with `--check` returns 1 if it doesn't match the lock."""
    packages = [(name, version, _licence(name)) for name, version in locked_packages()]
    text = "".join((HEAD, *map(_row, packages), PAGE_HEAD, *map(_row, bundled_packages())))
    if "--check" not in arguments:
        NOTICES.write_text(text, encoding="utf-8")
    elif not NOTICES.exists() or NOTICES.read_text(encoding="utf-8") != text:
        sys.stdout.write("THIRD_PARTY_NOTICES.md doesn't match the locks: run `make notices` and commit it\n")
        return 1
    return 0


def locked_packages() -> list[tuple[str, str]]:
    """Name and version of each locked package that is installed with ours on a supported Python."""
    options = ("--frozen", "--no-dev", "--no-emit-workspace", "--no-hashes", "--no-annotate", "--no-header")
    exported = subprocess.run(
        [ROOT / ".uv" / "bin" / "uv", "export", "--quiet", *options],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    requirements = [Requirement(line) for line in exported.stdout.splitlines()]
    return [
        (requirement.name, str(requirement.specifier).removeprefix("=="))
        for requirement in requirements
        if any(_is_installed_on(requirement, python) for python in PYTHONS)
    ]


def bundled_packages() -> list[tuple[str, str, str]]:
    """Name, version and licence of each locked npm package that is part of the page."""
    lock = json.loads((ROOT / "web" / "package-lock.json").read_text(encoding="utf-8"))
    return [
        (path.removeprefix("node_modules/"), entry["version"], entry["license"])
        for path, entry in sorted(lock["packages"].items())
        if path.startswith("node_modules/") and not entry.get("dev") and not entry.get("link")
    ]


def _row(package: tuple[str, str, str]) -> str:
    return f"| {' | '.join(package)} |\n"


def _is_installed_on(requirement: Requirement, python: str) -> bool:
    # The latest patch release: packages needed only by older ones aren't installed here, so their licences are unknown.
    environment = {"sys_platform": "linux", "python_version": python, "python_full_version": f"{python}.99"}
    return requirement.marker is None or requirement.marker.evaluate(environment)


def _licence(name: str) -> str:
    """The licence in the package's metadata."""
    fields = metadata(name).json
    classifiers = [line.split("::")[-1].strip() for line in fields.get("classifier", ()) if "License ::" in line]
    named = str(fields.get("license_expression") or fields.get("license") or "")
    is_a_name = 0 < len(named) <= LONGEST_LICENCE and "::" not in named
    return named if is_a_name else ", ".join(classifiers) or "see the package"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
