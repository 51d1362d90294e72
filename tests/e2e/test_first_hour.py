"""A newcomer's first hour: runs every command of the README and the start pages exactly as it is printed.

A `sh` block has commands, and a `text` block after it their output, where `…` stands for anything. These differ from a
newcomer's machine: the port is a free one instead of 8080, the home folder is a temporary one, `…` for a key becomes a
dummy key, and `make test` runs one file only. Node is never available, and the page must be served all the same. A
scaled-down run makes only one of several starts in a row that differ in their model.
"""

from __future__ import annotations

import os
import random
import re
import shutil
import signal
import socket
import subprocess
import sys
import sysconfig
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import httpx
import pytest

from embedded_postgres import link_tree
from proof_scale import ProofScale

ROOT = Path(__file__).resolve().parents[2]
PAGES = ("README.md", *sorted(path.relative_to(ROOT).as_posix() for path in (ROOT / "docs" / "start").glob("*.md")))
READY = "Ctrl-C stops everything."
START_SECONDS = 300.0
TESTS = "tests/unit/clients/test_sse.py -n 0"
_BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class Step:
    """Commands, and their output as far as the page shows it."""

    page: str
    commands: str
    expected: list[str] = field(default_factory=list[str])

    @property
    def starts(self) -> bool:
        """Whether the commands start the stack, which stays in the foreground."""
        return self.commands.rstrip().endswith("make up")


def steps() -> list[Step]:
    results: list[Step] = []
    for page in PAGES:
        for kind, text in _BLOCK.findall((ROOT / page).read_text(encoding="utf-8")):
            if kind == "sh":
                results.append(Step(page, text))
            elif kind == "text" and results and results[-1].page == page:
                results[-1].expected.append(text)
    return results


def fewer_starts(all_steps: list[Step], chance: random.Random) -> list[Step]:
    """Keeps two starts of each row of consecutive ones: the last, and one of the others at random."""
    results: list[Step] = []
    row: list[Step] = []
    for step in all_steps:
        if not step.starts:
            results += [chance.choice(row[:-1])] if row[:-1] else []
            results += row[-1:]
            row = []
        (row if step.starts else results).append(step)
    return results + row


def test_the_pages_have_a_first_hours_commands() -> None:
    commands = [command for step in steps() for command in step.commands.splitlines()]
    assert commands[0] == "make up"
    assert "make test" in commands
    assert len([command for command in commands if command.startswith(".venv/bin/citewire")]) >= 7
    assert not [block for page in PAGES for block in _BLOCK.findall((ROOT / page).read_text()) if block[0] == "console"]


