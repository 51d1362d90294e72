"""Builds the images of a rehearsal: today's, those of an earlier commit, and those of the surroundings."""

import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

from deploy.rehearsal.engine import EngineError

ROOT = Path(__file__).resolve().parents[2]
CURRENT_TAG = "localhost/citewire/{name}:dev"
PREVIOUS_TAG = "localhost/citewire/{name}:previous"
WORLD = "localhost/citewire/rehearsal:dev"


def commands(shows: Iterable[str], *, commit: str | None, previous: str) -> list[list[str]]:
    """Returns the commands that build the images for these shows.

    Args:
        shows: Their names.
        commit: Today's commit; None builds the working tree.
        previous: The commit that `upgrade` starts from.
    """
    build = [sys.executable, str(ROOT / "scripts" / "images.py")]
    builds = [
        [*build, "--tag", CURRENT_TAG, *(("--commit", commit) if commit else ())],
        [*build, "--tag", CURRENT_TAG, "--only", "rehearsal"],
    ]
    if "upgrade" in shows:
        builds.append([*build, "--tag", PREVIOUS_TAG, "--commit", previous])
    return builds


def build(shows: Iterable[str], *, commit: str | None, previous: str) -> None:
    """Builds the images.

    Raises:
        EngineError: An image couldn't be built; the reason is on stderr.
    """
    for command in commands(shows, commit=commit, previous=previous):
        if subprocess.run(command, check=False).returncode != 0:
            raise EngineError("The images weren't built, so nothing was rehearsed.")
