"""The cluster's backup script, with a pg_basebackup that takes part of what another run does."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from citus_backup import SCRIPTS

OTHER_RUN = """
case "$*" in */worker/*) rm -rf "$FOLDER"/coordinator/base/mine ;; esac
"""
OTHER_PART = """
case "$*" in */coordinator/*) rm -rf "$part" && mkdir "$FOLDER/coordinator/base/.part" ;; esac
"""


def take(folder: Path, meanwhile: str) -> subprocess.CompletedProcess[str]:
    programs = folder / "bin"
    programs.mkdir()
    base_backup = programs / "pg_basebackup"
    base_backup.write_text(
        '#!/bin/sh\nfor each in "$@"; do case "$each" in --pgdata=*) part="${each#*=}" ;; esac; done\n'
        f'mkdir -p "$part"\n{meanwhile}'
    )
    base_backup.chmod(0o755)
    return subprocess.run(
        ["sh", SCRIPTS / "backup.sh", folder, "mine", "2", "coordinator=a", "worker=b"],
        env={"PATH": f"{programs}{os.pathsep}{os.environ['PATH']}", "FOLDER": str(folder)},
        capture_output=True,
        text=True,
        check=False,
        timeout=20,
    )


def test_a_backup_is_whole_with_a_base_of_each_node(tmp_path: Path) -> None:
    done = take(tmp_path, "")
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "whole" / "mine").exists()


@pytest.mark.parametrize("meanwhile", [OTHER_RUN, OTHER_PART], ids=["it removes a base", "it begins its own"])
def test_a_backup_that_another_run_disturbs_does_not_count_as_whole(tmp_path: Path, meanwhile: str) -> None:
    assert take(tmp_path, meanwhile).returncode != 0
    assert not (tmp_path / "whole" / "mine").exists()