class Newcomer:
    """A fresh clone, a home folder, and at most one stack in the foreground."""

    def __init__(self, folder: Path) -> None:
        self.clone = folder / "citewire"
        self.home = folder / "home"
        self.log = folder / "log.txt"
        self.port = _free_port()
        self._bytecode = self.home / "bytecode"  # ends with the clone
        self.node_calls = folder / "node-calls.txt"
        self._programs = folder / "programs"
        self._stack: subprocess.Popen[bytes] | None = None

    def clone_repository(self) -> None:
        """Copies what git knows, and what it doesn't ignore: a clone of the working tree."""
        listed = subprocess.run(
            ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
            cwd=ROOT, capture_output=True, check=True,
        )  # fmt: skip
        for name in filter(None, listed.stdout.decode().split("\0")):
            source, target = ROOT / name, self.clone / name
            if source.is_symlink() or source.exists():
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(source, target, follow_symlinks=False)
        shutil.copytree(ROOT / ".uv", self.clone / ".uv", symlinks=True)  # `make` would download it
        for name in ("litellm", "checkov", "frameworks"):  # environments that the tests in TESTS don't need
            mark = self.clone / ".citewire-bench" / f"{name}.installed"
            mark.parent.mkdir(exist_ok=True)
            mark.touch()
        self._bring_bytecode()

    def _bring_bytecode(self) -> None:
        """Copies the bytecode that this run has compiled: compiling would be most of a first start's work.

        Python uses bytecode only if the source has the same size and modification time, as it has in the clone.
        """
        library = Path(sysconfig.get_path("stdlib"))
        for source, target in ((ROOT, self.clone), (library, library)):
            into = self._bytecode.joinpath(*target.parts[1:])
            if sys.pycache_prefix is None:
                _link_beside(source, into)
            elif (compiled := Path(sys.pycache_prefix).joinpath(*source.parts[1:])).is_dir():
                link_tree(compiled, into)

    def furnish(self) -> None:
        """Writes the handbook that the pages mention."""
        handbook = self.home / "Documents" / "handbook"
        (handbook / "pay").mkdir(parents=True)
        (handbook / "README.md").write_text("# Harbour\n\nThe harbour master is called Ottilie Brandt.\n")
        (handbook / "pay" / "LICENSE").write_text("Tips are shared among the crew of a sailing.\n")
        (handbook / "logo.png").write_bytes(b"\x89PNG\r\n\x1a\n\0\0")

    def forbid_node(self) -> None:
        """Puts failing replacements of Node's programs first on PATH; they record their calls."""
        self._programs.mkdir()
        for name in ("node", "nodejs", "npm", "npx", "corepack"):
            program = self._programs / name
            program.write_text(f'#!/bin/sh\necho "{name} $*" >> "{self.node_calls}"\nexit 127\n')
            program.chmod(0o755)

    def page_files(self) -> list[str]:
        """The files that the served page loads by itself; checks that each exists."""
        with httpx.Client(base_url=f"http://127.0.0.1:{self.port}", trust_env=False, timeout=60) as http:
            page = http.get("/")
            assert (page.status_code, page.headers["content-type"]) == (200, "text/html; charset=utf-8")
            files = re.findall(r'(?:src|href)="\./([^"]+)"', page.text)
            for name in files:
                assert http.get(f"/{name}").is_success, name
        return files

    def environ(self) -> dict[str, str]:
        own = {f"CITEWIRE_{name}_PORT": "0" for name in ("EMBEDDER", "RETRIEVER", "GENERATOR")}
        names = ("GATEWAY", "EMBEDDER", "RETRIEVER", "GENERATOR", "WORKER")
        own |= {f"CITEWIRE_{name}_METRICS_PORT": "0" for name in names}
        own |= {"CITEWIRE_GATEWAY_PORT": str(self.port), "HOME": str(self.home), "ARGS": ""}
        own |= {"PYTHONPYCACHEPREFIX": str(self._bytecode)}
        own |= {"PATH": f"{self._programs}{os.pathsep}{os.environ['PATH']}"}
        # Packages come from uv's cache: this environment was installed from it, so it has them.
        caches = {"UV_CACHE_DIR": os.environ.get("UV_CACHE_DIR") or str(Path("~/.cache/uv").expanduser())}
        interpreter = {"PYTHON": getattr(sys, "_base_executable", sys.executable)}
        # Otherwise the make that runs the tests would pass its own ARGS on.
        inherited = {name: value for name, value in os.environ.items() if name not in ("MAKEFLAGS", "MFLAGS")}
        return {**inherited, **own, **caches, **interpreter}

    def start(self, command: str) -> str:
        """Stops the previous stack and starts a new one; returns its output until it is ready."""
        self.stop()
        self.log.write_bytes(b"")
        with self.log.open("wb") as log:
            self._stack = subprocess.Popen(
                ["bash", "-c", command],
                cwd=self.clone, env=self.environ(), stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT,
                start_new_session=True,
            )  # fmt: skip
        deadline = time.monotonic() + START_SECONDS
        while READY not in (printed := self.log.read_text(errors="replace")):
            assert self._stack.poll() is None, printed
            assert time.monotonic() < deadline, printed
            time.sleep(0.05)  # new output sends no notification
        return printed

    def run(self, commands: str) -> str:
        """Runs the lines of one block in one shell, which stops at the first failure; returns their output."""
        # A hanging command is stopped from inside the shell, so that its output is known.
        script = f"set -eo pipefail\n{commands}"
        environ = {**self.environ(), "ARGS": TESTS}
        done = subprocess.run(
            ["timeout", f"{START_SECONDS:g}", "bash", "-c", script],
            cwd=self.clone, env=environ, stdin=subprocess.DEVNULL, capture_output=True, check=False,
        )  # fmt: skip
        # In separate pipes, as curl's progress and an answer arrive at the same time.
        printed = f"{done.stderr.decode(errors='replace')}\n{done.stdout.decode(errors='replace')}"
        assert done.returncode == 0, f"{commands}\nexit code {done.returncode}\n{printed}\n{self.logs()}"
        return printed

    def logs(self) -> str:
        """Returns the last lines of the stack's output and logs, for a failure's message."""
        files = [self.log, *sorted((self.clone / ".citewire" / "logs").glob("*"))]
        return "\n".join(
            f"== {file.name}\n{file.read_text(errors='replace')[-4000:]}" for file in files if file.is_file()
        )

    def stop(self) -> None:
        """Presses Ctrl-C in the stack's terminal: make and everything that it started receive the signal."""
        stack, self._stack = self._stack, None
        if stack is None:
            return
        os.killpg(stack.pid, signal.SIGINT)
        try:
            stack.wait(90)
        except subprocess.TimeoutExpired:
            os.killpg(stack.pid, signal.SIGKILL)
            raise
        assert "Everything is stopped." in self.log.read_text(errors="replace")


