"""Completion in the shells: each sources the printed script and asks for completions."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from cli_types import Run

COMMAND = str(Path(sys.executable).with_name("citewire"))
"""Called by its path, as in a clone: it needn't be on the PATH."""

BASH = """
source {script}
COMP_WORDS=({command} {typed}); COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1))
_citewire_completion {command}
printf '%s\\n' "${{COMPREPLY[@]}}"
complete -p citewire
"""
ZSH = """
compdef() {{ print -r -- "compdef $@" }}
_arguments() {{ print -r -- "$@" }}
source {script}
words=({command} {typed}); CURRENT=${{#words}}
_citewire_completion
"""
FISH = "source {script}; complete -C '{command} {typed}'"
SHELLS = [
    pytest.param("bash", ["bash", "--norc", "-c"], BASH, id="bash"),
    pytest.param("zsh", ["zsh", "-f", "-c"], ZSH, marks=pytest.mark.system(program="zsh", package="zsh"), id="zsh"),
    pytest.param(
        "fish", ["fish", "--no-config", "-c"], FISH, marks=pytest.mark.system(program="fish", package="fish"), id="fish"
    ),
]


@pytest.mark.parametrize(("shell", "call", "lines"), SHELLS)
@pytest.mark.parametrize(
    ("typed", "there", "absent"), [("inge", "ingest", "search"), ("ask --all", "--all-sources", "--collection")]
)
def test_commands_and_options_are_completed(
    run: Run, tmp_path: Path, shell: str, call: list[str], lines: str, typed: str, there: str, absent: str
) -> None:
    script = tmp_path / "script"
    script.write_text(run("completion", shell).stdout)
    filled = lines.format(script=script, command=COMMAND, typed=typed)
    done = subprocess.run([*call, filled], capture_output=True, text=True, timeout=60, check=True)
    assert there in done.stdout, done.stderr
    assert absent not in done.stdout
    if shell != "fish":
        assert "citewire" in done.stdout.replace(COMMAND, "")
    assert done.stderr == ""


def test_other_shells_are_wrong_usage(run: Run) -> None:
    assert run("completion", "cmd").exit_code == 2