def _link_beside(source: Path, into: Path) -> None:
    """Links the bytecode beside a folder's modules into a separate folder, where Python looks for it."""
    for name, folders, files in os.walk(source):
        folders[:] = set(folders) - {".citewire-bench", "node_modules", ".git"}
        folder = Path(name)
        if folder.name == "__pycache__":
            target = into / folder.parent.relative_to(source)
            target.mkdir(parents=True, exist_ok=True)
            for file in files:
                with suppress(FileNotFoundError):  # another process was writing it under a temporary name
                    try:
                        (target / file).hardlink_to(folder / file)
                    except OSError:  # on another file system
                        shutil.copy2(folder / file, target)


def _free_port() -> int:
    """Returns a port that stays free while the stack restarts: the system gives it to no other process."""
    while True:
        port = random.randrange(20_000, 32_000)
        with socket.socket() as probe, suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port


def pattern_of(expected: str) -> re.Pattern[str]:
    """Returns the pattern for a block of output: `…` matches anything, the rest matches literally."""
    return re.compile(".*?".join(re.escape(part) for part in expected.rstrip("\n").split("…")), re.DOTALL)


@pytest.fixture
def newcomer(tmp_path: Path) -> Iterator[Newcomer]:
    newcomer = Newcomer(tmp_path)
    yield newcomer
    newcomer.stop()


@pytest.mark.timeout(1800)
@pytest.mark.system(program="curl", package="curl")
def test_every_command_of_the_first_hour(newcomer: Newcomer, proof: ProofScale) -> None:
    newcomer.clone_repository()
    newcomer.furnish()
    newcomer.forbid_node()
    for step in steps() if proof.full else fewer_starts(steps(), proof.random()):
        commands = step.commands.replace("127.0.0.1:8080", f"127.0.0.1:{newcomer.port}").replace("…", "no-key")
        printed = newcomer.start(commands) if step.starts else newcomer.run(commands)
        for expected in step.expected:
            pattern = pattern_of(expected.replace("127.0.0.1:8080", f"127.0.0.1:{newcomer.port}"))
            assert pattern.search(printed), (
                f"{step.page}: {step.commands}\nprinted:\n{printed}\nnot:\n{expected}\n{newcomer.logs()}"
            )
        if step.starts:
            # A page starts the stack with Ollama, which this machine lacks: the first request logs a warning, before
            # or after "ready".
            told = "".join(line for line in printed.splitlines(keepends=True) if "provider_unreachable" not in line)
            assert not re.search(r"\b(FATAL|ERROR|error|warning|Traceback)\b", told), printed
            assert {name.rpartition(".")[2] for name in newcomer.page_files()} >= {"js", "css"}
    assert not newcomer.node_calls.exists(), newcomer.node_calls.read_text()
